"""The lease book alone: one call and its exact effects."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.leases.book import LeaseBook
from holdall.leases.messages import (
    ClearUnit,
    DrainUnits,
    EndsAs,
    HookDone,
    PoolSpec,
    RaiseFence,
    Reload,
    RunHook,
    UnitsBack,
)
from holdall.leases.records import FenceBlock, LeaseRecord
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    ClockRead,
    Effect,
    Forget,
    ProtocolViolation,
    Record,
    Save,
    Send,
    SetTimer,
)
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

GPU = PoolSpec("gpu", "gpu", units=("0", "1", "2"))
HERE, THERE = ClaimId("n0", 1, 1), ClaimId("n1", 1, 1)
SHORT = Terms(ttl_ms=10_000)
ENDING = Terms(ttl_ms=10_000, for_ms=100_000)


class Guard:
    """A manager that only notes what it is told, and gives units of departed claims back."""

    def __init__(self, book: LeaseBook) -> None:
        self.book = book
        self.heard: list[object] = []

    def capacity_changed(self, out: list[Effect], pools: object = ()) -> None:
        del out
        self.heard.append(pools)

    def departed(self, claim: ClaimId, out: list[Effect], reason: str = "expired") -> None:
        self.heard.append((claim, reason))
        self.book.give_back(claim, 1, {}, out)


def book_of(*pools: PoolSpec, **how: object) -> tuple[LeaseBook, Guard]:
    book = LeaseBook("n0", pools or (GPU,), **how)  # type: ignore[arg-type]
    guard = Guard(book)
    book.guard = guard
    return book, guard


def test_units_are_set_aside_in_their_order_with_growing_fences_saved_in_a_block() -> None:
    book, _ = book_of()
    out: list[Effect] = []
    units = book.set_aside(HERE, 1, {"gpu": 2}, SHORT, out)
    assert units == (UnitGrant("n0", "gpu", "0", 1), UnitGrant("n0", "gpu", "1", 2))
    assert out == [
        Save("book/fence", FenceBlock(1000)),
        Save("book/lease/n0.1.1/1", LeaseRecord(HERE, 1, units, SHORT)),
    ]
    out.clear()
    assert book.set_aside(HERE, 1, {"gpu": 2}, SHORT, out) == units, "asked again after a lost answer"
    assert out == []
    book.set_aside(THERE, 1, {"gpu": 1}, SHORT, out)
    assert [effect for effect in out if effect == Save("book/fence", FenceBlock(1000))] == []
    assert book.capacity("gpu") == 3


def test_units_that_are_not_free_are_never_given() -> None:
    book, _ = book_of()
    book.set_aside(HERE, 1, {"gpu": 2}, SHORT, [])
    before = book.key()
    with pytest.raises(ProtocolViolation):
        book.set_aside(THERE, 1, {"gpu": 2}, SHORT, [])
    with pytest.raises(ProtocolViolation):
        book.set_aside(THERE, 1, {"laser": 1}, SHORT, [])
    assert book.key() == before


def test_booked_becomes_active_once() -> None:
    book, _ = book_of()
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, [])
    out: list[Effect] = []
    book.book(HERE, 1, out)
    (save,) = out
    assert isinstance(save, Save)
    assert isinstance(save.record, LeaseRecord)
    assert save.record.active
    out.clear()
    book.book(HERE, 1, out)
    book.book(THERE, 1, out)
    assert out == []


def test_named_units_stay_when_a_part_comes_back() -> None:
    book, guard = book_of()
    units = book.set_aside(HERE, 1, {"gpu": 3}, SHORT, [])
    out: list[Effect] = []
    book.give_back(HERE, 1, {"gpu": 1}, out, named=[units[2]])
    assert book.units(HERE, 1) == (units[2],)
    assert book.capacity("gpu") == 3
    assert guard.heard == [], "who gives back evaluates again by itself"
    book.give_back(HERE, 1, {"gpu": 0}, out)
    assert out[-1] == Forget("book/lease/n0.1.1/1", "released")
    assert book.units(HERE, 1) == ()
    out.clear()
    book.give_back(HERE, 1, {}, out)
    assert out == []


def test_a_unit_that_must_be_cleaned_lowers_the_capacity_in_the_same_turn() -> None:
    book, guard = book_of(PoolSpec("psu", "psu", units=("p1", "p2"), on_release="off"))
    book.set_aside(HERE, 1, {"psu": 1}, SHORT, [])
    out: list[Effect] = []
    book.give_back(HERE, 1, {}, out)
    assert book.capacity("psu") == 1
    (order,) = [
        effect.message for effect in out if isinstance(effect, Send) and isinstance(effect.message, RunHook)
    ]
    out.clear()
    book.told(HookDone(order.run, ok=True), out)
    assert book.capacity("psu") == 2
    assert guard.heard == [("psu",)]
    assert out[-1] == Send(Address("n0", "agent"), UnitsBack(("psu",)))
    out.clear()
    book.told(HookDone(order.run, ok=True), out)
    assert out == [], "an answer that comes twice"


def test_a_hard_end_fires_after_for_and_the_rate_and_tells_the_manager() -> None:
    book, guard = book_of()
    out: list[Effect] = []
    book.told(ClockRead(5_000, 1_000), out)
    book.set_aside(HERE, 1, {"gpu": 1}, ENDING, out)
    # it may still wait at another node for longer than it will be held
    assert not any(isinstance(effect, SetTimer) for effect in out)
    book.told(ClockRead(5_000, 1_000), out)
    book.book(HERE, 1, out)
    assert SetTimer("book/end/n0.1.1/1", 102_000) in out
    book.told(ClockRead(25_000, 21_000), out)
    out.clear()
    assert book.extend(HERE, 1, 200_000, out)
    assert SetTimer("book/end/n0.1.1/1", 183_600) in out
    out.clear()
    assert book.extend(HERE, 1, 200_000, out)
    assert out == []
    book.fired("book/end/n0.1.1/1", out)
    assert guard.heard == [(HERE, "end reached")]
    assert CancelTimer("book/end/n0.1.1/1") in out
    assert book.units(HERE, 1) == ()
    out.clear()
    book.fired("book/end/n0.1.1/1", out)
    assert out == []


def test_no_end_later_than_a_pool_allows() -> None:
    book, _ = book_of(PoolSpec("gpu", "gpu", units=("0",), max_for_ms=150_000))
    book.set_aside(HERE, 1, {"gpu": 1}, ENDING, [])
    assert not book.extend(HERE, 1, 150_001, [])
    assert book.extend(HERE, 1, 150_000, [])
    assert not book.extend(THERE, 1, 1, [])


def test_one_timer_for_all_claims_of_a_silent_peer_with_one_ttl() -> None:
    book, guard = book_of()
    out: list[Effect] = []
    second, slow = ClaimId("n1", 1, 2), ClaimId("n1", 1, 3)
    book.set_aside(THERE, 1, {"gpu": 1}, SHORT, out)
    assert SetTimer("book/silent/n1/10000", 10_200) in out
    book.set_aside(second, 1, {"gpu": 1}, SHORT, out)
    book.set_aside(slow, 1, {"gpu": 1}, Terms(ttl_ms=60_000), out)
    out.clear()
    book.heard("n1", out)
    assert out == [
        CancelTimer("book/silent/later/n1/10000"),
        SetTimer("book/silent/n1/10000", 10_200),
        SetTimer("book/silent/n1/60000", 61_200),
    ]
    out.clear()
    book.heard("n1", out)
    assert out == [SetTimer("book/silent/n1/10000", 10_200), SetTimer("book/silent/n1/60000", 61_200)]
    book.heard("n2", out)
    assert len(out) == 2
    book.fired("book/silent/n1/10000", out)
    assert guard.heard == [(THERE, "expired"), (second, "expired")]
    assert CancelTimer("book/silent/n1/10000") in out
    assert book.units(slow, 1)
    book.fired("book/silent/n1/10000", out)
    assert len(guard.heard) == 2


def test_what_comes_for_a_silent_peer_does_not_lengthen_what_was_here_before() -> None:
    book, guard = book_of()
    out: list[Effect] = []
    sent_on, sent_later = ClaimId("n1", 1, 2), ClaimId("n1", 1, 3)
    book.set_aside(THERE, 1, {"gpu": 1}, SHORT, out)
    out.clear()
    book.watch(sent_on, 10_000, out)
    assert out == [SetTimer("book/silent/later/n1/10000", 10_200)]
    book.fired("book/silent/n1/10000", out)
    assert guard.heard == [(THERE, "expired")]
    # the timer of the first ones is gone with them, so who comes now begins it anew
    out.clear()
    book.watch(sent_later, 10_000, out)
    assert out == [SetTimer("book/silent/n1/10000", 10_200)]
    book.fired("book/silent/later/n1/10000", out)
    assert guard.heard[1:] == [(sent_on, "expired")]
    book.fired("book/silent/n1/10000", out)
    assert guard.heard[2:] == [(sent_later, "expired")]


def test_claims_of_the_own_node_are_not_watched() -> None:
    book, _ = book_of()
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, out)
    assert [effect for effect in out if isinstance(effect, SetTimer)] == []


def ends(out: list[Effect]) -> list[str]:
    """Why the leases of these effects are over."""
    return [one.why for one in out if isinstance(one, Forget) and one.key.startswith("book/lease/")]


def test_why_a_lease_ends_is_kept_from_when_it_is_said_and_the_first_word_counts() -> None:
    book, _ = book_of()
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, [])
    out: list[Effect] = []
    book.told(EndsAs(HERE, "kicked"), out)
    book.told(EndsAs(HERE, "expired", unclean=True), out)
    records: dict[str, Record] = {one.key: one.record for one in out if isinstance(one, Save)}
    (record,) = records.values()
    assert isinstance(record, LeaseRecord)
    assert (record.ending, record.unclean) == ("kicked", True)
    out.clear()
    book.told(EndsAs(HERE, "lost"), out)
    assert out == []
    again, _ = book_of()
    again.recover({**records, BOOT_KEY: Boot("same", 1, 2)}, [])
    again.give_back(HERE, 1, {}, out)
    assert ends(out) == ["kicked"]


def test_a_lease_without_another_word_is_given_back_and_one_that_the_book_ends_has_expired() -> None:
    for claim, timer, why in (
        (HERE, "", "released"),
        (HERE, "book/end/n0.1.1/1", "expired"),
        (THERE, "book/silent/n1/10000", "expired"),
    ):
        book, _ = book_of()
        book.set_aside(claim, 1, {"gpu": 2}, ENDING, [])
        book.book(claim, 1, [])
        out: list[Effect] = []
        book.give_back(claim, 1, {"gpu": 1}, out)
        assert ends(out) == [], "a part came back; the lease goes on"
        if timer:
            book.fired(timer, out)
        else:
            book.give_back(claim, 1, {}, out)
        assert ends(out) == [why]


def test_a_lease_whose_unit_could_not_be_prepared_was_refused() -> None:
    book, _ = book_of(PoolSpec("gpu", "gpu", units=("0",), on_grant="flash {unit}"))
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, out)
    book.book(HERE, 1, out)
    (order,) = [one.message for one in out if isinstance(one, Send) and isinstance(one.message, RunHook)]
    book.told(HookDone(order.run, ok=False, text="no board"), out)
    book.give_back(HERE, 1, {}, out)
    assert ends(out) == ["refused"]


def test_a_lease_of_a_store_from_before_reasons_were_kept_is_read() -> None:
    book, _ = book_of()
    out: list[Effect] = []
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, out)
    (save,) = [one for one in out if isinstance(one, Save) and isinstance(one.record, LeaseRecord)]
    kept = msgspec.to_builtins(save.record)
    assert kept.pop("ending") == ""
    assert msgspec.convert(kept, LeaseRecord) == save.record


def test_two_attempts_of_one_claim_have_units_of_their_own() -> None:
    book, _ = book_of()
    book.set_aside(HERE, 1, {"gpu": 1}, SHORT, [])
    book.set_aside(HERE, 2, {"gpu": 1}, SHORT, [])
    assert [record.attempt for record in book.of_claim(HERE)] == [1, 2]
    book.give_back(HERE, 1, {}, [])
    assert [unit.unit for unit in book.units(HERE, 2)] == ["1"]
    assert [record.attempt for record in book.of_claim(HERE)] == [2]


def test_in_an_exhaustive_world_fences_don_t_multiply_states() -> None:
    book, _ = book_of(fence_step=0, watch_peers=False)
    before = book.key()
    for claim in (HERE, THERE):
        out: list[Effect] = []
        units = book.set_aside(claim, 1, {"gpu": 2}, SHORT, out)
        assert {unit.fence for unit in units} == {0}
        assert [effect for effect in out if not isinstance(effect, Save)] == []
        book.give_back(claim, 1, {}, out)
        assert book.key() == before


def test_a_copy_lives_by_itself() -> None:
    book, _ = book_of()
    book.set_aside(HERE, 1, {"gpu": 1}, ENDING, [])
    twin = book.copy()
    assert twin.key() == book.key()
    twin.give_back(HERE, 1, {}, [])
    twin.told(DrainUnits(on=True), [])
    assert twin.key() != book.key()
    assert book.units(HERE, 1)
    assert book.capacity("gpu") == 3


def test_quarantine_ends_with_its_timer() -> None:
    book, guard = book_of()
    out: list[Effect] = []
    book.recover({BOOT_KEY: Boot("lost", 2, 2, quarantine_ms=306_000, fence_base=1 << 40)}, out)
    assert out == [SetTimer("book/quarantine", 306_000)]
    assert not book.may_grant()
    book.fired("book/quarantine", out)
    assert book.may_grant()
    assert guard.heard == [()]
    assert book.set_aside(HERE, 1, {"gpu": 1}, SHORT, [])[0].fence == (1 << 40) + 1


def test_fences_are_raised_for_what_guards_by_fence() -> None:
    book, _ = book_of()
    (unit,) = book.set_aside(HERE, 1, {"gpu": 1}, SHORT, [])
    book.told(RaiseFence(HERE), [])
    assert book.service.pools["gpu"].units["0"].fence == unit.fence + 1
    book.give_back(HERE, 1, {}, [])
    assert book.set_aside(THERE, 1, {"gpu": 1}, SHORT, [])[0].fence == unit.fence + 2


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 5), st.integers(1, 3)),
        st.tuples(st.just("give"), st.integers(0, 5), st.integers(0, 2)),
        st.tuples(st.just("unclean"), st.integers(0, 5), st.integers(0, 1)),
        st.tuples(st.just("hook"), st.integers(0, 5), st.integers(0, 1)),
        st.tuples(st.just("drain"), st.integers(0, 1), st.just(0)),
        st.tuples(st.just("clear"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("cooldown"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("reload"), st.integers(1, 4), st.just(0)),
        st.tuples(st.just("crash"), st.integers(0, 2), st.just(0)),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(OPS)
def test_whatever_happens_no_unit_has_two_holders_and_fences_only_grow(
    ops: list[tuple[str, int, int]],
) -> None:
    def spec(count: int) -> PoolSpec:
        return PoolSpec(
            "psu",
            "psu",
            units=tuple(f"p{number}" for number in range(count)),
            on_grant="on",
            on_release="off",
            check="ping",
            cooldown_ms=1000,
        )

    units = 3
    book, _ = book_of(spec(units), fence_block=4)
    records: dict[str, Record] = {}
    runs: list[int] = []
    fences: dict[str, int] = {}
    attempts: dict[int, int] = {}
    out: list[Effect] = []

    said: dict[str, str] = {}

    def carry_out() -> None:
        for effect in out:
            match effect:
                case Save(key, record):
                    records[key] = record
                case Forget(key, why):
                    if key.startswith("book/lease/"):
                        # Each lease ends once, and for the first reason that was said of it.
                        assert why == said.pop(key, "released")
                        assert key in records
                    records.pop(key, None)
                case Send(_, RunHook() as order):
                    runs.append(order.run)
                case _:
                    pass
        out.clear()
        check(book)

    for kind, a, b in ops:
        claim = ClaimId("n0", 1, a)
        party = (claim, attempts.get(a, 1))
        match kind:
            case "take":
                pool = book.service.pools.get("psu")
                if party not in book.leases and pool is not None and pool.free_count() >= b:
                    for grant in book.set_aside(*party, {"psu": b}, SHORT, out):
                        assert grant.fence > fences.get(grant.unit, 0)
                        fences[grant.unit] = grant.fence
                    book.book(*party, out)
            case "give":
                if party in book.leases:
                    book.give_back(*party, {"psu": b}, out)
                    attempts[a] = party[1] + (party not in book.leases)
            case "unclean":
                why = ("lost", "kicked")[b]
                for record in book.of_claim(claim):
                    said.setdefault(f"book/lease/{record.claim}/{record.attempt}", why)
                book.told(EndsAs(claim, why, unclean=True), out)
            case "hook" if runs:
                book.told(HookDone(runs.pop(a % len(runs)), ok=bool(b)), out)
            case "drain":
                book.told(DrainUnits(on=bool(a)), out)
            case "clear":
                book.told(ClearUnit("psu", f"p{a}"), out)
            case "cooldown":
                book.fired(f"book/cooldown/psu/p{a}", out)
            case "reload":
                units = a
                book.told(Reload((spec(a),)), out)
            case "crash":
                kind_of_boot = ("same", "reboot", "same")[a]
                carry_out()
                runs.clear()
                before = {party: record.units for party, record in book.leases.items()}
                book, _ = book_of(spec(units), fence_block=4)
                book.recover({**records, BOOT_KEY: Boot(kind_of_boot, 1, 2)}, out)
                assert {party: record.units for party, record in book.leases.items()} == before
            case _:
                pass
        carry_out()


def check(book: LeaseBook) -> None:
    """The book's sums are those of its units, and leases and units name each other."""
    service = book.service
    named: dict[tuple[str, str], tuple[ClaimId, int]] = {}
    for party, record in book.leases.items():
        for grant in record.units:
            assert (grant.pool, grant.unit) not in named, "two holders"
            named[grant.pool, grant.unit] = party
    for name, pool in service.pools.items():
        free = 0
        for unit in pool.units.values():
            assert unit.claim == named.pop((name, unit.name), None)
            free += unit.state(draining=service.draining) == "free"
        assert pool.free_count() == free
        assert pool.held == sum(unit.claim is not None for unit in pool.units.values())
        assert pool.capacity == free + pool.held
    assert named == {}
