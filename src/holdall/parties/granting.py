"""From units to a lease: which unit serves which need, what the holder is told, and what the pools take back."""

from collections import Counter
from collections.abc import Sequence

from holdall.leases.messages import END_REACHED
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.names import short_id
from holdall.parties.ends import Ends
from holdall.parties.explaining import Explaining
from holdall.parties.records import ClaimRecord, Share
from holdall.parties.state import Claim, State
from holdall.parties.texts import void
from holdall.protocols.vocabulary import ALL, Granted, UnitGrant


class Granting:
    """Leases at their beginning, and when the pools end them."""

    def __init__(self, state: State, ends: Ends, explaining: Explaining) -> None:
        self._state = state
        self._ends = ends
        self._explaining = explaining

    def granted(self, claim: Claim, message: Granted) -> None:
        """The units are the claim's; told to the holder at once, or when their on_grant commands have ended."""
        grants = tuple(sorted(message.units))
        shares = chosen_shares(claim.record, grants)
        prepares = any(self._prepares(grant) for grant in grants)
        self._state.change(
            claim,
            phase="preparing" if prepares else "granted",
            grants=grants,
            serves=needs_served(shares, grants),
            attempt=message.attempt,
            stamp=message.stamp,
            granted_wall_ms=self._state.wall_ms,
            granted_boot_ms=self._state.boot_ms,
        )
        if not prepares:
            self.told(claim)

    def told(self, claim: Claim) -> None:
        """The holder may use the units from now on."""
        record = claim.record
        for timer in ("wait", "queued"):
            self._state.cancel_timer(f"{timer}/{record.printed}")
        if record.phase != "granted":
            self._state.change(claim, phase="granted")
        waited_ms = max(0, self._state.wall_ms - record.asked_wall_ms)
        self._state.note(
            "granted", f"after {show_duration(waited_ms)}" if waited_ms >= 1000 else "at once", claim.record
        )
        self.tell(claim, record.n)

    def tell(self, claim: Claim, n: int) -> None:
        """The lease, as the answer to request `n` of its session."""
        if claim.key:
            self._state.tell_session(claim.record.session, self.answer(claim, n))
        # Else the node has restarted since: the client repeats its Claim, which brings a key.

    def answer(self, claim: Claim, n: int) -> frames.Granted:
        """What a holder is told of its lease."""
        return frames.Granted(
            n=n,
            key=claim.key,
            lease=self._explaining.lease_view(claim),
            valid_for_ms=self._explaining.valid_for_ms(claim),
            for_left_ms=self._explaining.for_left_ms(claim),
        )

    def taken_back(self, claim: Claim, reason: str) -> None:
        """The pools have ended the lease: its hard end, or the pools' node has lost it."""
        record = claim.record
        fences = void([grant.fence for grant in record.grants])
        if reason == END_REACHED:
            text = f"lease {short_id(record.printed)} is over: its end (--for) was reached. {fences}"
            self._ends.lost_or_denied(claim, text)
            self._ends.gone(claim, "expired", "its end (for) was reached")
        else:
            text = f"lease {short_id(record.printed)} lost: its pools have ended it ({reason}). {fences}"
            self._ends.lost_or_denied(claim, text)
            self._ends.gone(claim, "lost", reason)

    def _prepares(self, grant: UnitGrant) -> bool:
        spec = self._state.pools.spec(grant.pool) if grant.node == self._state.settings.node else None
        return spec is not None and bool(spec.on_grant)


def chosen_shares(record: ClaimRecord, grants: Sequence[UnitGrant]) -> tuple[Share, ...]:
    """Which of the claim's placements these units are."""
    have = Counter(grant.pool for grant in grants)
    for shares in record.shares:
        want: Counter[str] = Counter()
        whole = {share.pool for share in shares if share.count == ALL}
        for share in shares:
            want[share.pool] += 0 if share.count == ALL else share.count
        if set(want) == set(have) and all(pool in whole or want[pool] == have[pool] for pool in have):
            return shares
    raise AssertionError(f"{record.printed}: units of no placement that was asked for: {dict(have)}")


def needs_served(shares: Sequence[Share], grants: Sequence[UnitGrant]) -> tuple[int, ...]:
    """For each unit the need that it serves: a pool's units go to its needs in the order of the needs."""
    places: dict[str, list[int]] = {}
    for share in sorted(shares):
        count = sum(1 for grant in grants if grant.pool == share.pool) if share.count == ALL else share.count
        places.setdefault(share.pool, []).extend([share.need] * count)
    return tuple(places[grant.pool].pop(0) for grant in grants)
