"""How claims get into line at a node, on to the next one, and back when an older claim needs their units.

Source: chain specification, 2.5 (Request, Promote, Kill, Killed) and 2.7 (passes left).
"""

import msgspec

from holdall.machine.contract import Address, ProtocolViolation, Send
from holdall.protocols.chain.messages import CLAIMANT, MANAGER, Kill, Killed, Promote, Refused, Request
from holdall.protocols.chain.restart import Restarting
from holdall.protocols.chain.rows import Killing, Mem, Row, most_of
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector

REFUSED_MAX = 10_000
"""How many refused claims are told when a quarantine ends; the others come again by themselves."""


class Line(Restarting):
    """The way of a claim in and back, message by message."""

    # In line

    def on_request(self, message: Request, out: Effects) -> None:
        """A claim comes to its first node."""
        claim, attempt = message.claim, message.attempt
        if message.need[0].node != self.node:
            raise ProtocolViolation(f"{claim} stands in line at {self.node}; its first node is another")
        if self.is_over(claim, attempt):
            self.refuse(claim, attempt, message.stamp, out)
        elif (row := self.row_of(claim, attempt)) is not None:
            self._repeat_answer(row, out)
        elif self.turns_away(message.epoch):
            self.refuse(claim, attempt, message.stamp, out)
        else:
            self.end_older_attempts(claim, attempt, out)
            stamp = message.stamp or self.new_stamp(claim, attempt)
            self._stand_in_line(message, 0, 0, stamp, out)
            if not self.rows[claim].active:
                self.tell_age(self.rows[claim], out)

    def on_promote(self, sender: Address, message: Promote, out: Effects) -> None:
        """A claim comes from the node before this one in its need."""
        claim, attempt = message.claim, message.attempt
        if message.need[message.position].node != self.node:
            raise ProtocolViolation(f"{claim} was sent on to {self.node}; its next node is another")
        if self.is_over(claim, attempt):
            self.refuse(claim, attempt, message.stamp, out)
            return
        row, mem = self.row_of(claim, attempt), self.mem_of(claim, attempt)
        if row is not None:
            # A row with another pn: an old Promote, repeated before its Killed came.
            if row.pn == message.pn:
                self._repeat_answer(row, out)
        elif self.turns_away(message.epoch):
            self.refuse(claim, attempt, message.stamp, out)
        elif mem is not None and mem.pn >= message.pn:
            if mem.pn == message.pn:
                out.append(Send(sender, Killed(claim, attempt, message.pn)))
        else:
            self.end_older_attempts(claim, attempt, out)
            self._stand_in_line(message, message.position, message.pn, message.stamp, out)

    def _repeat_answer(self, row: Row, out: Effects) -> None:
        """What is said again when the message that made a row comes again."""
        if row.active and row.last:
            self.allow(row, out)
        elif not row.active:
            self.wound_again(row, out)

    def _stand_in_line(
        self, message: Request | Promote, index: int, pn: int, stamp: Stamp, out: Effects
    ) -> None:
        claim, attempt = message.claim, message.attempt
        self.clock = max(self.clock, stamp.clock)
        wants = self.wants_here(message.need[index].alternatives, message.terms.holder)
        most = most_of(wants)
        mem = self.mem_of(claim, attempt)
        n, left, ahead, bound = self.counts_at_start(mem, most, (stamp, claim))
        if mem is not None:
            self.forget_mem(claim, out)
        units = message.units if isinstance(message, Promote) else ()
        got = message.got if isinstance(message, Promote) else ()
        self.insert(
            Row(
                claim,
                attempt,
                message.need,
                message.terms,
                index,
                pn,
                n,
                stamp,
                left,
                ahead,
                bound,
                wants,
                most,
                got,
                units,
            )
        )
        self.settle(out)
        row = self.rows[claim]
        if not row.active:
            self.save(row, out)

    def counts_at_start(
        self, mem: Mem | None, most: Vector, age: tuple[Stamp, ClaimId]
    ) -> tuple[int, int, int, int]:
        """n, left, ahead and bound of a new row: a claim that was killed here brings back what it had."""
        if mem is not None and mem.left is not None:
            return mem.n, mem.left, mem.ahead, mem.bound
        ahead = self.counts.older_waiting([pool for pool, _ in most], age)
        bound = self.settings.passes + self.settings.passes_per_ahead * ahead
        return (mem.n if mem is not None else 0), bound, ahead, bound

    def refuse(self, claim: ClaimId, attempt: int, stamp: Stamp | None, out: Effects) -> None:
        """Tell the claimant that it stands in no line here."""
        wait = 0
        if not self.book.may_grant():
            wait = max(self.quarantine_ms, 1)
            if len(self.refused) < REFUSED_MAX:
                self.refused[claim] = (attempt, stamp)
        out.append(Send(Address(claim.node, CLAIMANT), Refused(claim, attempt, self.epoch, wait, stamp)))

    def turns_away(self, epoch: int) -> bool:
        """Whether a newcomer is refused: it knows another epoch than this, or this is a quarantine."""
        return epoch != self.epoch or not self.book.may_grant()

    def new_stamp(self, claim: ClaimId, attempt: int) -> Stamp:
        """An age for a claim that has none: younger than all that this node has seen."""
        self.clock += 1
        return Stamp(self.clock, self.node, claim, attempt)

    # Kills

    def on_kill(self, sender: Address, message: Kill, out: Effects) -> None:
        """The node before this one needs the claim's units for an older one."""
        claim, attempt = message.claim, message.attempt
        row = self.row_of(claim, attempt)
        if self.is_over(claim, attempt) or (row is None and self.is_foreign(message)):
            # Another epoch must not answer: the earlier one may have granted the claim.
            return
        if row is None:
            self.on_kill_before_promote(sender, message, out)
        elif row.pn != message.pn or row.index == 0:
            # An old one: the claim has been killed for it and has come again, or the like.
            pass
        elif not row.active:
            self.remember(row, out)
            self.remove(row, out)
            out.append(Send(sender, Killed(claim, attempt, message.pn)))
            self.settle(out)
        elif self.can_be_killed(row):
            self.rows[claim] = msgspec.structs.replace(row, kill=Killing.BEFORE)
            if row.kill is not Killing.HERE:
                self.send_kill(row, out)

    def can_be_killed(self, row: Row) -> bool:
        """Whether a Kill reaches an active row: not one that is granted."""
        return not row.last

    def is_foreign(self, message: Kill) -> bool:
        """Whether a Kill was meant for another epoch of this manager."""
        return message.epoch != self.epoch

    def on_kill_before_promote(self, sender: Address, message: Kill, out: Effects) -> None:
        """A Kill that has overtaken its Promote makes it void; any other is an old one."""
        claim, attempt = message.claim, message.attempt
        mem = self.mem_of(claim, attempt)
        if mem is not None and mem.pn >= message.pn:
            return
        self.end_older_attempts(claim, attempt, out)
        void = (
            Mem(attempt, message.pn, 0, None) if mem is None else msgspec.structs.replace(mem, pn=message.pn)
        )
        self.keep_mem(claim, void, out)
        out.append(Send(sender, Killed(claim, attempt, message.pn)))
        self.settle(out)

    def on_killed(self, message: Killed, out: Effects) -> None:
        """The next node has undone the row's last Promote."""
        row = self.row_of(message.claim, message.attempt)
        if row is None or not row.active or row.last or row.n != message.n:
            # Killed again, or the claim has gone on since.
            return
        if row.kill is Killing.BEFORE:
            self.on_killed_further_on(row, out)
        else:
            self.put_back(row, out)
        self.settle(out)

    def on_killed_further_on(self, row: Row, out: Effects) -> None:
        """The kill came from a node before: the claim leaves this one, too, on the way back."""
        self.remember(row, out)
        self.remove(row, out)
        before = Address(row.need[row.index - 1].node, MANAGER)
        out.append(Send(before, Killed(row.claim, row.attempt, row.pn)))

    def remember(self, row: Row, out: Effects) -> None:
        """What has to outlive a row that is killed."""
        self.keep_mem(row.claim, Mem(row.attempt, row.pn, row.n, row.left, row.ahead, row.bound), out)

    def end_older_attempts(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """A newer attempt ends all before it: their row and what is remembered of them."""
        row, mem = self.rows.get(claim), self.mem.get(claim)
        if row is not None and row.attempt < attempt:
            self.remove(row, out)
        if mem is not None and mem.attempt < attempt:
            self.forget_mem(claim, out)
