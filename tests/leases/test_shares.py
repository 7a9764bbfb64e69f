"""One capacity over time: who asks, who renews, who is remembered; never more than there is."""

import random
from copy import copy
from fractions import Fraction

import pytest

from holdall.leases.divisions import Rule
from holdall.leases.filling import Demand, water_filling
from holdall.leases.shares import Place, Shares, Wanted
from holdall.leases.sorted_sums import Exact, Name

SEED = {"a10": 10_000, "a25": 25_000, "a40": 40_000, "a50": 50_000}
TWO_S = 2_000


def asked(shares: Shares, holder: str, amount: int, now_ms: int) -> int:
    """What is granted; the lease is named like its holder."""
    return shares.ask(holder, holder, Wanted(amount), now_ms=now_ms, duration_ms=TWO_S)


def granted(shares: Shares) -> dict[str, int]:
    return {lease: part.granted for lease, part in shares.parts.items()}


def test_four_holders_come_to_the_division_with_their_first_renewals() -> None:
    shares = Shares(100_000)
    assert [asked(shares, who, amount, 0) for who, amount in SEED.items()] == [
        10_000, 25_000, 40_000, 25_000
    ]  # fmt: skip
    for who, amount in SEED.items():
        shares.renew(who, Wanted(amount), now_ms=2_000)
    assert granted(shares) == {"a10": 10_000, "a25": 25_000, "a40": 32_500, "a50": 32_500}
    shares.release("a10")
    shares.release("a25")
    for who in ("a40", "a50"):
        shares.renew(who, Wanted(SEED[who]), now_ms=8_000)
    assert granted(shares) == {"a40": 40_000, "a50": 50_000}
    assert asked(shares, "a60", 60_000, 9_500) == 10_000
    for who in ("a40", "a50"):
        shares.renew(who, Wanted(SEED[who]), now_ms=10_000)
    assert granted(shares) == {"a40": 33_334, "a50": 33_333, "a60": 10_000}
    shares.renew("a60", Wanted(60_000), now_ms=11_500)
    assert granted(shares) == {"a40": 33_334, "a50": 33_333, "a60": 33_333}


def test_one_who_was_refused_is_remembered_until_the_holder_renews() -> None:
    shares = Shares(100_000)
    assert asked(shares, "first", 100_000, 0) == 100_000
    assert asked(shares, "newcomer", 30_000, 500) == 0
    assert shares.renew("first", Wanted(100_000), now_ms=2_000) == 70_000
    assert asked(shares, "newcomer", 30_000, 2_000) == 30_000


def test_an_intent_lapses_after_one_duration() -> None:
    shares = Shares(100)
    asked(shares, "first", 100, 0)
    assert asked(shares, "newcomer", 30, 500) == 0
    assert shares.next_lapse_ms() == 2_500
    assert shares.renew("first", Wanted(100), now_ms=2_499) == 70
    assert shares.renew("first", Wanted(100), now_ms=2_500) == 100
    assert shares.next_lapse_ms() is None


def test_one_who_is_refused_again_and_again_is_remembered_from_the_last_time_and_stands_once_in_line() -> (
    None
):
    shares = Shares(100)
    asked(shares, "first", 100, 0)
    for now_ms in range(100, 1_100, 100):
        assert asked(shares, "newcomer", 30, now_ms) == 0
    assert len(shares._lapses) == 1
    assert shares.renew("first", Wanted(100), now_ms=2_900) == 70
    assert shares.renew("first", Wanted(100), now_ms=3_000) == 100


def test_f4_holders_that_renew_exactly_at_expiry_come_to_the_division() -> None:
    shares = Shares(100_000)
    rounds: list[list[int]] = []
    for now_ms in range(0, 10_000, TWO_S):
        for who in SEED:
            if who in shares.parts:
                shares.expire(who, now_ms=now_ms, duration_ms=TWO_S)
        rounds.append([asked(shares, who, amount, now_ms) for who, amount in SEED.items()])
    assert rounds == [[10_000, 25_000, 40_000, 25_000]] + 4 * [[10_000, 25_000, 32_500, 32_500]]


def test_f4_without_memory_they_never_would() -> None:
    shares = Shares(100_000)
    for now_ms in range(0, 10_000, TWO_S):
        for who in SEED:
            if who in shares.parts:
                shares.release(who)
        assert [asked(shares, who, amount, now_ms) for who, amount in SEED.items()][2:] == [40_000, 25_000]


def test_policy_caps_the_demand_before_the_division() -> None:
    shares = Shares(100)
    shares.ask("a", "a", Wanted(90, cap=20), now_ms=0, duration_ms=TWO_S)
    shares.ask("b", "b", Wanted(90), now_ms=0, duration_ms=TWO_S)
    assert granted(shares) == {"a": 20, "b": 80}
    assert shares.ask("c", "c", Wanted(5, cap=0), now_ms=0, duration_ms=TWO_S) == 0


