"""How long another node may be silent: one timer per (peer, ttl), set anew by every frame of that peer.

When it fires, `ttl (1 + rho)` has passed since the peer's last frame, so its holders have stopped by their own, earlier
deadlines, and all its claims here with that ttl are over.
"""

from collections.abc import Hashable

from holdall.leases.records import PREFIX
from holdall.machine.contract import CancelTimer, SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

SILENCE_TIMER = PREFIX + "silent/"


class Silence:
    """The claims of other nodes, by peer and ttl."""

    def __init__(self, rho_ppm: int) -> None:
        self._rho_ppm = rho_ppm
        self._claims: dict[str, dict[int, set[ClaimId]]] = {}
        self._ttl_of: dict[ClaimId, int] = {}

    def watch(self, claim: ClaimId, ttl_ms: int, out: Effects) -> None:
        """From now on this claim's life hangs on its node's frames."""
        if claim in self._ttl_of:
            return
        self._ttl_of[claim] = ttl_ms
        of_peer = self._claims.setdefault(claim.node, {})
        if ttl_ms not in of_peer:
            of_peer[ttl_ms] = set()
        of_peer[ttl_ms].add(claim)
        self._arm(claim.node, ttl_ms, out)

    def forget(self, claim: ClaimId, out: Effects) -> None:
        """The claim is over here."""
        ttl_ms = self._ttl_of.pop(claim, None)
        if ttl_ms is None:
            return
        of_peer = self._claims[claim.node]
        of_peer[ttl_ms].discard(claim)
        if not of_peer[ttl_ms]:
            del of_peer[ttl_ms]
            out.append(CancelTimer(f"{SILENCE_TIMER}{claim.node}/{ttl_ms}"))
        if not of_peer:
            del self._claims[claim.node]

    def heard(self, peer: str, out: Effects) -> None:
        """A frame of the peer has come."""
        for ttl_ms in sorted(self._claims.get(peer, ())):
            self._arm(peer, ttl_ms, out)

    def fired(self, timer: str) -> tuple[ClaimId, ...]:
        """The claims that are over, oldest id first; each leaves through `forget` when its units come back."""
        peer, _, ttl = timer.removeprefix(SILENCE_TIMER).rpartition("/")
        return tuple(sorted(self._claims.get(peer, {}).get(int(ttl), ())))

    def copy(self) -> "Silence":
        """An independent twin."""
        twin = Silence(self._rho_ppm)
        twin._ttl_of = dict(self._ttl_of)
        twin._claims = {
            peer: {ttl: set(claims) for ttl, claims in of_peer.items()}
            for peer, of_peer in self._claims.items()
        }
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self._ttl_of.items()))

    def _arm(self, peer: str, ttl_ms: int, out: Effects) -> None:
        after_ms = ttl_ms * (1_000_000 + self._rho_ppm) // 1_000_000
        out.append(SetTimer(f"{SILENCE_TIMER}{peer}/{ttl_ms}", after_ms))
