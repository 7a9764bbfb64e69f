"""A node that was away or slow must not be left with leases that nobody holds, nor lose those that somebody does."""

import asyncio

import pytest
from client.scripted_node import ScriptedNode, lease_view

import holdall
from holdall.client import trouble
from holdall.model import frames

OTHER = lease_view("5555XX" + "0" * 20, pool="psu", fence=9)


async def held(node: ScriptedNode, hub: holdall.Hub, view: frames.LeaseView, **more: object) -> holdall.Lease:
    asking = asyncio.ensure_future(hub.lease("gpu:1", on_loss="event")._acquire())
    claim = await asyncio.to_thread(node.hear, frames.Claim)
    node.grant(claim, view, **more)
    return await asking


async def test_c1_a_release_that_could_not_be_told_is_told_when_the_node_is_back(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trouble, "AWAY_MS_MAX", 1)
    async with holdall.connect(node.url) as hub:
        lease = await held(node, hub, lease_view())
        other = await held(node, hub, OTHER)
        node.go_away()
        assert (await lease.release()).what.startswith("not confirmed")
        node.listen()
        again = await asyncio.to_thread(node.hear, frames.Release)
        assert again.key == lease.key
        node.say(frames.Released(again.n, lease.id, "released"))
        assert other.loss is None
        release = asyncio.ensure_future(asyncio.to_thread(node.hear, frames.Release))
        closing = asyncio.ensure_future(hub.close())
        last = await release
        assert last.key == other.key
        node.say(frames.Released(last.n, other.id, "released"))
        await closing


async def test_c8_a_lease_that_is_over_by_our_clock_is_given_back_though_the_session_lives_on(
    node: ScriptedNode,
) -> None:
    node.answers_beats = False
    async with holdall.connect(node.url) as hub:
        other = await held(node, hub, OTHER)
        lease = await held(node, hub, lease_view(ttl_ms=6_000), valid_for_ms=2_000)
        await lease.lost.wait()
        again = await asyncio.to_thread(node.hear, frames.Release)
        assert again.key == lease.key
        assert other.loss is None
        node.say(frames.Released(again.n, lease.id, "released"))
        node.go_away()


async def test_c6_a_claim_given_up_while_the_node_was_away_is_cancelled_when_it_is_back(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trouble, "AWAY_CLAIM_MS_MAX", 1)
    monkeypatch.setattr(trouble, "AWAY_MS_MAX", 1)
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1")._acquire())
        claim = await asyncio.to_thread(node.hear, frames.Claim)
        node.go_away()
        with pytest.raises(holdall.Unreachable):
            await asking
        node.listen()
        cancel = await asyncio.to_thread(node.hear, frames.Cancel)
        assert cancel.claim == f"#{claim.n}"
        node.say(frames.Released(cancel.n, "", "cancelled"))


async def test_an_answer_that_comes_too_late_ends_no_lease(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await held(node, hub, lease_view())
        monkeypatch.setattr("holdall.client.link.ANSWER_MS_MAX", 1_000)
        with pytest.raises(holdall.Unreachable):
            await lease.extend("1h")
        extend = await asyncio.to_thread(node.hear, frames.Extend)
        node.say(frames.Granted(extend.n, lease.key, lease_view(fence=6), 30_000, None))
        node.say(frames.Granted(extend.n + 100, "key-of-an-outer-lease", OTHER, 30_000, None, view=True))
        monkeypatch.undo()
        asking = asyncio.ensure_future(hub.pools())
        ask = await asyncio.to_thread(node.hear, frames.Ask)
        node.say(frames.Listing(ask.n))
        await asking
        assert lease.loss is None
        assert lease.units["gpu"][0].fence == 6
        assert node.hears_nothing_more()
        node.go_away()


async def test_c17_a_view_is_asked_for_again_from_a_node_that_was_started_again(
    node: ScriptedNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_LEASE", "key-of-an-outer-lease")
    node.resumes = False
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1", on_loss="event")._acquire())
        first = await asyncio.to_thread(node.hear, frames.Claim)
        node.grant(first, view=True, key=first.under)
        view = await asking
        node.go_away()
        node.listen()
        again = await asyncio.to_thread(node.hear, frames.Claim)
        assert (again.under, again.needs) == (first.under, first.needs)
        node.grant(again, lease_view(fence=7), view=True, key=first.under)
        asking_again = asyncio.ensure_future(hub.pools())
        ask = await asyncio.to_thread(node.hear, frames.Ask)
        node.say(frames.Listing(ask.n))
        await asking_again
        assert view.loss is None
        assert view.units["gpu"][0].fence == 7


async def test_c8_a_grant_that_is_over_when_it_comes_is_confirmed_before_it_is_used(
    node: ScriptedNode,
) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1", wait="10m")._acquire())
        claim = await asyncio.to_thread(node.hear, frames.Claim)
        late = node.grant(claim, valid_for_ms=0)
        attach = await asyncio.to_thread(node.hear, frames.Attach)
        assert attach.key == late.key
        assert not asking.done()
        node.grant(attach)
        lease = await asking
        assert lease.loss is None
        assert lease.seconds_left > 20
        node.go_away()


async def test_a_late_grant_that_has_been_lost_meanwhile_is_asked_for_again(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        asking = asyncio.ensure_future(hub.lease("gpu:1", wait="10m")._acquire())
        node.grant(await asyncio.to_thread(node.hear, frames.Claim), valid_for_ms=0)
        attach = await asyncio.to_thread(node.hear, frames.Attach)
        node.say(frames.Denied(attach.n, "not-holder", "it has ended."))
        again = await asyncio.to_thread(node.hear, frames.Claim)
        node.grant(again, OTHER)
        lease = await asking
        assert lease.units["psu"][0].fence == 9
        node.go_away()


async def test_dropping_all_that_is_left_is_a_release(node: ScriptedNode) -> None:
    async with holdall.connect(node.url) as hub:
        lease = await held(node, hub, lease_view())
        dropping = asyncio.ensure_future(lease.drop("gpu"))
        drop = await asyncio.to_thread(node.hear, frames.Drop)
        node.say(frames.Released(drop.n, lease.id, "released"))
        await dropping
        assert (await lease.release()).what == "already released"
        with pytest.raises(holdall.NotHolder):
            lease.check()
    assert node.hears_nothing_more()
