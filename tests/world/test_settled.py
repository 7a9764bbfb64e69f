"""The plainest reading of scan and wound: what a node's rows must not look like after a turn."""

import msgspec
import pytest

from holdall.protocols.chain.rows import Killing, Row, most_of
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, Visit
from holdall.world.chain_facts import NodeFacts, overtaken, waits
from holdall.world.chain_settled import unsettled
from holdall.world.named import vector


def row(clock: int, wants: str, *, left: int = 1, nodes: int = 1, active: bool = False) -> Row:
    claim = ClaimId(f"c{clock}", 1, clock)
    alternatives = tuple(vector(part) for part in wants.split("|"))
    need = tuple(Visit(f"n{node}", alternatives, 1) for node in range(nodes))
    waiting = Row(
        claim,
        1,
        need,
        Terms(),
        0,
        0,
        0,
        Stamp(clock, "n0", claim, 1),
        left,
        0,
        left,
        alternatives,
        most_of(alternatives),
        (),
        (),
    )
    return msgspec.structs.replace(waiting, active=True, vector=alternatives[0], n=1) if active else waiting


@pytest.mark.parametrize(
    ("rows", "capacity", "who"),
    [
        ([], {"a": 1}, ""),
        ([row(1, "a")], {"a": 1}, "c1"),  # nobody is in the way
        ([row(1, "a"), row(2, "a", active=True)], {"a": 1}, ""),
        ([row(1, "ab"), row(2, "a"), row(3, "b", active=True)], {"a": 1, "b": 1}, "c2"),  # may pass
        ([row(1, "ab", left=0), row(2, "a"), row(3, "b", active=True)], {"a": 1, "b": 1}, ""),  # no pass left
        (
            [row(1, "ab"), row(2, "a", nodes=2), row(3, "b", active=True)],
            {"a": 1, "b": 1},
            "",
        ),  # not its last node
        (
            [row(1, "b", left=0), row(2, "a"), row(3, "b", active=True)],
            {"a": 1, "b": 1},
            "c2",
        ),  # another pool
        ([row(1, "5a", left=0), row(2, "a"), row(3, "6a", active=True)], {"a": 8}, ""),  # CH6: would pass
        (
            [row(1, "ab", left=0), row(2, "a"), row(3, "2a,b", active=True)],
            {"a": 8, "b": 1},
            "c2",
        ),  # CH6: passes nobody
        ([row(1, "b|a"), row(2, "b", active=True)], {"a": 1, "b": 1}, "c1"),  # its second choice is free
    ],
)
def test_a_row_that_could_start_is_seen(rows: list[Row], capacity: dict[str, int], who: str) -> None:
    text = unsettled("n0", rows, capacity)
    assert text.startswith(f"settled: {who}.") if who else not text


def test_a_younger_row_in_the_way_must_have_been_called_back() -> None:
    young = row(2, "a", nodes=2, active=True)
    assert "c2.1.2 at n0 stands in the way of c1.1.1" in unsettled("n0", [row(1, "a"), young], {"a": 1})
    called = msgspec.structs.replace(young, kill=Killing.HERE)
    assert not unsettled("n0", [row(1, "a"), called], {"a": 1})
    assert not unsettled("n0", [row(3, "a"), young], {"a": 1})  # older than who waits
    granted = row(2, "a", active=True)
    assert not unsettled("n0", [row(1, "a"), granted], {"a": 1})


def facts(*rows: Row, **capacity: int) -> NodeFacts:
    return NodeFacts("n0", 1, rows, (), (), tuple(sorted(capacity.items())))


def test_the_meter_sees_who_waits_and_who_gets_ahead_of_whom() -> None:
    old, young, holder = row(1, "ab"), row(2, "a"), row(3, "b", active=True)
    before = facts(old, holder, a=1, b=1)
    came = facts(old, young, holder, a=1, b=1)
    assert [(notice.claim.node, notice.ahead) for notice in waits(before, came)] == [("c2", 1)]
    started = facts(old, row(2, "a", active=True), holder, a=1, b=1)
    assert [notice.claim.node for notice in overtaken(came, started)] == ["c1"]
    enough = facts(old, row(2, "a", active=True), holder, a=2, b=1)
    assert overtaken(came, enough) == []
