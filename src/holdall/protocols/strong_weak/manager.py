"""The side of the pools: strong queues in order of age, weak queues, and the weak pool as the only judge of a claim.

A part of a claim that becomes active in a strong queue sets its units aside. A strong part then promotes its weak
part; the weak pool grants, or on a Kill gives the promotion up. While a weak part is promoted the strong pool holds
that same promotion (invariant I1 of the specification), so that what is active at the weak pool may be granted at
once. A promoted part that must wait wounds: it has every younger active strong part before it killed.

Saved in the turn, before its messages leave: who is active and its `n` before Promote, what is given up before
Killed, units of both parts before Allowed. Nothing here repeats by itself: every claimant repeats its Request, and each
repeat goes as far as its claim has come. Source: strong/weak specification, sections 3.3, 7 and 8.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias

import msgspec

from holdall.machine.contract import Address, Boot, ProtocolViolation, Record, Send
from holdall.protocols.by_pool.claim import Units, Want
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.manager import Manager as ByPool
from holdall.protocols.by_pool.messages import CLAIMANT, MANAGER, Refused
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.strong_weak.messages import (
    AGELESS,
    Aged,
    Allowed,
    Kill,
    Killed,
    PoolEntry,
    Promote,
    Request,
    StrongRequest,
    Try,
)
from holdall.protocols.vocabulary import ClaimId, Stamp

Rank: TypeAlias = Any
"""What strong queues are ordered by: smaller is served first."""


class Manager(ByPool[PoolEntry]):
    """All pools of one node."""

    entry_type = PoolEntry

    def __init__(self, node: str, epoch: int, book: Book, *, sweep_ms: int | None = None) -> None:
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        self.queues: dict[str, list[tuple[Rank, Key]]] = {}
        """Pool -> who waits in its strong queue, in order."""
        self.active: dict[str, dict[Key, None]] = {}
        """Pool -> strong parts of pairs that are active there."""
        self.clock = 0

    # ------------------------------------------------------------ what a variant may order otherwise

    def rank(self, entry: PoolEntry) -> Rank:
        """The place in the strong queue: the older first."""
        return entry.stamp

    def arrives(self, entry: PoolEntry) -> PoolEntry:
        """The entry on its way into the strong queue, again after a kill."""
        return entry

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """A promoted part must wait: wound every younger active strong part before it."""
        for key in sorted(self.active.get(entry.pool, ())):
            holder = self.entries[key]
            if self.rank(holder) > self.rank(entry):
                out.append(
                    Send(
                        Address(holder.other_node, MANAGER),
                        Kill(holder.claim, holder.attempt, holder.other, holder.n),
                    )
                )

    # ------------------------------------------------------------ messages

    def on_message(self, sender: Address, message: Any, out: Effects) -> None:
        """One message of the protocol."""
        match message:
            case Request():
                self._on_request(message, out)
            case StrongRequest():
                self._on_strong_request(sender, message, out)
            case Promote():
                self._on_promote(sender, message, out)
            case Kill():
                self._on_kill(message, out)
            case Killed():
                self._on_killed(sender, message, out)
            case Try():
                self._on_try(sender, message, out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message of this protocol")

    def ignores(self, message: Any) -> bool:
        """Promotions, kills and answers to them that are late: `n` of a part only grows, and what is granted stays so."""
        if not isinstance(message, Promote | Kill | Killed):
            return False
        key = (message.claim, message.place)
        entry = self.entries.get(key)
        if message.attempt <= self.buried.get(key, 0):
            return True
        if entry is None or entry.attempt != message.attempt:
            return entry is not None and message.attempt < entry.attempt
        match message:
            case Promote(n=n):
                return n < entry.n
            case Kill(n=n):
                return entry.held or n < entry.n or (n == entry.n and not entry.promoted)
            case Killed(n=n):
                return n < entry.n or (n == entry.n and not entry.held)

    def _on_request(self, asked: Request, out: Effects) -> None:
        pair = self._is_pair(asked)
        place = 1 - asked.strong if pair else 0
        want = self._wanted_here(asked, place)
        key = (asked.claim, place)
        known = self.entries.get(key)
        if known is not None and known.attempt == asked.attempt:
            self._request_again(known, out)
            return
        if not self.admits(_claimant(asked.claim), key, asked.attempt, want.epoch, out):
            return
        entry = self._entry(asked, place, "weak" if pair else "single", self._stamp(asked, known))
        if pair:
            self.put(entry, out)
            self._ask_strong(entry, out)
        else:
            self.put(self.arrives(entry), out)
            self.settle(entry.pool, out)

    def _request_again(self, entry: PoolEntry, out: Effects) -> None:
        """As far as the claim has come, say again what may have been lost."""
        if entry.held:
            self._allow(entry, out)
            return
        if entry.kind == "weak":
            # Also when it is promoted: the strong pool may have lost its part.
            self._ask_strong(entry, out)
        if entry.stamp != AGELESS:
            self.tell(entry.claim, Aged(entry.claim, entry.attempt, entry.stamp), out)

    def _on_strong_request(self, sender: Address, asked: StrongRequest, out: Effects) -> None:
        if not self._is_pair(asked) or sender.node != asked.places[1 - asked.strong].node:
            raise ProtocolViolation(f"StrongRequest from {sender}, which is not the claim's weak pool")
        want = self._wanted_here(asked, asked.strong)
        key = (asked.claim, asked.strong)
        known = self.entries.get(key)
        if known is not None and known.attempt == asked.attempt:
            if known.held:
                self._promote(known, out)
            return
        if not self.admits(_claimant(asked.claim), key, asked.attempt, want.epoch, out):
            return
        self.clock = max(self.clock, asked.stamp.clock)
        entry = self._entry(asked, asked.strong, "strong", asked.stamp)
        self.put(self.arrives(entry), out)
        self.settle(entry.pool, out)

    def _on_promote(self, sender: Address, told: Promote, out: Effects) -> None:
        entry = self._part(told.claim, told.attempt, told.place, "weak")
        if entry is None or sender.node != entry.other_node:
            return
        if entry.promoted and told.n == entry.n:
            if entry.held:
                self._allow(entry, out)
            else:
                self.presses(entry, out)
        elif not entry.promoted and told.n == entry.n:
            self._killed(entry, out)
        elif not entry.promoted and told.n > entry.n:
            entry = msgspec.structs.replace(entry, promoted=True, n=told.n, partner=(told.units, told.epoch))
            self.put(self.arrives(entry), out)
            self._enqueue(self.entries[entry.claim, entry.place])
            self.settle(entry.pool, out)
            entry = self.entries[entry.claim, entry.place]
            if not entry.held:
                self.presses(entry, out)

    def _on_kill(self, told: Kill, out: Effects) -> None:
        """Refused where the claim is granted. One that comes before its Promote makes that void."""
        entry = self._part(told.claim, told.attempt, told.place, "weak")
        if entry is None or entry.held:
            return
        if entry.promoted and entry.n == told.n:
            self._dequeue(entry)
            entry = msgspec.structs.replace(entry, promoted=False, partner=((), 0))
            self.put(entry, out)
            self._killed(entry, out)
            self.settle(entry.pool, out)
        elif not entry.promoted and entry.n < told.n:
            entry = msgspec.structs.replace(entry, n=told.n)
            self.put(entry, out)
            self._killed(entry, out)

    def _on_killed(self, sender: Address, told: Killed, out: Effects) -> None:
        """Back into the strong queue, without units."""
        entry = self._part(told.claim, told.attempt, told.place, "strong")
        if entry is None or not entry.held or entry.n != told.n or sender.node != entry.other_node:
            return
        self._inactive(entry)
        entry = self.unhold(self.arrives(entry), out)
        if entry.units != entry.asked:
            entry = msgspec.structs.replace(entry, units=entry.asked)
            self.put(entry, out)
        self._enqueue(entry)
        self.settle(entry.pool, out)

    def _on_try(self, sender: Address, asked: Try, out: Effects) -> None:
        key = (asked.claim, asked.place)
        if not self.admits(sender, key, asked.attempt, asked.epoch, out):
            return
        entry = PoolEntry(
            asked.claim,
            asked.attempt,
            asked.place,
            asked.pool,
            asked.units,
            asked.terms,
            kind="tried",
            asked=asked.units,
        )
        if self.waiting.get(asked.pool) or self.wanted(entry) > self.free(asked.pool):
            out.append(Send(sender, Refused(asked.claim, asked.attempt, asked.place, self.epoch, 0)))
            return
        self.put(entry, out)
        self.tell_held(self.hold(entry, out), out)

    # ------------------------------------------------------------ the strong queue

    def settle(self, pool: str, out: Effects) -> None:
        """The head of the strong queue becomes active while it fits: nobody behind it before it."""
        queue = self.queues.get(pool, [])
        while queue and self.book.may_grant():
            _, key = queue[0]
            entry = self.entries[key]
            if self.wanted(entry) > self.free(pool):
                break
            del queue[0]
            if entry.kind != "strong":
                self._allow(self.hold(entry, out), out)
                continue
            entry = self.hold(msgspec.structs.replace(entry, n=entry.n + 1), out)
            self.active.setdefault(pool, {})[key] = None
            self._promote(entry, out)
        if not queue:
            self.queues.pop(pool, None)

    def entered(self, entry: PoolEntry) -> None:
        """Into its line."""
        self.clock = max(self.clock, entry.stamp.clock)
        if entry.queued:
            self._enqueue(entry)
        elif entry.held and entry.kind == "strong":
            self.active.setdefault(entry.pool, {})[entry.claim, entry.place] = None

    def left(self, entry: PoolEntry, out: Effects) -> None:
        """Out of its line."""
        del out
        if entry.queued:
            self._dequeue(entry)
        elif entry.held and entry.kind == "strong":
            self._inactive(entry)

    def line(self, pool: str) -> Sequence[PoolEntry]:
        """The strong queue in order, then the weak queue."""
        here = [self.entries[key] for _, key in self.queues.get(pool, [])]
        weak = [
            entry
            for entry in self.entries.values()
            if entry.pool == pool and not entry.held and not entry.queued
        ]
        return here + sorted(weak, key=lambda entry: entry.stamp)

    def _enqueue(self, entry: PoolEntry) -> None:
        insort(self.queues.setdefault(entry.pool, []), (self.rank(entry), (entry.claim, entry.place)))

    def _dequeue(self, entry: PoolEntry) -> None:
        queue = self.queues.get(entry.pool, [])
        item = (self.rank(entry), (entry.claim, entry.place))
        at = bisect_left(queue, item)
        if at < len(queue) and queue[at] == item:
            del queue[at]
        if not queue:
            self.queues.pop(entry.pool, None)

    def _inactive(self, entry: PoolEntry) -> None:
        held = self.active[entry.pool]
        del held[entry.claim, entry.place]
        if not held:
            del self.active[entry.pool]

    # ------------------------------------------------------------ what is said

    def _ask_strong(self, entry: PoolEntry, out: Effects) -> None:
        strong = StrongRequest(
            entry.claim, entry.attempt, entry.places, entry.other, entry.terms, entry.stamp
        )
        out.append(Send(Address(entry.other_node, MANAGER), strong))

    def _promote(self, entry: PoolEntry, out: Effects) -> None:
        promote = Promote(entry.claim, entry.attempt, entry.other, entry.n, self.units(entry), self.epoch)
        out.append(Send(Address(entry.other_node, MANAGER), promote))

    def _killed(self, entry: PoolEntry, out: Effects) -> None:
        killed = Killed(entry.claim, entry.attempt, entry.other, entry.n)
        out.append(Send(Address(entry.other_node, MANAGER), killed))

    def _allow(self, entry: PoolEntry, out: Effects) -> None:
        here = (self.units(entry), self.epoch)
        got: tuple[tuple[Units, int], ...] = (here,)
        if entry.kind == "weak":
            got = (entry.partner, here) if entry.other < entry.place else (here, entry.partner)
        self.tell(entry.claim, Allowed(entry.claim, entry.attempt, got, entry.stamp), out)

    # ------------------------------------------------------------ inside

    def _part(self, claim: ClaimId, attempt: int, place: int, kind: str) -> PoolEntry | None:
        """This attempt's part here, if there is one and it is that."""
        entry = self.entries.get((claim, place))
        return entry if entry is not None and entry.attempt == attempt and entry.kind == kind else None

    def _is_pair(self, asked: Request | StrongRequest) -> bool:
        if not 1 <= len(asked.places) <= 2 or not 0 <= asked.strong < len(asked.places):
            raise ProtocolViolation(f"a claim of {len(asked.places)} pools, place {asked.strong} strong")
        return len(asked.places) == 2

    def _wanted_here(self, asked: Request | StrongRequest, place: int) -> Want:
        want = asked.places[place]
        if want.node != self.node:
            raise ProtocolViolation(f"place {place} of {asked.claim} is at {want.node}")
        return want

    def _stamp(self, asked: Request, known: PoolEntry | None) -> Stamp:
        """The age that the claim brings, or that an earlier attempt had here; else a new one, younger than all here."""
        stamps = [one for one in (asked.stamp, None if known is None else known.stamp) if one is not None]
        if stamps:
            stamp = min(stamps)
            self.clock = max(self.clock, stamp.clock)
            return stamp
        self.clock += 1
        return Stamp(self.clock, self.node, asked.claim, asked.attempt)

    def _entry(self, asked: Request | StrongRequest, place: int, kind: Any, stamp: Stamp) -> PoolEntry:
        want = asked.places[place]
        return PoolEntry(
            asked.claim,
            asked.attempt,
            place,
            want.pool,
            want.units,
            asked.terms,
            kind=kind,
            stamp=stamp,
            asked=want.units,
            places=asked.places,
        )

    def clock_read(self, wall_ms: int) -> None:
        """Stamps follow the wall clock, and never go back."""
        self.clock = max(self.clock, wall_ms)

    def own_key(self) -> Any:
        """The clock of stamps to come."""
        return self.clock

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """The queues are as the entries say; a pool may have more units than when it went down."""
        del records, boot
        for pool in sorted(self.queues):
            self.settle(pool, out)

    def copy_with(self, book: Book) -> Self:
        """Its lines."""
        twin = super().copy_with(book)
        twin.queues = {pool: queue.copy() for pool, queue in self.queues.items()}
        twin.active = {pool: held.copy() for pool, held in self.active.items()}
        return twin


def _claimant(claim: ClaimId) -> Address:
    return Address(claim.node, CLAIMANT)
