"""A lock server, small enough to count its states by hand: what the search itself is tested with."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    Effect,
    Event,
    Message,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import Arrival, Host
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Gone,
    Granted,
    LeaseLost,
    Release,
    ToClaimant,
    UnitGrant,
)
from holdall.world.clients import Lease, Notice
from holdall.world.plan import World
from holdall.world.system import TimerKind


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    claim: ClaimId


class Give(msgspec.Struct, frozen=True, tag="give"):
    claim: ClaimId


class Back(msgspec.Struct, frozen=True, tag="back"):
    claim: ClaimId


class Ok(msgspec.Struct, frozen=True, tag="ok"):
    claim: ClaimId


class Line(msgspec.Struct, frozen=True, tag="line"):
    claims: tuple[ClaimId, ...]
    ended: tuple[ClaimId, ...]


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    claim: ClaimId
    phase: str


class Server:
    """The first in line has the lock. `rule` names what is left out."""

    def __init__(self, node: str, rule: str = "") -> None:
        self.node = node
        self.rule = rule
        self.line = Line((), ())

    def start(self) -> Sequence[Effect]:
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        kept = records.get("line")
        if isinstance(kept, Line):
            self.line = kept
        return self._give([])

    def handle(self, event: Event) -> Sequence[Effect]:
        assert isinstance(event, Received)
        out: list[Effect] = []
        claims, ended = self.line.claims, self.line.ended
        match event.message:
            case Ask(claim):
                if claim in ended or (self.rule == "names" and claim.node == "c2"):
                    return []
                if claim not in claims:
                    # "push": a newcomer stands before all who wait
                    at = min(1, len(claims)) if self.rule == "push" else len(claims)
                    claims = (*claims[:at], claim, *claims[at:])
            case Back(claim) | LeaseLost(claim):
                claims = tuple(other for other in claims if other != claim)
                if self.rule != "bury":
                    ended = tuple(sorted({*ended, claim}))
                if isinstance(event.message, Back):
                    out.append(Send(Address(claim.node, "claimant"), Ok(claim)))
            case _:
                raise AssertionError(event)
        self.line = Line(claims, ended)
        if self.rule != "save":
            out.append(Save("line", self.line))
        return self._give(out)

    def _give(self, out: list[Effect]) -> list[Effect]:
        granted = self.line.claims if self.rule == "wait" else self.line.claims[:1]
        return out + [Send(Address(claim.node, "claimant"), Give(claim)) for claim in granted]

    def key(self) -> Hashable:
        return self.line

    def copy(self) -> Self:
        twin = type(self)(self.node, self.rule)
        twin.line = self.line
        return twin


class Customer:
    """One claim after the other; repeats what it has asked for until it is answered."""

    def __init__(self, node: str) -> None:
        self.node = node
        self.phases: dict[ClaimId, str] = {}

    def start(self) -> Sequence[Effect]:
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        self.phases = {
            kept.claim: kept.phase for kept in records.values() if isinstance(kept, Kept) and kept.phase
        }
        return [effect for claim in sorted(self.phases) for effect in self._ask(claim)]

    def handle(self, event: Event) -> Sequence[Effect]:
        effects = list(self._handled(event))
        claim = getattr(getattr(event, "message", None), "claim", None)
        if claim is not None:
            effects.append(Save(str(claim), Kept(claim, self.phases.get(claim, ""))))
        return effects

    def _handled(self, event: Event) -> Sequence[Effect]:
        if isinstance(event, TimerFired):
            return self._ask(next(claim for claim in self.phases if str(claim) == event.timer))
        claim: ClaimId = getattr(event.message, "claim")  # noqa: B009
        agent = Address(self.node, "agent")
        phase = self.phases.get(claim, "")
        match event.message:
            case Acquire():
                self.phases[claim] = "asked"
                return self._ask(claim)
            case Release() | LeaseLost() if phase in {"asked", "inside"}:
                self.phases[claim] = "ending"
                gone = [Send(agent, Gone(claim, "expired"))] if isinstance(event.message, LeaseLost) else []
                return [*gone, *self._ask(claim)]
            case Give() if phase == "asked":
                self.phases[claim] = "inside"
                grant = Granted(claim, 1, (UnitGrant("n0", "a", "0", 0),))
                return [CancelTimer(str(claim)), Send(agent, grant)]
            case Ok() if phase == "ending":
                del self.phases[claim]
                return [CancelTimer(str(claim)), Send(agent, Ended(claim))]
            case _:
                return []

    def _ask(self, claim: ClaimId) -> Sequence[Effect]:
        phase = self.phases.get(claim, "")
        if phase not in {"asked", "ending"}:
            return []
        message = Ask(claim) if phase == "asked" else Back(claim)
        return [Send(Address("n0", "server"), message), SetTimer(str(claim), 1000)]

    def key(self) -> Hashable:
        return tuple(sorted(self.phases.items()))

    def copy(self) -> Self:
        twin = type(self)(self.node)
        twin.phases = dict(self.phases)
        return twin


class LockServer:
    """The closed system of one server and its customers."""

    def __init__(self, world: World, rule: str = "") -> None:
        self.world = world
        self.rule = rule

    def hosts(self) -> tuple[str, ...]:
        return (*self.world.nodes(), *self.world.claimants())

    def build(self, host: str) -> Host:
        if host in self.world.nodes():
            return Host(host, {"server": Server(host, self.rule)})
        return Host(host, {"claimant": Customer(host)})

    def renewed(self, hosts: Mapping[str, Host], claim: ClaimId) -> bool:
        for host in hosts.values():
            server = host.parts.get("server")
            if isinstance(server, Server):
                if claim in server.line.claims:
                    return False
                ended = tuple(other for other in server.line.ended if other != claim)
                server.line = Line(server.line.claims, ended)
        return True

    def boot(self, kind: str, epoch: int) -> Boot:
        return Boot(kind, epoch, 2)

    def facts(self, host: Host) -> Hashable:
        server = host.parts.get("server")
        return server.line.claims if isinstance(server, Server) else None

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        return ""

    def wrong_between(self, facts: tuple[Hashable, ...]) -> str:
        return ""

    def idle(self, facts: Hashable) -> bool:
        return facts in {None, ()}

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]:
        return ()

    def command(self, host: str, command: ToClaimant) -> Arrival:
        return Arrival("claimant", Received(Address(host, "agent"), command))

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        return "repair"

    def placed(self, claim: ClaimId, number: int) -> ClaimId:
        return claim

    def attempt_of(self, host: Host, claim: ClaimId) -> int:
        customer = host.parts["claimant"]
        assert isinstance(customer, Customer)
        return 1 if customer.phases.get(claim) in {"asked", "inside"} else 0

    def has(self, facts: Hashable, lease: Lease) -> bool:
        assert isinstance(facts, tuple)
        return lease[1] in facts

    def is_past(self, facts: Hashable, lease: Lease) -> bool:
        return False

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        return False

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        return self.command(lease[1].node, LeaseLost(lease[1], "expired"))

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        """Nobody leaves here."""
        return None

    def lapse_at_node(self, lease: Lease) -> Arrival:
        return Arrival("server", Received(Address(lease[0], "book"), LeaseLost(lease[1], "expired")))
