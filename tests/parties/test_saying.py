"""Who may say what between nodes, and whatever a member says: refused before anything changes, or handled as it should be."""

from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from parties.party_node import pool

from holdall.leases.listing import Alive, AliveOk, Compared, Entry, RenewalMessage, Short, Standing
from holdall.leases.messages import ClearUnit, DrainUnits, RaiseFence, Reload, UncleanEnd
from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import (
    Address,
    Boot,
    ClockRead,
    Effect,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
)
from holdall.machine.host import Arrival, Host
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain import properties
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Inside
from holdall.protocols.chain.messages import (
    Allowed,
    ChainMessage,
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
    Gone,
    Granted,
    LeaseLost,
    Release,
    Shrink,
    Stamp,
    Terms,
    ToClaimant,
    UnitGrant,
    Vector,
    Visit,
)

ME, FRIEND, LIAR = "n1", "n2", "n3"
TTL_MAX_MS = 300_000
MINE, THEIRS, LIES = ClaimId(ME, 1, 1), ClaimId(FRIEND, 1, 1), ClaimId(LIAR, 1, 1)
THROUGH, WAITS, BEHIND = ClaimId(FRIEND, 1, 2), ClaimId(FRIEND, 1, 3), ClaimId(LIAR, 1, 2)
GPU: Vector = (("gpu", 1),)
TERMS = Terms(ttl_ms=30_000)


def visits(*nodes: str) -> tuple[Visit, ...]:
    return tuple(Visit(node, (GPU,), epoch=1) for node in nodes)


def request(claim: ClaimId, *nodes: str) -> Request:
    return Request(claim, 1, 1, visits(*nodes), TERMS, None)


def side() -> PoolSide:
    """Three units: MINE has one, THEIRS another, THROUGH the third on its way to the liar; WAITS waits, and one comes."""
    made = PoolSide(ME, [pool("gpu", "0", "1", "2")], ttl_max_ms=TTL_MAX_MS)
    made.handle(Received(Address(ME, "node"), ClockRead(1_700_000_000_000, 5_000)))
    for claim, nodes in (
        (MINE, (ME,)),
        (THEIRS, (ME,)),
        (THROUGH, (ME, LIAR)),
        (WAITS, (ME,)),
    ):
        made.handle(Received(Address(claim.node, "claimant"), request(claim, *nodes)))
    came = Promote(BEHIND, 1, 1, visits(FRIEND, ME), TERMS, 1, 1, Stamp(9, FRIEND, BEHIND, 1), (0,), ())
    made.handle(Received(Address(FRIEND, "manager"), came))
    assert [made.manager.rows[claim].active for claim in (MINE, THEIRS, THROUGH, WAITS, BEHIND)] == [
        True,
        True,
        True,
        False,
        False,
    ]
    return made


def claims() -> ClaimantSide:
    """One claim granted at FRIEND, one waiting along FRIEND and LIAR, one trying at LIAR."""
    made = ClaimantSide(Claimant(ME, Address(ME, "agent"), repeat_ms=1_000))
    agent = Address(ME, "agent")
    made.handle(Received(Address(ME, "node"), ClockRead(1_700_000_000_000, 5_000)))
    for counter, nodes, wait in ((1, (FRIEND,), True), (2, (FRIEND, LIAR), True), (3, (LIAR,), False)):
        made.handle(Received(agent, Acquire(ClaimId(ME, 1, counter), visits(*nodes), wait, TERMS)))
    units = (UnitGrant(FRIEND, "gpu", "0", 5),)
    stamp = Stamp(7, FRIEND, MINE, 1)
    made.handle(Received(Address(FRIEND, "manager"), Allowed(MINE, 1, stamp, (0,), units)))
    assert isinstance(made.claimant.claims[MINE], Inside)
    return made


def said(machine: PoolSide | ClaimantSide, node: str, message: Message) -> list[Effect]:
    return machine.handle(Received(Address(node, "manager"), message))


# ------------------------------------------------------------ one by one

