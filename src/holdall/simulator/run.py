"""One seeded run: hosts with shipped machines, a heap of virtual time, delays, faults, clients and the judge.

Inside, times are milliseconds of virtual time; a mean message delay is `DELAY_MS`. Every draw comes from a
generator that the seed fixes, so a seed reproduces its run, message by message.
"""

import heapq
import random
from collections.abc import Callable
from enum import IntEnum
from math import log
from typing import Any

import msgspec

from holdall.leases.records import FENCE_KEY
from holdall.machine.contract import (
    Address,
    Boot,
    ClockRead,
    Message,
    ProtocolViolation,
    Received,
    Record,
    SetTimer,
)
from holdall.machine.host import SEPARATOR, Arrival, Host, Turn
from holdall.machine.trace import Kind, Step
from holdall.protocols.vocabulary import ClaimId
from holdall.simulator.clients import Action, Driver, Phase, Seat, Seats
from holdall.simulator.faults import Strike, strikes
from holdall.simulator.figures import WARM_UP, Figures, Meter
from holdall.simulator.judge import Judge
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.systems import AGENT, CLAIMANT, MANAGER, System, system

FENCE = f"{MANAGER}{SEPARATOR}{FENCE_KEY}"
DRAIN = 50.0
"""Once clients claim no more, everything must be over within so many ttls and holds."""
SETTLED_MS = 0.002
"""A host that goes on first hears its timers, then what arrived meanwhile; then its client acts."""
UNDO_TURNS = 20
"""How many turns an unsynced journal may lack."""

MESSAGE, TIMER, CLIENT, STRIKE, RISE = range(5)
"""What an entry of the heap is."""


class State(IntEnum):
    """Of a host."""

    UP = 0
    PAUSED = 1
    """Stands still; what arrives waits for it."""
    DOWN = 2
    """What arrives is lost."""


class Report(msgspec.Struct, kw_only=True):
    """What a run showed."""

    figures: Figures
    violations: list[str]
    ended_at: float
    """Virtual time when the last entry was gone, in mean message delays."""
    delivered: int
    """Messages that were delivered."""


