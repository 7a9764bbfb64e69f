"""The asyncio face when its caller is cancelled, in every moment of a claim or a release: nothing stays held."""

# ruff: noqa: PT012 - what a body does until it is cancelled is the test

import asyncio
import time

import pytest
from client.lease_script import answer_release, granted_lease, heard
from client.scripted_node import ScriptedNode

import holdall
from holdall.model import frames


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
