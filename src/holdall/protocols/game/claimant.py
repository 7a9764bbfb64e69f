"""The side of the claims of one node: the paper's agents, which play for each task by its views.

Guards (game specification, section 1), each a conjunction over the newest views of all places: the doorway (`door`),
p2 (`fits`), p4 (`first`). A claim has won when all places show, in its present round, units set aside.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    ProtocolViolation,
    Record,
    Save,
    Send,
    SetTimer,
)
from holdall.protocols.by_pool.claim import Phase, known_in, retried
from holdall.protocols.by_pool.claimant import Claimant as ByPool
from holdall.protocols.game.messages import Advance, Form, GameClaim, Rules, Stage, View
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import Acquire, ClaimId

ALARM = "alarm"
FAILURES_MAX = 6
"""The alarm waits at most 2 ** FAILURES_MAX times its usual time."""


class Claimant(ByPool[GameClaim]):
    """All claims of one node. `alarm_ms`: the time that the paper calls Gamma (complete variant)."""

    record_type = GameClaim
    newer_ends_older = True

    def __init__(
        self, node: str, agent: Address, *, rules: Rules, alarm_ms: int, again_ms: int | None = None
    ) -> None:
        super().__init__(node, agent, again_ms=again_ms)
        self.rules = rules
        self.alarm_ms = alarm_ms
        self.clock = 0
        """Largest number of a ticket that was taken here or seen."""

    # ------------------------------------------------------------ a claim and its attempts

    def first(self, record: GameClaim, acquire: Acquire) -> GameClaim:
        """It takes its ticket."""
        number = self.clock + 1 if acquire.stamp is None else acquire.stamp.clock
        self.clock = max(self.clock, number)
        return self.fresh(msgspec.structs.replace(record, number=number))

    def fresh(self, record: GameClaim) -> GameClaim:
        """Nothing seen, nothing requested; its ticket stays. Without waiting there is only the fast path."""
        fast = self.rules.claims or record.phase is Phase.TRYING
        return msgspec.structs.replace(
            record,
            round=0,
            stage=Stage.TENTATIVE if fast else Stage.REGISTERED,
            views=(None,) * len(record.places),
            advanced=False,
        )

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """What waits comes as another attempt: how far it had come is not known, and a form may be under way."""
        out: Effects = []
        known = dict(records)
        for key in sorted(records):
            record = records[key]
            if not isinstance(record, GameClaim):
                continue
            self.clock = max(self.clock, record.number)
            if record.phase is Phase.WAITING:
                anew = msgspec.structs.replace(retried(record), ending=record.ending)
                known[key] = self.fresh(anew)
                out.append(Save(key, known[key]))
        out += super().recover(known)
        return out

    def renumber(self) -> None:
        """Nothing is in flight, and pools have done the same: rounds and views are counted from the first one again."""
        for claim, record in self.claims.items():
            views = tuple(
                view and msgspec.structs.replace(view, round=min(view.round, 1), n=min(view.n, 1))
                for view in record.views
            )
            self.claims[claim] = msgspec.structs.replace(record, round=min(record.round, 1), views=views)

    def key(self) -> Hashable:
        """With the tickets that it has seen: the next one is numbered after them."""
        return self.clock, super().key()

    def shown(self, record: GameClaim) -> str:
        """With its stage."""
        waits = record.phase is Phase.WAITING
        return f"{record.stage.name.lower()} {record.round}" if waits else super().shown(record)

    # ------------------------------------------------------------ forms

    def ask(self, record: GameClaim, out: Effects) -> None:
        """The newest form to all places: who waits is shown again what it may have missed of others, too."""
        for place, seen in enumerate(record.views):
            if record.phase is Phase.INSIDE and (seen is not None or not record.got[place]):
                continue
            self._send(record, place, out)
        if record.phase is Phase.WAITING:
            self._set_alarm(record, out)

    def asks_on(self, record: GameClaim) -> bool:
        """Until all places have booked."""
        return record.phase is Phase.INSIDE and any(
            units and seen is None for units, seen in zip(record.got, record.views, strict=True)
        )

    def _send(self, record: GameClaim, place: int, out: Effects) -> None:
        want = record.places[place]
        form = Form(
            record.claim,
            record.attempt,
            place,
            want.epoch,
            record.round,
            record.stage,
            record.number,
            want.pool,
            want.units,
            record.terms,
            wait=record.phase is not Phase.TRYING,
        )
        out.append(Send(self.manager_of(record, place), form))

    def _enter(
        self, record: GameClaim, stage: Stage, out: Effects, *, round_: int | None = None
    ) -> GameClaim:
        """The next stage, at all places; what each says to that is to be seen."""
        number = record.round if round_ is None else round_
        unseen = (None,) * len(record.places)
        record = self.note(msgspec.structs.replace(record, stage=stage, round=number, views=unseen))
        for place in range(len(record.places)):
            self._send(record, place, out)
        self.arm(record, out)
        return record

    # ------------------------------------------------------------ views

    def answered(self, record: GameClaim, sender: Address, message: Any, out: Effects) -> None:
        """The newest view of a place counts, if it answers the newest form."""
        if not isinstance(message, View):
            raise ProtocolViolation(f"{type(message).__name__} is no message for a claimant of the game")
        self.clock = max(self.clock, message.clock)
        place = message.place
        if not self.counts(record, message):
            return
        views = (*record.views[:place], message, *record.views[place + 1 :])
        record = self.note(msgspec.structs.replace(record, views=views))
        if record.phase is Phase.INSIDE:
            if not record.open:
                self.quiet(record, out)
        elif not record.paused:
            self._play(record, out)

    def counts(self, record: GameClaim, view: View) -> bool:
        """Whether a view tells something new, of the claim as it is now: of this attempt, this round and this stage."""
        if view.attempt != record.attempt or record.phase is Phase.ENDING:
            return False
        known = record.views[view.place]
        is_newer = known is None or known.version < view.version
        return is_newer and (view.round, view.stage) == (record.round, record.stage)

    def ignores_own(self, record: GameClaim, message: Any) -> bool:
        """Views that do not count: attempts, rounds and stages only grow, and each starts with nothing seen."""
        return isinstance(message, View) and not self.counts(record, message)

    def confluent_own(self, record: GameClaim, message: Any) -> bool:
        """What confirms a winning form only ends its repeats."""
        won = isinstance(message, View) and message.stage >= Stage.WON
        return won and record.phase is Phase.INSIDE and not self.ignores_own(record, message)

    def _play(self, record: GameClaim, out: Effects) -> None:
        """What the guards allow or demand now; one place that demands a withdrawal is enough."""
        views = [view for view in record.views if view is not None]
        fits = all(view.fits for view in views)
        if record.stage in {Stage.REQUESTED, Stage.ORDERED} and not fits:
            self._withdraw(record, out)
            return
        if len(views) < len(record.views):
            return
        if self.has_won(record, views):
            self._win(record, views, out)
            return
        match record.stage:
            case Stage.TENTATIVE if record.phase is Phase.TRYING:
                self.not_now(record, out)
            case Stage.TENTATIVE:
                self._go_on(record, views, out, round_=1)
            case Stage.REGISTERED:
                self._go_on(record, views, out, round_=record.round)
            case Stage.ADMITTED if fits:
                self._enter(record, Stage.REQUESTED, out)
            case Stage.REQUESTED if self.rules.complete and self.may_order(views):
                self._enter(record, Stage.ORDERED, out)
            case _:
                self._set_alarm(record, out)

    def has_won(self, record: GameClaim, views: Sequence[View]) -> bool:
        """Whether all places have set its units aside for the request of this round."""
        del record
        return all(view.units for view in views)

    def may_order(self, views: Sequence[View]) -> bool:
        """p4, for the requests of this round."""
        return all(view.first for view in views)

    def is_let_in(self, views: Sequence[View]) -> bool:
        """The doorway: all that were admitted before it registered have gone."""
        return not any(view.door for view in views)

    def _go_on(self, record: GameClaim, views: Sequence[View], out: Effects, *, round_: int) -> None:
        """Past the doorway, and with its requests, as far as that goes now; a tentative request is withdrawn."""
        if not self.is_let_in(views):
            if record.round != round_:
                self._enter(record, Stage.REGISTERED, out, round_=round_)
            return
        fits = all(view.fits for view in views)
        if not fits or not self.rules.at_once:
            record = self._enter(record, Stage.ADMITTED, out, round_=round_)
        if fits:
            # A request states its admission, too.
            self._enter(record, Stage.REQUESTED, out, round_=round_)

    def _withdraw(self, record: GameClaim, out: Effects) -> None:
        """All requests and marks go (p2 is false), the admission stays."""
        failures = min(FAILURES_MAX, record.failures + record.advanced)
        record = msgspec.structs.replace(record, advanced=False, failures=failures)
        self._no_alarm(record, out)
        self._enter(record, Stage.ADMITTED, out, round_=record.round + 1)

    def _win(self, record: GameClaim, views: Sequence[View], out: Effects) -> None:
        """In at once; or when all have confirmed the winning form."""
        self._no_alarm(record, out)
        if not self.rules.at_once and not all(view.stage >= Stage.WON for view in views):
            if record.stage < Stage.WON:
                self._enter(record, Stage.WON, out)
            return
        for place, view in enumerate(views):
            record = known_in(record, place, view.epoch)
        got = tuple(view.units for view in views)
        stage = Stage.WON if self.rules.at_once else Stage.LEFT
        # What it has seen on its way plays no part any more; views that confirm the winning form take its place.
        self.go_in(self._unseen(msgspec.structs.replace(record, got=got, stage=stage)), out)

    def _unseen(self, record: GameClaim) -> GameClaim:
        return msgspec.structs.replace(record, views=(None,) * len(record.places), advanced=False, failures=0)

    def finish(self, record: GameClaim, out: Effects) -> None:
        """It plays no more."""
        super().finish(msgspec.structs.replace(self._unseen(record), round=0, stage=Stage.LEFT), out)

    def on_inside(self, record: GameClaim, out: Effects) -> None:
        """Winning forms (or those that say that it has left the competition)."""
        self.ask(record, out)
        self.arm(record, out)

    # ------------------------------------------------------------ alarm

    def _set_alarm(self, record: GameClaim, out: Effects) -> None:
        """Its requests are seen, p2 holds, p4 does not: it waits for those of lower priority that are ahead."""
        if self.rules.complete and self.is_blocked(record):
            wait_ms = self.alarm_ms << record.failures
            out.append(SetTimer(f"{ALARM}/{record.claim}", wait_ms, wait_ms // 4))

    def is_blocked(self, record: GameClaim) -> bool:
        """The alarm's condition."""
        if record.phase is not Phase.WAITING or record.stage not in {Stage.REQUESTED, Stage.ORDERED}:
            return False
        views = [view for view in record.views if view is not None]
        seen = len(views) == len(record.views)
        return seen and all(view.fits for view in views) and not all(view.first for view in views)

    def _no_alarm(self, record: GameClaim, out: Effects) -> None:
        if self.rules.complete:
            out.append(CancelTimer(f"{ALARM}/{record.claim}"))

    def own_timer(self, kind: str, record: GameClaim, out: Effects) -> None:
        """The alarm-clock rings: advancing forms, where it is not within the free units."""
        if kind != ALARM or not self.is_blocked(record):
            return
        for place, view in enumerate(record.views):
            if view is not None and not view.first and view.blockers:
                asked = Advance(record.claim, record.attempt, place, record.round, view.blockers)
                out.append(Send(self.manager_of(record, place), asked))
        record = self.note(msgspec.structs.replace(record, advanced=True))
        self._set_alarm(record, out)

    def waits_for(self, claim: ClaimId) -> tuple[ClaimId, ...]:
        """The first that are ahead of it anywhere."""
        record = self.claims.get(claim)
        views = () if record is None else record.views
        return tuple(sorted({one for view in views if view is not None for one in view.blockers}))