def test_groups_share_first_and_members_inside() -> None:
    shares = Shares(90, groups={"vu": 2})
    wanted = {"v1": "vu", "v2": "vu", "u1": "uni-a", "u2": "uni-a", "u3": "uni-a"}
    for _ in range(3):
        for who, group in wanted.items():
            if who in shares.parts:
                shares.renew(who, Wanted(50, group=group), now_ms=0)
            else:
                shares.ask(who, who, Wanted(50, group=group), now_ms=0, duration_ms=TWO_S)
    assert granted(shares) == {"v1": 30, "v2": 30, "u1": 10, "u2": 10, "u3": 10}
    for who in ("u1", "u2", "u3"):
        shares.release(who)
    for who in ("v1", "v2"):
        shares.renew(who, Wanted(50, group="vu"), now_ms=0)
    assert granted(shares) == {"v1": 45, "v2": 45}


def test_a_renewal_whose_share_is_nothing_is_refused_and_its_lease_runs_out() -> None:
    shares = Shares(2)
    for holder in "cba":
        asked(shares, holder, 2, 0)
    assert granted(shares) == {"c": 2}
    assert shares.renew("c", Wanted(2), now_ms=1_000) == 0, "one each for a and b"
    assert granted(shares) == {"c": 2}
    shares.expire("c", now_ms=1_999, duration_ms=TWO_S)
    assert [asked(shares, holder, 2, 1_999) for holder in "cba"] == [0, 1, 1]


def test_steps_round_what_is_free_too() -> None:
    shares = Shares(100, step=8)
    shares.ask("a", "a", Wanted(70), now_ms=0, duration_ms=TWO_S)
    assert shares.ask("b", "b", Wanted(90), now_ms=0, duration_ms=TWO_S) == 24
    assert shares.ask("c", "c", Wanted(6), now_ms=0, duration_ms=TWO_S) == 6


def test_below_its_floor_a_grant_is_none_and_the_best_is_told_without_a_trace() -> None:
    shares = Shares(100)
    asked(shares, "a", 80, 0)
    assert shares.best("b", Wanted(60), now_ms=0) == 20
    assert shares.renew("a", Wanted(80), now_ms=0) == 80
    assert shares.ask("b", "b", Wanted(60), now_ms=0, duration_ms=TWO_S, floor=21) == 0
    assert shares.parts.keys() == {"a"}
    assert shares.renew("a", Wanted(80), now_ms=0, floor=70) == 0, "b is remembered, so a's share is 50"
    assert granted(shares) == {"a": 80}


def test_draining_work_is_used_and_its_holder_is_counted_once() -> None:
    shares = Shares(100)
    asked(shares, "a", 60, 0)
    shares.expire("a", now_ms=2_000, duration_ms=TWO_S, draining=True)
    assert shares.free == 40
    assert shares.ask("a", "again", Wanted(60), now_ms=2_000, duration_ms=TWO_S) == 40
    shares.drained("a")
    assert shares.renew("again", Wanted(60), now_ms=2_000) == 60
    shares.release("again", draining=True)
    assert (shares.free, shares.parts["again"].place) == (40, Place.DRAINING)
    shares.drained("again")
    assert (shares.free, len(shares._demands)) == (100, 0)


def test_an_offer_that_replaces_a_lease_takes_no_more_than_the_larger_of_the_two() -> None:
    shares = Shares(100)
    asked(shares, "a", 60, 0)
    assert shares.ask("a", "new", Wanted(90), now_ms=0, duration_ms=TWO_S, replaces="a") == 90
    assert shares.free == 10
    shares.confirm("new")
    assert (granted(shares), shares.free) == ({"new": 90}, 10)
    assert shares.ask("a", "less", Wanted(20), now_ms=0, duration_ms=TWO_S, replaces="new") == 20
    assert shares.free == 10
    shares.withdraw("less")
    assert (granted(shares), shares.free) == ({"new": 90}, 10)
    assert shares.ask("a", "less", Wanted(20), now_ms=0, duration_ms=TWO_S, replaces="new") == 20
    shares.expire("new", now_ms=10, duration_ms=TWO_S)
    assert (granted(shares), shares.free) == ({"less": 20}, 80)


