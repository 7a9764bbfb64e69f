"""Who may say what between nodes: anything else is refused before it changes anything."""

import pytest
from parties.members import (
    BEHIND,
    FRIEND,
    GPU,
    LIAR,
    LIES,
    ME,
    MINE,
    TERMS,
    THEIRS,
    THROUGH,
    TTL_MAX_MS,
    WAITS,
    claims,
    request,
    said,
    side,
    visits,
)

from holdall.leases.listing import Alive, Entry, Standing
from holdall.leases.messages import ClearUnit, DrainUnits, EndsAs, RaiseFence, Reload
from holdall.machine.contract import (
    ClockRead,
    Message,
    ProtocolViolation,
)
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    EndAck,
    Entered,
    ExtendRow,
    Kill,
    Killed,
    Promote,
    Queued,
    Refused,
    Request,
    RowGone,
    ShrinkRow,
    Tried,
    Try,
)
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Extend,
    LeaseLost,
    Release,
    Shrink,
    Stamp,
    Terms,
    UnitGrant,
    Visit,
)

# ------------------------------------------------------------ one by one

OF_OTHERS: list[Message] = [
    request(THEIRS, ME),
    Try(ClaimId(FRIEND, 1, 9), 1, 1, (GPU,), TERMS),
    Done(THEIRS, 1),
    ShrinkRow(THEIRS, 1, ()),
    ExtendRow(THEIRS, 1, 10),
    Entered(THEIRS, 1),
    EndsAs(THEIRS),
    RaiseFence(THEIRS),
    Alive(1, 1, 1, (Entry(THEIRS, 1, inside=True),)),
    Standing(1, 0, (Entry(THEIRS, 1, inside=False),), None, last=True),
    Done(MINE, 1),
]


@pytest.mark.parametrize("message", OF_OTHERS, ids=lambda message: type(message).__name__)
def test_nobody_speaks_for_claims_of_others(message: Message) -> None:
    made = side()
    before = made.key()
    with pytest.raises(ProtocolViolation):
        said(made, LIAR, message)
    assert made.key() == before


STRANGE: list[Message] = [
    Request(LIES, 1, 1, (), TERMS, None),
    Request(LIES, 1, 1, visits(ME, ME), TERMS, None),
    Request(LIES, 0, 1, visits(ME), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ()),), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ((),)),), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ((("gpu", 0),),)),), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ((("gpu", -5),),)),), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ((("gpu", 1), ("gpu", 1)),)),), TERMS, None),
    Request(LIES, 1, 1, (Visit(ME, ((("\x1fgpu\x1fbob", 1),),)),), TERMS, None),
    Request(LIES, 1, 1, visits(ME), Terms(ttl_ms=TTL_MAX_MS + 1), None),
    Request(LIES, 1, 1, visits(ME), Terms(for_ms=0), None),
    Request(LIES, 1, 1, visits(ME), TERMS, Stamp(1 << 62, LIAR, LIES, 1)),
    Try(LIES, 1, 1, (GPU,) * 5, TERMS),
    ShrinkRow(LIES, 1, (("gpu", -1),)),
    ExtendRow(LIES, 1, 0),
    Promote(LIES, 1, 1, visits(LIAR, ME), TERMS, 0, 1, Stamp(9, LIAR, LIES, 1), (), ()),
    Promote(LIES, 1, 1, visits(LIAR, ME), TERMS, 2, 1, Stamp(9, LIAR, LIES, 1), (0, 0), ()),
    Promote(LIES, 1, 1, visits(FRIEND, ME), TERMS, 1, 1, Stamp(9, LIAR, LIES, 1), (0,), ()),
    Promote(LIES, 1, 1, visits(LIAR, FRIEND), TERMS, 1, 1, Stamp(9, LIAR, LIES, 1), (0,), ()),
    Promote(LIES, 1, 1, visits(LIAR, ME), TERMS, 1, 1, Stamp(9, LIAR, LIES, 1), (), ()),
    Promote(LIES, 1, 1, visits(LIAR, ME), TERMS, 1, 1, Stamp(9, LIAR, LIES, 1), (0,), (UnitGrant(FRIEND, "gpu", "0", 5),)),
    Kill(BEHIND, 1, 1, 1),
    Killed(BEHIND, 1, 0),
    Kill(BEHIND, 2, 1, 1),
    Kill(MINE, 2, 1, 1),
    Kill(LIES, 1, 1, 0),
    DrainUnits(on=True),
    ClearUnit("gpu", "0"),
    Reload(()),
    ClockRead(1, 1),
    EndAck(LIES, 1),
]  # fmt: skip


