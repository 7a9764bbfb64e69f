"""Which live leases a policy ends before their time, by rules that say `revoke`.

Leases are looked at from the oldest on, each with what the older ones have that stay: so a limit that was tightened ends the
youngest leases, and no more of them than it must. Source: lease negotiation, section 6.1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from holdall.leases.negotiation.interfaces import Asker, Holding, TermAsk
from holdall.model.terms import DURATION, TermStatus


@runtime_checkable
class Revokes(Protocol):
    """A policy that may end leases; one that has not this ends none."""

    def revoked_by(self, ask: TermAsk, holdings: Sequence[Holding]) -> str:
        """The rule that ends a live lease with so much of this term; empty: none does."""
        ...


class Live(msgspec.Struct, frozen=True):
    """A lease that lives. `age`: smaller is older."""

    lease: str
    age: int
    asker: Asker
    duration: int
    terms: tuple[TermStatus, ...]


def revoked(
    live: Iterable[Live], policy: object, capacity_of: Callable[[str], int | None]
) -> list[tuple[str, str]]:
    """(lease, rule) of those that a rule ends now."""
    if not isinstance(policy, Revokes):
        return []
    found: list[tuple[str, str]] = []
    holdings: list[Holding] = []
    for one in sorted(live, key=lambda one: (one.age, one.lease)):
        amounts = {status.name: status.granted for status in one.terms}
        asks = [
            TermAsk(one.asker, status.name, status.granted, one.duration, capacity_of(status.name), amounts)
            for status in one.terms
        ]
        asks.append(TermAsk(one.asker, DURATION, one.duration, one.duration, terms=amounts))
        rule = next(filter(None, (policy.revoked_by(ask, holdings) for ask in asks)), "")
        if rule:
            found.append((one.lease, rule))
        else:
            holdings += [Holding(one.asker, status.name, status.granted) for status in one.terms]
    return found
