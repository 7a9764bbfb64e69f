"""One seeded run: a heap of virtual time, turns of hosts, and messages on their way; the judge looks on.

Inside, times are milliseconds of virtual time; a mean message delay is `DELAY_MS`. Every draw comes from a
generator that the seed fixes, so a seed reproduces its run, message by message.
"""

import heapq
import random
from collections.abc import Callable
from math import log
from typing import Any

import msgspec

from holdall.machine.contract import (
    Address,
    Boot,
    ClockRead,
    Message,
    ProtocolViolation,
    Received,
    SetTimer,
)
from holdall.machine.host import Arrival, Turn
from holdall.machine.trace import Kind, Step
from holdall.protocols.vocabulary import ClaimId
from holdall.simulator.clients import Action, Driver, Phase, Seat, Seats
from holdall.simulator.falls import FallDriver, Falls
from holdall.simulator.faults import strikes
from holdall.simulator.figures import WARM_UP, Figures, Meter
from holdall.simulator.judge import Judge
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.sites import SETTLED_MS, Site, State
from holdall.simulator.systems import AGENT, CLAIMANT, System, system

DRAIN = 50.0
"""Once clients claim no more, everything must be over within so many ttls and holds."""

MESSAGE, TIMER, CLIENT, STRIKE, RISE = range(5)
"""What an entry of the heap is."""


class Report(msgspec.Struct, kw_only=True):
    """What a run showed."""

    figures: Figures
    violations: list[str]
    ended_at: float
    """Virtual time when the last entry was gone, in mean message delays."""
    delivered: int
    """Messages that were delivered."""


