"""The queues of one node: the weak queue of the claims whose home it is, and a strong queue per pool.

A strong queue (the paper's SQ) is served from its head only, as far as the units go (the active prefix): a large
request in front is never passed. The weak queue (WQ) waits for the token.
"""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, Self

import msgspec

from holdall.machine.contract import Address, Boot, ProtocolViolation, Send
from holdall.protocols.by_pool.claim import Want
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.manager import Manager as ByPool
from holdall.protocols.by_pool.messages import PlaceGone, Refused
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.token.messages import OUTSIDE, Ask, Epoch, Request, TokenEntry, Try
from holdall.protocols.vocabulary import ClaimId


class Lines(ByPool[TokenEntry]):
    """All pools of one node, without the ring."""

    entry_type = TokenEntry

    def __init__(self, node: str, epoch: int, book: Book, *, sweep_ms: int | None = None) -> None:
        super().__init__(node, epoch, book, sweep_ms=sweep_ms)
        self.weak: dict[ClaimId, None] = {}
        """WQ: claims without a number whose home is here, in order of arrival."""
        self.lines: dict[str, dict[Key, None]] = {}
        """SQ: pool -> entries that wait with a number, in the order of the ring."""
        self._turn = 0

    # ------------------------------------------------------------ what the ring says

    @abstractmethod
    def weak_came(self, out: Effects) -> None:
        """A claim has come into the weak queue."""

    @abstractmethod
    def between(self, sender: Address, message: Any, out: Effects) -> None:
        """A message of another manager."""

    def set_apart(self, entry: TokenEntry) -> None:
        """Tickets: an entry that is held back has come up again after a restart."""

    def fell_out(self, entry: TokenEntry, out: Effects) -> None:
        """Tickets: an entry that was held back is over."""

    # ------------------------------------------------------------ messages of claimants

    def on_message(self, sender: Address, message: Any, out: Effects) -> None:
        """One message of the protocol's own."""
        match message:
            case Request():
                self._request(sender, message, out)
            case Try():
                self._try(sender, message, out)
            case Ask():
                self._ask(sender, message, out)
            case _:
                self.between(sender, message, out)

    def _request(self, sender: Address, asked: Request, out: Effects) -> None:
        """Into the weak queue; a repeated one is told what it has here."""
        claim, attempt = asked.claim, asked.attempt
        here = self.places_of(asked.need)
        if not here:
            raise ProtocolViolation(f"Request of {claim} without a place at {self.node}")
        first, want = here[0]
        if not self.admits(sender, (claim, first), attempt, want.epoch, out):
            known = self.entries.get((claim, first))
            if known is not None and known.attempt == attempt:
                for place, want in here[1:]:
                    self._ask(sender, Ask(claim, attempt, place, want.epoch), out)
            return
        self._turn += 1
        for place, want in here:
            entry = self.entry_for(asked, place, want)
            if self.makes_room((claim, place), attempt, out):
                self.put(msgspec.structs.replace(entry, turn=self._turn), out)
        self.weak_came(out)

    def _try(self, sender: Address, asked: Try, out: Effects) -> None:
        """Units now, if that delays nobody who is known here."""
        key = (asked.claim, asked.place)
        if not self.admits(sender, key, asked.attempt, asked.epoch, out):
            return
        entry = TokenEntry(
            asked.claim, asked.attempt, asked.place, asked.pool, asked.units, asked.terms, number=OUTSIDE
        )
        if self.waiting.get(entry.pool) or self.wanted(entry) > self.free(entry.pool):
            out.append(Send(sender, Refused(asked.claim, asked.attempt, asked.place, self.epoch, 0)))
            return
        self.put(entry, out)
        self.tell_held(self.hold(entry, out), out)

    def _ask(self, sender: Address, asked: Ask, out: Effects) -> None:
        """What has not come yet is no news; what never will is told."""
        key = (asked.claim, asked.place)
        entry = self.entries.get(key)
        if asked.attempt <= self.buried.get(key, 0):
            out.append(Send(sender, PlaceGone(asked.claim, asked.attempt, "over")))
        elif entry is not None and entry.attempt >= asked.attempt:
            if entry.held and entry.attempt == asked.attempt:
                self.tell_held(entry, out)
        elif asked.epoch != self.epoch:
            refused = Refused(asked.claim, asked.attempt, asked.place, self.epoch, self.quarantine_ms)
            out.append(Send(sender, refused))

    # ------------------------------------------------------------ into the strong queues

    def places_of(self, need: Sequence[Want]) -> list[tuple[int, Want]]:
        """Places of a need that are here."""
        return [(place, want) for place, want in enumerate(need) if want.node == self.node]

    def entry_for(self, asked: Any, place: int, want: Want) -> TokenEntry:
        """`asked`: anything that carries claim, attempt, need and terms."""
        return TokenEntry(
            asked.claim, asked.attempt, place, want.pool, want.units, asked.terms, need=asked.need
        )

    def makes_room(self, key: Key, attempt: int, out: Effects) -> bool:
        """Whether an entry of this attempt may come: it is not over, and none as new is here. An older one ends."""
        entry = self.entries.get(key)
        if attempt <= self.buried.get(key, 0) or (entry is not None and entry.attempt >= attempt):
            return False
        if entry is not None:
            self.end(key, entry.attempt, out)
        return True

    def comes(self, asked: Any, place: int, out: Effects) -> TokenEntry | None:
        """The entry that goes into a strong queue now for a claim that has got its number elsewhere, if one may."""
        claim, attempt = asked.claim, asked.attempt
        key, want = (claim, place), asked.need[place]
        known = self.entries.get(key)
        if known is not None and known.attempt == attempt and not known.held and self.is_unplaced(known):
            return known
        if not self.makes_room(key, attempt, out):
            return None
        if want.epoch != self.epoch or not self.book.may_grant():
            # Also said to Ask, in case this gets lost.
            self.bury(key, attempt, out)
            self.refuse(claim, attempt, place, out)
            return None
        return self.entry_for(asked, place, want)

    def refuse(self, claim: ClaimId, attempt: int, place: int, out: Effects) -> None:
        """Its claimant must come again, with the epoch as it is now."""
        self.tell(claim, Refused(claim, attempt, place, self.epoch, self.quarantine_ms), out)

    def is_unplaced(self, entry: TokenEntry) -> bool:
        """Whether the entry still needs a place in the order."""
        return entry.number == 0 or entry.ticket != 0

    def enqueue(self, entry: TokenEntry, number: int, ring: Epoch, out: Effects) -> None:
        """At the end of its strong queue."""
        entry = msgspec.structs.replace(entry, number=number, ring=ring, turn=0, ticket=0)
        known = (entry.claim, entry.place) in self.entries
        self.put(entry, out)
        if known:
            self.entered(entry)
        self.weak.pop(entry.claim, None)
        self.settle(entry.pool, out)

    def settle(self, pool: str, out: Effects) -> None:
        """The active prefix: heads of the queue while they fit."""
        line = self.lines.get(pool, {})
        while line and self.book.may_grant():
            key = next(iter(line))
            entry = self.entries[key]
            if self.wanted(entry) > self.free(pool):
                break
            del line[key]
            self.tell_held(self.hold(entry, out), out)
        if not line:
            self.lines.pop(pool, None)

    # ------------------------------------------------------------ the frame's hooks

    def entered(self, entry: TokenEntry) -> None:
        """Into its queue. After a restart entries come in order of their names, so queues are put in order."""
        self._turn = max(self._turn, entry.turn)
        if entry.held or entry.number == OUTSIDE:
            return
        if entry.number == 0:
            self.weak[entry.claim] = None
        elif entry.ticket:
            self.set_apart(entry)
        else:
            line = self.lines.setdefault(entry.pool, {})
            line[entry.claim, entry.place] = None

    def left(self, entry: TokenEntry, out: Effects) -> None:
        """Out of its queue."""
        self.lines.get(entry.pool, {}).pop((entry.claim, entry.place), None)
        if entry.number == 0 and not any(one.number == 0 for one in self.of_claim(entry.claim)):
            self.weak.pop(entry.claim, None)
        if entry.ticket:
            self.fell_out(entry, out)

    def sort_queues(self) -> None:
        """After a restart."""
        turns = {
            claim: min(one.turn for one in self.of_claim(claim) if one.number == 0) for claim in self.weak
        }
        self.weak = dict.fromkeys(sorted(self.weak, key=lambda claim: turns[claim]))
        for pool, line in self.lines.items():
            self.lines[pool] = dict.fromkeys(sorted(line, key=lambda key: order_of(self.entries[key])))

    def line(self, pool: str) -> Sequence[TokenEntry]:
        """Those with a number in order, then those that are held back or weak."""
        line = [self.entries[key] for key in self.lines.get(pool, {})]
        there = set(self.lines.get(pool, {}))
        others = [
            entry
            for key, entry in self.entries.items()
            if entry.pool == pool and not entry.held and key not in there
        ]
        return line + sorted(others, key=lambda entry: (entry.number == 0, entry.number, entry.turn))

    def keeps(self, entry: TokenEntry, boot: Boot) -> bool:
        """What waits survives whenever the journal is complete: its place in the order is known to other nodes."""
        return entry.held or is_complete(boot)

    def entries_key(self) -> Hashable:
        """Arrival numbers count only as an order, which `weak` shows."""
        found = (self.entries[key] for key in sorted(self.entries))
        entries = (msgspec.structs.replace(entry, turn=0) if entry.turn else entry for entry in found)
        return (*entries, *self.weak)

    def copy_with(self, book: Book) -> Self:
        """With its queues."""
        twin = super().copy_with(book)
        twin.weak = self.weak.copy()
        twin.lines = {pool: dict(line) for pool, line in self.lines.items()}
        return twin


def order_of(entry: TokenEntry) -> tuple[Epoch, int, ClaimId, int]:
    """By which strong queues are sorted: what a later epoch enqueues stands behind, whatever its number."""
    return (entry.ring, entry.number, entry.claim, entry.place)


def is_complete(boot: Boot) -> bool:
    """Whether the journal of before this start has every turn."""
    return boot.kind == "same" or (boot.kind == "reboot" and boot.quarantine_ms == 0)
