"""The holder's side of a lease: stop before the node of the units could give them to anybody else.

A holder's deadline at a node is `ttl (1 - rho) - margin` after the *sending* of the last renewal that the node has
answered, so a timer is set when something is sent, and means something only if nothing sent later was answered.
Source: chain specification, section 7 (leases).
"""

from collections.abc import Hashable, Iterable

from holdall.machine.contract import SetTimer
from holdall.protocols.hooks import Effects

DEADLINE_TIMER = "holder/"
UNANSWERED_MAX = 32
"""Sendings to one node whose times are remembered; more are never under way, as leases have ended before."""


class Deadlines:
    """For each node and ttl the last count that was answered. Counts only grow, over all nodes.

    Times are CLOCK_BOOTTIME in ms as the driver told them; they serve to say how long a lease is confirmed, and are
    told to nobody else.
    """

    def __init__(self, rho_ppm: int, margin_ms: int) -> None:
        self._rho_ppm = rho_ppm
        self._margin_ms = margin_ms
        self._answered: dict[tuple[str, int], int] = {}
        self._since_ms: dict[tuple[str, int], int] = {}
        """(node, ttl) -> since when its time counts: when that was sent which was answered last, or it began anew."""
        self._heard_ms: dict[tuple[str, int], int] = {}
        """The same, but however often it began anew."""
        self._sent_ms: dict[str, dict[int, int]] = {}
        """Node -> count -> when it was sent, of what may still be answered."""

    def begins(self, node: str, ttl_ms: int, count: int, now_ms: int, out: Effects) -> None:
        """A first message with this ttl goes to the node: its time runs from here, before any answer."""
        if (node, ttl_ms) not in self._answered:
            self._answered[node, ttl_ms] = count
            self._since_ms[node, ttl_ms] = self._heard_ms[node, ttl_ms] = now_ms
            self._arm(node, ttl_ms, count, out)

    def begins_anew(self, node: str, ttl_ms: int, count: int, now_ms: int, out: Effects) -> None:
        """What was at the node is lost and comes again: its time runs from here, though the node has answered nothing."""
        self._answered[node, ttl_ms] = count
        self._since_ms[node, ttl_ms] = now_ms
        self._arm(node, ttl_ms, count, out)

    def sent(self, node: str, ttls_ms: Iterable[int], count: int, now_ms: int, out: Effects) -> None:
        """A renewal with this count goes to the node."""
        times = self._sent_ms.setdefault(node, {})
        times[count] = now_ms
        while len(times) > UNANSWERED_MAX:
            del times[next(iter(times))]
        for ttl_ms in sorted(ttls_ms):
            self._arm(node, ttl_ms, count, out)

    def answered(self, node: str, ttls_ms: Iterable[int], count: int) -> None:
        """The node has answered the renewal with this count."""
        times = self._sent_ms.get(node, {})
        for ttl_ms in ttls_ms:
            if count > self._answered.get((node, ttl_ms), count - 1) and count in times:
                self._since_ms[node, ttl_ms] = self._heard_ms[node, ttl_ms] = times[count]
            self._answered[node, ttl_ms] = max(count, self._answered.get((node, ttl_ms), count))
        for earlier in [one for one in times if one <= count]:
            del times[earlier]

    def unanswered(self, node: str) -> int:
        """How many sendings to the node it has not answered, nor any later one."""
        return len(self._sent_ms.get(node, ()))

    def over(self, node: str, ttl_ms: int) -> None:
        """No claim with this ttl is at the node any more."""
        self._answered.pop((node, ttl_ms), None)
        self._since_ms.pop((node, ttl_ms), None)
        self._heard_ms.pop((node, ttl_ms), None)

    def leaves(self, node: str) -> None:
        """No claim at all is at the node any more."""
        self._sent_ms.pop(node, None)

    def fired(self, timer: str) -> tuple[str, int] | None:
        """(node, ttl) whose leases are lost to their holders; None when something later was answered."""
        node, ttl_text, count_text = timer.removeprefix(DEADLINE_TIMER).rsplit("/", 2)
        base = self._answered.get((node, int(ttl_text)))
        return (node, int(ttl_text)) if base is not None and base <= int(count_text) else None

    def quiet_ms(self, node: str, ttl_ms: int, now_ms: int) -> int:
        """How long ago that was sent which the node answered last."""
        return max(0, now_ms - self._heard_ms.get((node, ttl_ms), now_ms))

    def left_ms(self, node: str, ttl_ms: int, now_ms: int) -> int:
        """How long the node's leases with this ttl may still be used."""
        passed_ms = max(0, now_ms - self._since_ms.get((node, ttl_ms), now_ms))
        return max(0, self._life_ms(ttl_ms) - passed_ms)

    def copy(self) -> "Deadlines":
        """An independent twin."""
        twin = Deadlines(self._rho_ppm, self._margin_ms)
        twin._answered = dict(self._answered)
        twin._since_ms, twin._heard_ms = dict(self._since_ms), dict(self._heard_ms)
        twin._sent_ms = {node: dict(times) for node, times in self._sent_ms.items()}
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self._answered.items()))

    def _life_ms(self, ttl_ms: int) -> int:
        return max(0, ttl_ms * (1_000_000 - self._rho_ppm) // 1_000_000 - self._margin_ms)

    def _arm(self, node: str, ttl_ms: int, count: int, out: Effects) -> None:
        out.append(SetTimer(f"{DEADLINE_TIMER}{node}/{ttl_ms}/{count}", self._life_ms(ttl_ms)))
