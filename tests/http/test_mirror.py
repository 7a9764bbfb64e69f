"""The live stream: a snapshot, changes, resuming, listeners that read too slowly, a node that is away."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from holdall.http import mirror as mirror_module
from holdall.http.mirror import LISTENERS_MAX, UNREAD_MAX, Event, Full, Mirror
from holdall.http.reading import Reading
from holdall.model import frames
from holdall.model.errors import Unreachable
from holdall.model.why import Why

NODE = frames.NodeRow("lab-1", 1, "1", 5, "serving", 0, 1, 2, 0, 0)


def pool(free: int) -> frames.PoolRow:
    return frames.PoolRow("psu", "lab-1", {}, "system", 2, free, 2 - free, 0, 0, ())


def lease(name: str, expires_ms: int = 100, renewing: bool = True) -> frames.LeaseView:
    return frames.LeaseView(
        name, "ci@lab-1", "ci", 1, "", "active", (), (), 5, 0, 30_000, None, expires_ms, renewing
    )


def wait(name: str) -> Why:
    return Why(name, "ci@lab-1", 1, 1, 1, 0, 0, 8, 8)


class Node(Reading):
    """A node whose listings a test sets; `talk` gives no history."""

    def __init__(self) -> None:
        super().__init__("")
        self.pools = (pool(2),)
        self.leases: tuple[frames.LeaseView, ...] = ()
        self.waits: tuple[Why, ...] = ()
        self.queue_told: asyncio.Event | None = None
        """Without it the queue is told at once."""
        self.is_away = False

    async def get(
        self, what: Any, since_ms: int | None = None, *, local: bool = False, arg: str = ""
    ) -> list[frames.Listing]:
        await asyncio.sleep(0)
        if self.is_away:
            raise Unreachable("no node answers")
        match what:
            case "pools":
                return [frames.Listing(1, pools=self.pools)]
            case "who":
                return [frames.Listing(1, leases=self.leases)]
            case "queue":
                if self.queue_told is not None:
                    await self.queue_told.wait()
                return [frames.Listing(1, waits=self.waits)]
            case "node":
                return [frames.Listing(1, nodes=(NODE,))]
            case _:
                return [frames.Listing(1)]

    async def talk(self) -> Any:
        raise Unreachable("no node answers")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_module, "LOOK_S", 0.001)
    monkeypatch.setattr(mirror_module, "AWAY_S", 0.001)


async def next_of(stream: AsyncIterator[Event]) -> tuple[str, dict[str, Any], str]:
    async with asyncio.timeout(5):
        event = await anext(stream)
    return event.name, json.loads(event.data), event.id


def run(test: Callable[[Node, Mirror], Awaitable[None]]) -> None:
    async def whole() -> None:
        node = Node()
        mirror = Mirror(node, "lab-1")
        try:
            await test(node, mirror)
        finally:
            mirror.close()
            await asyncio.sleep(0)

    asyncio.run(whole())


def test_a_snapshot_then_only_what_has_changed() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        stream = mirror.events("")
        name, data, _ = await next_of(stream)
        assert (name, data["totals"]["free"], data["pools"][0]["id"]) == ("snapshot", 2, "psu@lab-1")
        node.pools = (pool(1),)
        node.leases = (lease("L1"),)
        name, data, _ = await next_of(stream)
        while "leases" not in data:  # two looks may have seen one each
            name, data, _ = await next_of(stream)
        assert name == "change"
        assert data["leases"] == {"put": [json.loads(msgspec.json.encode(lease("L1")))], "drop": []}
        assert data["totals"]["free"] == 1
        assert "nodes" not in data
        node.leases = ()
        _, data, _ = await next_of(stream)
        assert data["leases"] == {"put": [], "drop": ["L1"]}
        assert "pools" not in data

    run(test)


def test_a_renewal_is_no_news_but_the_end_of_renewals_is() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        node.leases = (lease("L1", 100),)
        stream = mirror.events("")
        await next_of(stream)
        node.leases = (lease("L1", 200),)
        for _ in range(50):
            await asyncio.sleep(0.001)
        node.leases = (lease("L1", 200, renewing=False),)
        _, data, _ = await next_of(stream)
        assert [(row["expires_ms"], row["renewing"]) for row in data["leases"]["put"]] == [(200, False)]

    run(test)


def test_who_comes_back_is_told_what_was_missed_or_all_anew() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        stays, leaves = mirror.events(""), mirror.events("")
        await next_of(stays)
        _, _, mark = await next_of(leaves)
        await leaves.aclose()  # type: ignore[attr-defined]
        node.leases = (lease("L1"),)
        _, change, number = await next_of(stays)
        assert mirror.knows(mark)
        again = mirror.events(mark)
        assert await next_of(again) == ("change", change, number)
        for unknown in ("", "x", "x-1", f"{mark}9", mark.partition("-")[0] + "-99999", "-", "é-1"):
            name, _, _ = await next_of(mirror.events(unknown))
            assert name == "snapshot"

    run(test)


def test_a_node_that_is_away_is_told_once_and_its_return_brings_a_snapshot() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        stream = mirror.events("")
        await next_of(stream)
        node.is_away = True
        assert (await next_of(stream))[:2] == ("unreachable", {"v": 1, "text": "no node answers"})
        node.is_away = False
        name, _, mark = await next_of(stream)
        assert (name, mark != "") == ("snapshot", True)

    run(test)


def test_a_listener_that_reads_too_slowly_is_cut_off_and_the_others_go_on() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        slow, quick = mirror.events(""), mirror.events("")
        await next_of(slow)
        await next_of(quick)
        for number in range(UNREAD_MAX + 5):
            node.leases = (lease(f"L{number}"),)
            await next_of(quick)
        read = 0
        async for _ in slow:
            read += 1
        assert read == UNREAD_MAX
        assert mirror.listeners == 1

    run(test)


def test_there_are_not_endlessly_many_listeners() -> None:
    async def test(node: Node, mirror: Mirror) -> None:
        streams = [mirror.events("") for _ in range(LISTENERS_MAX)]
        for stream in streams:
            await next_of(stream)
        with pytest.raises(Full):
            await next_of(mirror.events(""))
        await streams[0].aclose()  # type: ignore[attr-defined]
        assert (await next_of(mirror.events("")))[0] == "snapshot"

    run(test)


def test_a_grant_is_shown_before_a_long_queue_is_told() -> None:
    """The answer that comes late is shown when it is there, and a claim that has been granted waits no longer."""

    async def body(node: Node, mirror: Mirror) -> None:
        exchanging = msgspec.structs.replace(wait("c2"), since_ms=6)
        node.leases, node.waits = (lease("c2"),), (wait("c1"), exchanging)
        stream = mirror.events("")
        _, first, _ = await next_of(stream)
        assert [row["claim"] for row in first["waiting"]] == ["c1", "c2"]
        node.queue_told = asyncio.Event()
        node.leases, node.waits = (lease("c1"), lease("c2")), (exchanging, wait("c3"))
        _, change, _ = await next_of(stream)
        assert [row["lease"] for row in change["leases"]["put"]] == ["c1"]
        assert change["waiting"] == {"put": [], "drop": ["c1"]}
        node.queue_told.set()
        _, change, _ = await next_of(stream)
        assert [row["claim"] for row in change["waiting"]["put"]] == ["c3"]
        assert "leases" not in change

    run(body)
