"""The paper's order of edges: the pool that has the ring token is greatest, else the one with the higher id.

The token makes the order fair: it stays until every strong part that it found on its arrival is served (the paper's
Qtoken), and those are killed for each other only. It goes from node to node in the order of their names. Only a strong
part that has been killed needs it, so it rests at the first node, the root, until one calls. Nothing of it is saved:
the root makes a new token when it misses the old one for long. Of two tokens the one that comes to a node that has the
other is dropped; since a token stays until its requests are served, the other one comes by.
Source: strong/weak specification, section 3.2.
"""

from collections.abc import Hashable
from typing import Any, Self

from holdall.machine.contract import Address, CancelTimer, Send, SetTimer
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.strong_weak.messages import (
    AGELESS,
    Candidate,
    Killed,
    PoolEntry,
    Request,
    RingCall,
    RingToken,
    StrongRequest,
)
from holdall.protocols.strong_weak.probes import Probes
from holdall.protocols.vocabulary import Stamp

RING_TIMER = "ring"
MISSED_AFTER = 8
"""The root makes a new token after so many pauses between repeats without it."""


class TokenProbes(Probes):
    """Probes whose order of edges is made fair by a token. `nodes`: all of the ring; none: this node alone."""

    def __init__(
        self,
        node: str,
        epoch: int,
        book: Book,
        *,
        sweep_ms: int | None = None,
        nodes: tuple[str, ...] = (),
        again_ms: int | None = None,
    ) -> None:
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        ring = sorted({*nodes, node})
        self.root = ring[0]
        self.next = ring[(ring.index(node) + 1) % len(ring)]
        self.again_ms = again_ms
        self.here = node == self.root
        """The token is here: at rest, or until `first` is served."""
        self.called = False
        """At the root: it must go round once more. Elsewhere: the root has been asked for it."""
        self.first: dict[Key, None] = {}
        """Strong parts that the token has found here, and that have not been served (Qtoken)."""

    # ------------------------------------------------------------ the order of edges

    def lesser(self, one: Candidate, other: Candidate) -> Candidate:
        """The token's requests are greater than others, then the pool decides."""
        return min(one, other, key=lambda candidate: (candidate.first, candidate.pool))

    def is_first(self, entry: PoolEntry) -> bool:
        """Whether the token was here for it."""
        return (entry.claim, entry.place) in self.first

    def _stamp(self, asked: Request, known: PoolEntry | None) -> Stamp:
        """No ages."""
        del asked, known
        return AGELESS

    # ------------------------------------------------------------ the token

    def on_message(self, sender: Address, message: Any, out: Effects) -> None:
        """The token, a call for it, or one of the other messages: a strong request that has been killed calls."""
        match message:
            case RingToken():
                if not self.here:
                    out.append(CancelTimer(RING_TIMER))
                    self._arrived(out)
            case RingCall():
                self.called = True
                if self.here and not self.first:
                    self._pass_on(out)
            case Killed(claim, _, place):
                super().on_message(sender, message, out)
                self._call_for((claim, place), out, again=False)
            case StrongRequest(claim, _, _, strong):
                super().on_message(sender, message, out)
                self._call_for((claim, strong), out, again=True)
            case _:
                super().on_message(sender, message, out)

    def _call_for(self, key: Key, out: Effects, *, again: bool) -> None:
        """Without kills everybody is served in order of arrival, so that only they need the token."""
        entry = self.entries.get(key)
        if entry is None or key in self.first or entry.n - entry.held < 1:
            return
        if self.node == self.root:
            if self.here and not self.first:
                self._arrived(out)
        elif again or not self.called:
            self.called = True
            out.append(Send(Address(self.root, MANAGER), RingCall()))

    def _arrived(self, out: Effects) -> None:
        """Strong parts that are here are first now."""
        self.here = True
        if self.node != self.root:
            self.called = False
        self.first = {key: None for key in sorted(self.entries) if self.entries[key].kind == "strong"}
        if not self.first:
            self._pass_on(out)

    def _pass_on(self, out: Effects) -> None:
        """To the next node; at the root only when it has been called."""
        if self.node == self.root:
            if not self.called or self.node == self.next:
                return
            self.called = False
        self.here = False
        self._send(out)

    def _send(self, out: Effects) -> None:
        out.append(Send(Address(self.next, MANAGER), RingToken()))
        if self.node == self.root and self.again_ms is not None:
            out.append(SetTimer(RING_TIMER, MISSED_AFTER * self.again_ms))

    def left(self, entry: PoolEntry, out: Effects) -> None:
        """Out of its line; the token goes on when all it came for have been served."""
        super().left(entry, out)
        key = (entry.claim, entry.place)
        if key not in self.first:
            return
        del self.first[key]
        if not self.first:
            if self.node == self.root and not self.called:
                self._arrived(out)
            else:
                self._pass_on(out)

    def own_timer(self, timer: str, out: Effects) -> bool:
        """The token has not come back to its root."""
        if timer != RING_TIMER:
            return False
        if not self.here:
            self._send(out)
        return True

    def own_key(self) -> Hashable:
        """Where the token is, as far as this node knows."""
        return (self.here, self.called, tuple(sorted(self.first)))

    def copy_with(self, book: Book) -> Self:
        """Its lines."""
        twin = super().copy_with(book)
        twin.first = self.first.copy()
        return twin
