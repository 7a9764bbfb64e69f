"""How far a failure reaches: a holder in a ring dies for good, and others wait for what it held.

Every client of the ring wants the two pools beside it, again and again. At a moment of its hold one client's host
falls silent for ever. Without leases its units never come back, and whoever waits for them, or for somebody who
waits for them, waits for ever. With leases the units come back when the lease has run out. Source: history of the
lanes, section 3.7.
"""

import msgspec

from holdall.lab.compare.contestants import Contestant
from holdall.machine.trace import Step
from holdall.protocols.vocabulary import Granted
from holdall.simulator.clients import Phase, Seat
from holdall.simulator.run import Run
from holdall.simulator.setup import DELAY_MS
from holdall.simulator.sites import State
from holdall.simulator.workload import Workload

DEATH = 200.0
"""From this moment on the victim dies in its next hold."""
SETTLE = 800.0
"""Without leases clients claim anew for so long after the death: the queues of those who wait for those who wait grow meanwhile."""
NEVER = float("inf")


class ExtentCase(msgspec.Struct, frozen=True, kw_only=True):
    """One death. Times in mean message delays."""

    contestant: Contestant
    pools: int
    """Of the ring, and clients on it."""
    victim: int
    """Number of the client that dies."""
    leases: bool
    seed: int = 1
    think: float = 1.0
    hold: float = 5.0
    ttl: float = 60.0

    @property
    def title(self) -> str:
        """For the line of progress."""
        return f"{self.contestant.name}: holder {self.victim} of {self.pools} dies"


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """What a death did to the others. Times in mean message delays."""

    name: str
    pools: int
    victim: int
    leases: bool
    seed: int
    died: float
    """When."""
    blocked: list[int]
    """Without leases: clients that are never served again; with leases: those that were granted nothing from the
    death until the lease was over."""
    farthest: int
    """Most places on the ring between the dead client and a blocked one."""
    longest: float | None
    """With leases: longest wait of a blocked client from the death on; None without, where it has no end."""
    back: float | None
    """With leases: from the death until both its units were set aside for others by their managers."""
    served: float | None
    """With leases: from the death until both its neighbours on the ring were granted all they wanted."""
    ttl: float
    hold: float
    violations: list[str]

    @property
    def recovered(self) -> bool:
        """Whether the units were with others within one ttl and two holds."""
        return self.back is not None and self.back <= self.ttl + 2 * self.hold


class _Watch:
    """Sees every turn: kills the victim in a hold, and notes each client's grants after that."""

    def __init__(self, case: ExtentCase) -> None:
        self.case = case
        self.died: float | None = None
        self.granted: dict[int, float] = {}
        """Client -> its first grant after the death."""
        self.run: Run | None = None
        self.missing: dict[tuple[str, str, str], int] = {}
        """(node, pool, unit) -> fence of those units of the dead that nobody else has yet."""
        self.back: float | None = None

    def step(self, step: Step) -> None:
        """A turn is over; grants of this turn are told to clients right after it."""
        run = self.run
        if run is None:
            return
        now = run.now / DELAY_MS
        if self.died is None:
            victim = run.seats.seats[self.case.victim]
            if now >= DEATH and victim.phase is Phase.HOLDING:
                self._kill(run, victim)
                self.died = now
            return
        if self.missing:
            self._look(run, step.host, now)
        for _, to, message in step.turn.sends:
            if to.node == step.host and isinstance(message, Granted):
                seat = run.seats.by_host.get(step.host)
                if seat is not None:
                    self.granted.setdefault(seat.number, now)

    def _look(self, run: Run, host: str, now: float) -> None:
        """Whether this turn gave units of the dead to somebody else."""
        mine = [unit for unit in self.missing if unit[0] == host]
        held = (run.system.set_aside(run.sites[host].host) or {}) if mine else {}
        for unit in mine:
            if held.get(unit[1:], 0) > self.missing[unit]:
                del self.missing[unit]
        if not self.missing:
            self.back = now

    def _kill(self, run: Run, victim: Seat) -> None:
        self.missing = {(unit.node, unit.pool, unit.unit): unit.fence for unit in victim.units}
        site = run.sites[victim.host]
        site.state = State.DOWN
        site.resume_at = NEVER
        run.judge.stopped(victim.number, victim.units)


def extent(case: ExtentCase) -> Extent:
    """Kill one holder, and see who waits.

    With leases clients go on for five of them; where the victim held nothing for so long, or its neighbours were not served by
    then (a token takes its time on a long ring), once more, two and four times as long.
    """
    found = _for(case, 1)
    for longer in (2, 4):
        if not case.leases or None not in {found.back, found.served}:
            break
        found = _for(case, longer)
    return found


def _for(case: ExtentCase, times: int) -> Extent:
    until = DEATH + (5 * times * case.ttl if case.leases else SETTLE)
    workload = Workload(
        shape="ring", pools=case.pools, nodes=case.pools, load="saturated", think=case.think, hold=case.hold
    )
    setup = msgspec.structs.replace(
        case.contestant.setup(workload, seed=case.seed, duration=until), ttl=case.ttl, leases=case.leases
    )
    watch = _Watch(case)
    run = watch.run = Run(setup, on_step=watch.step)
    report = run.run()
    if watch.died is None:
        report.violations.append(f"its holder never held anything from {DEATH:.0f} to {until:.0f} delays")
        watch.died = until
    return _extent(case, watch, watch.died, run, report.violations)


def _extent(case: ExtentCase, watch: _Watch, died: float, run: Run, violations: list[str]) -> Extent:
    others = [seat for seat in run.seats.seats if seat.number != case.victim]
    first = {seat.number: watch.granted.get(seat.number, NEVER) for seat in others}
    if case.leases:
        blocked = [number for number, when in first.items() if when > died + case.ttl]
    else:
        blocked = [seat.number for seat in others if seat.phase is Phase.WAITING]
    neighbours = [(case.victim + step) % case.pools for step in (-1, 1)]
    served = max(first[number] for number in neighbours) - died
    waits = [first[number] - died for number in blocked]
    return Extent(
        name=case.contestant.name,
        pools=case.pools,
        victim=case.victim,
        leases=case.leases,
        seed=case.seed,
        died=died,
        blocked=sorted(blocked),
        farthest=max((_apart(number, case) for number in blocked), default=0),
        longest=max(waits, default=0.0) if case.leases else None,
        back=watch.back - died if case.leases and watch.back is not None else None,
        served=served if case.leases and served < NEVER else None,
        ttl=case.ttl,
        hold=case.hold,
        violations=[text for text in violations if not text.startswith(_meant(case))],
    )


def _apart(number: int, case: ExtentCase) -> int:
    way = abs(number - case.victim)
    return min(way, case.pools - way)


def _meant(case: ExtentCase) -> tuple[str, ...]:
    """What is measured here, so the judge's word about it is no violation."""
    return ("left over",) if case.leases else ("left over", "starvation")
