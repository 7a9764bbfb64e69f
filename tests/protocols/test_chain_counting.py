"""The indexed counting gives what the specification's definitions give, word by word."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from protocols.conversation import Net, claim_id
from protocols.literal_manager import LiteralManager

from holdall.machine.contract import Address, Received
from holdall.protocols.chain import properties
from holdall.protocols.chain.alone import ManagerAlone
from holdall.protocols.chain.messages import Done, Kill, Killed, Promote, Request, ShrinkRow, Try
from holdall.protocols.chain.rows import Limit, Row
from holdall.protocols.chain.settling import Settings
from holdall.protocols.counting_book import CapacityIs
from holdall.protocols.vocabulary import ClaimId, Stamp, Terms, Vector, Visit

QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
"""Without shrinking: the literal manager is slow."""
POOLS = ("a", "b", "c")

_vectors = st.dictionaries(
    st.sampled_from(POOLS), st.sampled_from((1, 1, 1, 2, 3, -1)), min_size=1, max_size=3
).map(lambda units: tuple(sorted(units.items())))
_alternatives = st.lists(_vectors, min_size=1, max_size=2, unique=True).map(tuple)


def message(data: Any, claim: ClaimId, n: int) -> Any:
    kind = data.draw(st.sampled_from("rrrrppppktdddsc"))
    alternatives: tuple[Vector, ...] = data.draw(_alternatives)
    terms = Terms(holder=data.draw(st.sampled_from("xyz")))
    more = (Visit("n9", ((("a", 1),),), 1),) if data.draw(st.booleans()) else ()
    stamp = Stamp(data.draw(st.integers(1, 30)), "x", claim, 1)
    match kind:
        case "r":
            kept = stamp if data.draw(st.booleans()) else None
            return Request(claim, 1, 1, (Visit("n0", alternatives, 1), *more), terms, kept)
        case "p":
            before = Visit("n8", ((("a", 1),),), 1)
            visits = (before, Visit("n0", alternatives, 1), *more)
            return Promote(claim, 1, 1, visits, terms, 1, data.draw(st.integers(1, 2)), stamp, (0,), ())
        case "k":
            return data.draw(
                st.sampled_from((Kill(claim, 1, 1, 1), Kill(claim, 1, 1, 2), Killed(claim, 1, max(n, 1))))
            )
        case "t":
            return Try(claim, 1, 1, alternatives, terms)
        case "d":
            return Done(claim, 1)
        case "s":
            return ShrinkRow(claim, 1, data.draw(_vectors))
        case _:
            return CapacityIs(data.draw(st.sampled_from(POOLS)), data.draw(st.integers(0, 4)))


@settings(max_examples=60, deadline=None, phases=QUICK)
@given(
    passes=st.integers(0, 2),
    per_ahead=st.integers(0, 1),
    limits=st.sampled_from(((), (Limit("a", 1),), (Limit("a", 2), Limit("b", 1, "x")))),
    data=st.data(),
)
def test_shipped_and_literal_manager_answer_alike(
    passes: int, per_ahead: int, limits: tuple[Limit, ...], data: Any
) -> None:
    tuned = Settings(passes=passes, passes_per_ahead=per_ahead, limits=limits)
    capacities = {"a": 3, "b": 2, "c": 1}
    shipped = ManagerAlone("n0", capacities, settings=tuned)
    literal = ManagerAlone("n0", capacities, settings=tuned, make=LiteralManager)
    for _ in range(data.draw(st.integers(5, 40))):
        claim = claim_id("c1", data.draw(st.integers(1, 9)))
        row = shipped.manager.rows.get(claim)
        event = Received(Address("c1", "claimant"), message(data, claim, row.n if row else 0))
        assert shipped.handle(event) == literal.handle(event)
        assert shipped.manager.rows == literal.manager.rows
        assert properties.miscounted(shipped.manager) == []
        assert properties.passed_too_often(shipped.manager) == []


def test_ten_thousand_waiting_rows_are_not_walked_by_a_grant() -> None:
    net = Net({"n0": {"a": 1}}, "c1")
    for counter in range(1, 10_001):
        net.acquire(claim_id("c1", counter), (Visit("n0", ((("a", 1),),), 1),))
    net.run()
    manager = net.manager("n0")
    looked: list[ClaimId] = []
    sums: list[str] = []
    choose, wanted = manager.choose, manager.counts.wanted

    def counted_choose(row: Row) -> tuple[int, Vector, list[Row]] | None:
        looked.append(row.claim)
        return choose(row)

    def counted_wanted(row: Row, pool: str) -> int:
        sums.append(pool)
        return wanted(row, pool)

    manager.choose = counted_choose  # type: ignore[method-assign]
    manager.counts.wanted = counted_wanted  # type: ignore[method-assign]
    net.release(claim_id("c1", 1))
    net.run()
    assert net.is_granted(claim_id("c1", 2))
    assert looked == [claim_id("c1", 2)]
    assert len(sums) < 10
