"""The manager of one node: every message of the chain, and what the lease book tells it.

A plain object: whoever composes a pool's side calls it with a message and the list that effects are appended to;
`alone.py` makes a machine of it. Source: chain specification, 2.5 (one method per row of its table).
"""

from collections.abc import Collection
from typing import assert_never

import msgspec

from holdall.machine.contract import Address, Send
from holdall.protocols.chain.line import Line
from holdall.protocols.chain.messages import (
    CLAIMANT,
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
from holdall.protocols.chain.rows import (
    Killing,
    Row,
    most_of,
    real_pool,
    without_limits,
)
from holdall.protocols.chain.settling import PROMOTE_TIMER
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Stamp, Vector, Visit, claim_named


class Manager(Line):
    """Who waits and who has units on one node."""

    def receive(self, sender: Address, message: ToManager, out: Effects) -> None:
        """One message and its whole turn. Raises ProtocolViolation for one that is not for this node."""
        # The most frequent ones first: each test that fails costs, and there are many messages.
        if isinstance(message, Done):
            self.on_done(sender, message, out)
        elif isinstance(message, Request):
            self.on_request(message, out)
        elif isinstance(message, Promote):
            self.on_promote(sender, message, out)
        elif isinstance(message, Kill):
            self.on_kill(sender, message, out)
        elif isinstance(message, Killed):
            self.on_killed(message, out)
        elif isinstance(message, Try):
            self.on_try(sender, message, out)
        elif isinstance(message, Entered):
            self.on_entered(message, out)
        else:
            match message:
                case ShrinkRow():
                    self.on_shrink(message, out)
                case ExtendRow():
                    self.on_extend(sender, message, out)
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

    # Ends

    def on_done(self, sender: Address, message: Done, out: Effects) -> None:
        """Release and cancel, at any time, even before what they end."""
        claim = message.claim
        self.end_older_attempts(claim, message.attempt + 1, out)
        if message.alone and sender.node == self.node:
            self.dig_up(claim, out)
        else:
            self.bury(claim, message.attempt, out)
        if self.refused.get(claim, (0, None))[0] < message.attempt:
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
            # Oldest first, so that those of one node stand in line again in that order.
            ages = [(stamp is None, stamp, claim) for claim, (_, stamp) in self.refused.items()]
            for _, stamp, claim in sorted(ages):
                attempt = self.refused[claim][0]
                answer = Refused(claim, attempt, self.epoch, 0, stamp)
                out.append(Send(Address(claim.node, CLAIMANT), answer))
            self.refused.clear()
