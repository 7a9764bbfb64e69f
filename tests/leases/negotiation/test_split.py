"""A lease is split: the part is another holder's, both are exact, and neither loss nor repetition changes that."""

from collections.abc import Sequence

import pytest
from leases.negotiation.test_agent import OWNER, agent, got, town_of, want
from leases.negotiation.town import AGENT, LM, NET, TTL, Town, all_arrive, at, gets, lease, wish

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk
from holdall.machine.contract import Address, Message
from holdall.model.terms import LeaseDocument, TemplateTerm

H1 = at("h1")
SECOND = Address("y", "agent")
PART = "L-loc1-y-s0123456789"
STEADY = TemplateTerm("capacity", "B/s", min=1_000, max=100_000, step=500, sharing="first")


def host_of(**how: object) -> Town:
    town = Town()
    town.location()
    terms = {"ttl": TTL, "net.tx": NET, "disk": STEADY, "gpu": TemplateTerm("pool", max=4)}
    town.host("h1", terms, {"net.tx": 100_000, "disk": 100_000}, **how)  # type: ignore[arg-type]
    return town


def order(lease: str, part: str = PART, to: str = "y/agent", **amounts: int) -> m.SplitLease:
    named = {name.replace("__", "."): amount for name, amount in amounts.items()}
    return m.SplitLease(lease, part, named, Asker(to), SECOND)


def split(town: Town, message: m.SplitLease, to: Address = H1) -> m.Split:
    answer = town.ask(to, message)
    assert isinstance(answer, m.Split), answer
    return answer


def free(town: Town) -> int:
    return town.host_manager("h1").book.allotments.free()["net.tx"]


def amounts(*documents: LeaseDocument) -> list[object]:
    return [one.term("net.tx").granted for one in documents]


def test_a_split_adds_up_exactly_and_ends_no_later() -> None:
    town = host_of()
    first = gets(town, wish(net__tx=60_000))
    town.passes(500)
    answer = split(town, order(first.lease, net__tx=25_000))
    rest, part = answer.rest, answer.part
    assert (amounts(rest, part), free(town)) == ([35_000, 25_000], 40_000)
    assert (part.lease, part.holder, part.duration, part.revision) == (PART, "y/agent", 1_500, 1)
    assert (rest.lease, rest.holder, rest.fence, rest.revision) == (first.lease, "x/agent", first.fence, 2)
    assert part.fence > rest.fence
    # The location knows both, and whose they are.
    assert lease(town.ask(LM, m.GetStatus(PART), SECOND)) == part
    assert town.ask(LM, m.GetStatus(PART)) == m.UnknownLease(PART)
    town.ask(H1, m.ReleaseLease(first.lease))
    assert free(town) == 75_000
    assert town.host_manager("h1").book.active() == [PART]
    town.passes(1_530)
    assert free(town) == 100_000


def test_the_new_holder_renews_its_part_as_any_lease_and_may_split_it_again() -> None:
    town = host_of()
    first = gets(town, wish(net__tx=60_000))
    split(town, order(first.lease, net__tx=25_000))
    renewed = town.ask(LM, m.RenewLeases(1, (m.Renewal(PART),), 5_000), SECOND)
    assert isinstance(renewed, m.Renewed)
    assert renewed.document is not None
    assert (amounts(renewed.document), renewed.document.revision) == ([25_000], 2)
    third = m.SplitLease(PART, "L-loc1-y-s99", {"net.tx": 5_000}, Asker("z/agent"), Address("z", "agent"))
    answer = town.ask(LM, third, SECOND)
    assert isinstance(answer, m.Split)
    assert (amounts(answer.rest, answer.part), free(town)) == ([20_000, 5_000], 40_000)
    town.passes(2_100)
    assert town.host_manager("h1").book.active() == [PART, "L-loc1-y-s99"]


