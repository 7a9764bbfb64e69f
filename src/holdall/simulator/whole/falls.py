"""Faults strike: which node, client or part of the bus a blow hits, and how what fell comes up again."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdall.machine.contract import Address, Boot, Received
from holdall.machine.host import SEPARATOR, Arrival, Turn
from holdall.machine.trace import Kind
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import DIRECTORY, MEMBER_PREFIX, ForgetNode, Member
from holdall.parties.messages import NODE
from holdall.simulator.faults import Strike
from holdall.simulator.sites import State
from holdall.simulator.whole.computers import SOCKET_MS, Computer
from holdall.simulator.whole.figures import Tally
from holdall.simulator.whole.judge import WholeJudge
from holdall.simulator.whole.net import Net
from holdall.simulator.whole.seats import WholeSeats
from holdall.simulator.whole.setup import QUIET, WholeSetup, node_id
from holdall.simulator.whole.story import Story

_BUS = frozenset({"split", "oneway", "bridge", "bus", "slow"})
_WITH_CLIENTS = frozenset({"reboot", "unsynced"})
"""Faults of the whole computer."""
DOWN_MS = 1_500.0
AGAIN_MS = 1_500.0
"""Pause before what did not succeed is tried again."""
FORGOTTEN_AT_ONCE = 0.5
"""Share of lost disks after which an operator forgets the old id before the node starts anew."""
LONGEST_TTLS = 2.0
"""Nothing stands still or is cut for longer than so many ttls."""


class Struck(Protocol):
    """What falls ask of the run."""

    setup: WholeSetup
    now: float
    tally: Tally
    net: Net
    story: Story
    seats: WholeSeats
    judge: WholeJudge

    @property
    def computers(self) -> Sequence[Computer]:
        """All of the run."""
        ...

    def later(self, after: float, call: Callable[..., None], *what: Any) -> None:
        """Call it after so much true time."""
        ...

    def arrive(self, computer: Computer, arrival: Arrival) -> None:
        """Something has reached a node."""
        ...

    def goes_on(self, computer: Computer) -> None:
        """The node is up again, or stands still no more."""
        ...

    def note(self, computer: Computer, kind: Kind, arrivals: tuple[Arrival, ...], turn: Turn) -> None:
        """A step of the trace."""
        ...

    def carry(
        self,
        computer: Computer,
        kind: Kind,
        arrivals: tuple[Arrival, ...],
        turn: Turn,
        boot: Boot | None = None,
    ) -> None:
        """Save, arm, send."""
        ...

    def rebuilt(self, computer: Computer) -> None:
        """The node's process starts again: fresh machines."""
        ...

    def known_as(self, computer: Computer, node: str) -> None:
        """The computer's node has another id from its next start on."""
        ...


