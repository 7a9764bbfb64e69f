"""The bus of a run: how long a frame takes, whether it arrives at all and how often, and who hears whom now.

It says nothing about what it lost, as a real one does not. It never lies about the sender.
"""

import random
from collections import Counter
from collections.abc import Sequence
from math import log

import msgspec

from holdall.simulator.whole.setup import WholeSetup

LATE_MS = 200.0
"""How much later than its time a frame arrives that comes twice or out of its order, at most."""


class Cut(msgspec.Struct, frozen=True):
    """Who hears nothing of whom until a time: pairs of numbers (sender's group, receiver's group)."""

    until: float
    group: dict[int, int]
    """Node number -> its group."""
    deaf: frozenset[tuple[int, int]]

    def blocks(self, sender: int, receiver: int) -> bool:
        """Whether a frame between these nodes is lost."""
        return (self.group[sender], self.group[receiver]) in self.deaf


class Net:
    """Fates of frames, all drawn from the seed."""

    def __init__(self, setup: WholeSetup) -> None:
        self._setup = setup
        self._rng = random.Random(f"holdall whole bus {setup.seed}")
        self._cuts: list[Cut] = []
        self._slow_until = 0.0
        self._latest: dict[tuple[int, int], float] = {}
        """(sender, receiver) -> when the last frame that kept its place arrives."""
        self.lost: Counter[str] = Counter()
        """Frames that did not arrive, by why."""
        self.doubled = 0
        self.overtaken = 0

    def strike(self, kind: str, now: float, until: float, place: float) -> None:
        """A fault of the bus; `place` (0 to 1) says where it cuts."""
        nodes = range(self._setup.nodes)
        if kind == "slow":
            self._slow_until = max(self._slow_until, until)
            return
        shuffled = list(nodes)
        random.Random(place).shuffle(shuffled)
        half = 1 + int(place * 997) % max(1, len(shuffled) - 1)
        group = {node: int(rank >= half) for rank, node in enumerate(shuffled)}
        both = {(0, 1), (1, 0)}
        match kind:
            case "split":
                deaf = both
            case "oneway":
                deaf = {(0, 1)}
            case "bridge":
                group[shuffled[0]] = 2
                deaf = both
            case _:
                deaf = {*both, (0, 0), (1, 1)}
        self._cuts.append(Cut(until, group, frozenset(deaf)))

    def hears(self, receiver: int, sender: int, now: float) -> bool:
        """Whether frames pass from one to the other now."""
        self._cuts = [cut for cut in self._cuts if cut.until > now]
        return not any(cut.blocks(sender, receiver) for cut in self._cuts)

    def delays(self, sender: int, receiver: int, now: float, *, strikes: bool) -> Sequence[float]:
        """When each copy of a frame arrives, from now on; none: it is lost."""
        faults = self._setup.faults
        if not self.hears(receiver, sender, now):
            self.lost["cut"] += 1
            return ()
        first = self._delay(now)
        if not strikes:
            return (self._in_place(sender, receiver, now, first),)
        if faults.loss and self._rng.random() < faults.loss:
            self.lost["loss"] += 1
            return ()
        if faults.reorder and self._rng.random() < faults.reorder:
            self.overtaken += 1
            return (first + self._rng.random() * LATE_MS,)
        first = self._in_place(sender, receiver, now, first)
        if faults.duplicate and self._rng.random() < faults.duplicate:
            self.doubled += 1
            return (first, first + self._rng.random() * LATE_MS)
        return (first,)

    def _in_place(self, sender: int, receiver: int, now: float, delay: float) -> float:
        """The delay of a frame that overtakes none of the same node."""
        at = max(now + delay, self._latest.get((sender, receiver), 0.0) + 1e-6)
        self._latest[sender, receiver] = at
        return at - now

    def _delay(self, now: float) -> float:
        setup = self._setup
        if not setup.jitter:
            return setup.delay_ms
        delay: float = setup.delay_ms * (0.5 - 0.5 * log(1.0 - self._rng.random()))
        if now < self._slow_until:
            delay += self._rng.random() * setup.ttl_ms
        return delay
