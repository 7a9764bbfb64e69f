"""How long another node may be silent: one timer per (peer, ttl), set anew by every frame of that peer.

When it fires, `ttl (1 + rho)` has passed since the peer's last frame, so its holders have stopped by their own, earlier
deadlines, and all its claims here with that ttl are over. A claim that comes later, perhaps sent on by another node
while its own is silent, has its time from then: those wait with a timer of their own for the peer's next frame, so that
they do not lengthen the life of what was here before. A node that comes up again has answered nothing meanwhile,
so what it waited already counts, as long as the kernel's boot is the same: else a node that dies again and again
would wait for ever.
"""

from collections.abc import Hashable, Iterable, Mapping

from holdall.leases.records import PREFIX, UNHEARD_PREFIX, UnheardRecord
from holdall.machine.contract import CancelTimer, Forget, Record, Save, SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

SILENCE_TIMER = PREFIX + "silent/"
_LATER = "later/"
"""Before the peer in the name of the timer of claims that came since its last frame."""


class Silence:
    """The claims of other nodes, by peer and ttl."""

    def __init__(self, rho_ppm: int) -> None:
        self._rho_ppm = rho_ppm
        self._claims: dict[str, dict[int, set[ClaimId]]] = {}
        self._later: dict[str, dict[int, set[ClaimId]]] = {}
        """Likewise those that came while others of that peer and ttl were here, until the peer is heard."""
        self._ttl_of: dict[ClaimId, int] = {}
        self._unheard: dict[str, int] = {}
        """Peer -> CLOCK_BOOTTIME since which no process of this node has heard it; 0: the clock is not known yet."""
        self._has_clock = True
        """False between a restart and the first reading of the clock."""

    def recover(self, records: Mapping[str, Record], *, same: bool, out: Effects) -> None:
        """The claims are known again. `same`: CLOCK_BOOTTIME has gone on since the records were written."""
        self._has_clock = False
        for key in sorted(key for key in records if key.startswith(UNHEARD_PREFIX)):
            record = records[key]
            if isinstance(record, UnheardRecord) and same and record.node in self._claims:
                self._unheard[record.node] = record.since_boot_ms
            else:
                out.append(Forget(key))
        # Of all that was here before nobody has heard since.
        self._merge(tuple(self._later), out)
        for peer in self._claims:
            self._unheard.setdefault(peer, 0)

    def clock(self, boot_ms: int, out: Effects) -> None:
        """A reading of the clock; the first one after a restart takes off what was waited before."""
        if self._has_clock or not boot_ms:
            return
        self._has_clock = True
        for peer in sorted(self._unheard):
            since_ms = self._unheard[peer]
            if since_ms:
                for ttl_ms in sorted(self._claims[peer]):
                    self._arm(peer, ttl_ms, out, passed_ms=max(0, boot_ms - since_ms))
            else:
                self._unheard[peer] = boot_ms
                out.append(Save(f"{UNHEARD_PREFIX}{peer}", UnheardRecord(peer, boot_ms)))

    def watch(self, claim: ClaimId, ttl_ms: int, out: Effects, *, anew: bool = False) -> None:
        """From now on this claim's life hangs on its node's frames.

        `anew`: another attempt of it has come. Its node counts from that one's beginning, and it may have come over other
        nodes, so it gets a time of its own.
        """
        known = self._ttl_of.get(claim)
        if known == ttl_ms and not anew:
            return
        if known is not None:
            self._take_out(claim, known, out)
        self._ttl_of[claim] = ttl_ms
        of_peer = self._claims.setdefault(claim.node, {})
        if ttl_ms in of_peer:
            self._later.setdefault(claim.node, {}).setdefault(ttl_ms, set()).add(claim)
            self._arm(_LATER + claim.node, ttl_ms, out)
        else:
            of_peer[ttl_ms] = {claim}
            self._arm(claim.node, ttl_ms, out)

    def forget(self, claim: ClaimId, out: Effects) -> None:
        """The claim is over here."""
        ttl_ms = self._ttl_of.pop(claim, None)
        if ttl_ms is None:
            return
        self._take_out(claim, ttl_ms, out)
        if not self._claims[claim.node] and claim.node not in self._later:
            del self._claims[claim.node]
            self._is_heard(claim.node, out)

    def heard(self, peer: str, out: Effects) -> None:
        """A frame of the peer has come."""
        self._is_heard(peer, out)
        if peer in self._later:
            self._merge((peer,), out)
        for ttl_ms in sorted(self._claims.get(peer, ())):
            self._arm(peer, ttl_ms, out)

    def fired(self, timer: str) -> tuple[ClaimId, ...]:
        """The claims that are over, oldest id first; each leaves through `forget` when its units come back."""
        peer, _, ttl = timer.removeprefix(SILENCE_TIMER).rpartition("/")
        groups = self._later if peer.startswith(_LATER) else self._claims
        return tuple(sorted(groups.get(peer.removeprefix(_LATER), {}).get(int(ttl), ())))

    def copy(self) -> "Silence":
        """An independent twin."""
        twin = Silence(self._rho_ppm)
        twin._ttl_of = dict(self._ttl_of)
        twin._claims, twin._later = _copied(self._claims), _copied(self._later)
        twin._unheard, twin._has_clock = dict(self._unheard), self._has_clock
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        later = tuple(
            sorted(
                claim for of_peer in self._later.values() for claims in of_peer.values() for claim in claims
            )
        )
        return (tuple(sorted(self._ttl_of.items())), later, tuple(sorted(self._unheard.items())))

    def _merge(self, peers: Iterable[str], out: Effects) -> None:
        """From now on one time counts for all that is here of these peers."""
        for peer in peers:
            for ttl_ms, claims in sorted(self._later.pop(peer, {}).items()):
                self._claims[peer].setdefault(ttl_ms, set()).update(claims)
                out.append(CancelTimer(_timer(_LATER + peer, ttl_ms)))

    def _take_out(self, claim: ClaimId, ttl_ms: int, out: Effects) -> None:
        for groups, prefix in ((self._claims, ""), (self._later, _LATER)):
            of_peer = groups.get(claim.node, {})
            claims = of_peer.get(ttl_ms)
            if claims is None or claim not in claims:
                continue
            claims.discard(claim)
            if not claims:
                del of_peer[ttl_ms]
                out.append(CancelTimer(_timer(prefix + claim.node, ttl_ms)))
        if not self._later.get(claim.node, True):
            del self._later[claim.node]

    def _is_heard(self, peer: str, out: Effects) -> None:
        if self._unheard.pop(peer, 0):
            out.append(Forget(f"{UNHEARD_PREFIX}{peer}"))

    def _arm(self, peer: str, ttl_ms: int, out: Effects, *, passed_ms: int = 0) -> None:
        after_ms = ttl_ms * (1_000_000 + self._rho_ppm) // 1_000_000
        out.append(SetTimer(_timer(peer, ttl_ms), max(0, after_ms - passed_ms)))


def _timer(peer: str, ttl_ms: int) -> str:
    return f"{SILENCE_TIMER}{peer}/{ttl_ms}"


def _copied(groups: Mapping[str, Mapping[int, set[ClaimId]]]) -> dict[str, dict[int, set[ClaimId]]]:
    return {peer: {ttl: set(claims) for ttl, claims in of_peer.items()} for peer, of_peer in groups.items()}
