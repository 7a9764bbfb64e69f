"""Who may get ahead of whom, and what that costs: passes, reservations, limits, alternatives, ages."""

from protocols.conversation import Net, claim_id, need, vec

from holdall.protocols.chain.messages import Queued
from holdall.protocols.chain.rows import Limit
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ALL, ClaimId, Stamp, Terms, Vector, Visit


def one_node(*, passes: int = 8, per_ahead: int = 1, limits: tuple[Limit, ...] = (), **pools: int) -> Net:
    tuned = Settings(passes=passes, passes_per_ahead=per_ahead, limits=limits)
    return Net({"n0": pools}, settings=tuned)


def ask(net: Net, counter: int, *alternatives: Vector, holder: str = "", stamp: int | None = None) -> ClaimId:
    """A claim of the node itself, answered in the same turn."""
    claim = claim_id("n0", counter)
    age = None if stamp is None else Stamp(stamp, "n0", claim, 1)
    net.acquire(claim, (Visit("n0", alternatives, 1),), terms=Terms(holder=holder), stamp=age)
    return claim


def left(net: Net, claim: ClaimId) -> int:
    return net.manager("n0").rows[claim].left


def test_ch3_the_grant_of_a_claim_that_passes_two_costs_both_of_them_a_pass() -> None:
    net = one_node(z=1, y=1, x=1)
    ask(net, 1, vec(x=1))
    ask(net, 2, vec(y=1))
    x, y = ask(net, 3, vec(x=1, z=1)), ask(net, 4, vec(y=1, z=1))
    assert (left(net, x), left(net, y)) == (8, 9)
    z = ask(net, 5, vec(z=1))
    assert net.is_granted(z)
    assert (left(net, x), left(net, y)) == (7, 8)
    assert net.manager("n0").overtakes == {"z": 2}, "both were passed at the pool that all three want"


def test_ch4_at_no_passes_left_a_small_claim_that_fits_waits_and_starts_in_the_turn_in_which_the_big_one_ends() -> (
    None
):
    net = one_node(passes=0, per_ahead=0, a=1, b=1)
    first = ask(net, 1, vec(a=1))
    big = ask(net, 2, vec(a=1, b=1))
    small = ask(net, 3, vec(b=1))
    assert not net.is_granted(big)
    assert not net.is_granted(small)
    assert net.manager("n0").counts.free("b") == 1
    net.release(first)
    assert net.is_granted(big)
    assert not net.is_granted(small)
    commits = net.commits["n0"]
    net.release(big)
    assert net.is_granted(small)
    assert net.commits["n0"] == commits + 1


def test_ch5_a_small_claim_on_a_pool_that_the_big_one_does_not_want_starts_and_costs_it_nothing() -> None:
    net = one_node(passes=0, per_ahead=0, a=1, b=1, c=1)
    ask(net, 1, vec(a=1))
    big = ask(net, 2, vec(a=1, b=1))
    assert net.is_granted(ask(net, 3, vec(c=1)))
    assert left(net, big) == 0


def test_ch6_what_is_left_over_passes_nobody_and_what_a_waiting_claim_will_need_is_a_pass() -> None:
    net = one_node(a=8)
    ask(net, 1, vec(a=6))
    big = ask(net, 2, vec(a=5))
    assert net.is_granted(ask(net, 3, vec(a=1)))
    assert left(net, big) == 7
    net = one_node(a=8, b=1)
    ask(net, 1, vec(a=2))
    ask(net, 2, vec(b=1))
    big = ask(net, 3, vec(a=1, b=1))
    assert net.is_granted(ask(net, 4, vec(a=1)))
    assert left(net, big) == 8


def test_passes_end_at_the_bound_that_is_shown() -> None:
    net = one_node(passes=2, per_ahead=1, a=1, b=1)
    ask(net, 1, vec(a=1))
    big = ask(net, 2, vec(a=1, b=1))
    row = net.manager("n0").rows[big]
    assert (row.ahead, row.bound, row.overtaken) == (0, 2, 0)
    for counter in (3, 4):
        small = ask(net, counter, vec(b=1))
        assert net.is_granted(small)
        net.release(small)
    assert net.manager("n0").rows[big].overtaken == 2
    third = ask(net, 5, vec(b=1))
    assert not net.is_granted(third)
    assert net.manager("n0").counts.kept_for_spent("b", net.manager("n0").rows[third].age, 1) == 1


def test_a_claim_that_has_more_nodes_before_it_passes_nobody() -> None:
    net = Net({"n0": {"a": 1, "b": 1}, "n1": {"a": 1}}, "c1 c2 c3")
    net.acquire(claim_id("c1"), need(("n0", vec(a=1))))
    net.run()
    net.acquire(claim_id("c2"), need(("n0", vec(a=1, b=1))))
    net.run()
    net.acquire(claim_id("c3"), need(("n0", vec(b=1)), ("n1", vec(a=1))))
    net.run()
    assert not net.is_granted(claim_id("c3"))
    assert left(net, claim_id("c2")) == 8


