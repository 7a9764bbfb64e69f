"""Several requests as one, message by message and in every order: they come in turn, and become leases all or none."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Self

import pytest
from leases.negotiation.every_order import Budget, World, begun, search

from holdall.leases.holder import DEADLINE_TIMER
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import AllowAll
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.shares import Shares
from holdall.leases.templates import template_of
from holdall.machine.contract import Address, Effect, Event, Machine, Message, Received, Record, Save, Send
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import Durations, LeaseRequest, RequestedTerm, TemplateTerm
from holdall.model.wanted import Selector
from holdall.parties.location.candidate import Candidate, CandidateSettings
from holdall.parties.location.dealings import NegotiatorSettings
from holdall.parties.location.host_side import HostSide
from holdall.parties.location.messages import HOST, LOCATION, NEGOTIATOR, Led, OnBehalf, Petition
from holdall.parties.location.negotiator import Negotiator
from holdall.parties.location.together import BUSY, TURN_WAIT_MS
from holdall.parties.location.turns import TURN, TURNS, EndTurn, NoTurn, TakeTurn, TurnIs, Turns
from holdall.parties.messages import AGENT, Asked
from holdall.parties.neighbours import Neighbour, NoNeighbours

NET = TemplateTerm("capacity", "B/s", min=1, max=100, sharing="first")
MANAGER, CLIENT = "h1", "session/1"
LONG = (DEADLINE_TIMER, "expiry/", "renew/", "rebind/")
HOSTS, ASKERS = ("h1", "h2"), ("x", "y")


class Street(NoNeighbours):
    """Two hosts in prague, two nodes that ask; all hear each other."""

    def name_of(self, node: str) -> str:
        return f"lab-{node}"

    def node(self, node: str) -> Neighbour | None:
        if node not in (*HOSTS, *ASKERS):
            return None
        return Neighbour(node, f"lab-{node}", "serving", 1, 1, location="prague" if node in HOSTS else "")

    def nodes(self) -> list[Neighbour]:
        return [one for name in HOSTS if (one := self.node(name)) is not None]


def both(who: str) -> f.AskTogether:
    """60 at each of two hosts, as each has 100."""
    term = {"net.tx": RequestedTerm(60, 60)}
    return f.AskTogether(
        tuple(f.AskOffer("prague", LeaseRequest(f"{who}{n}", term, duration=60_000)) for n in (1, 2))
    )


class Keeper:
    """Stands for the claims of turns: one at a time, or (`fair` false) as if there were none."""

    def __init__(self, *, fair: bool = True) -> None:
        self.fair = fair
        self.line: list[tuple[Address, str]] = []

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        assert isinstance(event, Received)
        first = self.line[:1]
        match event.message:
            case TakeTurn(key):
                self.line.append((event.sender, key))
                if not self.fair:
                    return (Send(event.sender, TurnIs(key)),)
            case EndTurn(key):
                self.line = [one for one in self.line if one != (event.sender, key)]
            case _:
                raise AssertionError(event.message)
        if not self.fair or self.line[:1] == first or not self.line:
            return ()
        return (Send(self.line[0][0], TurnIs(self.line[0][1])),)

    def key(self) -> Hashable:
        return tuple(self.line)

    def copy(self) -> Self:
        return deepcopy(self)


class Asking:
    """A negotiator whose turns the keeper keeps: what goes to its own part `session/turns` goes there."""

    def __init__(self, node: str, fair: bool) -> None:
        self.node = node
        self.machine = Negotiator(NegotiatorSettings(node, f"lab-{node}"), Street(node, f"lab-{node}"))

    def start(self) -> Sequence[Effect]:
        return self.machine.start()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        if isinstance(event, Received) and event.sender == KEEPER:
            event = Received(Address(self.node, TURNS), event.message)
        turns = Address(self.node, TURNS)
        return [
            Send(KEEPER, one.message) if isinstance(one, Send) and one.to == turns else one
            for one in self.machine.handle(event)
        ]

    def key(self) -> Hashable:
        return self.machine.key()

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.node, twin.machine = self.node, self.machine.copy()
        return twin


KEEPER = Address("keeper", "turns")


class Crossing(World):
    """`told`: what clients were answered. Hosts' books are judged as in any world of negotiation."""

    told: frozenset[str] = frozenset()
    offered: frozenset[str] = frozenset()

    def twin(self) -> Self:
        twin = super().twin()
        twin.told = self.told
        return twin

    def key(self) -> object:
        return super().key(), self.told

    def delivered(self, letter: tuple[Address, Address, Message], rest: object) -> Self:
        after = super().delivered(letter, rest)  # type: ignore[arg-type]
        _, to, message = letter
        if to.part == CLIENT:
            is_answer = isinstance(message, frames.Negotiated)
            answer = f.read_answer(message.body) if is_answer else message  # type: ignore[attr-defined]
            after.told |= {f"{to.node}:{type(answer).__name__}"}
        return after

    def carry(self, address: Address, effects: Sequence[Effect]) -> None:
        """Leases are long here: neither are they renewed nor is their time over before all is told."""
        super().carry(address, effects)
        self.timers = frozenset(one for one in self.timers if not any(word in one[1] for word in LONG))

    def active(self) -> list[tuple[str, str]]:
        """(holder, host) of each lease."""
        return sorted(
            (record.asker.holder, name)
            for name in HOSTS
            for record in self.host(name).book.held.values()
            if record.state == "active"
        )

    def host(self, name: str) -> HostManager:
        side = self.machines[Address(name, HOST)]
        assert isinstance(side, HostSide)
        return side.manager

    def wrong(self) -> str:
        wrong = "".join(self._wrong_at(self.host(name)) for name in HOSTS)
        for who in ASKERS:
            have = [host for holder, host in self.active() if holder == f"ann@lab-{who}"]
            if f"{who}:LeasesAre" in self.told and have != list(HOSTS):
                wrong += f"{who} was told of leases and has {have}"
            is_end = not self.mail and not self.timers_that_matter()
            if is_end and f"{who}:LeasesAre" not in self.told and have:
                wrong += f"{who} was told of none and has {have}"
        return wrong

    def timers_that_matter(self) -> list[str]:
        """A timer that gives back what is still being accepted."""
        return [name for _, name in self.timers if "|accept/" in name or "|release/" in name]


