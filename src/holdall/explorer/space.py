"""All moves of a closed world of claims: what may happen next in a state, and whether a state is as it must be."""

from collections.abc import Hashable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from holdall.explorer.falls import Falls
from holdall.explorer.links import Order
from holdall.explorer.mail import bits
from holdall.explorer.moves import Move, State, Step, Timers
from holdall.explorer.symmetry import NOT_ALIKE, Symmetry
from holdall.explorer.table import Outcome
from holdall.machine.host import Host
from holdall.protocols.vocabulary import ClaimId
from holdall.world.clients import Phase
from holdall.world.faults import Budget, repairs_needed
from holdall.world.plan import BadWorld
from holdall.world.system import System

WAITING = frozenset({Phase.ASKED, Phase.SWAPPING, Phase.ENDING})
AT_WILL = frozenset({"claims", "cancels", "falls silent"})
NOBODY = -1
"""In place of what a node that is gone for ever knew: no property is judged by it."""


@runtime_checkable
class Renewing(Protocol):
    """A system that can forget a claim that is over; worlds of claims that come for ever ask it."""

    def renewed(self, hosts: Mapping[str, Host], claim: ClaimId) -> bool:
        """Take out of these hosts what is left of a claim that is over, and make counters that only order things small.

        Nothing is in flight. False: something of the claim is left that still matters; the hosts are thrown away then.
        """
        ...


