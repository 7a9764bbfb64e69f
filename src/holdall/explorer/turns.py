"""What one turn of a host makes of a state: messages in flight, the scene that hears of it."""

from typing import NamedTuple

import msgspec

from holdall.explorer.ignored import Ignored, Ignoring
from holdall.explorer.links import AnyOrder, Fifo, Links, Numbered, Order
from holdall.explorer.mail import Mail
from holdall.explorer.moves import Move, State, Step, Timers
from holdall.explorer.packing import Packing
from holdall.explorer.table import Events, HostTable, Notices, Outcome
from holdall.machine.host import Arrival
from holdall.world.clients import Act, Clients, Lease, Scene
from holdall.world.faults import KINDS, Budget, repairs_needed
from holdall.world.plan import BadWorld
from holdall.world.system import System

FALLS = ("crash", "restart", "reboot", "wipe")
"""Faults after which a host comes up from what it saved, at most."""


class Ready(NamedTuple):
    """An act of the scene, prepared: number of its event (-1: none) and of the scene after it."""

    act: Act
    host: int
    event: int
    arrival: Arrival | None
    then: int


class Turns:
    """Hosts as tables, scenes by number, and the state after a turn."""

    fresh = frozenset({"reboot", "wipe"})
    """Moves after which a host has a new number."""

    def __init__(
        self,
        system: System,
        left: Budget,
        *,
        timers: Timers | None,
        claimants_crash: bool,
        order: Order,
        newest: bool,
        overtaken: bool,
        ignored: bool = False,
    ) -> None:
        self.system = system
        self.clients = Clients(system.world, left, system.placed)
        self.names = system.hosts()
        self.nodes = len(system.world.nodes())
        self.mail = Mail(self.names)
        self.notices = Notices()
        self.events = Events()
        self.timers: Timers = timers or ("quiet" if repairs_needed(left) else "off")
        if overtaken and any(dict(zip(KINDS, left, strict=True))[kind] for kind in FALLS):
            raise BadWorld(
                "who comes up again may have forgotten what it had heard last, and then heeds what was overtaken; "
                "leave --reduce overtaken out with crash, restart, reboot and wipe"
            )
        self.links = self._links(order, newest=newest, overtaken=overtaken)
        self.packing = Packing(len(self.names))
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
        self._ignored = self._ignoring(order) if ignored else None
        self.scenes: list[Scene] = []
        self._scene_ids: dict[Scene, int] = {}
        self._ready: list[tuple[Ready, ...] | None] = []
        self._told: dict[tuple[int, int], int] = {}
        self.lasting: dict[tuple[int, int, str], int] = {}
        """(scene, host or -1, kind of fault) -> the scene after it."""
        self._past: dict[tuple[int, int, int], int] = {}
        self.host_numbers = {name: number for number, name in enumerate(self.names)}

    def _links(self, order: Order, *, newest: bool, overtaken: bool) -> Links:
        if order == "fifo":
            if newest or overtaken:
                raise BadWorld(
                    "links that keep order overtake nothing; leave --reduce newest and overtaken out"
                )
            return Fifo(self.mail, len(self.names))
        numbered = self.system if isinstance(self.system, Numbered) else None
        if numbered is None and (newest or overtaken):
            raise BadWorld(
                "this protocol numbers no messages of a link; leave --reduce newest and overtaken out"
            )
        return AnyOrder(self.mail, numbered, newest=newest, overtaken=overtaken)

    def _ignoring(self, order: Order) -> Ignored:
        if order == "fifo":
            raise BadWorld("links that keep order hold what comes after it; leave --reduce ignored out")
        if not isinstance(self.system, Ignoring):
            raise BadWorld("this protocol does not say what it ignores; leave --reduce ignored out")
        return Ignored(self.system, self.mail, self.tables)

    def first(self) -> State:
        """All hosts started, nothing claimed; what they send at their start is in flight."""
        net = 0
        locals_: list[int] = []
        for table in self.tables:
            started = table.start()
            locals_.append(started.local)
            net = self.links.sent(net, started.sends, started.mask)
        return (*locals_, net, self.scene_number(self.clients.first))

    def scene_number(self, scene: Scene) -> int:
        """The number of this scene, new or known."""
        known = self._scene_ids.setdefault(scene, len(self.scenes))
        if known == len(self.scenes):
            self.scenes.append(scene)
            self._ready.append(None)
        return known

    def after(
        self, state: State, move: Move, outcome: Outcome, net: int, scene: int, *, progress: bool = True
    ) -> Step:
        """The state after a turn whose message (if any) has been taken out of `net` already."""
        if outcome.notice:
            scene = self.scene_told(scene, outcome.notice)
        if move.host < self.nodes and self.scenes[scene].lapsed:
            scene = self._without_past(scene, move.host, outcome.local)
        after = list(state)
        after[move.host] = outcome.local
        if outcome.sends:
            net = self.links.sent(net, outcome.sends, outcome.mask)
        net = self.reaching(net, scene)
        if self._ignored is not None and net:
            net = self._heeded(net, move.host, after, outcome, scene)
        after[-2] = net
        after[-1] = scene
        return Step(move, tuple(after), progress, outcome.wrong)

    def _heeded(self, net: int, host: int, after: list[int], outcome: Outcome, scene: int) -> int:
        """Without what its receiver ignores for ever: messages to the host that moved, and those that it has sent."""
        ignored = self._ignored
        assert ignored is not None
        host_of, left = self.mail.host_of, self.scenes[scene].left
        forgetful = any(count and kind in {"reboot", "wipe"} for kind, count in zip(KINDS, left, strict=True))
        if not (forgetful and host < self.nodes):
            net &= ~ignored.by(host, after[host])
        for message in outcome.sends:
            to = host_of[message]
            if not (forgetful and to < self.nodes):
                net &= ~(ignored.by(to, after[to]) & 1 << message)
        return net

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

    def reaching(self, net: int, scene: int) -> int:
        """Messages to hosts that are gone for ever reach nobody."""
        for name in self.scenes[scene].silent:
            net &= ~self.mail.bound_for[self.host_numbers[name]]
        return net

    def scene_told(self, scene: int, notice: int) -> int:
        """The scene after it was told these notices."""
        known = self._told.get((scene, notice))
        if known is None:
            then = self.clients.told(self.scenes[scene], self.notices.values[notice])
            known = self._told[scene, notice] = self.scene_number(then)
        return known

    def prepared(self, scene: int) -> tuple[Ready, ...]:
        """What may happen in a scene."""
        known = self._ready[scene]
        if known is None:
            found = tuple(self._prepare(act) for act in self.clients.acts(self.scenes[scene]))
            known = self._ready[scene] = found
        return known

    def _prepare(self, act: Act) -> Ready:
        host = self.host_numbers[act.host]
        arrival: Arrival | None = None
        if act.command is not None:
            arrival = self.system.command(act.host, act.command)
        elif act.lapse is not None and host < self.nodes:
            arrival = self.system.lapse_at_node(act.lapse)
        elif act.lapse is not None:
            arrival = self.system.lapse_for_claimant(act.lapse)
        elif act.left:
            arrival = self.system.told_of_gone(act.host, act.left)
        event = -1 if arrival is None else self.events.number(arrival)
        return Ready(act, host, event, arrival, self.scene_number(act.then))

    def lapsed(self, local: int, ready: Ready, lease: Lease) -> int | None:
        """The scene after a lease's end; None where there is nothing (yet) that could end."""
        table = self.tables[ready.host]
        if ready.host < self.nodes:
            return ready.then if self.system.has(table.fact_values[table.facts[local]], lease) else None
        if not ready.act.fault:
            return ready.then
        attempt = self.system.attempt_of(table.hosts[local], lease[1])
        if not attempt:
            return None
        return self.scene_number(self.clients.lapsing(self.scenes[ready.then], lease, attempt))

    # Timers

    def due(self, state: State, host: int) -> list[str]:
        """Armed timers of a host that may fire when nothing is in flight."""
        table = self.tables[host]
        found: list[str] = []
        for timer in table.timers[state[host]]:
            kind = self.system.timer_kind(table.name, timer)
            if kind == "repair" or (kind == "retry" and not self._quarantined(state)):
                found.append(timer)
        return found

    def _quarantined(self, state: State) -> bool:
        silent = self.scenes[state[-1]].silent
        return any(
            self.is_quarantined(host, state[host])
            for host in range(self.nodes)
            if self.names[host] not in silent
        )

    def is_quarantined(self, host: int, local: int) -> bool:
        """Whether a node grants nothing for now."""
        table = self.tables[host]
        return any(self.system.timer_kind(table.name, timer) == "quarantine" for timer in table.timers[local])
