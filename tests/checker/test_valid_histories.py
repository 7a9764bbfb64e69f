"""What is right must pass: small histories with something unusual in each, and runs of a simulated service."""

from collections.abc import Mapping

import pytest
from checker.lines import (
    Said,
    audit,
    broken,
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
    reading,
    release,
    renew,
    resume,
    use,
)
from checker.lock_service import MS, Weather, simulated
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.checker.judging import judge_reading

HELD = [claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 100)]
ONE: Mapping[str, object] = {"psu": {"units": ["a"]}}
COUNTED: Mapping[str, object] = {"mem": {"capacity": 4}}

VALID: dict[str, list[Said]] = {
    "nothing but a beginning and an end": [meta(), end(5)],
    "one lease, released": [meta(), *HELD, release("a1", 20, 22), end(30)],
    "held at the end": [meta(), *HELD, end(30)],
    "handed over at the very moment": [
        meta(),
        *HELD,
        release("a1", 20, 22),
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 20, 60),
        end(70),
    ],
    "handed over when validity ends": [
        meta(),
        *HELD,
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 100, 160),
        end(170),
    ],
    "handed over after a loss": [
        meta(),
        *HELD,
        lost("a1", 50),
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 51, 60),
        end(170),
    ],
    "handed over after a crash": [
        meta(),
        *HELD,
        crash("a", 50),
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 51, 60),
        end(170),
    ],
    "a crash between asking and hearing": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        crash("a", 11),
        claim("b1", {"psu": 1}, 12),
        grant("a1", ["psu/a#1"], 13, 90),
        grant("b1", ["psu/a#2"], 20, 60),
        end(70),
    ],
    "another holder in the gap of a late renewal": [
        meta(),
        *HELD,
        renew("a1", 200, 300),
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 101, 160),
        end(400),
    ],
    "back after a crash, with the same lease": [
        meta(),
        *HELD,
        crash("a", 20),
        resume("a1", 50, 150),
        claim("b1", {"psu": 1}, 60),
        grant("b1", ["psu/a#2"], 150, 160),
        end(400),
    ],
    "a grant that arrives too late to be believed": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        claim("b1", {"psu": 1}, 11),
        grant("b1", ["psu/a#2"], 50, 60),
        grant("a1", ["psu/a#1"], 55, 40),
        end(70),
    ],
    "gave up before the grant came": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        release("a1", 15),
        claim("b1", {"psu": 1}, 11),
        grant("b1", ["psu/a#2"], 20, 60),
        grant("a1", ["psu/a#1"], 55, 90),
        end(100),
    ],
    "receipts of one moment in either order": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        claim("b1", {"psu": 1}, 10),
        grant("a1", ["psu/a#2"], 20, 20),
        grant("b1", ["psu/a#1"], 20, 30),
        end(100),
    ],
    "a renewal answered after the release was sent": [
        meta(),
        *HELD,
        release("a1", 40, 50),
        renew("a1", 60, 160, call=39),
        end(100),
    ],
    "a renewal refused after the release": [
        meta(),
        *HELD,
        release("a1", 40, 50),
        renew("a1", 60, None, ok=False, call=55),
        end(100),
    ],
    "a release repeated, the second time refused": [
        meta(),
        *HELD,
        release("a1", 40, 50),
        release("a1", 60, 70, ok=False),
        end(100),
    ],
    "a release without an answer, then a renewal": [
        meta(),
        *HELD,
        release("a1", 40),
        renew("a1", 60, 160),
        end(100),
    ],
    "a release refused, then a renewal": [
        meta(),
        *HELD,
        release("a1", 40, 50, ok=False),
        renew("a1", 60, 160, call=55),
        end(100),
    ],
    "a release acknowledged at a time that nobody wrote down": [
        meta(),
        *HELD,
        {"t": "release", "lease": "a1", "call": 40, "ok": True},
        renew("a1", 60, 160, call=55),
        end(100),
    ],
    "a stranger's renewal, refused": [meta(), *HELD, renew("a1", 20, None, ok=False, by="b"), end(100)],
    "a stranger's release, refused": [meta(), *HELD, release("a1", 20, 30, ok=False, by="b"), end(100)],
    "a delegate's renewal and release": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 12, 100, delegates=["g"]),
        renew("a1", 50, 150, by="g"),
        release("a1", 60, 70, by="g"),
        end(200),
    ],
    "the holder's own name in by": [
        meta(),
        *HELD,
        renew("a1", 50, 150, by="a"),
        release("a1", 60, 70, by="a"),
        end(99),
    ],
    "a deadline exactly at call and ttl": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 15, 110, call=10, ttl=100),
        renew("a1", 60, 150, call=50, ttl="100ns"),
        end(300),
    ],
    "a deadline without its call": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 15, 999, ttl=1),
        end(30),
    ],
    "a lease without an end": [meta(), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 15), end(30)],
    "a lease with an id of its own": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 15, 100, lease="l"),
        release("l", 20, 30),
        end(30),
    ],
    "the second alternative": [
        meta(),
        claim("a1", {"gpu": 2}, 1, **{"or": [{"psu": 1}]}),
        grant("a1", ["psu/a#1"], 2, 30),
        end(30),
    ],
    "all of a pool": [
        meta(),
        claim("a1", {"gpu": "all"}, 1),
        grant("a1", ["gpu/0#1", "gpu/1#1"], 2, 30),
        end(30),
    ],
    "all of a pool of which one unit is away": [
        meta(),
        claim("a1", {"gpu": "all"}, 1),
        grant("a1", ["gpu/1#1"], 2, 30),
        end(30),
    ],
    "units in any order": [
        meta(),
        claim("a1", {"gpu": 2}, 1),
        grant("a1", ["gpu/1#4", "gpu/0#9"], 2, 30),
        end(30),
    ],
    "one number on two units": [
        meta(),
        claim("a1", {"gpu": 2}, 1),
        grant("a1", ["gpu/1#4", "gpu/0#4"], 2, 30),
        end(30),
    ],
    "a counted pool, full": [
        meta(COUNTED),
        claim("a1", {"mem": 3}, 1),
        grant("a1", ["mem*3"], 2, 30),
        claim("b1", {"mem": 1}, 1),
        grant("b1", ["mem*1"], 2, 30),
        end(30),
    ],
    "an amount in two parts": [
        meta(COUNTED),
        claim("a1", {"mem": 3}, 1),
        grant("a1", ["mem*1", "mem*2"], 2, 9),
        end(30),
    ],
    "an amount handed over at the very moment": [
        meta(COUNTED),
        claim("a1", {"mem": 4}, 1),
        grant("a1", ["mem*4"], 2, 30),
        claim("b1", {"mem": 4}, 1),
        grant("b1", ["mem*4"], 30, 40),
        end(50),
    ],
    "a counted pool whose units are named all the same": [
        meta({"mem": {"capacity": 2}}),
        claim("a1", {"mem": 2}, 1),
        grant("a1", ["mem/x#1", "mem/y#1"], 2, 30),
        end(30),
    ],
    "asked too much, refused": [meta(), claim("a1", {"gpu": 3}, 1), fail("a1", 2), end(9)],
    "asked for nothing, refused": [meta(), claim("a1", {}, 1), fail("a1", 2), end(9)],
    "asked for less than nothing, refused": [meta(), claim("a1", {"gpu": -1}, 1), fail("a1", 2), end(9)],
    "asked for what is unknown, died": [meta(), claim("a1", {"tpu": 1}, 1), crash("a", 2), end(9)],
    "asked for what is unknown, gave up": [
        meta(),
        claim("a1", {"tpu": 1}, 1),
        fail("a1", 2, definite=False),
        end(9),
    ],
    "one alternative that can be met": [
        meta(),
        claim("a1", {"tpu": 1}, 1, **{"or": [{"gpu": 1}]}),
        grant("a1", ["gpu/0#1"], 2, 5),
        end(9),
    ],
    "gave up, granted all the same": [
        meta(),
        claim("a1", {"gpu": 1}, 1),
        fail("a1", 2, definite=False),
        grant("a1", ["gpu/0#1"], 3, 5),
        end(9),
    ],
    "a use of a moment at the border": [
        meta(),
        use("psu/a#1", 10, 20),
        use("psu/a#2", 20),
        use("psu/a#2", 20, 30),
        end(40),
    ],
    "uses of one number at once": [meta(), use("psu/a#1", 10, 20), use("psu/a#1", 15, 30), end(40)],
    "a stale use, refused": [
        meta(),
        use("psu/a#2", 10, 20),
        use("psu/a#1", 30, 40, accepted=False),
        use("psu/a#1", 15, 18, accepted=False),
        end(50),
    ],
    "a refused high number before a low one": [
        meta(),
        use("psu/a#9", 1, accepted=False),
        use("psu/a#2", 10, 20),
        end(40),
    ],
    "uses whose ends nobody saw": [
        meta(),
        use("psu/a#1", 10),
        use("psu/a#2", 20),
        use("psu/a#3", 30),
        end(40),
    ],
    "books that add up": [
        meta(),
        *HELD,
        audit("psu", 20, call=18, total=1, free=0, held=1, fences={"a": 1}),
        audit("gpu", 20, total=2, free=2, held=0, fences={}),
        audit("gpu", 21, free=2, held=0),
        audit("gpu", 22),
        end(30),
    ],
    "books with a lease that nobody knows yet": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        audit("psu", 11, total=1, free=0, held=1, fences={"a": 1}),
        grant("a1", ["psu/a#1"], 12, 100),
        end(30),
    ],
    "at rest with a holder": [
        meta(),
        *HELD,
        audit("psu", 50, total=1, free=0, held=1, quiesced=True),
        end(90),
    ],
    "held, and not at rest": [meta(), audit("psu", 50, total=1, free=0, held=1), end(90)],
    "numbers skipped after a restart": [
        meta(),
        *HELD,
        release("a1", 20, 21),
        audit("psu", 30, fences={"a": 1024}),
        claim("b1", {"psu": 1}, 40),
        grant("b1", ["psu/a#1025"], 41, 99),
        audit("psu", 50, fences={"a": 1025}),
        end(90),
    ],
    "books asked before a grant, answered after it": [
        meta(),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 12, 100),
        audit("psu", 20, call=12, fences={"a": 0}),
        end(90),
    ],
    "waited just as long as allowed": [
        meta(max_wait=10),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 20, 30),
        end(90),
    ],
    "waited through excused faults": [
        meta(max_wait=10),
        claim("a1", {"psu": 1}, 10),
        fault("kill", 12, 20, excuse=True),
        fault("kill", 18, 22, excuse=True),
        fault("pause", 21, 25, excuse=True, client="a"),
        grant("a1", ["psu/a#1"], 33, 90),
        end(90),
    ],
    "waited through a fault without an end": [
        meta(max_wait=10),
        claim("a1", {"psu": 1}, 10),
        fault("kill", 12, excuse=True),
        grant("a1", ["psu/a#1"], 80, 90),
        end(90),
    ],
    "a client that died waiting": [
        meta(max_wait=10),
        claim("a1", {"psu": 1}, 10),
        queued("a1", 11),
        crash("a", 80),
        end(90),
    ],
    "in order of asking": [
        meta(ONE, max_overtakes=0),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        claim("c1", {"psu": 1}, 14),
        release("a1", 20, 21),
        grant("b1", ["psu/a#2"], 22, 90),
        release("b1", 30, 31),
        grant("c1", ["psu/a#3"], 33, 90),
        end(95),
    ],
    "receipts that changed places": [
        meta(max_overtakes=0),
        claim("a1", {"gpu": 1}, 10),
        claim("b1", {"gpu": 1}, 11),
        grant("b1", ["gpu/1#1"], 12, 90),
        grant("a1", ["gpu/0#1"], 13, 90),
        end(95),
    ],
    "another need goes first": [
        meta({"psu": {"units": ["a"]}, "gpu": {"units": ["0"]}}, max_overtakes=0),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        claim("c1", {"gpu": 1}, 14),
        grant("c1", ["gpu/0#1"], 15, 60),
        release("a1", 20, 21),
        grant("b1", ["psu/a#2"], 22, 90),
        end(95),
    ],
    "another group goes first": [
        meta(ONE, max_overtakes=0),
        *HELD,
        claim("b1", {"psu": 1}, 13, group="low"),
        claim("c1", {"psu": 1}, 14, group="high"),
        release("a1", 20, 21),
        grant("c1", ["psu/a#2"], 22, 60),
        release("c1", 30, 31),
        grant("b1", ["psu/a#3"], 33, 90),
        end(95),
    ],
    "asked before the other learned that it was in the queue": [
        meta(ONE, max_overtakes=0),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        claim("c1", {"psu": 1}, 14),
        queued("b1", 15),
        release("a1", 20, 21),
        grant("c1", ["psu/a#2"], 22, 60),
        release("c1", 30, 31),
        grant("b1", ["psu/a#3"], 33, 90),
        end(95),
    ],
    "passed as often as was said": [
        meta(ONE, max_overtakes=0),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        queued("b1", 14, bound=1),
        claim("c1", {"psu": 1}, 15),
        release("a1", 20, 21),
        grant("c1", ["psu/a#2"], 22, 60),
        release("c1", 30, 31),
        grant("b1", ["psu/a#3"], 33, 90),
        end(95),
    ],
    "passed once before and once after a new word": [
        meta(ONE),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        queued("b1", 14, bound=1),
        claim("c1", {"psu": 1}, 15),
        release("a1", 20, 21),
        grant("c1", ["psu/a#2"], 22, 60),
        queued("b1", 25, bound=1),
        claim("d1", {"psu": 1}, 26),
        release("c1", 30, 31),
        grant("d1", ["psu/a#3"], 33, 60),
        release("d1", 40, 41),
        grant("b1", ["psu/a#4"], 43, 90),
        end(95),
    ],
    "passed after a pause that may have cost its place": [
        meta(ONE),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        queued("b1", 14, bound=0),
        fault("pause", 15, 40, excuse=True, client="b"),
        release("a1", 20, 21),
        claim("c1", {"psu": 1}, 16),
        grant("c1", ["psu/a#2"], 22, 60),
        release("c1", 43, 44),
        queued("b1", 42, bound=0),
        grant("b1", ["psu/a#3"], 46, 90),
        end(95),
    ],
    "passed when its node had told that it stands in no line now": [
        meta(ONE),
        *HELD,
        claim("b1", {"psu": 1}, 13),
        queued("b1", 14, bound=0),
        queued("b1", 15),
        release("a1", 20, 21),
        claim("c1", {"psu": 1}, 16),
        grant("c1", ["psu/a#2"], 22, 60),
        release("c1", 43, 44),
        grant("b1", ["psu/a#3"], 46, 90),
        end(95),
    ],
    "idle, but nobody waited": [
        meta(ONE, max_reclaim=10),
        *HELD,
        release("a1", 20, 21),
        claim("b1", {"psu": 1}, 50),
        grant("b1", ["psu/a#2"], 55, 90),
        end(95),
    ],
    "idle while only a big claim waited": [
        meta(max_reclaim=10),
        *HELD,
        release("a1", 20, 21),
        claim("b1", {"psu": 1, "gpu": 1}, 15),
        grant("b1", ["psu/a#2", "gpu/0#1"], 55, 90),
        end(95),
    ],
    "idle just as long as allowed": [
        meta(ONE, max_reclaim=10),
        *HELD,
        release("a1", 20, 21),
        claim("b1", {"psu": 1}, 15),
        grant("b1", ["psu/a#2"], 30, 90),
        end(95),
    ],
    "idle while the only one who waited was paused": [
        meta(ONE, max_reclaim=10),
        *HELD,
        release("a1", 20, 21),
        claim("b1", {"psu": 1}, 15),
        fault("pause", 22, 70, excuse=True, client="b"),
        grant("b1", ["psu/a#2"], 71, 90),
        end(95),
    ],
    "idle while the node was dead": [
        meta(ONE, max_reclaim=10),
        *HELD,
        release("a1", 20, 21),
        claim("b1", {"psu": 1}, 15),
        fault("kill", 22, 70, excuse=True),
        grant("b1", ["psu/a#2"], 71, 90),
        end(95),
    ],
    "idle as two waits in a row are no wait throughout": [
        meta(ONE, max_reclaim=10),
        claim("b1", {"psu": 1}, 0),
        fail("b1", 8),
        claim("c1", {"psu": 1}, 8),
        fail("c1", 16),
        end(95),
    ],
    "units of the same name in two pools": [
        meta({"gpu": {"units": ["0"]}, "tpu": {"units": ["0"]}}),
        claim("a1", {"gpu": 1}, 1),
        grant("a1", ["gpu/0#1"], 2, 50),
        claim("b1", {"tpu": 1}, 1),
        grant("b1", ["tpu/0#1"], 2, 50),
        end(95),
    ],
    "the same words twice": [meta(), meta(), *HELD, end(99), end(99)],
    "a lease whose grant died with its holder": [
        meta(),
        claim("a1", {"psu": 1}, 1),
        crash("a", 5),
        resume("a1", 9, 20),
        release("a1", 10, 11),
        end(95),
    ],
    "times before the clock began": [
        meta(),
        claim("a1", {"psu": 1}, -50),
        grant("a1", ["psu/a#1"], -40, -30),
        end(0),
    ],
}


