"""An agent's side: in time by its own clock, whatever is late or lost."""

import msgspec
from leases.negotiation.town import AGENT, LM, NET, TTL, Town, all_arrive, at

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.leases.negotiation.interfaces import Allowed, Holding, TermAsk
from holdall.machine.contract import Address
from holdall.model.terms import LeaseRequest, RequestedTerm

OWNER = Address("x", "owner")
H1 = at("h1")
BOTH = {"ttl": TTL, "net.tx": NET}


def town_of(*managers: Address) -> Town:
    town = Town()
    for manager in managers or (LM,):
        town.location(manager)
    town.host("h1", BOTH, {"net.tx": 100_000}, managers=managers or (LM,))
    town.add(AGENT, lambda: Agent(AgentSettings(OWNER, managers or (LM,))))
    return town


def want(
    name: str = "r1", duration: int = 10_000, *, take: bool = True, replaces: str | None = None
) -> a.Want:
    request = LeaseRequest(name, {"net.tx": RequestedTerm(40_000)}, duration=duration, replaces=replaces)
    return a.Want(request, take)


def agent(town: Town) -> Agent:
    machine = town.machines[AGENT]
    assert isinstance(machine, Agent)
    return machine


def got(town: Town, message: a.Want) -> str:
    (answer,) = town.send(OWNER, AGENT, message)
    assert isinstance(answer, a.Got)
    return answer.document.lease


def active(town: Town) -> list[str]:
    return town.host_manager("h1").book.active()


def test_a_lease_is_got_in_one_turn_and_renewed_for_ever() -> None:
    town = town_of()
    lease = got(town, want())
    town.passes(60_000)
    heard = town.hears(OWNER)
    assert {type(one) for one in heard} == {a.Got}
    assert active(town) == [lease]
    assert agent(town).held[lease].revision == 1 + town.count(m.Renewed)
    assert town.count(m.Renewed) == 15


def test_the_owner_may_look_at_an_offer_first() -> None:
    town = town_of()
    (answer,) = town.send(OWNER, AGENT, want(take=False))
    assert isinstance(answer, a.Offered)
    assert active(town) == []
    (taken,) = town.send(OWNER, AGENT, a.Take("r1"))
    assert isinstance(taken, a.Got)
    town.send(OWNER, AGENT, want("r2", take=False))
    town.send(OWNER, AGENT, a.Leave("r2"))
    assert town.host_manager("h1").book.allotments.free() == {"net.tx": 60_000}


def test_an_offer_that_is_taken_too_late_is_none() -> None:
    town = town_of()
    town.send(OWNER, AGENT, want(take=False))
    town.passes(10_001)
    (answer,) = town.send(OWNER, AGENT, a.Take("r1"))
    assert answer == a.NotOffered(m.Declined("r1", "lapsed"))
    assert agent(town).held == {}


def test_a_holder_stops_before_its_host_gives_the_capacity_to_another() -> None:
    town = town_of()
    lease = got(town, want())
    town.hears(OWNER)
    town.lost = lambda sender, to, _message: AGENT in {sender, to} and OWNER not in {sender, to}
    town.passes(9_699)
    assert town.hears(OWNER) == []
    town.passes(1)
    assert town.hears(OWNER) == [a.Lost(lease, "expired")]
    assert active(town) == [lease]
    town.passes(500)
    assert active(town) == []


def test_a_renewal_whose_answer_is_lost_moves_nothing() -> None:
    town = town_of()
    lease = got(town, want())
    town.hears(OWNER)
    town.lost = lambda _from, to, message: isinstance(message, m.Renewed) and to == AGENT
    town.passes(9_700)
    assert town.hears(OWNER) == [a.Lost(lease, "expired")]
    assert active(town) == [lease]


