"""The holder's side of a lease: stop before the node of the units could give them to anybody else.

A holder's deadline at a node is `ttl (1 - rho) - margin` after the *sending* of the last renewal that the node has
answered, so a timer is set when something is sent, and means something only if nothing sent later was answered.
Source: chain specification, section 7 (leases).
"""

from collections.abc import Hashable, Iterable

from holdall.machine.contract import SetTimer
from holdall.protocols.hooks import Effects

DEADLINE_TIMER = "holder/"


class Deadlines:
    """For each node and ttl the last count that was answered. Counts only grow, over all nodes."""

    def __init__(self, rho_ppm: int, margin_ms: int) -> None:
        self._rho_ppm = rho_ppm
        self._margin_ms = margin_ms
        self._answered: dict[tuple[str, int], int] = {}

    def begins(self, node: str, ttl_ms: int, count: int, out: Effects) -> None:
        """A first message with this ttl goes to the node: its time runs from here, before any answer."""
        if (node, ttl_ms) not in self._answered:
            self._answered[node, ttl_ms] = count
            self._arm(node, ttl_ms, count, out)

    def sent(self, node: str, ttls_ms: Iterable[int], count: int, out: Effects) -> None:
        """A renewal with this count goes to the node."""
        for ttl_ms in sorted(ttls_ms):
            self._arm(node, ttl_ms, count, out)

    def answered(self, node: str, ttls_ms: Iterable[int], count: int) -> None:
        """The node has answered the renewal with this count."""
        for ttl_ms in ttls_ms:
            self._answered[node, ttl_ms] = max(count, self._answered.get((node, ttl_ms), count))

    def over(self, node: str, ttl_ms: int) -> None:
        """No claim with this ttl is at the node any more."""
        self._answered.pop((node, ttl_ms), None)

    def fired(self, timer: str) -> tuple[str, int] | None:
        """(node, ttl) whose leases are lost to their holders; None when something later was answered."""
        node, ttl_text, count_text = timer.removeprefix(DEADLINE_TIMER).rsplit("/", 2)
        base = self._answered.get((node, int(ttl_text)))
        return (node, int(ttl_text)) if base is not None and base <= int(count_text) else None

    def copy(self) -> "Deadlines":
        """An independent twin."""
        twin = Deadlines(self._rho_ppm, self._margin_ms)
        twin._answered = dict(self._answered)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self._answered.items()))

    def _arm(self, node: str, ttl_ms: int, count: int, out: Effects) -> None:
        after_ms = ttl_ms * (1_000_000 - self._rho_ppm) // 1_000_000 - self._margin_ms
        out.append(SetTimer(f"{DEADLINE_TIMER}{node}/{ttl_ms}/{count}", max(0, after_ms)))
