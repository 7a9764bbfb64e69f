"""What a negotiated lease grants to a command as limits, and what the command uses as terms of the lease: exact figures."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.guardian.enforcement.figures import Figures, Limits
from holdall.guardian.enforcement.granted import CommandUse, limits_of, stay_of
from holdall.guardian.grace import negotiated_grace_ms
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import Kind, LeaseDocument, TermStatus, TermUse, Usage, Value

MIB = 1 << 20


def document(*terms: tuple[str, Kind, Value]) -> LeaseDocument:
    statuses = tuple(TermStatus(name, kind, granted, granted) for name, kind, granted in terms)
    return LeaseDocument("L-prague-a-1", "prague", "a", 1, "ann@a", "active", 1, 60_000, "r", statuses)


def test_capacities_are_limits_and_stay_is_a_time() -> None:
    lease = document(("cpu", "capacity", 1500), ("mem", "capacity", 64 * MIB), ("stay", "time", 9000))
    assert (limits_of(lease), stay_of(lease)) == (Limits(1500, 64 * MIB), 9000)
    other = document(("net.tx", "capacity", 5), ("cpu", "function", True), ("mem", "pool", 2))
    assert (limits_of(other), stay_of(other)) == (Limits(), None)


def test_use_is_told_in_units_of_each_term() -> None:
    use = CommandUse(10_000)
    use.add(Figures(cpu_ms=250, mem=10 * MIB, mem_peak=12 * MIB, oom_kills=0), 10_500)
    use.add(Figures(cpu_ms=900, mem=20 * MIB, mem_peak=25 * MIB, oom_kills=1), 11_000)
    kept = {"cpu": "kernel", "mem": "process"}
    cpu, mem, stay = use.told(Limits(1000, 64 * MIB), 30_000, kept)  # type: ignore[arg-type]
    assert cpu == TermUse("cpu", Usage(900, 900, 900), "ready.processing", enforced="kernel")
    assert mem == TermUse(
        "mem", Usage(15 * MIB, 20 * MIB, 25 * MIB), "ready.processing", denied=1, enforced="process"
    )
    assert stay == TermUse("stay", Usage(1000), "ready.processing", enforced="process")
    # Idle for two seconds: what was used in all stays, and so does the busiest second.
    use.add(Figures(cpu_ms=900, mem=0, mem_peak=25 * MIB, oom_kills=1), 13_000)
    (cpu,) = use.told(Limits(cpu=1000), None, {})
    assert cpu == TermUse("cpu", Usage(900, 0, 900), "ready.idle", enforced="none")


def test_a_time_that_is_over_is_completed() -> None:
    use = CommandUse(0)
    use.add(Figures(), 5000)
    (stay,) = use.told(Limits(), 5000, {})
    assert (stay.state, stay.used.total) == ("completed", 5000)


@given(
    st.lists(st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**62), st.integers(-5, 10**7)), max_size=8)
)
def test_whatever_is_measured_fits_a_record(measured: list[tuple[int, int, int]]) -> None:
    use, now_ms = CommandUse(0), 0
    for cpu_ms, mem, passed_ms in measured:
        now_ms += passed_ms
        use.add(Figures(cpu_ms=cpu_ms, mem=mem, mem_peak=mem, oom_kills=cpu_ms), now_ms)
        for one in use.told(Limits(1, 1), 1, {}):
            numbers = (one.used.total, one.used.rate_1s, one.used.peak_1s, one.denied)
            assert all(0 <= number <= AMOUNT_MAX for number in numbers)


def test_the_grace_of_a_negotiated_lease_begins_after_its_host_could_be_asked() -> None:
    assert [negotiated_grace_ms(duration) for duration in (6_000, 60_000, 3_600_000)] == [500, 5000, 5000]
    assert all(duration - negotiated_grace_ms(duration) > duration * 7 // 8 for duration in (5000, 10**6))
