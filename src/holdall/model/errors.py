"""The errors of the public interface; each says what, the facts and the next step, and carries `.why` and `.definite`."""

from typing import ClassVar

from holdall.model.why import Why


class HoldallError(Exception):
    """Base of all errors of holdall.

    `why` is the structure behind `holdall why`, where there is one. `definite` is False when the thing may have
    happened all the same (no answer came).
    """

    code: ClassVar[str] = "error"
    exit_status: ClassVar[int] = 70

    def __init__(self, text: str, *, why: Why | None = None, definite: bool = True) -> None:
        super().__init__(text)
        self.text = text
        self.why = why
        self.definite = definite


class BadSpec(HoldallError, ValueError):
    """A request that can't be read, or has values outside their bounds."""

    code = "bad-spec"
    exit_status = 64


class NeverSatisfiable(HoldallError):
    """More than exists, or a pool that nobody has."""

    code = "never"
    exit_status = 65


class Unreachable(HoldallError, ConnectionError):
    """No node answers."""

    code = "unreachable"
    exit_status = 69


class NotGranted(HoldallError, TimeoutError):
    """Not granted within the wait, or not free now."""

    code = "not-granted"
    exit_status = 75


class WouldDeadlock(HoldallError):
    """A holder asked for more with waiting; it could wait for itself for ever."""

    code = "would-deadlock"
    exit_status = 75


class Refused(HoldallError, PermissionError):
    """Refused by policy, permission or a limit."""

    code = "refused"
    exit_status = 77


class NotHolder(HoldallError):
    """The key or lease is not one of yours, or it has ended."""

    code = "not-holder"
    exit_status = 77


class BadConfig(HoldallError, ValueError):
    """A configuration that can't be used."""

    code = "bad-config"
    exit_status = 78


class LeaseLost(HoldallError):
    """The lease ended before its holder gave it back."""

    code = "lost"
    exit_status = 79


BY_CODE: dict[str, type[HoldallError]] = {
    kind.code: kind
    for kind in (
        BadSpec,
        NeverSatisfiable,
        Unreachable,
        NotGranted,
        WouldDeadlock,
        Refused,
        NotHolder,
        BadConfig,
        LeaseLost,
        HoldallError,
    )
}
"""How an error that a node sends (`frames.Denied.code`) becomes an exception."""
