"""A location's manager is lost, or there are two: nothing is granted twice, nothing ends early, the index is rebuilt."""

import random
from collections import Counter
from collections.abc import Sequence

import pytest
from leases.negotiation.stock import Stock, units_part
from leases.negotiation.town import (
    AGENT,
    LM,
    NET,
    TTL,
    Town,
    all_arrive,
    at,
    gets,
    lease,
    offered,
    wish,
)

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.leases.negotiation.interfaces import Allowed, Holding, TermAsk
from holdall.leases.negotiation.settling import KEPT_MOST
from holdall.machine.contract import Address, Message
from holdall.model.terms import LeaseDocument, LeaseRequest, RequestedTerm, TemplateTerm

OTHER = Address("lm2", "location")
ELECTION = Address("lm", "election")
OWNER = Address("x", "owner")
BOTH = {"ttl": TTL, "net.tx": NET}


def town_of(*, hosts: int = 1, policy: "Most | None" = None) -> Town:
    """Two candidates; the first leads with epoch 2, and has been told what there is."""
    town = Town()
    town.location(LM, policy)
    town.location(OTHER, policy)
    for number in range(1, hosts + 1):
        town.host(f"h{number}", BOTH, {"net.tx": 100_000}, managers=(LM, OTHER))
    leads(town, LM, 2)
    return town


def leads(town: Town, manager: Address, epoch: int) -> None:
    town.send(ELECTION, manager, m.Lead(epoch))


def fails_over(town: Town) -> None:
    """The first candidate is gone; the second one leads."""
    town.lost = all_arrive
    town.dies(LM)
    leads(town, OTHER, 3)


def active(town: Town, hosts: Sequence[str] = ("h1",)) -> list[str]:
    return [one for host in hosts for one in town.host_manager(host).book.active()]


def with_agent(town: Town) -> Agent:
    town.add(AGENT, lambda: Agent(AgentSettings(OWNER, (LM, OTHER))))
    machine = town.machines[AGENT]
    assert isinstance(machine, Agent)
    return machine


def want(name: str = "r1", duration: int = 10_000) -> a.Want:
    return a.Want(LeaseRequest(name, {"net.tx": RequestedTerm(40_000)}, duration=duration), True)


def test_a_leader_that_dies_between_acceptance_and_confirmation_grants_nothing_and_the_capacity_is_free_again() -> (
    None
):
    town = town_of()
    agent = with_agent(town)
    town.lost = lambda _from, _to, message: isinstance(message, m.Confirm)
    assert town.send(OWNER, AGENT, want()) == []
    fails_over(town)
    assert active(town) == []
    assert town.host_manager("h1").book.allotments.free() == {"net.tx": 60_000}
    # The agent asks the other one, which knows nothing of the lease and says so, until its own time is over.
    town.passes(12_000)
    assert active(town) == []
    assert agent.held == {}
    assert [type(one) for one in town.hears(OWNER)] == [a.Lost]
    assert town.host_manager("h1").book.allotments.free() == {"net.tx": 100_000}
    assert town.count(m.LeaseIs) == 0


def test_a_leader_that_dies_between_confirmation_and_answer_is_succeeded_by_one_that_knows_the_lease() -> (
    None
):
    town = town_of()
    agent = with_agent(town)
    town.lost = lambda _from, _to, message: isinstance(message, m.Confirmed)
    assert town.send(OWNER, AGENT, want()) == []
    (granted,) = active(town)
    fails_over(town)
    assert set(town.location_manager(OTHER).desk.leases) == {granted}
    town.passes(2_000)
    assert list(agent.held) == [granted]
    assert [type(one) for one in town.hears(OWNER)] == [a.Got]
    # It is renewed by the other manager from now on, and never held twice.
    town.passes(60_000)
    assert active(town) == [granted]
    assert {type(one) for one in town.hears(OWNER)} == {a.Got}


def test_a_leader_that_dies_between_confirmation_and_answer_to_an_agent_that_is_gone_too_leaves_one_lease() -> (
    None
):
    town = town_of()
    document = offered(town.ask(LM, wish(net__tx=40_000)))
    town.lost = lambda _from, _to, message: isinstance(message, m.Confirmed)
    town.send(AGENT, LM, m.AcceptLease(document.lease, 1))
    fails_over(town)
    known = lease(town.ask(OTHER, m.GetStatus(document.lease)))
    assert (known.state, known.host, known.term("net.tx").granted) == ("active", "h1", 40_000)
    assert lease(town.ask(OTHER, m.AcceptLease(document.lease, 1))).lease == document.lease
    assert town.count(m.Confirm) == 1
    town.passes(3_000)
    assert active(town) == []


