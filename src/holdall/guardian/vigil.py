"""When a command must be stopped, and how hard: the guardian's decisions, without clock, signals or sockets.

Moments are CLOCK_BOOTTIME in milliseconds. The command gets TERM one grace before the lease runs out and KILL when it
does; a command that is stopped earlier gets its whole grace, if the lease lasts that long. What runs out first
counts: the renewed deadline, or the hard end (`for`).
"""

import enum

from holdall.guardian.grace import negotiated_grace_ms
from holdall.model.terms import BEFORE_END_SHARE


class Reason(enum.StrEnum):
    """Why a guardian ends a command."""

    NOT_RENEWED = "not-renewed"
    """The deadline came near and no renewal was confirmed."""
    FOR_OVER = "for-over"
    STAY_OVER = "stay-over"
    """It may run no longer than this, whatever the lease allows."""
    OVER_LIMIT = "over-limit"
    """It uses more than it may, and nobody but the guardian keeps it from that."""
    REVOKED = "revoked"
    LEASE_GONE = "lease-gone"
    """The node does not know the lease as ours any more."""
    WRAPPER_GONE = "wrapper-gone"
    WRAPPER_SILENT = "wrapper-silent"
    ASKED = "asked"
    LEFTOVER = "leftover"
    """The command itself has ended; processes that it started have not."""


LOSSES = frozenset({Reason.NOT_RENEWED, Reason.FOR_OVER, Reason.STAY_OVER, Reason.REVOKED, Reason.LEASE_GONE})
"""The reasons for which the lease itself is over."""


class Act(enum.Enum):
    """What to do to the command's processes now."""

    WARN = enum.auto()
    """What is to be done before the end."""
    TERM = enum.auto()
    KILL = enum.auto()