@pytest.mark.parametrize("name", VALID)
def test_a_valid_history_passes_in_any_order_of_its_lines(name: str) -> None:
    assert broken(*VALID[name]) == []
    assert judged(*reversed(VALID[name])).exit_status == 0


@pytest.mark.parametrize("seed", range(40))
def test_a_run_of_a_right_service_passes(seed: int) -> None:
    verdict = judge_reading(reading(simulated(seed)))
    assert [*verdict.violations, *verdict.damage, *verdict.shortfalls] == []
    assert verdict.statistics.grants > 0


def test_the_simulated_runs_are_not_easy() -> None:
    """What passed above had contention, crashes, lost leases and refused stale uses in it."""
    runs = [judge_reading(reading(simulated(seed))).statistics for seed in range(40)]
    assert sum(run.contended for run in runs) > 400
    assert sum(run.crashes for run in runs) > 30
    assert sum(run.refused_uses for run in runs) > 100
    assert sum(run.faults.get("pause", 0) for run in runs) > 200


weathers = st.builds(
    Weather,
    clients=st.integers(1, 8),
    claims_each=st.integers(1, 10),
    crash=st.integers(0, 30),
    stall=st.integers(0, 40),
    give_up=st.integers(0, 50),
    lost_message=st.integers(0, 30),
    clock_error=st.sampled_from([0, 0, MS // 2, 3 * MS]),
)


@given(st.integers(0, 2**32), weathers)
@settings(max_examples=60)
def test_a_run_in_any_weather_passes(seed: int, weather: Weather) -> None:
    verdict = judge_reading(reading(simulated(seed, weather)))
    assert [*verdict.violations, *verdict.damage, *verdict.shortfalls] == []


@pytest.mark.long
@given(st.integers(0, 2**32), weathers)
@settings(max_examples=5_000)
def test_many_runs_in_any_weather_pass(seed: int, weather: Weather) -> None:
    verdict = judge_reading(reading(simulated(seed, weather)))
    assert [*verdict.violations, *verdict.damage, *verdict.shortfalls] == []


def test_at_least_eighty_valid_histories_are_judged_here() -> None:
    assert len(VALID) + 40 >= 80
