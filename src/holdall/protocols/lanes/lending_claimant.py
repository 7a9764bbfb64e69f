"""The side of claims that lend: after some patience, what was granted in one pool is lent while others are missing.

Source: the history of the lanes specification, section 3.7. When all places have been granted once they are wanted back,
and only those who are in stand before the claim then. There the source stops: a claim lends each place once. But who is
in on a loan may die with it, and the claim that waits for it keeps its other places from everybody. So after a doubled
patience it lends again: as soon as that is longer than any hold, it is in before its patience is over.
"""

from collections.abc import Mapping, Sequence

import msgspec

from holdall.machine.contract import Address, CancelTimer, Effect, Record, SetTimer
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.hooks import Effects
from holdall.protocols.lanes.claimant import LanesOf
from holdall.protocols.lanes.messages import Lane, LendingClaim, Stage, Status, Wish

PATIENCE = "patience"
ROUNDS_MOST = 12
"""How often a claim begins to lend: its patience is thousands of times as long by then."""


class LendingClaimant(LanesOf[LendingClaim]):
    """All claims of one node.

    `patience_ms`: how long a claim is in its lane before it lends, doubled each time that it does; 0: it lends at once.
    `rounds_most`: how often it begins to.
    """

    record_type = LendingClaim

    def __init__(
        self,
        node: str,
        agent: Address,
        *,
        again_ms: int | None = None,
        first_ms: int | None = None,
        patience_ms: int = 6000,
        rounds_most: int = ROUNDS_MOST,
    ) -> None:
        super().__init__(node, agent, again_ms=again_ms, first_ms=first_ms)
        self.patience_ms = patience_ms
        self.rounds_most = rounds_most

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """The patience of claims in their lanes runs anew."""
        out = [*super().recover(records)]
        for claim in sorted(self.claims):
            self._be_patient(self.claims[claim], out)
        return out

    def fresh(self, record: LendingClaim) -> LendingClaim:
        """Nothing seen, nothing lent."""
        record = msgspec.structs.replace(
            record,
            lanes=(Lane(),) * len(record.places),
            lends=self.patience_ms == 0,
            rounds=int(self.patience_ms == 0),
        )
        return super().fresh(record)

    def lane_begins(self, record: LendingClaim, out: Effects) -> None:
        """Its patience runs."""
        super().lane_begins(record, out)
        self._be_patient(record, out)

    def stripped(self, record: LendingClaim) -> LendingClaim:
        """Without its wishes."""
        return super().stripped(msgspec.structs.replace(record, lanes=(), lends=False, rounds=0))

    def go_in(self, record: LendingClaim, out: Effects) -> None:
        """It needs no patience any more."""
        self._stop_waiting(record, out)
        super().go_in(record, out)

    def finish(self, record: LendingClaim, out: Effects) -> None:
        """Nor when it ends."""
        self._stop_waiting(record, out)
        super().finish(record, out)

    def own_timer(self, kind: str, record: LendingClaim, out: Effects) -> None:
        """The patience of a claim is over: until each place has been granted, once more, it lends what it has."""
        if kind != PATIENCE or record.phase is not Phase.WAITING or not self._may_lend(record):
            return
        lanes = tuple(
            msgspec.structs.replace(lane, had=units is not None)
            for lane, units in zip(record.lanes, record.got, strict=True)
        )
        record = msgspec.structs.replace(record, lanes=lanes, lends=True, rounds=record.rounds + 1)
        self.in_lane(self.note(record), out)

    def _be_patient(self, record: LendingClaim, out: Effects) -> None:
        if record.phase is Phase.WAITING and self._may_lend(record):
            patience_ms = max(1, self.patience_ms) << record.rounds
            out.append(SetTimer(f"{PATIENCE}/{record.claim}", patience_ms, patience_ms // 8))

    def _stop_waiting(self, record: LendingClaim, out: Effects) -> None:
        if record.phase is Phase.WAITING and self._may_lend(record):
            out.append(CancelTimer(f"{PATIENCE}/{record.claim}"))

    def _may_lend(self, record: LendingClaim) -> bool:
        """Whether it is in its lane, and lends when its patience is over."""
        return bool(record.n) and not record.lends and record.rounds < self.rounds_most

    def in_lane(self, record: LendingClaim, out: Effects) -> None:
        """In, if all have their units; else try, lend, or want it back."""
        record = self.note(_granted_once(self, record))
        if None not in record.got:
            self.go_in(record, out)
            return
        if any(lane.wish is Wish.TRY for lane in record.lanes):
            if not self._has_failed(record):
                return
            record = self._give_up(record, out)
        missing = [place for place, units in enumerate(record.got) if units is None]
        everywhere = all(lane.had for lane in record.lanes)
        if record.lends and everywhere:
            record = msgspec.structs.replace(record, lends=False)
            lent = [place for place in missing if record.lanes[place].lent]
            record = self._wish(record, lent, Wish.KEEP, out)
            self._be_patient(record, out)
        elif all(_is_hinted(record, place) for place in missing):
            self._wish(record, missing, Wish.TRY, out)
        elif record.lends:
            had = [place for place in range(len(record.got)) if place not in missing]
            self._wish(record, had, Wish.LEND, out)

    def has(self, record: LendingClaim, place: int) -> bool:
        """In a lane: granted and not lent since, or set aside by the try that goes on."""
        seen, lane = record.views[place], record.lanes[place]
        if not record.n or seen is None or seen.index != record.n:
            return super().has(record, place)
        if seen.status is Status.TRIED:
            return lane.wish is Wish.TRY and seen.turn == lane.turn
        return seen.status is Status.GRANTED and lane.wish is not Wish.LEND and seen.turn >= lane.since

    def satisfied(self, record: LendingClaim, place: int) -> bool:
        """It has its units, or knows that they are lent."""
        seen, lane = record.views[place], record.lanes[place]
        knows = seen is not None and seen.turn >= lane.turn
        return self.has(record, place) or (knows and lane.wish is Wish.LEND)

    def wish_of(self, record: LendingClaim, place: int) -> tuple[Wish, int]:
        """As the lane says."""
        return record.lanes[place].wish, record.lanes[place].turn

    def _has_failed(self, record: LendingClaim) -> bool:
        """Whether a place has answered that its units can't be had now."""
        return any(
            lane.wish is Wish.TRY
            and seen is not None
            and seen.turn >= lane.turn
            and not self.has(record, place)
            for place, (seen, lane) in enumerate(zip(record.views, record.lanes, strict=True))
        )

    def _give_up(self, record: LendingClaim, out: Effects) -> LendingClaim:
        """All or nothing: what was set aside goes back (`untry`), and what has not answered yet will not be heard."""
        back: dict[Wish, list[int]] = {Wish.KEEP: [], Wish.LEND: []}
        lanes = list(record.lanes)
        for place, lane in enumerate(lanes):
            if lane.wish is not Wish.TRY:
                continue
            seen = record.views[place]
            wish = Wish.LEND if lane.lent else Wish.KEEP
            as_wished = {Status.LENT} if lane.lent else {Status.QUEUED, Status.GRANTED}
            if seen is not None and seen.turn >= lane.turn and seen.status in as_wished:
                lanes[place] = msgspec.structs.replace(lane, wish=wish)
            else:
                back[wish].append(place)
        record = msgspec.structs.replace(record, lanes=tuple(lanes))
        for wish, places in back.items():
            record = self._wish(record, places, wish, out)
        return self.put(self.counted(record), out)

    def _wish(self, record: LendingClaim, places: list[int], wish: Wish, out: Effects) -> LendingClaim:
        """Another wish for these places: saved, then sent."""
        lanes = list(record.lanes)
        for place in places:
            lane = lanes[place]
            turn = lane.turn + 1
            lent = wish is Wish.LEND or (lane.lent and wish is Wish.TRY)
            since = turn if wish is Wish.LEND else lane.since
            lanes[place] = msgspec.structs.replace(lane, turn=turn, wish=wish, lent=lent, since=since)
        record = self.put(self.counted(msgspec.structs.replace(record, lanes=tuple(lanes))), out)
        for place in places:
            self.stand(record, place, Stage.FINAL, out, answer=wish is Wish.TRY)
        if places:
            self.arm_anew(record, out)
        return record


def _granted_once(claimant: LendingClaimant, record: LendingClaim) -> LendingClaim:
    """With a mark at every place that was granted in its turn."""
    lanes = tuple(
        msgspec.structs.replace(lane, had=True)
        if not lane.had and seen is not None and seen.status is Status.GRANTED and claimant.has(record, place)
        else lane
        for place, (seen, lane) in enumerate(zip(record.views, record.lanes, strict=True))
    )
    return msgspec.structs.replace(record, lanes=lanes)


def _is_hinted(record: LendingClaim, place: int) -> bool:
    seen = record.views[place]
    return seen is not None and seen.hint
