"""A counter-example in virtual time: every message takes just as long as it must for the order of a trace.

The trace says when clients act, when timers fire and in which order messages arrive, nothing else: what is sent comes
from the machines, which run here anew. Step `n` of the trace happens at the `n`-th mean message delay. Links may keep a
message as long as they like, so each such run is one that seeds could draw, however unlikely it is.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import TypeAlias

import msgspec

from holdall.machine.contract import Address, Message, ProtocolViolation, Received, SetTimer, TimerFired
from holdall.machine.host import SEPARATOR, Arrival, Host, Turn
from holdall.machine.trace import Step
from holdall.simulator.setup import DELAY_MS
from holdall.simulator.sides import AGENT
from holdall.world.clients import Clients, Phase, Scene
from holdall.world.faults import NONE
from holdall.world.literal.scripts import Recurring
from holdall.world.system import System

Letter: TypeAlias = tuple[Address, Address, Message]
"""Sender, receiver, message."""
LIVELOCK = "livelock"


class BadScript(ValueError):
    """The machines do not do what the trace says, or it needs faults, which a script has not."""


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """What a scripted run showed."""

    wrong: str
    """The property that is violated, as `name: text`; empty when none is."""
    steps: int
    delivered: int
    ended_at: float
    """In mean message delays."""
    slowest: float
    """The message that took longest, in mean message delays."""
    overtaken: int
    """Messages that arrived before one of the same link that was sent earlier."""


class _Moment(msgspec.Struct):
    """What a run is compared with later, to see that it goes round."""

    state: Hashable
    in_flight: frozenset[int]
    waiting: tuple[int, ...]


class ScriptedRun:
    """Made once, run once."""

    def __init__(self, system: System, steps: Sequence[Step]) -> None:
        """`steps`: of a trace of this system's world. Raises BadScript."""
        self.system = system
        self.now = 0.0
        self._clients = Clients(system.world, NONE, system.placed)
        self._scene: Scene = self._clients.first
        self._hosts: dict[str, Host] = {}
        self._timers: dict[str, set[str]] = defaultdict(set)
        self._heap: list[tuple[float, int, Letter | None, Arrival, str]] = []
        """When, order within a moment, the letter (None: a client or a timer), its arrival, its host."""
        self._due: dict[Letter, deque[float]] = defaultdict(deque)
        """When a letter of the trace arrives, for each copy."""
        self._flight: dict[int, tuple[float, Letter]] = {}
        self._sent = 0
        self._moments: list[_Moment] = []
        self._done = self._delivered = self._overtaken = 0
        self._slowest = 0.0
        self._wrong = ""
        self._steps = [step for step in steps if step.kind != "start"]
        for number, step in enumerate(self._steps, start=1):
            self._plan(number * DELAY_MS, step)

    def _plan(self, at: float, step: Step) -> None:
        if step.kind != "turn" or len(step.arrivals) != 1:
            raise BadScript(
                f"step {step.n}: a {step.kind} of {step.host} can't be scripted, faults are drawn from seeds"
            )
        (arrival,) = step.arrivals
        event = arrival.event
        if isinstance(event, Received) and event.sender.node != step.host:
            self._due[event.sender, Address(step.host, arrival.part), event.message].append(at)
        else:
            heapq.heappush(self._heap, (at, step.n, None, arrival, step.host))

    def run(self) -> Scripted:
        """To the end of the trace, and its judgement. Raises BadScript where the machines do not follow it."""
        for name in self.system.hosts():
            self._hosts[name] = self.system.build(name)
            self._carry(name, self._hosts[name].start())
        while self._heap:
            if self._wrong:
                raise BadScript(f"violated before the trace ends: {self._wrong}")
            at, number, letter, arrival, name = heapq.heappop(self._heap)
            self.now = at
            if letter is not None:
                self._arrived(number, letter)
            self._happens(name, arrival)
        if missing := sum(len(times) for times in self._due.values()):
            raise BadScript(f"{missing} messages of the trace were never sent")
        return Scripted(
            wrong=self._wrong or self._round() or self._stuck(),
            steps=self._done,
            delivered=self._delivered,
            ended_at=self.now / DELAY_MS,
            slowest=self._slowest / DELAY_MS,
            overtaken=self._overtaken,
        )

    # ------------------------------------------------------------ what happens

    def _happens(self, name: str, arrival: Arrival) -> None:
        event = arrival.event
        if isinstance(event, TimerFired):
            timer = f"{arrival.part}{SEPARATOR}{event.timer}"
            if timer not in self._timers[name]:
                raise BadScript(f"{name} has not set the timer {timer}")
            self._timers[name].discard(timer)
        elif event.sender.node == name:
            self._acts(name, event)
        try:
            turn = self._hosts[name].turn((arrival,))
        except ProtocolViolation as refused:
            self._wrong = f"refused: {refused}"
            turn = Turn({}, {}, [])
        self._done += 1
        self._carry(name, turn)
        self._judge()

    def _acts(self, name: str, event: Received) -> None:
        for act in self._clients.acts(self._scene):
            if act.host == name and act.command == event.message:
                self._scene = act.then
                return
        raise BadScript(f"no client on {name} would do this now: {type(event.message).__name__}")

    def _arrived(self, number: int, letter: Letter) -> None:
        sent, _ = self._flight.pop(number)
        self._delivered += 1
        self._slowest = max(self._slowest, self.now - sent)
        link = (letter[0].node, letter[1].node)
        self._overtaken += any(
            earlier < number and (other[0].node, other[1].node) == link
            for earlier, (_, other) in self._flight.items()
        )

    def _carry(self, name: str, turn: Turn) -> None:
        for timer, value in turn.timers.items():
            if isinstance(value, SetTimer):
                self._timers[name].add(timer)
            else:
                self._timers[name].discard(timer)
        for sender, to, message in turn.sends:
            if to.node == name:
                if to.part == AGENT:
                    self._scene = self._clients.told(self._scene, (message,))
                continue
            letter = (sender, to, message)
            self._sent += 1
            self._flight[self._sent] = (self.now, letter)
            if self._due[letter]:
                at = self._due[letter].popleft()
                if at <= self.now:
                    raise BadScript(f"{type(message).__name__} to {to.node} is sent after it should arrive")
                arrival = Arrival(to.part, Received(sender, message))
                heapq.heappush(self._heap, (at, self._sent, letter, arrival, to.node))

    # ------------------------------------------------------------ how it is judged

    def _judge(self) -> None:
        if self._wrong or self._scene.wrong:
            self._wrong = self._wrong or self._scene.wrong
            return
        nodes = self.system.world.nodes()
        facts = tuple(self.system.facts(self._hosts[name]) for name in nodes)
        here = (
            self.system.wrong_here(self._hosts[name], fact) for name, fact in zip(nodes, facts, strict=True)
        )
        self._wrong = next(filter(None, here), "") or self.system.wrong_between(facts)
        system: object = self.system
        if isinstance(system, Recurring):
            letters = [letter for _, letter in self._flight.values()]
            in_flight = [(sender.node, to.node, message) for sender, to, message in letters]
            state = (
                system.relative([self._hosts[name] for name in self.system.hosts()], in_flight),
                self._scene,
            )
            self._moments.append(_Moment(state, frozenset(self._flight), self._waiting()))

    def _waiting(self) -> tuple[int, ...]:
        asked = {Phase.ASKED, Phase.ENDING}
        return tuple(slot for slot, client in enumerate(self._scene.clients) if client.phase in asked)

    def _round(self) -> str:
        """The run has come back to an earlier state, everything from there has arrived, and nobody was served."""
        if not self._moments:
            return ""
        *before, last = self._moments
        for number, moment in enumerate(before, start=1):
            fair = not moment.in_flight & last.in_flight
            if fair and last.waiting and moment.waiting == last.waiting and moment.state == last.state:
                steps = len(self._moments) - number
                return f"{LIVELOCK}: the last {steps} moves can go on for ever, and nobody is served"
        return ""

    def _stuck(self) -> str:
        if self._flight:
            return ""
        if not self._clients.over(self._scene):
            return "deadlock: nothing more can happen and somebody is not served"
        if all(self.system.idle(self.system.facts(self._hosts[name])) for name in self.system.world.nodes()):
            return ""
        return "row stays: everybody is done and a node keeps a claim for ever"
