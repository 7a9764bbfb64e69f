"""The verbs of a holder: give back in part or as a whole, exchange, a later end; and the loss of a claim.

Source: chain specification, section 5 (5.3 shrink, 5.4 exchange, 5.7 cancel).
"""

import msgspec

from holdall.machine.contract import Address
from holdall.protocols.chain.attempts import Attempts
from holdall.protocols.chain.claims import (
    AnyPhase,
    Inside,
    Plan,
    Trying,
    common,
    dropped_of,
    family_of,
    kept_of,
    without,
)
from holdall.protocols.chain.messages import RowExtended
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import (
    ClaimId,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extended,
    ExtendRefused,
    Gone,
    Shrink,
    UnitGrant,
)


class Holding(Attempts):
    """What can be done with a claim that is granted, and how it ends."""

    def release(self, claim: ClaimId, out: Effects) -> None:
        """End a claim in any phase, with all that belongs to it."""
        for phase in self.family(claim):
            self.end_with_companions(phase, out)

    def shrink(self, message: Shrink, out: Effects) -> None:
        """Give a part back while granted; nothing kept is a release."""
        phase = self.inside(message.claim)
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
        phase = self.inside(message.claim)
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
        phase = self.inside(claim)
        if phase is None:
            self.tell(ExtendRefused(claim, for_ms), out)
            return
        places = tuple(
            (part.claim, node)
            for part in self.parts(phase)
            for node in part.plan.nodes
            if any(unit.node == node for unit in part.units)
        )
        extending = msgspec.structs.replace(phase, extending=for_ms, unextended=places)
        self.keep(extending, out)
        for part, node in places:
            self.send_extend(extending, part, node, out)

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
        for extended in self.parts(msgspec.structs.replace(phase, extending=None, unextended=())):
            terms = msgspec.structs.replace(extended.plan.terms, for_ms=message.for_ms)
            plan = msgspec.structs.replace(extended.plan, terms=terms)
            self.keep(msgspec.structs.replace(extended, plan=plan), out)
        self.tell(Extended(known, message.for_ms), out)

    def units_of(self, phase: Inside) -> tuple[UnitGrant, ...]:
        """All that the holder has, companions' units included."""
        return tuple(unit for part in self.parts(phase) for unit in part.units)

    def inside(self, claim: ClaimId) -> Inside | None:
        """The granted placement of the agent's claim."""
        for phase in self.family(claim):
            if isinstance(phase, Inside):
                return phase
        return None

    def parts(self, phase: Inside) -> list[Inside]:
        parts = (self.claims.get(companion) for companion in phase.companions)
        return [phase, *(part for part in parts if isinstance(part, Inside))]

    def exchange_done(self, companion: Trying, owner: ClaimId, out: Effects) -> None:
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
        phase = self.inside(claim)
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
        for part in self.parts(phase):
            mine = common(part.units, rest)
            rest = without(rest, mine)
            if mine == part.units:
                continue
            less = {unit.node for unit in without(part.units, mine)}
            smaller = msgspec.structs.replace(part, units=mine, shrunk=tuple(sorted(less | set(part.shrunk))))
            self.keep(smaller, out)
            for node in sorted(less):
                self.send_shrink(smaller, node, out)

    def gone(self, phase: Inside, reason: str, out: Effects) -> None:
        self.tell(Gone(family_of(phase.claim), reason), out)
        self.end_with_companions(phase, out)

    def end_with_companions(self, phase: AnyPhase, out: Effects) -> None:
        self.end(phase, out)
        if isinstance(phase, Inside):
            for companion in (*phase.companions, *((phase.swapping,) if phase.swapping else ())):
                if companion in self.claims:
                    self.end(self.claims[companion], out)
