"""Many hosts, many agents: how many rounds and messages it takes, and whether all have their fair part."""

from leases.negotiation.town import AGENT, LM, NET, Town, accepts, at, offered, wish

from holdall.leases.filling import Demand, water_filling
from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.machine.contract import Address
from holdall.model.terms import LeaseRequest, RequestedTerm

STEP_MS = 100


def town_of(hosts: int) -> Town:
    """Host number i has (i + 1) times 1,000 B/s."""
    town = Town()
    town.location()
    for number in range(hosts):
        town.host(f"h{number:02}", {"net.tx": NET}, {"net.tx": 1_000 * (number + 1)})
    return town


def test_a_negotiation_over_50_hosts_takes_one_round_and_three_messages_a_host() -> None:
    town = town_of(50)
    document = offered(town.ask(LM, wish(net__tx=60_000)))
    assert (document.host, document.term("net.tx").granted) == ("h49", 50_000)
    assert town.counts() == {
        "RequestLease": 1,
        "Propose": 50,
        "Proposal": 50,
        "Select": 1,
        "Cancel": 49,
        "Offer": 1,
    }
    rounds = {one.round for _, _, one in town.said if isinstance(one, m.Propose)}
    assert len(rounds) == 1
    assert accepts(town, document).state == "active"
    assert sum(town.counts().values()) == 3 * 50 + 2 + 4
    free = [town.host_manager(f"h{number:02}").book.allotments.free()["net.tx"] for number in range(50)]
    assert free == [1_000 * (number + 1) for number in range(49)] + [0]


def test_of_more_than_50_hosts_the_50_with_most_free_are_asked() -> None:
    town = town_of(60)
    town.passes(1_000)
    document = offered(town.ask(LM, wish(net__tx=100_000)))
    assert town.count(m.Propose) == 50
    assert document.host == "h59"
    asked = {to.node for _, to, one in town.said if isinstance(one, m.Propose)}
    assert asked == {f"h{number:02}" for number in range(10, 60)}


def test_hosts_that_do_not_answer_cost_one_deadline_for_all_of_them_together() -> None:
    town = town_of(50)
    silent = {at(f"h{number:02}") for number in range(40, 50)}
    town.lost = lambda sender, _to, message: sender in silent and isinstance(message, m.Proposal)
    assert town.send(AGENT, LM, wish(net__tx=60_000)) == []
    town.passes(999)
    assert town.hears(AGENT) == []
    town.passes(1)
    (answer,) = town.hears(AGENT)
    assert offered(answer).host == "h39"


class Crowd:
    """Agents with leases of 2 s on one capacity, which ask again for as long as they have none."""

    def __init__(self, wants: dict[str, int], capacity: int) -> None:
        self.town = Town()
        self.town.location()
        self.town.host("h1", {"net.tx": NET}, {"net.tx": capacity})
        self.wants = dict(wants)
        self.capacity = capacity
        self.asked = 0
        for name in wants:
            settings = AgentSettings(Address(name, "owner"), (LM,))
            self.town.add(Address(name, "agent"), lambda settings=settings: Agent(settings))  # type: ignore[misc]

    def agent(self, name: str) -> Agent:
        machine = self.town.machines[Address(name, "agent")]
        assert isinstance(machine, Agent)
        return machine

    def passes(self) -> None:
        """A tenth of a second, each of the time at another agent."""
        for place, name in enumerate(self.wants):
            if not self.agent(name).held and (self.town.now_ms // STEP_MS + place) % 5 == 0:
                self.asked += 1
                request = LeaseRequest(
                    f"{name}.{self.asked}", {"net.tx": RequestedTerm(self.wants[name])}, duration=2_000
                )
                self.town.send(Address(name, "owner"), Address(name, "agent"), a.Want(request, True))
        self.town.passes(STEP_MS)
        assert sum(self.granted().values()) <= self.capacity

    def leaves(self, name: str) -> None:
        (lease,) = self.agent(name).held
        self.town.send(Address(name, "owner"), Address(name, "agent"), a.GiveBack(lease))
        del self.wants[name]

    def granted(self) -> dict[str, int]:
        """As agents know it."""
        return {
            name: int(document.term("net.tx").granted)
            for name in self.wants
            for document in self.agent(name).held.values()
        }

    def revisions(self) -> dict[str, int]:
        return {name: document.revision for name in self.wants for document in self.agent(name).held.values()}

    def until_each_has_renewed(self, times: int) -> None:
        for _ in range(100):
            if len(self.granted()) == len(self.wants):
                break
            self.passes()
        before = self.revisions()
        for _ in range(200):
            now = self.revisions()
            if all(now.get(name, 0) - before[name] >= times for name in self.wants):
                return
            self.passes()
        raise AssertionError("they do not renew")

    def division(self) -> dict[str, int]:
        demands = {(name, ""): Demand(amount) for name, amount in self.wants.items()}
        return {name: share for (name, _), share in water_filling(demands, self.capacity).items()}


def test_200_agents_of_which_100_leave_have_their_fair_parts_after_two_renewals_each() -> None:
    crowd = Crowd({f"a{place:03}": 100 + 7 * place for place in range(200)}, 100_000)
    crowd.until_each_has_renewed(2)
    before = crowd.granted()
    # Names of parties, and so who has the units that are left over, differ from those of the agents.
    assert sum(before.values()) == crowd.capacity
    assert _near(before, crowd.division())
    for name in [*crowd.wants][::2]:
        crowd.leaves(name)
    crowd.until_each_has_renewed(2)
    after = crowd.granted()
    assert _near(after, crowd.division())
    assert sum(after.values()) == min(crowd.capacity, sum(crowd.wants.values()))
    assert all(after[name] >= before[name] for name in after)


def _near(granted: dict[str, int], division: dict[str, int]) -> bool:
    """Equal, but for who has each unit that is left over when all are rounded down."""
    return granted.keys() == division.keys() and all(
        abs(granted[name] - division[name]) <= 1 for name in division
    )