def test_of_two_offers_for_one_lease_both_fit_beside_everybody_else() -> None:
    shares = Shares(100)
    asked(shares, "a", 60, 0)
    assert shares.ask("a", "one", Wanted(60), now_ms=0, duration_ms=TWO_S, replaces="a") == 60
    assert shares.ask("a", "two", Wanted(60), now_ms=0, duration_ms=TWO_S, replaces="a") == 40
    assert shares.free == 0
    shares.confirm("one")
    assert (granted(shares), shares.free) == ({"one": 60, "two": 40}, 0)
    shares.confirm("two")
    assert (granted(shares), shares.free) == ({"one": 60, "two": 40}, 0)


@pytest.mark.parametrize("rule", ["fair", "none", "proportional", "smallest-first", "equal"])
@pytest.mark.parametrize("ending", ["confirm", "withdraw", "drained-first", "confirm-draining"])
def test_what_is_taken_is_what_the_parts_take(rule: Rule, ending: str) -> None:
    shares = Shares(100, rule=rule)
    asked(shares, "b", 30, 0)
    asked(shares, "a", 40, 0)
    shares.ask("a", "new", Wanted(50), now_ms=0, duration_ms=TWO_S, replaces="a")
    if ending in {"drained-first", "confirm-draining"}:
        shares.expire("a", now_ms=0, duration_ms=TWO_S, draining=True)
    if ending == "drained-first":
        shares.drained("a")
    getattr(shares, "withdraw" if ending == "withdraw" else "confirm")("new")
    assert shares.taken == sum(part.taken for part in shares.parts.values()) <= 100
    assert [part.taken for part in shares.parts.values()] == [*granted(shares).values()]


@pytest.mark.parametrize(
    "ask",
    [
        {"wanted": Wanted(0)},
        {"wanted": Wanted(5, weight=0)},
        {"lease": "a"},
        {"lease": ""},
        {"replaces": "nobody's"},
        {"replaces": "b"},
    ],
)
def test_what_makes_no_sense_is_refused_and_changes_nothing(ask: dict[str, object]) -> None:
    shares = Shares(100)
    asked(shares, "a", 60, 0)
    asked(shares, "b", 60, 0)
    before = shares.key()
    with pytest.raises(ValueError):
        shares.ask(**{"holder": "a", "lease": "n", "wanted": Wanted(5), "now_ms": 0, "duration_ms": 1} | ask)  # type: ignore[arg-type]
    assert shares.key() == before
    for call in (shares.confirm, shares.withdraw, shares.release, shares.drained):
        with pytest.raises(KeyError):
            call("nobody's")


def test_a_restart_restores_what_was_granted_even_beyond_a_capacity_that_shrank_meanwhile() -> None:
    shares = Shares(50)
    shares.restore("a", "a", Wanted(90), 60)
    assert (granted(shares), shares.free) == ({"a": 60}, -10)
    assert asked(shares, "b", 30, 0) == 0
    assert shares.renew("a", Wanted(90), now_ms=0) == 25, "half of what there is now: b is remembered"
    assert asked(shares, "b", 30, 0) == 25
    with pytest.raises(ValueError, match="is there already"):
        shares.restore("a", "a", Wanted(90), 60)


def test_asking_for_the_best_leaves_no_trace_beside_what_drains_and_what_is_remembered() -> None:
    shares = Shares(100)
    asked(shares, "a", 60, 0)
    shares.expire("a", now_ms=2_000, duration_ms=TWO_S, draining=True)
    asked(shares, "b", 40, 2_000)
    shares.release("b", draining=True)
    before = shares.key()
    for holder in ("a", "b", "c"):
        shares.best(holder, Wanted(70), now_ms=2_000)
        assert shares.key() == before