def test_a_part_never_ends_after_the_lease_it_was_cut_off() -> None:
    for passed in range(0, 2_041, 17):
        town = host_of()
        first = gets(town, wish(net__tx=60_000))
        town.passes(passed)
        answer = town.ask(H1, order(first.lease, net__tx=1))
        if isinstance(answer, m.NoSplit):
            assert (passed >= 2_000, answer.reason) == (True, "ended")
            continue
        ends = {key[1]: due for key, due in town._timers.items() if key[1].startswith("expiry/")}
        (whole,) = (due for timer, due in ends.items() if PART not in timer)
        (part,) = (due for timer, due in ends.items() if PART in timer)
        assert part <= whole


def test_the_same_order_again_is_the_same_split_also_after_a_restart_and_in_another_way() -> None:
    town = host_of()
    first = gets(town, wish(net__tx=60_000))
    asked = order(first.lease, net__tx=25_000)
    answer = split(town, asked)
    assert split(town, asked) == answer == split(town, asked, LM)
    town.dies(H1)
    town.comes_up(H1)
    again = split(town, asked)
    assert (amounts(again.rest, again.part), free(town)) == ([35_000, 25_000], 40_000)
    assert [again.rest.fence, again.part.fence] == [answer.rest.fence, answer.part.fence]
    for other in (order(first.lease, net__tx=24_000), order(first.lease, to="z/agent", net__tx=25_000)):
        refused = town.ask(H1, other)
        assert isinstance(refused, m.NoSplit)
        assert refused.reason == "taken"
    town.ask(H1, m.ReleaseLease(PART), SECOND)
    over = split(town, asked)
    assert (over.part.state, amounts(over.rest), free(town)) == ("released", [35_000], 65_000)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"name": "L-none"}, "unknown"),
        ({"net__tx": 60_000}, "amount"),
        ({"net__tx": 0}, "amount"),
        ({"net__tx": -5}, "amount"),
        ({}, "amount"),
        ({"ttl": 1}, "term"),
        ({"gpu": 1}, "term"),
        ({"net__tx": 1, "memory": 1}, "term"),
        ({"disk": 500}, "constraint.min"),
        ({"disk": 1_250}, "constraint.step"),
        ({"disk": 3_500}, "amount"),
        ({"part": "L-loc1-y-7.1", "net__tx": 1}, "part"),
        ({"part": "L-loc2-y-s1234", "net__tx": 1}, "part"),
        ({"part": "L-loc1-y-s12/34", "net__tx": 1}, "part"),
        ({"part": "L-loc1-y-s12|34", "net__tx": 1}, "part"),
        ({"part": "L-loc1-y-s1234\n", "net__tx": 1}, "part"),
        ({"part": "L-loc1--s1234", "net__tx": 1}, "part"),
        ({"part": "L-loc1-y-z-s1234", "net__tx": 1}, "part"),
        ({"part": "L-loc1-y-s" + "1" * 256, "net__tx": 1}, "part"),
        ({"to": "", "net__tx": 1}, "to"),
    ],
)
def test_splits_that_are_refused_change_nothing(changed: dict[str, object], reason: str) -> None:
    town = host_of()
    first = gets(town, wish(ttl=5, net__tx=60_000, disk=4_000))
    before, kept = town.host_manager("h1").key(), dict(town.kept[H1])
    name = changed.pop("name", first.lease)
    answer = town.ask(H1, order(str(name), **changed))  # type: ignore[arg-type]
    assert isinstance(answer, m.NoSplit)
    assert (answer.reason, free(town)) == (reason, 40_000)
    assert (town.host_manager("h1").key(), town.kept[H1]) == (before, kept)


def test_what_is_not_the_askers_or_is_over_is_not_split() -> None:
    town = host_of()
    first = gets(town, wish(net__tx=60_000))
    other = town.ask(H1, order(first.lease, net__tx=1), SECOND)
    assert isinstance(other, m.NoSplit)
    assert other.reason == "unknown"
    town.send(LM, H1, m.Revoke(1, first.lease, 1_000, "away"))
    town.hears(AGENT)
    assert town.ask(H1, order(first.lease, net__tx=1)) == m.NoSplit(first.lease, PART, "revoking")
    town.ask(H1, m.ReleaseLease(first.lease))
    assert town.ask(H1, order(first.lease, net__tx=1)) == m.NoSplit(first.lease, PART, "ended")
    assert town.ask(LM, order("L-none", net__tx=1)) == m.NoSplit("L-none", PART, "unknown")


