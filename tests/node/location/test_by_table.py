"""Whose word counts, the table's or that of the first node: by hand, with a clock that is moved by hand."""

import asyncio
from collections.abc import Coroutine

from holdall.node.location.by_table import TableOrFirst
from holdall.node.location.leadership import DOUBT_MS, FirstNode, Told


class Table:
    """A table whose word and whose faults the test decides."""

    problem = ""

    def __init__(self) -> None:
        self.heard: list[int] = []
        self.told: Told | None = None

    async def open(self, told: Told) -> None:
        self.told = told

    def seen(self, epoch: int) -> None:
        self.heard.append(epoch)

    async def close(self) -> None:
        self.told = None

    def says(self, node: str, epoch: int) -> None:
        assert self.told is not None
        self.told(node, epoch)


class Case:
    """Node b, which hears a and c."""

    def __init__(self) -> None:
        self.there = ["a", "c"]
        self.now_ms = 0
        self.table = Table()
        self.silent = ""
        self.first = FirstNode(
            "b", lambda: self.there, silent=lambda: self.silent, clock_ms=lambda: self.now_ms
        )
        self.told: list[tuple[str, int]] = []
        self.part = TableOrFirst(
            "b",
            self.table,
            self.first,
            heard=lambda: self.there,
            doubts=self.first.doubts,
            patience_ms=5_000,
            clock_ms=lambda: self.now_ms,
        )

    async def open(self) -> None:
        await self.part.open(lambda node, epoch: self.told.append((node, epoch)))

    def at(self, now_ms: int, problem: str = "") -> None:
        """Look, as it does each second."""
        self.now_ms, self.table.problem = now_ms, problem
        self.first.look()
        self.part.look()


def run(scene: Coroutine[None, None, None]) -> None:
    asyncio.run(scene)


def test_the_table_says_who_leads_and_the_first_node_nothing() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        assert case.told == []
        case.table.says("c", 7)
        case.there = ["c"]
        for second in range(20):
            case.at(second * 1_000)
        assert case.told == [("c", 7)]
        await case.part.close()

    run(scene())


def test_a_table_that_is_out_of_reach_is_believed_while_its_leader_is_heard() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        case.table.says("c", 7)
        for second in range(20):
            case.at(second * 1_000, "no server")
        assert case.told == [("c", 7)]
        # And when the leader is gone, too, the first node of those that are heard leads: here another one, with its own epoch.
        case.there = ["a"]
        case.at(20_000, "no server")
        assert case.told == [("c", 7), ("a", 0)]
        await case.part.close()

    run(scene())


def test_a_leader_that_does_not_answer_is_believed_gone_before_the_directory_knows_it() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        case.table.says("a", 7)
        case.silent = "a"
        case.at(4_000)
        assert case.told == [("a", 7)], "while the table can be read its word counts"
        case.at(5_000, "no server")
        # This node's host has a manager that answers by the time at which the table has been away for long enough.
        case.silent = ""
        case.at(10_000, "no server")
        assert [node for node, _ in case.told] == ["a", "b"]
        case.at(5_000 + DOUBT_MS - 1, "no server")
        assert len(case.told) == 2
        case.at(5_000 + DOUBT_MS, "no server")
        assert case.told[-1] == ("a", 7), "it is heard, and nothing says that it does not answer"
        await case.part.close()

    run(scene())


def test_without_table_and_leader_the_first_node_leads_with_a_higher_epoch_until_the_table_is_back() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        high = 10**16
        case.table.says("a", high)
        case.there = ["c"]
        case.at(1_000, "no server")
        case.at(5_999, "no server")
        assert case.told == [("a", high)]
        case.at(6_000, "no server")
        assert case.told == [("a", high), ("b", high + 1)]
        case.part.seen(high + 5)
        assert case.told[-1] == ("b", high + 6)
        assert case.table.heard == [high + 5]
        case.at(7_000)
        assert case.told[-1] == ("a", high)
        case.table.says("b", high + 7)
        assert case.told[-1] == ("b", high + 7)
        await case.part.close()
        assert case.table.told is None

    run(scene())


def test_a_node_that_leads_by_the_table_goes_on_while_it_is_out_of_reach() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        case.table.says("b", 7)
        case.there = ["a"]
        for second in range(20):
            case.at(second * 1_000, "no server")
        assert case.told == [("b", 7)]
        await case.part.close()

    run(scene())


def test_servers_without_a_table_leave_it_to_the_first_node() -> None:
    async def scene() -> None:
        case = Case()
        await case.open()
        case.at(0, "this server has no JetStream")
        case.at(5_000, "this server has no JetStream")
        assert case.told == [("a", 0)]
        await case.part.close()

    run(scene())


def test_who_leaves_heartbeats_unanswered_is_passed_over_until_the_directory_must_know() -> None:
    there, silent, now_ms = ["a", "c"], "", 0
    told: list[tuple[str, int]] = []
    first = FirstNode("b", lambda: there, silent=lambda: silent, clock_ms=lambda: now_ms)

    async def scene() -> None:
        nonlocal silent, now_ms
        await first.open(lambda node, epoch: told.append((node, epoch)))
        silent = "a"
        first.look()
        # The host has another manager then, which answers; the dead one is heard of for a while yet.
        silent, now_ms = "", DOUBT_MS - 1
        first.look()
        assert [node for node, _ in told] == ["a", "b"]
        assert told[-1][1] > 0
        now_ms = DOUBT_MS
        first.look()
        assert [node for node, _ in told] == ["a", "b", "a"]
        await first.close()

    run(scene())
