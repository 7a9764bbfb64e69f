"""The asyncio face against a scripted node: grants and refusals, nested claims, changes, and what is not passed on."""

# ruff: noqa: PT012 - what a body does until it is cancelled is the test

import asyncio
import multiprocessing
import os
import pickle
import time

import pytest
from client.lease_script import FOREVER, answer_release, granted_lease, heard
from client.scripted_node import ScriptedNode

import holdall
from holdall.model import frames


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
        lease = await granted_lease(node, hub, ttl_ms=3_000)
        before = node.beats
        end = time.monotonic() + 30
        while node.beats < before + 5:  # the loop is blocked all the time, for longer than the ttl
            assert time.monotonic() < end
            time.sleep(0.01)  # noqa: ASYNC251 - blocking is what is tested
        lease.check()
        release = asyncio.ensure_future(answer_release(node))
        await lease.release()
        await release


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
        node.say(frames.Granted(extend.n, lease.key, lease.info, valid_for_ms=45_000, for_left_ms=1_800_000))
        await extending
        assert 44 < lease.seconds_left <= 45
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
