"""The side of the claims of one node: asks all pools at once, decides for itself when it is in.

Source: lanes specification, section 2.5. Phases: R (asked, `n` 0), W (in its lane, `n` known), then inside.
"""

from typing import Any, Generic, Self, TypeVar

import msgspec

from holdall.machine.contract import Address, ProtocolViolation, Send, SetTimer
from holdall.protocols.by_pool.claim import Phase, in_doubt, known_in
from holdall.protocols.by_pool.claimant import AGAIN
from holdall.protocols.by_pool.claimant import Claimant as ByPool
from holdall.protocols.hooks import Effects
from holdall.protocols.lanes.messages import HOLDS, LaneClaim, SeenAt, Stage, Standing, Status, View, Wish
from holdall.protocols.vocabulary import ClaimId

L = TypeVar("L", bound=LaneClaim)

SETTLED_PAUSES = 6
"""Longest pauses between repeats, once all places have put a claim into its lane. Grants are repeated by managers, and a
node that has lost its line says so in the next renewal: what is left is a node that is never renewed."""


class LanesOf(ByPool[L], Generic[L]):
    """All claims of one node, whatever their record keeps beside a lane."""

    newer_ends_older = True

    def __init__(
        self, node: str, agent: Address, *, again_ms: int | None = None, first_ms: int | None = None
    ) -> None:
        """`first_ms`: the first pause before forms are sent again, doubled up to `again_ms`."""
        super().__init__(node, agent, again_ms=again_ms)
        self.first_ms = first_ms
        self._pauses: dict[ClaimId, int] = {}
        """How long the next one is; how long timers run is no part of what a machine is (`key`)."""

    def copy(self) -> Self:
        """With its pauses."""
        twin = super().copy()
        vars(twin)["_pauses"] = self._pauses.copy()
        return twin

    def fresh(self, record: L) -> L:
        """Nothing seen."""
        return msgspec.structs.replace(record, n=0, views=(None,) * len(record.places))

    def stripped(self, record: L) -> L:
        """Without what plays no part any more once it is in, or ends: where its lane was, and what it has seen."""
        return msgspec.structs.replace(record, n=0, views=())

    def go_in(self, record: L, out: Effects) -> None:
        """All that it keeps are its units."""
        super().go_in(self.stripped(record), out)

    def finish(self, record: L, out: Effects) -> None:
        """All that it keeps are its Ends."""
        super().finish(self.stripped(record), out)

    def ignores_own(self, record: L, message: Any) -> bool:
        """Late views: of earlier attempts, and those of a claim that is in but such as may want an answer."""
        if not isinstance(message, View):
            return False
        if message.attempt < record.attempt or record.phase is Phase.ENDING:
            return True
        doubt = bool(message.units) and in_doubt(record, message.place, message.epoch)
        return record.phase is Phase.INSIDE and message.status is not Status.GRANTED and not doubt

    def shown(self, record: L) -> str:
        """With its lane."""
        return f"lane {record.n}" if record.phase is Phase.WAITING and record.n else super().shown(record)

    def ask(self, record: L, out: Effects) -> None:
        """The same form again to every place that has not answered it: in a lane, whatever that place has shown."""
        for place, seen in enumerate(record.views):
            if record.n and not self.satisfied(record, place):
                self.stand(record, place, Stage.FINAL, out)
            elif not record.n and seen is None:
                self.stand(record, place, Stage.ASK, out)

    def answered(self, record: L, sender: Address, message: Any, out: Effects) -> None:
        """A view, if it tells news."""
        if not isinstance(message, View):
            raise ProtocolViolation(f"{type(message).__name__} is no message for a claimant of lanes")
        if message.attempt != record.attempt:
            return
        place, units = message.place, message.units
        if record.phase > Phase.WAITING:
            if units and in_doubt(record, place, message.epoch):
                self._still_held(known_in(record, place, message.epoch), place, units, out)
            elif record.phase is Phase.INSIDE and message.status is Status.GRANTED:
                self._has_heard(record, message, out)
            return
        seen = SeenAt(message.epoch, message.index, message.turn, message.status, message.hint, units)
        known = record.views[place]
        if known is not None and _news(known) >= _news(seen):
            if known == seen and seen.status is Status.GRANTED and record.n:
                self._has_heard(record, message, out)
            return
        views = (*record.views[:place], seen, *record.views[place + 1 :])
        record = self.counted(msgspec.structs.replace(record, views=views), place)
        record = self.note(known_in(record, place, seen.epoch))
        if not record.n:
            self._all_proposed(record, out)
            return
        if known is not None and known.epoch < seen.epoch and not self.satisfied(record, place):
            # The node has lost its last turns with the lane's index, or the grant.
            self.stand(record, place, Stage.FINAL, out)
        self.in_lane(record, out)

    def confirmed(self, node: str, epoch: int, out: Effects) -> bool:
        """A node that came up anew may have lost the places of lanes: they are told there again."""
        for claim in sorted(self.claims):
            record = self.claims[claim]
            if record.phase is not Phase.WAITING or not record.n:
                continue
            for place, seen in enumerate(record.views):
                late = seen is not None and seen.epoch < epoch and record.places[place].node == node
                if late and not self.satisfied(record, place):
                    self.stand(record, place, Stage.FINAL, out)
        return super().confirmed(node, epoch, out)

    def _all_proposed(self, record: L, out: Effects) -> None:
        """With all views: in at once if all pools have set units aside, else the largest index is the lane."""
        seen = [view for view in record.views if view is not None]
        if len(seen) < len(record.views):
            return
        if all(view.status is Status.ASIDE for view in seen):
            self.go_in(record, out)
            return
        # After a restart, which has forgotten the lane, a place may be in it already: the largest index is that lane.
        n = max(view.index for view in seen)
        record = self.note(self.counted(msgspec.structs.replace(record, n=n)))
        for place, view in enumerate(seen):
            if view.status <= Status.ASIDE or view.index < n:
                self.stand(record, place, Stage.FINAL, out, answer=False)
        self.lane_begins(record, out)
        self.in_lane(record, out)

    def lane_begins(self, record: L, out: Effects) -> None:
        """Its index is known, and has been sent."""
        self.arm_anew(record, out)

    def arm_anew(self, record: L, out: Effects) -> None:
        """Something new has been sent: an answer may be here soon."""
        self._pauses.pop(record.claim, None)
        self.arm(record, out)

    def arm(self, record: L, out: Effects) -> None:
        """Repeat it after a pause that doubles."""
        if self.again_ms is None or not record.open:
            return
        pause_ms = self._pauses.get(record.claim, self.first_ms or self.again_ms)
        self._pauses[record.claim] = min(2 * pause_ms, self.again_ms)
        places = range(len(record.got))
        if record.phase is Phase.WAITING and all(self._is_in_line(record, place) for place in places):
            pause_ms = self.again_ms * SETTLED_PAUSES
        out.append(SetTimer(f"{AGAIN}/{record.claim}", pause_ms, pause_ms // 4))

    def quiet(self, record: L, out: Effects) -> None:
        """No pause goes on."""
        super().quiet(record, out)
        self._pauses.pop(record.claim, None)

    def _is_in_line(self, record: L, place: int) -> bool:
        """Whether the place has put it into its lane, or satisfied it."""
        seen = record.views[place]
        if not record.n or seen is None or seen.index != record.n:
            return False
        return seen.status >= Status.LENT and seen.turn >= self.wish_of(record, place)[1]

    def in_lane(self, record: L, out: Effects) -> None:
        """Something has changed for a claim in its lane: in when all places have their units."""
        if None not in record.got:
            self.go_in(record, out)

    def has(self, record: L, place: int) -> bool:
        """Whether the place has its units for good: in a lane, what was set aside before does not count."""
        seen = record.views[place]
        if not record.n:
            return seen is not None and seen.status in HOLDS
        return seen is not None and seen.status is Status.GRANTED and seen.index == record.n

    def satisfied(self, record: L, place: int) -> bool:
        """Whether the place has answered what a claim in its lane wants of it now."""
        return self.has(record, place)

    def counted(self, record: L, only: int | None = None) -> L:
        """With the units of all places that have them; `only`: nothing has changed but at this place."""
        got = list(record.got)
        for place in range(len(got)) if only is None else (only,):
            seen = record.views[place]
            got[place] = seen.units if seen is not None and self.has(record, place) else None
        counted = tuple(got)
        return record if counted == record.got else msgspec.structs.replace(record, got=counted)

    def wish_of(self, record: L, place: int) -> tuple[Wish, int]:
        """What it wants of a place in its lane, and how often that has changed."""
        del record, place
        return Wish.KEEP, 0

    def _has_heard(self, record: L, view: View, out: Effects) -> None:
        """Its manager repeats a grant until it knows that it is heard."""
        want = record.places[view.place]
        form = Standing(
            view.claim,
            view.attempt,
            view.place,
            view.epoch,
            Stage.FINAL,
            view.index,
            want.pool,
            want.units,
            record.terms,
            answer=False,
            turn=view.turn,
            seen=(view.status, view.turn, view.hint),
        )
        out.append(Send(self.manager_of(record, view.place), form))

    def stand(self, record: L, place: int, stage: Stage, out: Effects, *, answer: bool = True) -> None:
        """Send the place's form."""
        want = record.places[place]
        wish, turn = self.wish_of(record, place)
        seen = record.views[place]
        in_line = self._is_in_line(record, place)
        form = Standing(
            record.claim,
            record.attempt,
            place,
            want.epoch,
            stage,
            record.n,
            want.pool,
            want.units,
            record.terms,
            wait=record.phase is not Phase.TRYING,
            single=len(record.places) == 1,
            answer=answer,
            wish=wish,
            turn=turn,
            seen=(seen.status, seen.turn, seen.hint) if in_line and seen is not None else None,
        )
        out.append(Send(self.manager_of(record, place), form))


class Claimant(LanesOf[LaneClaim]):
    """All claims of one node."""

    record_type = LaneClaim


def _news(seen: SeenAt) -> tuple[int, int, int, int, bool]:
    """Views of one attempt at one place only grow; those of a newer start of the node count anew."""
    return seen.epoch, seen.index, seen.turn, seen.status, seen.hint