class Space(Falls):
    """The moves of one world under given faults."""

    def __init__(
        self,
        system: System,
        left: Budget,
        *,
        timers: Timers | None = None,
        claimants_crash: bool = True,
        falling: str = "",
        reduced: bool = False,
        order: Order = "any",
        newest: bool = False,
        overtaken: bool = False,
        symmetry: bool = False,
        ignored: bool = False,
    ) -> None:
        """`falling`: the only host that crashes or comes up anew; empty: each may. One run per host covers one fall.

        `reduced`: a message that makes no difference whenever it comes is delivered first, and nothing else then.
        That keeps every property (such moves are confluent and seen by nobody). Not with faults that touch single
        messages or records, nor with repair timers: to those, such a message does make a difference.

        `order`, `newest`, `overtaken`: what links do, see `links`. `symmetry`: see `symmetry`. `ignored`: see `ignored`.
        """
        super().__init__(
            system,
            left,
            timers=timers,
            claimants_crash=claimants_crash,
            order=order,
            newest=newest,
            overtaken=overtaken,
            ignored=ignored,
        )
        if reduced and (self.timers != "off" or repairs_needed(left)):
            raise BadWorld("no --reduce late with repair timers or faults that lose or repeat messages")
        self._reduced = reduced
        self._first: dict[tuple[int, int], bool] = {}
        self._joint: dict[tuple[int, ...], str] = {}
        able = range(len(self.names) if claimants_crash else self.nodes)
        self.crashing = tuple(host for host in able if falling in {"", self.names[host]})
        self._overtaken = overtaken
        self.symmetry = Symmetry(self) if symmetry else None
        self._endless = any(claim.endless for claim in system.world.claims)
        self._renewed: dict[tuple[int, ...], tuple[int, ...] | None] = {}
        if self._endless and repairs_needed(left):
            raise BadWorld("claims that come for ever allow no faults that lose or repeat anything")
        self._was_ignored: set[tuple[int, int]] = set()

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
        if scene.silent:
            key = tuple(
                NOBODY if self.names[number] in scene.silent else fact for number, fact in enumerate(key)
            )
        joint = self._joint.get(key)
        if joint is None:
            facts = tuple(
                None if fact == NOBODY else tables[number].fact_values[fact]
                for number, fact in enumerate(key)
            )
            joint = self._joint[key] = self.system.wrong_between(facts)
        return joint

    def served(self, state: State) -> bool:
        """Every client is done."""
        return self.clients.over(self.scenes[state[-1]])

    def done(self, state: State) -> bool:
        """Every client is done and no node that is still there knows a claim any more."""
        if not self.served(state):
            return False
        silent = self.scenes[state[-1]].silent
        return all(
            self.tables[number].idle[state[number]]
            for number in range(self.nodes)
            if self.names[number] not in silent
        )

    # Waiting and fairness

    def waiting(self, state: State) -> tuple[int, ...]:
        """Clients that have asked, for a claim, an exchange or its end, and have no answer yet."""
        clients = self.scenes[state[-1]].clients
        return tuple(place for place, client in enumerate(clients) if client.phase in WAITING)

    def things(self, move: Move) -> tuple[Hashable, ...]:
        """A message and its link; a timer; what a client that is inside does next, or the end of a lease.

        Whether a client claims, and that it claims again, is left to it.
        """
        match move.kind:
            case "deliver":
                letter = self.mail.letters[move.what]
                return (("message", move.what), ("link", letter.sender.node, letter.to.node))
            case "timer":
                return (("timer", move.host, move.timer),)
            case "act" if move.text not in AT_WILL:
                return (("act", move.host, move.what, move.text),)
            case _:
                return ()

    def armed(self, state: State) -> set[Hashable]:
        """Timers that may fire, and ends of leases that come, when nothing is in flight."""
        found: set[Hashable] = {
            ("timer", host, timer) for host in range(len(self.tables)) for timer in self.due(state, host)
        }
        for ready in self.prepared(state[-1]):
            if ready.act.timed:
                found.add(("act", ready.host, ready.event, ready.act.text))
        return found

    def client_name(self, number: int) -> str:
        """By its host and its place among the claims."""
        return f"client {number + 1} on {self.system.world.claims[number].host}"

    def canonical(self, state: State) -> State:
        """The state that stands for this one. Raises BadWorld where equal clients turn out not to be alike."""
        if self.symmetry is None:
            return state
        stands = self.symmetry.canonical(state)
        if stands != state and self.symmetry.should_look():
            moves = (self._moves_of(self.symmetry, one) for one in (state, stands))
            if next(moves) != next(moves):
                raise BadWorld(NOT_ALIKE)
        return stands

    def _moves_of(self, symmetry: Symmetry, state: State) -> list[tuple[State, bool, bool]]:
        found = [
            (symmetry.canonical(step.state), step.progress, bool(step.wrong)) for step in self.steps(state)
        ]
        return sorted(found)

    # Moves

    def steps(self, state: State) -> Iterator[Step]:
        """All moves from a state, in a fixed order; those that must not be missing first."""
        net, scene = state[-2], state[-1]
        if self.scenes[scene].wrong:
            return
        host_of, tables = self.mail.host_of, self.tables
        if self._reduced:
            for message, rest in self.links.heads(net):
                host = host_of[message]
                if self._comes_first(state[host], message):
                    outcome = tables[host].deliver(state[host], message)
                    yield self.after(state, Move("deliver", host, message), outcome, rest, scene)
                    return
        for message, rest in self.links.heads(net):
            host = host_of[message]
            table = tables[host]
            outcome = table.delivered.get(state[host] << 24 | message) or table.deliver(state[host], message)
            if self._overtaken:
                self._assert_ignored(host, outcome, net & ~rest & ~(1 << message))
            yield self.after(state, Move("deliver", host, message), outcome, rest, scene)
        yield from self._acts(state, net, scene)
        if self.timers == "any" or not net:
            yield from self._repairs(state, net, scene)
            yield from self._quarantines(state, net, scene)
        if self._endless and not net:
            yield from self._anew_claims(state)
        if any(self.scenes[scene].left):
            yield from self.faults(state)

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

    def _assert_ignored(self, host: int, outcome: Outcome, overtaken: int) -> None:
        """Messages that are taken out of flight would have made no difference now."""
        for message in bits(overtaken):
            if (outcome.local, message) in self._was_ignored:
                continue
            then = self.tables[host].deliver(outcome.local, message)
            if then.local != outcome.local or then.sends or then.notice or then.wrong:
                raise AssertionError(f"{self.mail.letters[message].message} was to be ignored")
            self._was_ignored.add((outcome.local, message))

    def _acts(self, state: State, net: int, scene: int) -> Iterator[Step]:
        for ready in self.prepared(scene):
            act, host = ready.act, ready.host
            move = Move("act", host, ready.event, text=act.text)
            if ready.arrival is None:
                after = (*state[:-2], self.reaching(net, ready.then), ready.then)
                yield Step(move, after, not act.fault)
                continue
            then = ready.then
            if act.timed and net and self.timers != "any":
                continue
            if act.lapse is not None:
                lapsed = self.lapsed(state[host], ready, act.lapse)
                if lapsed is None:
                    continue
                then = lapsed
            outcome = self.tables[host].arrive(state[host], ready.event, ready.arrival)
            yield self.after(state, move, outcome, net, then, progress=not act.fault)

    def _anew_claims(self, state: State) -> Iterator[Step]:
        """Clients that come again, where nothing is in flight and nothing is left of their earlier claims.

        A claim that is known nowhere is as good as one that never was, so its name is given again; that keeps the
        worlds of claims that come for ever finite. Clients that come again while messages of others are under way are
        not looked at.
        """
        scene = self.scenes[state[-1]]
        for slot, client in enumerate(scene.clients):
            if client.phase is not Phase.RESTING:
                continue
            key = (*state[:-2], slot)
            if key not in self._renewed:
                self._renewed[key] = self._without(state, slot)
            locals_ = self._renewed[key]
            if locals_ is not None:
                host = self.host_numbers[self.system.world.claims[slot].host]
                then = self.scene_number(self.clients.again(scene, slot))
                yield Step(Move("again", host), (*locals_, 0, then), progress=True)

    def _without(self, state: State, slot: int) -> tuple[int, ...] | None:
        """The local states when what is left of a client's claim is forgotten; None when it can't be."""
        hosts = {table.name: table.hosts[state[number]].copy() for number, table in enumerate(self.tables)}
        if not isinstance(self.system, Renewing):
            raise BadWorld(
                "this protocol can't forget claims, so it has no worlds of claims that come for ever"
            )
        if not self.system.renewed(hosts, self.clients.claim(slot, 0)):
            return None
        return tuple(table.put(state[number], hosts[table.name]) for number, table in enumerate(self.tables))

    def _repairs(self, state: State, net: int, scene: int) -> Iterator[Step]:
        silent = {self.host_numbers[name] for name in self.scenes[scene].silent}
        for host, table in enumerate(self.tables):
            if host in silent:
                continue
            for timer in self.due(state, host):
                outcome = table.fire(state[host], timer)
                yield self.after(state, Move("timer", host, timer=timer), outcome, net, scene)

    def _quarantines(self, state: State, net: int, scene: int) -> Iterator[Step]:
        """A quarantine ends when no lease given before it can live, so the world must not end it earlier."""
        haunted = {*self.scenes[scene].silent, *(lease[0] for lease in self.scenes[scene].ghosts)}
        for host in range(self.nodes):
            table = self.tables[host]
            if table.name in haunted:
                continue
            for timer in table.timers[state[host]]:
                if self.system.timer_kind(table.name, timer) == "quarantine":
                    outcome = table.fire(state[host], timer)
                    yield self.after(state, Move("timer", host, timer=timer), outcome, net, scene)
