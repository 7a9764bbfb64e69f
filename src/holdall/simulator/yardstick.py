"""The yardstick: one coordinator that knows all pools and serves the first waiting claim that fits.

It shows what a protocol leaves on the table. It protects nobody from starvation, lives on one node and survives
no fault, so it is no protocol of the product. Source: common specification, section 4.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self, TypeAlias

import msgspec

from holdall.machine.contract import Address, Effect, Event, Received, Record, Send
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Granted,
    Release,
    UnitGrant,
)

CENTRE = Address("centre", "manager")
"""Where the coordinator lives; all pools of the workload are its own."""


class Request(msgspec.Struct, frozen=True, tag="request"):
    """All that the claim wants: client to coordinator."""

    claim: ClaimId
    wanted: tuple[tuple[str, str, int], ...]
    """(node, pool, units)"""


class Grant(msgspec.Struct, frozen=True, tag="grant"):
    """The units: coordinator to client."""

    claim: ClaimId
    units: tuple[UnitGrant, ...]


class Done(msgspec.Struct, frozen=True, tag="done"):
    """The units are free: client to coordinator."""

    claim: ClaimId


YardstickMessage: TypeAlias = Request | Grant | Done


class CentralManager:
    """Free units of all pools, and the waiting claims in order of arrival."""

    def __init__(self, pools: Mapping[tuple[str, str], int]) -> None:
        self.free = {
            pool: [UnitGrant(pool[0], pool[1], f"u{number}", 0) for number in range(units)]
            for pool, units in sorted(pools.items())
        }
        self.waiting: dict[ClaimId, tuple[Address, Request]] = {}
        self.held: dict[ClaimId, tuple[UnitGrant, ...]] = {}
        self.fence = 0

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The yardstick is never crashed."""
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(sender, Request() as request):
                self.waiting[request.claim] = (sender, request)
            case Received(_, Done(claim)):
                for unit in self.held.pop(claim, ()):
                    self.free[unit.node, unit.pool].append(unit)
            case _:
                return ()
        return self._first_fit()

    def key(self) -> Hashable:
        return (tuple(self.waiting), tuple(sorted(self.held)))

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.free = {pool: list(units) for pool, units in self.free.items()}
        twin.waiting, twin.held, twin.fence = dict(self.waiting), dict(self.held), self.fence
        return twin

    def _first_fit(self) -> list[Effect]:
        out: list[Effect] = []
        for claim, (sender, request) in list(self.waiting.items()):
            if all(len(self.free[node, pool]) >= units for node, pool, units in request.wanted):
                del self.waiting[claim]
                taken: list[UnitGrant] = []
                for node, pool, units in request.wanted:
                    for _ in range(units):
                        self.fence += 1
                        unit = self.free[node, pool].pop(0)
                        taken.append(UnitGrant(node, pool, unit.unit, self.fence))
                self.held[claim] = tuple(taken)
                out.append(Send(sender, Grant(claim, tuple(taken))))
        return out


class CentralClaimant:
    """Passes a claim to the coordinator and its answer back."""

    def __init__(self, node: str) -> None:
        self.agent = Address(node, "agent")

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The yardstick is never crashed."""
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(_, Acquire() as acquire):
                wanted = tuple(
                    (visit.node, pool, units)
                    for visit in acquire.need
                    for pool, units in visit.alternatives[0]
                )
                return [Send(CENTRE, Request(acquire.claim, wanted))]
            case Received(_, Release(claim)):
                return [Send(CENTRE, Done(claim)), Send(self.agent, Ended(claim))]
            case Received(_, Grant(claim, units)):
                return [Send(self.agent, Granted(claim, 1, units))]
            case _:
                return ()

    def key(self) -> Hashable:
        return self.agent

    def copy(self) -> Self:
        return self
