"""A pool's side of a node under the chain: its manager and the lease book as one machine, joined by plain calls."""

from collections.abc import Iterable
from typing import Any, Unpack, get_args

from holdall.leases.listing import Entry, Short, is_in, number_in, runs_of
from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address, Boot, CancelTimer, Forget, Message, Save, Send
from holdall.parties.saying import check_to_manager
from holdall.parties.side import BookTerms, Side
from holdall.protocols.chain.claims import counted
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import (
    CLAIMANT,
    Entered,
    ExtendRow,
    Kill,
    Promote,
    Refused,
    ShrinkRow,
    ToManager,
)
from holdall.protocols.chain.restart import MEM_KEY
from holdall.protocols.chain.rows import Mem, Row
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, PROMOTE_TIMER, ROW_KEY, Settings
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.vocabulary import ClaimId, claim_named

_TO_MANAGER: frozenset[type] = frozenset(get_args(ToManager))
_SENT_ON_OR_BACK = (Promote, Kill)


class PoolSide(Side[Manager]):
    """The chain's. `make` is Manager, or a subclass without one of the rules; `settings` are the manager's."""

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        *,
        epoch: int = 1,
        settings: Settings = DEFAULT_SETTINGS,
        make: type[Manager] = Manager,
        ttl_max_ms: int | None = None,
        **terms: Unpack[BookTerms],
    ) -> None:
        def made(over: Book) -> Manager:
            return make(node, epoch, over, settings)

        self._watch_peers = terms.get("watch_peers", True)
        super().__init__(node, pools, made, epoch=epoch, ttl_max_ms=ttl_max_ms, **terms)
        self._lacks_turns = False
        """Rows of an earlier epoch may be older than what this node has told of them."""

    def takes(self, message: Message) -> bool:
        """Whether it is a message to a manager of the chain."""
        return type(message) in _TO_MANAGER

    def touched(self) -> set[str] | None:
        """The manager's, which counts."""
        return self.manager.counts.touched

    def touch(self) -> None:
        """From now on, empty."""
        self.manager.counts.touched = set()

    def recovered(self, boot: Boot, out: Effects) -> None:
        """Rows and kills of other nodes' claims are watched again."""
        # Of a start in the same boot of the kernel nobody knows any more how complete the journal was before that.
        self._lacks_turns = boot.kind != "reboot" or boot.quarantine_ms > 0
        for row in tuple(self.manager.rows.values()):
            self._note_row(row, out)
        for claim, mem in self.manager.mem.items():
            self._note_kill(claim, mem, out)

    def protocol(self, sender: Address, message: Any, out: Effects) -> None:
        """A message to the manager, from a node that may send it."""
        manager = self.manager
        row = manager.rows.get(message.claim)
        check_to_manager(self.node, sender, message, row, clock=manager.clock, ttl_max_ms=self.ttl_max_ms)
        if sender.node == message.claim.node != self.node:
            # What its manager says of the claims of others tells nothing of its own: they may be lost to it.
            self.book.heard(sender.node, out)
        if isinstance(message, _SENT_ON_OR_BACK) and self._is_over_here(message):
            return
        manager.receive(sender, message, out)

    def _is_over_here(self, message: Promote | Kill) -> bool:
        """Whether a claim of this node has ended, whose row another node still sends on or calls back.

        No renewal compares a node with itself, so such a row would stay here for ever; and a node that stood still
        or was cut off may speak of it longer after its end than any tombstone is kept.
        """
        claim = message.claim
        return claim.node == self.node and self.stands is not None and not self.stands(claim, message.attempt)

    def compare(self, entry: Entry, out: Effects) -> Short | None:
        """Bring what is here of a claim to what its node says of it; what is here, if it is less than that.

        A journal that lacked its last turns may have kept units of an earlier activation, units that were given back
        since, or an earlier hard end.
        """
        claim, attempt = entry.claim, entry.attempt
        row = self.manager.row_of(claim, attempt)
        if not entry.inside:
            return None if row is None else self._compare_waiting(row, out)
        units = self.book.units(claim, attempt) if row is not None and row.active else ()
        kept = tuple(unit for unit in units if is_in(unit.fence, entry.fences))
        if len(kept) < number_in(entry.fences):
            return Short(claim, attempt, runs_of(unit.fence for unit in units))
        if row is None:
            return None
        if len(kept) < len(units):
            self.manager.on_shrink(ShrinkRow(claim, attempt, counted(kept, self.node), kept), out)
        if not kept:
            return None
        if not self._extended(entry, row, out):
            return Short(claim, attempt)
        if not entry.told:
            # Booked, not yet active: nothing counts from before its holder knows of it.
            return None
        self.manager.on_entered(Entered(claim, attempt), out)
        if not row.last:
            # It is granted, so what follows on this node has come: nothing is to be told there any more.
            out.append(CancelTimer(f"{PROMOTE_TIMER}{claim}"))
        return None

    def _compare_waiting(self, row: Row, out: Effects) -> Short | None:
        """A waiting claim that has units here: it has been sent on from here.

        Was that before this node lost its last turns, then perhaps in a later activation than is known here: the row
        further on does not belong to this one, and neither kill nor grant would find through. So it comes again, with
        its age. Was it granted before, then its node has lost that, and the way on is told again.
        """
        if not row.active or row.last:
            return None
        if self._lacks_turns and row.need[row.index].epoch != self.manager.epoch:
            refused = Refused(row.claim, row.attempt, self.manager.epoch, 0, row.stamp)
            out.append(Send(Address(row.claim.node, CLAIMANT), refused))
            return Short(row.claim, row.attempt)
        leases = self.book.of_claim(row.claim)
        if any(lease.active and lease.attempt == row.attempt for lease in leases):
            self.manager.promote(row, out)
        return None

    def _extended(self, entry: Entry, row: Row, out: Effects) -> bool:
        """Whether the claim lasts here for as long as it was promised."""
        ends_at = row.terms.for_ms
        if entry.for_ms is None or ends_at is None or entry.for_ms <= ends_at:
            return True
        order = ExtendRow(entry.claim, entry.attempt, entry.for_ms)
        self.manager.on_extend(Address(entry.claim.node, CLAIMANT), order, out)
        now = self.manager.row_of(entry.claim, entry.attempt)
        return now is not None and now.terms.for_ms == entry.for_ms

    def note_peers(self, out: Effects) -> None:
        """Rows and kills of other nodes' claims that have come or gone in this turn: what is saved tells."""
        if not self._watch_peers and not self.peers.has_unlisted():
            return
        for effect in tuple(out):
            if isinstance(effect, Save):
                record = effect.record
                if isinstance(record, Row):
                    self._note_row(record, out)
                elif isinstance(record, Mem) and effect.key.startswith(MEM_KEY):
                    self._note_kill(claim_named(effect.key.removeprefix(MEM_KEY)), record, out)
            elif isinstance(effect, Forget) and effect.key.startswith((ROW_KEY, MEM_KEY)):
                claim = claim_named(effect.key.removeprefix(ROW_KEY).removeprefix(MEM_KEY))
                manager = self.manager
                if claim.node != self.node and claim not in manager.rows and claim not in manager.mem:
                    self.peers.left(claim)
                    self.book.unwatch(claim, out)

    def _note_kill(self, claim: ClaimId, mem: Mem, out: Effects) -> None:
        """A kill is remembered until its claim comes again or ends; its node's lists tell when neither will happen.

        Or its node is not heard for as long as any lease may last: it may never come again.
        """
        if claim.node != self.node and claim in self.manager.mem and claim not in self.manager.rows:
            self.peers.arrived(claim, mem.attempt)
            if self.ttl_max_ms is not None:
                self.book.watch(claim, self.ttl_max_ms, out)

    def _note_row(self, row: Row, out: Effects) -> None:
        if row.claim.node != self.node and row.claim in self.manager.rows:
            is_new = self.peers.arrived(row.claim, row.attempt)
            self.book.watch(row.claim, row.terms.ttl_ms, out, anew=is_new)