def test_ten_leases_live_through_the_loss_of_all_that_managers_know_and_each_is_found() -> None:
    town = town_of(hosts=2)
    holders = [Address(f"a{number}", "agent") for number in range(10)]
    documents: list[LeaseDocument] = []
    for number, holder in enumerate(holders):
        document = offered(town.ask(LM, wish(f"r{number}", duration=20_000, net__tx=15_000), holder))
        documents.append(lease(town.ask(LM, m.AcceptLease(document.lease, 1), holder)))
    before = sorted(active(town, ("h1", "h2")))
    assert len(before) == 10
    town.passes(5_000)
    for manager in (LM, OTHER):
        town.dies(manager)
    town.comes_up(OTHER)
    leads(town, OTHER, 9)
    town.passes(1_000)
    assert sorted(active(town, ("h1", "h2"))) == before
    for holder, document in zip(holders, documents, strict=True):
        known = lease(town.ask(OTHER, m.GetStatus(document.lease), holder))
        assert (known.state, known.remaining_ms) == ("active", 14_000)
        (renewed,) = town.send(holder, OTHER, m.RenewLeases(1, (m.Renewal(document.lease),), duration=20_000))
        assert isinstance(renewed, m.Renewed)
        assert renewed.document is not None
        assert renewed.document.remaining_ms == 20_000
    town.passes(20_399)
    assert sorted(active(town, ("h1", "h2"))) == before
    town.passes(2)
    assert active(town, ("h1", "h2")) == []


class Rush:
    """500 agents want one of 50 units, at two managers that both lead; each asks again for what was not granted."""

    def __init__(self, epochs: tuple[int, int], seed: int, loss: float) -> None:
        self.town = Town()
        self.random = random.Random(seed)
        for manager in (LM, OTHER):
            self.town.location(manager)
        for number in range(1, 6):
            name = f"h{number}"
            self.town.add(units_part(name), lambda name=name: Stock(name, "bench", 10))  # type: ignore[misc]
            self.town.host(
                name,
                {"bench": TemplateTerm("pool", max=10)},
                {},
                managers=(LM, OTHER),
                units=units_part(name),
            )
        for manager, epoch in zip((LM, OTHER), epochs, strict=True):
            leads(self.town, manager, epoch)
        self.town.said.clear()
        self.loss = loss
        self.town.lost = self._lost
        self.agents = [Address(f"a{number}", "agent") for number in range(500)]
        self.granted: dict[Address, LeaseDocument] = {}
        self.answers: Counter[str] = Counter()

    def runs(self) -> None:
        """All ask in one moment, in an order that is drawn; messages of the two managers mix."""
        for turn in range(3):
            waiting = [one for one in self.agents if one not in self.granted]
            self.random.shuffle(waiting)
            for one in waiting:
                request = wish(f"{one.node}.{turn}", 100_000, bench=RequestedTerm(1, floor=1))
                self.town._mail.append((one, self.random.choice((LM, OTHER)), request))
            self._mix()
            self._accept()
            self.holds()
            # What one manager held and may not cancel any more lapses by itself.
            self.town.passes(12_500 if turn == 1 else 0)

    def holds(self) -> None:
        """What must hold at any moment, by the hosts' own books and by those who give units."""
        units: list[str] = []
        for number in range(1, 6):
            host, stock = f"h{number}", self.town.machines[units_part(f"h{number}")]
            assert isinstance(stock, Stock)
            held = [one.unit for grants in stock.of.values() for one in grants]
            assert len(held) + len(stock.free) == 10
            assert len(set(held)) == len(held)
            for name in self.town.host_manager(host).book.active():
                record = self.town.host_manager(host).book.of(name)
                assert record is not None
                units += [f"{host}/{one.name}" for status in record.terms for one in status.units]
        assert len(set(units)) == len(units) <= 50

    def _accept(self) -> None:
        for one in self.agents:
            for message in self.town.hears(one):
                self.answers[type(message).__name__] += 1
                if isinstance(message, m.Offer):
                    manager = LM if message.document.lease.split("-")[2] == LM.node else OTHER
                    self.town._mail.append((one, manager, m.AcceptLease(message.document.lease, 1)))
        self._mix()
        for one in self.agents:
            for message in self.town.hears(one):
                if isinstance(message, m.LeaseIs):
                    assert one not in self.granted
                    self.granted[one] = message.document

    def _mix(self) -> None:
        """Deliver in any order: messages overtake each other."""
        mail = self.town._mail
        while mail:
            any_of_them = self.random.randrange(len(mail))
            mail[0], mail[any_of_them] = mail[any_of_them], mail[0]
            self.town.deliver_one()
        self.town.passes(1_500)

    def _lost(self, _sender: Address, _to: Address, message: Message) -> bool:
        return not isinstance(message, m.HostHello) and self.random.random() < self.loss


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("loss", [0.0, 0.05])
@pytest.mark.parametrize("epochs", [(7, 7), (7, 8)])
def test_two_leaders_at_once_and_500_requests_over_50_units_grant_each_unit_once(
    epochs: tuple[int, int], loss: float, seed: int
) -> None:
    rush = Rush(epochs, seed, loss)
    rush.runs()
    if loss == 0:
        assert len(rush.granted) == 50
        units = Counter(
            (unit.node, unit.name) for one in rush.granted.values() for unit in one.term("bench").units
        )
        assert len(units) == 50
        assert set(units.values()) == {1}
    else:
        assert 10 <= len(rush.granted) <= 50
    if epochs[0] < epochs[1]:
        # Who is told of the later one stops, and says so to whoever asks.
        assert rush.town.location_manager(LM).is_deposed
        assert {one.lease.split("-")[2] for one in rush.granted.values()} == {OTHER.node}


