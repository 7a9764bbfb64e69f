"""From units to a lease: which unit serves which need, what the holder is told, and what the pools take back."""

from collections import Counter
from collections.abc import Sequence

from holdall.leases.messages import END_REACHED, AskPrepared
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.names import short_id
from holdall.parties.ends import Ends
from holdall.parties.explaining import Explaining
from holdall.parties.life import Losses
from holdall.parties.planning.places import place_number
from holdall.parties.planning.spreading import Spot
from holdall.parties.records import ClaimRecord, Share, Way
from holdall.parties.state import Claim, State
from holdall.parties.texts import void
from holdall.protocols.vocabulary import ALL, Granted, UnitGrant

ASK_PREPARED_MS = 10_000
"""So often other nodes are asked whether their on_grant commands have ended."""


class Granting:
    """Leases at their beginning, and when the pools end them."""

    def __init__(self, state: State, ends: Ends, explaining: Explaining) -> None:
        self._state = state
        self._ends = ends
        self._explaining = explaining

    def granted(self, claim: Claim, message: Granted) -> None:
        """The units are the claim's; told to the holder at once, or when their on_grant commands have ended."""
        grants = tuple(sorted(message.units))
        way = chosen_way(claim.record, grants)
        spots = sorted({(grant.node, grant.pool) for grant in grants})
        prepares = tuple(sorted({spot[0] for spot in spots if self._state.system.prepares(spot)}))
        self._state.change(
            claim,
            phase="preparing" if prepares else "granted",
            grants=grants,
            serves=needs_served(way, grants),
            attempt=message.attempt,
            placed=place_number(claim.record.shares, way),
            preparing=prepares,
            stamp=message.stamp,
            granted_wall_ms=self._state.wall_ms,
            granted_boot_ms=self._state.boot_ms,
        )
        if not prepares:
            self.told(claim)
        else:
            self.ask_prepared(claim)

    def ask_prepared(self, claim: Claim) -> None:
        """Other nodes tell by themselves when their on_grant commands have ended, and again when asked.

        So nothing depends on one message, or on what was announced of their pools.
        """
        others = [node for node in claim.record.preparing if node != self._state.own]
        for node in others:
            self._state.to_manager(AskPrepared(claim.record.parties()[0], claim.record.attempt), node)
        if others:
            self._state.set_timer(f"prepared/{claim.record.printed}", ASK_PREPARED_MS)

    def prepared(self, claim: Claim, node: str) -> None:
        """The on_grant commands of one node have all ended well."""
        left = tuple(other for other in claim.record.preparing if other != node)
        if left:
            self._state.change(claim, preparing=left)
        else:
            self.told(claim)

    def told(self, claim: Claim) -> None:
        """The holder may use the units from now on."""
        record = claim.record
        for timer in ("wait", "queued"):
            self._state.cancel_timer(f"{timer}/{record.printed}")
        if record.phase != "granted":
            self._state.change(claim, phase="granted", preparing=())
        waited_ms = max(0, self._state.wall_ms - record.asked_wall_ms)
        self._state.note(
            "granted",
            f"after {show_duration(waited_ms)}" if waited_ms >= 1000 else "at once",
            claim.record,
            waited_ms=waited_ms,
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
            text = Losses(self._state).text(claim, reason)
            self._ends.lost_or_denied(claim, f"{text} {fences}".rstrip())
            self._ends.gone(claim, "lost", text.partition(": ")[2].rstrip("."))


def chosen_way(record: ClaimRecord, grants: Sequence[UnitGrant]) -> Way:
    """Which of the ways asked for these units are."""
    have = Counter((grant.node, grant.pool) for grant in grants)
    for way in record.shares:
        want: Counter[Spot] = Counter()
        whole = {(share.node, share.pool) for share in way if share.count == ALL}
        for share in way:
            want[share.node, share.pool] += 0 if share.count == ALL else share.count
        if set(want) == set(have) and all(spot in whole or want[spot] == have[spot] for spot in have):
            return way
    raise AssertionError(f"{record.printed}: units of no placement that was asked for: {dict(have)}")


def needs_served(way: Sequence[Share], grants: Sequence[UnitGrant]) -> tuple[int, ...]:
    """For each unit the need that it serves: a pool's units go to its needs in the order of the needs."""
    counts = Counter((grant.node, grant.pool) for grant in grants)
    places: dict[Spot, list[int]] = {}
    for share in sorted(way):
        spot = (share.node, share.pool)
        count = counts[spot] if share.count == ALL else share.count
        places.setdefault(spot, []).extend([share.need] * count)
    return tuple(places[grant.node, grant.pool].pop(0) for grant in grants)
