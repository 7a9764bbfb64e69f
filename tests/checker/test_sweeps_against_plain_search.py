"""Each sweep says what a plain search over all pairs says, on random small histories."""

from itertools import combinations

from checker.lines import (
    Said,
    claim,
    end,
    fail,
    fault,
    grant,
    judged,
    meta,
    queued,
    reading,
    release,
    renew,
    use,
)
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.checker.beliefs import Hold, holds_of
from holdall.checker.excuses import Excuses, StoppedClock
from holdall.checker.order import given_after
from holdall.checker.rules_idle import idle_with_demand
from holdall.checker.rules_waiting import overtakes_of
from holdall.checker.stories import History, put_together
from holdall.checker.trees import CountTree, LevelTree, MaxTree

LAST = 60
times = st.integers(0, LAST)


@st.composite
def runs(draw: st.DrawFn) -> list[Said]:
    """Up to 12 claims of one unit of a pool of two, or of amounts of a counted pool; right or wrong, as chance has it."""
    eps = draw(st.integers(0, 3))
    lines = [
        meta({"p": {"units": ["x", "y"]}, "n": {"capacity": 4}}, eps=eps, max_overtakes=0, max_reclaim=5)
    ]
    for number in range(draw(st.integers(1, 12))):
        name = f"{'abcdefghijkl'[number]}1"
        asked = draw(times)
        amount = draw(st.integers(1, 4))
        counted = draw(st.booleans())
        lines.append(claim(name, {"n": amount} if counted else {"p": 1}, asked))
        if draw(st.booleans()):
            lines.append(queued(name, draw(times), bound=draw(st.sampled_from([None, 0, 1, 3]))))
        match draw(st.sampled_from(["grant", "grant", "grant", "fail", "open"])):
            case "grant":
                at = asked + draw(st.integers(0, 30))
                what = (
                    f"n*{amount}"
                    if counted
                    else f"p/{draw(st.sampled_from('xy'))}#{draw(st.integers(1, 12))}"
                )
                lines.append(grant(name, [what], at, at + draw(st.integers(-2, 20))))
                if draw(st.booleans()):
                    renewed = at + draw(st.integers(0, 25))
                    lines.append(renew(name, renewed, renewed + draw(st.integers(0, 20))))
                if draw(st.booleans()):
                    lines.append(release(name, at + draw(st.integers(0, 30))))
            case "fail":
                lines.append(fail(name, asked + draw(st.integers(0, 30)), definite=draw(st.booleans())))
            case _:
                pass
    for _ in range(draw(st.integers(0, 2))):
        start = draw(times)
        lines.append(fault("kill", start, start + draw(st.integers(0, 9)), excuse=True))
    return [*lines, end(2 * LAST)]


def together(lines: list[Said]) -> tuple[History, list[Hold]]:
    history = put_together(reading(lines))
    return history, holds_of(history)


@given(runs())
def test_double_holds(lines: list[Said]) -> None:
    history, holds = together(lines)
    on_unit: dict[tuple[str, str], list[tuple[int, int, str]]] = {}
    for hold in holds:
        for key in hold.units:
            on_unit.setdefault(key, []).extend((span.start, span.end, hold.lease) for span in hold.spans)
    plain = {
        f"{key[0]}/{key[1]}"
        for key, spans in on_unit.items()
        for one, other in combinations(spans, 2)
        if one[2] != other[2] and min(one[1], other[1]) - max(one[0], other[0]) > history.tolerance
    }
    found = {found.text.split(":")[0] for found in judged(*lines).violations if found.rule == "double-hold"}
    assert found == plain


@given(runs())
def test_over_capacity(lines: list[Said]) -> None:
    history, holds = together(lines)
    spans = [
        (span.start + history.tolerance / 2, span.end - history.tolerance / 2, hold.amounts["n"])
        for hold in holds
        for span in hold.spans
        if "n" in hold.amounts
    ]
    plain = any(
        sum(weight for start, end, weight in spans if start <= moment < end) > 4 for moment, _, _ in spans
    )
    assert any(found.rule == "over-capacity" for found in judged(*lines).violations) == plain


@given(runs())
def test_overtakes(lines: list[Said]) -> None:
    history, holds = together(lines)
    waits, known = list(history.waits()), given_after(history, holds)
    for entry in overtakes_of(history, waits, known):
        plain = sum(
            1
            for other in waits
            if other.asked.record.need == entry.wait.asked.record.need
            and other.outcome == "granted"
            and other.since > entry.since + history.tolerance
            and other.until + history.tolerance < entry.until
        )
        assert entry.number == plain


TWO_AT_ONCE = [
    meta({"p": {"units": ["x", "y"]}, "n": {"capacity": 4}}, eps=0, max_overtakes=0, max_reclaim=5),
    claim("a1", {"p": 1}, 1),
    grant("a1", ["p/x#1"], 2, 3),
    claim("b1", {"p": 1}, 1),
    grant("b1", ["p/x#1"], 2, 3),
    end(120),
]
"""One unit twice over the very same time: neither was given after the other."""