def test_a_lost_answer_to_an_acceptance_is_asked_for_again() -> None:
    town = town_of()
    town.lost = lambda _from, to, message: isinstance(message, m.LeaseIs) and to == AGENT
    assert town.send(OWNER, AGENT, want()) == []
    assert len(active(town)) == 1
    town.lost = all_arrive
    town.passes(2_000)
    (answer,) = town.hears(OWNER)
    assert isinstance(answer, a.Got)
    town.lost = lambda sender, to, _message: AGENT in {sender, to} and OWNER not in {sender, to}
    town.passes(7_700)
    assert town.hears(OWNER) == [a.Lost(answer.document.lease, "expired")]
    assert town.now_ms == 1_000_000 + 9_700


def test_without_any_manager_the_host_is_asked_and_work_goes_on() -> None:
    town = town_of()
    lease = got(town, want())
    town.hears(OWNER)
    town.dies(LM)
    town.passes(60_000)
    assert {type(one) for one in town.hears(OWNER)} == {a.Got}
    assert active(town) == [lease]


def test_another_manager_of_the_location_takes_over() -> None:
    other = Address("lm2", "location")
    town = town_of(LM, other)
    town.dies(LM)
    assert town.send(OWNER, AGENT, want()) == []
    town.passes(2_000)
    (answer,) = town.hears(OWNER)
    assert isinstance(answer, a.Got)
    assert answer.document.lease.startswith("L-loc1-lm2-")


def test_a_manager_that_dies_after_the_confirmation_is_replaced_by_one_that_learns_of_the_lease() -> None:
    other = Address("lm2", "location")
    town = town_of(LM, other)
    town.lost = lambda _from, to, message: isinstance(message, m.Confirmed) and to == LM
    assert town.send(OWNER, AGENT, want()) == []
    town.dies(LM)
    town.lost = all_arrive
    town.dies(other)
    town.comes_up(other)
    town.passes(4_000)
    (answer, *_) = town.hears(OWNER)
    assert isinstance(answer, a.Got)
    assert active(town) == [answer.document.lease]


def test_an_acceptance_that_nobody_answers_is_lost_and_given_back() -> None:
    town = town_of()
    town.lost = lambda _from, to, message: isinstance(message, m.LeaseIs | m.Renewed) and to == AGENT
    town.send(OWNER, AGENT, want())
    town.passes(9_700)
    assert [one for one in town.hears(OWNER) if isinstance(one, a.Lost)]
    assert active(town) == []


def test_giving_back_is_repeated_until_the_host_has_heard_it() -> None:
    town = town_of()
    lease = got(town, want(duration=60_000))
    town.lost = lambda _from, _to, message: isinstance(message, m.ReleaseLease)
    town.send(OWNER, AGENT, a.GiveBack(lease))
    assert (agent(town).held, active(town)) == ({}, [lease])
    town.lost = all_arrive
    town.passes(2_000)
    assert active(town) == []
    before = town.count(m.ReleaseLease)
    town.passes(60_000)
    assert town.count(m.ReleaseLease) == before == 1


def test_a_revocation_is_passed_on() -> None:
    town = town_of()
    lease = got(town, want(duration=60_000))
    town.send(LM, H1, m.Revoke(1, lease, 3_000, "maintenance"))
    town.passes(3_000)
    assert town.hears(OWNER)[1:] == [a.Warned(lease, 3_000, "maintenance"), a.Lost(lease, "revoked")]


def test_a_lease_that_its_host_does_not_know_is_lost_at_once() -> None:
    town = town_of()
    lease = got(town, want())
    town.dies(H1)
    town.kept[H1] = {}
    town.comes_up(H1, "lost")
    town.passes(8_750)
    assert a.Lost(lease, "ended") in town.hears(OWNER)


class Shorter:
    """Durations are limited."""

    most = 10_000

    def may_have(self, ask: TermAsk, holdings: list[Holding]) -> Allowed:
        del holdings
        return Allowed(self.most, "short") if ask.term == "duration" else Allowed()

    def rank(self, host: str) -> int:
        del host
        return 0


