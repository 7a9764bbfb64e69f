"""A claimant and the renewal of its claims at other nodes as one machine: the holder stops in time by itself.

What the claimant saves tells which claims there are, in which phase and at which nodes; what renewal finds to be
lost is told to the claimant as `LeaseLost`, and to the agent, with the node, as `LostAt` just before it.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Self, cast, get_args

from holdall.leases.holder import DEADLINE_TIMER
from holdall.leases.listing import AliveOk, Compared
from holdall.leases.messages import Confirmed, LostAt
from holdall.leases.renewal import RENEW_TIMER, Loss, Quiet, Renewals
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    ClockRead,
    Effect,
    Event,
    Forget,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.parties.saying import check_to_claimant
from holdall.protocols.chain.attempts import CLAIM_KEY
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import AnyPhase, Ending, Inside, Trying, Waiting, family_of
from holdall.protocols.chain.messages import Allowed, Queued, RowGone, ToClaimantOnWire, Tried
from holdall.protocols.vocabulary import ClaimId, Gone, LeaseLost, Release, ToClaimant, UnitGrant, claim_named

DOOM_TIMER = "doom/"
_VERBS: frozenset[type] = frozenset(get_args(ToClaimant))
_ANSWERS: frozenset[type] = frozenset(get_args(ToClaimantOnWire))


class ClaimantSide:
    """The machine `claimant` of a node whose claims may go to other nodes."""

    def __init__(
        self, claimant: Claimant, *, rho_ppm: int = 20_000, margin_ms: int = 500, incarnation: int = 1
    ) -> None:
        self.claimant = claimant
        self._rho_ppm = rho_ppm
        self.renewals = Renewals(claimant.node, rho_ppm=rho_ppm, margin_ms=margin_ms, incarnation=incarnation)
        self._held_back: dict[ClaimId, Received] = {}
        """Grants by units of nodes that may have lost them since, or don't answer: they count when these confirm them."""
        self._to_prove: dict[ClaimId, int] = {}
        """Attempts whose grant all nodes have to confirm: of before a restart, as what was said meanwhile was never heard;
        and those that come again after a grant that was never confirmed."""
        self._doomed: set[ClaimId] = set()
        """Leases that are lost before their time, whose holders have been told: they end when that time is over."""
        self._to_confirm: set[ClaimId] = set()
        """Claims of before a restart, of which the agent is to hear when they may go on."""

    def start(self) -> list[Effect]:
        """Nothing is under way."""
        return list(self.claimant.start())

    def handle(self, event: Event) -> list[Effect]:
        """One event for the claimant or for renewal. Raises ProtocolViolation for what its sender may not say."""
        out: list[Effect] = []
        match event:
            case TimerFired(timer) if timer.startswith((RENEW_TIMER, DEADLINE_TIMER)):
                self._lose(self.renewals.fired(timer, out), out)
            case TimerFired(timer) if timer.startswith(DOOM_TIMER):
                self._doom_over(claim_named(timer.removeprefix(DOOM_TIMER)), out)
            case TimerFired():
                self._tell(event, out)
            case Received(sender, message):
                kind = type(message)
                if kind in _ANSWERS:
                    self._answered(event, cast("ToClaimantOnWire", message), out)
                elif isinstance(message, AliveOk | Compared):
                    self._renewed(sender, message, out)
                elif isinstance(message, ClockRead) and sender.node == self.claimant.node:
                    self.renewals.now_ms = message.boot_ms
                elif kind in _VERBS and sender.node == self.claimant.node:
                    self._tell(event, out)
                else:
                    raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for a claimant")
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """Claims go on; granted ones count only when all their nodes have said that they still know them."""
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"records[{BOOT_KEY!r}] is no Boot")
        own = self.claimant
        out = list(own.recover(records))
        self.renewals = self.renewals.anew(boot.incarnation, epoch=boot.epoch)
        for claim in sorted(own.claims):
            phase = own.claims[claim]
            self._knows(phase, out, recovered=True)
            if isinstance(phase, Waiting):
                self._to_prove[claim] = phase.attempt
            if isinstance(phase, Inside) and not self.renewals.may_go_on(claim):
                self._to_confirm.add(claim)
        return out

    # ------------------------------------------------------------ what an agent reads (`views.LifeView`)

    def left_ms(self, claims: Iterable[ClaimId]) -> int | None:
        """The least of the placements that are granted; None when all are of this node alone."""
        lefts = [self.renewals.left_ms(part) for part in self._parts(claims)]
        return min((left for left in lefts if left is not None), default=None)

    def may_go_on(self, claims: Iterable[ClaimId]) -> bool:
        """Whether all nodes of all parts have confirmed them."""
        return all(self.renewals.may_go_on(part) for part in self._parts(claims))

    def quiet(self, claims: Iterable[ClaimId]) -> tuple[Quiet, ...]:
        """Each node once, by id."""
        parts = [phase.claim for claim in claims for phase in self.claimant.family(claim)]
        found = {one.node: one for part in parts for one in self.renewals.quiet(part)}
        return tuple(found[node] for node in sorted(found))

    def _parts(self, claims: Iterable[ClaimId]) -> list[ClaimId]:
        return [
            phase.claim
            for claim in claims
            for phase in self.claimant.family(claim)
            if isinstance(phase, Inside)
        ]

    # ------------------------------------------------------------ for the explorer

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.claimant.key(),
            self.renewals.key(),
            tuple(sorted(self._held_back)),
            tuple(sorted(self._to_prove.items())),
            tuple(sorted(self._doomed)),
            tuple(sorted(self._to_confirm)),
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.claimant, twin._rho_ppm = self.claimant.copy(), self._rho_ppm
        twin.renewals = self.renewals.copy()
        twin._held_back, twin._to_confirm = dict(self._held_back), set(self._to_confirm)
        twin._to_prove, twin._doomed = dict(self._to_prove), set(self._doomed)
        return twin

    # ------------------------------------------------------------ answers of managers

    def _renewed(self, sender: Address, answer: AliveOk | Compared, out: list[Effect]) -> None:
        lost = self.renewals.heard(sender.node, answer, out)
        # So that the next attempt, or another claim, is not turned away for an epoch that is known to be over.
        epochs = self.claimant.epochs
        epochs[sender.node] = max(answer.epoch, epochs.get(sender.node, 0))
        self._lose(lost, out)
        self._let_in(out)
        self._confirm(out)

    def _answered(self, event: Received, message: ToClaimantOnWire, out: list[Effect]) -> None:
        claim = message.claim
        check_to_claimant(self.claimant.node, event.sender, message, self.claimant.claims.get(claim))
        phase = self.claimant.current(claim, message.attempt)
        match message:
            case Allowed() if claim in self._held_back and isinstance(phase, Waiting):
                # Told again. That its nodes answer meanwhile is no answer about its units yet.
                return
            case Allowed() if isinstance(phase, Waiting) and not phase.paused and self._unproved(phase):
                self._hold_back(phase, event, message.units, out)
                return
            case Tried(_, _, True) if isinstance(phase, Trying) and self._doubted(phase):
                # What a node set aside before it lost its queue may be gone: this try has come to nothing.
                event = Received(event.sender, Tried(claim, message.attempt, yes=False))
            case RowGone() if isinstance(phase, Inside) and not _has_units_at(phase, event.sender.node):
                # All was given back there, and the node had lost that.
                return
            case _:
                pass
        self._tell(event, out)

    def _doubted(self, phase: Trying | Waiting) -> frozenset[str]:
        """Nodes that may have lost what they set aside: they have another epoch than the claim was sent with."""
        heard = self.renewals.epochs
        return frozenset(
            visit.node for visit in phase.plan.need if heard.get(visit.node, visit.epoch) > visit.epoch
        )

    def _unproved(self, phase: Waiting) -> frozenset[str]:
        """Nodes that have to confirm the units of a grant before it counts.

        Those in doubt; those that are late, which may have given up on it, and else would leave its holder nothing of
        its time; and for some attempts all of other nodes (`_to_prove`): each counts from what it has heard itself.
        """
        found = self._doubted(phase) | self.renewals.late(phase.claim)
        if self._to_prove.get(phase.claim) == phase.attempt:
            found |= frozenset(phase.plan.nodes)
        return found - {self.claimant.node} | (self._doubted(phase) & {self.claimant.node})

    def _hold_back(
        self, phase: Waiting, event: Received, units: tuple[UnitGrant, ...], out: list[Effect]
    ) -> None:
        """The grant counts when these nodes have confirmed its units; they are asked at once."""
        self._held_back[phase.claim] = event
        self._renews(phase, out, units=units, unconfirmed=self._unproved(phase), told=False)

    def _let_in(self, out: list[Effect]) -> None:
        """Grants whose units are confirmed now."""
        for claim in [one for one in self._held_back if self.renewals.may_go_on(one)]:
            event = self._held_back.pop(claim)
            self._tell(event, out)

    def _confirm(self, out: list[Effect]) -> None:
        """Tell the agent which claims of before the restart live."""
        for claim in sorted(one for one in self._to_confirm if self.renewals.may_go_on(one)):
            self._to_confirm.discard(claim)
            if isinstance(phase := self.claimant.claims.get(claim), Inside):
                owner = family_of(phase.plan.companion_of or claim)
                out.append(Send(self.claimant.agent, Confirmed(owner)))

    # ------------------------------------------------------------ what becomes of claims

    def _lose(self, lost: Iterable[Loss], out: list[Effect]) -> None:
        sender = Address(self.claimant.node, "holder")
        for claim, node, reason in lost:
            phase = self.claimant.claims.get(claim)
            if phase is None or (claim in self._doomed and reason != "expired"):
                continue
            # A companion's units are part of the lease that it was exchanged for.
            owner = family_of(phase.plan.companion_of or claim)
            held_back = self._held_back.get(claim)
            if held_back is not None:
                # It comes again with the age that the grant has told.
                granted = cast("Allowed", held_back.message)
                self._tell(Received(held_back.sender, Queued(claim, granted.attempt, granted.stamp)), out)
            if isinstance(phase, Inside):
                out.append(
                    Send(self.claimant.agent, LostAt(owner, node, self.renewals.quiet_ms(claim, node)))
                )
                if reason != "expired":
                    self._doom(claim, owner, reason, phase.plan.terms.ttl_ms, out)
                    continue
            self._tell(Received(sender, LeaseLost(owner, reason)), out)

    def _doom(self, claim: ClaimId, owner: ClaimId, reason: str, ttl_ms: int, out: list[Effect]) -> None:
        """The holder hears that the lease is lost; what other nodes have of it is kept until that is certain.

        It may stand still, and believe in the lease for as long as it was confirmed.
        """
        self._doomed.add(claim)
        out.append(Send(self.claimant.agent, Gone(owner, reason)))
        out.append(SetTimer(f"{DOOM_TIMER}{claim}", ttl_ms * (1_000_000 + self._rho_ppm) // 1_000_000))

    def _doom_over(self, claim: ClaimId, out: list[Effect]) -> None:
        phase = self.claimant.claims.get(claim)
        if claim in self._doomed and isinstance(phase, Inside):
            owner = family_of(phase.plan.companion_of or claim)
            self._tell(Received(self.claimant.agent, Release(owner)), out)

    def _tell(self, event: Event, out: list[Effect]) -> None:
        """The claimant handles it; what it saves tells which claims there are."""
        effects = self.claimant.handle(event)
        out += effects
        for effect in effects:
            if isinstance(effect, Save):
                if isinstance(effect.record, Trying | Waiting | Inside | Ending):
                    self._knows(effect.record, out)
            elif isinstance(effect, Forget) and effect.key.startswith(CLAIM_KEY):
                self._over(claim_named(effect.key.removeprefix(CLAIM_KEY)), out)

    def _over(self, claim: ClaimId, out: list[Effect]) -> None:
        self.renewals.over(claim, out)
        self._held_back.pop(claim, None)
        self._doomed.discard(claim)
        self._to_prove.pop(claim, None)
        self._to_confirm.discard(claim)

    def _knows(self, phase: AnyPhase, out: list[Effect], *, recovered: bool = False) -> None:
        if isinstance(phase, Ending):
            # Not listed any more: a node that missed the Done ends it for that.
            self._over(phase.claim, out)
            return
        held_back = self._held_back.get(phase.claim)
        if held_back is not None and phase.attempt != cast("Allowed", held_back.message).attempt:
            # It comes again, so what it was granted is of no use any more, confirmed or not.
            self._over(phase.claim, out)
            self._to_prove[phase.claim] = phase.attempt
        if phase.claim in self._held_back and isinstance(phase, Waiting):
            return
        if isinstance(phase, Inside):
            nodes = [node for node in phase.plan.nodes if node != self.claimant.node]
            doubted = nodes if recovered else ()
            self._renews(phase, out, units=phase.units, unconfirmed=doubted, recovered=recovered)
        else:
            # The own node may have lost its last turns, too: see `PoolSide`, where a waiting claim is compared.
            own = self.claimant.node
            doubted = [own] if recovered and own in self._doubted(phase) else ()
            self._renews(phase, out, units=None, unconfirmed=doubted, recovered=recovered)

    def _renews(
        self,
        phase: AnyPhase,
        out: list[Effect],
        *,
        units: tuple[UnitGrant, ...] | None,
        unconfirmed: Iterable[str] = (),
        recovered: bool = False,
        told: bool = True,
    ) -> None:
        terms = phase.plan.terms
        self.renewals.knows(
            phase.claim,
            phase.attempt,
            ttl_ms=terms.ttl_ms,
            nodes=phase.plan.nodes,
            out=out,
            units=units,
            for_ms=terms.for_ms,
            unconfirmed=unconfirmed,
            recovered=recovered,
            told=told,
        )


def _has_units_at(phase: Inside, node: str) -> bool:
    return any(unit.node == node for unit in phase.units)
