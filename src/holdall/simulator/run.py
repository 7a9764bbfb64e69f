"""One seeded run: a heap of virtual time, turns of hosts, and messages on their way; the judge looks on.

Inside, times are milliseconds of virtual time; a mean message delay is `DELAY_MS`. Every draw comes from a
generator that the seed fixes, so a seed reproduces its run, message by message.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from math import inf
from typing import Any

import msgspec

from holdall.checker.records import AnyRecord
from holdall.machine.contract import (
    Address,
    Boot,
    ClockRead,
    Event,
    Message,
    ProtocolViolation,
    Received,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import SEPARATOR, Arrival, Turn
from holdall.machine.trace import Kind, Step
from holdall.protocols.vocabulary import ClaimId
from holdall.simulator.clients import Action, Driver, Phase, Seat, Seats
from holdall.simulator.falls import FallDriver, Falls
from holdall.simulator.faults import KINDS, WALLS, Strike, strikes
from holdall.simulator.figures import WARM_UP, Figures, Meter
from holdall.simulator.history import History
from holdall.simulator.judge import Judge
from holdall.simulator.network import Delays, Network
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.sides import AGENT
from holdall.simulator.sites import SETTLED_MS, Site, State
from holdall.simulator.systems import CLAIMANT, System, system

DRAIN = 50.0
"""Once clients claim no more, everything must be over within so many ttls and holds."""

UP, PAUSED = State.UP, State.PAUSED
"""Names of a module are found faster than those of a class, and these are asked for with every message."""

Entry = tuple[float, int, Callable[[Any, Any, Any], None], Any, Any, Any]
"""What the heap holds: when, in which order within one moment, and the call."""


class Report(msgspec.Struct, kw_only=True):
    """What a run showed."""

    figures: Figures
    violations: list[str]
    ended_at: float
    """Virtual time when the last entry was gone, in mean message delays."""
    delivered: int
    """Messages that were delivered, from host to host."""


class Run:
    """Made once, run once."""

    def __init__(
        self,
        setup: Setup,
        *,
        on_step: Callable[[Step], None] | None = None,
        on_record: Callable[[AnyRecord], None] | None = None,
    ) -> None:
        """`on_step` hears of every turn (for a trace), `on_record` of what a history is made of."""
        self.setup = setup
        self.system: System = system(setup)
        self.now = 0.0
        self.delivered = 0
        self.messages: defaultdict[type, int] = defaultdict(int)
        self.measured = 0
        self._on_step = on_step
        self._history = None if on_record is None else History(on_record)
        self._steps = 0
        self._heap: list[Entry] = []
        self._seq = 0
        self._network = Network(
            setup.delays if setup.jitter else Delays(kind="constant"), seed=setup.seed, mean_ms=DELAY_MS
        )
        self._chance = random.Random(f"holdall chance {setup.seed}")
        self._end = setup.duration * DELAY_MS
        self._limit = 0.0
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
            setup,
            Driver(lambda: self.now, self._alarm, self._command, self._claimed),
            self.meter,
            self.judge,
            self._history,
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
        self._due: list[Strike] = []
        """Blows that wait for a number of claims, latest first (`Setup.claims`)."""
        self._owners = frozenset(self.system.nodes())
        self._clocked = self.system.clocked
        self._uncounted = self.system.uncounted
        self._measured_from = self._end * WARM_UP
        self._faulty = setup.faults.any()
        self._shares = setup.faults
        self._may_lack_turns = setup.faults.unsynced > 0
        self._draw = self._network.draw
        self._strict = setup.strict

    def run(self) -> Report:
        """To the end: until everything is over, the judge has found something, or the time to drain is up."""
        if self._history is not None:
            self._history.begin(self.setup)
        for name in self.system.nodes():
            self._begin(name)
        for seat in self.seats.seats:
            self._begin(seat.host)
        self.seats.begin()
        self._plan_strikes()
        self._ends_at(self._end)
        heap, violations, pop = self._heap, self.judge.violations, heapq.heappop
        while heap and not violations:
            now, _, call, a, b, c = pop(heap)
            if now > self._limit:
                break
            self.now = now
            call(a, b, c)
            if now > self._end and self._idle():
                break
        return self.report()

    def _plan_strikes(self) -> None:
        """By time; or, where the number of claims ends the run, each after its share of the claims."""
        setup = self.setup
        planned = strikes(setup.faults, seed=setup.seed, duration=setup.duration)
        if setup.claims is None:
            for strike in planned:
                self._push(strike.at * DELAY_MS, self._strike, strike, None, None)
        else:
            self._due = planned[::-1]
            self._measured_from = self.meter.start = inf

    def _claimed(self, number: int) -> None:
        """Another claim has begun; with the last one clients stop, and faults as well."""
        claims = self.setup.claims
        if claims is None:
            return
        if number == max(1, int(claims * WARM_UP)):
            self._measured_from = self.now
            self.meter.start = self.now / DELAY_MS
        while self._due and self._due[-1].at / self.setup.duration * claims <= number:
            self._push(self.now, self._strike, self._due.pop(), None, None)
        if number == claims and self.now < self._end:
            self.meter.end = self.now / DELAY_MS
            self._ends_at(self.now)

    def _ends_at(self, end: float) -> None:
        self._end = self.seats.end_ms = end  # messages look at walls before the end only
        self._limit = end + DRAIN * DELAY_MS * (self.setup.ttl + self.setup.workload.hold)

    def report(self) -> Report:
        """What the run has shown so far; it is over, or a machine has failed."""
        if not self.judge.violations:
            entries = {name: self.system.entries(site.host) for name, site in self.sites.items()}
            self.judge.at_the_end(self.seats.waiting(), entries)
        if self._history is not None:
            books = {
                name: self.system.given(site.host)
                for name, site in self.sites.items()
                if name in self._owners and site.state is UP
            }
            self._history.end(books, self.setup, self.now)
        self.meter.measured_messages = self.measured
        counts: Counter[str] = Counter()
        for kind, count in self.messages.items():
            counts[kind.__name__] += count  # two families may have a message of the same name
        return Report(
            figures=self.meter.figures(counts),
            violations=list(self.judge.violations),
            ended_at=self.now / DELAY_MS,
            delivered=self.delivered,
        )

    # Hosts and their turns

    def _begin(self, name: str) -> None:
        site = Site(name, self.system.host(name))
        if self.setup.rho:
            drawn = random.Random(f"holdall clock {self.setup.seed} {name}")
            # a third each as slow as allowed, as fast, and between
            site.rate += self.setup.rho * drawn.choice((-1.0, 1.0, drawn.uniform(-1.0, 1.0)))
        self.sites[name] = site
        turn = site.host.start()
        self._trace("start", site, (), turn)
        self._carry(site, turn)

    def _turn(self, site: Site, part: str, event: Event) -> None:
        """One event and its whole answer."""
        try:
            turn = site.host.one(part, event)
        except ProtocolViolation as error:
            turn = self._refused(site, error)
        if self._on_step is not None:
            self._trace("turn", site, (Arrival(part, event),), turn)
        self._carry(site, turn)

    def _turn_of(self, site: Site, arrivals: tuple[Arrival, ...]) -> None:
        try:
            turn = site.host.turn(arrivals)
        except ProtocolViolation as error:
            turn = self._refused(site, error)
        self._trace("turn", site, arrivals, turn)
        self._carry(site, turn)

    def _refused(self, site: Site, error: ProtocolViolation) -> Turn:
        # All machines here are correct neighbours, so nothing that they send may be refused.
        self.judge.property(site.name, [f"refused: {error}"])
        return Turn({}, {}, [])

    def _trace(
        self, kind: Kind, site: Site, arrivals: tuple[Arrival, ...], turn: Turn, boot: Boot | None = None
    ) -> None:
        if self._on_step is not None:
            self._steps += 1
            self._on_step(
                Step(
                    kind=kind, n=self._steps, at_ms=int(self.now), host=site.name, arrivals=arrivals, boot=boot,
                    kept=boot is None or boot.kind != "lost", undone=site.undone if boot else {}, turn=turn,
                )
            )  # fmt: skip

    def _carry(self, site: Site, turn: Turn) -> None:
        """A driver's duties, in their order: save, arm, send. A host that was marked dies before some of its sends."""
        if turn.saves:
            if self._faulty:
                site.save(turn.saves, undo=self._may_lack_turns)
            if site.name in self._owners:
                self._look_at_books(site)
        if turn.timers:
            self._arm(site, turn)
        if self._strict:
            up = {name: other.host for name, other in self.sites.items() if other.state is not State.DOWN}
            self.judge.property(site.name, self.system.wrong(site.host, up))
        name, strike, sends = site.name, site.cut, turn.sends
        leaving = len(sends) if strike is None else self._chance.randint(0, len(sends))
        for sender, to, message in sends:
            if to.node == name:
                # the client asks again when its host is up, so what it was to be told is never lost
                self._inside(site, message)
            elif leaving > 0:
                self._send(sender, to, message)
            leaving -= 1
        if self.seats.standing_still:
            claim = self.seats.suspended(name)
            if claim is not None and not site.settling and self.system.may_go_on(site.host, claim):
                self.seats.resume(name)
        if strike is not None:
            site.cut = None
            self._falls.fall(site, strike)

    def _look_at_books(self, site: Site) -> None:
        # what is given is always saved, so other turns change nothing
        self.judge.used(site.name, self.system.given(site.host))
        if self._faulty:
            held = self.system.set_aside(site.host)
            if held is not None:
                self.judge.set_aside(site.name, held)

    def _inside(self, site: Site, message: Message) -> None:
        """What a part says to its driver: the clients hear what the claimant tells its agent."""
        if not self.seats.told(site.name, message):
            return
        departure = self._shares.departure
        if departure and self.now < self._end and self._chance.random() < departure:
            self.meter.faults["departure"] += 1
            self._push(self.now, self._rise, site, "departure", None)

    def _arm(self, site: Site, turn: Turn) -> None:
        timers, looks, now, rate = site.timers, site.looks, self.now, site.rate
        for name, timer in turn.timers.items():
            if type(timer) is SetTimer:
                after: float = timer.after_ms
                if timer.spread_ms:
                    after += self._chance.random() * timer.spread_ms
                due = timers[name] = now + after / rate
                if name not in looks or due < looks[name]:
                    self._look_later(site, name, due)
            else:
                timers.pop(name, None)

    def _look_later(self, site: Site, name: str, at: float) -> None:
        site.looks[name] = at
        self._push(at, self._fire, site, name, at)

    def _fire(self, site: Site, name: str, at: float) -> None:
        """A timer's time may have come; most have been set anew meanwhile, and are looked at again when it comes."""
        looks, timers = site.looks, site.timers
        if looks.get(name) != at:
            return
        del looks[name]
        if name not in timers:
            return
        due = timers[name]
        if due > at:
            self._look_later(site, name, due)
        elif site.state is PAUSED:
            site.timers[name] = site.resume_at
            self._look_later(site, name, site.resume_at)
        elif site.state is UP:
            del site.timers[name]
            part, _, inner = name.partition(SEPARATOR)
            self._turn(site, part, TimerFired(inner))

    def _act(self, seat: Seat, action: Action, claim: ClaimId | None) -> None:
        site = self.sites[seat.host]
        if site.state is UP:
            self.seats.act(seat, action, claim)
        else:
            self._push(site.resume_at + SETTLED_MS, self._act, seat, action, claim)

    # Messages

    def _send(self, sender: Address, to: Address, message: Message) -> None:
        kind, now = type(message), self.now
        self.messages[kind] += 1
        if self._measured_from <= now <= self._end and kind not in self._uncounted:
            self.measured += 1
        site = self.sites.get(to.node)
        if site is None:
            return
        event = Received(sender, message)
        if self._faulty and now < self._end:
            self._send_if_let(site, to, event)
        else:
            draw = self._draw
            delay = draw() if draw is not None else self._network.between(sender.node, to.node)
            self._seq += 1
            heapq.heappush(self._heap, (now + delay, self._seq, self._deliver, site, to.part, event))

    def _send_if_let(self, site: Site, to: Address, event: Received) -> None:
        """While faults strike: a message is lost, comes twice, or is held up."""
        network, faults, chance, sender = self._network, self._shares, self._chance.random, event.sender.node
        if network.walls and not network.hears(to.node, sender, self.now):
            self.meter.walled += 1
            return
        if faults.loss and chance() < faults.loss:
            self.meter.faults["loss"] += 1
            return
        copies, draw = 1, self._draw
        if faults.duplicate and chance() < faults.duplicate:
            self.meter.faults["duplicate"] += 1
            copies = 2
        for _ in range(copies):
            at = self.now + (draw() if draw is not None else network.between(sender, to.node))
            if faults.reorder and chance() < faults.reorder:
                self.meter.faults["reorder"] += 1
                at += network.held_up()
            self._seq += 1
            heapq.heappush(self._heap, (at, self._seq, self._deliver, site, to.part, event))

    def _deliver(self, site: Site, part: str, event: Received) -> None:
        if site.state is UP:
            self.delivered += 1
            if type(event.message) in self._clocked:
                # as a node's driver does; +1, since 0 means that no clock was read
                shown = int(self.now * site.rate) + 1
                clock = Received(Address(site.name, "node"), ClockRead(shown, shown))
                self._turn_of(site, (Arrival(part, clock), Arrival(part, event)))
            else:
                self._turn(site, part, event)
        elif site.state is PAUSED:
            # after the timers that are due: a lease that ran out meanwhile must not be granted any more
            self._push(site.resume_at + SETTLED_MS / 4, self._deliver, site, part, event)

    def _command(self, host: str, message: Message) -> None:
        """A client speaks to its host, which is up: clients of other hosts wait, see `_act`."""
        self._turn(self.sites[host], CLAIMANT, Received(Address(host, AGENT), message))

    def _alarm(self, seat: Seat, action: Action, claim: ClaimId | None, after: float) -> None:
        self._push(self.now + after, self._act, seat, action, claim)

    def _push(self, at: float, call: Callable[[Any, Any, Any], None], a: Any, b: Any, c: Any) -> None:
        self._seq += 1
        heapq.heappush(self._heap, (at, self._seq, call, a, b, c))

    # What falls ask for

    def _strike(self, strike: Strike, _: object, __: object) -> None:
        if strike.kind in WALLS:
            until = min(self._end, self.now + self._chance.random() * 2 * self.setup.ttl * DELAY_MS)
            self.meter.faults[strike.kind] += 1
            self._network.wall(strike.victim, until, both=strike.kind == "split")
            if self._history is not None:
                self._history.fault(strike.kind, self.now, until)
        else:
            self._falls.strike(strike)

    def _rise(self, site: Site, kind: str, _: object) -> None:
        self._falls.rise(site, kind)

    def _rises(self, site: Site, kind: str, at: float) -> None:
        self._push(at, self._rise, site, kind, None)
        if self._history is not None and kind in KINDS:
            self._history.fault(kind, self.now, at)

    def _lose(self, site: Site) -> None:
        """Any part of the messages in flight to a host that is down."""
        self._heap[:] = [
            entry
            for entry in self._heap
            if entry[3] is not site or entry[2] != self._deliver or self._chance.random() < 0.5
        ]
        heapq.heapify(self._heap)

    def _recovered(self, site: Site, turn: Turn, boot: Boot) -> None:
        self._trace("recover", site, (), turn, boot)
        self._carry(site, turn)

    def _note_crash(self, site: Site) -> None:
        if self._on_step is not None:
            self._steps += 1
            self._on_step(
                Step(kind="crash", n=self._steps, at_ms=int(self.now), host=site.name, turn=Turn({}, {}, []))
            )

    def _idle(self) -> bool:
        """Nobody wants anything any more. Looked at now and then, since timers of quiet hosts go on for ever."""
        if self._seq % 16:
            return False
        if any(seat.phase is not Phase.STOPPED for seat in self.seats.seats):
            return False
        return not any(self.system.entries(site.host) for site in self.sites.values())
