"""All moves of a closed world: what may happen next in a state, and what comes of it.

A state is a tuple of numbers: the local state of each host, the messages in flight (bits), the scene (clients and
faults left). Moves that need not happen are faults; all others happen in the end, so being served is judged by them.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdall.explorer.mail import Mail, bits, subsets
from holdall.explorer.table import Events, HostTable, Notices, Outcome
from holdall.machine.contract import Boot
from holdall.machine.host import Arrival
from holdall.world.clients import Act, Clients, Lease, Scene
from holdall.world.faults import KINDS, Budget, repairs_needed, spend
from holdall.world.system import System

State: TypeAlias = tuple[int, ...]
Timers: TypeAlias = Literal["off", "quiet", "any"]

BOOT_KIND = {"crash": "same", "restart": "same", "reboot": "reboot", "wipe": "lost"}


class Move(NamedTuple):
    """One move, as much as is needed to tell it. `host` is a number, `what` a message, an event or -1."""

    kind: str
    """deliver, act, timer, lose, repeat, or crash, restart, reboot, wipe."""
    host: int
    what: int = -1
    timer: str = ""
    lost: int = 0
    """Messages in flight that vanish with it."""
    within: str = ""
    """With crash: kind of the turn that it cut, whose message, event or timer stands here; empty: between turns."""
    cut: int = 0
    """So many messages of that turn have left."""
    text: str = ""


class Ready(NamedTuple):
    """An act of the scene, prepared: number of its event (-1: none) and of the scene after it."""

    act: Act
    host: int
    event: int
    arrival: Arrival | None
    then: int


class Step(NamedTuple):
    """A move and the state it leads to; `wrong` when a machine refused what a neighbour sent."""

    move: Move
    state: State
    progress: bool
    wrong: str = ""


class Space:
    """The moves of one world under given faults."""

    fresh = frozenset({"reboot", "wipe"})
    """Moves after which a host has a new number."""

    def __init__(
        self,
        system: System,
        left: Budget,
        *,
        timers: Timers | None = None,
        claimants_crash: bool = True,
        falling: str = "",
        reduced: bool = False,
    ) -> None:
        """`falling`: the only host that crashes or comes up anew; empty: each may. One run per host covers one fall.

        `reduced`: a message that makes no difference whenever it comes is delivered first, and nothing else then.

        That keeps every property (such moves are confluent and seen by nobody). Not with faults that touch single
        messages or records, nor with repair timers: to those, such a message does make a difference.
        """
        self.system = system
        self.clients = Clients(system.world, left, system.placed)
        self.names = system.hosts()
        self.nodes = len(system.world.nodes())
        self.mail = Mail(self.names)
        self.notices = Notices()
        self.events = Events()
        self.timers: Timers = timers or ("quiet" if repairs_needed(left) else "off")
        if reduced and (self.timers != "off" or repairs_needed(left)):
            raise ValueError("no reduction with repair timers or faults that lose or repeat messages")
        self._reduced = reduced
        self._first: dict[tuple[int, int], bool] = {}
        counts = dict(zip(KINDS, left, strict=True))
        crashes = bool(counts["crash"] or counts["restart"])
        self.tables = [
            HostTable(
                name,
                system,
                self.mail,
                self.notices,
                timers=self.timers != "off",
                records=(crashes and (number < self.nodes or claimants_crash))
                or (bool(counts["reboot"]) and number < self.nodes),
                meter=system.world.meter and number < self.nodes,
            )
            for number, name in enumerate(self.names)
        ]
        self.scenes: list[Scene] = []
        self._scene_ids: dict[Scene, int] = {}
        self._ready: list[tuple[Ready, ...] | None] = []
        self._told: dict[tuple[int, int], int] = {}
        self._came_up: dict[tuple[int, int, str], int] = {}
        self._lapsing: dict[tuple[int, int, Lease], int] = {}
        self._past: dict[tuple[int, int, int], int] = {}
        self._joint: dict[tuple[int, ...], str] = {}
        self._host_numbers = {name: number for number, name in enumerate(self.names)}
        able = range(len(self.names) if claimants_crash else self.nodes)
        self._crashing = [host for host in able if falling in {"", self.names[host]}]

    def first(self) -> State:
        """All hosts started, nothing claimed; what they send at their start is in flight."""
        net = 0
        locals_: list[int] = []
        for table in self.tables:
            started = table.start()
            locals_.append(started.local)
            net |= started.mask
        return (*locals_, net, self.scene_number(self.clients.first))

    def scene_number(self, scene: Scene) -> int:
        """The number of this scene, new or known."""
        known = self._scene_ids.setdefault(scene, len(self.scenes))
        if known == len(self.scenes):
            self.scenes.append(scene)
            self._ready.append(None)
        return known

    # Judging

    def wrong(self, state: State) -> str:
        """A property that this state violates, as `name: text`; empty when all hold."""
        scene = self.scenes[state[-1]]
        if scene.wrong:
            return scene.wrong
        tables = self.tables
        for number in range(self.nodes):
            text = tables[number].wrong[state[number]]
            if text:
                return text
        key = tuple(tables[number].facts[state[number]] for number in range(self.nodes))
        joint = self._joint.get(key)
        if joint is None:
            facts = tuple(tables[number].fact_values[fact] for number, fact in enumerate(key))
            joint = self._joint[key] = self.system.wrong_between(facts)
        return joint

    def served(self, state: State) -> bool:
        """Every client is done."""
        return self.clients.over(self.scenes[state[-1]])

    def done(self, state: State) -> bool:
        """Every client is done and no node knows a claim any more."""
        if not self.served(state):
            return False
        return all(self.tables[number].idle[state[number]] for number in range(self.nodes))

    # Moves

    def steps(self, state: State) -> Iterator[Step]:
        """All moves from a state, in a fixed order; those that must not be missing first."""
        net, scene = state[-2], state[-1]
        if self.scenes[scene].wrong:
            return
        host_of, tables = self.mail.host_of, self.tables
        if self._reduced:
            for message in bits(net):
                if self._comes_first(state[host_of[message]], message):
                    yield self._delivery(state, message)
                    return
        for message in bits(net):
            host = host_of[message]
            table = tables[host]
            outcome = table.delivered.get(state[host] << 24 | message) or table.deliver(state[host], message)
            yield self._after(state, Move("deliver", host, message), outcome, net & ~(1 << message), scene)
        yield from self._acts(state, net, scene)
        if self.timers == "any" or not net:
            yield from self._repairs(state, net, scene)
            yield from self._quarantines(state, net, scene)
        if any(self.scenes[scene].left):
            yield from self._faults(state, net, scene)

    def _comes_first(self, local: int, message: int) -> bool:
        known = self._first.get((local, message))
        if known is None:
            letter, table = self.mail.letters[message], self.tables[self.mail.host_of[message]]
            known = self.system.confluent(table.hosts[local], letter.sender.node, letter.message)
            outcome = table.deliver(local, message)
            if known and (outcome.sends or outcome.notice or outcome.wrong):
                raise AssertionError(f"{letter.message} was to make no difference")
            self._first[local, message] = known
        return known

    def _delivery(self, state: State, message: int) -> Step:
        host = self.mail.host_of[message]
        outcome = self.tables[host].deliver(state[host], message)
        net = state[-2] & ~(1 << message)
        return self._after(state, Move("deliver", host, message), outcome, net, state[-1])

    def _after(
        self, state: State, move: Move, outcome: Outcome, net: int, scene: int, *, progress: bool = True
    ) -> Step:
        """The state after a turn whose message (if any) has been taken out of `net` already."""
        if outcome.notice:
            scene = self._scene_told(scene, outcome.notice)
        if move.host < self.nodes and self.scenes[scene].lapsed:
            scene = self._without_past(scene, move.host, outcome.local)
        after = list(state)
        after[move.host] = outcome.local
        after[-2] = self._reaching(net | outcome.mask, scene)
        after[-1] = scene
        return Step(move, tuple(after), progress, outcome.wrong)

    def _without_past(self, scene: int, host: int, local: int) -> int:
        """Ends of leases that can have no effect at this node any more are no part of the state."""
        fact = self.tables[host].facts[local]
        known = self._past.get((scene, host, fact))
        if known is None:
            name, facts, value = self.names[host], self.tables[host].fact_values[fact], self.scenes[scene]
            rest = tuple(
                lease for lease in value.lapsed if lease[0] != name or not self.system.is_past(facts, lease)
            )
            known = self.scene_number(msgspec.structs.replace(value, lapsed=rest))
            self._past[scene, host, fact] = known
        return known

    def _reaching(self, net: int, scene: int) -> int:
        """Messages to hosts that are gone for ever reach nobody."""
        for name in self.scenes[scene].silent:
            net &= ~self.mail.bound_for[self._host_numbers[name]]
        return net

    def _scene_told(self, scene: int, notice: int) -> int:
        known = self._told.get((scene, notice))
        if known is None:
            then = self.clients.told(self.scenes[scene], self.notices.values[notice])
            known = self._told[scene, notice] = self.scene_number(then)
        return known

    def _prepared(self, scene: int) -> tuple[Ready, ...]:
        known = self._ready[scene]
        if known is None:
            found = tuple(self._prepare(act) for act in self.clients.acts(self.scenes[scene]))
            known = self._ready[scene] = found
        return known

    def _prepare(self, act: Act) -> Ready:
        host = self._host_numbers[act.host]
        arrival: Arrival | None = None
        if act.command is not None:
            arrival = self.system.command(act.host, act.command)
        elif act.lapse is not None and host < self.nodes:
            arrival = self.system.lapse_at_node(act.lapse)
        elif act.lapse is not None:
            arrival = self.system.lapse_for_claimant(act.lapse)
        event = -1 if arrival is None else self.events.number(arrival)
        return Ready(act, host, event, arrival, self.scene_number(act.then))

    def _acts(self, state: State, net: int, scene: int) -> Iterator[Step]:
        for ready in self._prepared(scene):
            act, host = ready.act, ready.host
            move = Move("act", host, ready.event, text=act.text)
            if ready.arrival is None:
                after = (*state[:-2], self._reaching(net, ready.then), ready.then)
                yield Step(move, after, not act.fault)
                continue
            then = ready.then
            if act.lapse is not None:
                if act.timed and net and self.timers != "any":
                    continue
                lapsed = self._lapsed(state[host], host, ready, act.lapse)
                if lapsed is None:
                    continue
                then = lapsed
            outcome = self.tables[host].arrive(state[host], ready.event, ready.arrival)
            yield self._after(state, move, outcome, net, then, progress=not act.fault)

    def _lapsed(self, local: int, host: int, ready: Ready, lease: Lease) -> int | None:
        """The scene after a lease's end; None where there is nothing (yet) that could end."""
        table = self.tables[host]
        if host < self.nodes:
            return ready.then if self.system.has(table.fact_values[table.facts[local]], lease) else None
        if not ready.act.fault:
            return ready.then
        attempt = self.system.attempt_of(table.hosts[local], lease[1])
        if not attempt:
            return None
        key = (ready.then, attempt, lease)
        known = self._lapsing.get(key)
        if known is None:
            scene = self.clients.lapsing(self.scenes[ready.then], lease, attempt)
            known = self._lapsing[key] = self.scene_number(scene)
        return known

    def _repairs(self, state: State, net: int, scene: int) -> Iterator[Step]:
        silent = {self._host_numbers[name] for name in self.scenes[scene].silent}
        for host, table in enumerate(self.tables):
            if host in silent:
                continue
            for timer in self._due(state, host):
                outcome = table.fire(state[host], timer)
                yield self._after(state, Move("timer", host, timer=timer), outcome, net, scene)

    def _due(self, state: State, host: int) -> list[str]:
        """Armed timers that may fire when nothing is in flight."""
        table = self.tables[host]
        due: list[str] = []
        for timer in table.timers[state[host]]:
            kind = self.system.timer_kind(table.name, timer)
            if kind == "repair" or (kind == "retry" and not self._quarantined(state)):
                due.append(timer)
        return due

    def _quarantined(self, state: State) -> bool:
        return any(
            self.system.timer_kind(self.names[host], timer) == "quarantine"
            for host in range(self.nodes)
            for timer in self.tables[host].timers[state[host]]
        )

    def _quarantines(self, state: State, net: int, scene: int) -> Iterator[Step]:
        """A quarantine ends when no lease given before it can live, so the world must not end it earlier."""
        haunted = {lease[0] for lease in self.scenes[scene].ghosts}
        for host in range(self.nodes):
            table = self.tables[host]
            if table.name in haunted:
                continue
            for timer in table.timers[state[host]]:
                if self.system.timer_kind(table.name, timer) == "quarantine":
                    outcome = table.fire(state[host], timer)
                    yield self._after(state, Move("timer", host, timer=timer), outcome, net, scene)

    # Faults

    def _faults(self, state: State, net: int, scene: int) -> Iterator[Step]:
        left = dict(zip(KINDS, self.scenes[scene].left, strict=True))
        if left["loss"]:
            then = self._spent(scene, "loss")
            for message in bits(net):
                after = (*state[:-2], net & ~(1 << message), then)
                yield Step(Move("lose", self.mail.host_of[message], message), after, progress=False)
        if left["duplicate"]:
            then = self._spent(scene, "duplicate")
            for message in bits(net):
                host = self.mail.host_of[message]
                outcome = self.tables[host].deliver(state[host], message)
                move = Move("repeat", host, message)
                yield self._after(state, move, outcome, net, then, progress=False)
        silent = self.scenes[scene].silent
        for kind in ("crash", "restart", "reboot", "wipe"):
            if left[kind]:
                for host in self._crashing:
                    if (kind in {"crash", "restart"} or host < self.nodes) and self.names[host] not in silent:
                        yield from self._comebacks(state, kind, host)

    def _spent(self, scene: int, kind: str) -> int:
        key = (scene, -1, kind)
        known = self._came_up.get(key)
        if known is None:
            value = self.scenes[scene]
            then = msgspec.structs.replace(value, left=spend(value.left, kind))
            known = self._came_up[key] = self.scene_number(then)
        return known

    def _comebacks(self, state: State, kind: str, host: int) -> Iterator[Step]:
        """The host ends and comes up: between two turns, and for a crash also within any turn that may come next."""
        yield from self._come_up(state, kind, Move(kind, host))
        if kind != "crash":
            return
        for outcome, net, scene, move in self._next_turns(state, host):
            mask = 0
            for count, message in enumerate(outcome.sends):
                cut = list(state)
                cut[host], cut[-2], cut[-1] = outcome.local, self._reaching(net | mask, scene), scene
                yield from self._come_up(
                    tuple(cut), kind, move._replace(kind=kind, within=move.kind, cut=count)
                )
                mask |= 1 << message

    def _next_turns(self, state: State, host: int) -> Iterator[tuple[Outcome, int, int, Move]]:
        """Turns of this host that could be next: (outcome, messages without the one taken, scene, move)."""
        net, scene = state[-2], state[-1]
        table = self.tables[host]
        for message in bits(net & self.mail.bound_for[host]):
            outcome = table.deliver(state[host], message)
            told = self._scene_told(scene, outcome.notice) if outcome.notice else scene
            yield outcome, net & ~(1 << message), told, Move("deliver", host, message)
        for ready in self._prepared(scene):
            if ready.host == host and ready.arrival is not None and not ready.act.fault:
                outcome = table.arrive(state[host], ready.event, ready.arrival)
                told = self._scene_told(ready.then, outcome.notice) if outcome.notice else ready.then
                yield outcome, net, told, Move("act", host, ready.event, text=ready.act.text)
        if self.timers == "any" or not net:
            for timer in self._due(state, host):
                outcome = table.fire(state[host], timer)
                told = self._scene_told(scene, outcome.notice) if outcome.notice else scene
                yield outcome, net, told, Move("timer", host, timer=timer)

    def _come_up(self, state: State, kind: str, move: Move) -> Iterator[Step]:
        host, net = move.host, state[-2]
        then, boot = self._fresh(state[-1], kind, host)
        outcome = self.tables[host].recover(state[host], boot)
        for lost in subsets(net & self.mail.bound_for[host]):
            yield self._after(state, move._replace(lost=lost), outcome, net & ~lost, then, progress=False)

    def _fresh(self, scene: int, kind: str, host: int) -> tuple[int, Boot]:
        """The scene after a come-back, and the boot that the host is told of."""
        if kind in {"crash", "restart"}:
            then = self._spent(scene, kind)
        else:
            key = (scene, host, kind)
            known = self._came_up.get(key)
            if known is None:
                fresh = self.clients.came_up(self.scenes[scene], self.names[host], kind)
                known = self._came_up[key] = self.scene_number(fresh)
            then = known
        epoch = 1 + self.scenes[then].epochs[host] if host < self.nodes else 1
        return then, self.system.boot(BOOT_KIND[kind], epoch)
