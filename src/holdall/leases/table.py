"""The leases of a book by claim and attempt, as they are saved."""

from collections.abc import Hashable

from holdall.leases.records import LEASE_PREFIX, LeaseRecord
from holdall.machine.contract import Forget, Save
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

RELEASED, REFUSED = "released", "refused"


class Leases(dict[tuple[ClaimId, int], LeaseRecord]):
    """(claim, attempt) -> its lease. Changes go through `keep` and `end`, so that they are saved."""

    def __init__(self) -> None:
        super().__init__()
        self._attempts: dict[ClaimId, list[int]] = {}

    def know(self, record: LeaseRecord) -> None:
        """The lease is there (and saved before)."""
        attempts = self._attempts.setdefault(record.claim, [])
        if record.attempt not in attempts:
            attempts.append(record.attempt)
        self[record.claim, record.attempt] = record

    def keep(self, record: LeaseRecord, out: Effects) -> None:
        """The lease is so from now on."""
        self.know(record)
        out.append(Save(f"{LEASE_PREFIX}{record.claim}/{record.attempt}", record))

    def end(self, record: LeaseRecord, out: Effects) -> None:
        """The lease is over, as it was said of it; one whose units could not be prepared never was its holder's."""
        why = record.ending or (REFUSED if record.failed else RELEASED)
        del self[record.claim, record.attempt]
        self._attempts[record.claim].remove(record.attempt)
        if not self._attempts[record.claim]:
            del self._attempts[record.claim]
        out.append(Forget(f"{LEASE_PREFIX}{record.claim}/{record.attempt}", why))

    def of_claim(self, claim: ClaimId) -> tuple[LeaseRecord, ...]:
        """The leases of all attempts of a claim, oldest first: one, except while an attempt follows another."""
        return tuple(self[claim, attempt] for attempt in self._attempts.get(claim, ()))

    def has(self, claim: ClaimId) -> bool:
        """Whether any attempt of the claim has a lease."""
        return claim in self._attempts

    def twin(self) -> "Leases":
        """An independent copy."""
        twin = Leases()
        twin.update(self)
        twin._attempts = {claim: list(attempts) for claim, attempts in self._attempts.items()}
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(self[party] for party in sorted(self))
