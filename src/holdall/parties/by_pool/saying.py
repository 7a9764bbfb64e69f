"""Who may say what under a protocol by pool: what no correct node could send from there is refused before it changes anything.

The sender's node is the bus's word, its part and the message are the peer's. A node speaks only for its own claims;
what managers tell each other is checked by the protocol itself.
"""

from typing import Any

import msgspec

from holdall.machine.contract import Address, ProtocolViolation
from holdall.model.names import POOLS_MAX
from holdall.protocols.by_pool.claim import ClaimRecord
from holdall.protocols.vocabulary import ALL, ClaimId, Terms

FOR_MAX_MS = 1 << 50
_FIELDS: dict[type[msgspec.Struct], frozenset[str]] = {}


def _refuse(sender: Address, message: object, why: str) -> ProtocolViolation:
    return ProtocolViolation(f"{type(message).__name__} from {sender}: {why}")


def check_to_manager(sender: Address, message: Any, *, between: bool, ttl_max_ms: int | None) -> None:
    """`between`: a message that managers send each other. Raises ProtocolViolation."""
    says = _fields_of(message.__class__)
    if "claim" in says:
        claim: ClaimId = message.claim
        if not between and sender.node != claim.node:
            raise _refuse(sender, message, f"only {claim.node} speaks for {claim}")
    if "attempt" in says and message.attempt < 1:
        raise _refuse(sender, message, "attempts count from 1")
    if "place" in says and not 0 <= message.place < POOLS_MAX:
        raise _refuse(sender, message, f"places count from 0 to {POOLS_MAX - 1}")
    if "units" in says and isinstance(message.units, int) and message.units < 1 and message.units != ALL:
        raise _refuse(sender, message, "at least one unit of a pool")
    if "for_ms" in says and not 1 <= message.for_ms <= FOR_MAX_MS:
        raise _refuse(sender, message, f"a hard end after {message.for_ms} ms")
    if "terms" in says and isinstance(message.terms, Terms):
        _check_terms(sender, message, message.terms, ttl_max_ms)


def _fields_of(kind: type[msgspec.Struct]) -> frozenset[str]:
    """What messages of a kind say: a closed union has few kinds, and each message is looked at."""
    known = _FIELDS.get(kind)
    if known is None:
        known = _FIELDS[kind] = frozenset(kind.__struct_fields__)
    return known


def _check_terms(sender: Address, message: object, terms: Terms, ttl_max_ms: int | None) -> None:
    most = FOR_MAX_MS if ttl_max_ms is None else ttl_max_ms
    if not 1 <= terms.ttl_ms <= most:
        # A longer one could outlive the quarantine after a loss of the journal.
        raise _refuse(sender, message, f"ttl {terms.ttl_ms} ms; at most {most} ms here")
    if terms.for_ms is not None and not 1 <= terms.for_ms <= FOR_MAX_MS:
        raise _refuse(sender, message, f"a hard end after {terms.for_ms} ms")


def check_to_claimant(node: str, sender: Address, message: Any, record: ClaimRecord | None) -> None:
    """`record`: the claim as it is known here; an answer about one that is over is late, not wrong.

    Raises ProtocolViolation.
    """
    claim: ClaimId | None = getattr(message, "claim", None)
    if claim is not None and claim.node != node:
        raise _refuse(sender, message, f"{claim} is another node's claim")
    if record is None:
        return
    places = record.places
    if sender.node not in {want.node for want in places}:
        raise _refuse(sender, message, f"{claim} was never asked for there")
    place: object = getattr(message, "place", None)
    if place is None:
        return
    if not isinstance(place, int):
        raise _refuse(sender, message, "a place is a number")
    if not 0 <= place < len(places):
        raise _refuse(sender, message, f"place {place} of {len(places)}")
    if places[place].node != sender.node:
        raise _refuse(sender, message, f"place {place} is at {places[place].node}")