class OfHolders:
    """At most so much of net.tx for each holder, and so long."""

    def __init__(self, most: int, duration: int = 10_000) -> None:
        self.most, self.duration = most, duration

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        if ask.term == "duration":
            return Allowed(min(int(ask.amount), self.duration), "short")
        held = [one for one in holdings if one.asker == ask.asker and one.term == ask.term]
        return Allowed(max(0, self.most - sum(int(one.amount) for one in held)), "each")

    def rank(self, host: str) -> int:
        del host
        return 0


def test_the_hosts_policy_counts_for_the_new_holder_too() -> None:
    policy = OfHolders(60_000)
    town = host_of(policy=policy)
    first = gets(town, wish(net__tx=60_000))
    gets(town, wish("r2", net__tx=40_000), SECOND)
    refused = town.ask(H1, order(first.lease, net__tx=25_000))
    assert refused == m.NoSplit(first.lease, PART, "policy", "net.tx", "each", {"net.tx": 20_000})
    split(town, order(first.lease, net__tx=20_000))
    policy.duration = 1_000
    refused = town.ask(H1, order(first.lease, "L-loc1-y-s2", "z/agent", net__tx=1))
    assert refused == m.NoSplit(
        first.lease, "L-loc1-y-s2", "policy", "duration", "short", {"duration": 1_000}
    )
    # To oneself: all together is what it was.
    policy.duration = 10_000
    split(town, order(first.lease, "L-loc1-x-s3", "x/agent", net__tx=10_000))


def test_the_locations_policy_counts_for_the_new_holder_as_the_hosts_does() -> None:
    policy = OfHolders(60_000)
    town = Town()
    town.location(policy=policy)
    town.host("h1", {"net.tx": NET}, {"net.tx": 100_000})
    first = gets(town, wish(net__tx=60_000))
    gets(town, wish("r2", net__tx=40_000), SECOND)
    before, kept = town.host_manager("h1").key(), dict(town.kept[H1])
    refused = town.ask(LM, order(first.lease, net__tx=25_000))
    assert refused == m.NoSplit(first.lease, PART, "policy", "net.tx", "each", {"net.tx": 20_000})
    policy.duration = 1_000
    refused = town.ask(LM, order(first.lease, net__tx=1))
    assert refused == m.NoSplit(first.lease, PART, "policy", "duration", "short", {"duration": 1_000})
    assert (town.host_manager("h1").key(), town.kept[H1]) == (before, kept)
    policy.duration = 10_000
    answer = split(town, order(first.lease, net__tx=20_000), LM)
    assert amounts(answer.rest, answer.part) == [40_000, 20_000]
    # The same again is the same split, and what the policy has said of it stays as it was.
    limits = town.host_manager("h1").book.held[PART].limits
    assert limits == {"net.tx": (20_000, "each"), "duration": (2_000, "short")}
    assert split(town, order(first.lease, net__tx=20_000), LM) == answer
    assert town.host_manager("h1").book.held[PART].limits == limits
    # To oneself: all together is what it was.
    split(town, order(first.lease, "L-loc1-x-s3", "x/agent", net__tx=10_000), LM)


@pytest.mark.parametrize(
    "amounts", [{}, {"net.tx": 0}, {"net.tx": -1}, {"net.tx": 1 << 80}, {"ttl": 1}, {"no": 1}]
)
def test_a_manager_passes_on_what_makes_no_sense_and_the_host_refuses_it(amounts: dict[str, int]) -> None:
    town = Town()
    town.location(policy=OfHolders(60_000))
    town.host("h1", {"ttl": TTL, "net.tx": NET}, {"net.tx": 100_000})
    first = gets(town, wish(ttl=5, net__tx=60_000))
    answer = town.ask(LM, m.SplitLease(first.lease, PART, amounts, Asker("y/agent"), SECOND))
    assert isinstance(answer, m.NoSplit)
    assert answer.reason in {"amount", "term"}
    assert town.host_manager("h1").book.active() == [first.lease]