@given(runs())
@example(TWO_AT_ONCE)
def test_the_moment_after_which_a_lease_was_given(lines: list[Said]) -> None:
    history, holds = together(lines)
    known = given_after(history, holds)
    for hold in holds:
        moments = [-1]
        moments += [
            min(other.end, hold.start)
            for other in holds
            if other.spans
            and other.units.keys() & hold.units.keys()
            and (other.start, other.end) < (hold.start, hold.end)
        ]
        if "n" in hold.amounts:
            others = [other for other in holds if other.spans and "n" in other.amounts]
            for moment in range(hold.start):
                level = sum(other.amounts["n"] for other in others if other.start <= moment < other.end)
                if level + hold.amounts["n"] > 4:
                    moments.append(moment + 1)
        assert max(known.get(hold.lease, -1), -1) == max(moments)


@given(runs())
def test_idle_units_with_demand(lines: list[Said]) -> None:
    history, holds = together(lines)
    waits, excuses = list(history.waits()), Excuses(history.faults, history.horizon)
    longest = max((one.counted for one in idle_with_demand(history, holds, waits, excuses)), default=0)
    plain = 0
    hulls = [(hold, hold.start, hold.end) for hold in holds]
    for wait in waits:
        need = wait.asked.record.need
        for start in range(wait.since, wait.until):
            for pool, unit in (("p", "x"), ("p", "y"), ("n", None)):
                if need != {pool: 1}:
                    continue
                end = start
                while end < wait.until and is_idle(hulls, pool, unit, end):
                    end += 1
                    if any(first == end for hold, first, _ in hulls if (pool, unit) in hold.units):
                        break
                plain = max(plain, excuses.clock.at(end) - excuses.clock.at(start))
    assert longest == plain


def is_idle(hulls: list[tuple[Hold, int, int]], pool: str, unit: str | None, moment: int) -> bool:
    """From the moment to the next one."""
    holding = [hold for hold, start, end in hulls if start <= moment < end]
    if unit is None:
        return sum(hold.amounts.get(pool, 0) for hold in holding) < 4
    return not any((pool, unit) in hold.units for hold in holding)


uses_of_one = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 30), st.one_of(st.none(), st.integers(0, 10))), max_size=12
)


@given(uses_of_one)
def test_uses(uses: list[tuple[int, int, int | None]]) -> None:
    verdict = judged(
        meta({"p": {"units": ["x"]}}),
        *(
            use(f"p/x#{fence}", start, None if length is None else start + length)
            for fence, start, length in uses
        ),
    )
    spans = [(fence, start, start + (length or 0)) for fence, start, length in uses]
    overlapping = any(
        one[0] != other[0] and one[1] < other[2] and other[1] < one[2]
        for one, other in combinations(spans, 2)
    )
    stale = any(
        (one[1] < other[1] and one[0] > other[0]) or (other[1] < one[1] and other[0] > one[0])
        for one, other in combinations(spans, 2)
    )
    rules = {violation.rule for violation in verdict.violations}
    assert rules == ({"overlapping-use"} if overlapping else set()) | ({"stale-use"} if stale else set())


@given(st.lists(st.tuples(times, times).map(sorted)), times)
def test_a_stopped_clock_leaves_out_every_moment_of_its_intervals(
    intervals: list[list[int]], time: int
) -> None:
    clock = StoppedClock((start, end) for start, end in intervals)
    stopped = {moment for start, end in intervals for moment in range(start, end)}
    assert clock.at(time) - clock.at(0) == sum(1 for moment in range(time) if moment not in stopped)


@given(st.lists(times), st.lists(times), st.integers(0, LAST))
def test_an_excuse_of_everybody_and_one_of_a_client_count_once(
    everybodys: list[int], own: list[int], until: int
) -> None:
    lines = [fault("kill", start, start + 4, excuse=True) for start in everybodys]
    lines += [fault("pause", start, start + 6, excuse=True, client="a") for start in own]
    history = put_together(reading([*lines, end(2 * LAST)]))
    excuses = Excuses(history.faults, history.horizon)
    global_moments = {moment for start in everybodys for moment in range(start, start + 4)}
    own_moments = {moment for start in own for moment in range(start, start + 6)}
    assert excuses.counted("a", 0, until) == len(set(range(until)) - global_moments - own_moments)
    assert excuses.counted("b", 0, until) == len(set(range(until)) - global_moments)


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 10))
def test_the_count_tree_counts(places: list[int], first: int) -> None:
    tree = CountTree(10)
    for place in places:
        tree.mark(place)
    assert tree.marked_from(first) == sum(1 for place in places if place >= first)


@given(st.dictionaries(st.integers(0, 12), st.integers(-5, 5)), st.integers(0, 13), st.integers(0, 13))
def test_the_max_tree_finds_the_largest(values: dict[int, int], first: int, last: int) -> None:
    tree = MaxTree(13)
    for place, value in values.items():
        tree.put(place, value)
    assert tree.best_in(first, last) == max(
        ((value, place) for place, value in values.items() if first <= place < last), default=None
    )


@given(st.lists(st.integers(-5, 5), max_size=20), st.integers(-6, 6), st.integers(0, 20))
def test_the_level_tree_finds_the_last_one_above(levels: list[int], line: int, last: int) -> None:
    last = min(last, len(levels))
    found = [place for place, level in enumerate(levels[:last]) if level > line]
    assert LevelTree(levels).last_above(line, last) == (found[-1] if found else None)
