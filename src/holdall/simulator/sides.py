"""Ordered locking behind the shipped lease book and renewals, as the pool's and claimant's sides do it for the chain.

The baseline is for comparison only, so no node runs it, and what joins its machines lives here.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Self, cast, get_args

from holdall.leases.book import LeaseBook
from holdall.leases.holder import DEADLINE_TIMER
from holdall.leases.listing import (
    Alive,
    AliveOk,
    Compared,
    Entry,
    Short,
    Standing,
    is_in,
    number_in,
    runs_of,
)
from holdall.leases.messages import PoolSpec
from holdall.leases.peers import Peers
from holdall.leases.records import PREFIX
from holdall.leases.renewal import RENEW_TIMER, Loss, Renewals
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    Effect,
    Event,
    Forget,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    TimerFired,
)
from holdall.model.names import POOLS_MAX
from holdall.protocols.hooks import Effects
from holdall.protocols.ordered.claimant import Claimant
from holdall.protocols.ordered.manager import Manager
from holdall.protocols.ordered.messages import BuriedRecord, LockRecord, ToManager
from holdall.protocols.ordered.plan import ClaimRecord, Phase
from holdall.protocols.vocabulary import ClaimId, LeaseLost

_TO_MANAGER: tuple[type, ...] = get_args(ToManager)


def specs_of(pools: Mapping[str, int]) -> tuple[PoolSpec, ...]:
    """Pools with units `u0`, `u1`, …, and no commands."""
    return tuple(
        PoolSpec(pool, pool, units=tuple(f"u{number}" for number in range(units)))
        for pool, units in sorted(pools.items())
    )


class OrderedPools:
    """The machine `manager` of a node: lines of locks, lease book, and which claims of other nodes are here."""

    def __init__(self, node: str, pools: Mapping[str, int], *, watch_peers: bool) -> None:
        self.node = node
        self.book = LeaseBook(node, specs_of(pools), watch_peers=watch_peers)
        self.manager = Manager(node, 1, self.book)
        self.book.guard = self.manager
        self.peers = Peers()
        self._watch_peers = watch_peers

    def start(self) -> list[Effect]:
        """Nothing is kept."""
        return []

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """The book first, then the locks."""
        out: Effects = []
        self.book.recover(records, out)
        self.manager.recover(records, cast("Boot", records[BOOT_KEY]), out)
        self._note({claim for claim, _ in self.manager.locks}, out)
        return out

    def handle(self, event: Event) -> list[Effect]:
        """One event for the book, for renewals or for the protocol."""
        out: Effects = []
        match event:
            case TimerFired(timer) if timer.startswith(PREFIX):
                self.book.fired(timer, out)
            case TimerFired(timer):
                self.manager.fired(timer, out)
            case Received(sender, Alive() as alive):
                self.book.heard(sender.node, out)
                answer = self.peers.alive(sender.node, alive, self.manager.epoch, self._comparing(out))
                out.append(Send(sender, answer))
            case Received(sender, Standing() as standing):
                self.book.heard(sender.node, out)
                compared, over = self.peers.standing(
                    sender.node, standing, self.manager.epoch, self._comparing(out)
                )
                for claim in over:
                    self.manager.departed(claim, out, "not listed")
                out += [] if compared is None else [Send(sender, compared)]
            case Received(sender, message):
                if not isinstance(message, _TO_MANAGER):
                    raise ProtocolViolation(f"{type(message).__name__} is no message for a pool's side")
                self.book.heard(sender.node, out)
                self.manager.receive(sender, cast("ToManager", message), out)
        if self._watch_peers:
            self._note({one.claim for one in _saved(out) if isinstance(one, LockRecord | BuriedRecord)}, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.manager.key(), self.book.key(), self.peers.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.node, twin._watch_peers = self.node, self._watch_peers
        twin.book = self.book.copy()
        twin.manager = self.manager.copy_with(twin.book)
        twin.book.guard = twin.manager
        twin.peers = self.peers.copy()
        return twin

    def _comparing(self, out: Effects) -> Callable[[Entry], Short | None]:
        return lambda entry: self._compare(entry, out)

    def _compare(self, entry: Entry, out: Effects) -> Short | None:
        """What is here of a granted claim, if it is less than its node says or ends before that; else its end is that.

        Locks that have more here than they should are found by asking each, see `OrderedClaims`.
        """
        if not entry.inside:
            return None
        leases = [
            lease for lease in self.book.of_claim(entry.claim) if lease.attempt // POOLS_MAX == entry.attempt
        ]
        units = [unit for lease in leases for unit in lease.units]
        if sum(is_in(unit.fence, entry.fences) for unit in units) < number_in(entry.fences):
            return Short(entry.claim, entry.attempt, runs_of(unit.fence for unit in units))
        for lease in leases:
            earlier = lease.terms.for_ms
            if entry.for_ms is None or earlier is None or entry.for_ms <= earlier:
                continue
            if not self.book.extend(entry.claim, lease.attempt, entry.for_ms, out):
                return Short(entry.claim, entry.attempt)
        return None

    def _note(self, claims: Iterable[ClaimId], out: Effects) -> None:
        """Locks of these claims have come or gone."""
        locks = self.manager.locks
        for claim in sorted(claims):
            here = [lock for place in range(POOLS_MAX) if (lock := locks.get((claim, place))) is not None]
            if here:
                self.peers.arrived(claim, max(lock.attempt for lock in here))
                self.book.watch(claim, here[0].terms.ttl_ms, out)
            else:
                self.peers.left(claim)
                self.book.unwatch(claim, out)


class OrderedClaims:
    """The machine `claimant` of a client's host: its locks, and their renewal at the nodes."""

    def __init__(self, claimant: Claimant) -> None:
        self.claimant = claimant
        self.renewals = Renewals(claimant.node, rho_ppm=20_000, margin_ms=500)

    def start(self) -> list[Effect]:
        """Nothing is under way."""
        return []

    def handle(self, event: Event) -> list[Effect]:
        """One event for the claimant or for renewal."""
        out: Effects = []
        match event:
            case TimerFired(timer) if timer.startswith((RENEW_TIMER, DEADLINE_TIMER)):
                self._lose(self.renewals.fired(timer, out), out)
            case Received(sender, AliveOk() as alive) if not self.claimant.confirmed(
                sender.node, alive.epoch, out
            ):
                # The time of what the node has lost must not run on, and which that is will be known after its answers.
                pass
            case Received(sender, AliveOk() | Compared() as answer):
                self._lose(self.renewals.heard(sender.node, answer, out), out)
            case _:
                out += self.claimant.handle(event)
        self._note(out)
        return out

    def recover(self, records: Mapping[str, Record]) -> list[Effect]:
        """Claims go on; granted ones count only when all their nodes have said that they still know them."""
        out = list(self.claimant.recover(records))
        boot = cast("Boot", records[BOOT_KEY])
        self.renewals = self.renewals.anew(boot.incarnation, epoch=boot.epoch)
        for claim in sorted(self.claimant.claims):
            self._knows(self.claimant.claims[claim], out, recovered=True)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (self.claimant.key(), self.renewals.key())

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.claimant, twin.renewals = self.claimant.copy(), self.renewals.copy()
        return twin

    def _lose(self, lost: Iterable[Loss], out: Effects) -> None:
        for claim, _, reason in lost:
            record = self.claimant.claims.get(claim)
            if record is not None:
                sender = Address(self.claimant.node, "holder")
                out += self.claimant.handle(Received(sender, LeaseLost(record.parent or claim, reason)))

    def _note(self, out: Effects) -> None:
        for record in _saved(out):
            if isinstance(record, ClaimRecord) and record.claim in self.claimant.claims:
                self._knows(record, out)
        for effect in tuple(out):
            if isinstance(effect, Forget):
                node, incarnation, counter = effect.key.removeprefix("claim/").rsplit(".", 2)
                self.renewals.over(ClaimId(node, int(incarnation), int(counter)), out)

    def _knows(self, record: ClaimRecord, out: Effects, *, recovered: bool = False) -> None:
        if record.phase is Phase.ENDING:
            self.renewals.over(record.claim, out)
            return
        inside = record.phase is Phase.INSIDE
        nodes = {lock.node for lock in record.locks}
        self.renewals.knows(
            record.claim,
            record.attempt,
            ttl_ms=record.terms.ttl_ms,
            nodes=nodes,
            out=out,
            units=record.units if inside else None,
            # A new end counts when all locks have it: until then the one that was asked for at first.
            for_ms=(record.for_ms or record.terms.for_ms) if not record.extending else record.terms.for_ms,
            unconfirmed=nodes if inside and recovered else (),
            recovered=recovered,
        )


def _saved(out: Effects) -> list[Record]:
    return [effect.record for effect in out if isinstance(effect, Save)]