class Site:
    """A host, with what a driver keeps for it."""

    __slots__ = (
        "cut", "epoch", "fence_base", "host", "incarnation", "name", "quarantine_until", "records", "resume_at",
        "settling", "state", "timers", "undo",
    )  # fmt: skip

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.records: dict[str, Record] = {}
        self.timers: dict[str, int] = {}
        self.state = State.UP
        self.resume_at = 0.0
        self.settling = False
        """It has just gone on after a pause, and not heard yet what was due meanwhile."""
        self.cut: Strike | None = None
        self.epoch = 1
        self.incarnation = 1
        # what a node keeps in its boot record, beside the journal
        self.fence_base = 0
        self.quarantine_until = 0.0
        self.undo: list[dict[str, Record | None]] = []


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
                self._strike(a)
            else:
                self._rise(a, b, c)
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
                    kept=boot is None or boot.kind != "lost", turn=turn,
                )
            )  # fmt: skip
        if self._faulty:
            self._save(site, turn)
        if turn.timers:
            self._arm(site, turn)
        if turn.saves and site.name in self._owners:
            # what is given is always saved, so other turns change nothing
            self.judge.used(site.name, self.system.given(site.host))
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
            self._fall(site, strike)

    def _inside(self, site: Site, to: Address, message: Message) -> None:
        """What a part says to its driver: the clients hear what the claimant tells its agent."""
        if not self.seats.told(site.name, message):
            return
        departure = self.setup.faults.departure
        if departure and self.now < self._end and self._chance.random() < departure:
            self.meter.faults["departure"] += 1
            self._push(self.now, RISE, site, "departure", None)

    def _save(self, site: Site, turn: Turn) -> None:
        before: dict[str, Record | None] = {}
        for key, record in turn.saves.items():
            before[key] = site.records.get(key)
            if record is None:
                site.records.pop(key, None)
            else:
                site.records[key] = record
        if self.setup.faults.unsynced and before:
            site.undo.append(before)
            del site.undo[:-UNDO_TURNS]

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

    # Faults of hosts

    def _strike(self, strike: Strike) -> None:
        owners = [self.sites[name] for name in sorted(self._owners)]
        claimants = [self.sites[seat.host] for seat in self.seats.seats]
        match strike.kind:
            case "crash" | "restart":
                # nodes with pools and claimants' hosts have the same chance, however many there are
                half = strike.victim * 2
                victims, place = (owners, half) if half < 1 else (claimants, half - 1)
            case "pause":
                victims, place = claimants, strike.victim
            case _:
                victims, place = owners, strike.victim
        site = victims[int(place * len(victims))]
        if site.state is not State.UP or site.cut is not None:
            return
        self.meter.faults[strike.kind] += 1
        if strike.kind == "crash":
            site.cut = strike
        else:
            self._fall(site, strike)

    def _fall(self, site: Site, strike: Strike) -> None:
        """The host stands still, or is down: timers are gone, and any part of the messages in flight to it."""
        site.resume_at = self.now + strike.down * DELAY_MS
        self.seats.suspend(site.name)
        if strike.kind == "pause":
            site.state = State.PAUSED
            site.resume_at = self.now + self._chance.random() * 2 * self.setup.ttl * DELAY_MS
        else:
            site.state = State.DOWN
            site.timers.clear()
            self._note_crash(site)
            self._heap = [
                entry
                for entry in self._heap
                if entry[2] != MESSAGE or entry[3] is not site or self._chance.random() < 0.5
            ]
            heapq.heapify(self._heap)
        self._push(site.resume_at, RISE, site, strike.kind, None)

    def _rise(self, site: Site, kind: str, _: None) -> None:
        """The host goes on, comes up again, or has fallen silent for ever."""
        if kind == "departure":
            self._depart(site)
            return
        if kind == "pause":
            # what is due has a later place in the heap at this same time; then the client goes on
            site.state = State.UP
            site.settling = True
            self._push(self.now + SETTLED_MS / 2, RISE, site, "settled", None)
            return
        if kind == "settled":
            site.settling = False
            claim = self.seats.suspended(site.name)
            if claim is not None and self.system.may_go_on(site.host, claim):
                self.seats.resume(site.name)
            return
        site.state = State.UP
        site.incarnation += 1
        if kind in {"reboot", "unsynced", "wipe"}:
            site.epoch += 1
            site.fence_base = site.epoch << 20 if kind == "wipe" else site.fence_base
        if kind in {"unsynced", "wipe"}:
            site.quarantine_until = self.now + int(self.setup.ttl_ms * 1.02) + 1
        if kind == "wipe":
            site.records.clear()
            site.undo.clear()
        elif kind == "unsynced":
            self._unsync(site)
        boot = Boot(
            {"reboot": "reboot", "unsynced": "reboot", "wipe": "lost"}.get(kind, "same"),
            site.epoch,
            site.incarnation,
            max(0, int(site.quarantine_until - self.now)),
            site.fence_base,
        )
        site.host = self.system.host(site.name)
        self.system.restarted(site.name)
        self._carry(site, "recover", (), site.host.recover(dict(site.records), boot), boot)

    def _unsync(self, site: Site) -> None:
        """The journal's last turns were never on the disk; blocks of fences always are."""
        for before in reversed(site.undo[self._chance.randint(0, len(site.undo)) :]):
            for key, record in before.items():
                if key == FENCE:
                    continue
                if record is None:
                    site.records.pop(key, None)
                else:
                    site.records[key] = record
        site.undo.clear()

    def _depart(self, site: Site) -> None:
        seat = self.seats.by_host.get(site.name)
        if seat is None or site.state is not State.UP:
            return
        site.state = State.DOWN
        site.timers.clear()
        self._note_crash(site)
        del self.sites[site.name]
        self._begin(self.seats.replace(seat))

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