class Run:
    """Made once, run once."""

    def __init__(self, setup: Setup, *, on_step: Callable[[Step], None] | None = None) -> None:
        self.setup = setup
        self.system: System = system(setup)
        self.now = 0.0
        self.delivered = 0
        self.messages: dict[type, int] = {}
        self.measured = 0
        self._on_step = on_step
        self._steps = 0
        self._heap: list[tuple[float, int, int, Any, Any, Any]] = []
        self._seq = 0
        self._net = random.Random(f"holdall network {setup.seed}")
        self._chance = random.Random(f"holdall chance {setup.seed}")
        self._end = setup.duration * DELAY_MS
        workload = setup.workload
        self.judge = Judge(
            {
                (node, pool): units
                for node in workload.node_names()
                for pool, units in workload.pools_on(node).items()
            }
        )
        self.meter = Meter(duration=setup.duration, wide_client=0 if workload.wide else None)
        self.seats = Seats(
            setup, Driver(lambda: self.now, self._alarm, self._command), self.meter, self.judge
        )
        self.sites: dict[str, Site] = {}
        self._falls = Falls(
            setup,
            self.system,
            self.sites,
            self.seats,
            FallDriver(
                lambda: self.now, self._begin, self._rises, self._lose, self._note_crash, self._recovered
            ),
            meter=self.meter,
            chance=self._chance,
        )
        self._owners = frozenset(self.system.nodes())
        self._clocked = self.system.clocked
        self._jitter = setup.jitter
        self._uncounted = self.system.uncounted
        self._measured_from = self._end * WARM_UP
        self._faulty = setup.faults.any()

    def run(self) -> Report:
        """To the end: until everything is over, the judge has found something, or the time to drain is up."""
        for name in self.system.nodes():
            self._begin(name)
        for seat in self.seats.seats:
            self._begin(seat.host)
        self.seats.begin()
        for strike in strikes(self.setup.faults, seed=self.setup.seed, duration=self.setup.duration):
            self._push(strike.at * DELAY_MS, STRIKE, strike, None, None)
        limit = self._end + DRAIN * DELAY_MS * (self.setup.ttl + self.setup.workload.hold)
        violations = self.judge.violations
        while self._heap and not violations:
            now, _, kind, a, b, c = heapq.heappop(self._heap)
            if now > limit:
                break
            self.now = now
            if kind == MESSAGE:
                self._deliver(a, b, c)
            elif kind == TIMER:
                self._fire(a, b, c)
            elif kind == CLIENT:
                self._act(a, b, c)
            elif kind == STRIKE:
                self._falls.strike(a)
            else:
                self._falls.rise(a, b)
            if self._idle():
                break
        return self._report()

    def _report(self) -> Report:
        if not self.judge.violations:
            entries = {name: self.system.entries(site.host) for name, site in self.sites.items()}
            self.judge.at_the_end(self.seats.waiting(), entries)
        self.meter.measured_messages = self.measured
        counts = {kind.__name__: count for kind, count in self.messages.items()}
        return Report(
            figures=self.meter.figures(counts),
            violations=list(self.judge.violations),
            ended_at=self.now / DELAY_MS,
            delivered=self.delivered,
        )

    # Hosts and their turns

    def _begin(self, name: str) -> None:
        site = Site(name, self.system.host(name))
        self.sites[name] = site
        self._carry(site, "start", (), site.host.start())

    def _turn(self, site: Site, arrivals: tuple[Arrival, ...]) -> None:
        try:
            turn = site.host.turn(arrivals)
        except ProtocolViolation as error:
            # All machines here are correct neighbours, so nothing that they send may be refused.
            self.judge.property(site.name, [f"refused: {error}"])
            turn = Turn({}, {}, [])
        self._carry(site, "turn", arrivals, turn)

    def _carry(
        self, site: Site, kind: Kind, arrivals: tuple[Arrival, ...], turn: Turn, boot: Boot | None = None
    ) -> None:
        """A driver's duties, in their order: save, arm, send. A host that was marked dies before some of its sends."""
        if self._on_step is not None:
            self._steps += 1
            self._on_step(
                Step(
                    kind=kind, n=self._steps, at_ms=int(self.now), host=site.name, arrivals=arrivals, boot=boot,
                    kept=boot is None or boot.kind != "lost", undone=site.undone if boot else {}, turn=turn,
                )
            )  # fmt: skip
        if self._faulty:
            site.save(turn.saves, undo=self.setup.faults.unsynced > 0)
        if turn.timers:
            self._arm(site, turn)
        if turn.saves and site.name in self._owners:
            # what is given is always saved, so other turns change nothing
            self.judge.used(site.name, self.system.given(site.host))
            held = self.system.set_aside(site.host) if self._faulty else None
            if held is not None:
                self.judge.set_aside(site.name, held)
        if self.setup.strict:
            up = {name: other.host for name, other in self.sites.items() if other.state is not State.DOWN}
            self.judge.property(site.name, self.system.wrong(site.host, up))
        strike = site.cut
        leaving = len(turn.sends) if strike is None else self._chance.randint(0, len(turn.sends))
        for sender, to, message in turn.sends:
            if to.node == site.name:
                # the client asks again when its host is up, so what it was to be told is never lost
                self._inside(site, to, message)
            elif leaving > 0:
                self._send(sender, to, message)
            leaving -= 1
        if self._faulty:
            claim = self.seats.suspended(site.name)
            if claim is not None and not site.settling and self.system.may_go_on(site.host, claim):
                self.seats.resume(site.name)
        if strike is not None:
            site.cut = None
            self._falls.fall(site, strike)

    def _inside(self, site: Site, to: Address, message: Message) -> None:
        """What a part says to its driver: the clients hear what the claimant tells its agent."""
        if not self.seats.told(site.name, message):
            return
        departure = self.setup.faults.departure
        if departure and self.now < self._end and self._chance.random() < departure:
            self.meter.faults["departure"] += 1
            self._push(self.now, RISE, site, "departure", None)

    def _arm(self, site: Site, turn: Turn) -> None:
        for name, timer in turn.timers.items():
            if isinstance(timer, SetTimer):
                after = timer.after_ms + (self._chance.random() * timer.spread_ms if timer.spread_ms else 0)
                site.timers[name] = self._seq
                self._push(self.now + after, TIMER, site, name, self._seq)
            else:
                site.timers.pop(name, None)

    def _fire(self, site: Site, name: str, token: int) -> None:
        if site.timers.get(name) != token:
            return
        if site.state is State.PAUSED:
            self._push(site.resume_at, TIMER, site, name, token)
        elif site.state is State.UP:
            del site.timers[name]
            self._turn(site, (site.host.fire(name),))

    def _act(self, seat: Seat, action: Action, claim: ClaimId | None) -> None:
        site = self.sites[seat.host]
        if site.state is State.UP:
            self.seats.act(seat, action, claim)
        else:
            self._push(site.resume_at + SETTLED_MS, CLIENT, seat, action, claim)

    # Messages

    def _send(self, sender: Address, to: Address, message: Message) -> None:
        kind = type(message)
        self.messages[kind] = self.messages.get(kind, 0) + 1
        if self._measured_from <= self.now <= self._end and kind not in self._uncounted:
            self.measured += 1
        site = self.sites.get(to.node)
        if site is None:
            return
        copies = self._copies() if self._faulty and self.now < self._end else 1
        for _ in range(copies):
            # 0.5 + Exp(0.5) mean delays, drawn anew for each message: so messages overtake each other
            delay = DELAY_MS * (0.5 - 0.5 * log(1.0 - self._net.random())) if self._jitter else DELAY_MS
            self._push(self.now + delay, MESSAGE, site, to.part, Received(sender, message))

    def _copies(self) -> int:
        """How often a message arrives while faults strike."""
        faults = self.setup.faults
        if faults.loss and self._chance.random() < faults.loss:
            self.meter.faults["loss"] += 1
            return 0
        if faults.duplicate and self._chance.random() < faults.duplicate:
            self.meter.faults["duplicate"] += 1
            return 2
        return 1

    def _deliver(self, site: Site, part: str, event: Received) -> None:
        if site.state is State.PAUSED:
            # after the timers that are due: a lease that ran out meanwhile must not be granted any more
            self._push(site.resume_at + SETTLED_MS / 4, MESSAGE, site, part, event)
        elif site.state is State.UP:
            self.delivered += 1
            if type(event.message) in self._clocked:
                # as a node's driver does; +1, since 0 means that no clock was read
                clock = ClockRead(int(self.now) + 1, int(self.now) + 1)
                self._turn(
                    site, (Arrival(part, Received(self._driver_address(site), clock)), Arrival(part, event))
                )
            else:
                self._turn(site, (Arrival(part, event),))

    def _driver_address(self, site: Site) -> Address:
        return Address(site.name, "node")

    def _command(self, host: str, message: Message) -> None:
        """A client speaks to its host, which is up: clients of other hosts wait, see `_act`."""
        self._turn(self.sites[host], (Arrival(CLAIMANT, Received(Address(host, AGENT), message)),))

    def _alarm(self, seat: Seat, action: Action, claim: ClaimId | None, after: float) -> None:
        self._push(self.now + after, CLIENT, seat, action, claim)

    def _push(self, at: float, kind: int, a: Any, b: Any, c: Any) -> None:
        self._seq += 1
        heapq.heappush(self._heap, (at, self._seq, kind, a, b, c))

    # What falls ask for

    def _rises(self, site: Site, kind: str, at: float) -> None:
        self._push(at, RISE, site, kind, None)

    def _lose(self, site: Site) -> None:
        """Any part of the messages in flight to a host that is down."""
        self._heap = [
            entry
            for entry in self._heap
            if entry[2] != MESSAGE or entry[3] is not site or self._chance.random() < 0.5
        ]
        heapq.heapify(self._heap)

    def _recovered(self, site: Site, turn: Turn, boot: Boot) -> None:
        self._carry(site, "recover", (), turn, boot)

    def _note_crash(self, site: Site) -> None:
        if self._on_step is not None:
            self._steps += 1
            self._on_step(
                Step(kind="crash", n=self._steps, at_ms=int(self.now), host=site.name, turn=Turn({}, {}, []))
            )

    def _idle(self) -> bool:
        """Nobody wants anything any more. Looked at now and then, since timers of quiet hosts go on for ever."""
        if self.now <= self._end or self._seq % 16:
            return False
        if any(seat.phase is not Phase.STOPPED for seat in self.seats.seats):
            return False
        return not any(self.system.entries(site.host) for site in self.sites.values())
