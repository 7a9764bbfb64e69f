"""Cycles of dependencies found by probes and broken at their least edge, as in the paper, instead of wounding by age.

A promoted part that must wait sends a Seek along the active strong parts before it, to where those wait. The last edge
of a cycle to appear finds all others present, so that a Seek may be dropped wherever it finds no valid edge. Source:
strong/weak specification, section 3.2 (the paper's seekLoop, rmin, KillLoop).
"""

from collections.abc import Hashable
from typing import Any

import msgspec

from holdall.machine.contract import Address, Send
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Effects
from holdall.protocols.strong_weak.manager import Manager, Rank
from holdall.protocols.strong_weak.messages import Candidate, Edge, Kill, PoolEntry, Seek


class AgedProbes(Manager):
    """Probes over queues in order of age. The least edge is that of the youngest claim."""

    def on_message(self, sender: Address, message: Any, out: Effects) -> None:
        """A Seek, or one of the other messages."""
        if isinstance(message, Seek):
            self._on_seek(message, out)
        else:
            super().on_message(sender, message, out)

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """A promoted part must wait: seek a cycle of dependencies through it."""
        origin = Edge(entry.claim, entry.attempt, entry.n, entry.place, self.node)
        self._seek_on(origin, entry.pool, None, (), out)

    def _on_seek(self, seek: Seek, out: Effects) -> None:
        edge = seek.edge
        entry = self._part(edge.claim, edge.attempt, edge.place, "weak")
        if entry is None or entry.held or not entry.promoted or entry.n != edge.n:
            return
        self._seek_on(seek.origin, entry.pool, seek.least, seek.path, out)

    def _seek_on(
        self,
        origin: Edge,
        pool: str,
        least: Candidate | None,
        path: tuple[tuple[str, str], ...],
        out: Effects,
    ) -> None:
        """From somebody who waits here on along everybody who is active: back at the origin it has closed a cycle."""
        here = (self.node, pool)
        for key in sorted(self.active.get(pool, ())):
            holder = self.entries[key]
            edge = Edge(holder.claim, holder.attempt, holder.n, holder.other, holder.other_node)
            candidate = Candidate(edge, holder.stamp, self.is_first(holder), here)
            worst = candidate if least is None else self.lesser(candidate, least)
            if edge == origin:
                killed = worst.edge
                kill = Kill(killed.claim, killed.attempt, killed.place, killed.n)
                out.append(Send(Address(killed.node, MANAGER), kill))
            elif here not in path:
                # A cycle without the origin is found by the last of its own edges.
                out.append(Send(Address(edge.node, MANAGER), Seek(origin, edge, worst, (*path, here))))

    def lesser(self, one: Candidate, other: Candidate) -> Candidate:
        """The one that is killed before the other."""
        return max(one, other, key=lambda candidate: candidate.stamp)

    def is_first(self, entry: PoolEntry) -> bool:
        """Whether its edge is greatest for now."""
        del entry
        return False


class Probes(AgedProbes):
    """The paper's queues: in order of arrival, and who is killed goes to the tail."""

    turn = 0
    """Last number of arrival."""

    def rank(self, entry: PoolEntry) -> Rank:
        """The place in the strong queue: who came first is first."""
        return entry.turn

    def arrives(self, entry: PoolEntry) -> PoolEntry:
        """At the tail."""
        self.turn += 1
        return msgspec.structs.replace(entry, turn=self.turn)

    def entered(self, entry: PoolEntry) -> None:
        """Into its line; numbers of arrival go on from the last one."""
        self.turn = max(self.turn, entry.turn)
        super().entered(entry)

    def entries_key(self) -> Hashable:
        """Numbers of arrival count only as an order."""
        order = sorted(self.entries.values(), key=lambda entry: (entry.turn, entry.claim, entry.place))
        return tuple(msgspec.structs.replace(entry, turn=0) for entry in order)
