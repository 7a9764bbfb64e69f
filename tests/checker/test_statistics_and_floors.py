"""What happened is counted, and a history in which too little happened proves nothing."""

from collections.abc import Mapping, Sequence

import pytest
from checker.lines import (
    Said,
    claim,
    crash,
    end,
    fail,
    fault,
    grant,
    judged,
    lost,
    meta,
    queued,
    release,
    renew,
    use,
)

from holdall.checker import Floors

COUNTED: Mapping[str, object] = {"mem": {"capacity": 4}}

RUN: Sequence[Said] = [
    meta(),
    claim("a1", {"psu": 1}, 10),
    grant("a1", ["psu/a#1"], 12, 100, call=10, ttl=95),
    renew("a1", 50, 140),
    claim("b1", {"psu": 1}, 30),
    queued("b1", 31, bound=3),
    claim("c1", {"psu": 1}, 40),
    release("a1", 60, 61),
    grant("c1", ["psu/a#2"], 65, 80),
    claim("d1", {"gpu": 2}, 50),
    grant("d1", ["gpu/0#1", "gpu/1#1"], 51, 90),
    claim("e1", {"gpu": 3}, 60),
    fail("e1", 61),
    claim("f1", {"gpu": 1}, 62),
    fail("f1", 70, definite=False),
    claim("g1", {"gpu": 1}, 62),
    crash("g", 66),
    crash("c", 75),
    fault("kill", 20, 30),
    fault("pause", 20, 30),
    fault("kill", 40),
    grant("b1", ["psu/a#3"], 90, 120),
    lost("b1", 120),
    use("psu/a#3", 91, 95),
    use("psu/a#2", 92, accepted=False),
    use("psu/a#2", 93, accepted=False),
    end(200),
]


def test_everything_is_counted() -> None:
    verdict = judged(*RUN)
    counted = verdict.statistics
    assert list(verdict.violations) == []
    assert (counted.files, counted.lines, counted.torn_lines) == (1, len(RUN), 0)
    assert (counted.claims, counted.grants, counted.contended) == (7, 4, 2)
    assert (counted.refused, counted.unknown) == (1, 2)
    assert (counted.crashes, counted.faults) == (2, {"kill": 2, "pause": 1})
    assert (counted.wait_p50, counted.wait_p99, counted.wait_max) == (2, 60, 60)
    assert counted.overtakes == 1
    assert counted.idle_with_demand == 15  # psu/a from the crash at 75 to the grant at 90, while b1 waited
    assert counted.peak_use == {"gpu": 2, "psu": 1}
    assert (counted.uses, counted.refused_uses) == (3, 2)
    assert counted.deadlines_unproven == 4
    assert counted.unrecorded_leases == 0


def test_a_grant_is_contended_if_it_was_asked_while_the_last_holder_still_held() -> None:
    def contended(asked: int) -> int:
        return judged(
            meta(),
            claim("a1", {"psu": 1}, 10),
            grant("a1", ["psu/a#1"], 12, 100),
            release("a1", 20, 21),
            claim("b1", {"psu": 1}, asked),
            grant("b1", ["psu/a#2"], 30, 90),
        ).statistics.contended

    assert (contended(19), contended(20)) == (1, 0)


def test_an_amount_is_contended_if_less_was_free() -> None:
    def contended(amount: int) -> int:
        return judged(
            meta(COUNTED),
            claim("a1", {"mem": 2}, 10),
            grant("a1", ["mem*2"], 12, 100),
            release("a1", 20, 21),
            claim("b1", {"mem": amount}, 15),
            grant("b1", [f"mem*{amount}"], 30, 90),
        ).statistics.contended

    assert (contended(2), contended(3)) == (0, 1)


def test_peak_use_counts_what_was_believed_at_once() -> None:
    counted = judged(
        meta(COUNTED),
        claim("a1", {"mem": 2}, 10),
        grant("a1", ["mem*2"], 12, 20),
        claim("b1", {"mem": 2}, 10),
        grant("b1", ["mem*2"], 20, 30),
        claim("c1", {"mem": 1}, 10),
        grant("c1", ["mem*1"], 19, 22),
    ).statistics
    assert counted.peak_use == {"mem": 3}


