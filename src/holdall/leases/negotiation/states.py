"""The life of one negotiated lease as a table: state and event to the next state. All else is illegal.

The host's manager runs it, the documentation draws it, and a test tries every pair. A lease that drains remembers the
terminal state that follows, its ending. Source: lease negotiation, section 4.5.
"""

from typing import Literal, TypeAlias, get_args

import msgspec

from holdall.model.terms import LeaseState

Occurrence: TypeAlias = Literal[
    "select",
    "cancel",
    "hold_lapse",
    "withdraw",
    "confirm",
    "decline",
    "offer_lapse",
    "renew",
    "release",
    "expire",
    "revoke",
    "finish",
]

STATES: tuple[LeaseState, ...] = get_args(LeaseState)
OCCURRENCES: tuple[Occurrence, ...] = get_args(Occurrence)
TERMINAL = frozenset[LeaseState](("withdrawn", "declined", "lapsed", "released", "expired", "revoked"))
"""Nothing is held any more, and nothing will be again; kept for status."""
OPEN = frozenset[LeaseState](("proposed", "offered"))
"""A hold: set aside, promised for a short time, not yet a lease."""


class Row(msgspec.Struct, frozen=True):
    """One legal transition."""

    state: LeaseState
    occurrence: Occurrence
    next: LeaseState
    note: str = ""
    ending: LeaseState | None = None
    """Of a transition to `draining`: what follows it."""


ROWS: tuple[Row, ...] = (
    Row("proposed", "select", "offered", "the location has chosen this host"),
    Row("proposed", "cancel", "withdrawn", "another host was chosen; free at once"),
    Row("proposed", "hold_lapse", "withdrawn", "nobody chose in time; free at once"),
    Row("proposed", "withdraw", "withdrawn", "the host leaves, or the lease to be replaced is over"),
    Row("offered", "confirm", "active", "accepted in time; its time runs from the host's journal"),
    Row("offered", "decline", "declined", "the agent does not want it"),
    Row(
        "offered",
        "offer_lapse",
        "lapsed",
        "not accepted in time; an acceptance that comes later grants nothing",
    ),
    Row("offered", "withdraw", "withdrawn", "the host leaves, or the lease to be replaced is over"),
    Row("active", "renew", "active", "revision + 1, the same fence; amounts may change"),
    Row("active", "release", "draining", "given back", "released"),
    Row("active", "expire", "draining", "not renewed in time; new use is denied at once", "expired"),
    Row("active", "revoke", "draining", "by policy, drain or operator, after the grace", "revoked"),
    Row("draining", "finish", "released", "work is done or has lingered; was given back"),
    Row("draining", "finish", "expired", "likewise; was not renewed"),
    Row("draining", "finish", "revoked", "likewise; was revoked"),
)
"""`draining` has three rows for `finish`: the ending says which one counts."""

_NEXT: dict[tuple[LeaseState, Occurrence], Row] = {
    (row.state, row.occurrence): row for row in ROWS if row.state != "draining"
}


class IllegalTransition(ValueError):
    """No such transition; nothing was changed."""


def is_legal(state: LeaseState, occurrence: Occurrence) -> bool:
    """Whether the table has a row for the two."""
    return (state, occurrence) in _NEXT or (state == "draining" and occurrence == "finish")


def following(
    state: LeaseState, ending: LeaseState | None, occurrence: Occurrence
) -> tuple[LeaseState, LeaseState | None]:
    """The next state and ending. Raises IllegalTransition."""
    if state == "draining" and occurrence == "finish" and ending is not None:
        return ending, None
    row = _NEXT.get((state, occurrence))
    if row is None:
        raise IllegalTransition(f"a lease that is {state} can't {occurrence.replace('_', ' ')}")
    return row.next, row.ending
