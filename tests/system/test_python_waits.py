"""`on_wait` and `stretch` of the SDK, against a real node: pools `board` (3 units) and `psu` (2)."""

import asyncio
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest
from node.lab import Lab, lab
from node.waiting import until, until_async
from system.runs import HOLDALL, all_free, environment

import holdall
from holdall import Why

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


class TooLong(Exception):
    """Of the caller's own."""


def test_a_blocking_claim_tells_in_its_own_thread_why_it_waits(node: Lab) -> None:
    url = f"unix://{node.socket}"
    told: list[tuple[Why, int]] = []

    with holdall.sync.connect(url, agent="ann") as ann, holdall.sync.connect(url, agent="bob") as bob:
        first, second = ann.lease("psu:1", reason="a"), ann.lease("psu:1", reason="b")

        def on_wait(why: Why) -> None:
            told.append((why, threading.get_ident()))
            held = {blocker.reason for blocker in why.blockers}
            if held == {"a", "b"}:
                first.release()
            elif held == {"b"}:
                second.release()

        with bob.lease("psu:2", on_wait=on_wait, wait=60):
            pass
    assert {thread for _, thread in told} == {threading.get_ident()}
    reasons = [{blocker.reason for blocker in why.blockers} for why, _ in told]
    assert reasons[0] == {"a", "b"}
    assert {"b"} in reasons
    assert all_free(node)


def test_c6_what_on_wait_raises_ends_the_claim(node: Lab) -> None:
    url = f"unix://{node.socket}"

    def enough(why: Why) -> None:
        raise TooLong(why.blockers[0].reason)

    with holdall.sync.connect(url) as hub:
        held = hub.lease("psu:2", reason="soak")
        with pytest.raises(TooLong, match="soak"):
            hub.lease("psu:1", on_wait=enough)
        until(lambda: not hub.queue(), "nobody is in line")
        held.release()
    assert all_free(node)


def test_in_asyncio_it_is_told_in_the_loop_and_what_it_raises_ends_the_claim(node: Lab) -> None:
    url = f"unix://{node.socket}"

    async def work() -> None:
        loop = asyncio.get_running_loop()
        told: list[Why] = []
        async with holdall.connect(url) as hub:
            held = await hub.lease("psu:2", reason="soak")

            def on_wait(why: Why) -> None:
                assert asyncio.get_running_loop() is loop
                told.append(why)

            async def wait() -> None:
                async with hub.lease("psu:1", on_wait=on_wait):
                    pass

            waiting = asyncio.create_task(wait())
            await until_async(lambda: told, "it is told that it waits")
            assert told[0].blockers[0].reason == "soak"

            def enough(why: Why) -> None:
                raise TooLong(why.blockers[0].reason)

            with pytest.raises(TooLong):
                await hub.lease("board:1", "psu:1", on_wait=enough)
            await held.release()
            await waiting
            assert await hub.queue() == ()

    asyncio.run(work())
    assert all_free(node)


def test_without_waiting_nothing_is_told(node: Lab) -> None:
    told: list[Why] = []
    with (
        holdall.sync.connect(f"unix://{node.socket}") as hub,
        hub.lease("psu:1", on_wait=told.append) as lease,
    ):
        assert not lease.is_view
        with hub.lease("psu:1", on_wait=told.append) as view:
            assert view.is_view
    assert told == []


def test_a_stretch_is_stopped_on_loss_and_gives_nothing_back(node: Lab) -> None:
    with holdall.sync.connect(f"unix://{node.socket}") as hub:
        lease = hub.lease("board:2")
        for _ in range(2):
            with lease.stretch(), hub.lease("board:1") as view:
                assert view.is_view
            assert len(hub.who()) == 1
        kick = [*HOLDALL, "kick", lease.info.lease, "--reason", "enough"]
        kicking = subprocess.Popen(
            kick, env=environment(node), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        with pytest.raises(holdall.LeaseLost, match="enough"), lease.stretch():
            until(lambda: time.sleep(0.01), "the stretch is stopped")
        with pytest.raises(holdall.LeaseLost), lease.stretch():
            pytest.fail("a lost lease begins no stretch")
        lease.release()
        assert kicking.wait(60) == 0
    assert all_free(node)
