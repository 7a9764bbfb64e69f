"""The table of a lease's life: every pair of state and event."""

import itertools

import pytest

from holdall.leases.negotiation.states import (
    OCCURRENCES,
    OPEN,
    ROWS,
    STATES,
    TERMINAL,
    IllegalTransition,
    Occurrence,
    following,
    is_legal,
)
from holdall.model.terms import LeaseState

EXPECTED: dict[tuple[LeaseState, Occurrence], tuple[LeaseState, LeaseState | None]] = {
    ("proposed", "select"): ("offered", None),
    ("proposed", "cancel"): ("withdrawn", None),
    ("proposed", "hold_lapse"): ("withdrawn", None),
    ("proposed", "withdraw"): ("withdrawn", None),
    ("offered", "confirm"): ("active", None),
    ("offered", "decline"): ("declined", None),
    ("offered", "offer_lapse"): ("lapsed", None),
    ("offered", "withdraw"): ("withdrawn", None),
    ("active", "renew"): ("active", None),
    ("active", "release"): ("draining", "released"),
    ("active", "expire"): ("draining", "expired"),
    ("active", "revoke"): ("draining", "revoked"),
}


@pytest.mark.parametrize(("state", "occurrence"), tuple(itertools.product(STATES, OCCURRENCES)))
def test_every_state_with_every_event(state: LeaseState, occurrence: Occurrence) -> None:
    if state == "draining" and occurrence == "finish":
        for ending in ("released", "expired", "revoked"):
            assert following(state, ending, occurrence) == (ending, None)
        return
    expected = EXPECTED.get((state, occurrence))
    assert is_legal(state, occurrence) == (expected is not None)
    if expected is None:
        with pytest.raises(IllegalTransition):
            following(state, None, occurrence)
    else:
        assert following(state, None, occurrence) == expected


def test_the_table_is_whole() -> None:
    assert len(STATES) * len(OCCURRENCES) == 120
    assert {row.state for row in ROWS} | TERMINAL == set(STATES)
    assert not {row.state for row in ROWS} & TERMINAL
    assert {row.occurrence for row in ROWS} == set(OCCURRENCES)
    assert {row.next for row in ROWS if row.state == "draining"} == {
        row.ending for row in ROWS if row.next == "draining"
    }
    assert not OPEN & TERMINAL


def test_a_draining_lease_without_an_ending_is_none() -> None:
    with pytest.raises(IllegalTransition):
        following("draining", None, "finish")
