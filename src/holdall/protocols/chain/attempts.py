"""One attempt after another: how a claimant asks, gives up, comes again and repeats itself. No decisions of verbs.

Source: chain specification, 2.5, section 6 (timers) and section 7 (claimant's node restarts).
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Self

import msgspec

from holdall.machine.contract import BOOT_KEY, Address, CancelTimer, Forget, Record, Save, Send, SetTimer
from holdall.protocols.chain.claims import (
    SIBLINGS_MAX,
    AnyPhase,
    Ending,
    Inside,
    Plan,
    Trying,
    Waiting,
    acknowledged,
    counted,
    family_of,
    is_sibling,
    owing,
    sibling,
)
from holdall.protocols.chain.messages import MANAGER, Done, ExtendRow, Request, ShrinkRow, ToManager, Try
from holdall.protocols.hooks import Effects, nobody_is_gone
from holdall.protocols.vocabulary import ClaimId, Ended, FromClaimant, Retrying, Stamp, Visit

REPEAT_TIMER = "repeat/"
RETRY_TIMER = "retry/"
PATIENCE_TIMER = "patience/"
CLAIM_KEY = "claim/"
REPLANS_MAX = 3
TRY_FROM_NODES = 4


class Attempts:
    """The claims of one node and their messages.

    `agent` hears what becomes of them. A waiting claim over `try_from` nodes or more tries all at once first.
    `repeat_ms`: pause before unanswered messages to other nodes are repeated, doubled up to `repeat_most_ms`;
    None: never. Messages to the own node's manager arrive in the same turn and need no repetition.
    """

    def __init__(
        self,
        node: str,
        agent: Address,
        *,
        try_from: int = TRY_FROM_NODES,
        repeat_ms: int | None = None,
        repeat_most_ms: int | None = None,
    ) -> None:
        self.node = node
        self.agent = agent
        self.try_from = try_from
        self.repeat_ms = repeat_ms
        self.repeat_most_ms = repeat_most_ms or repeat_ms
        self.is_gone: Callable[[str], bool] = nobody_is_gone
        """Whether a node has been removed from the system for good: what it owes is not waited for."""
        self.claims: dict[ClaimId, AnyPhase] = {}
        self.epochs: dict[str, int] = {}
        """Managers' epochs as heard in refusals."""
        self._siblings = False
        """Whether a placement beside the first was ever known here: most claimants never have one to look for."""
        self.pauses: dict[ClaimId, int] = {}
        """Next pause of each running repetition. Timing only, so no part of the key."""

    def key(self) -> Hashable:
        return (
            tuple(self.claims[claim] for claim in sorted(self.claims)),
            tuple(sorted(self.epochs.items())),
        )

    def copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.claims = self.claims.copy()
        twin.epochs = self.epochs.copy()
        twin.pauses = self.pauses.copy()
        return twin

    def recover(self, records: Mapping[str, Record]) -> Effects:
        """Go on with what was saved: ask, try or end again whatever may have been lost."""
        out: Effects = []
        for name in sorted(records):
            record = records[name]
            if name != BOOT_KEY and isinstance(record, Trying | Waiting | Inside | Ending):
                self.claims[record.claim] = record
                self._siblings = self._siblings or is_sibling(record.claim)
        for claim in sorted(self.claims, key=self._age):
            phase = self.claims[claim]
            self.repeat(phase, self.nodes_owing(phase), out)
            self.arm(phase, out)
            if isinstance(phase, Waiting):
                self.arm_patience(phase, out)
                if phase.paused:
                    out.append(SetTimer(f"{RETRY_TIMER}{claim}", self.repeat_ms or 0))
        return out

    def _age(self, claim: ClaimId) -> tuple[int, str, ClaimId]:
        """Older ones ask again first, so that a queue that was lost is the same again."""
        stamp = getattr(self.claims[claim], "stamp", None)
        return (stamp.clock, stamp.node, claim) if isinstance(stamp, Stamp) else (0, "", claim)

    # Words to the agent, messages to managers

    def tell(self, message: FromClaimant, out: Effects) -> None:
        out.append(Send(self.agent, message))

    def to_manager(self, node: str, message: ToManager, out: Effects) -> None:
        out.append(Send(Address(node, MANAGER), message))

    def keep(self, phase: AnyPhase, out: Effects) -> None:
        """This is the claim's phase from now on, also after a crash."""
        self.claims[phase.claim] = phase
        self._siblings = self._siblings or is_sibling(phase.claim)
        out.append(Save(f"{CLAIM_KEY}{phase.claim}", phase))
        self.arm(phase, out)

    def current(self, claim: ClaimId, attempt: int) -> AnyPhase | None:
        """The claim, if this attempt of it still goes on."""
        phase = self.claims.get(claim)
        if phase is None or phase.attempt != attempt or isinstance(phase, Ending):
            return None
        return phase

    def family(self, claim: ClaimId) -> list[AnyPhase]:
        """All placements of the agent's claim that are known here."""
        if not self._siblings:
            phase = self.claims.get(claim)
            return [] if phase is None else [phase]
        ids = (sibling(claim, number) for number in range(SIBLINGS_MAX))
        return [self.claims[member] for member in ids if member in self.claims]

    def age_of(self, claim: ClaimId) -> Stamp | None:
        """The oldest age that a placement of the agent's claim is known to have."""
        ages = [
            phase.stamp
            for phase in self.family(claim)
            if not isinstance(phase, Ending) and phase.stamp is not None
        ]
        return min(ages, default=None)

    # Asking

    def ask(self, claim: ClaimId, attempt: int, plan: Plan, stamp: Stamp | None, out: Effects) -> None:
        """First words of a claim: try at once, or stand in line."""
        if plan.wait and len(plan.need) < self.try_from:
            self.stand_in_line(Waiting(claim, attempt, plan, stamp=stamp), out)
        else:
            trying = Trying(claim, attempt, self.renewed(plan), stamp=stamp)
            self.keep(trying, out)
            self.send_tries(trying, plan.nodes, out)

    def stand_in_line(self, phase: Waiting, out: Effects) -> None:
        """The phase is kept, and its Request sent."""
        waiting = msgspec.structs.replace(phase, plan=self.renewed(phase.plan), paused=False)
        self.keep(waiting, out)
        self.arm_patience(waiting, out)
        self.send_request(waiting, out)

    def send_request(self, phase: Waiting, out: Effects) -> None:
        first = phase.plan.need[0]
        self.to_manager(
            first.node,
            Request(phase.claim, phase.attempt, first.epoch, phase.plan.need, phase.plan.terms, phase.stamp),
            out,
        )

    def send_tries(self, phase: Trying, nodes: Iterable[str], out: Effects) -> None:
        wanted = set(nodes)
        for visit in phase.plan.need:
            if visit.node in wanted:
                self.to_manager(
                    visit.node,
                    Try(phase.claim, phase.attempt, visit.epoch, visit.alternatives, phase.plan.terms),
                    out,
                )

    def renewed(self, plan: Plan) -> Plan:
        """The plan with the epochs that have been heard since it was made."""
        if not self.epochs or all(self.epochs.get(visit.node, 0) <= visit.epoch for visit in plan.need):
            return plan
        need = tuple(
            Visit(visit.node, visit.alternatives, max(visit.epoch, self.epochs.get(visit.node, 0)))
            for visit in plan.need
        )
        return msgspec.structs.replace(plan, need=need)

    # Giving up, coming again

    def send_done(self, phase: AnyPhase, node: str, attempt: int, out: Effects) -> None:
        self.to_manager(node, Done(phase.claim, attempt, alone=len(phase.plan.need) == 1), out)

    def end(self, phase: AnyPhase, out: Effects) -> None:
        """Tell every node that the claim is over."""
        if isinstance(phase, Ending):
            return
        nodes = phase.plan.nodes
        owed = owing(phase.owed, nodes, phase.attempt)
        self.keep(Ending(phase.claim, phase.attempt, phase.plan, owed), out)
        for node in nodes:
            self.send_done(phase, node, phase.attempt, out)

    def come_again(
        self, phase: Trying | Waiting, out: Effects, *, stamp: Stamp | None = None, after_ms: int = 0
    ) -> None:
        """End this attempt everywhere and ask anew with the age kept, at once or after a pause."""
        owed = owing(phase.owed, phase.plan.nodes, phase.attempt)
        waiting = Waiting(
            phase.claim, phase.attempt + 1, phase.plan, owed, phase.stamp or stamp, paused=after_ms > 0
        )
        for node in phase.plan.nodes:
            self.send_done(phase, node, phase.attempt, out)
        if after_ms > 0:
            self.keep(waiting, out)
            out.append(SetTimer(f"{RETRY_TIMER}{phase.claim}", after_ms, spread_ms=after_ms // 8))
        else:
            self.stand_in_line(waiting, out)

    def refused_by(
        self, phase: Trying | Waiting, node: str, out: Effects, *, stamp: Stamp | None, after_ms: int
    ) -> None:
        """A node has not let the claim in; it goes on as another attempt, and the agent is told."""
        self.tell(Retrying(family_of(phase.claim), node, after_ms), out)
        self.come_again(phase, out, stamp=stamp, after_ms=after_ms)

    def acknowledge(self, claim: ClaimId, node: str, attempt: int, out: Effects) -> None:
        """A node has answered the end of an attempt. Not saved: at worst it is asked once more."""
        phase = self.claims.get(claim)
        if phase is None:
            return
        owed = acknowledged(phase.owed, node, attempt)
        if owed == phase.owed:
            return
        if isinstance(phase, Ending) and not owed:
            self.forget(phase, out)
        else:
            phase = msgspec.structs.replace(phase, owed=owed)
            self.claims[claim] = phase
            self.arm(phase, out)

    def forget(self, phase: Ending, out: Effects) -> None:
        """All nodes know that it is over; the last placement of a claim is its last word."""
        del self.claims[phase.claim]
        out.append(Forget(f"{CLAIM_KEY}{phase.claim}"))
        if self.pauses.pop(phase.claim, None) is not None:
            out.append(CancelTimer(f"{REPEAT_TIMER}{phase.claim}"))
        known = family_of(phase.claim)
        if phase.plan.companion_of is None and not self.family(known):
            self.tell(Ended(known), out)

    # Repetition

    def nodes_owing(self, phase: AnyPhase) -> list[str]:
        """Nodes whose answer, or whose having heard, is not certain."""
        nodes = {node for node, _ in phase.owed}
        match phase:
            case Trying():
                nodes.update(set(phase.plan.nodes) - {node for node, _ in phase.yes})
            case Waiting(paused=False):
                nodes.add(phase.plan.need[0].node)
            case Inside():
                nodes.update(phase.shrunk)
                nodes.update(node for _, node in phase.unextended)
            case Waiting() | Ending():
                pass
        return sorted(nodes)

    def repeat(self, phase: AnyPhase, nodes: list[str], out: Effects) -> None:
        """Say again to these nodes what the phase says."""
        for node, attempt in phase.owed:
            if node in nodes:
                self.send_done(phase, node, attempt, out)
        match phase:
            case Trying():
                answered = {node for node, _ in phase.yes}
                self.send_tries(phase, [node for node in nodes if node not in answered], out)
            case Waiting(paused=False):
                if phase.plan.need[0].node in nodes:
                    self.send_request(phase, out)
            case Inside():
                for node in phase.shrunk:
                    if node in nodes:
                        self.send_shrink(phase, node, out)
                for claim, node in phase.unextended:
                    if node in nodes:
                        self.send_extend(phase, claim, node, out)
            case Waiting() | Ending():
                pass

    def send_shrink(self, phase: Inside, node: str, out: Effects) -> None:
        here = tuple(unit for unit in phase.units if unit.node == node)
        self.to_manager(node, ShrinkRow(phase.claim, phase.attempt, counted(here, node), here), out)

    def send_extend(self, phase: Inside, claim: ClaimId, node: str, out: Effects) -> None:
        part = self.claims.get(claim)
        if part is not None and phase.extending is not None:
            self.to_manager(node, ExtendRow(claim, part.attempt, phase.extending), out)

    def arm(self, phase: AnyPhase, out: Effects) -> None:
        """Run the repetition exactly while another node owes something."""
        if self.repeat_ms is None:
            return
        if not self._owing_elsewhere(phase):
            if self.pauses.pop(phase.claim, None) is not None:
                out.append(CancelTimer(f"{REPEAT_TIMER}{phase.claim}"))
        elif phase.claim not in self.pauses:
            self.pauses[phase.claim] = self.repeat_ms
            out.append(SetTimer(f"{REPEAT_TIMER}{phase.claim}", self.repeat_ms))

    def _owing_elsewhere(self, phase: AnyPhase) -> bool:
        if isinstance(phase, Waiting) and not phase.paused and phase.plan.need[0].node != self.node:
            return True
        return any(node != self.node for node in self.nodes_owing(phase))

    def repeat_fired(self, claim: ClaimId, out: Effects) -> None:
        """The pause is over."""
        phase = self.claims.get(claim)
        pause = self.pauses.get(claim)
        if phase is None or pause is None:
            return
        for node, attempt in phase.owed:
            if self.is_gone(node):
                self.acknowledge(claim, node, attempt, out)
        phase = self.claims.get(claim)
        if phase is None or claim not in self.pauses:
            return
        elsewhere = [node for node in self.nodes_owing(phase) if node != self.node]
        self.repeat(phase, elsewhere, out)
        longer = min(2 * pause, self.repeat_most_ms or pause)
        self.pauses[claim] = longer
        out.append(SetTimer(f"{REPEAT_TIMER}{claim}", longer))

    def arm_patience(self, phase: Waiting, out: Effects) -> None:
        """A placement over several nodes makes room for the next one after a third of the lease."""
        if phase.plan.spares and phase.plan.replans < REPLANS_MAX:
            out.append(SetTimer(f"{PATIENCE_TIMER}{phase.claim}", max(phase.plan.terms.ttl_ms // 3, 1)))

    def patience_fired(self, claim: ClaimId, out: Effects) -> None:
        """Give the next placement a turn; this one goes to the end of the list."""
        phase = self.claims.get(claim)
        if not isinstance(phase, Waiting) or not phase.plan.spares or phase.plan.replans >= REPLANS_MAX:
            return
        plan = phase.plan
        following = msgspec.structs.replace(
            plan, need=plan.spares[0], spares=(*plan.spares[1:], plan.need), replans=plan.replans + 1
        )
        owed = phase.owed
        if not phase.paused:
            owed = owing(owed, plan.nodes, phase.attempt)
            for node in plan.nodes:
                self.send_done(phase, node, phase.attempt, out)
        self.stand_in_line(Waiting(phase.claim, phase.attempt + 1, following, owed, phase.stamp), out)

    def retry_fired(self, claim: ClaimId, out: Effects) -> None:
        """The pause that a refusal asked for is over."""
        phase = self.claims.get(claim)
        if isinstance(phase, Waiting) and phase.paused:
            self.stand_in_line(phase, out)
