"""Skeen lanes: the step of the history between the printed lanes and fast lanes. Lab only.

The reply is read as a proposal and the maximum as the final index, so nothing is ever rejected: Skeen's total order
multicast with the agent as coordinator (history of lanes, section 3.1). Two round trips, no fast path, no leases.
"""

from typing import cast

import msgspec

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.skeen_messages import (
    AGENT,
    POOL,
    Ask,
    Final,
    GiveBack,
    Grant,
    Proposal,
    ToAgent,
    ToPool,
)
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, Release, UnitGrant, Visit


class Entry(msgspec.Struct, frozen=True, order=True):
    """A claim's place in line: open until its index is final, then waiting, then granted."""

    index: int
    claim: ClaimId
    final: bool = False
    granted: bool = False


class Line(msgspec.Struct, frozen=True):
    """One pool: its clock, and entries in the order (index, claim)."""

    clock: int = 0
    entries: tuple[Entry, ...] = ()


class SkeenPool(Stateful[Line]):
    """A pool of some units; each claim wants one."""

    def __init__(self, units: int = 1) -> None:
        self.units = units
        self.state = Line()

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message of an agent."""
        message = event.message
        clock, entries = self.state.clock, self.state.entries
        match message:
            case Ask(claim):
                clock += 1
                entries = (*entries, Entry(clock, claim))
                out.append(Send(event.sender, Proposal(claim, clock)))
            case Final(claim, index):
                clock = max(clock, index)
                others = tuple(entry for entry in entries if entry.claim != claim)
                entries = tuple(sorted((*others, Entry(index, claim, final=True))))
            case GiveBack(claim):
                entries = tuple(entry for entry in entries if entry.claim != claim)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message for a pool of lanes")
        self.state = Line(clock, entries)
        self._scan(out)

    def _scan(self, out: list[Effect]) -> None:
        """Grant what is final, as far as every smaller entry, open or final, keeps its unit."""
        free = self.units - sum(entry.granted for entry in self.state.entries)
        before = 0
        entries: list[Entry] = []
        for entry in self.state.entries:
            if not entry.granted:
                if entry.final and before < free:
                    entry = msgspec.structs.replace(entry, granted=True)  # noqa: PLW2901
                    free -= 1
                    out.append(Send(Address(entry.claim.node, AGENT), Grant(entry.claim)))
                else:
                    before += 1
            entries.append(entry)
        self.state = Line(self.state.clock, tuple(entries))


class Lane(msgspec.Struct, frozen=True):
    """What an agent knows of its claim."""

    claim: ClaimId
    pools: tuple[tuple[str, str], ...]
    proposals: tuple[int, ...] = ()
    granted: tuple[str, ...] = ()


class Lanes(msgspec.Struct, frozen=True):
    """All claims of one host."""

    lanes: tuple[Lane, ...] = ()


class SkeenAgent(Stateful[Lanes]):
    """The claims of one host, each its own coordinator."""

    def __init__(self, agent: Address) -> None:
        """`agent`: who is told of grants."""
        self.state = Lanes()
        self._agent = agent

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message of a pool or a command."""
        message = event.message
        match message:
            case Acquire(claim, need):
                lane = Lane(claim, _pools(need))
                self.state = Lanes((*self.state.lanes, lane))
                _to_pools(lane, Ask(claim), out)
            case Release(claim):
                lanes = tuple(one for one in self.state.lanes if one.claim != claim)
                for one in self.state.lanes:
                    if one.claim == claim:
                        _to_pools(one, GiveBack(claim), out)
                self.state = Lanes(lanes)
                out.append(Send(self._agent, Ended(claim)))
            case _:
                self._answered(event.sender, cast("ToAgent", message), out)

    def _answered(self, sender: Address, message: ToAgent, out: list[Effect]) -> None:
        lane = next((one for one in self.state.lanes if one.claim == message.claim), None)
        if lane is None:
            return
        match message:
            case Proposal(claim, index):
                proposals = (*lane.proposals, index)
                if len(proposals) == len(lane.pools):
                    _to_pools(lane, Final(claim, max(proposals)), out)
                    proposals = ()  # decided: what they were plays no part any more
                lane = msgspec.structs.replace(lane, proposals=tuple(sorted(proposals)))
            case Grant(claim):
                lane = msgspec.structs.replace(lane, granted=tuple(sorted({*lane.granted, sender.node})))
                if len(lane.granted) == len(lane.pools):
                    units = tuple(UnitGrant(node, pool, "", 0) for node, pool in lane.pools)
                    out.append(Send(self._agent, Granted(claim, 1, units)))
        self.state = Lanes(tuple(lane if one.claim == lane.claim else one for one in self.state.lanes))


def _pools(need: tuple[Visit, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((visit.node, visit.alternatives[0][0][0]) for visit in need)


def _to_pools(lane: Lane, message: ToPool, out: list[Effect]) -> None:
    out += [Send(Address(node, POOL), message) for node, _ in lane.pools]