def test_a_shorter_duration_is_agreed_upon_before_it_counts() -> None:
    town, policy = Town(), Shorter()
    town.location()
    town.host("h1", BOTH, {"net.tx": 100_000}, policy=policy)  # type: ignore[arg-type]
    town.add(AGENT, lambda: Agent(AgentSettings(OWNER, (LM,))))
    lease = got(town, want(duration=20_000))
    assert agent(town).held[lease].duration == 10_000
    policy.most = 5_000
    town.passes(4_500)
    assert agent(town).held[lease].duration == 5_000
    town.hears(OWNER)
    town.lost = lambda sender, to, _message: AGENT in {sender, to} and OWNER not in {sender, to}
    # Asked for at 4 s: its holder stops at 4 + 4.9 - 0.1 s, and its host ends it at 4 + 5.1 s.
    town.passes(4_299)
    assert town.hears(OWNER) == []
    town.passes(1)
    assert town.hears(OWNER) == [a.Lost(lease, "expired")]
    assert active(town) == [lease]
    town.passes(300)
    assert active(town) == []


def test_a_replacement_takes_the_place_of_its_lease() -> None:
    town = town_of()
    lease = got(town, want())
    (answer,) = town.send(OWNER, AGENT, want("r2", duration=20_000, replaces=lease))
    assert isinstance(answer, a.Got)
    assert (answer.document.lease, answer.document.revision) == (lease, 2)
    town.passes(60_000)
    assert active(town) == [lease]
    assert town.count(a.Lost) == 0


def test_a_renewal_that_is_refused_changes_nothing_for_those_that_follow() -> None:
    town = town_of()
    lease = got(town, want())
    (refused,) = town.send(OWNER, AGENT, a.RenewNow(lease, 7_200_000))
    assert refused == a.NotRenewed(lease, "constraint.max", "duration")
    town.passes(30_000)
    assert {type(one) for one in town.hears(OWNER)} == {a.NotRenewed, a.Got}
    assert (active(town), agent(town).held[lease].duration) == ([lease], 10_000)
    # Nor does one for a shorter time: what is had is had as long as before.
    (refused,) = town.send(OWNER, AGENT, a.RenewNow(lease, 100))
    assert refused == a.NotRenewed(lease, "constraint.min", "duration")
    assert agent(town).left_ms(lease) > 5_000
    town.passes(30_000)
    assert (active(town), agent(town).held[lease].duration) == ([lease], 10_000)


def test_a_holder_who_asks_for_less_time_and_hears_no_answer_stops_before_its_host_gives_it_away() -> None:
    """Also where it was a replacement that is shorter."""
    shorter = LeaseRequest("r2", {"net.tx": RequestedTerm(40_000)}, duration=5_000)
    for replaces in (False, True):
        town = town_of()
        lease = got(town, want(duration=600_000))
        town.lost = lambda sender, to, message: (
            to == AGENT and sender != OWNER and not isinstance(message, m.Offer)
        )
        asked = a.Want(msgspec.structs.replace(shorter, replaces=lease), take=True)
        town.send(OWNER, AGENT, asked if replaces else a.RenewNow(lease, 5_000))
        record = town.host_manager("h1").book.of(lease)
        assert record is not None
        assert record.duration == 5_000
        assert agent(town).left_ms(lease) == 4_800
        town.lost = lambda sender, to, _message: AGENT in {sender, to} and OWNER not in {sender, to}
        town.passes(4_800)
        assert agent(town).held == {}
        assert active(town) == [lease]
        town.passes(400)
        assert active(town) == []


def test_a_shorter_time_is_asked_for_again_in_time_and_then_counts() -> None:
    town = town_of()
    lease = got(town, want(duration=600_000))
    town.lost = lambda _from, _to, message: isinstance(message, m.Renewed)
    assert town.send(OWNER, AGENT, a.RenewNow(lease, 5_000)) == []
    town.passes(1_000)
    town.lost = all_arrive
    town.passes(60_000)
    assert (active(town), agent(town).held[lease].duration) == ([lease], 5_000)
    assert 0 < agent(town).left_ms(lease) <= 4_800
    assert agent(town).key() == agent(town).copy().key()
    # A longer one again: no earlier question ends it.
    town.send(OWNER, AGENT, a.RenewNow(lease, 600_000))
    town.passes(20_000)
    assert (active(town), agent(town).held[lease].duration) == ([lease], 600_000)
    assert agent(town).left_ms(lease) > 500_000
