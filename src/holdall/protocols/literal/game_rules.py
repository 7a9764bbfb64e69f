"""Which repairs of the game of tasks are on; by default section 3 as printed. Lab only."""

from typing import Literal

import msgspec


class GameRules(msgspec.Struct, frozen=True):
    """One flag for each repair; the names in brackets are the rows of the game specification."""

    complete: bool = True
    """The complete variant with order forms; False: the restricted one, which has none."""
    registering: Literal["printed", "sent", "seen"] = "printed"
    """When a task is admitted (G10). printed: sending a registration form leaves Destinations as it is, so never.
    sent: all forms are sent and no predecessor is known. seen: a view of every pool shows the registration."""
    prefix: bool = False
    """Order and win only with all requests within the accessible prefix, lower priorities ahead included (G1)."""
    marks_seen: bool = False
    """Win only when the own order forms are seen at all pools, not when they are sent (G2)."""
    attempts: bool = False
    """Requests carry the number of the try, and only those of the present one count (G4)."""
    numbered_forms: bool = False
    """A manager ignores a form that is older than the newest of the task (G5)."""
    numbered_views: bool = False
    """A task ignores a view that is older than the newest of the pool (G6)."""
    retries: bool = False
    """Any withdrawal leads back to TRYING; printed: a task that withdraws in ORDERING stays there (G7)."""
    clears: Literal["never", "released", "booked"] = "never"
    """When the forms of a task that has won are removed (G11). never: as in section 3; released: with its
    registration; booked: as its resource is booked, so that it is not counted twice (G13)."""
    withdraws: bool = False
    """Withdraw where something was sent; printed: only where nothing was sent yet (G12)."""
    orders_need_requests: bool = False
    """An order form without its request is ignored (G14)."""
    changes_only: bool = False
    """A manager broadcasts only when a form has changed something; printed: after every form."""
    alarm: bool = False
    """Tasks that wait behind unmarked requests set their alarm-clock and advance (with G8's condition)."""
