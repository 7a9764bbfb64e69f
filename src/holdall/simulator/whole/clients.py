"""A client of a whole node: the frames that a real one sends, by its computer's clock, over connections that break.

It believes that it may use its units until `valid_for_ms` after the sending of what was answered, as the client
library does: claims and releases are repeated after a break until they have an answer, leases are renewed each third
of their ttl, and a grant that is over by the client's own clock is asked for once more before it is used.
"""

import msgspec

from holdall.model import frames
from holdall.simulator.whole.around import Alarm, Around, Asking, Tenure
from holdall.simulator.whole.wishes import Series, Wish

RETRY_MS = 20.0
RETRY_MOST_MS = 1_000.0
RENEW_SHARE = 3


class WholeClient:
    """One process; `wishes` go on when another one takes its place."""

    def __init__(
        self,
        around: "Around[WholeClient]",
        wishes: Series,
        *,
        node: int,
        seat: int,
        number: int,
        life: int,
        rate: float,
    ) -> None:
        self.node = node
        self.seat = seat
        self.number = number
        """Of the seat, over all nodes: what the judge knows it by."""
        self.life = life
        self.name = f"client-{node}-{seat}.{life}"
        self.pid = 100_000 + number * 1000 + life
        self.rate = rate
        self.wishes = wishes
        self.alive = True
        self.stopped = False
        """It claims no more: the run is over for it."""
        self.connection = ""
        self.asking: Asking | None = None
        self.tenure: Tenure | None = None
        self._around = around
        self._wish: Wish = wishes.next()
        self._ready = False
        self._session = self._secret = ""
        self._n = 0
        self._turn = 0
        """Grows with each wish: alarms of an earlier one mean nothing."""
        self._beats: dict[int, float] = {}
        self._beat_token = 0
        self._attaching: dict[int, float] = {}
        self._owed: dict[int, frames.ToNode] = {}
        """Releases and cancels without an answer."""
        self._calls: dict[int, tuple[str, float]] = {}
        """Release -> (lease, when it was said in true time)."""
        self._later: dict[int, str] = {}
        """Alarm -> key of a lease to be given back then."""
        self._retry_ms = RETRY_MS

    @property
    def clock(self) -> float:
        """What it reads."""
        return self._around.now * self.rate

    def true(self, clock: float) -> float:
        """A reading as true time."""
        return clock / self.rate

    @property
    def is_idle(self) -> bool:
        """Nothing held, asked for or still to be said."""
        return self.asking is None and self.tenure is None and not self._owed and not self._later

    # ------------------------------------------------------------ what drives it

    def begin(self) -> None:
        """The process starts, unless its computer has gone down before."""
        if self.alive:
            self._connect()
            self._think()

    def rings(self, what: Alarm, token: int) -> None:
        """An alarm of its own."""
        match what:
            case Alarm.DEADLINE:
                self._look_at_clock()
            case Alarm.BEAT if token == self._beat_token:
                self._beat()
            case Alarm.RETRY if not self.connection:
                self._connect()
            case Alarm.PATIENT:
                key = self._later.pop(token)
                self._owe(frames.Release(self._number(), key))
            case Alarm.CLAIM if token == self._turn:
                self._claim()
            case Alarm.GIVE_BACK if token == self._turn and self.tenure is not None:
                self._give_back()
            case Alarm.CANCEL if token == self._turn and self.asking is not None:
                self._cancel(self.asking)
            case _:
                pass

    def broken(self) -> None:
        """The connection is gone."""
        self.connection = ""
        self._ready = False
        self._beats.clear()
        self._attaching.clear()
        self._around.alarm(self, Alarm.RETRY, self._retry_ms, 0)

    def hear(self, frame: frames.FromNode) -> None:
        """A frame of the node."""
        match frame:
            case frames.Welcome():
                self._welcomed(frame)
            case frames.Queued(n) if self.asking is not None and n == self.asking.n:
                if not self.asking.queued:
                    self.asking.queued = True
                    self._around.queued(self, self.asking, frame)
            case frames.Granted():
                self._granted(frame)
            case frames.Denied():
                self._denied(frame)
            case frames.BeatOk():
                self._beaten(frame)
            case frames.Lost(lease, _, stop) if self.tenure is not None and self.tenure.lease == lease:
                if stop:
                    self._give_back()
                else:
                    self._lost("lost")
            case frames.Released(n):
                self._answered(n)
            case _:
                pass

    # ------------------------------------------------------------ connection

    def _connect(self) -> None:
        if not self._around.connect(self):
            self._retry_ms = min(2 * self._retry_ms, RETRY_MOST_MS)
            self._around.alarm(self, Alarm.RETRY, self._retry_ms, 0)
            return
        hello = frames.Hello(
            v=frames.VERSION, agent=self.name, pid=self.pid, session=self._session, secret=self._secret
        )
        self._around.say(self, hello)

    def _welcomed(self, welcome: frames.Welcome) -> None:
        self._ready = True
        self._retry_ms = RETRY_MS
        self._session, self._secret = welcome.session, welcome.secret
        if self.asking is not None:
            self.asking.queued = False
            self._send_claim(self.asking)
        for frame in self._owed.values():
            self._around.say(self, frame)
        if self.tenure is not None:
            if welcome.resumed:
                self._beat()
            else:
                n = self._number()
                self._attaching[n] = self.clock
                self._around.say(self, frames.Attach(n, self.tenure.key))
        self._arm_beat()

    def _owe(self, frame: frames.Release | frames.Cancel) -> None:
        self._owed[frame.n] = frame
        if self._ready:
            self._around.say(self, frame)

    def _answered(self, n: int) -> None:
        frame = self._owed.pop(n, None)
        if frame is None:
            return
        if isinstance(frame, frames.Cancel):
            if self.asking is not None:
                self._fail(self.asking, "cancelled", "")
        elif n in self._calls:
            self._around.released(self, *self._calls.pop(n))
            self._over()

    # ------------------------------------------------------------ a claim

    def _think(self) -> None:
        self._around.alarm(self, Alarm.CLAIM, self._wish.think_ms, self._turn)

    def _over(self) -> None:
        self._turn += 1
        self._wish = self.wishes.next()
        self._think()

    def _claim(self) -> None:
        if self.stopped:
            return
        wish, n = self._wish, self._number()
        frame = frames.Claim(
            n=n,
            needs=wish.needs,
            wait_ms=wish.wait_ms,
            now=wish.now,
            ttl_ms=self._ttl_ms,
            for_ms=wish.for_ms,
        )
        self.asking = Asking(f"{self.name}/{n}", frame, n, asked=self._around.now)
        self._around.asked(self, self.asking)
        if wish.cancel_ms is not None:
            self._around.alarm(self, Alarm.CANCEL, wish.cancel_ms, self._turn)
        if self._ready:
            self._send_claim(self.asking)
            self._arm_beat()

    @property
    def _ttl_ms(self) -> int:
        return self.wishes.ttl_ms

    def _send_claim(self, asking: Asking) -> None:
        now = self.clock
        frame: frames.ToNode = asking.attach or asking.frame
        wait_ms = asking.frame.wait_ms
        if asking.attach is None and asking.sent is not None and wait_ms is not None:
            rest_ms = max(0, int(wait_ms - (self._around.now - asking.asked) * self.rate))
            frame = msgspec.structs.replace(asking.frame, wait_ms=rest_ms, asked_wait_ms=wait_ms)
        asking.base = asking.sent = now
        self._around.say(self, frame)

    def _granted(self, granted: frames.Granted) -> None:
        asking, now = self.asking, self.clock
        if granted.n in self._attaching:
            sent = self._attaching.pop(granted.n)
            if self.tenure is not None:
                self._renew(self.tenure, sent, granted.valid_for_ms)
            return
        if asking is None or granted.n != asking.n:
            if self.tenure is None or self.tenure.lease != granted.lease.lease:
                # a grant that nobody here asked for any more must not stay held
                self._owe(frames.Release(self._number(), granted.key))
            return
        if asking.base + granted.valid_for_ms <= now and not asking.cancelled and not asking.frame.now:
            asking.n = self._number()
            asking.attach = frames.Attach(asking.n, granted.key)
            self._send_claim(asking)
            return
        left = granted.for_left_ms
        self.asking = None
        self.tenure = Tenure(
            key=granted.key,
            lease=granted.lease.lease,
            units=granted.lease.units,
            ttl_ms=granted.lease.ttl_ms,
            sent=asking.base,
            born=now,
            deadline=asking.base + granted.valid_for_ms,
            hard_end=None if left is None else asking.base + left,
        )
        self._around.granted(self, asking, self.tenure)
        self._watch_clock(self.tenure)
        if asking.cancelled:
            self._give_back()
        else:
            self._around.alarm(self, Alarm.GIVE_BACK, self._wish.hold_ms, self._turn)
            self._arm_beat()

    def _denied(self, denied: frames.Denied) -> None:
        asking = self.asking
        if denied.n == 0:
            self._session = self._secret = ""
            self._around.hang_up(self)
            self.broken()
        elif asking is not None and denied.n == asking.n:
            wanted = not asking.cancelled and not asking.frame.now
            if (denied.retry_after_ms == 0 or asking.attach is not None) and wanted:
                # stood still for so long that the node gave the place up: the same wish as a new claim
                asking.n = self._number()
                asking.frame = msgspec.structs.replace(asking.frame, n=asking.n)
                asking.attach = asking.sent = None
                asking.queued = False
                self._send_claim(asking)
            else:
                self._fail(asking, denied.code, denied.text)
        elif self._attaching.pop(denied.n, None) is not None:
            if denied.definite and denied.retry_after_ms is None and self.tenure is not None:
                self._lost("lost")
        else:
            self._answered(denied.n)

    def _fail(self, asking: Asking, code: str, text: str) -> None:
        self.asking = None
        self._around.denied(self, asking, code, text)
        self._over()

    def _cancel(self, asking: Asking) -> None:
        if asking.cancelled:
            return
        asking.cancelled = True
        if asking.sent is None:
            self._fail(asking, "cancelled", "")
        else:
            self._owe(frames.Cancel(self._number(), f"#{asking.n}"))

    # ------------------------------------------------------------ a lease

    def _give_back(self) -> None:
        tenure = self.tenure
        self._look_at_clock()
        if tenure is None or self.tenure is None:
            return
        self.tenure = None
        n = self._number()
        self._around.stopped(self, tenure, "released")
        self._calls[n] = (tenure.lease, self._around.now)
        self._owe(frames.Release(n, tenure.key))

    def _look_at_clock(self) -> None:
        """A lease is over when the clock says so, whether or not anybody has told it."""
        tenure = self.tenure
        if tenure is not None and self.clock >= tenure.end:
            self._lost(
                "end" if tenure.hard_end is not None and tenure.hard_end <= tenure.deadline else "deadline"
            )

    def _lost(self, how: str) -> None:
        tenure, self.tenure = self.tenure, None
        if tenure is None:
            return
        self._around.stopped(self, tenure, how)
        if how != "lost":
            # its node may have it for a little longer; there each frame of this session renews it
            token = self._number()
            self._later[token] = tenure.key
            over_by = tenure.sent + tenure.ttl_ms * 1.02
            self._around.alarm(self, Alarm.PATIENT, max(0.0, over_by - self.clock), token)
        self._over()

    def _watch_clock(self, tenure: Tenure) -> None:
        self._around.alarm(self, Alarm.DEADLINE, max(0.0, tenure.end - self.clock), 0)

    def _renew(self, tenure: Tenure, sent: float, valid_for_ms: int) -> None:
        self._look_at_clock()
        if self.tenure is tenure and sent >= tenure.sent:
            tenure.sent, tenure.deadline = sent, max(tenure.deadline, sent + valid_for_ms)
            self._around.renewed(self, tenure)
            self._watch_clock(tenure)

    # ------------------------------------------------------------ renewal

    def _arm_beat(self) -> None:
        """A third of the ttl after what was confirmed last; a beat without answer is not repeated before its third."""
        since = [] if self.tenure is None else [self.tenure.sent]
        if self.asking is not None and self.asking.sent is not None:
            since.append(self.asking.base)
        if not self._ready or not since:
            return
        due = max(min(since), max(self._beats.values(), default=0.0)) + self._ttl_ms / RENEW_SHARE
        self._beat_token += 1
        self._around.alarm(self, Alarm.BEAT, max(0.0, due - self.clock), self._beat_token)

    def _beat(self) -> None:
        if not self._ready or (self.asking is None and self.tenure is None):
            return
        n = self._number()
        self._beats[n] = self.clock
        self._around.say(self, frames.Beat(n))
        self._arm_beat()

    def _beaten(self, beat: frames.BeatOk) -> None:
        sent = self._beats.pop(beat.n, None)
        if sent is None:
            return
        alive = dict(beat.valid_for_ms)
        tenure, asking = self.tenure, self.asking
        if tenure is not None:
            if tenure.lease in alive:
                self._renew(tenure, sent, alive[tenure.lease])
            elif tenure.sent <= sent and tenure.born < sent:
                self._lost("lost")
        if asking is not None and asking.sent is not None and asking.sent <= sent:
            asking.base = sent
        self._arm_beat()

    def _number(self) -> int:
        self._n += 1
        return self._n