def test_a_lease_without_an_end_has_no_deadline_to_prove() -> None:
    lines = [meta(), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, None), end(20)]
    assert judged(*lines).statistics.deadlines_unproven == 0


def test_a_counted_pool_is_idle_until_it_is_full_and_from_when_it_is_not() -> None:
    def idle(*rest: Said) -> int | None:
        return judged(
            meta(COUNTED), claim("b1", {"mem": 1}, 0), fail("b1", 40), *rest
        ).statistics.idle_with_demand

    taken = [claim("a1", {"mem": 4}, 10), grant("a1", ["mem*4"], 12, 90)]
    assert idle() == 40
    assert idle(*taken) == 12
    assert idle(*taken, release("a1", 15, 16)) == 25
    assert idle(claim("a1", {"mem": 3}, 10), grant("a1", ["mem*3"], 12, 90)) == 40


def test_percentiles_are_waits_that_happened() -> None:
    lines: list[Said] = [meta({"p": {"units": [str(number) for number in range(200)]}})]
    for number in range(200):
        lines += [claim(f"a{number}", {"p": 1}, 0), grant(f"a{number}", [f"p/{number}#1"], number + 1, 900)]
    counted = judged(*lines).statistics
    assert (counted.wait_p50, counted.wait_p99, counted.wait_max) == (100, 198, 200)


@pytest.mark.parametrize(
    ("floors", "missing"),
    [
        (Floors(grants=4, contended=2, faults=5), []),
        (Floors(grants=5), ["4 grants, at least 5 wanted"]),
        (Floors(contended=3), ["2 contended grants, at least 3 wanted"]),
        (Floors(faults=6), ["5 faults, at least 6 wanted"]),
        (Floors(grants=9, contended=9, faults=9), ["4 grants", "2 contended", "5 faults"]),
    ],
)
def test_below_a_floor_a_clean_history_proves_too_little(floors: Floors, missing: list[str]) -> None:
    verdict = judged(*RUN, floors=floors)
    assert verdict.exit_status == (3 if missing else 0)
    for wanted, found in zip(missing, verdict.shortfalls, strict=True):
        assert wanted in found


def test_a_violation_is_one_also_below_a_floor() -> None:
    assert judged(*RUN, audit_leak(), floors=Floors(grants=100)).exit_status == 1


def audit_leak() -> Said:
    return {"t": "audit", "pool": "gpu", "at": 190, "total": 2, "free": 1, "held": 1, "quiesced": True}


def test_nothing_recorded_proves_nothing() -> None:
    verdict = judged()
    assert (verdict.exit_status, list(verdict.shortfalls)) == (3, ["nothing was recorded"])


def test_without_pools_rules_are_missing() -> None:
    verdict = judged(*RUN[1:])
    assert verdict.exit_status == 3
    assert "no meta line" in verdict.shortfalls[0]


def test_without_an_end_open_claims_are_not_judged() -> None:
    lines = [meta(), claim("a1", {"psu": 1}, 10)]
    verdict = judged(*lines)
    assert (verdict.exit_status, len(verdict.shortfalls)) == (3, 1)
    assert "no end line: 1 claims" in verdict.shortfalls[0]
    assert judged(*lines, end(20)).exit_status == 1
    assert judged(*lines, grant("a1", ["psu/a#1"], 12, 20)).exit_status == 0


def test_what_is_asked_after_the_end_was_not_given_its_time() -> None:
    verdict = judged(meta(), end(5), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 20))
    assert verdict.exit_status == 3


def test_the_longest_wait_may_be_given_from_outside() -> None:
    lines = [meta(max_wait=5), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 20, 30), end(40)]
    assert judged(*lines).exit_status == 1
    assert judged(*lines, max_wait_ns=10).exit_status == 0
    assert judged(*lines, max_wait_ns=9).exit_status == 1
