"""With whom a negotiator speaks about which location, and in whose name: one agent's machine for each location."""

from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import (
    Address,
    CancelTimer,
    ClockRead,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model.location_frames import location_of
from holdall.parties.location.messages import HOST, LOCATION, NEGOTIATOR, Elsewhere, OfAgent, OnBehalf
from holdall.parties.neighbours import Neighbours

TIMER = "|"
"""Between a location and the timer of its agent."""
HOPS_MAX = 4
"""How often a message is sent on to another leader before its sender asks again by itself."""
KNOWN_MAX = 8192
"""Askers of requests and leases that are remembered."""

Outcomes: TypeAlias = list[Message]


class NegotiatorSettings(msgspec.Struct, frozen=True):
    """Of one node. `location` empty: it belongs to none, and may ask any."""

    node: str
    name: str
    location: str = ""
    rho_ppm: int = 20_000
    margin_ms: int = 100


class Dealings:
    """All locations that this node's clients deal with."""

    def __init__(self, settings: NegotiatorSettings, neighbours: Neighbours) -> None:
        self.settings = settings
        self._neighbours = neighbours
        self.agents: dict[str, Agent] = {}
        self._own = Address(settings.node, NEGOTIATOR)
        self._leaders: dict[str, str] = {}
        self._doubts: dict[str, int] = {}
        self._hops: dict[str, int] = {}
        self._askers: dict[str, Asker] = {}
        """By request, and by lease."""
        self._clock = ClockRead(0)

    # ------------------------------------------------------------ who there is

    def locations(self) -> dict[str, tuple[str, ...]]:
        """Location -> its nodes, those that are heard first."""
        found: dict[str, list[tuple[bool, str]]] = {}
        if self.settings.location:
            found[self.settings.location] = [(False, self.settings.node)]
        for one in self._neighbours.nodes():
            if one.location:
                is_silent = one.state in {"silent", "stopped"}
                found.setdefault(one.location, []).append((is_silent, one.node))
        return {name: tuple(node for _, node in sorted(found[name])) for name in sorted(found)}

    def node_named(self, name: str) -> str | None:
        """The id of the node that people call so."""
        return self.settings.node if name == self.settings.name else self._neighbours.node_named(name)

    def location_at(self, node: str) -> str:
        """Of a node; empty: none, or the node is not known."""
        if node == self.settings.node:
            return self.settings.location
        known = self._neighbours.node(node)
        return "" if known is None else known.location

    def agent(self, location: str) -> Agent | None:
        """For this location, with the managers that it may have now; None: no such location is known."""
        nodes = self.locations().get(location, ())
        if not nodes:
            return self.agents.get(location)
        managers = self._in_order(location, nodes)
        known = self.agents.get(location)
        if known is None:
            settings = AgentSettings(
                self._own,
                managers,
                HOST,
                rho_ppm=self.settings.rho_ppm,
                margin_ms=self.settings.margin_ms,
            )
            known = self.agents[location] = Agent(settings)
            known.handle(Received(self._own, self._clock))
        elif known.settings.managers != managers:
            known.managed_by(managers)
        return known

    def left_ms(self, lease: str) -> int:
        """How long it may be used from now on; 0: it is not held here."""
        agent = self.agents.get(location_of(lease))
        return 0 if agent is None else agent.left_ms(lease)

    def _in_order(self, location: str, nodes: tuple[str, ...]) -> tuple[Address, ...]:
        """A node's own candidate knows best who leads; of another location that one is asked which has answered last."""
        own = self.settings.node
        first = own if own in nodes else self._leaders.get(location, "")
        ordered = sorted(nodes, key=lambda node: (node != first, nodes.index(node)))
        start = self._doubts.get(location, 0) % len(ordered)
        return tuple(Address(node, LOCATION) for node in (*ordered[start:], *ordered[:start]))

    def doubt(self, location: str) -> None:
        """Who was asked has not answered: ask the next one."""
        if self._leaders.pop(location, None) is None or self.settings.location == location:
            self._doubts[location] = self._doubts.get(location, 0) + 1

    def manager(self, location: str) -> Address:
        """Who is asked first."""
        agent = self.agent(location)
        if agent is None:
            raise KeyError(location)
        self._hops[location] = 0
        return agent.settings.managers[0]

    def find(self, holder: str) -> Address | None:
        """Who speaks for `user@node`; None: there is no node of that name."""
        user, _, name = holder.rpartition("@")
        node = self._neighbours.node_named(name) if user else None
        return None if node is None else Address(node, NEGOTIATOR)

    def note_asker(self, name: str, asker: Asker) -> None:
        """Whose request or lease this is."""
        self._askers[name] = asker
        if len(self._askers) > KNOWN_MAX:
            held = {lease for agent in self.agents.values() for lease in agent.held}
            oldest = next(one for one in self._askers if one not in held)
            del self._askers[oldest]

    def asker(self, name: str) -> Asker | None:
        """As noted."""
        return self._askers.get(name)

    # ------------------------------------------------------------ the agents

    def clock(self, message: ClockRead) -> None:
        """For all agents."""
        self._clock = message
        for agent in self.agents.values():
            agent.handle(Received(self._own, message))

    def tell(self, location: str, message: Message, out: list[Effect]) -> Outcomes:
        """An order to a location's agent, from whoever uses the leases."""
        return self._run(location, Received(self._own, message), out)

    def fired(self, timer: str, out: list[Effect]) -> Outcomes:
        """A timer of an agent."""
        location, _, inner = timer.partition(TIMER)
        return self._run(location, TimerFired(inner), out) if location in self.agents else []

    def put_off(self, timer: str, out: list[Effect]) -> None:
        """A renewal that is not wanted now: look again after an eighth of the lease's duration."""
        location, _, inner = timer.partition(TIMER)
        lease = inner.partition("/")[2]
        held = self.agents[location].held.get(lease) if location in self.agents else None
        if held is not None:
            out.append(SetTimer(timer, max(1, held.duration // 8)))

    def heard(self, sender: Address, message: Message, out: list[Effect]) -> Outcomes:
        """What a manager or a host says. Raises ProtocolViolation where it is not of the location that it speaks about."""
        location = self.location_at(sender.node)
        if sender.part not in {LOCATION, HOST} or not location:
            raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for a negotiator")
        lease = lease_in(message)
        if lease and location_of(lease) != location:
            raise ProtocolViolation(f"{sender} is not of the location of {lease[:80]}")
        self._hops[location] = 0
        if sender.part == LOCATION:
            self._leaders[location] = sender.node
            self._doubts.pop(location, None)
        agent = self.agent(location)
        if agent is None or isinstance(message, looking.Looked):
            return []
        asker = self._askers.get(message.request) if isinstance(message, m.Offer) else None
        if asker is not None:
            # Before the agent, which may accept at once, speaks of the lease.
            self.note_asker(lease, asker)
        return self._run(location, Received(sender, message), out)

    def elsewhere(self, sender: Address, message: Elsewhere, out: list[Effect]) -> None:
        """Another node leads: say it there. Raises ProtocolViolation for what this node has not said."""
        location = message.location
        mine = message.said.asker.holder.endswith(f"@{self.settings.name}")
        if sender.part != LOCATION or self.location_at(sender.node) != location or not mine:
            raise ProtocolViolation(f"{sender} can't send anybody on")
        hops = self._hops[location] = self._hops.get(location, 0) + 1
        leader = message.leader
        if not leader or leader == sender.node or hops > HOPS_MAX or self.location_at(leader) != location:
            return
        self._leaders[location] = leader
        self.agent(location)
        out.append(Send(Address(leader, LOCATION), message.said))

    def say(self, to: Address, asker: Asker, message: OfAgent, out: list[Effect]) -> None:
        """In the name of a user."""
        out.append(Send(to, OnBehalf(asker, message)))

    def _run(self, location: str, event: Event, out: list[Effect]) -> Outcomes:
        return self._carry(location, self.agents[location].handle(event), out)

    def _carry(self, location: str, effects: Sequence[Effect], out: list[Effect]) -> Outcomes:
        outcomes: Outcomes = []
        for effect in effects:
            match effect:
                case Send(to, message) if to == self._own:
                    outcomes.append(message)
                case Send(to, message):
                    self._in_name(to, message, out)
                case SetTimer(timer, after_ms, spread_ms):
                    out.append(SetTimer(f"{location}{TIMER}{timer}", after_ms, spread_ms))
                case CancelTimer(timer):
                    out.append(CancelTimer(f"{location}{TIMER}{timer}"))
                case _:
                    raise AssertionError("an agent saves nothing")
        return outcomes

    def _in_name(self, to: Address, message: Message, out: list[Effect]) -> None:
        match message:
            case m.RequestLease():
                name = message.request.request
            case m.LeaveLine():
                name = message.request
            case m.RenewLeases():
                name = message.renewals[0].lease
            case m.SplitLease():
                name = split_name(message.part)
            case m.AcceptLease() | m.DeclineLease() | m.ReleaseLease() | m.GetStatus():
                name = message.lease
            case _:
                raise AssertionError(f"an agent does not say {type(message).__name__}")
        asker = self._askers.get(name)
        if asker is not None:
            self.say(to, asker, message, out)


def lease_in(message: Message) -> str:
    """The lease that an answer is about; empty: about a request, or none."""
    match message:
        case m.Offer() | m.LeaseIs():
            return message.document.lease
        case m.Split():
            return message.rest.lease
        case (
            m.Lapsed()
            | m.StaleRevision()
            | m.UnknownLease()
            | m.Done()
            | m.Renewed()
            | m.Revoking()
            | m.NoSplit()
        ):
            return message.lease
        case _:
            return ""


def split_name(part: str) -> str:
    """Under which the one who splits is noted: the part itself will be another's."""
    return f"split {part}"
