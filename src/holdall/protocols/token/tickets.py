"""The tickets: the token carries one counter per pool; a claim gets one ticket of each of its pools at once.

Source: strong/weak specification, section 5. Who has the token sends `Move(claim, tickets)` straight to the nodes, and
the token goes on. A pool enqueues in the order of its tickets: one that comes early is held back until all before it
have come. A lost Move would be a gap for ever, so it is saved with its tickets before it is sent, and repeated until
it is acknowledged. With another epoch of the ring counters begin anew, and what was held back gets another ticket.
"""

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self, Unpack

import msgspec

from holdall.machine.contract import Address, Boot, Forget, Record, Save, Send
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.token.lines import is_complete
from holdall.protocols.token.messages import (
    LIMBO,
    Behind,
    Epoch,
    Known,
    Move,
    MoveAck,
    Moving,
    RingState,
    Served,
    Ticket,
    Token,
    TokenEntry,
)
from holdall.protocols.token.recovery import Recovering
from holdall.protocols.token.ring import RING_KEY, RingSettings
from holdall.protocols.vocabulary import ClaimId

MOVING_KEY = "moving/"
SERVED_KEY = "served/"


class Tickets(Recovering):
    """All pools of one node."""

    def __init__(self, node: str, epoch: int, book: Book, **settings: Unpack[RingSettings]) -> None:
        super().__init__(node, epoch, book, **settings)
        self.moving: dict[tuple[ClaimId, int], Moving] = {}
        """Claim and attempt -> a Move of this node's that is not acknowledged everywhere."""
        self.served: dict[str, int] = {}
        """Pool -> its last ticket before which none is missing."""
        self.early: dict[str, dict[int, Key | None]] = {}
        """Pool -> ticket -> the entry that is held back; None: it is over already, only its turn is to come."""

    # ------------------------------------------------------------ with the token

    def serve(self, token: Token, out: Effects) -> Token:
        """Tickets for all of the weak queue."""
        counters = {node: dict(pools) for node, pools in token.counters}
        following = token.next
        for claim in tuple(self.weak):
            if self.can_admit(claim, token.members):
                first = self.weak_entries(claim)[0]
                places = range(len(first.need))
                known = Known(following, claim, first.attempt, first.need, first.terms, ())
                self._hand_out(known, places, token.epoch, counters, out)
                following += 1
        return msgspec.structs.replace(token, next=following, counters=_plain(counters))

    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        """New tickets for what is missing somewhere, in the order of the numbers; this node sends their Moves."""
        counters: dict[str, dict[str, int]] = {}
        for known, places in missing:
            self._hand_out(known, places, token.epoch, counters, out)
        return msgspec.structs.replace(token, counters=_plain(counters))

    def _hand_out(
        self,
        known: Known,
        places: Iterable[int],
        epoch: Epoch,
        counters: dict[str, dict[str, int]],
        out: Effects,
    ) -> None:
        """One ticket for each of these places at once, and the Moves."""
        tickets: list[Ticket] = []
        for place in places:
            want = known.need[place]
            pools = counters.setdefault(want.node, {})
            pools[want.pool] = pools.get(want.pool, 0) + 1
            tickets.append(Ticket(place, pools[want.pool]))
        move = Move(epoch, known.number, known.claim, known.attempt, known.need, known.terms, tuple(tickets))
        self._take(move, out)
        nodes = tuple(sorted({move.need[one.place].node for one in tickets} - {self.node}))
        if nodes:
            moving = Moving(move, nodes)
            self._put_moving(moving, out)
            self._send_moves(moving, out)

    def _put_moving(self, moving: Moving, out: Effects) -> None:
        claim, attempt = moving.move.claim, moving.move.attempt
        if moving.nodes:
            self.moving[claim, attempt] = moving
            out.append(Save(_moving_key(claim, attempt), moving))
        elif self.moving.pop((claim, attempt), None) is not None:
            out.append(Forget(_moving_key(claim, attempt)))

    def _send_moves(self, moving: Moving, out: Effects) -> None:
        move = moving.move
        for node in moving.nodes:
            there = tuple(one for one in move.tickets if move.need[one.place].node == node)
            out.append(Send(Address(node, MANAGER), msgspec.structs.replace(move, tickets=there)))

    # ------------------------------------------------------------ at the pools

    def about_ring(self, sender: Address, message: Any, out: Effects) -> None:
        """A Move and its acknowledgement; all else is about epochs and members."""
        match message:
            case Move():
                self._on_move(sender, message, out)
            case MoveAck(epoch, claim, attempt):
                moving = self.moving.get((claim, attempt))
                if moving is not None and moving.move.epoch == epoch:
                    left = tuple(node for node in moving.nodes if node != sender.node)
                    self._put_moving(msgspec.structs.replace(moving, nodes=left), out)
                    self.arm(out)
            case _:
                super().about_ring(sender, message, out)

    def ignores(self, message: Any) -> bool:
        """Also what acknowledges a Move that is not repeated any more: there is one of a claim in each epoch."""
        if not isinstance(message, MoveAck):
            return super().ignores(message)
        moving = self.moving.get((message.claim, message.attempt))
        there = moving is not None and moving.move.epoch == message.epoch
        return message.epoch <= self.ring.epoch and not there

    def _on_move(self, sender: Address, move: Move, out: Effects) -> None:
        """Of this epoch only: whoever has begun another one sends new Moves for what it has found missing."""
        if move.epoch == self.ring.epoch:
            self._take(move, out)
            out.append(Send(sender, MoveAck(move.epoch, move.claim, move.attempt)))
        elif move.epoch < self.ring.epoch:
            out.append(Send(sender, Behind(self.ring.epoch, self.ring.members)))

    def _take(self, move: Move, out: Effects) -> None:
        """Tickets of this node: into line, or held back; a ticket is used up also when its claim is over here."""
        for place, ticket in ((one.place, one.ticket) for one in move.tickets):
            want = move.need[place]
            early = self.early.setdefault(want.pool, {})
            if want.node != self.node or ticket <= self.served.get(want.pool, 0) or ticket in early:
                continue
            entry = self.comes(move, place, out)
            early[ticket] = None if entry is None else (entry.claim, entry.place)
            if entry is not None:
                self._hold_back(entry, move.number, move.epoch, ticket, out)
            self._advance(want.pool, out)
        self._tidy()

    def _hold_back(self, entry: TokenEntry, number: int, ring: Epoch, ticket: int, out: Effects) -> None:
        entry = msgspec.structs.replace(entry, number=number, ring=ring, turn=0, ticket=ticket)
        self.weak.pop(entry.claim, None)
        self.put(entry, out)

    def _advance(self, pool: str, out: Effects) -> None:
        """Enqueue as far as no ticket is missing."""
        early = self.early[pool]
        ticket = self.served.get(pool, 0)
        while ticket + 1 in early:
            ticket += 1
            key = early.pop(ticket)
            self.served[pool] = ticket
            if key is not None:
                entry = self.entries[key]
                self.enqueue(entry, entry.number, entry.ring, out)
        self._save_served(pool, out)

    def _save_served(self, pool: str, out: Effects) -> None:
        early = self.early.get(pool, {})
        void = tuple(sorted(ticket for ticket, key in early.items() if key is None))
        out.append(Save(f"{SERVED_KEY}{pool}", Served(self.ring.epoch, self.served.get(pool, 0), void)))

    def _tidy(self) -> None:
        self.early = {pool: early for pool, early in self.early.items() if early}

    def set_apart(self, entry: TokenEntry) -> None:
        """Held back as before a restart."""
        if entry.ticket > 0:
            self.early.setdefault(entry.pool, {})[entry.ticket] = (entry.claim, entry.place)

    def fell_out(self, entry: TokenEntry, out: Effects) -> None:
        """Its ticket is used up when its turn comes."""
        early = self.early.get(entry.pool, {})
        if entry.ticket > 0 and early.get(entry.ticket) == (entry.claim, entry.place):
            early[entry.ticket] = None
            self._save_served(entry.pool, out)

    # ------------------------------------------------------------ epochs, repeats and restarts

    def joined(self, out: Effects) -> None:
        """Counters begin anew. What was held back waits for another ticket; who began this epoch sends the Moves."""
        out.extend(Forget(_moving_key(claim, attempt)) for claim, attempt in sorted(self.moving))
        self.moving = {}
        held_back = [key for early in self.early.values() for key in early.values() if key is not None]
        self.served, self.early = {}, {}
        for key in sorted(held_back):
            entry = msgspec.structs.replace(self.entries[key], ticket=LIMBO)
            self.put(entry, out)
            if entry.need[entry.place].epoch != self.epoch:
                # Who began this epoch takes it for one that this node has lost.
                self.refuse(entry.claim, entry.attempt, entry.place, out)
                self.end(key, entry.attempt, out)

    def owes(self) -> bool:
        """Moves that are not acknowledged."""
        return bool(self.moving)

    def say_again(self, out: Effects) -> None:
        """With them."""
        super().say_again(out)
        for key in sorted(self.moving):
            self._send_moves(self.moving[key], out)

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Moves and tickets of the ring's epoch."""
        kept = records.get(RING_KEY)
        epoch = kept.epoch if isinstance(kept, RingState) else self.ring.epoch
        if is_complete(boot):
            for name in sorted(records):
                self._recover_record(name, records[name], epoch)
        super().own_recover(records, boot, out)

    def _recover_record(self, name: str, record: Record, epoch: Epoch) -> None:
        if isinstance(record, Moving) and record.move.epoch == epoch:
            self.moving[record.move.claim, record.move.attempt] = record
        elif isinstance(record, Served) and record.epoch == epoch:
            pool = name.removeprefix(SERVED_KEY)
            self.served[pool] = record.ticket
            for ticket in record.void:
                self.early.setdefault(pool, {})[ticket] = None

    def own_key(self) -> Hashable:
        """With tickets and Moves."""
        return (
            super().own_key(),
            tuple(sorted(self.moving.items())),
            tuple(sorted(self.served.items())),
            tuple((pool, tuple(sorted(early))) for pool, early in sorted(self.early.items())),
        )

    def copy_with(self, book: Book) -> Self:
        """With its tickets and Moves."""
        twin = super().copy_with(book)
        twin.moving = self.moving.copy()
        twin.served = self.served.copy()
        twin.early = {pool: early.copy() for pool, early in self.early.items()}
        return twin


def _moving_key(claim: ClaimId, attempt: int) -> str:
    return f"{MOVING_KEY}{claim}/{attempt}"


def _plain(counters: dict[str, dict[str, int]]) -> tuple[tuple[str, tuple[tuple[str, int], ...]], ...]:
    return tuple((node, tuple(sorted(pools.items()))) for node, pools in sorted(counters.items()))
