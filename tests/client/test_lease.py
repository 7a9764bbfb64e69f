"""The asyncio face against a scripted node: grants, loss, cancellation in every moment, nested claims, breaks."""

# ruff: noqa: PT012 - what a body does until it is cancelled is the test

import asyncio
import multiprocessing
import os
import pickle
import time
from collections.abc import Iterator
from typing import TypeVar

import pytest
from client.scripted_node import SECRET, ScriptedNode, lease_view

import holdall
from holdall.model import frames

Frame = TypeVar("Frame")
FOREVER = 3_600


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


async def heard(node: ScriptedNode, kind: type[Frame]) -> Frame:
    return await asyncio.to_thread(node.hear, kind)


async def answer_release(node: ScriptedNode) -> frames.Release:
    release = await heard(node, frames.Release)
    node.say(frames.Released(release.n, lease_view().lease, "released"))
    return release


async def granted_lease(
    node: ScriptedNode, hub: holdall.Hub, ttl_ms: int = 30_000, **more: object
) -> holdall.Lease:
    asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
    node.grant(await heard(node, frames.Claim), lease_view(ttl_ms=ttl_ms), **more)
    return await asking


async def test_a_lease_has_its_units_and_fences_and_is_given_back_at_the_end_of_the_body(
    node: ScriptedNode,
) -> None:
    async with holdall.connect(node.url) as hub:
        assert hub.node == "lab-1"
        lease = await granted_lease(node, hub)
        async with lease:
            assert lease.units["gpu"] == [holdall.Unit(name="gpu-0", node="lab-1", fence=5)]
            assert lease.id == "7K4M-Q2"
            assert lease.seconds_left > 29
            release = asyncio.ensure_future(answer_release(node))
        assert (await release).key == lease.key
        assert (await lease.release()).what == "already released"
        with pytest.raises(holdall.NotHolder, match="was given back"):
            lease.check()
    assert node.hears_nothing_more()


async def test_the_claim_says_who_what_how_long_and_where(node: ScriptedNode) -> None:
    async with holdall.connect(node.url, agent="ci@runner-4") as hub:
        asking = asyncio.ensure_future(
            hub.lease(
                holdall.any_of("gpu:2", "tpu:1"), "psu", wait="10m", ttl=20, hold_for="2h", reason="hil"
            )._acquire()
        )
        claim = await heard(node, frames.Claim)
        assert node.hellos[0].agent == "ci@runner-4"
        assert [len(need.options) for need in claim.needs] == [2, 1]
        assert (claim.wait_ms, claim.ttl_ms, claim.for_ms, claim.reason) == (
            600_000,
            20_000,
            7_200_000,
            "hil",
        )
        assert "test_lease.py:" in claim.site
        node.say(frames.Denied(claim.n, "never", "cannot ever be granted: gpu:2"))
        with pytest.raises(holdall.NeverSatisfiable, match="cannot ever be granted") as raised:
            await asking
        assert raised.value.definite


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("not-granted", holdall.NotGranted),
        ("never", holdall.NeverSatisfiable),
        ("refused", holdall.Refused),
        ("would-deadlock", holdall.WouldDeadlock),
        ("bad-spec", holdall.BadSpec),
        ("unreachable", holdall.Unreachable),
    ],
)
async def test_each_refusal_is_an_error_of_its_own_class(
    node: ScriptedNode, code: str, kind: type[holdall.HoldallError]
) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
        claim = await heard(node, frames.Claim)
        node.say(frames.Denied(claim.n, code, "no", definite=False))
        with pytest.raises(kind, match="no") as raised:
            await asking
        assert not raised.value.definite


async def test_try_lease_gives_none_when_it_is_not_free_now(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.try_lease("gpu:1"))
        claim = await heard(node, frames.Claim)
        assert claim.now
        node.say(frames.Denied(claim.n, "not-granted", "busy"))
        assert await asking is None


async def test_renewal_does_not_depend_on_the_loop(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=600)
        before = node.beats
        end = time.monotonic() + 20
        while node.beats < before + 6:  # the loop is blocked all the time, for longer than the ttl
            assert time.monotonic() < end
            time.sleep(0.01)  # noqa: ASYNC251 - blocking is what is tested
        lease.check()
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


