"""One lease as this process has it: until when it may be used, and the news that it is over.

Moments are CLOCK_BOOTTIME in milliseconds. The deadline is checked at every use, so a process that was stopped for a
while learns of its loss from its own clock, before any message.
"""

import time
from collections.abc import Callable
from threading import RLock

from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import HoldallError, LeaseLost, NotHolder
from holdall.model.names import short_id

Clock = Callable[[], int]


class Tenure:
    """Made by a link when a claim is granted; changed by the link's thread, read by anybody.

    `key` is the secret that stands for the lease; `sent_ms` is when the request was sent from which `deadline_ms`
    counts. A *view* is a need that a lease of an outer scope covers already: it has that lease's life.
    """

    def __init__(
        self, granted: frames.Granted, sent_ms: int, *, lock: RLock, clock: Clock = boottime_ms
    ) -> None:
        self.key = granted.key
        self.lease = granted.lease
        self.view = granted.view
        self.outer: Tenure | None = None
        """For a view of a lease of this same process: that lease."""
        self.sent_ms = sent_ms
        self.born_ms = clock()
        """When this process heard of the lease."""
        self.deadline_ms: int = sent_ms + granted.valid_for_ms
        self.hard_end_ms: int | None = None
        self.released = False
        """Given back, or about to be: not a loss."""
        self.revoked = False
        """Taken away by somebody, who waits for our confirmation."""
        self.in_history = not granted.view
        """A history has no word for a part given back: after that it says nothing more of this lease."""
        self.node_away_since_unix: float | None = None
        self.not_let_in = ""
        """Why its node, which is there, refuses the connection."""
        self._set_hard_end(granted.for_left_ms)
        self._lost: LeaseLost | None = None
        self._listeners: list[Callable[[LeaseLost], None]] = []
        self.lock = lock
        self._clock = clock

    @property
    def ttl_ms(self) -> int:
        return self.lease.ttl_ms

    @property
    def name(self) -> str:
        """As people see it: `7K4M-Q2`."""
        return short_id(self.lease.lease)

    def end_ms(self) -> int:
        """When use must have stopped."""
        if self.outer is not None:
            return self.outer.end_ms()
        return self.deadline_ms if self.hard_end_ms is None else min(self.deadline_ms, self.hard_end_ms)

    def left_ms(self) -> int:
        """Time to `end_ms`, not below 0."""
        return max(self.end_ms() - self._clock(), 0)

    @property
    def lost(self) -> LeaseLost | None:
        """The loss, once it is known or the deadline has passed; None while the lease may be used."""
        if self.outer is not None and not self.released:
            return self.outer.lost
        self.expire_if_due()
        return self._lost

    def check(self) -> None:
        """Raise LeaseLost when the lease is over, NotHolder when it was given back; else nothing."""
        lost = self.lost
        if lost is not None:
            raise lost
        if self.released:
            raise NotHolder(f"lease {self.name} was given back. Ask for a new one: hub.lease(…)")

    def expire_if_due(self) -> None:
        """Know the loss as soon as the clock shows it."""
        end = self.end_ms()
        if self._lost is not None or self.released or self._clock() < end:
            return
        if self.hard_end_ms is not None and end == self.hard_end_ms:
            self.lose(f"its hard end (for) has come; it was renewed until then. {self._void()}")
        else:
            self.lose(
                f"no renewal confirmed for {show_duration(self.ttl_ms)}{self._whose_fault()}. {self._void()}"
            )

    def lose(self, text: str) -> None:
        """The lease is over. The first reason stays; a lease that was given back can't be lost."""
        with self.lock:
            if self._lost is not None or self.released:
                return
            whole = text.startswith("lease ")  # a node tells the whole sentence
            self._lost = LeaseLost(text if whole else f"lease {self.name} lost: {text}")
            listeners = list(self._listeners)
        for listener in listeners:
            listener(self._lost)

    def listen(self, listener: Callable[[LeaseLost], None]) -> None:
        """Call `listener` once when the lease is lost (at once when it is already). It must not wait for anything."""
        with self.lock:
            if self.outer is not None:
                self.outer.listen(listener)
                return
            self._listeners.append(listener)
            lost = self._lost
        if lost is not None:
            listener(lost)

    def forget(self, listener: Callable[[LeaseLost], None]) -> None:
        """The listener is called no more."""
        with self.lock:
            if self.outer is not None:
                self.outer.forget(listener)
            elif listener in self._listeners:
                self._listeners.remove(listener)

    # ------------------------------------------------------------ for the link

    def renew(self, sent_ms: int, valid_for_ms: int) -> None:
        """A renewal sent at `sent_ms` was answered; a negative time says that it is neither confirmed nor refused yet.

        An answer that came late may count less than was confirmed before; what was confirmed holds.
        """
        with self.lock:
            if self._lost is None and sent_ms >= self.sent_ms and valid_for_ms >= 0:
                self.sent_ms = sent_ms
                self.deadline_ms = max(self.deadline_ms, sent_ms + valid_for_ms)
                self.node_away_since_unix = None
                self.not_let_in = ""

    def change(self, granted: frames.Granted, sent_ms: int) -> None:
        """Other units or another hard end, as the answer to our own request says."""
        with self.lock:
            self.lease = granted.lease
            self.renew(sent_ms, granted.valid_for_ms)
            self.hard_end_ms = None if granted.for_left_ms is None else sent_ms + granted.for_left_ms

    def fail_if_not_held(self) -> HoldallError | None:
        """Why a request about this lease can't be sent; None when it can."""
        try:
            self.check()
        except (LeaseLost, NotHolder) as problem:
            return problem
        return None

    def _set_hard_end(self, for_left_ms: int | None) -> None:
        self.hard_end_ms = None if for_left_ms is None else self.sent_ms + for_left_ms

    def _whose_fault(self) -> str:
        if self.not_let_in:
            return f" ({self.not_let_in})"
        if self.node_away_since_unix is None:
            return ""
        since = time.strftime("%H:%M:%S", time.localtime(self.node_away_since_unix))
        return f" (the node is unreachable since {since})"

    def _void(self) -> str:
        fences = ", ".join(str(unit.fence) for unit in self.lease.units[:8])
        if not fences:
            return ""
        return f"Fence {fences} is void." if len(self.lease.units) == 1 else f"Fences {fences} are void."
