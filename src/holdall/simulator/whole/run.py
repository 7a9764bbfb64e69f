"""One seeded run of whole nodes: a heap of true time, turns as a node's loop makes them, frames on a bus.

Every draw comes from a generator that the seed fixes, so a seed reproduces its run, frame by frame.
"""

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from holdall.checker.records import AnyRecord
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, Message, ProtocolViolation, Received, SetTimer
from holdall.machine.host import Arrival, Turn
from holdall.machine.link import LINK
from holdall.machine.link_orders import AllParts, Shun
from holdall.machine.trace import Kind, Step
from holdall.model import frames
from holdall.parties.directory.messages import BUS, DIRECTORY, MayServe, MustStop, Shunned, StartRefused
from holdall.parties.messages import HOOKS, MANAGER, NODE, PROCESSES, SESSION, RunHook, WatchProcess
from holdall.parties.reading import AnySide
from holdall.simulator.faults import strikes
from holdall.simulator.sites import Site, State
from holdall.simulator.whole.computers import SOCKET_MS, Computer, hook_result
from holdall.simulator.whole.falls import WholeFalls
from holdall.simulator.whole.figures import Tally, WholeFigures
from holdall.simulator.whole.judge import WholeJudge, left_over
from holdall.simulator.whole.net import Net
from holdall.simulator.whole.seats import WholeSeats
from holdall.simulator.whole.setup import CALM, QUIET, WholeSetup, builder, node_id, node_name
from holdall.simulator.whole.story import Story
from holdall.simulator.whole.wishes import Series

LOOK_MS = 250.0
"""How often a run that should end is looked at."""
TURN_MS = (0.1, 1.0)
"""A turn with its commit takes so long; what arrives meanwhile waits for the next one."""
BEGIN_MS = 500.0
"""All nodes start within this time."""


class WholeReport(msgspec.Struct, kw_only=True):
    """What a run showed."""

    figures: WholeFigures
    violations: list[str]
    ended_ms: float


