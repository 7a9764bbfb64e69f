"""A guardian's session with its node: takes one lease over, renews it, comes back after a break, gives it back."""

from holdall.guardian.clock import boottime_ms
from holdall.guardian.line import RETRY_FIRST_MS, Confirmed, GivenBack, Happening, NodeLine, Over, Revoked
from holdall.guardian.orders import Start
from holdall.model import frames

LOOK_AGAIN_MS = (1_000, 250)
"""How long before a hard end stops the command it is looked at whether somebody has extended it."""


class Tether(NodeLine):
    """One lease, one session.

    An inherited lease is never attached: a claim in its scope gives a view of it, which lives as long as its holder
    renews it; each Beat tells how long that is.
    """

    def __init__(self, start: Start) -> None:
        super().__init__(start, beat_every_ms=max(start.ttl_ms // 3, 50))
        self.lease = start.lease.lease
        self.attached = False
        self._hard_end_ms = start.hard_end_ms

    def _begun_anew(self) -> None:
        self.attached = False

    def _say_what_is_due(self, now: int) -> None:
        """Release before attach before renewal."""
        number = self._number(now)
        self._ask_at_ms = self._next_ask_ms(now)
        if self._exit is not None:
            self._say(frames.Release(n=number, key=self.start.key, exit=self._exit))
        elif self.attached and not self._hard_end_is_near(now):
            self._say(frames.Beat(n=number))
        elif self.start.view:
            claim = frames.Claim(
                n=number, needs=self.start.view, under=self.start.key, ttl_ms=self.start.ttl_ms
            )
            self._say(claim)
        else:
            self._say(frames.Attach(n=number, key=self.start.key))

    def _next_ask_ms(self, now: int) -> int:
        """A third of the ttl from now, and shortly before a hard end would stop the command."""
        moments = [now + self.beat_every_ms]
        if self._hard_end_ms is not None:
            stop_at = self._hard_end_ms - self.start.grace_ms
            moments += [stop_at - lead for lead in LOOK_AGAIN_MS if stop_at - lead > now]
        return min(moments)

    def _hard_end_is_near(self, now: int) -> bool:
        """Then asking for the lease as a whole, which renews it too, tells whether somebody has extended it."""
        reach = self.beat_every_ms + self.start.grace_ms
        return self._hard_end_ms is not None and now + reach >= self._hard_end_ms

    def _heard(self, answer: frames.FromNode) -> list[Happening]:
        match answer:
            case frames.Granted():
                return self._confirmed(answer)
            case frames.BeatOk():
                return self._renewed(answer)
            case frames.Released():
                return [GivenBack(answer.what)] if self._exit is not None else []
            case frames.Denied():
                return self._denied(answer)
            case frames.Lost(lease, text, stop) if lease == self.lease:
                return [Revoked(text) if stop else Over("lost", text)]
            case _:
                return []  # nothing else is asked for here

    def _confirmed(self, granted: frames.Granted) -> list[Happening]:
        sent = self._sent_ms.pop(granted.n, None)
        if sent is None:
            return []
        if self.start.view and not granted.view:
            # Not covered any more, and free by chance: that is no part of the lease that we inherited.
            self._say(frames.Release(n=granted.n, key=granted.key))
            return [
                Over("not-holder", "the lease that this process inherited does not cover its needs any more")
            ]
        self.attached = True
        self.lease = granted.lease.lease
        self._hard_end_ms = None if granted.for_left_ms is None else sent + granted.for_left_ms
        self._ask_in_time(sent + granted.valid_for_ms, self.start.grace_ms)
        return [Confirmed(sent, sent + granted.valid_for_ms, self._hard_end_ms, granted.lease)]

    def _renewed(self, beat: frames.BeatOk) -> list[Happening]:
        sent = self._sent_ms.pop(beat.n, None)
        if sent is None:
            return []
        valid_for = dict(beat.valid_for_ms).get(self.lease)
        if valid_for is None:
            return [Over("lost", "the node does not know it as this session's any more")]
        if valid_for < 0:
            # The node has come up again and waits for the word of other nodes: what was confirmed before counts.
            self._ask_at_ms = boottime_ms() + RETRY_FIRST_MS
            return []
        # Where units lie on other nodes, theirs may be confirmed anew before the command has to stop.
        self._ask_in_time(sent + valid_for, self.start.grace_ms)
        return [Confirmed(sent, sent + valid_for, self._hard_end_ms)]