@pytest.mark.parametrize("message", STRANGE, ids=repr)
def test_what_no_correct_node_says_is_refused_and_changes_nothing(message: Message) -> None:
    made = side()
    before = made.key()
    with pytest.raises(ProtocolViolation):
        said(made, LIAR, message)
    assert made.key() == before


def test_the_node_of_a_claim_may_tell_of_its_unclean_end_and_raise_its_fence() -> None:
    made = side()
    fences = {unit.name: unit.fence for unit in made.book.service.pools["gpu"].in_order()}
    said(made, FRIEND, RaiseFence(THEIRS))
    after = {unit.name: unit.fence for unit in made.book.service.pools["gpu"].in_order()}
    assert [name for name in after if after[name] != fences[name]] == ["1"]
    said(made, FRIEND, EndsAs(THEIRS, "lost", unclean=True))
    assert [lease.claim for lease in made.book.leases.values() if lease.unclean] == [THEIRS]
    # what comes after the end, or twice, is late and nothing else
    said(made, FRIEND, Done(THEIRS, 1))
    before = made.key()
    assert said(made, FRIEND, EndsAs(THEIRS)) == said(made, FRIEND, RaiseFence(THEIRS)) == []
    assert made.key() == before


def test_kills_and_their_answers_come_from_the_neighbours_in_the_need() -> None:
    made = side()
    said(made, FRIEND, Kill(BEHIND, 1, 1, 1))
    assert BEHIND not in made.manager.rows
    said(made, LIAR, Killed(THROUGH, 1, 1))
    assert (made.manager.rows[WAITS].active, made.manager.rows[THROUGH].active) == (False, True)
    assert made.manager.rows[THROUGH].n == 2  # it is older, so it was sent on once more


TO_CLAIMANT: list[Message] = [
    Allowed(ClaimId(ME, 1, 2), 1, Stamp(1, LIAR, MINE, 1), (0, 0), (UnitGrant(LIAR, "gpu", "0", 1),)),
    Allowed(ClaimId(ME, 1, 2), 1, Stamp(1, LIAR, MINE, 1), (0, 0), (UnitGrant("n9", "gpu", "0", 1),)),
    Tried(ClaimId(ME, 1, 3), 1, yes=True, units=(UnitGrant(FRIEND, "gpu", "0", 1),)),
    Tried(ClaimId(ME, 1, 3), 1, yes=True),
    RowGone(MINE, 1, "expired"),
    RowGone(THEIRS, 1, "expired"),
    Refused(MINE, 1, 5, 0),
    Queued(MINE, 1, Stamp(1, LIAR, MINE, 1)),
    Release(MINE),
    Shrink(MINE, ()),
    Extend(MINE, 5),
    LeaseLost(MINE, "because"),
    Acquire(ClaimId(ME, 1, 9), visits(FRIEND)),
    ClockRead(1, 1),
    Alive(1, 1, 1),
]


@pytest.mark.parametrize("message", TO_CLAIMANT, ids=repr)
def test_a_claimant_hears_of_its_claims_only_from_nodes_that_it_has_asked(message: Message) -> None:
    made = claims()
    before = made.key()
    with pytest.raises(ProtocolViolation):
        said(made, LIAR, message)
    assert made.key() == before


def test_a_late_answer_about_a_claim_that_is_over_is_no_violation() -> None:
    made = claims()
    assert said(made, LIAR, EndAck(ClaimId(ME, 1, 77), 1)) == []