# ---------------------------------------------------------------- loss


async def test_the_body_is_cancelled_on_loss_and_lease_lost_comes_out(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        with pytest.raises(holdall.LeaseLost, match="lease 7K4M-Q2 lost: taken away"):
            async with lease:
                node.say(frames.Lost(lease.info.lease, "taken away"))
                await asyncio.sleep(FOREVER)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
    assert node.hears_nothing_more()


async def test_a_revoked_lease_is_confirmed_by_a_release_when_the_body_has_ended(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        order: list[str] = []
        release = asyncio.ensure_future(answer_release(node))
        release.add_done_callback(lambda _: order.append("released"))
        with pytest.raises(holdall.LeaseLost):
            async with lease:
                node.say(frames.Lost(lease.info.lease, "needed", stop=True))
                try:
                    await asyncio.sleep(FOREVER)
                finally:
                    order.append("stopped")
        await release
        await asyncio.sleep(0)
        assert order == ["stopped", "released"]


async def test_c8_a_deadline_that_passes_cancels_the_body_before_it_goes_on(node: ScriptedNode) -> None:
    node.answers_beats = False
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=600, valid_for_ms=500)
        went_on = False
        with pytest.raises(holdall.LeaseLost, match=r"no renewal confirmed for 600 ms\. Fence 5 is void"):
            async with lease:
                time.sleep(0.6)  # noqa: ASYNC251 - stands for SIGSTOP: nothing of this process runs
                await asyncio.sleep(0)  # the timers that are due come first
                await asyncio.sleep(0)
                went_on = True
        assert not went_on
        with pytest.raises(holdall.LeaseLost):
            _ = lease.units


async def test_c8_each_use_looks_at_the_clock(node: ScriptedNode) -> None:
    node.answers_beats = False
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=600, valid_for_ms=300)
        time.sleep(0.31)  # noqa: ASYNC251
        with pytest.raises(holdall.LeaseLost):
            lease.check()
        assert lease.lost.is_set() or lease.loss is not None


