"""Renewal between hosts of a run with faults: a holder's deadline always lies before the manager's.

Each claimant's host sends `Alive` to the nodes of its claims every third of the ttl. The answer moves the deadline
of all claims there to `ttl (1 - rho) - margin` after that Alive was *sent*; at the deadline the claim is lost as a whole.
A node that lacks a claim which its claimant holds says so, and ends what the claimant no longer lists. Source: common specification, 1.2 (alive, standing), and
chain specification, section 7.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Self, TypeAlias

import msgspec

from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    Effect,
    Event,
    Forget,
    Message,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
)

USER = "user"
"""Part of a claimant's host that is played by the run: the client."""
MANAGER = "manager"
DEADLINE = "deadline/"
COUNTS_MAX = 1_000_000_000
"""Counts of one process start stay below it."""
RHO = 0.02
MARGIN_SHARE = 0.02
"""Part of the ttl that a holder stops early, beside the difference of clocks."""


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Host of a claimant to the manager of a node: I live, and these are my claims that may be at yours."""

    count: int
    inside: tuple[ClaimId, ...]
    """Those that are granted,"""
    others: tuple[ClaimId, ...]
    """and those that are not."""
    newest: ClaimId | None
    """Claims of this host up to it that are not listed are over (it may not have known later ones when it wrote)."""


class AliveOk(msgspec.Struct, frozen=True, tag="alive_ok"):
    """The answer: which of the claims named are here, and which are not."""

    count: int
    inside: tuple[ClaimId, ...]
    missing: tuple[ClaimId, ...]


class Renewed(msgspec.Struct, frozen=True, tag="renewed"):
    """Record of one claim: the nodes that it is renewed at, and what the client was told."""

    claim: ClaimId
    nodes: tuple[str, ...]
    granted: Granted | None = None


RenewalMessage: TypeAlias = Alive | AliveOk


class Renewals:
    """The agent of a claimant's host, as far as a lease's life is concerned; all else it passes on."""

    def __init__(self, node: str, ttl_ms: int) -> None:
        self.node = node
        self._every_ms = max(1, ttl_ms // 3)
        self._lasts_ms = int(ttl_ms * (1 - RHO - MARGIN_SHARE))
        self._user = Address(node, USER)
        self._claimant = Address(node, "claimant")
        self._claims: dict[ClaimId, Renewed] = {}
        self._count = 0
        self._newest: ClaimId | None = None
        self._base: dict[str, int] = {}
        """Per node of a claim: the last count that it has answered, or the one of the first message to it."""
        self._unconfirmed: dict[ClaimId, frozenset[str]] = {}
        """After a restart: the nodes that have yet to say that they still have the claim."""

    def start(self) -> Sequence[Effect]:
        """Nothing to renew."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Leases of before count only when all their nodes say so; then the client is told again."""
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"records[{BOOT_KEY!r}] is no Boot")
        self._count = boot.incarnation * COUNTS_MAX  # so that answers to counts of before tell nothing
        for record in records.values():
            if isinstance(record, Renewed):
                self._claims[record.claim] = record
                self._newest = max(self._newest or record.claim, record.claim)
                if record.granted is not None:
                    self._unconfirmed[record.claim] = frozenset(record.nodes)
        for claim in sorted(self._claims):
            for node in self._claims[claim].nodes:
                self._base[node] = self._count + 1
        return self._renew() if self._claims else ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """A command of the client, word of the claimant, an answer, or a timer."""
        match event:
            case Received(sender, message) if sender == self._user:
                return [*self._begin(message), Send(self._claimant, message)]
            case Received(sender, AliveOk() as answer):
                return self._answered(sender.node, answer)
            case Received(_, message):
                return self._said(message)
            case TimerFired("alive"):
                return self._renew() if self._claims else ()
            case TimerFired(timer):
                return self._deadline(int(timer.partition("/")[2]))

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            tuple(self._claims[claim] for claim in sorted(self._claims)),
            tuple(sorted(self._base.items())),
            tuple((claim, tuple(sorted(self._unconfirmed[claim]))) for claim in sorted(self._unconfirmed)),
            self._count,
            self._newest,
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._claims, twin._base, twin._unconfirmed = (
            dict(self._claims),
            dict(self._base),
            dict(self._unconfirmed),
        )
        return twin

    def _begin(self, message: Message) -> list[Effect]:
        if not isinstance(message, Acquire):
            return []
        nodes = tuple(sorted({visit.node for visit in message.need}))
        out: list[Effect] = [] if self._claims else [SetTimer("alive", self._every_ms)]
        self._mark((node for node in nodes if node not in self._base), out)
        self._newest = message.claim if self._newest is None else max(self._newest, message.claim)
        self._put(Renewed(message.claim, nodes), out)
        return out

    def _said(self, message: Message) -> list[Effect]:
        out: list[Effect] = []
        match message:
            case Granted(claim) if claim in self._claims:
                self._put(msgspec.structs.replace(self._claims[claim], granted=message), out)
            case Gone(claim) | NotNow(claim) | Ended(claim):
                self._unconfirmed.pop(claim, None)
                if self._claims.pop(claim, None) is not None:
                    out.append(Forget(f"renewed/{claim}"))
                    nodes = {node for record in self._claims.values() for node in record.nodes}
                    self._base = {node: count for node, count in self._base.items() if node in nodes}
            case _:
                pass
        out.append(Send(self._user, message))
        return out

    def _renew(self) -> list[Effect]:
        listed: dict[str, tuple[list[ClaimId], list[ClaimId]]] = {}
        for claim in sorted(self._claims):
            record = self._claims[claim]
            for node in record.nodes:
                inside, others = listed.setdefault(node, ([], []))
                (others if record.granted is None else inside).append(claim)
        out: list[Effect] = [SetTimer("alive", self._every_ms)]
        self._mark((), out)
        for node in sorted(listed):
            inside, others = listed[node]
            alive = Alive(self._count, tuple(inside), tuple(others), self._newest)
            out.append(Send(Address(node, MANAGER), alive))
        return out

    def _answered(self, node: str, answer: AliveOk) -> list[Effect]:
        out: list[Effect] = []
        if node in self._base:
            self._base[node] = max(self._base[node], answer.count)
        out += [
            Send(self._claimant, LeaseLost(claim, "restarted"))
            for claim in answer.missing
            if claim in self._claims and self._claims[claim].granted is not None
        ]
        for claim in answer.inside:
            left = self._unconfirmed.get(claim, frozenset()) - {node}
            if claim not in self._unconfirmed:
                continue
            self._unconfirmed[claim] = left
            granted = self._claims[claim].granted
            if not left and granted is not None:
                del self._unconfirmed[claim]
                out.append(Send(self._user, granted))
        return out

    def _deadline(self, count: int) -> list[Effect]:
        """So long ago this count was sent: nodes that have answered none since are lost, with all claims there.

        Those of the claims that still wait come again now, so from now on the node's time counts.
        """
        out: list[Effect] = []
        silent = sorted(node for node, base in self._base.items() if base <= count)
        if silent:
            self._mark(silent, out)
            out += [
                Send(self._claimant, LeaseLost(claim, "expired"))
                for claim in sorted(self._claims)
                if not set(silent).isdisjoint(self._claims[claim].nodes)
            ]
        return out

    def _mark(self, nodes: Iterable[str], out: list[Effect]) -> None:
        """Another count, from which on the time of these nodes runs."""
        self._count += 1
        for node in nodes:
            self._base[node] = self._count
        out.append(SetTimer(f"{DEADLINE}{self._count}", self._lasts_ms))

    def _put(self, record: Renewed, out: list[Effect]) -> None:
        self._claims[record.claim] = record
        out.append(Save(f"renewed/{record.claim}", record))