# ------------------------------------------------------------ the holder's side


def cut_off(lease: str, amount: int, part: str = PART) -> a.CutOff:
    return a.CutOff(m.SplitLease(lease, part, {"net.tx": amount}, Asker("y/agent"), SECOND))


def held(town: Town, lease: str) -> object:
    return agent(town).held[lease].term("net.tx").granted


def test_a_holder_has_less_before_its_host_is_asked_and_nothing_changes_when_that_refuses() -> None:
    town = town_of()
    lease = got(town, want())
    town.hears(OWNER)
    had: list[object] = []

    def looks(_sender: Address, to: Address, message: Message) -> bool:
        if isinstance(message, m.PassOn) and to == H1:
            had.append(held(town, lease))
        return False

    town.lost = looks
    (answer,) = town.send(OWNER, AGENT, cut_off(lease, 15_000))
    assert isinstance(answer, a.Parted)
    assert (had, held(town, lease), amounts(answer.rest, answer.part)) == ([25_000], 25_000, [25_000, 15_000])
    (none,) = town.send(OWNER, AGENT, cut_off(lease, 25_000, "L-loc1-x-s2"))
    assert none == a.NotParted(lease, "L-loc1-x-s2", "amount", "net.tx")
    (none,) = town.send(OWNER, AGENT, cut_off(lease, 5_000, "not an id"))
    assert none == a.NotParted(lease, "not an id", "part")
    assert (had, held(town, lease)) == ([25_000, 25_000, 20_000], 25_000)
    town.passes(60_000)
    assert held(town, lease) == 25_000
    assert town.host_manager("h1").book.active() == [lease]


def test_lost_answers_are_asked_for_again_and_nobody_uses_the_part_meanwhile() -> None:
    town = town_of()
    lease = got(town, want())
    town.lost = lambda _from, to, message: isinstance(message, m.Split) and to == AGENT
    assert town.send(OWNER, AGENT, cut_off(lease, 15_000)) == []
    town.hears(OWNER)
    town.passes(15_000)
    # It was renewed meanwhile, and every word about it is of what is left.
    heard = town.hears(OWNER)
    assert {type(one) for one in heard} == {a.Got}
    assert held(town, lease) == 10_000
    town.lost = all_arrive
    town.passes(2_000)
    assert any(isinstance(one, a.Parted) for one in town.hears(OWNER))
    assert held(town, lease) == 25_000
    assert town.host_manager("h1").book.allotments.free() == {"net.tx": 75_000}


def test_lost_orders_are_repeated_and_a_renewal_between_them_gives_nothing_back() -> None:
    town = town_of()
    lease = got(town, want())
    town.lost = lambda _from, _to, message: isinstance(message, m.SplitLease)
    assert town.send(OWNER, AGENT, cut_off(lease, 15_000)) == []
    town.passes(5_000)
    assert town.count(m.Renewed) == 1
    assert held(town, lease) == 25_000
    town.lost = all_arrive
    town.passes(2_000)
    assert held(town, lease) == 25_000
    assert sorted(town.host_manager("h1").book.active()) == sorted([lease, PART])