async def test_with_event_the_body_goes_on_and_hears_of_it(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1", on_loss="event")._acquire())
        node.grant(await heard(node, frames.Claim))
        async with await asking as lease:
            node.say(frames.Lost(lease.info.lease, "taken away"))
            await lease.lost.wait()
            await asyncio.sleep(0)
            assert "taken away" in str(lease.loss)


async def test_somebody_elses_cancellation_is_not_turned_into_lease_lost(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)

        async def body() -> None:
            async with lease:
                await asyncio.sleep(FOREVER)

        task = asyncio.ensure_future(body())
        release = asyncio.ensure_future(answer_release(node))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await release


async def test_an_error_of_the_body_comes_out_as_it_is(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        release = asyncio.ensure_future(answer_release(node))
        with pytest.raises(ZeroDivisionError):
            async with lease:
                _ = 1 / 0
        await release


async def test_leases_that_a_beat_does_not_confirm_are_lost(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=600)
        node.valid_for.clear()
        with pytest.raises(holdall.LeaseLost, match="the node has ended it"):
            async with lease:
                await asyncio.sleep(FOREVER)


# ---------------------------------------------------------------- cancelled while waiting


async def test_c6_a_cancelled_claim_is_cancelled_at_the_node(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("a", "b", "c")._acquire())
        claim = await heard(node, frames.Claim)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        cancel = await heard(node, frames.Cancel)
        assert cancel.claim == f"#{claim.n}"
        node.say(frames.Released(cancel.n, "", "cancelled"))


async def test_c6_a_grant_that_crosses_the_cancellation_is_given_back(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("a")._acquire())
        claim = await heard(node, frames.Claim)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        cancel = await heard(node, frames.Cancel)
        granted = node.grant(claim)  # sent before the node had read the Cancel
        assert (await answer_release(node)).key == granted.key
        node.say(frames.Released(cancel.n, "", "already ended"))


async def test_c7_cancelled_in_the_turn_in_which_the_grant_arrives_nothing_stays_held(
    node: ScriptedNode,
) -> None:
    async with holdall.connect(node.url) as hub:
        request = hub.lease("a")
        asking = asyncio.ensure_future(request._acquire())
        claim = await heard(node, frames.Claim)
        granted = node.grant(claim)
        link = hub._link
        end = time.monotonic() + 20
        while not link.tenures:  # the grant is here, the loop has not run since
            assert time.monotonic() < end
            time.sleep(0.001)  # noqa: ASYNC251
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await answer_release(node)).key == granted.key


async def test_c7_a_time_limit_ends_the_claim(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05), hub.lease("a"):
                pytest.fail("it was not granted")
        await heard(node, frames.Claim)
        cancel = await heard(node, frames.Cancel)
        node.say(frames.Released(cancel.n, "", "cancelled"))


async def test_c7_a_task_group_that_fails_ends_the_claims_of_its_tasks(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:

        async def claims() -> None:
            async with hub.lease("a"):
                pytest.fail("it was not granted")

        async def fails() -> None:
            await heard(node, frames.Claim)
            raise ZeroDivisionError

        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(claims())
                group.create_task(fails())
        assert [type(problem) for problem in raised.value.exceptions] == [ZeroDivisionError]
        cancel = await heard(node, frames.Cancel)
        node.say(frames.Released(cancel.n, "", "cancelled"))


async def test_release_goes_out_although_its_caller_is_cancelled(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        releasing = asyncio.ensure_future(lease.release())
        release = await heard(node, frames.Release)
        releasing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await releasing
        node.say(frames.Released(release.n, lease.info.lease, "released"))


# ---------------------------------------------------------------- nested


async def test_c17_a_claim_inside_a_lease_names_it_and_a_view_is_not_released(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        outer = await granted_lease(node, hub)
        async with outer:
            asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
            claim = await heard(node, frames.Claim)
            assert claim.under == outer.key
            node.grant(claim, view=True)
            async with await asking as view:
                assert view.units == outer.units
            assert node.hears_nothing_more()
            outer.check()
            release = asyncio.ensure_future(answer_release(node))
        await release


async def test_c17_a_view_is_lost_with_its_lease(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        outer = await granted_lease(node, hub)
        with pytest.raises(holdall.LeaseLost):
            async with outer:
                asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
                node.grant(await heard(node, frames.Claim), view=True)
                async with await asking as view:
                    node.say(frames.Lost(outer.info.lease, "taken away"))
                    try:
                        await asyncio.sleep(FOREVER)
                    finally:
                        with pytest.raises(holdall.LeaseLost):
                            view.check()


async def test_c17_tasks_started_in_the_body_are_in_it_and_code_after_it_is_not(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        outer = await granted_lease(node, hub)
        async with outer:
            asking = asyncio.create_task(hub.lease("b")._acquire())  # a task takes the context with it
            claim = await heard(node, frames.Claim)
            assert claim.under == outer.key
            node.say(frames.Denied(claim.n, "would-deadlock", "you already hold gpu-0"))
            with pytest.raises(holdall.WouldDeadlock):
                await asking
            release = asyncio.ensure_future(answer_release(node))
        await release
        asking = asyncio.create_task(hub.lease("b")._acquire())
        claim = await heard(node, frames.Claim)
        assert claim.under == ""
        node.say(frames.Denied(claim.n, "not-granted", "busy"))
        with pytest.raises(holdall.NotGranted):
            await asking


async def test_c17_a_child_process_counts_as_the_holder_whose_key_it_inherits(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_LEASE", "inherited-key")
    async with holdall.connect(node.url) as hub:
        for independent, under in ((False, "inherited-key"), (True, "")):
            asking = asyncio.create_task(hub.lease("b", independent=independent)._acquire())
            claim = await heard(node, frames.Claim)
            assert (claim.under, claim.independent) == (under, independent)
            node.say(frames.Denied(claim.n, "not-granted", "busy"))
            with pytest.raises(holdall.NotGranted):
                await asking


# ---------------------------------------------------------------- changing a lease


async def test_extend_counts_from_before_its_request(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, for_left_ms=5_000)
        assert lease.seconds_left <= 5
        extending = asyncio.ensure_future(lease.extend("30m"))
        extend = await heard(node, frames.Extend)
        assert extend.for_ms == 1_800_000
        node.say(frames.Granted(extend.n, lease.key, lease.info, valid_for_ms=29_000, for_left_ms=1_800_000))
        await extending
        assert 28 < lease.seconds_left <= 29
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


async def test_exchange_names_units_and_keeps_everything_when_it_is_refused(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        swapping = asyncio.ensure_future(lease.exchange(add="psu:1", drop="gpu"))
        exchange = await heard(node, frames.Exchange)
        assert exchange.drop == ("gpu/gpu-0",)
        node.say(frames.Denied(exchange.n, "not-granted", "not possible now"))
        with pytest.raises(holdall.NotGranted):
            await swapping
        assert [unit.name for unit in lease.units["gpu"]] == ["gpu-0"]
        with pytest.raises(holdall.BadSpec, match=r"holds no psu\. It holds: gpu/gpu-0"):
            await lease.drop("psu")
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


# ---------------------------------------------------------------- a node that goes and comes back


async def test_c1_after_a_restart_the_lease_goes_on_in_the_same_session(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        node.go_away()
        node.listen()
        await asyncio.to_thread(node.hear_beat)
        assert node.hellos[1].session == "session-1"
        assert node.hellos[1].secret == SECRET
        lease.check()
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


async def test_a_waiting_claim_is_repeated_with_its_number_and_the_rest_of_its_wait(
    node: ScriptedNode,
) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1", wait="10m")._acquire())
        first = await heard(node, frames.Claim)
        node.go_away()
        node.listen()
        again = await heard(node, frames.Claim)
        assert again.n == first.n
        assert again.wait_ms is not None
        assert 590_000 < again.wait_ms <= 600_000
        assert (first.asked_wait_ms, again.asked_wait_ms) == (None, 600_000)
        node.grant(again)
        lease = await asking
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


async def test_a_session_that_is_forgotten_attaches_its_leases_by_key(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        node.resumes = False
        node.go_away()
        node.listen()
        attach = await heard(node, frames.Attach)
        assert attach.key == lease.key
        with pytest.raises(holdall.LeaseLost, match="no such lease"):
            async with lease:
                node.say(frames.Denied(attach.n, "not-holder", "no such lease."))
                await asyncio.sleep(FOREVER)


async def test_an_exchange_under_way_in_a_break_has_an_unknown_outcome(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        swapping = asyncio.ensure_future(lease.exchange(add="psu:1", drop="gpu"))
        await heard(node, frames.Exchange)
        node.go_away()
        node.listen()
        with pytest.raises(holdall.Unreachable) as raised:
            await swapping
        assert not raised.value.definite
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


async def test_without_a_node_the_error_names_the_next_step(node: ScriptedNode) -> None:
    node.go_away()
    with pytest.raises(holdall.Unreachable, match="Start one: holdall serve") as raised:
        async with holdall.connect(node.url):
            pass
    assert raised.value.definite


async def test_closing_the_hub_gives_back_what_is_still_held(node: ScriptedNode) -> None:
    hub = await holdall.connect(node.url).open()
    lease = await granted_lease(node, hub)
    release = asyncio.ensure_future(answer_release(node))
    await hub.close()
    assert (await release).key == lease.key
    with pytest.raises(holdall.Unreachable, match="not open"):
        hub.lease("gpu")


# ---------------------------------------------------------------- passing on


async def test_neither_hub_nor_lease_is_pickled(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        with pytest.raises(TypeError, match=r"pass lease\.key on"):
            pickle.dumps(lease)
        with pytest.raises(TypeError, match="a hub is not pickled"):
            pickle.dumps(hub)
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


def _use_in_child(hub: holdall.Hub, answers: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        hub._link.ask("who")
    except holdall.NotHolder as problem:
        answers.put(str(problem))
    else:
        answers.put("it was let through")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_a_fork_can_not_use_the_hub_and_does_not_hold_its_connection_open(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub)
        context = multiprocessing.get_context("fork")
        answers: multiprocessing.SimpleQueue[str] = context.SimpleQueue()
        child = context.Process(target=_use_in_child, args=(hub, answers))
        child.start()
        said = await asyncio.to_thread(answers.get)
        await asyncio.to_thread(child.join)
        assert f"belongs to process {os.getpid()}" in said
        lease.check()
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release