def side(name: str) -> Machine:
    settings = HostSettings(
        name,
        "prague",
        (Address(MANAGER, LOCATION),),
        template_of({"net.tx": NET}, Durations(500, 3_600_000, 60_000)),
        fence_block=1,
    )
    return HostSide(
        settings,
        Street(name, f"lab-{name}"),
        sharings=lambda: {"net.tx": Shares(100, rule="none")},
        policy=AllowAll(),
    )


def candidate() -> Machine:
    made = Candidate(CandidateSettings(MANAGER, "prague"), Street(MANAGER, "lab-h1"), policy=AllowAll())
    made.handle(Received(Address(MANAGER, "node"), Led(MANAGER, 7)))
    return made


def crossing(
    *askers: str, budget: Budget | None = None, crashing: Sequence[Address] = (), fair: bool = True
) -> Crossing:
    make: dict[Address, Callable[[], Machine]] = {Address(MANAGER, LOCATION): candidate}
    make |= {Address(name, HOST): partial(side, name) for name in HOSTS}
    make |= {Address(name, NEGOTIATOR): partial(Asking, name, fair) for name in askers}
    make[KEEPER] = partial(Keeper, fair=fair)
    world = begun(Crossing(make, {"net.tx": 100}, crashing, budget or Budget(0, 0, 0)))
    world.in_order = True
    world.mail = tuple(
        (Address(name, CLIENT), Address(name, NEGOTIATOR), Petition(1, f.pack(both(name)), "ann", 1000))
        for name in askers
    )
    return world


def ends(first: Crossing, states_most: int) -> set[frozenset[str]]:
    """What all were told where nothing more can happen."""
    found: set[frozenset[str]] = set()

    class Noting(Crossing):
        def wrong(self) -> str:
            if not self.mail:
                found.add(self.told)
            return super().wrong()

    first.__class__ = Noting
    search(first, states_most)
    return found


def test_two_that_cross_never_refuse_each_other_in_any_order() -> None:
    assert ends(crossing("x", "y"), 20_000) == {
        frozenset({"x:LeasesAre", "y:NoOffer"}),
        frozenset({"x:NoOffer", "y:LeasesAre"}),
    }


def test_without_turns_there_is_an_order_in_which_both_fail() -> None:
    """What the turns are for: each has its first part offered before either asks for its second one."""
    world = crossing("x", "y", fair=False)
    while world.mail:
        offers = {to.node for _, to, message in world.mail if isinstance(message, m.Offer)}
        held_back = {0: "y", 1: "x"}.get(len(world.offered), "")
        world.offered |= offers
        letter = next(one for one in world.mail if one[1].node != held_back)
        rest = list(world.mail)
        rest.remove(letter)
        offered, world = world.offered, world.delivered(letter, tuple(rest))
        world.offered = offered
    assert world.told == {"x:NoOffer", "y:NoOffer"}


@pytest.mark.parametrize("dies", [Address("h1", HOST), Address("h2", HOST), Address(MANAGER, LOCATION)])
def test_all_become_leases_or_none_when_somebody_dies_at_any_moment(dies: Address) -> None:
    told = ends(crossing("x", budget=Budget(0, 0, 1), crashing=(dies,)), 20_000)
    assert frozenset({"x:LeasesAre"}) in told


