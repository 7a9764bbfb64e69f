"""All moves of two linked hosts: words are said, frames arrive in any order, are lost or come twice, hosts begin anew."""

from collections.abc import Iterator

import msgspec

from holdall.explorer.mail import Mail, bits
from holdall.explorer.moves import Move, State, Step, Timers
from holdall.explorer.packing import Packing
from holdall.explorer.table import Events, HostTable, Notices, Outcome
from holdall.world.faults import KINDS, Budget, spend
from holdall.world.link import HOSTS, Ends, LinkSystem
from holdall.world.plan import BadWorld

LINK_FAULTS = ("restart", "loss", "duplicate")


class LinkScene(msgspec.Struct, frozen=True):
    """What of the plan is left, and what has been spent."""

    turns: tuple[int, ...]
    """For each host: turns of speaking that it has had."""
    left: Budget
    processes: tuple[int, ...]


class LinkSpace:
    """The moves of one world of the link under given faults.

    Everything in flight may arrive in any order, frames of an earlier process of either side included: a host that
    begins anew loses what it knows, and nothing that is on its way to it (what is lost, is lost by a fault).
    """

    fresh = frozenset({"restart"})
    """Moves after which a host has a new number."""

    def __init__(self, system: LinkSystem, left: Budget, *, timers: Timers = "quiet") -> None:
        if wrong := [kind for kind, n in zip(KINDS, left, strict=True) if n and kind not in LINK_FAULTS]:
            raise BadWorld(f"no fault {wrong[0]!r} for the link; the faults are {', '.join(LINK_FAULTS)}")
        self.system = system
        self.names = HOSTS
        self.timers: Timers = timers
        self.mail = Mail(HOSTS)
        self.packing = Packing(len(HOSTS))
        self.events = Events()
        notices = Notices()
        self.tables = [
            HostTable(name, system, self.mail, notices, timers=True, records=False, meter=False)
            for name in HOSTS
        ]
        self.scenes: list[LinkScene] = []
        self._scene_ids: dict[LinkScene, int] = {}
        self._first = LinkScene((0, 0), left, (1, 1))
        self._joint: dict[tuple[int, int, int], str] = {}

    def first(self) -> State:
        """Both started, nothing said."""
        a, b = (table.start().local for table in self.tables)
        return (a, b, 0, self._scene(self._first))

    def canonical(self, state: State) -> State:
        """Itself."""
        return state

    def _scene(self, scene: LinkScene) -> int:
        known = self._scene_ids.setdefault(scene, len(self.scenes))
        if known == len(self.scenes):
            self.scenes.append(scene)
        return known

    # Judging

    def wrong(self, state: State) -> str:
        """A property that this state violates; empty when all hold."""
        for host, table in enumerate(self.tables):
            if text := table.wrong[state[host]]:
                return text
        a, b = (table.facts[state[host]] for host, table in enumerate(self.tables))
        key = (a, b, state[-1])
        known = self._joint.get(key)
        if known is None:
            known = self._joint[key] = self._between(state)
        return known

    def _between(self, state: State) -> str:
        for speaker, hearer, anew in self._directions(state):
            if text := self.system.wrong_between(speaker, hearer, has_hearer_restarted=anew):
                return text
        return ""

    def _directions(self, state: State) -> Iterator[tuple[Ends, Ends, bool]]:
        """(speaker, hearer, whether the hearer has begun anew), both ways."""
        ends: list[Ends] = []
        for host, table in enumerate(self.tables):
            facts = table.fact_values[table.facts[state[host]]]
            if not isinstance(facts, Ends):
                raise TypeError("not facts of a link")
            ends.append(facts)
        anew = [number > 1 for number in self.scenes[state[-1]].processes]
        if self.system.world.falling:
            # An opening of an earlier process comes late and has a higher number: both sides begin anew.
            anew = [any(anew)] * 2
        yield ends[0], ends[1], anew[1]
        yield ends[1], ends[0], anew[0]

    def served(self, state: State) -> bool:
        """As `done`: a word that stays under way is one that somebody waits for."""
        return self.done(state)

    def done(self, state: State) -> bool:
        """All is said, all is heard that must be, nothing is under way, and both links are idle."""
        turns = self.scenes[state[-1]].turns
        if state[-2] or any(len(says) > had for says, had in zip(self.system.world.says, turns, strict=True)):
            return False
        if not all(table.idle[state[host]] for host, table in enumerate(self.tables)):
            return False
        return not any(
            self.system.lost_at_end(speaker, hearer, has_hearer_restarted=anew)
            for speaker, hearer, anew in self._directions(state)
        )

    # Moves

    def steps(self, state: State) -> Iterator[Step]:
        """All moves from a state, in a fixed order."""
        net, scene = state[-2], self.scenes[state[-1]]
        for message in bits(net):
            host = self.mail.host_of[message]
            outcome = self.tables[host].deliver(state[host], message)
            yield self._after(state, Move("deliver", host, message), outcome, net & ~(1 << message), scene)
        for host, says in enumerate(self.system.world.says):
            had = scene.turns[host]
            if had < len(says):
                then = msgspec.structs.replace(scene, turns=_with(scene.turns, host, had + 1))
                yield self._speaks(state, host, says[had], then)
        for host, table in enumerate(self.tables):
            facts = table.fact_values[table.facts[state[host]]]
            if isinstance(facts, Ends) and facts.is_shut:
                arrival = self.system.may(HOSTS[host])
                event = self.events.number(arrival)
                outcome = table.arrive(state[host], event, arrival)
                yield self._after(state, Move("act", host, event, text="may speak:"), outcome, net, scene)
        if self.timers == "any" or not net:
            for host, table in enumerate(self.tables):
                for timer in table.timers[state[host]]:
                    outcome = table.fire(state[host], timer)
                    yield self._after(state, Move("timer", host, timer=timer), outcome, net, scene)
        yield from self._faults(state, net, scene)

    def _speaks(self, state: State, host: int, words: int, then: LinkScene) -> Step:
        arrival = self.system.command(HOSTS[host], words)
        event = self.events.number(arrival)
        outcome = self.tables[host].arrive(state[host], event, arrival)
        return self._after(state, Move("act", host, event, text=f"says {words}:"), outcome, state[-2], then)

    def _after(
        self,
        state: State,
        move: Move,
        outcome: Outcome,
        net: int,
        scene: LinkScene,
        *,
        progress: bool = True,
    ) -> Step:
        after = list(state)
        after[move.host] = outcome.local
        after[-2], after[-1] = net | outcome.mask, self._scene(scene)
        return Step(move, tuple(after), progress, outcome.wrong)

    def _faults(self, state: State, net: int, scene: LinkScene) -> Iterator[Step]:
        left = dict(zip(KINDS, scene.left, strict=True))
        if left["loss"]:
            then = self._scene(msgspec.structs.replace(scene, left=spend(scene.left, "loss")))
            for message in bits(net):
                move = Move("lose", self.mail.host_of[message], message)
                yield Step(move, (*state[:-2], net & ~(1 << message), then), progress=False)
        if left["duplicate"]:
            fewer = msgspec.structs.replace(scene, left=spend(scene.left, "duplicate"))
            for message in bits(net):
                host = self.mail.host_of[message]
                outcome = self.tables[host].deliver(state[host], message)
                yield self._after(state, Move("repeat", host, message), outcome, net, fewer, progress=False)
        if left["restart"]:
            for host, table in enumerate(self.tables):
                number = scene.processes[host] + 1
                anew = msgspec.structs.replace(
                    scene,
                    left=spend(scene.left, "restart"),
                    processes=_with(scene.processes, host, number),
                )
                outcome = table.recover(state[host], self.system.boot("same", number))
                yield self._after(state, Move("restart", host), outcome, net, anew, progress=False)


def _with(values: tuple[int, ...], place: int, value: int) -> tuple[int, ...]:
    return (*values[:place], value, *values[place + 1 :])
