"""Whatever a member says between nodes: refused before anything changes, or handled so that all books agree."""

from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from parties.any_values import AnyValues
from parties.members import FRIEND, LIAR, ME, MINE, THEIRS, TTL_MAX_MS, claims, request, said, side
from parties.party_node import pool

from holdall.leases.listing import Alive, AliveOk, Compared, Entry, RenewalMessage, Short, Standing
from holdall.leases.messages import ClearUnit, DrainUnits, EndsAs, RaiseFence, Reload
from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import (
    Address,
    Boot,
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
from holdall.protocols.chain.messages import (
    ChainMessage,
)
from holdall.protocols.vocabulary import (
    ClaimId,
    Gone,
    Granted,
    ToClaimant,
)

# ------------------------------------------------------------ anything

NAMES = [ME, ME, FRIEND, FRIEND, LIAR, LIAR, "n9", "", "a.b"]
WORDS = ["gpu", "gpu", "psu", "", "0", "\x1fgpu\x1fbob", "expired"]


def any_number(kind: inspect.IntType) -> st.SearchStrategy[int]:
    del kind  # near to what there is here
    return st.one_of(st.integers(-1, 3), st.sampled_from([-(2**63), 2**63 - 1, 5, 7, 30_000]))


def any_struct(
    kind: inspect.StructType, drawn: dict[str, st.SearchStrategy[object]]
) -> st.SearchStrategy[object]:
    ids = st.builds(ClaimId, st.sampled_from(NAMES), st.just(1), st.integers(1, 4))
    if kind.cls is ClaimId:
        return ids
    drawn |= {"node": st.sampled_from(NAMES)} if "node" in drawn else {}
    drawn |= {"claim": ids} if "claim" in drawn else {}
    return st.builds(kind.cls, **drawn)


ANY = AnyValues(words=st.sampled_from(WORDS), integers=any_number, structs=any_struct, at_most=3)
BOOKS = EndsAs | RaiseFence | DrainUnits | ClearUnit | Reload
SAID = st.tuples(
    st.sampled_from([FRIEND, LIAR, LIAR, "n9"]),
    st.one_of(
        *[ANY.of(inspect.type_info(kind)) for kind in (ChainMessage, RenewalMessage, BOOKS, ToClaimant)]
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
