"""What the records of leases say is held: of pools' units by their book, of negotiated terms by the host's manager.

Units of a negotiated lease are a claim at their pools' book, which is where they are counted; so they are counted once.
Each kind of lease that a node comes to keep needs one reader here, and nothing else.
"""

from collections.abc import Callable, Mapping

from holdall.leases.messages import MANAGER
from holdall.leases.negotiation.records import LEASE_PREFIX as NEGOTIATED_PREFIX
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.records import LEASE_PREFIX, LeaseRecord
from holdall.machine.contract import Record
from holdall.machine.host import SEPARATOR
from holdall.model.names import pool_name, printed_id
from holdall.node.accounting.intervals import CHANGED, RENEWED, Held, Reader, Standing
from holdall.parties.location.messages import HOST

AffiliationOf = Callable[[str], str]
"""Id of the node of which somebody is a user -> his affiliation; empty: none is known."""
_AFFILIATION = "affiliation"


def readers(affiliation_of: AffiliationOf) -> Mapping[str, Reader]:
    """All of them, each by the beginning of its keys."""

    def of_book(record: Record | None) -> Standing:
        return book_standing(record, affiliation_of)

    return {
        f"{MANAGER}{SEPARATOR}{LEASE_PREFIX}": of_book,
        f"{HOST}{SEPARATOR}{NEGOTIATED_PREFIX}": negotiated_standing,
    }


def book_standing(record: Record | None, affiliation_of: AffiliationOf) -> Standing:
    """A lease of units counts while it is active; units that are only set aside are nobody's yet."""
    if not isinstance(record, LeaseRecord) or not record.active:
        return Standing()
    claim = record.claim
    lease, affiliation = printed_id(str(claim)), affiliation_of(claim.node)
    held = tuple(
        Held(
            lease,
            pool_name(grant.pool),
            "pool",
            record.terms.holder,
            affiliation,
            unit=grant.unit,
            fence=grant.fence,
            revision=record.terms.for_ms or 0,
        )
        for grant in record.units
    )
    return Standing(held)


def negotiated_standing(record: Record | None) -> Standing:
    """A negotiated lease counts until its last admitted work is done, as its grant does.

    While it lives its record is forgotten only when that of its renewal stands for it.
    """
    if record is None:
        return Standing(why=RENEWED)
    if not isinstance(record, HeldLease):
        return Standing()
    if record.state not in {"active", "draining"}:
        return Standing(why=record.state)
    affiliation = ",".join(value for name, value in record.asker.attributes if name == _AFFILIATION)
    held = tuple(
        Held(
            record.lease,
            term.name,
            term.kind,
            record.asker.holder,
            affiliation,
            amount=term.granted if isinstance(term.granted, int) else 1,
            fence=record.fence,
            revision=record.revision,
        )
        for term in record.terms
        if term.kind in {"capacity", "function"}
    )
    return Standing(held, replaced=CHANGED if record.was_split else RENEWED)