def test_ch20_a_later_alternative_that_passes_nobody_comes_before_a_preferred_one_that_passes() -> None:
    net = one_node(a=1, b=1, c=1)
    ask(net, 1, vec(c=1))
    big = ask(net, 2, vec(a=1, c=1))
    both = ask(net, 3, vec(a=1), vec(b=1))
    assert [unit.pool for unit in net.units(both)] == ["b"]
    assert left(net, big) == 8
    second = ask(net, 4, vec(a=1), vec(b=1))
    assert [unit.pool for unit in net.units(second)] == ["a"]
    assert left(net, big) == 7


def test_a_row_that_starts_by_one_alternative_keeps_nothing_back_at_the_others() -> None:
    net = one_node(passes=0, per_ahead=0, a=1, b=1)
    first, second = ask(net, 1, vec(a=1)), ask(net, 2, vec(b=1))
    either = ask(net, 3, vec(a=1), vec(b=1))
    wants_b = ask(net, 4, vec(b=1))
    net.release(first)
    assert net.is_granted(either)
    net.release(second)
    assert net.is_granted(wants_b)


def test_ch21_a_parked_claim_keeps_its_place_and_delays_nobody() -> None:
    net = one_node(passes=0, per_ahead=0, limits=(Limit("a", 1),), a=2)
    first = ask(net, 1, vec(a=1), holder="x")
    parked = ask(net, 2, vec(a=1), holder="x")
    assert not net.is_granted(parked)
    assert parked in net.manager("n0").counts.parked
    other = ask(net, 3, vec(a=1), holder="y")
    assert net.is_granted(other)
    assert left(net, parked) == 0
    later = ask(net, 4, vec(a=1), holder="z")
    assert not net.is_granted(later)
    net.release(first)
    assert net.is_granted(parked)
    assert not net.is_granted(later)


def test_limits_count_for_their_own_holder_only() -> None:
    net = one_node(limits=(Limit("a", 1, "x"),), a=3)
    assert net.is_granted(ask(net, 1, vec(a=1), holder="x"))
    assert not net.is_granted(ask(net, 2, vec(a=1), holder="x"))
    assert net.is_granted(ask(net, 3, vec(a=2), holder="y"))


def test_ch22_a_stamp_of_a_clock_one_hour_ahead_is_younger_than_all_and_served() -> None:
    net = one_node(passes=0, per_ahead=0, a=1)
    hour = 3_600_000
    net.clock("n0", 10 * hour)
    first, second = ask(net, 1, vec(a=1)), ask(net, 2, vec(a=1))
    ahead = ask(net, 3, vec(a=1), stamp=11 * hour)
    after = ask(net, 4, vec(a=1))
    net.release(first)
    assert net.is_granted(second)
    net.release(second)
    assert net.is_granted(ahead)
    net.release(ahead)
    assert net.is_granted(after)


def test_ch22_a_stamp_of_a_clock_one_hour_behind_sets_no_clock_back() -> None:
    net = one_node(passes=0, per_ahead=0, a=1)
    hour = 3_600_000
    net.clock("n0", 10 * hour)
    first, second = ask(net, 1, vec(a=1)), ask(net, 2, vec(a=1))
    behind = ask(net, 3, vec(a=1), stamp=9 * hour)
    assert net.manager("n0").clock == 10 * hour + 2
    net.release(first)
    assert net.is_granted(behind)
    assert not net.is_granted(second)


def test_stamps_follow_the_wall_clock_when_it_is_read_and_count_on_when_it_is_not() -> None:
    net = one_node(a=1)
    for counter in (1, 2):
        ask(net, counter, vec(a=1))
    assert net.manager("n0").rows[claim_id("n0", 2)].stamp.clock == 2
    net.clock("n0", 1_000)
    ask(net, 3, vec(a=1))
    net.clock("n0", 500)
    ask(net, 4, vec(a=1))
    assert net.manager("n0").rows[claim_id("n0", 3)].stamp.clock == 1_001
    assert net.manager("n0").rows[claim_id("n0", 4)].stamp.clock == 1_002


def test_all_of_a_pool_is_its_capacity_when_the_claim_is_served() -> None:
    net = one_node(a=3)
    first = ask(net, 1, vec(a=1))
    whole = ask(net, 2, vec(a=ALL))
    assert not net.is_granted(whole)
    net.capacity("n0", "a", 2)
    net.release(first)
    assert len(net.units(whole)) == 2


def test_all_of_a_pool_without_units_waits_for_one() -> None:
    net = one_node(a=0)
    whole = ask(net, 1, vec(a=ALL))
    assert not net.is_granted(whole)
    net.capacity("n0", "a", 1)
    assert len(net.units(whole)) == 1


def test_a_waiting_claim_is_told_its_age_once() -> None:
    net = Net({"n0": {"a": 1}}, "c1 c2")
    net.acquire(claim_id("c1"), need(("n0", vec(a=1))))
    net.acquire(claim_id("c2"), need(("n0", vec(a=1))))
    net.run()
    assert net.in_flight(Queued) == []
    phase = net.claimant("c2").claims[claim_id("c2")]
    assert getattr(phase, "stamp", None) == net.manager("n0").rows[claim_id("c2")].stamp