class WholeRun:
    """Made once, run once."""

    def __init__(
        self,
        setup: WholeSetup,
        *,
        on_step: Callable[[Step], None] | None = None,
        on_record: Callable[[AnyRecord], None] | None = None,
        on_frame: Callable[[int, int, Message], None] | None = None,
        scripts: Mapping[int, Sequence[Series]] | None = None,
    ) -> None:
        """`on_step` hears of every turn (for a trace), `on_record` of what a history is made of.

        `on_frame` hears of every frame that is posted: (number of its node, of the receiver, frame). `scripts`: further
        clients, by their node.
        """
        self.setup = setup
        self.now = 0.0
        self.judge = WholeJudge(setup)
        self.tally = Tally()
        self._on_step = on_step
        self._on_frame = on_frame
        self._steps = 0
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._seq = 0
        self._chance = random.Random(f"holdall whole {setup.seed}")
        self._quiet = setup.duration_ms * QUIET
        self._faulty = setup.faults.any()
        self._build = builder(setup)
        self.net = Net(setup)
        self.story = Story(on_record or (lambda _: None))
        self.computers = [
            Computer(
                number,
                node_name(number),
                Site(node_id(number), self._build(node_id(number))),
                self._chance,
                drift=setup.drift,
            )
            for number in range(setup.nodes)
        ]
        for computer in self.computers:
            computer.site.state = State.DOWN
        self._by_id = {computer.site.host.node: computer for computer in self.computers}
        self.seats = WholeSeats(
            setup, self, self.computers, judge=self.judge, story=self.story, tally=self.tally
        )
        self.falls = WholeFalls(self, self._chance)
        self._scripts = dict(scripts or {})

    # ------------------------------------------------------------ from the first to the last event

    def run(self) -> WholeReport:
        """To the end: everything over, a violation, or the time to drain used up."""
        setup = self.setup
        self.story.meta(setup)
        for computer in self.computers:
            self.later(self._chance.random() * BEGIN_MS, self._begin, computer)
        self.seats.begin(self._scripts)
        seconds = setup.duration_ms / 1000
        for strike in strikes(setup.faults, seed=setup.seed, duration=seconds, last=CALM):
            self.later(strike.at * 1000, self.falls.strike, strike)
        self.later(setup.duration_ms, self._end)
        limit = setup.duration_ms + setup.drain_ms
        violations = self.judge.violations
        while self._heap and not violations:
            at, _, call, what = heapq.heappop(self._heap)
            if at > limit:
                self._too_late()
                break
            self.now = at
            call(*what)
        self._count_links()
        return WholeReport(
            figures=self.tally.figures(max(0.0, self.now - setup.duration_ms)),
            violations=list(violations),
            ended_ms=self.now,
        )

    def later(self, after: float, call: Callable[..., None], *what: Any) -> None:
        """Call it after so much true time."""
        self._seq += 1
        heapq.heappush(self._heap, (self.now + max(0.0, after), self._seq, call, what))

    def _begin(self, computer: Computer) -> None:
        computer.site.state = State.UP
        self.carry(computer, "start", (), computer.site.host.start())
        self._wake(computer)

    def _end(self) -> None:
        """From here on clients claim no more."""
        self.seats.stop()
        self._look()

    def _look(self) -> None:
        if self.seats.finish() and not any(self._left(computer) for computer in self.computers):
            self._audit()
            self._heap.clear()
        else:
            self.later(LOOK_MS, self._look)

    def _too_late(self) -> None:
        self.judge.unserved(self.seats.waiting())
        for computer in self.computers:
            self.judge.at_the_end(computer.name, self._left(computer))

    def _left(self, computer: Computer) -> list[str]:
        return left_over(computer.site.host, computer.site.records)

    def _audit(self) -> None:
        """The books of all nodes at rest, for the history."""
        pools: dict[str, list[tuple[str, int]]] = {}
        for computer in self.computers:
            side = computer.site.host.parts[MANAGER]
            for units in side.book.service.pools.values() if isinstance(side, AnySide) else ():
                pools.setdefault(units.spec.name, []).extend(
                    (f"{unit.name}@{computer.name}", unit.fence) for unit in units.units.values()
                )
        for pool, fences in sorted(pools.items()):
            self.story.audit(pool, total=len(fences), free=len(fences), at=self.now, fences=dict(fences))
        self.story.end(self.now)

    # ------------------------------------------------------------ turns

    def arrive(self, computer: Computer, arrival: Arrival) -> None:
        """Something has reached a node; one that stands still finds it when it goes on."""
        if computer.site.state is not State.DOWN:
            computer.inbox.append(arrival)
            self._wake(computer)

    def _wake(self, computer: Computer) -> None:
        if not computer.is_waking:
            computer.is_waking = True
            self.later(computer.busy_until - self.now, self._turn, computer)

    def goes_on(self, computer: Computer) -> None:
        """The node is up again, or stands still no more."""
        self._wake(computer)

    def _turn(self, computer: Computer) -> None:
        computer.is_waking = False
        site = computer.site
        if site.state is not State.UP:
            return
        arrivals = (
            *computer.told(self.now),
            *(site.host.fire(name) for name in computer.due),
            *computer.inbox,
        )
        computer.due.clear()
        computer.inbox.clear()
        turn = site.host.turn(arrivals, lambda _, error: self._refused(computer, error))
        if self.setup.jitter:
            computer.busy_until = self.now + self._chance.uniform(*TURN_MS)
        self.tally.counts["turns"] += 1
        self.carry(computer, "turn", arrivals, turn)

    def _refused(self, computer: Computer, error: ProtocolViolation) -> None:
        """No correct neighbour is refused, but for one that speaks of what a journal has lost."""
        self.tally.counts["refused"] += 1
        if not (self.setup.faults.unsynced or self.setup.faults.wipe):
            self.judge.refused(computer.name, str(error))

    def carry(
        self,
        computer: Computer,
        kind: Kind,
        arrivals: tuple[Arrival, ...],
        turn: Turn,
        boot: Boot | None = None,
    ) -> None:
        """A driver's duties, in their order: save, arm, send. A marked node dies before some of its sends."""
        site = computer.site
        self.note(computer, kind, arrivals, turn, boot)
        site.save(turn.saves, undo=self.setup.faults.unsynced > 0)
        self._arm(computer, turn)
        if any(key.startswith(MANAGER) for key in turn.saves):
            self.judge.books(computer.name, site.host)
        strike = site.cut
        leaving = len(turn.sends) if strike is None else self._chance.randint(0, len(turn.sends))
        for sender, to, message in turn.sends[:leaving]:
            if to.node == site.host.node and to.part != BUS:
                self._out_of_port(computer, sender, to, message)
            else:
                self._post(computer, sender, to, message)
        if strike is not None:
            site.cut = None
            self.falls.fall(computer, strike)

    def note(
        self,
        computer: Computer,
        kind: Kind,
        arrivals: tuple[Arrival, ...],
        turn: Turn,
        boot: Boot | None = None,
    ) -> None:
        """A step of the trace."""
        if self._on_step is not None:
            self._steps += 1
            self._on_step(
                Step(
                    kind=kind, n=self._steps, at_ms=int(self.now), host=computer.site.host.node, arrivals=arrivals,
                    boot=boot, kept=boot is None or boot.kind != "lost",
                    undone=computer.site.undone if boot else {}, turn=turn,
                )
            )  # fmt: skip

    def _arm(self, computer: Computer, turn: Turn) -> None:
        for name, timer in turn.timers.items():
            if isinstance(timer, SetTimer):
                spread = self._chance.randint(0, timer.spread_ms) if timer.spread_ms else 0
                computer.site.timers[name] = self._seq
                after = (timer.after_ms + spread) / computer.rate
                self.later(after, self._fire, computer, name, self._seq)
            else:
                computer.site.timers.pop(name, None)

    def _fire(self, computer: Computer, name: str, token: int) -> None:
        site = computer.site
        if site.timers.get(name) != token:
            return
        if site.state is State.PAUSED:
            self.later(site.resume_at - self.now, self._fire, computer, name, token)
        elif site.state is State.UP:
            del site.timers[name]
            computer.due.append(name)
            self._wake(computer)

    # ------------------------------------------------------------ the bus and the ports

    def _post(self, computer: Computer, sender: Address, to: Address, message: Message) -> None:
        body = CODEC.encode(message)
        if self._on_frame is not None and to.node in self._by_id:
            self._on_frame(computer.number, self._by_id[to.node].number, message)
        self.tally.counts["frames"] += 1
        self.tally.bytes += len(body)
        self.tally.messages[type(message).__name__] += 1
        receiver = self._by_id.get(to.node)
        if receiver is None:
            self.tally.counts["to nobody"] += 1
            return
        strikes_now = self._faulty and self.now < self._quiet
        for delay in self.net.delays(computer.number, receiver.number, self.now, strikes=strikes_now):
            self.later(delay, self._arrives, receiver, sender, to, body)

    def _arrives(self, receiver: Computer, sender: Address, to: Address, body: bytes) -> None:
        if receiver.site.host.node != to.node:
            return
        if sender.node == to.node:
            # what a directory tells whoever else has its identity, and it alone
            self.arrive(receiver, Arrival(DIRECTORY, Received(Address(sender.node, BUS), CODEC.decode(body))))
        else:
            self.arrive(receiver, Arrival(to.part, Received(sender, CODEC.decode(body))))

    def _out_of_port(self, computer: Computer, sender: Address, to: Address, message: Message) -> None:
        """What a node says to its clients, to its runner of commands, to who watches processes."""
        if to.part.startswith(SESSION):
            connection = to.part.removeprefix(SESSION)
            client = computer.connections.get(connection)
            if client is not None:
                frame = cast("frames.FromNode", message)
                self.later(SOCKET_MS, self.seats.hear, client, connection, frame)
        elif to.part == HOOKS and isinstance(message, RunHook):
            after, done = hook_result(message, self._chance, fails=0.0)
            answer = Arrival(sender.part, Received(Address(computer.site.host.node, HOOKS), done))
            self.later(after, self._answers, computer, computer.site.incarnation, answer)
        elif to.part == NODE:
            self._told_by_directory(computer, message)
        elif to.part == PROCESSES and isinstance(message, WatchProcess):
            if self.seats.lives(message.pid):
                computer.watched[message.session] = message.pid
            else:
                self.later(SOCKET_MS, self.seats.process_gone, computer, message.session)

    def _told_by_directory(self, computer: Computer, message: Message) -> None:
        match message:
            case MayServe():
                computer.is_open = True
                self._order(computer, AllParts())
            case Shunned(node):
                self._order(computer, Shun(node))
            case StartRefused(text) | MustStop(text):
                self.falls.refused(computer, text)
            case _:
                pass

    def _order(self, computer: Computer, order: Message) -> None:
        """What the driver tells its own link."""
        told = Received(Address(computer.site.host.node, NODE), order)
        self.arrive(computer, Arrival(LINK, told))

    def _answers(self, computer: Computer, incarnation: int, answer: Arrival) -> None:
        """An order's answer reaches the process that gave the order, or nobody."""
        if computer.site.incarnation == incarnation:
            self.arrive(computer, answer)

    def rebuilt(self, computer: Computer) -> None:
        """The node's process starts again: fresh machines."""
        self._count_link(computer)
        computer.site.host = self._build(computer.site.name)

    def known_as(self, computer: Computer, node: str) -> None:
        """The computer's node has another id from its next start on."""
        self._by_id.pop(computer.site.host.node, None)
        self._by_id[node] = computer

    def _count_link(self, computer: Computer) -> None:
        link = computer.site.host.link
        if link is not None:
            self.tally.link.update(msgspec.structs.asdict(link.counts))

    def _count_links(self) -> None:
        for computer in self.computers:
            self._count_link(computer)
        for kind, count in self.net.lost.items():
            self.tally.faults[kind] = count
        for kind, count in (("duplicate", self.net.doubled), ("reorder", self.net.overtaken)):
            if count:
                self.tally.faults[kind] = count
