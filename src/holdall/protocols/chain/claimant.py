"""The claimant of one node: all verbs of the vocabulary for all its claims, and the managers' answers.

Source: chain specification, 2.5 and section 5.
"""

from typing import assert_never, cast, get_args

import msgspec

from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    ProtocolViolation,
    TimerFired,
)
from holdall.protocols.chain.attempts import (
    PATIENCE_TIMER,
    REPEAT_TIMER,
    RETRY_TIMER,
)
from holdall.protocols.chain.claims import (
    SIBLINGS_MAX,
    Ending,
    Inside,
    Plan,
    Trying,
    Waiting,
    family_of,
    sibling,
)
from holdall.protocols.chain.holding import Holding
from holdall.protocols.chain.messages import (
    Allowed,
    EndAck,
    Entered,
    Queued,
    Refused,
    RowExtended,
    RowGone,
    ToClaimantOnWire,
    Tried,
)
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Exchange,
    ExchangeRefused,
    Extend,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Shrink,
    Stamp,
    ToClaimant,
    UnitGrant,
    claim_named,
)

_VERBS: frozenset[type] = frozenset(get_args(ToClaimant))
_ANSWERS: frozenset[type] = frozenset(get_args(ToClaimantOnWire))


class Claimant(Holding):
    """The machine."""

    def start(self) -> list[Effect]:
        return []

    def handle(self, event: Event) -> list[Effect]:
        out: Effects = []
        if isinstance(event, TimerFired):
            self._fired(event.timer, out)
            return out
        message = event.message
        kind = type(message)
        if kind in _ANSWERS:
            self._answer(event.sender, cast("ToClaimantOnWire", message), out)
        elif kind in _VERBS:
            self._verb(cast("ToClaimant", message), out)
        elif kind is not ClockRead:
            raise ProtocolViolation(f"{kind.__name__} is no message to a claimant")
        return out

    def _verb(self, message: ToClaimant, out: Effects) -> None:
        match message:
            case Acquire():
                self.acquire(message, out)
            case Release(claim):
                self.release(claim, out)
            case Shrink():
                self.shrink(message, out)
            case Exchange():
                self.exchange(message, out)
            case Extend(claim, for_ms):
                self.extend(claim, for_ms, out)
            case LeaseLost(claim, reason):
                self.lease_lost(claim, reason, out)
            case _:
                assert_never(message)

    def _answer(self, sender: Address, message: ToClaimantOnWire, out: Effects) -> None:
        if isinstance(message, EndAck):
            self.acknowledge(message.claim, sender.node, message.attempt, out)
        elif isinstance(message, Allowed):
            self.on_allowed(message, out)
        elif isinstance(message, Queued):
            self.on_queued(message, out)
        elif isinstance(message, Refused):
            self.on_refused(sender, message, out)
        elif isinstance(message, Tried):
            self.on_tried(sender, message, out)
        else:
            match message:
                case RowExtended():
                    self.on_row_extended(sender, message, out)
                case RowGone():
                    self.on_row_gone(sender, message, out)
                case _:
                    assert_never(message)

    def _fired(self, timer: str, out: Effects) -> None:
        kind, mark, name = timer.partition("/")
        if kind + mark == REPEAT_TIMER:
            self.repeat_fired(claim_named(name), out)
        elif kind + mark == RETRY_TIMER:
            self.retry_fired(claim_named(name), out)
        elif kind + mark == PATIENCE_TIMER:
            self.patience_fired(claim_named(name), out)
        else:
            raise ProtocolViolation(f"{timer} is no timer of a claimant")

    # Verbs

    def acquire(self, message: Acquire, out: Effects) -> None:
        """Start a claim; its placements elsewhere run beside it as siblings (5.5)."""
        placements = (message.need, *message.siblings)
        if len(placements) > SIBLINGS_MAX or not all(placements):
            raise ProtocolViolation(f"{message.claim}: 1 to {SIBLINGS_MAX} placements, each with a node")
        if self.family(message.claim):
            raise ProtocolViolation(f"{message.claim} was started before")
        # Only one placement over several nodes waits at a time; the others are its spares.
        wide = [number for number, place in enumerate(placements) if len(place) > 1] if message.wait else []
        for number, place in enumerate(placements):
            if number in wide[1:]:
                continue
            spares = tuple(placements[other] for other in wide[1:]) if number in wide else ()
            plan = Plan(place, message.terms, message.wait, spares=spares)
            self.ask(sibling(message.claim, number), 1, plan, message.stamp, out)

    def lease_lost(self, claim: ClaimId, reason: str, out: Effects) -> None:
        """The holder may not go on: a granted claim is over as a whole, a waiting one comes again."""
        for phase in self.family(claim):
            match phase:
                case Inside():
                    self.gone(phase, reason, out)
                case Trying() | Waiting():
                    self._again_or_not_now(phase, self.node, None, 0, out)
                case Ending():
                    pass

    # Answers

    def on_allowed(self, message: Allowed, out: Effects) -> None:
        """Granted, if this attempt still waits. A late one is settled by the Done that is under way."""
        phase = self.current(message.claim, message.attempt)
        if isinstance(phase, Waiting) and not phase.paused and self.may_decide(phase):
            # A node that is all of a claim of its own has granted it, and knows it.
            self._enter(phase, message.units, message.stamp, known=len(phase.plan.need) == 1, out=out)

    def may_decide(self, phase: Trying | Waiting) -> bool:
        """Whether every lease of the claim lives. A lost one has ended the attempt, so what goes on does."""
        del phase
        return True

    def on_queued(self, message: Queued, out: Effects) -> None:
        """The claim's age, kept for a next attempt."""
        phase = self.current(message.claim, message.attempt)
        if isinstance(phase, Waiting) and phase.stamp is None:
            self.keep(msgspec.structs.replace(phase, stamp=message.stamp), out)

    def on_refused(self, sender: Address, message: Refused, out: Effects) -> None:
        """Not let in: come again, or a claim without waiting has come to nothing."""
        self.epochs[sender.node] = max(message.epoch, self.epochs.get(sender.node, 0))
        phase = self.claims.get(message.claim)
        if isinstance(phase, Waiting) and phase.paused:
            # The end of a quarantine, told to those who were refused in it.
            if message.attempt == phase.attempt - 1 and message.retry_after_ms == 0:
                self.stand_in_line(phase, out)
        elif isinstance(phase, Trying | Waiting) and phase.attempt == message.attempt:
            self._again_or_not_now(phase, sender.node, message.stamp, message.retry_after_ms, out)

    def on_tried(self, sender: Address, message: Tried, out: Effects) -> None:
        """One node's answer to a try."""
        phase = self.current(message.claim, message.attempt)
        if not isinstance(phase, Trying):
            return
        if not message.yes:
            self._try_failed(phase, out)
            return
        answers = dict(phase.yes) | {sender.node: message.units}
        phase = msgspec.structs.replace(phase, yes=tuple(sorted(answers.items())))
        self.claims[phase.claim] = phase
        if set(answers) == set(phase.plan.nodes) and self.may_decide(phase):
            units = tuple(unit for node in phase.plan.nodes for unit in answers[node])
            self._enter(phase, units, phase.stamp, known=False, out=out)
        else:
            self.arm(phase, out)

    def on_row_gone(self, sender: Address, message: RowGone, out: Effects) -> None:
        """A node has ended the claim by itself."""
        phase = self.current(message.claim, message.attempt)
        match phase:
            case Inside():
                owner = self.claims.get(phase.plan.companion_of or phase.claim)
                if isinstance(owner, Inside):
                    self.gone(owner, message.reason, out)
            case Trying() | Waiting():
                self._again_or_not_now(phase, sender.node, message.stamp, 0, out)
            case _:
                pass

    # What follows from verbs and answers

    def _enter(
        self,
        phase: Trying | Waiting,
        units: tuple[UnitGrant, ...],
        stamp: Stamp | None,
        *,
        known: bool,
        out: Effects,
    ) -> None:
        inside = Inside(phase.claim, phase.attempt, phase.plan, phase.owed, units, stamp)
        self.keep(inside, out)
        if self.node in phase.plan.nodes and not known:
            # Other nodes learn it from the next renewal; no rule depends on it.
            self.to_manager(self.node, Entered(phase.claim, phase.attempt), out)
        if isinstance(phase, Trying) and phase.plan.companion_of is not None:
            self.exchange_done(phase, phase.plan.companion_of, out)
            return
        asked = family_of(phase.claim)
        for other in self.family(asked):
            if other.claim != phase.claim:
                self.end_with_companions(other, out)
        self.tell(Granted(asked, phase.attempt, units, stamp), out)

    def _again_or_not_now(
        self, phase: Trying | Waiting, node: str, stamp: Stamp | None, after_ms: int, out: Effects
    ) -> None:
        if phase.plan.wait:
            self.refused_by(phase, node, out, stamp=stamp, after_ms=after_ms)
        elif isinstance(phase, Trying):
            self._try_failed(phase, out)

    def _try_failed(self, phase: Trying, out: Effects) -> None:
        if phase.plan.wait:
            self.come_again(phase, out)
            return
        self.end(phase, out)
        owner = phase.plan.companion_of
        if owner is not None:
            holder = self.claims.get(owner)
            if isinstance(holder, Inside):
                self.keep(msgspec.structs.replace(holder, swapping=None), out)
                self.tell(ExchangeRefused(family_of(owner)), out)
            return
        known = family_of(phase.claim)
        if not any(isinstance(member, Trying | Inside) for member in self.family(known)):
            self.tell(NotNow(known), out)
