"""The asyncio face when a lease is lost, and when the node goes: what ends the body, and what outlives a break."""

# ruff: noqa: PT012 - what a body does until it is cancelled is the test

import asyncio
import time

import pytest
from client.lease_script import FOREVER, answer_release, granted_lease, heard
from client.scripted_node import SECRET, ScriptedNode, lease_view

import holdall
from holdall.model import frames


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
        lease = await granted_lease(node, hub, ttl_ms=6_000, valid_for_ms=3_000)
        went_on = False
        with pytest.raises(holdall.LeaseLost, match=r"no renewal confirmed for 6 s\. Fence 5 is void"):
            async with lease:
                time.sleep(3.1)  # noqa: ASYNC251 - stands for SIGSTOP: nothing of this process runs
                await asyncio.sleep(0)  # the timers that are due come first
                await asyncio.sleep(0)
                went_on = True
        assert not went_on
        with pytest.raises(holdall.LeaseLost):
            _ = lease.units


async def test_c8_each_use_looks_at_the_clock(node: ScriptedNode) -> None:
    node.answers_beats = False
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=6_000, valid_for_ms=2_000)
        time.sleep(2.1)  # noqa: ASYNC251
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
        lease = await granted_lease(node, hub, ttl_ms=6_000)
        node.valid_for.clear()
        with pytest.raises(holdall.LeaseLost, match="the node has ended it"):
            async with lease:
                await asyncio.sleep(FOREVER)


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


async def test_when_the_node_lets_nobody_in_any_more_requests_end_and_a_lease_lasts_as_long_as_it_would(
    node: ScriptedNode,
) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=4_000, valid_for_ms=4_000)
        waiting = asyncio.ensure_future(hub.lease("gpu"))
        await heard(node, frames.Claim)
        node.greets = False
        node.break_off()
        await asyncio.to_thread(node.wait_for_hello, 2)
        node.say(frames.Denied(0, "refused", "the token was ended", definite=False))
        node.break_off()
        with pytest.raises(holdall.Refused, match="the token was ended") as refused:
            await waiting
        assert not refused.value.definite
        assert lease.units  # nothing is lost before its time
        with pytest.raises(
            holdall.LeaseLost, match=r"no renewal confirmed for 4 s \(the token was ended\)\."
        ):
            async with lease:
                await asyncio.sleep(FOREVER)


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


async def until(node: ScriptedNode, beats: int) -> float:
    """When the node has answered so many Beats."""
    while node.beats < beats:  # noqa: ASYNC110 - another thread counts
        await asyncio.sleep(0.01)
    return time.monotonic()


async def test_a_node_that_waits_for_others_neither_ends_a_lease_nor_makes_it_longer(
    node: ScriptedNode,
) -> None:
    """It has come up again (-1): what it confirmed before counts on, and it is asked again soon, not at once."""
    async with holdall.connect(node.url) as hub:
        lease = await granted_lease(node, hub, ttl_ms=3_000, valid_for_ms=60_000)
        node.valid_for = {lease_view().lease: -1}
        before_ms = lease._tenure.deadline_ms
        began = await until(node, 1)
        assert 0.4 < await until(node, 4) - began < 20
        assert lease._tenure.deadline_ms == before_ms
        lease.check()
        node.valid_for = {lease_view().lease: 90_000}
        await until(node, node.beats + 2)
        assert lease._tenure.deadline_ms > before_ms
        node.valid_for = {}
        await lease.lost.wait()
