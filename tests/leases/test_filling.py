"""The fair division: exact tables, the promised properties, and that no answer walks all demands."""

import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.leases.divisions import DIVIDERS, Divided, Rule, division_by
from holdall.leases.filling import Demand, Filling, quotient, water_filling
from holdall.leases.sorted_sums import Exact, Name

SEED = {"a10": 10_000, "a25": 25_000, "a40": 40_000, "a50": 50_000}


def name(word: str) -> Name:
    return word, ""


def wanted(amounts: dict[str, int], weights: dict[str, Exact] | None = None) -> dict[Name, Demand]:
    return {name(who): Demand(amount, (weights or {}).get(who, 1)) for who, amount in amounts.items()}


def filled(demands: dict[Name, Demand], capacity: int, step: int = 1) -> dict[Name, int]:
    """By the division that keeps itself up to date, one demand after the other."""
    filling = Filling(step)
    for who, demand in demands.items():
        filling.put(who, demand)
    return {who: filling.share(who, capacity) for who in demands}


def test_f1_the_four_senders_share_a_link() -> None:
    shares = filled(wanted(SEED), 100_000)
    assert list(shares.values()) == [10_000, 25_000, 32_500, 32_500]
    assert [quotient(share, SEED[who]) for (who, _), share in shares.items()] == [
        1, 1, Fraction(13, 16), Fraction(13, 20)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("capacity", "step", "amounts", "weights", "shares"),
    [
        (3, 1, {"a": 2, "b": 2}, {}, [2, 1]),
        (2, 1, {"a": 5, "b": 5, "c": 5}, {}, [1, 1, 0]),
        (12, 1, {"a": 20, "b": 20}, {"a": 2}, [8, 4]),
        (9, 1, {"a": 4, "b": 20, "c": 20}, {"a": Fraction(1, 2), "c": 3}, [1, 2, 6]),
        (100, 8, {"a": 70, "b": 90}, {}, [48, 48]),
        (100, 8, {"a": 20, "b": 90}, {}, [20, 80]),
        (0, 1, {"a": 5, "b": 1}, {}, [0, 0]),
        (10, 1, {"a": 3, "b": 7}, {}, [3, 7]),
        # One step each is left over for two; the first is met by less than a step, which leaves nothing whole.
        (39, 8, {"a": 18, "b": 90, "c": 90}, {}, [16, 8, 8]),
        (56, 8, {"a": 17, "b": 90, "c": 90}, {}, [17, 16, 16]),
    ],
)
def test_f2_more_cases(
    capacity: int, step: int, amounts: dict[str, int], weights: dict[str, Exact], shares: list[int]
) -> None:
    demands = wanted(amounts, weights)
    assert list(filled(demands, capacity, step).values()) == shares
    assert water_filling(demands, capacity, step) == dict(zip(demands, shares, strict=True))


@pytest.mark.parametrize(
    ("rule", "shares"),
    [
        ("fair", [10_000, 25_000, 32_500, 32_500]),
        ("proportional", [8_000, 20_000, 32_000, 40_000]),
        ("smallest-first", [10_000, 25_000, 40_000, 25_000]),
        ("equal", [10_000, 25_000, 25_000, 25_000]),
        ("none", [10_000, 25_000, 40_000, 50_000]),
    ],
)
def test_the_rules_side_by_side(rule: Rule, shares: list[int]) -> None:
    division = division_by(rule)
    for who, demand in wanted(SEED).items():
        division.put(who, demand)
    assert [division.share(who, 100_000) for who in wanted(SEED)] == shares


weights = st.one_of(
    st.integers(1, 4),
    st.fractions(Fraction(1, 4), 4, max_denominator=6).map(lambda weight: quotient(weight, Fraction(1))),
)
demand = st.builds(Demand, st.integers(0, 60), weights)
many = st.lists(demand, min_size=1, max_size=12).map(
    lambda all_: {name(f"h{at:02}"): one for at, one in enumerate(all_)}
)
plain = st.lists(st.integers(1, 60), min_size=1, max_size=12).map(
    lambda amounts: {name(f"h{at:02}"): Demand(amount) for at, amount in enumerate(amounts)}
)


@given(many, st.integers(0, 300), st.integers(1, 9))
def test_one_share_alone_is_what_the_whole_division_says(
    demands: dict[Name, Demand], capacity: int, step: int
) -> None:
    assert filled(demands, capacity, step) == water_filling(demands, capacity, step)


@given(many, st.integers(0, 300))
def test_all_is_given_or_all_is_met(demands: dict[Name, Demand], capacity: int) -> None:
    shares = filled(demands, capacity)
    assert all(0 <= share <= demands[who].amount for who, share in shares.items())
    assert sum(shares.values()) == min(capacity, sum(one.amount for one in demands.values()))


