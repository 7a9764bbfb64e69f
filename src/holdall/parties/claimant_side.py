"""A claimant and the renewal of its claims at other nodes as one machine: the holder stops in time by itself.

What the claimant saves tells which claims there are, in which phase and at which nodes; what renewal finds to be
lost is told to the claimant as `LeaseLost`.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Self

from holdall.leases.holder import DEADLINE_TIMER
from holdall.leases.renewal import RENEW_TIMER, AliveOk, Compared, Entry, Renewals
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    Effect,
    Event,
    Forget,
    Received,
    Record,
    Save,
    TimerFired,
)
from holdall.protocols.chain.attempts import CLAIM_KEY
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Ending, Inside, Trying, Waiting, family_of
from holdall.protocols.chain.rows import claim_named
from holdall.protocols.vocabulary import ClaimId, LeaseLost


class ClaimantSide:
    """The machine `claimant` of a node whose claims may go to other nodes."""

    def __init__(
        self, claimant: Claimant, *, rho_ppm: int = 20_000, margin_ms: int = 500, incarnation: int = 1
    ) -> None:
        self.claimant = claimant
        self.renewals = Renewals(claimant.node, rho_ppm=rho_ppm, margin_ms=margin_ms, incarnation=incarnation)

    def start(self) -> list[Effect]:
        """Nothing is under way."""
        return list(self.claimant.start())

    def handle(self, event: Event) -> list[Effect]:
        """One event for the claimant or for renewal."""
        out: list[Effect] = []
        match event:
            case TimerFired(timer) if timer.startswith((RENEW_TIMER, DEADLINE_TIMER)):
                self._lose(self.renewals.fired(timer, out), out)
            case Received(sender, AliveOk() | Compared() as answer):
                self._lose(self.renewals.heard(sender.node, answer, out), out)
            case _:
                out += self.claimant.handle(event)
                self._note(out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """Claims go on; granted ones count only when all their nodes have said that they still know them."""
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"records[{BOOT_KEY!r}] is no Boot")
        own = self.claimant
        out = list(own.recover(records))
        self.renewals = self.renewals.anew(boot.incarnation)
        for claim in sorted(own.claims):
            self._knows(own.claims[claim], out, recovered=True)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.claimant.key(), self.renewals.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.claimant = self.claimant.copy()
        twin.renewals = self.renewals.copy()
        return twin

    def _lose(self, lost: Iterable[tuple[ClaimId, str]], out: list[Effect]) -> None:
        sender = Address(self.claimant.node, "holder")
        for claim, reason in lost:
            phase = self.claimant.claims.get(claim)
            if phase is not None:
                # A companion's units are part of the lease that it was exchanged for.
                owner = family_of(phase.plan.companion_of or claim)
                out += self.claimant.handle(Received(sender, LeaseLost(owner, reason)))
        self._note(out)

    def _note(self, out: list[Effect]) -> None:
        for effect in tuple(out):
            match effect:
                case Save(_, Trying() | Waiting() | Inside() | Ending() as phase):
                    self._knows(phase, out)
                case Forget(key) if key.startswith(CLAIM_KEY):
                    self.renewals.over(claim_named(key.removeprefix(CLAIM_KEY)), out)
                case _:
                    pass

    def _knows(
        self, phase: Trying | Waiting | Inside | Ending, out: list[Effect], *, recovered: bool = False
    ) -> None:
        if isinstance(phase, Ending):
            # Not listed any more: a node that missed the Done ends it for that.
            self.renewals.over(phase.claim, out)
            return
        entry = Entry(phase.claim, phase.attempt, isinstance(phase, Inside))
        terms = phase.plan.terms
        self.renewals.knows(entry, ttl_ms=terms.ttl_ms, nodes=phase.plan.nodes, out=out, recovered=recovered)