def test_all_become_leases_or_none_whatever_timer_fires() -> None:
    told = ends(crossing("x", budget=Budget(1, 0, 0)), 50_000)
    assert frozenset({"x:LeasesAre"}) in told
    assert frozenset({"x:NoOffer"}) in told


# ---------------------------------------------------------------- message by message


def says(machine: Machine, sender: Address, message: Message) -> list[Message]:
    """What it sends for that."""
    return [one.message for one in machine.handle(Received(sender, message)) if isinstance(one, Send)]


def asked_by(machine: Negotiator) -> list[Message]:
    return says(machine, Address("x", CLIENT), Petition(1, f.pack(both("x")), "ann", 1000))


def test_a_turn_is_taken_before_the_first_part_and_ended_after_the_last() -> None:
    machine = Negotiator(NegotiatorSettings("x", "lab-x"), Street("x", "lab-x"))
    turns = Address("x", TURNS)
    take = TakeTurn("together/1", ("lab-h1",), TURN_WAIT_MS, "ann@lab-x")
    assert asked_by(machine) == [take]
    (first,) = says(machine, turns, TurnIs("together/1"))
    assert isinstance(first, OnBehalf)
    assert isinstance(first.message, m.RequestLease)
    assert first.message.request.request == "x1"
    assert says(machine, turns, TurnIs("together/1")) == []
    refused, ended = says(machine, Address("h1", LOCATION), m.Declined("x1", "not_free", "net.tx"))
    assert isinstance(refused, frames.Negotiated)
    assert f.read_answer(refused.body) == f.NoOffer("not_free", "net.tx")
    assert ended == EndTurn("together/1")


def test_no_turn_in_time_is_a_refusal_that_says_so() -> None:
    machine = Negotiator(NegotiatorSettings("x", "lab-x"), Street("x", "lab-x"))
    asked_by(machine)
    refused, ended = says(machine, Address("x", TURNS), NoTurn("together/1", "ann has it"))
    assert isinstance(refused, frames.Negotiated)
    answer = f.read_answer(refused.body)
    assert isinstance(answer, f.NoOffer)
    assert (answer.reason, "ann has it" in answer.text) == (BUSY, True)
    assert ended == EndTurn("together/1")
    # One that comes all the same is given back.
    assert says(machine, Address("x", TURNS), TurnIs("together/1")) == [EndTurn("together/1")]


def framed(effects: Sequence[Effect]) -> list[frames.ToNode]:
    return [one.message.frame for one in effects if isinstance(one, Send) and isinstance(one.message, Asked)]


def test_a_turn_is_one_waiting_claim_over_the_keepers_of_all_locations() -> None:
    machine, negotiator, agent = (
        Turns("x", 7, ttl_ms=900, seed=5),
        Address("x", NEGOTIATOR),
        Address("x", AGENT),
    )
    assert machine.start() == ()
    effects = machine.handle(Received(negotiator, TakeTurn("k", ("lab-h1", "lab-o"), 4000, "ann@lab-x")))
    hello, claim = framed(effects)
    assert isinstance(hello, frames.Hello)
    assert isinstance(claim, frames.Claim)
    assert [need.options for need in claim.needs] == [
        (Selector((TURN,), node="lab-h1"),),
        (Selector((TURN,), node="lab-o"),),
    ]
    assert (claim.n, claim.wait_ms, claim.now, claim.ttl_ms) == (6, 4000, False, 900)
    assert says(machine, agent, frames.Denied(6, "not-granted", "late")) == [NoTurn("k", "late")]
    assert framed(machine.handle(Received(negotiator, EndTurn("k")))) == []
    # One that is ended while it waits is cancelled; should it have been granted meanwhile, it is given back.
    framed(machine.handle(Received(negotiator, TakeTurn("k2", ("lab-h1",), 4000, "ann@lab-x"))))
    assert framed(machine.handle(Received(negotiator, EndTurn("k2")))) == [frames.Cancel(8, "#7")]


def test_after_a_restart_what_the_session_still_has_is_given_back() -> None:
    before, negotiator = Turns("x", 7, ttl_ms=900, seed=5), Address("x", NEGOTIATOR)
    effects = before.handle(Received(negotiator, TakeTurn("k", ("lab-h1",), 4000, "ann@lab-x")))
    kept = {one.key: one.record for one in effects if isinstance(one, Save)}
    machine = Turns("x", 7, ttl_ms=900, seed=50)
    hello, beat = framed(machine.recover(kept))
    assert isinstance(hello, frames.Hello)
    assert (hello.session, bool(hello.secret)) == ("turns", True)
    assert beat == frames.Beat(51)
    found = machine.handle(Received(Address("x", AGENT), frames.BeatOk(51, (("7K4M-Q2", 500),))))
    assert framed(found) == [frames.Cancel(52, "7K4M-Q2"), frames.Release(53, "7K4M-Q2")]
