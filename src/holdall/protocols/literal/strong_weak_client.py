"""The client of the two-resource algorithm, Algorithm 1 as printed. Lab only."""

import msgspec

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.literal.strong_weak import NOWHERE, STRONG, WEAK
from holdall.protocols.literal.strong_weak_messages import RESOURCE, Done, EndAck, NewRequest, ResAllowed
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, Release, UnitGrant


class Demand(msgspec.Struct, frozen=True):
    """Variable 1 of the paper: D, and whether the client is inside or has sent Done."""

    client: ClaimId
    strong: tuple[str, str]
    """(node, pool)"""
    weak: tuple[str, str] | None
    inside: bool = False
    done: bool = False


class Demands(msgspec.Struct, frozen=True):
    """The present demand of a client's host."""

    demand: Demand | None = None


class StrongWeakClient(Stateful[Demands]):
    """Algorithm 1: one client on a host."""

    def __init__(self, agent: Address) -> None:
        """`agent`: who is told of grants."""
        self.state = Demands()
        self._agent = agent

    def receive(self, event: Received, out: list[Effect]) -> None:
        """A command, resAllowed or endACK."""
        message = event.message
        demand = self.state.demand
        match message:
            case Acquire(claim, need):
                if demand is not None or len(need) > 2:
                    raise ProtocolViolation(
                        "a client of the printed algorithm has one claim of one or two resources"
                    )
                places = [(visit.node, visit.alternatives[0][0][0]) for visit in need]
                demand = Demand(claim, places[0], places[1] if len(places) == 2 else None)
                self.state = Demands(demand)
                if demand.weak is None:
                    asked, to = NewRequest(claim, STRONG, NOWHERE), demand.strong
                else:
                    asked, to = NewRequest(claim, WEAK, demand.strong[0]), demand.weak
                out.append(Send(Address(to[0], RESOURCE), asked))
            case Release(claim):
                if demand is not None and demand.client == claim:
                    self.state = Demands(msgspec.structs.replace(demand, inside=False, done=True))
                    out.append(Send(Address((demand.weak or demand.strong)[0], RESOURCE), Done()))
            case ResAllowed(client):
                # Without an identity in the message, a client that does not wait enters all the same and leaves at once.
                if demand is not None and demand.client == client and not demand.inside and not demand.done:
                    self.state = Demands(msgspec.structs.replace(demand, inside=True))
                    places = [place for place in (demand.strong, demand.weak) if place is not None]
                    units = tuple(UnitGrant(node, pool, "", 0) for node, pool in places)
                    out.append(Send(self._agent, Granted(client, 1, units)))
            case EndAck(client):
                if demand is not None and demand.client == client:
                    self.state = Demands()
                    out.append(Send(self._agent, Ended(client)))
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message for a client")
