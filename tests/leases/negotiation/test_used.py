"""What was used of a lease in all: by one meter after the other, over restarts of the host."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.negotiation.records import UseRecord
from holdall.leases.negotiation.used import BESIDE_MOST, SAVE_MS, Uses
from holdall.machine.contract import Forget, Save
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import TermUse, Usage
from holdall.protocols.hooks import Effects


def counted(total: int) -> tuple[TermUse, ...]:
    return (TermUse("net.tx", Usage(total), denied=total // 10),)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 1000), st.integers(0, 20_000)), max_size=40))
def test_the_sum_is_what_all_meters_have_counted_and_a_killed_host_lacks_ten_seconds_at_most(
    steps: list[tuple[int, int, int]],
) -> None:
    """0: another meter begins; 1: the host is killed and comes back; else more is used."""
    uses, meter, raw, now_ms = Uses(), 0, 0, 0
    saved: UseRecord | None = None
    whole: list[tuple[int, int]] = []
    total = 0
    for kind, amount, passed_ms in steps:
        now_ms += passed_ms
        out: Effects = []
        if kind == 0:
            meter, raw = meter + 1, 0
        elif kind == 1:
            uses = Uses()
            if saved is not None:
                uses.restore(saved)
        else:
            raw, total = raw + amount, total + amount
            (said,) = uses.tell("L-1", f"m{meter}", counted(raw), now_ms, out)
            whole.append((now_ms, total))
            assert said.used.total <= total
            for effect in out:
                assert isinstance(effect, Save)
                assert isinstance(effect.record, UseRecord)
                saved = effect.record
            written = sum(one[0].used.total for one in (saved.base, saved.last) if one) if saved else 0
            due = max((amount for at, amount in whole if at <= now_ms - SAVE_MS), default=0)
            if kind == 2 and all(step[0] >= 2 for step in steps):
                assert said.used.total == total
                assert written >= due


def test_meters_follow_each_other_and_a_lease_that_is_forgotten_leaves_nothing() -> None:
    uses, out = Uses(), list[object]()
    tell = uses.tell("L-1", "a", counted(100), 0, out)  # type: ignore[arg-type]
    assert tell[0].used.total == 100
    assert uses.tell("L-1", "b", counted(30), 1, out)[0].used.total == 130  # type: ignore[arg-type]
    assert uses.tell("L-1", "b", counted(50), 2, out)[0].denied == 15  # type: ignore[arg-type]
    assert len(out) == 1, "it is written once in ten seconds"
    again = Uses()
    (save,) = out
    assert isinstance(save, Save)
    assert isinstance(save.record, UseRecord)
    again.restore(save.record)
    assert again.of("L-1")[0].used.total == 100
    # The meter has gone on meanwhile, and another one begins: nothing counts twice.
    assert again.tell("L-1", "a", counted(120), 0, [])[0].used.total == 120
    assert again.tell("L-1", "c", counted(5), 1, [])[0].used.total == 125
    forgotten: Effects = []
    again.forget("L-1", forgotten)
    assert forgotten == [Forget("use/L-1")]
    assert again.of("L-1") == ()


def test_no_meter_can_count_beyond_what_a_record_holds() -> None:
    out: Effects = []
    uses = Uses()
    most = (TermUse("net.tx", Usage(AMOUNT_MAX, 1, 2), denied=AMOUNT_MAX),)
    for number in range(4):
        uses.tell("L", f"meter-{number}", most, 20_000 * number, out)
    (sum_,) = uses.of("L")
    assert (sum_.used.total, sum_.denied) == (AMOUNT_MAX, AMOUNT_MAX)
    for wrong in (AMOUNT_MAX + 1, -1):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"total": wrong}, Usage)


def test_each_term_has_a_meter_of_its_own_and_they_may_take_turns() -> None:
    uses, out = Uses(), list[object]()

    def tell(meter: str, name: str, total: int) -> dict[str, int]:
        told = uses.tell("L-1", meter, (TermUse(name, Usage(total)),), 0, out)  # type: ignore[arg-type]
        return {one.name: one.used.total for one in told}

    assert tell("gate", "net.tx", 100) == {"net.tx": 100}
    assert tell("guardian", "cpu", 7) == {"cpu": 7, "net.tx": 100}
    assert tell("gate", "net.tx", 150) == {"cpu": 7, "net.tx": 150}
    assert tell("guardian", "cpu", 9) == {"cpu": 9, "net.tx": 150}
    assert tell("another", "cpu", 1) == {"cpu": 10, "net.tx": 150}
    assert {one.name: one.used.total for one in uses.of("L-1")} == {"cpu": 10, "net.tx": 150}


def test_meters_of_one_term_that_take_turns_count_what_each_has_counted_and_no_more() -> None:
    uses = Uses()
    for number in range(1, 6):
        uses.tell("L-1", "a", counted(100 * number), number, [])
        (told,) = uses.tell("L-1", "b", counted(10 * number), number, [])
        assert (told.used.total, told.denied) == (110 * number, 11 * number)
    # Many come and go: all of them stay counted, and the record stays small.
    for number in range(100):
        uses.tell("L-1", f"m{number}", counted(1), 10, [])
    assert uses.of("L-1")[0].used.total == 650
    out: Effects = []
    uses.tell("L-1", "m99", counted(2), 2 * SAVE_MS, out)
    (save,) = out
    assert isinstance(save, Save)
    assert isinstance(save.record, UseRecord)
    assert len(save.record.beside) == BESIDE_MOST
    again = Uses()
    again.restore(save.record)
    assert again.of("L-1")[0].used.total == 651
    # As it was written before there was any beside the last.
    old = msgspec.convert({"type": "use_record", "lease": "L-1", "meters": {"net.tx": "a"}}, UseRecord)
    again.restore(old)
    assert again.tell("L-1", "a", counted(10), 0, [])[0].used.total == 10
