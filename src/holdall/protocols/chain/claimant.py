"""The claimant of one node: all verbs of the vocabulary for all its claims, and the managers' answers.

Source: chain specification, 2.5 and section 5.
"""

from collections.abc import Iterable
from typing import assert_never, cast, get_args

import msgspec

from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    TimerFired,
)
from holdall.protocols.chain.attempts import (
    PATIENCE_TIMER,
    REPEAT_TIMER,
    RETRY_TIMER,
    Attempts,
)
from holdall.protocols.chain.claims import (
    SIBLINGS_MAX,
    AnyPhase,
    Ending,
    Inside,
    Plan,
    Trying,
    Waiting,
    common,
    dropped_of,
    family_of,
    kept_of,
    sibling,
    without,
)
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
from holdall.protocols.chain.rows import claim_named
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extend,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Shrink,
    Stamp,
    ToClaimant,
    UnitGrant,
)

_VERBS: tuple[type, ...] = get_args(ToClaimant)
_ANSWERS: tuple[type, ...] = get_args(ToClaimantOnWire)


class Claimant(Attempts):
    """The machine."""

    def start(self) -> list[Effect]:
        return []

    def handle(self, event: Event) -> list[Effect]:
        out: Effects = []
        match event:
            case TimerFired(timer):
                self._fired(timer, out)
            case Received(_, ClockRead()):
                pass
            case Received(sender, message):
                if isinstance(message, _VERBS):
                    self._verb(cast("ToClaimant", message), out)
                elif isinstance(message, _ANSWERS):
                    self._answer(sender, cast("ToClaimantOnWire", message), out)
                else:
                    raise ProtocolViolation(f"{type(message).__name__} is no message to a claimant")
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
        match message:
            case Allowed():
                self.on_allowed(message, out)
            case Queued():
                self.on_queued(message, out)
            case Refused():
                self.on_refused(sender, message, out)
            case Tried():
                self.on_tried(sender, message, out)
            case EndAck(claim, attempt):
                self.acknowledge(claim, sender.node, attempt, out)
            case RowExtended():
                self.on_row_extended(sender, message, out)
            case RowGone():
                self.on_row_gone(sender, message, out)
            case _:
                assert_never(message)

    def _fired(self, timer: str, out: Effects) -> None:
        kind, _, name = timer.partition("/")
        claim = claim_named(name)
        match f"{kind}/":
            case x if x == REPEAT_TIMER:
                self.repeat_fired(claim, out)
            case x if x == RETRY_TIMER:
                self.retry_fired(claim, out)
            case x if x == PATIENCE_TIMER:
                self.patience_fired(claim, out)
            case _:
                raise ProtocolViolation(f"no timer {timer}")

    # Verbs

    def acquire(self, message: Acquire, out: Effects) -> None:
        """Start a claim; its placements elsewhere run beside it as siblings (5.5)."""
        placements = (message.need, *message.siblings)
        if len(placements) > SIBLINGS_MAX or not all(placements):
            raise ProtocolViolation(f"{message.claim}: 1 to {SIBLINGS_MAX} placements, each with a node")
        if self.family(message.claim):
            raise ProtocolViolation(f"{message.claim} was started before")
        wide = [place for place in placements if len(place) > 1]
        spares = tuple(wide[1:]) if message.wait else ()
        for number, place in enumerate(placements):
            # Only one placement over several nodes waits at a time; the others are its spares.
            if place in spares:
                continue
            plan = Plan(place, message.terms, message.wait, spares=spares if len(place) > 1 else ())
            self.ask(sibling(message.claim, number), 1, plan, message.stamp, out)

    def release(self, claim: ClaimId, out: Effects) -> None:
        """End a claim in any phase, with all that belongs to it."""
        for phase in self.family(claim):
            self._end_with_companions(phase, out)

    def shrink(self, message: Shrink, out: Effects) -> None:
        """Give a part back while granted; nothing kept is a release."""
        phase = self._inside(message.claim)
        if phase is None:
            return
        have = self.units_of(phase)
        kept = message.units or kept_of(have, message.keep)
        if not kept:
            self.release(message.claim, out)
            return
        self._keep_only(phase, kept, out)

    def exchange(self, message: Exchange, out: Effects) -> None:
        """Try the positive part as a companion; the negative one goes when all nodes said yes (5.4)."""
        phase = self._inside(message.claim)
        if phase is None or phase.swapping is not None or message.companion in self.claims:
            self.tell(ExchangeRefused(message.claim), out)
            return
        drop = message.drop_units or dropped_of(self.units_of(phase), message.drop)
        if not message.add:
            self._give_up_units(message.claim, drop, out)
            return
        self.keep(msgspec.structs.replace(phase, swapping=message.companion), out)
        plan = Plan(message.add, phase.plan.terms, wait=False, companion_of=phase.claim)
        trying = Trying(message.companion, 1, self.renewed(plan), drop=drop)
        self.keep(trying, out)
        self.send_tries(trying, plan.nodes, out)

    def extend(self, claim: ClaimId, for_ms: int, out: Effects) -> None:
        """A later hard end at every node that still has units of the claim."""
        phase = self._inside(claim)
        if phase is None:
            self.tell(ExtendRefused(claim, for_ms), out)
            return
        places = tuple(
            (part.claim, node)
            for part in self._parts(phase)
            for node in part.plan.nodes
            if any(unit.node == node for unit in part.units)
        )
        extending = msgspec.structs.replace(phase, extending=for_ms, unextended=places)
        self.keep(extending, out)
        for part, node in places:
            self.send_extend(extending, part, node, out)

    def lease_lost(self, claim: ClaimId, reason: str, out: Effects) -> None:
        """The holder may not go on: a granted claim is over as a whole, a waiting one comes again."""
        for phase in self.family(claim):
            match phase:
                case Inside():
                    self._gone(phase, reason, out)
                case Trying() | Waiting():
                    self._again_or_not_now(phase, self.node, None, 0, out)
                case Ending():
                    pass

    # Answers

    def on_allowed(self, message: Allowed, out: Effects) -> None:
        """Granted, if this attempt still waits. A late one is settled by the Done that is under way."""
        phase = self.current(message.claim, message.attempt)
        if isinstance(phase, Waiting) and not phase.paused and self.may_decide(phase):
            last = phase.plan.need[-1].node
            self._enter(phase, message.units, message.stamp, told=(last,), out=out)

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
            self._enter(phase, units, phase.stamp, told=(), out=out)
        else:
            self.arm(phase, out)

    def on_row_extended(self, sender: Address, message: RowExtended, out: Effects) -> None:
        """One node's answer to a later end."""
        part = self.current(message.claim, message.attempt)
        owner = part.plan.companion_of or message.claim if part is not None else message.claim
        phase = self.claims.get(owner)
        if not isinstance(phase, Inside) or phase.extending != message.for_ms:
            return
        known = family_of(owner)
        if not message.ok:
            self.keep(msgspec.structs.replace(phase, extending=None, unextended=()), out)
            self.tell(ExtendRefused(known, message.for_ms), out)
            return
        rest = tuple(place for place in phase.unextended if place != (message.claim, sender.node))
        if rest == phase.unextended:
            return
        if rest:
            phase = msgspec.structs.replace(phase, unextended=rest)
            self.claims[owner] = phase
            self.arm(phase, out)
            return
        plan = msgspec.structs.replace(
            phase.plan, terms=msgspec.structs.replace(phase.plan.terms, for_ms=message.for_ms)
        )
        self.keep(msgspec.structs.replace(phase, plan=plan, extending=None, unextended=()), out)
        self.tell(Extended(known, message.for_ms), out)

    def on_row_gone(self, sender: Address, message: RowGone, out: Effects) -> None:
        """A node has ended the claim by itself."""
        phase = self.current(message.claim, message.attempt)
        match phase:
            case Inside():
                owner = self.claims.get(phase.plan.companion_of or phase.claim)
                if isinstance(owner, Inside):
                    self._gone(owner, message.reason, out)
            case Trying() | Waiting():
                self._again_or_not_now(phase, sender.node, message.stamp, 0, out)
            case _:
                pass

    # What follows from verbs and answers

    def units_of(self, phase: Inside) -> tuple[UnitGrant, ...]:
        """All that the holder has, companions' units included."""
        return tuple(unit for part in self._parts(phase) for unit in part.units)

    def _inside(self, claim: ClaimId) -> Inside | None:
        """The granted placement of the agent's claim."""
        for phase in self.family(claim):
            if isinstance(phase, Inside):
                return phase
        return None

    def _parts(self, phase: Inside) -> list[Inside]:
        parts = (self.claims.get(companion) for companion in phase.companions)
        return [phase, *(part for part in parts if isinstance(part, Inside))]

    def _enter(
        self,
        phase: Trying | Waiting,
        units: tuple[UnitGrant, ...],
        stamp: Stamp | None,
        *,
        told: Iterable[str],
        out: Effects,
    ) -> None:
        inside = Inside(phase.claim, phase.attempt, phase.plan, phase.owed, units, stamp)
        self.keep(inside, out)
        if self.node in phase.plan.nodes and self.node not in told:
            # Other nodes learn it from the next renewal; no rule depends on it.
            self.to_manager(self.node, Entered(phase.claim, phase.attempt), out)
        if isinstance(phase, Trying) and phase.plan.companion_of is not None:
            self._exchange_done(phase, phase.plan.companion_of, out)
            return
        known = family_of(phase.claim)
        for other in self.family(known):
            if other.claim != phase.claim:
                self._end_with_companions(other, out)
        self.tell(Granted(known, phase.attempt, units, stamp), out)

    def _exchange_done(self, companion: Trying, owner: ClaimId, out: Effects) -> None:
        phase = self.claims.get(owner)
        if not isinstance(phase, Inside):
            # The holder has ended meanwhile, and its companion with it: not reached while they end together.
            self.end(self.claims[companion.claim], out)
            return
        joined = msgspec.structs.replace(
            phase, swapping=None, companions=(*phase.companions, companion.claim)
        )
        self.keep(joined, out)
        self._give_up_units(family_of(owner), companion.drop, out)

    def _give_up_units(self, claim: ClaimId, drop: tuple[UnitGrant, ...], out: Effects) -> None:
        phase = self._inside(claim)
        if phase is None:
            return
        kept = without(self.units_of(phase), drop)
        if kept:
            self._keep_only(phase, kept, out)
        else:
            self.release(claim, out)
        self.tell(Exchanged(claim, kept), out)

    def _keep_only(self, phase: Inside, kept: tuple[UnitGrant, ...], out: Effects) -> None:
        """Tell the nodes where less is kept. The holder has stopped using the rest."""
        rest = kept
        for part in self._parts(phase):
            mine = common(part.units, rest)
            rest = without(rest, mine)
            if mine == part.units:
                continue
            less = {unit.node for unit in without(part.units, mine)}
            smaller = msgspec.structs.replace(part, units=mine, shrunk=tuple(sorted(less | set(part.shrunk))))
            self.keep(smaller, out)
            for node in sorted(less):
                self.send_shrink(smaller, node, out)

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

    def _gone(self, phase: Inside, reason: str, out: Effects) -> None:
        self.tell(Gone(family_of(phase.claim), reason), out)
        self._end_with_companions(phase, out)

    def _end_with_companions(self, phase: AnyPhase, out: Effects) -> None:
        self.end(phase, out)
        if isinstance(phase, Inside):
            for companion in (*phase.companions, *((phase.swapping,) if phase.swapping else ())):
                if companion in self.claims:
                    self.end(self.claims[companion], out)