def test_while_no_manager_answers_nothing_is_split_and_one_that_does_not_know_the_lease_decides_nothing() -> (
    None
):
    town = town_of()
    lease = got(town, want(duration=60_000))
    town.hears(OWNER)
    town.dies(LM)
    assert town.send(OWNER, AGENT, cut_off(lease, 15_000)) == []
    town.passes(5_000)
    assert (town.count(m.SplitLease) > 1, town.host_manager("h1").book.active()) == (True, [lease])
    # The next manager does not know the lease before its host has reported.
    town.lost = lambda sender, to, _message: (sender, to) == (H1, LM)
    town.comes_up(LM)
    town.passes(3_000)
    assert town.count(m.NoSplit) >= 1
    assert [one for one in town.hears(OWNER) if isinstance(one, a.Parted | a.NotParted)] == []
    assert held(town, lease) == 25_000
    town.lost = all_arrive
    town.passes(5_000)
    (parted,) = (one for one in town.hears(OWNER) if isinstance(one, a.Parted | a.NotParted))
    assert isinstance(parted, a.Parted)
    assert sorted(town.host_manager("h1").book.active()) == sorted([lease, PART])


def test_a_lease_that_is_not_held_here_is_split_by_its_manager_or_not_at_all() -> None:
    town = town_of()
    lease = got(town, want(duration=60_000))
    town.dies(AGENT)
    town.comes_up(AGENT)
    town.hears(OWNER)
    (answer,) = town.send(OWNER, AGENT, cut_off(lease, 15_000))
    assert isinstance(answer, a.Parted)
    assert agent(town).held == {}
    town.lost = lambda sender, to, _message: AGENT in {sender, to} and OWNER not in {sender, to}
    assert town.send(OWNER, AGENT, cut_off(lease, 15_000, "L-loc1-x-s2")) == []
    town.passes(20_000)
    assert town.hears(OWNER)[-1] == a.NotParted(lease, "L-loc1-x-s2", "no_answer")
    assert agent(town).key() == agent(town).copy().key()


def taken_up_anew() -> tuple[Town, str]:
    """A lease of 40,000 whose holder begins anew."""
    town = town_of()
    lease = got(town, want(duration=60_000))
    town.dies(AGENT)
    town.comes_up(AGENT)
    town.hears(OWNER)
    return town, lease


def test_a_lease_that_is_taken_up_while_a_part_is_being_cut_off_it_is_had_without_that_part() -> None:
    town, lease = taken_up_anew()
    town.lost = lambda _from, _to, message: isinstance(message, m.SplitLease)
    assert town.send(OWNER, AGENT, cut_off(lease, 15_000)) == []
    town.send(OWNER, AGENT, a.TakeUp(lease, 60_000))
    assert held(town, lease) == 25_000
    town.lost = all_arrive
    town.passes(2_000)
    assert (town.count(m.Split), held(town, lease)) == (1, 25_000)
    assert town.host_manager("h1").book.allotments.free() == {"net.tx": 60_000}


def test_a_split_that_nobody_waits_for_any_more_takes_its_part_all_the_same() -> None:
    """The order is of before the holder began anew, and comes after the renewal that takes the lease up."""
    town, lease = taken_up_anew()
    town.send(OWNER, AGENT, a.TakeUp(lease, 60_000))
    assert held(town, lease) == 40_000
    town.send(AGENT, H1, order(lease, net__tx=15_000))
    assert held(town, lease) == 25_000
    # Once more, late: it tells nothing new, and gives nothing back.
    again = next(one for _, _, one in town.said if isinstance(one, m.Split))
    town.send(OWNER, AGENT, a.RenewNow(lease))
    town.send(H1, AGENT, again)
    assert held(town, lease) == 25_000


def test_a_part_of_a_part_of_a_part_has_no_longer_name_than_the_first() -> None:
    town = host_of()
    lease = gets(town, wish(duration=60_000, net__tx=60_000)).lease
    sizes: set[int] = set()
    for number in range(10, 40):
        part = f"L-loc1-x-s{number}"
        split(town, order(lease, part, "x/agent", net__tx=50_000 - number * 1_000))
        lease = part
        shares = town.host_manager("h1").book.allotments.sharings["net.tx"]
        names = {len(name) for name in town.kept[H1]} | {len(one) for one in shares.parts}  # type: ignore[attr-defined]
        sizes.add(max(names))
    assert len(sizes) == 1
    assert free(town) == 40_000
    town.passes(61_200)
    assert free(town) == 100_000