class Course:
    """Random joins, leaves, expiries and renewals, with leases of 2 s; judged after each."""

    def __init__(self, seed: int, *, step: int, groups: dict[str, Exact] | None) -> None:
        self.chance = random.Random(seed)
        self.capacity = self.chance.randrange(500, 2_000)
        """Enough for a unit each: a renewal whose share is 0 is refused, and its lease keeps what it has till its end."""
        self.shares = Shares(self.capacity, step=step, groups=groups)
        self.step, self.groups = step, groups
        self.now_ms = 0
        self.leases = 0
        self.longest = 0

    def twin(self) -> "Course":
        """Goes on by itself, with the same chances."""
        twin = copy(self)
        twin.shares = self.shares.copy()
        twin.chance = random.Random()
        twin.chance.setstate(self.chance.getstate())
        return twin

    def wanted(self) -> Wanted:
        weights: list[Exact] = [1, 1, 1, 2, Fraction(1, 2), Fraction(4, 3)]
        return Wanted(
            self.chance.randrange(1, 900),
            weight=self.chance.choice(weights),
            group=self.chance.choice(["x", "y", "z"]),
            cap=self.chance.choice([None, None, None, 50]),
        )

    def turn(self) -> None:
        self.now_ms += self.chance.randrange(200)
        live = [lease for lease, part in self.shares.parts.items() if part.place is Place.LIVE]
        draining = [lease for lease in self.shares.parts if lease not in live]
        lease = self.chance.choice(live) if live else ""
        draws = self.chance.random() < 0.3
        match self.chance.randrange(10 if live else 1):
            case 0 | 1 | 2:
                self.leases += 1
                holder = f"h{self.chance.randrange(25)}"
                self.shares.ask(
                    holder, f"l{self.leases}", self.wanted(), now_ms=self.now_ms, duration_ms=TWO_S
                )
            case 3:
                self.leases += 1
                holder = self.shares.parts[lease].holder
                if self.shares.ask(
                    holder,
                    f"l{self.leases}",
                    self.wanted(),
                    now_ms=self.now_ms,
                    duration_ms=TWO_S,
                    replaces=lease,
                ):
                    # An offer may also stay open: then it is accepted, lapses or is asked for again in a later turn.
                    settled = self.chance.randrange(3)
                    if settled < 2:
                        (self.shares.confirm, self.shares.withdraw)[settled](f"l{self.leases}")
            case 4 | 5:
                self.shares.expire(lease, now_ms=self.now_ms, duration_ms=TWO_S, draining=draws)
            case 6:
                self.shares.release(lease, draining=draws)
            case _:
                self.shares.renew(lease, self.wanted(), now_ms=self.now_ms)
        for one in draining:
            if self.chance.random() < 0.5:
                self.shares.drained(one)
        self.judge()

    def judge(self) -> None:
        parts = self.shares.parts.values()
        assert self.shares.taken == sum(part.taken for part in parts) <= self.capacity
        assert all(0 < part.granted <= part.wanted.capped for part in parts)
        self.longest = max(self.longest, len(parts))

    def goes_quiet(self) -> None:
        """Nothing but renewals, twice; then all have what the division says."""
        for lease in [*self.shares.parts]:
            if self.shares.parts[lease].place is Place.DRAINING:
                self.shares.drained(lease)
        for lease in [*self.shares.parts]:
            if lease in self.shares.parts and self.shares.parts[lease].replaces is not None:
                self.shares.confirm(lease)
                self.judge()
        self.now_ms += TWO_S
        for _ in range(2):
            for lease in self.chance.sample(sorted(self.shares.parts), len(self.shares.parts)):
                self.shares.renew(lease, self.shares.parts[lease].wanted, now_ms=self.now_ms)
                self.judge()
        assert granted(self.shares) == self.division()

    def division(self) -> dict[str, int]:
        """By walking over all demands, as the specification says it."""
        members: dict[str, dict[Name, Demand]] = {}
        for lease, part in self.shares.parts.items():
            group = part.wanted.group if self.groups is not None else ""
            demand = Demand(part.wanted.capped, part.wanted.weight)
            members.setdefault(group, {})[part.holder, lease] = demand
        of_groups = {"": self.capacity}
        if self.groups is not None:
            sums = {
                (group, ""): Demand(sum(one.amount for one in demands.values()), self.groups.get(group, 1))
                for group, demands in members.items()
            }
            of_groups = {group: share for (group, _), share in water_filling(sums, self.capacity).items()}
        return {
            lease: share
            for group, demands in members.items()
            for (_, lease), share in water_filling(demands, of_groups[group], self.step).items()
        }


@pytest.mark.parametrize("groups", [None, {"x": 2, "y": Fraction(1, 2)}], ids=["plain", "groups"])
@pytest.mark.parametrize("seed", range(4))
def test_f3_ten_thousand_random_steps(seed: int, groups: dict[str, Exact] | None) -> None:
    course = Course(seed, step=7 if seed == 3 else 1, groups=groups)
    for _ in range(25):
        for _ in range(50):
            course.turn()
        course.goes_quiet()
    assert course.longest > 3


@pytest.mark.parametrize("rule", ["fair", "equal"])
@pytest.mark.parametrize("groups", [None, {"x": 2, "y": Fraction(1, 2)}], ids=["plain", "groups"])
def test_a_twin_goes_its_own_way_and_the_same_way_where_the_same_happens(
    groups: dict[str, Exact] | None, rule: Rule
) -> None:
    course = Course(11, step=1, groups=groups)
    course.shares = Shares(course.capacity, rule=rule, groups=groups)
    for _ in range(60):
        before = course.shares.key()
        twin = course.twin()
        assert twin.shares.key() == before
        for _ in range(5):
            twin.turn()
        assert course.shares.key() == before
        for _ in range(5):
            course.turn()
        assert course.shares.key() == twin.shares.key()