class WholeFalls:
    """All blows of a run."""

    def __init__(self, run: Struck, chance: random.Random) -> None:
        self._run = run
        self._chance = chance
        self._latest = run.setup.duration_ms * QUIET

    def strike(self, strike: Strike) -> None:
        """The blow's time has come; a node that is not up, or marked already, is not hit."""
        run = self._run
        until = self._until(strike)
        if strike.kind in _BUS:
            run.tally.faults[strike.kind] += 1
            run.net.strike(strike.kind, run.now, until, strike.victim)
            run.story.fault(strike.kind, run.now, until)
            return
        if strike.kind == "kill":
            run.seats.kill(strike.victim)
            return
        if strike.kind == "nap":
            run.seats.nap(strike.victim, until)
            return
        computer = run.computers[int(strike.victim * len(run.computers))]
        if computer.site.state is not State.UP or computer.site.cut is not None:
            return
        run.tally.faults[strike.kind] += 1
        if strike.kind == "crash":
            computer.site.cut = strike
            run.goes_on(computer)
        else:
            self.fall(computer, strike)

    def fall(self, computer: Computer, strike: Strike) -> None:
        """The node stands still, or is down: timers are gone, and what was on its way into it."""
        run, site = self._run, computer.site
        site.resume_at = self._until(strike)
        run.story.fault(strike.kind, run.now, site.resume_at)
        if strike.kind == "pause":
            site.state = State.PAUSED
            run.later(site.resume_at - run.now, self._go_on, computer)
            return
        self._go_down(computer)
        if strike.kind in _WITH_CLIENTS:
            run.seats.kill_all(computer.number, site.resume_at)
        run.later(site.resume_at - run.now, self._recover, computer, strike.kind)

    def _until(self, strike: Strike) -> float:
        """Long and short ones; all are over before the quiet part of the run."""
        run = self._run
        share = min((strike.down - 1.0) / 10.0, LONGEST_TTLS)
        if strike.kind in {"crash", "restart", "reboot", "unsynced", "wipe"}:
            length = 50.0 + share * DOWN_MS
        else:
            length = 50.0 + share * run.setup.ttl_ms
        return min(run.now + length, max(self._latest, run.now + 1.0))

    def _go_on(self, computer: Computer) -> None:
        computer.site.state = State.UP
        self._run.goes_on(computer)

    def _recover(self, computer: Computer, kind: str) -> None:
        run, site = self._run, computer.site
        if kind == "wipe":
            self._lose_identity(computer)
        boot = site.boot(kind, now=computer.clock(run.now), ttl_ms=run.setup.ttl_max_ms, chance=self._chance)
        if kind in _WITH_CLIENTS:
            computer.rebooted(run.now)
        if kind == "wipe":
            for member in self._join(computer):
                key = f"{DIRECTORY}{SEPARATOR}{MEMBER_PREFIX}{member.node}"
                site.records[key] = site.undone[key] = member
        run.rebuilt(computer)
        run.judge.restarted(computer.name)
        run.carry(computer, "recover", (), site.host.recover(dict(site.records), boot), boot)
        run.goes_on(computer)

    # ------------------------------------------------------------ a node that has lost its disk

    def _lose_identity(self, computer: Computer) -> None:
        """The key was on the disk: another id from now on, and an operator has the old one forgotten, sooner or later."""
        old = computer.site.host.node
        computer.lives += 1
        computer.site.name = node_id(computer.number, computer.lives)
        self._run.known_as(computer, computer.site.name)
        if self._chance.random() < FORGOTTEN_AT_ONCE:
            self._forget(old)
        else:
            self._run.later(max(0.0, self._latest - self._run.now), self._forget, old)

    def _forget(self, node: str) -> None:
        """An operator says so at a node that is there, again until one has heard it."""
        run = self._run
        there = [
            computer for computer in run.computers if computer.is_open and computer.site.state is State.UP
        ]
        if there and len(run.computers) > 1:
            computer = self._chance.choice(there)
            sender = Address(computer.site.host.node, NODE)
            run.arrive(computer, Arrival(DIRECTORY, Received(sender, ForgetNode(1, node))))
        if not all(node in _tombstones(computer) for computer in there) or not there:
            run.later(AGAIN_MS, self._forget, node)

    def _join(self, computer: Computer) -> list[Member]:
        """What the node that it joins at tells of all."""
        return [
            Member(other.site.host.node, other.name) for other in self._run.computers if other is not computer
        ]

    def refused(self, computer: Computer, text: str) -> None:
        """`text`: why. The others have something against this start: its process ends, and somebody starts it again."""
        run = self._run
        run.tally.denied[f"start: {text.partition(' (')[0]}"] += 1
        self._go_down(computer)
        run.later(AGAIN_MS, self._recover, computer, "restart")

    def _go_down(self, computer: Computer) -> None:
        """The node's process is gone; its connections break."""
        run, site = self._run, computer.site
        site.state = State.DOWN
        site.timers.clear()
        site.incarnation += 1  # answers to the process that was are nobody's
        run.note(computer, "crash", (), Turn({}, {}, []))
        for connection, client in computer.fallen():
            run.later(SOCKET_MS, run.seats.hear, client, connection, None)


def _tombstones(computer: Computer) -> frozenset[str]:
    directory = computer.site.host.parts[DIRECTORY]
    return frozenset(directory.state.tombstones) if isinstance(directory, Directory) else frozenset()
