"""Which proposal is closest to a request: exact fractions, compared in a fixed order; the smallest wins.

1. a proposal without a function that is asked for, or below a floor, is invalid;
2. shortfall: per amount the part of it that is missing, times its weight; 3. excess, of terms marked `exact`;
4. the rank that the location's policy gives the host; 5. what is left on the host, the larger part first; 6. its name.
Source: lease negotiation, section 5.
"""

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import TypeAlias

import msgspec

from holdall.model.terms import RequestedTerm, Value, weight_of


class Distance(msgspec.Struct, frozen=True, order=True):
    """How far a proposal is from the request; fields in the order of their importance."""

    shortfall: Fraction
    excess: Fraction
    rank: int
    used: Fraction
    """1 minus the part that is left."""
    host: str


class Proposed(msgspec.Struct, frozen=True):
    """What one host would give."""

    host: str
    terms: Mapping[str, Value]
    rank: int = 0
    left: Fraction = Fraction(1)
    """The least part, over what is asked of its capacities and pools, that is left after the grant."""


Request: TypeAlias = Mapping[str, RequestedTerm]
"""Term -> what is asked, amounts in base units."""


def is_amount(value: Value | None) -> bool:
    """Whether it can be more or less: no function."""
    return isinstance(value, int) and not isinstance(value, bool)


def unmet(request: Request, proposal: Mapping[str, Value]) -> tuple[str, ...]:
    """The terms that make a proposal invalid, in order: functions that don't match, amounts missing or below a floor."""
    return tuple(name for name in sorted(request) if not _is_met(request[name], proposal.get(name)))


def distance(request: Request, proposed: Proposed) -> Distance | None:
    """None when the proposal is invalid."""
    if unmet(request, proposed.terms):
        return None
    shortfall = excess = Fraction(0)
    for name, term in request.items():
        given = proposed.terms[name]
        asked = term.amount
        if not (isinstance(asked, int) and isinstance(given, int)) or isinstance(asked, bool):
            continue
        weight = weight_of(term, where=name)
        missing = Fraction(asked - given, asked) if term.prefer == "high" else Fraction(given - asked, given)
        shortfall += weight * max(Fraction(0), missing)
        if term.exact:
            excess += weight * max(Fraction(0), Fraction(given - asked, asked))
    return Distance(shortfall, excess, proposed.rank, 1 - proposed.left, proposed.host)


def closest(request: Request, proposals: Iterable[Proposed]) -> Proposed | None:
    """The proposal to take; None when none is valid. The order in which they came does not matter."""
    best: tuple[Distance, Proposed] | None = None
    for proposed in proposals:
        found = distance(request, proposed)
        if found is not None and (best is None or found < best[0]):
            best = found, proposed
    return None if best is None else best[1]


def _is_met(term: RequestedTerm, given: Value | None) -> bool:
    if not is_amount(term.amount):
        # True == 1, and a function is not there because one unit is.
        return type(given) is type(term.amount) and given == term.amount
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        return False
    return term.floor is None or given >= term.floor
