"""The manager of one node: every message of the chain, and what the lease book tells it.

A plain object: whoever composes a pool's side calls it with a message and the list that effects are appended to;
`alone.py` makes a machine of it. Source: chain specification, 2.5 (one method per row of its table).
"""

from collections.abc import Collection
from typing import assert_never

import msgspec

from holdall.machine.contract import Address, ProtocolViolation, Send
from holdall.protocols.chain.messages import (
    CLAIMANT,
    MANAGER,
    Done,
    EndAck,
    Entered,
    ExtendRow,
    Kill,
    Killed,
    Promote,
    Refused,
    Request,
    RowExtended,
    RowGone,
    ShrinkRow,
    ToManager,
    Tried,
    Try,
)
from holdall.protocols.chain.restart import Restarting
from holdall.protocols.chain.rows import (
    Killing,
    Mem,
    Row,
    claim_named,
    most_of,
    real_pool,
    without_limits,
)
from holdall.protocols.chain.settling import PROMOTE_TIMER
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector, Visit

REFUSED_MAX = 10_000
"""How many refused claims are told when a quarantine ends; the others come again by themselves."""


class Manager(Restarting):
    """Who waits and who has units on one node."""

    def receive(self, sender: Address, message: ToManager, out: Effects) -> None:
        """One message and its whole turn. Raises ProtocolViolation for one that is not for this node."""
        match message:
            case Request():
                self.on_request(message, out)
            case Promote():
                self.on_promote(sender, message, out)
            case Kill():
                self.on_kill(sender, message, out)
            case Killed():
                self.on_killed(message, out)
            case Done():
                self.on_done(sender, message, out)
            case Try():
                self.on_try(sender, message, out)
            case ShrinkRow():
                self.on_shrink(message, out)
            case ExtendRow():
                self.on_extend(sender, message, out)
            case Entered():
                self.on_entered(message, out)
            case _:
                assert_never(message)

    def fired(self, timer: str, out: Effects) -> bool:
        """A timer has run out. False: it is none of the manager's."""
        if timer.startswith(PROMOTE_TIMER):
            row = self.rows.get(claim_named(timer.removeprefix(PROMOTE_TIMER)))
            if row is not None and row.active and not row.last:
                self.promote(row, out)
                if row.kill is not Killing.NO:
                    self.send_kill(row, out)
            return True
        return self.swept(timer, out)

    def clock_read(self, wall_ms: int) -> None:
        """Stamps follow the wall clock, and never go back."""
        self.clock = max(self.clock, wall_ms)

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
        ahead = self.counts.older_waiting((pool for pool, _ in most), age)
        bound = self.settings.passes + self.settings.passes_per_ahead * ahead
        return (mem.n if mem is not None else 0), bound, ahead, bound

    def refuse(self, claim: ClaimId, attempt: int, stamp: Stamp | None, out: Effects) -> None:
        """Tell the claimant that it stands in no line here."""
        wait = 0
        if not self.book.may_grant():
            wait = max(self.quarantine_ms, 1)
            if len(self.refused) < REFUSED_MAX:
                self.refused[claim] = attempt
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

    # Ends

    def on_done(self, sender: Address, message: Done, out: Effects) -> None:
        """Release and cancel, at any time, even before what they end."""
        claim = message.claim
        self.end_older_attempts(claim, message.attempt + 1, out)
        if message.alone and sender.node == self.node:
            self.dig_up(claim, out)
        else:
            self.bury(claim, message.attempt, out)
        if self.refused.get(claim, 0) < message.attempt:
            # The Done of a refused attempt itself comes at once: its claim still waits to be told.
            self.refused.pop(claim, None)
        out.append(Send(sender, EndAck(claim, message.attempt)))
        self.settle(out)

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """The claim's lease is over."""
        row, mem = self.rows.get(claim), self.mem.get(claim)
        attempt = max(row.attempt if row is not None else 0, mem.attempt if mem is not None else 0)
        if attempt == 0:
            return
        self.end_older_attempts(claim, attempt + 1, out)
        self.bury(claim, attempt, out)
        if row is not None:
            stamp = row.stamp if row.stamp.clock else None
            out.append(Send(Address(claim.node, CLAIMANT), RowGone(claim, attempt, reason, stamp)))
        self.settle(out)

    def end_older_attempts(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """A newer attempt ends all before it: their row and what is remembered of them."""
        row, mem = self.rows.get(claim), self.mem.get(claim)
        if row is not None and row.attempt < attempt:
            self.remove(row, out)
        if mem is not None and mem.attempt < attempt:
            self.forget_mem(claim, out)

    # Without waiting

    def on_try(self, sender: Address, message: Try, out: Effects) -> None:
        """Units now, where that delays nobody."""
        claim, attempt = message.claim, message.attempt
        row = self.row_of(claim, attempt)
        if self.is_over(claim, attempt) or (row is None and self.turns_away(message.epoch)):
            out.append(Send(sender, Tried(claim, attempt, yes=False)))
        elif row is not None:
            units = self.book.units(claim, attempt)
            out.append(Send(sender, Tried(claim, attempt, yes=True, units=units)))
        else:
            self.end_older_attempts(claim, attempt, out)
            self._try_now(sender, message, out)
            self.settle(out)

    def _try_now(self, sender: Address, message: Try, out: Effects) -> None:
        claim, attempt = message.claim, message.attempt
        wants = self.wants_here(message.alternatives, message.terms.holder)
        choice = self.try_choice(wants)
        if choice is None:
            out.append(Send(sender, Tried(claim, attempt, yes=False)))
            return
        place, vector = choice
        # The only position, so the last: nobody can kill it. It never waits, so its age is never looked at.
        row = Row(
            claim,
            attempt,
            (Visit(self.node, message.alternatives, self.epoch),),
            message.terms,
            0,
            0,
            1,
            Stamp(0, self.node, claim, attempt),
            0,
            0,
            0,
            wants,
            most_of(wants),
            (place,),
            (),
            active=True,
            vector=vector,
        )
        self.rows[claim] = row
        self.take(row)
        units = self.book.set_aside(claim, attempt, dict(without_limits(vector)), message.terms, out)
        self.save(row, out)
        out.append(Send(sender, Tried(claim, attempt, yes=True, units=units)))

    def try_choice(self, wants: tuple[Vector, ...]) -> tuple[int, Vector] | None:
        """The first alternative that passes nobody, whatever passes they have left."""
        for place, wanted in enumerate(wants):
            vector = self.counts.resolved(wanted)
            if self.counts.passes_nobody(vector, None):
                return place, vector
        return None

    # While granted

    def on_shrink(self, message: ShrinkRow, out: Effects) -> None:
        """A part comes back. Repeated or late ones change nothing: it is a minimum."""
        row = self.row_of(message.claim, message.attempt)
        if row is None or not row.active:
            return
        keep = dict(message.keep)
        vector = tuple(
            (pool, least)
            for pool, units in row.vector
            if (least := min(units, keep.get(real_pool(pool), 0))) > 0
        )
        if not vector:
            self.remove(row, out)
            self.on_shrunk_to_nothing(row, out)
        elif vector != row.vector:
            smaller = msgspec.structs.replace(row, vector=vector)
            self.rows[row.claim] = smaller
            self.swap(row, smaller)
            self.book.give_back(
                row.claim, row.attempt, dict(without_limits(vector)), out, named=message.units
            )
            self.save(smaller, out)
        self.settle(out)

    def on_shrunk_to_nothing(self, row: Row, out: Effects) -> None:
        """Bury: a Kill that finds no row here must not make a grant void."""
        self.bury(row.claim, row.attempt, out)

    def on_extend(self, sender: Address, message: ExtendRow, out: Effects) -> None:
        """A new hard end."""
        row = self.row_of(message.claim, message.attempt)
        ok = (
            row is not None
            and row.active
            and self.book.extend(message.claim, message.attempt, message.for_ms, out)
        )
        if ok and row is not None and row.terms.for_ms != message.for_ms:
            terms = msgspec.structs.replace(row.terms, for_ms=message.for_ms)
            self.rows[row.claim] = msgspec.structs.replace(row, terms=terms)
            self.save(self.rows[row.claim], out)
        out.append(Send(sender, RowExtended(message.claim, message.attempt, message.for_ms, ok)))

    def on_entered(self, message: Entered, out: Effects) -> None:
        """The claim is granted as a whole: its units here are not only booked."""
        row = self.row_of(message.claim, message.attempt)
        if row is not None and row.active:
            self.book.book(message.claim, message.attempt, out)

    # From the lease book

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """Units have left or come back, or the quarantine is over."""
        self.look_at(pools)
        self.settle(out)
        if self.refused and self.book.may_grant():
            for claim, attempt in sorted(self.refused.items()):
                out.append(Send(Address(claim.node, CLAIMANT), Refused(claim, attempt, self.epoch, 0)))
            self.refused.clear()