OF_OTHERS: list[Message] = [
    request(THEIRS, ME),
    Try(ClaimId(FRIEND, 1, 9), 1, 1, (GPU,), TERMS),
    Done(THEIRS, 1),
    ShrinkRow(THEIRS, 1, ()),
    ExtendRow(THEIRS, 1, 10),
    Entered(THEIRS, 1),
    UncleanEnd(THEIRS),
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
    said(made, FRIEND, UncleanEnd(THEIRS))
    assert [lease.claim for lease in made.book.leases.values() if lease.unclean] == [THEIRS]
    # what comes after the end, or twice, is late and nothing else
    said(made, FRIEND, Done(THEIRS, 1))
    before = made.key()
    assert said(made, FRIEND, UncleanEnd(THEIRS)) == said(made, FRIEND, RaiseFence(THEIRS)) == []
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
    Allowed(ClaimId(ME, 1, 2), 2, Stamp(1, LIAR, MINE, 1), (0, 0), ()),
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


# ------------------------------------------------------------ anything

NAMES = [ME, ME, FRIEND, FRIEND, LIAR, LIAR, "n9", "", "a.b"]
WORDS = ["gpu", "gpu", "psu", "", "0", "\x1fgpu\x1fbob", "expired"]


def any_of(kind: inspect.Type) -> st.SearchStrategy[object]:
    """Any value that a message of this type can carry; near to what there is here."""
    match kind:
        case inspect.IntType():
            return st.one_of(st.integers(-1, 3), st.sampled_from([-(2**63), 2**63 - 1, 5, 7, 30_000]))
        case inspect.StrType():
            return st.sampled_from(WORDS)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.LiteralType(values=values):
            return st.sampled_from(list(values))
        case inspect.UnionType(types=types):
            return st.one_of(*map(any_of, types))
        case inspect.VarTupleType(item_type=item):
            return st.lists(any_of(item), max_size=3).map(tuple)
        case inspect.TupleType(item_types=items):
            return st.tuples(*map(any_of, items))
        case inspect.StructType(cls=cls, fields=fields):
            if cls is ClaimId:
                return st.builds(ClaimId, st.sampled_from(NAMES), st.just(1), st.integers(1, 4))
            drawn = {field.name: any_of(field.type) for field in fields}
            drawn |= {"node": st.sampled_from(NAMES)} if "node" in drawn else {}
            drawn |= {"claim": any_of(inspect.type_info(ClaimId))} if "claim" in drawn else {}
            return st.builds(cls, **drawn)
        case _:
            raise AssertionError(f"{kind} is new in messages between nodes: tell how to draw it")


BOOKS = UncleanEnd | RaiseFence | DrainUnits | ClearUnit | Reload
SAID = st.tuples(
    st.sampled_from([FRIEND, LIAR, LIAR, "n9"]),
    st.one_of(
        *[any_of(inspect.type_info(kind)) for kind in (ChainMessage, RenewalMessage, BOOKS, ToClaimant)]
    ),
)
FEW = settings(
    max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def told(machine: PoolSide | ClaimantSide, node: str, message: Message) -> list[Effect]:
    """As the link gives it: what can't be written on the wire can't come; what is refused changes nothing."""
    try:
        message = CODEC.decode(CODEC.encode(message))
    except CodecError:
        return []
    before = machine.key()
    try:
        return machine.handle(Received(Address(node, "manager"), message))
    except ProtocolViolation:
        assert machine.key() == before
        return []


def keep(records: dict[str, Record], effects: list[Effect]) -> None:
    for effect in effects:
        match effect:
            case Save(key, record):
                records[key] = record
            case Forget(key):
                records.pop(key, None)
            case _:
                pass


def check_books(made: PoolSide) -> None:
    manager, book = made.manager, made.book
    assert properties.all_wrong([manager]) == []
    assert properties.miscounted(manager) == []
    held = Counter((unit.pool, unit.unit) for lease in book.leases.values() for unit in lease.units)
    assert all(count == 1 for count in held.values())
    for name, units in book.service.pools.items():
        having = {unit.name for unit in units.in_order() if unit.claim is not None}
        assert having == {unit for where, unit in held if where == name}
        assert units.capacity == len(units.units)
    for row in manager.rows.values():
        if row.active:
            counts = Counter(unit.pool for unit in book.units(row.claim, row.attempt))
            assert counts == Counter(dict(row.vector))


@FEW
@given(st.lists(SAID, max_size=8))
def test_whatever_members_say_books_and_rows_of_a_node_agree(words: list[tuple[str, Message]]) -> None:
    made = side()
    for node, message in words:
        mine = made.manager.rows[MINE]
        theirs = made.manager.rows.get(THEIRS)
        told(made, node, message)
        check_books(made)
        # Nobody but their own nodes ends or changes what is granted.
        assert msgspec.structs.replace(made.manager.rows[MINE], left=mine.left) == mine
        if node != FRIEND and theirs is not None:
            assert msgspec.structs.replace(made.manager.rows[THEIRS], left=theirs.left) == theirs


@FEW
@given(st.lists(SAID, max_size=8))
def test_whatever_members_say_a_node_comes_up_again_from_its_records(
    words: list[tuple[str, Message]],
) -> None:
    records: dict[str, Record] = {}
    made = PoolSide(ME, [pool("gpu", "0", "1", "2")], ttl_max_ms=TTL_MAX_MS)
    keep(records, made.handle(Received(Address(ME, "claimant"), request(MINE, ME))))
    keep(records, made.handle(Received(Address(FRIEND, "claimant"), request(THEIRS, ME))))
    for node, message in words:
        keep(records, told(made, node, message))
    again = PoolSide(ME, [pool("gpu", "0", "1", "2")], ttl_max_ms=TTL_MAX_MS)
    again.recover({**records, "boot": Boot("same", 1, 2)})
    check_books(again)
    assert again.manager.rows.keys() == made.manager.rows.keys()
    assert again.book.leases.keys() == made.book.leases.keys()


@FEW
@given(st.lists(SAID, max_size=8))
def test_whatever_members_say_a_claimant_believes_only_units_that_it_asked_for(
    words: list[tuple[str, Message]],
) -> None:
    made = claims()
    for node, message in words:
        before = made.claimant.claims.get(MINE)
        out = told(made, node, message)
        for effect in out:
            if isinstance(effect, Send) and isinstance(effect.message, Granted):
                asked = {2: {FRIEND, LIAR}, 3: {LIAR}, 1: {FRIEND}}[effect.message.claim.counter]
                assert Counter(unit.node for unit in effect.message.units) == Counter(dict.fromkeys(asked, 1))
            if isinstance(effect, Send) and isinstance(effect.message, Gone):
                assert effect.message.claim != MINE or node == FRIEND
        if node != FRIEND:
            assert made.claimant.claims.get(MINE) == before
        assert made.renewals.left_ms(MINE) is not None or node == FRIEND


def test_a_list_of_endless_fences_and_one_of_endless_claims_cost_nothing() -> None:
    made = side()
    fences = ((0, 2**63 - 1),)
    (answer,) = [
        effect.message
        for effect in said(made, FRIEND, Alive(1, 1, 0, (Entry(THEIRS, 1, inside=True, fences=fences),)))
        if isinstance(effect, Send)
    ]
    assert answer == AliveOk(1, 1, same=False, short=(Short(THEIRS, 1, ((2, 2),)),))
    entries = tuple(Entry(ClaimId(LIAR, 1, number), 1, inside=False) for number in range(100_000))
    said(made, LIAR, Standing(1, 0, entries, None, last=False))
    more = tuple(
        msgspec.structs.replace(entry, claim=ClaimId(LIAR, 2, number)) for number, entry in enumerate(entries)
    )
    said(made, LIAR, Standing(1, 1, more, None, last=False))
    with pytest.raises(ProtocolViolation, match="more than"):
        said(made, LIAR, Standing(1, 2, entries[:1], None, last=False))


def test_an_answer_of_an_epoch_that_is_over_confirms_nothing() -> None:
    made = claims()
    host = Host(ME, {"claimant": made})
    renewals = made.renewals
    renewals.heard(FRIEND, Compared(renewals._count, 5), [])
    assert renewals.epochs[FRIEND] == 5
    before = renewals.key()
    host.turn(
        [Arrival("claimant", Received(Address(FRIEND, "manager"), AliveOk(renewals._count, 4, same=True)))]
    )
    assert renewals.key() == before