class Vigil:
    """Deadlines of one command. Ask `act` whenever something happened and at `wake_ms`."""

    def __init__(
        self,
        *,
        deadline_ms: int | None,
        hard_end_ms: int | None,
        grace_ms: int,
        warn_ms: int | None = None,
        warn_renewed_ms: int | None = None,
    ) -> None:
        """`warn_ms`: how long before TERM something is to be done, where the end is one that is known before; None: nothing.

        `warn_renewed_ms`: the same where the end is the deadline, which renewals move on.
        """
        self.deadline_ms = deadline_ms
        self.hard_end_ms = hard_end_ms
        self.grace_ms = grace_ms
        self.reason: Reason | None = None
        self.kill_at_ms: int | None = None
        self.killing = False
        self.stay_end_ms: int | None = None
        """When the command has run for as long as it may."""
        self._warn_ms, self._warn_renewed_ms = warn_ms, warn_renewed_ms
        self._warned_of: int | None = None
        """The end of which it has been warned."""
        self._warned_deadline_ms: int | None = None
        """The same of a deadline. How late an answer comes differs by a little, and so does the deadline: that is no other end."""
        self.running = True
        """False before the command has been started: then nothing needs time to stop."""
        self._term_due = False

    @property
    def end_ms(self) -> int | None:
        """When the units may go to somebody else at the earliest, seen from here; None: no end is known."""
        ends = [end for end in (self.deadline_ms, self.hard_end_ms, self.stay_end_ms) if end is not None]
        return min(ends) if ends else None

    def renew(self, *, deadline_ms: int, hard_end_ms: int | None) -> None:
        """A renewal was confirmed. It saves no command that is being stopped already.

        An answer that came late may count less than was confirmed before; what was confirmed holds.
        """
        self.deadline_ms = deadline_ms if self.deadline_ms is None else max(self.deadline_ms, deadline_ms)
        self.hard_end_ms = hard_end_ms

    def shorten(self, duration_ms: int) -> None:
        """The lease lives for no longer than this by now, whatever was confirmed before; `renew` tells until when."""
        self.deadline_ms = None
        self.grace_ms = min(self.grace_ms, negotiated_grace_ms(duration_ms))
        if self._warn_renewed_ms is not None:
            self._warn_renewed_ms = min(self._warn_renewed_ms, duration_ms // BEFORE_END_SHARE)

    def stop(self, reason: Reason, now_ms: int) -> bool:
        """Begin to end the command. False when that had begun before: the first reason stays."""
        if self.reason is not None:
            return False
        self.reason = reason
        self._term_due = True
        last = now_ms + self.grace_ms
        end = self.end_ms
        self.kill_at_ms = last if end is None else min(last, end)
        return True

    def act(self, now_ms: int) -> Act | None:
        """What is due now. KILL comes again at every call until nobody is left: forks can outrun one."""
        end = self.end_ms
        if self.reason is None and end is not None and now_ms >= end - self._lead_ms:
            self.stop(self._reason_of(end), now_ms)
        if self.kill_at_ms is not None and now_ms >= self.kill_at_ms:
            self.killing = True
            self._term_due = False
            return Act.KILL
        if self._term_due:
            self._term_due = False
            return Act.TERM
        warn_ms = self._warn_at_ms()
        if self.reason is None and warn_ms is not None and now_ms >= warn_ms:
            self._warned(now_ms)
            return Act.WARN
        return None

    def wake_ms(self) -> int | None:
        """The next moment at which `act` may have something to say."""
        if self.kill_at_ms is not None:
            return self.kill_at_ms
        end = self.end_ms
        if end is None:
            return None
        warn_ms = self._warn_at_ms()
        return end - self._lead_ms if warn_ms is None else min(warn_ms, end - self._lead_ms)

    def leaves_time(self, now_ms: int) -> bool:
        """Whether a command that is started now would not have to be stopped at once."""
        return self.reason is None and (self.end_ms is None or now_ms < self.end_ms - self.grace_ms)

    def _reason_of(self, end: int) -> Reason:
        if end == self.hard_end_ms:
            return Reason.FOR_OVER
        return Reason.STAY_OVER if end == self.stay_end_ms else Reason.NOT_RENEWED

    def _fixed_end_ms(self) -> int | None:
        """The end that no renewal moves on."""
        return min((end for end in (self.hard_end_ms, self.stay_end_ms) if end is not None), default=None)

    def _warn_at_ms(self) -> int | None:
        """None: nothing is to be done before an end, or it has been done, or there is no end that is known before."""
        moments = [one for one in (self._warn_fixed_at_ms(), self._warn_deadline_at_ms()) if one is not None]
        return min(moments, default=None) if self.running else None

    def _warn_fixed_at_ms(self) -> int | None:
        fixed = self._fixed_end_ms()
        if self._warn_ms is None or fixed is None or self._warned_of == fixed:
            return None
        return fixed - self.grace_ms - self._warn_ms

    def _warn_deadline_at_ms(self) -> int | None:
        end, lead_ms, warned_ms = self.deadline_ms, self._warn_renewed_ms, self._warned_deadline_ms
        if end is None or lead_ms is None or (warned_ms is not None and end < warned_ms + lead_ms):
            return None
        return end - self.grace_ms - lead_ms

    def _warned(self, now_ms: int) -> None:
        fixed_at_ms, deadline_at_ms = self._warn_fixed_at_ms(), self._warn_deadline_at_ms()
        if fixed_at_ms is not None and now_ms >= fixed_at_ms:
            self._warned_of = self._fixed_end_ms()
        if deadline_at_ms is not None and now_ms >= deadline_at_ms:
            self._warned_deadline_ms = self.deadline_ms

    @property
    def _lead_ms(self) -> int:
        return self.grace_ms if self.running else 0


class Silence:
    """How long the wrapper has said nothing, on a clock that stands still while the machine sleeps."""

    def __init__(self, *, limit_ms: int, now_ms: int) -> None:
        self.limit_ms = limit_ms
        self.excused = False
        """An announced suspension (job control): silence means nothing."""
        self._heard_ms = now_ms

    def heard(self, now_ms: int) -> None:
        self._heard_ms = now_ms

    def too_long(self, now_ms: int) -> bool:
        return not self.excused and now_ms - self._heard_ms >= self.limit_ms
