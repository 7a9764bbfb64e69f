"""What a protocol asks of the lease book, and the other way: order and counts here, unit ids and ends there.

Both sides are plain calls within a turn; effects are appended to the turn's list, so that a grant and its units
are one transaction. Source: vocabulary of the protocols, section 1.3.
"""

from collections.abc import Collection, Mapping
from typing import Protocol, TypeAlias

from holdall.machine.contract import Effect
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

Effects: TypeAlias = list[Effect]


def nobody_is_gone(node: str) -> bool:
    """For a claimant without a directory: no node has left the system for good."""
    del node
    return False


class Book(Protocol):
    """The lease book as a manager sees it."""

    def may_grant(self) -> bool:
        """False in quarantine."""
        ...

    def capacity(self, pool: str) -> int:
        """Units that the protocol may count with, held ones included; 0 for an unknown pool."""
        ...

    def set_aside(
        self, claim: ClaimId, attempt: int, counts: Mapping[str, int], terms: Terms, out: Effects
    ) -> tuple[UnitGrant, ...]:
        """Units for the claim (state booked, saved in this turn). The protocol has counted: it never fails."""
        ...

    def book(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """The whole claim is granted: from booked to active. Idempotent."""
        ...

    def give_back(
        self,
        claim: ClaimId,
        attempt: int,
        keep: Mapping[str, int],
        out: Effects,
        named: Collection[UnitGrant] = (),
    ) -> None:
        """Keep `keep` units of each pool and free the rest (all with an empty mapping).

        `named` says which units stay, where the holder chose; those of them that the claim has are kept first.
        Call it before evaluating again: a unit that can't be given again at once lowers `capacity` in this turn.
        """
        ...

    def extend(self, claim: ClaimId, attempt: int, for_ms: int, out: Effects) -> bool:
        """A new hard end, counted whole from the grant. False: a pool allows no end that late. Idempotent."""
        ...

    def units(self, claim: ClaimId, attempt: int) -> tuple[UnitGrant, ...]:
        """What the claim has here now."""
        ...


class PoolGuard(Protocol):
    """A manager as the lease book sees it."""

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """Units of these pools (none named: of any) have left or come back, or the quarantine is over: evaluate again."""
        ...

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """The claim's lease is over: remove it here, bury it, tell its claimant, evaluate again."""
        ...
