"""A pool's side of a node: the protocol's manager and the lease book as one machine, joined by plain calls."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Self, cast, get_args

from holdall.leases.book import OWN_MESSAGES, LeaseBook
from holdall.leases.listing import Alive, Entry, Short, Standing, is_in, number_in, runs_of
from holdall.leases.messages import AskPrepared, PoolSpec, RaiseFence, UncleanEnd, UnitsBack
from holdall.leases.peers import Peers
from holdall.leases.records import PREFIX
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    ClockRead,
    Effect,
    Event,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    TimerFired,
)
from holdall.parties.saying import check_to_manager
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
from holdall.protocols.chain.rows import Mem, Row, claim_named
from holdall.protocols.chain.settling import DEFAULT_SETTINGS, PROMOTE_TIMER, ROW_KEY, Settings
from holdall.protocols.vocabulary import ClaimId

_TO_MANAGER: tuple[type, ...] = get_args(ToManager)


class PoolSide:
    """The machine `manager` of a node. Records and timers that begin with `book/` are the book's.

    `make` is Manager, or a subclass without one of the rules; `settings` are the manager's, the other keywords the lease
    book's. `ttl_max_ms`: claims with a longer ttl are refused.
    """

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        *,
        epoch: int = 1,
        settings: Settings = DEFAULT_SETTINGS,
        rho_ppm: int = 20_000,
        fence_step: int = 1,
        fence_block: int = 1000,
        watch_peers: bool = True,
        ttl_max_ms: int | None = None,
        make: type[Manager] = Manager,
    ) -> None:
        self.node = node
        self._ttl_max_ms = ttl_max_ms
        self._lacks_turns = False
        """Rows of an earlier epoch may be older than what this node has told of them."""
        self.book = LeaseBook(
            node,
            pools,
            rho_ppm=rho_ppm,
            fence_step=fence_step,
            fence_block=fence_block,
            watch_peers=watch_peers,
            epoch=epoch,
        )
        self.manager = make(node, epoch, self.book, settings)
        self.book.guard = self.manager
        self.peers = Peers()
        """Rows here of claims of other nodes."""
        self.stands: Callable[[ClaimId, int], bool] | None = None
        """Whether this attempt of a claim of this node goes on, where its claimant is on the same host."""
        self.turns = 0
        """Grows with each event: tells a reader of this side whether what it has read still holds."""
        self._back: set[str] = set()
        """Pools whose units came or went without the protocol since `take_touched`."""

    def start(self) -> list[Effect]:
        """Nothing is kept and nothing is under way."""
        return []

    def handle(self, event: Event) -> list[Effect]:
        """One event for the book or for the protocol. Raises ProtocolViolation for what is neither's."""
        self.turns += 1
        out: list[Effect] = []
        match event:
            case TimerFired(timer) if timer.startswith(PREFIX):
                self.book.fired(timer, out)
            case TimerFired(timer):
                self.manager.fired(timer, out)
            case Received(sender, message) if isinstance(message, OWN_MESSAGES):
                self._own(sender, message, out)
            case Received(sender, message) if isinstance(message, _TO_MANAGER):
                self._protocol(sender, cast("ToManager", message), out)
            case Received(sender, Alive() as alive):
                answer = self.peers.alive(sender.node, alive, self.manager.epoch, self._comparing(out))
                self.book.heard(sender.node, out)
                out.append(Send(Address(sender.node, CLAIMANT), answer))
            case Received(sender, Standing() as standing):
                self._compare_lists(sender, standing, out)
            case Received(sender, message):
                raise ProtocolViolation(
                    f"{type(message).__name__} from {sender} is no message to a pool's side"
                )
        self.book.tell_changes(out)
        self._note_peers(out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """The book first, as the manager settles at once when it is up."""
        self.turns += 1
        out: list[Effect] = []
        boot = cast("Boot", records[BOOT_KEY])
        # Of a start in the same boot of the kernel nobody knows any more how complete the journal was before that.
        self._lacks_turns = boot.kind != "reboot" or boot.quarantine_ms > 0
        self.book.recover(records, out)
        own = {
            key: record for key, record in records.items() if not key.startswith(PREFIX) and key != BOOT_KEY
        }
        self.manager.recover(own, boot, out)
        for row in tuple(self.manager.rows.values()):
            self._note_row(row, out)
        for claim, mem in self.manager.mem.items():
            self._note_kill(claim, mem, out)
        self.peers.restarted()
        return out

    def take_touched(self) -> list[str]:
        """Pools whose numbers may be others than when this was asked last; before it is asked first, none is noted."""
        touched = self._back | (self.manager.counts.touched or set())
        self._back.clear()
        self.manager.counts.touched = set()
        return sorted(touched)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key(), self.peers.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.node, twin.turns, twin._ttl_max_ms = self.node, self.turns, self._ttl_max_ms
        twin._lacks_turns = self._lacks_turns
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin.book.guard = twin.manager
        twin.peers = self.peers.copy()
        twin._back = self._back.copy()
        twin.stands = self.stands
        return twin

    def _own(self, sender: Address, message: Message, out: list[Effect]) -> None:
        """Orders of this node's own parts; about the end of a claim also of the node that it belongs to."""
        speaks_for = (
            isinstance(message, UncleanEnd | RaiseFence | AskPrepared) and sender.node == message.claim.node
        )
        if sender.node != self.node and not speaks_for:
            raise ProtocolViolation(
                f"{type(message).__name__} is for this node's own parts, not for {sender}"
            )
        if isinstance(message, ClockRead):
            self.manager.clock_read(message.wall_ms)
        self.book.told(message, out)

    def _protocol(self, sender: Address, message: ToManager, out: list[Effect]) -> None:
        manager = self.manager
        row = manager.rows.get(message.claim)
        check_to_manager(self.node, sender, message, row, clock=manager.clock, ttl_max_ms=self._ttl_max_ms)
        if sender.node == message.claim.node != self.node:
            # What its manager says of the claims of others tells nothing of its own: they may be lost to it.
            self.book.heard(sender.node, out)
        if isinstance(message, Promote | Kill) and self._is_over_here(message):
            return
        manager.receive(sender, message, out)

    def _is_over_here(self, message: Promote | Kill) -> bool:
        """Whether a claim of this node has ended, whose row another node still sends on or calls back.

        No renewal compares a node with itself, so such a row would stay here for ever; and a node that stood still
        or was cut off may speak of it longer after its end than any tombstone is kept.
        """
        claim = message.claim
        return claim.node == self.node and self.stands is not None and not self.stands(claim, message.attempt)

    def _compare_lists(self, sender: Address, standing: Standing, out: list[Effect]) -> None:
        answer, over = self.peers.standing(sender.node, standing, self.manager.epoch, self._comparing(out))
        self.book.heard(sender.node, out)
        for claim in over:
            self.manager.departed(claim, out, "not listed")
        if answer is not None:
            out.append(Send(Address(sender.node, CLAIMANT), answer))

    def _comparing(self, out: list[Effect]) -> Callable[[Entry], Short | None]:
        return lambda entry: self._compare(entry, out)

    def _compare(self, entry: Entry, out: list[Effect]) -> Short | None:
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

    def _compare_waiting(self, row: Row, out: list[Effect]) -> Short | None:
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

    def _extended(self, entry: Entry, row: Row, out: list[Effect]) -> bool:
        """Whether the claim lasts here for as long as it was promised."""
        ends_at = row.terms.for_ms
        if entry.for_ms is None or ends_at is None or entry.for_ms <= ends_at:
            return True
        order = ExtendRow(entry.claim, entry.attempt, entry.for_ms)
        self.manager.on_extend(Address(entry.claim.node, CLAIMANT), order, out)
        now = self.manager.row_of(entry.claim, entry.attempt)
        return now is not None and now.terms.for_ms == entry.for_ms

    def _note_peers(self, out: list[Effect]) -> None:
        """Rows and kills of other nodes' claims that have come or gone in this turn: what is saved tells."""
        for effect in tuple(out):
            match effect:
                case Save(_, Row() as row):
                    self._note_row(row, out)
                case Save(key, Mem() as mem) if key.startswith(MEM_KEY):
                    self._note_kill(claim_named(key.removeprefix(MEM_KEY)), mem, out)
                case Forget(key) if key.startswith((ROW_KEY, MEM_KEY)):
                    claim = claim_named(key.removeprefix(ROW_KEY).removeprefix(MEM_KEY))
                    manager = self.manager
                    if claim.node != self.node and claim not in manager.rows and claim not in manager.mem:
                        self.peers.left(claim)
                        self.book.unwatch(claim, out)
                case Send(_, UnitsBack(pools)) if self.manager.counts.touched is not None:
                    self._back.update(pools)
                case _:
                    pass

    def _note_kill(self, claim: ClaimId, mem: Mem, out: list[Effect]) -> None:
        """A kill is remembered until its claim comes again or ends; its node's lists tell when neither will happen.

        Or its node is not heard for as long as any lease may last: it may never come again.
        """
        if claim.node != self.node and claim in self.manager.mem and claim not in self.manager.rows:
            self.peers.arrived(claim, mem.attempt)
            if self._ttl_max_ms is not None:
                self.book.watch(claim, self._ttl_max_ms, out)

    def _note_row(self, row: Row, out: list[Effect]) -> None:
        if row.claim.node != self.node and row.claim in self.manager.rows:
            is_new = self.peers.arrived(row.claim, row.attempt)
            self.book.watch(row.claim, row.terms.ttl_ms, out, anew=is_new)
