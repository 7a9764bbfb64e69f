"""The claims' side of a node by pool: a claimant and the renewal of its claims at the nodes as one machine.

What renewal finds to be lost is told to the claimant as `LeaseLost`, and to the agent, with the node, as `LostAt` just
before it.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self, cast, get_args

from holdall.leases.holder import DEADLINE_TIMER
from holdall.leases.listing import AliveOk, Compared
from holdall.leases.messages import Confirmed, LostAt
from holdall.leases.renewal import RENEW_TIMER, Loss, Quiet, Renewals
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    ClockRead,
    Event,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.parties.by_pool.saying import check_to_claimant
from holdall.protocols.by_pool.claim import ClaimRecord, Phase
from holdall.protocols.by_pool.claimant import Claimant
from holdall.protocols.by_pool.ending import CLAIM_KEY
from holdall.protocols.by_pool.messages import RESTARTED, PlaceGone, Refused
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Gone, LeaseLost, Release, Stamp, ToClaimant, claim_named

DOOM_TIMER = "doom/"
_VERBS: tuple[type, ...] = get_args(ToClaimant)


class _Unproved:
    """A claim that waits since before a restart: its time runs here from the restart, at its nodes from what they heard.

    So a grant counts only when they have heard of the restart, and still have the claim: what is told meanwhile is kept.
    """

    __slots__ = ("attempt", "kept", "nodes")

    def __init__(self, attempt: int, nodes: frozenset[str], kept: Iterable[Received] = ()) -> None:
        self.attempt = attempt
        self.nodes = nodes
        """Those that have not said so yet."""
        self.kept = list(kept)


class ClaimsByPool:
    """The machine `claimant` of a node or a client's host."""

    def __init__(
        self,
        claimant: Claimant[Any],
        *,
        rho_ppm: int = 20_000,
        margin_ms: int = 500,
        incarnation: int = 1,
    ) -> None:
        self.claimant = claimant
        self._rho_ppm = rho_ppm
        self.renewals = Renewals(claimant.node, rho_ppm=rho_ppm, margin_ms=margin_ms, incarnation=incarnation)
        self._doomed: set[ClaimId] = set()
        """Leases that are lost before their time, whose holders have been told: they end when that time is over."""
        self._to_confirm: set[ClaimId] = set()
        """Claims of before a restart, of which the agent is to hear when they may go on."""
        self._unproved: dict[ClaimId, _Unproved] = {}

    def start(self) -> Effects:
        """Nothing is under way."""
        return []

    def handle(self, event: Event) -> Effects:
        """One event for the claimant or for renewal. Raises ProtocolViolation for what its sender may not say."""
        out: Effects = []
        if isinstance(event, TimerFired):
            self._fired(event, out)
            return out
        sender, message = event.sender, event.message
        if isinstance(message, AliveOk | Compared):
            self._renewed(sender, message, out)
        elif isinstance(message, ClockRead) and sender.node == self.claimant.node:
            self.renewals.now_ms = message.boot_ms
        else:
            self._check(sender, message)
            if isinstance(message, PlaceGone) and self._is_forgotten(message):
                self._lose([(message.claim, sender.node, message.reason)], out)
            elif (unproved := self._keeps_back(message)) is not None:
                unproved.kept.append(event)
            else:
                self._tell(event, out)
        return out

    def _fired(self, event: TimerFired, out: Effects) -> None:
        timer = event.timer
        if timer.startswith((RENEW_TIMER, DEADLINE_TIMER)):
            self._lose(self.renewals.fired(timer, out), out)
        elif timer.startswith(DOOM_TIMER):
            self._doom_over(claim_named(timer.removeprefix(DOOM_TIMER)), out)
        else:
            self._tell(event, out)

    def recover(self, records: Mapping[str, Record]) -> Effects:
        """Claims go on; granted ones count only when all their nodes have said that they still know them."""
        out = list(self.claimant.recover(records))
        boot = cast("Boot", records[BOOT_KEY])
        self.renewals = self.renewals.anew(boot.incarnation, epoch=boot.epoch)
        for claim in sorted(self.claimant.claims):
            record = self.claimant.claims[claim]
            self._knows(record, out, recovered=True)
            others = frozenset(want.node for want in record.places) - {self.claimant.node}
            if record.phase is Phase.INSIDE and not self.renewals.may_go_on(claim):
                self._to_confirm.add(claim)
            elif record.phase <= Phase.WAITING and others:
                self._unproved[claim] = _Unproved(record.attempt, others)
        return out

    # ------------------------------------------------------------ what an agent reads (`views.LifeView`, `views.AgesView`)

    def left_ms(self, claims: Iterable[ClaimId]) -> int | None:
        """The least of all parts that are granted; None when all are of this node alone."""
        lefts = [self.renewals.left_ms(part) for part in self._parts(claims)]
        return min((left for left in lefts if left is not None), default=None)

    def may_go_on(self, claims: Iterable[ClaimId]) -> bool:
        """Whether all nodes of all parts have confirmed them."""
        return all(self.renewals.may_go_on(part) for part in self._parts(claims))

    def quiet(self, claims: Iterable[ClaimId]) -> tuple[Quiet, ...]:
        """Each node once, by id."""
        known = [self.claimant.claims[claim] for claim in claims if claim in self.claimant.claims]
        parts = [member.claim for record in known for member in self.claimant.family(record)]
        found = {one.node: one for part in parts for one in self.renewals.quiet(part)}
        return tuple(found[node] for node in sorted(found))

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """The claim's age, where the protocol keeps one."""
        record = self.claimant.claims.get(claim)
        return None if record is None else self.claimant.stamp_of(record)

    def stands(self, claim: ClaimId, attempt: int) -> bool:
        """Whether this attempt of a claim goes on."""
        record = self.claimant.claims.get(claim)
        return record is not None and record.attempt == attempt and record.phase is not Phase.ENDING

    def _parts(self, claims: Iterable[ClaimId]) -> list[ClaimId]:
        known = [self.claimant.claims[claim] for claim in claims if claim in self.claimant.claims]
        return [
            member.claim
            for record in known
            for member in self.claimant.family(record)
            if member.phase is Phase.INSIDE
        ]

    # ------------------------------------------------------------ for the explorer

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.claimant.key(),
            self.renewals.key(),
            tuple(sorted(self._doomed)),
            tuple(sorted(self._to_confirm)),
            tuple((claim, one.nodes, tuple(one.kept)) for claim, one in sorted(self._unproved.items())),
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.claimant, twin.renewals = self.claimant.copy(), self.renewals.copy()
        twin._rho_ppm = self._rho_ppm
        twin._doomed, twin._to_confirm = set(self._doomed), set(self._to_confirm)
        twin._unproved = {
            claim: _Unproved(one.attempt, one.nodes, list(one.kept)) for claim, one in self._unproved.items()
        }
        return twin

    # ------------------------------------------------------------ inside

    def _check(self, sender: Address, message: Message) -> None:
        if isinstance(message, _VERBS):
            if sender.node != self.claimant.node:
                raise ProtocolViolation(
                    f"{type(message).__name__} is for this node's own agent, not for {sender}"
                )
            return
        claim: ClaimId | None = getattr(message, "claim", None)
        record = None if claim is None else self.claimant.claims.get(claim)
        check_to_claimant(self.claimant.node, sender, message, record)

    def _is_forgotten(self, gone: PlaceGone) -> bool:
        """Whether a node has lost what a granted claim has there, before its holder's time is over."""
        record = self.claimant.claims.get(gone.claim)
        return (
            gone.reason == RESTARTED
            and record is not None
            and record.phase is Phase.INSIDE
            and record.attempt == gone.attempt
        )

    def _renewed(self, sender: Address, answer: AliveOk | Compared, out: Effects) -> None:
        if isinstance(answer, AliveOk) and not self.claimant.confirmed(sender.node, answer.epoch, out):
            # The time of what the node has lost must not run on, and which that is will be known after its answers.
            return
        counts = self.renewals.counts(sender.node, answer)
        self._lose(self.renewals.heard(sender.node, answer, out), out)
        if counts:
            self._prove(sender.node, answer, out)
        if not self._to_confirm:
            return
        for claim in sorted(one for one in self._to_confirm if self.renewals.may_go_on(one)):
            self._to_confirm.discard(claim)
            record = self.claimant.claims.get(claim)
            if record is not None and record.phase is Phase.INSIDE:
                out.append(Send(self.claimant.agent, Confirmed(record.parent or claim)))

    def _keeps_back(self, message: Message) -> "_Unproved | None":
        """The claim's, if it waits since before a restart; what ends its attempt is heard at once."""
        if not self._unproved or isinstance(message, (PlaceGone, Refused, *_VERBS)):
            return None
        return self._unproved.get(getattr(message, "claim", ClaimId("", 0, 0)))

    def _prove(self, node: str, answer: AliveOk | Compared, out: Effects) -> None:
        """The node has heard this start of ours, and knows the claims as they are known here; or it does not.

        Lists that had to be compared don't tell whether a waiting claim is there, so it comes again.
        """
        if not self._unproved:
            return
        for claim in sorted(one for one, unproved in self._unproved.items() if node in unproved.nodes):
            unproved = self._unproved[claim]
            if isinstance(answer, Compared):
                self._lose([(claim, node, "expired")], out)
            elif answer.same:
                unproved.nodes -= {node}
                if not unproved.nodes:
                    del self._unproved[claim]
                    for event in unproved.kept:
                        self._tell(event, out)

    def _lose(self, lost: Iterable[Loss], out: Effects) -> None:
        sender = Address(self.claimant.node, "holder")
        for claim, node, reason in lost:
            record = self.claimant.claims.get(claim)
            if record is None or (claim in self._doomed and reason != "expired"):
                continue
            # A companion's units are part of the lease that it was exchanged for.
            owner = record.parent or claim
            if record.phase is Phase.INSIDE:
                out.append(
                    Send(self.claimant.agent, LostAt(owner, node, self.renewals.quiet_ms(claim, node)))
                )
                if reason != "expired":
                    self._doom(claim, owner, reason, record.terms.ttl_ms, out)
                    continue
            self._tell(Received(sender, LeaseLost(owner, reason)), out)

    def _doom(self, claim: ClaimId, owner: ClaimId, reason: str, ttl_ms: int, out: Effects) -> None:
        """The holder hears that the lease is lost; what other nodes have of it is kept until that is certain.

        It may stand still, and believe in the lease for as long as it was confirmed.
        """
        self._doomed.add(claim)
        out.append(Send(self.claimant.agent, Gone(owner, reason)))
        out.append(SetTimer(f"{DOOM_TIMER}{claim}", ttl_ms * (1_000_000 + self._rho_ppm) // 1_000_000))

    def _doom_over(self, claim: ClaimId, out: Effects) -> None:
        record = self.claimant.claims.get(claim)
        if claim in self._doomed and record is not None and record.phase is Phase.INSIDE:
            self._tell(Received(self.claimant.agent, Release(record.parent or claim)), out)

    def _tell(self, event: Event, out: Effects) -> None:
        """The claimant handles it; what it saves tells which claims there are."""
        effects = self.claimant.handle(event)
        if not effects:
            return
        out += effects
        for effect in effects:
            if isinstance(effect, Save):
                record = effect.record
                if isinstance(record, ClaimRecord) and record.claim in self.claimant.claims:
                    self._knows(record, out)
            elif isinstance(effect, Forget) and effect.key.startswith(CLAIM_KEY):
                self._over(claim_named(effect.key.removeprefix(CLAIM_KEY)), out)

    def _over(self, claim: ClaimId, out: Effects) -> None:
        self.renewals.over(claim, out)
        self._doomed.discard(claim)
        self._to_confirm.discard(claim)
        self._unproved.pop(claim, None)

    def _knows(self, record: ClaimRecord, out: Effects, *, recovered: bool = False) -> None:
        if record.phase is Phase.ENDING:
            # Not listed any more: a node that missed the End ends it for that.
            self._over(record.claim, out)
            return
        unproved = self._unproved.get(record.claim)
        if unproved is not None and unproved.attempt != record.attempt:
            # Whoever grants this one has heard of it after the restart.
            del self._unproved[record.claim]
        inside = record.phase is Phase.INSIDE
        nodes = {want.node for want in record.places}
        self.renewals.knows(
            record.claim,
            record.attempt,
            ttl_ms=record.terms.ttl_ms,
            nodes=nodes,
            out=out,
            units=record.units if inside else None,
            # A new end counts when all places have it: until then the one that was asked for at first.
            for_ms=(record.for_ms or record.terms.for_ms) if not record.extending else record.terms.for_ms,
            unconfirmed=nodes if inside and recovered else (),
            recovered=recovered,
        )