class Most:
    """A policy of the location: so much of `net.tx` for all together."""

    def __init__(self, most: int) -> None:
        self.most = most

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        if ask.term != "net.tx":
            return Allowed()
        taken = sum(int(one.amount) for one in holdings if one.term == "net.tx")
        return Allowed(max(0, self.most - taken), "all-together")

    def rank(self, host: str) -> int:
        return 0


def total(town: Town, hosts: Sequence[str]) -> int:
    return sum(100_000 - town.host_manager(one).book.allotments.free()["net.tx"] for one in hosts)


def test_quotas_are_recounted_before_a_new_leader_grants_and_requests_wait_for_that() -> None:
    town = town_of(hosts=2, policy=Most(50_000))
    town.passes(3_000)
    gets(town, wish("r1", duration=60_000, net__tx=50_000))
    town.dies(LM)
    town.dies(OTHER)
    town.comes_up(OTHER)
    leads(town, OTHER, 3)
    town.hears(AGENT)
    # It knows no host yet, and does not answer before they have had time to report.
    assert town.send(AGENT, OTHER, wish("r2", net__tx=10_000)) == []
    assert town.send(AGENT, OTHER, wish("r2", net__tx=10_000)) == []
    town.passes(3_000)
    (answer,) = town.hears(AGENT)
    assert isinstance(answer, m.Declined)
    assert (answer.request, answer.reason, answer.rule) == ("r2", "policy", "all-together")
    assert total(town, ("h1", "h2")) == 50_000


def test_a_new_leader_that_has_heard_of_its_hosts_waits_for_their_reports_alone() -> None:
    town = town_of(hosts=2, policy=Most(50_000))
    town.passes(3_000)
    gets(town, wish("r1", duration=60_000, net__tx=20_000))
    town.passes(1_000)
    fails_over(town)
    document = offered(town.ask(OTHER, wish("r2", net__tx=40_000)))
    assert document.term("net.tx").granted == 30_000


def test_a_quota_that_counts_a_silent_host_is_off_for_one_duration_at_most() -> None:
    town = town_of(hosts=2, policy=Most(50_000))
    town.passes(3_000)
    first = gets(town, wish("r1", duration=30_000, net__tx=50_000))
    town.dies(LM)
    town.dies(OTHER)
    town.comes_up(OTHER)
    town.lost = lambda sender, _to, _message: sender == at(first.host)
    leads(town, OTHER, 3)
    town.passes(3_000)
    second = offered(town.ask(OTHER, wish("r2", duration=30_000, net__tx=50_000)))
    assert lease(town.ask(OTHER, m.AcceptLease(second.lease, 1))).state == "active"
    assert (
        total(town, ("h1", "h2")) == 100_000
    )  # twice what the location allows, for as long as the first one lives
    town.passes(30_600 - 3_000)
    assert total(town, ("h1", "h2")) == 50_000
    # A host that is heard again is counted at once.
    town.lost = all_arrive
    town.passes(1_000)
    (answer,) = town.send(AGENT, OTHER, wish("r3", net__tx=10_000))
    assert isinstance(answer, m.Declined)
    assert answer.reason == "policy"


def test_who_is_deposed_while_requests_wait_sends_them_on_and_too_many_are_told_to_come_again() -> None:
    town = town_of(policy=Most(50_000))
    town.send(ELECTION, LM, m.Lead(4))
    town.dies(at("h1"))
    town.send(ELECTION, LM, m.Lead(5))
    for number in range(KEPT_MOST):
        assert town.send(AGENT, LM, wish(f"r{number}", net__tx=1)) == []
    (answer,) = town.send(AGENT, LM, wish("one-more", net__tx=1))
    assert answer == m.Declined("one-more", "busy", retry_after_ms=3_000)
    town.send(ELECTION, LM, m.StaleLm(6))
    answers = town.hears(AGENT)
    assert answers[1:] == [m.Declined(f"r{number}", "stale_lm") for number in range(KEPT_MOST)]
    # The same may be asked again when it leads again.
    town.send(ELECTION, LM, m.Lead(7))
    town.passes(3_000)
    (again,) = town.send(AGENT, LM, wish("r1", net__tx=1))
    assert isinstance(again, m.Declined)
    assert again.reason == "no_host_supports"
