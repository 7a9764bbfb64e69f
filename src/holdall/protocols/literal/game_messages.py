"""The forms of the game of tasks as printed, and the information that managers broadcast. Lab only.

Not printed: `attempt`, `number` and `version`. They stay 0 unless the repair that needs them is on.
"""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC
from holdall.protocols.vocabulary import ClaimId

MANAGER = "manager"
TASK = "claimant"


class Form(msgspec.Struct, frozen=True):
    """What all forms carry: the task that sends it, its ticket, and the repairs' numbers."""

    claim: ClaimId
    ticket: int
    attempt: int = 0
    """Which of the task's tries it belongs to (repair "attempts")."""
    number: int = 0
    """Of the task's forms to this manager (repair "numbered forms")."""


class Registration(Form, frozen=True, tag="registration"):
    """Registration form: from now on the task is told of every change."""


class Admission(Form, frozen=True, tag="admission"):
    """Admission form: the task is in the competition phase."""


class Ask(Form, frozen=True, tag="request"):
    """Request of accessing a resource."""


class Order(Form, frozen=True, tag="order"):
    """Order form: consider the task a potential winner."""


class Advance(Form, frozen=True, tag="advance"):
    """Advancing form: transpose the task's request with the one before it."""


class Withdrawal(Form, frozen=True, tag="withdrawal"):
    """Withdrawal of a request and its order form."""


class Winning(Form, frozen=True, tag="winning"):
    """Winning form: book a resource."""


class Releasing(Form, frozen=True, tag="releasing"):
    """Releasing form: the resource is free again."""


class Asked(msgspec.Struct, frozen=True, order=True):
    """One request in a queue."""

    claim: ClaimId
    ticket: int
    attempt: int = 0


class View(msgspec.Struct, frozen=True, tag="view"):
    """The information about a pool that its manager broadcasts to all registered tasks."""

    registered: tuple[ClaimId, ...] = ()
    """Applications: registration forms present."""
    admitted: tuple[ClaimId, ...] = ()
    """Admissions."""
    requests: tuple[Asked, ...] = ()
    """The queue of requests."""
    ordered: tuple[ClaimId, ...] = ()
    """Tasks with an order form."""
    users: tuple[ClaimId, ...] = ()
    """InUse, as the tasks that use a resource."""
    version: int = 0
    """Grows with each broadcast (repair "numbered views")."""


ToManager: TypeAlias = Registration | Admission | Ask | Order | Advance | Withdrawal | Winning | Releasing

CODEC.register("literal game", ToManager | View)