@given(many, st.integers(0, 300), st.integers(2, 9))
def test_with_steps_less_than_a_step_is_left_over(
    demands: dict[Name, Demand], capacity: int, step: int
) -> None:
    shares = filled(demands, capacity, step)
    left = min(capacity, sum(one.amount for one in demands.values())) - sum(shares.values())
    assert 0 <= left < step
    unmet = {who for who in demands if shares[who] < demands[who].amount}
    assert all(shares[who] % step == 0 for who in unmet)


@given(many, st.integers(0, 300))
def test_nobody_can_be_raised_but_by_lowering_one_with_no_more_for_its_weight(
    demands: dict[Name, Demand], capacity: int
) -> None:
    shares = filled(demands, capacity)
    for who, share in shares.items():
        if share < demands[who].amount:
            # Rounding moves a share by less than a unit in either direction.
            most = max((shares[other] - 1) / demands[other].weight for other in demands)
            assert (share + 1) / demands[who].weight >= most


@given(plain, st.integers(0, 300))
def test_the_granted_fraction_never_grows_with_the_request(
    demands: dict[Name, Demand], capacity: int
) -> None:
    shares = filled(demands, capacity)
    order = sorted(demands, key=lambda who: (demands[who].amount, who))
    for small, large in pairwise(order):
        # A left-over unit goes to the smaller demands first.
        assert shares[small] * demands[large].amount >= shares[large] * demands[small].amount


@given(many, demand, st.integers(0, 300))
def test_a_newcomer_raises_nobody_but_by_a_left_over_unit(
    demands: dict[Name, Demand], newcomer: Demand, capacity: int
) -> None:
    before = filled(demands, capacity)
    after = filled({**demands, name("n"): newcomer}, capacity)
    assert all(after[who] <= before[who] + 1 for who in demands)


@given(plain, st.integers(2, 20), st.integers(0, 300), st.data())
def test_overstating_gains_at_most_a_left_over_unit(
    demands: dict[Name, Demand], times: int, capacity: int, data: st.DataObject
) -> None:
    liar = data.draw(st.sampled_from(sorted(demands)))
    honest = filled(demands, capacity)[liar]
    overstated = filled({**demands, liar: Demand(demands[liar].amount * times)}, capacity)[liar]
    assert min(overstated, demands[liar].amount) <= honest + 1


@pytest.mark.parametrize("rule", sorted(set(DIVIDERS) - {"none"}))
@given(many, st.integers(0, 300), st.integers(1, 9))
def test_no_rule_gives_more_than_there_is(
    rule: Rule, demands: dict[Name, Demand], capacity: int, step: int
) -> None:
    shares = DIVIDERS[rule](demands, capacity, step)
    assert set(shares) == set(demands)
    assert sum(shares.values()) <= capacity
    assert all(0 <= share <= demands[who].amount for who, share in shares.items())


def test_only_the_proportional_rule_pays_who_overstates() -> None:
    gains: dict[str, int] = {}
    for rule in ("fair", "proportional", "equal"):
        division = Divided(DIVIDERS[rule])
        for who, one in wanted(SEED).items():
            division.put(who, one)
        honest = division.share(name("a40"), 100_000)
        division.put(name("a40"), Demand(80_000))
        gains[rule] = division.share(name("a40"), 100_000) - honest
    assert gains == {"fair": 0, "proportional": 16_484, "equal": 0}


@given(st.lists(st.tuples(st.integers(0, 9), st.one_of(st.none(), demand)), max_size=60), st.integers(0, 200))
def test_demands_come_and_go(changes: list[tuple[int, Demand | None]], capacity: int) -> None:
    filling, known = Filling(3), dict[Name, Demand]()
    for who, one in changes:
        if one is None:
            filling.drop(name(str(who)))
            known.pop(name(str(who)), None)
        else:
            filling.put(name(str(who)), one)
            known[name(str(who))] = one
        assert {each: filling.share(each, capacity) for each in known} == water_filling(known, capacity, 3)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions are called, those written in C included: the same on every machine."""
    count = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_a_request_among_ten_thousand_demands_walks_a_small_part_of_them() -> None:
    cost: dict[int, tuple[int, int]] = {}
    for many_ in (100, 10_000):
        filling = Filling()
        for at in range(many_):
            filling.put(name(f"h{at:05}"), Demand(1 + at * 7919 % 100_003))

        def renew(filling: Filling = filling) -> None:
            filling.put(name("h00050"), Demand(77_777))
            filling.share(name("h00050"), 1_000_000)

        cost[many_] = calls_of(renew), calls_of(renew)
    assert cost[10_000][0] < 1_000
    walked = calls_of(lambda: water_filling(filling.demands, 1_000_000))
    assert walked > 8 * cost[10_000][0]
    # Asking again for the same, as most renewals do, starts from the level that is known.
    assert cost[10_000][1] < cost[10_000][0]
