"""The ring token with one rule taken away, and the world in which the search must see it.

Each mutant is a shipped manager with one method changed. Source: strong/weak specification, sections 5 and 9 (list,
tickets, recovery), common specification, section 1.4 (what is saved before which message).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import msgspec

from holdall.explorer.mutants.mutant import Mutant
from holdall.machine.contract import Address, Boot, Record, Save, Send
from holdall.protocols.by_pool.claim import Want
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.registry import Tuning
from holdall.protocols.token.manager import Manager
from holdall.protocols.token.messages import (
    Known,
    Move,
    Moving,
    Recover,
    Report,
    RingState,
    Stage,
    Token,
    TokenEntry,
)
from holdall.protocols.token.recovery import Recovering
from holdall.protocols.token.tickets import SERVED_KEY, Tickets
from holdall.world.by_pool import ByPoolSystem
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.named import world
from holdall.world.plan import PoolSize, World

# The token on its way


class RestsWithList(Manager):
    """The token rests although claims that it lists are not enqueued everywhere."""

    def _rests(self, token: Token) -> bool:
        return super()._rests(msgspec.structs.replace(token, listed=()))


class ForgetsCalls(Manager):
    """A call that comes while the token is under way is forgotten."""

    def _on_call(self, sender: Address, out: Effects) -> None:
        super()._on_call(sender, out)
        self.called = False


class TakesCopies(Manager):
    """A token that has come before is taken again."""

    def _on_token(self, sender: Address, token: Token, out: Effects) -> None:
        if token.epoch == self.ring.epoch and token.hop <= self.ring.hop:
            self.ring = msgspec.structs.replace(self.ring, hop=token.hop - 1)
        super()._on_token(sender, token, out)


class ForgetsPassed(Manager):
    """A token that was sent on is not kept until the next node has it."""

    def pass_on(self, out: Effects) -> None:
        super().pass_on(out)
        self.keep(msgspec.structs.replace(self.ring, stage=Stage.AWAY, token=None), out)
        self.arm(out)


class PassesUnsaved(Manager):
    """That the token was sent on is not saved."""

    def pass_on(self, out: Effects) -> None:
        turn: Effects = []
        super().pass_on(turn)
        out.extend(one for one in turn if not (isinstance(one, Save) and isinstance(one.record, RingState)))


# In line


class OwnFirst(Manager):
    """A node admits its weak queue before it enqueues what the token brings."""

    def serve(self, token: Token, out: Effects) -> Token:
        own = super().serve(msgspec.structs.replace(token, listed=()), out)
        listed = tuple(self._enqueue_listed(one, token, out) for one in token.listed)
        return msgspec.structs.replace(own, listed=(*(one for one in listed if one.nodes), *own.listed))


class EnqueuesBuried(Manager):
    """What has ended at a node is put in again when the token brings it."""

    def makes_room(self, key: Key, attempt: int, out: Effects) -> bool:
        entry = self.entries.get(key)
        if entry is None and attempt <= self.buried.get(key, 0):
            self.buried.pop(key)
        return super().makes_room(key, attempt, out)


# Recovery


class NoFence(Manager):
    """A token of an earlier epoch is taken."""

    def _on_token(self, sender: Address, token: Token, out: Effects) -> None:
        if token.epoch < self.ring.epoch:
            self.ring = msgspec.structs.replace(self.ring, epoch=token.epoch, hop=token.hop - 1)
        super()._on_token(sender, token, out)


class JoinsLate(Manager):
    """Who begins an epoch asks the others first and joins it afterwards; answers that come before are lost."""

    _asked: tuple[int, tuple[str, ...]] | None = None

    def gather(self, counter: int, members: tuple[str, ...], out: Effects) -> None:
        self._asked = (counter, members)
        ask = Recover((counter, self.node, self.epoch), tuple(sorted(members)))
        out.extend(Send(Address(member, MANAGER), ask) for member in members if member != self.node)
        self.arm(out)

    def waits(self) -> bool:
        return self._asked is not None or super().waits()

    def own_timer(self, timer: str, out: Effects) -> bool:
        if self._asked is None:
            return super().own_timer(timer, out)
        (counter, members), self._asked = self._asked, None
        asked: Effects = []
        super().gather(counter, members, asked)
        out.extend(one for one in asked if not (isinstance(one, Send) and isinstance(one.message, Recover)))
        return True

    def say_again(self, out: Effects) -> None:
        if self.ring.stage is not Stage.GATHERING:
            super().say_again(out)

    def own_key(self) -> Hashable:
        return (super().own_key(), self._asked)


class ListsLost(Manager):
    """A claim is listed again for a node that has lost its queue."""

    def merged(
        self, reports: Mapping[str, Sequence[Report]]
    ) -> tuple[int, list[tuple[Known, tuple[int, ...]]]]:
        epochs = {
            want.node: want.epoch
            for parts in reports.values()
            for report in parts
            for known in report.claims
            for want in known.need
        }
        as_asked = {
            member: tuple(
                msgspec.structs.replace(report, boot=epochs.get(member, report.boot)) for report in parts
            )
            for member, parts in reports.items()
        }
        return super().merged(as_asked)

    def comes(self, asked: Any, place: int, out: Effects) -> TokenEntry | None:
        want: Want = asked.need[place]
        now = msgspec.structs.replace(want, epoch=self.epoch)
        need = (*asked.need[:place], now, *asked.need[place + 1 :])
        return super().comes(msgspec.structs.replace(asked, need=need), place, out)


class ListsNothing(Manager):
    """The new token lists nothing of what the lost one did."""

    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        return super().rebuilt(token, [], out)


class NumbersFromOne(Manager):
    """The new token begins to count anew."""

    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        return super().rebuilt(msgspec.structs.replace(token, next=1), missing, out)


class TrustsOldJournal(Manager):
    """A node that has lost what it knew goes on as if the token were elsewhere."""

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        super().own_recover(records, Boot("same", boot.epoch, boot.incarnation), out)


# Tickets


class GapNotAwaited(Tickets):
    """A pool enqueues what comes, also when an earlier ticket is missing."""

    def _advance(self, pool: str, out: Effects) -> None:
        early = self.early[pool]
        if early:
            self.served[pool] = min(early) - 1
        super()._advance(pool, out)


class MoveNotRepeated(Tickets):
    """A Move is sent once."""

    def say_again(self, out: Effects) -> None:
        Recovering.say_again(self, out)


class TicketNotSaved(Tickets):
    """A Move leaves before its tickets are saved."""

    def _put_moving(self, moving: Moving, out: Effects) -> None:
        super()._put_moving(moving, [])


class CounterNotSaved(Tickets):
    """A token that rests is not saved with the tickets that it has given."""

    def keep(self, ring: RingState, out: Effects) -> None:
        if ring.stage is Stage.HERE and ring.token is not None and ring.token.counters:
            self.ring = ring
        else:
            super().keep(ring, out)


class OverStaysAGap(Tickets):
    """The ticket of a claim that is over already is not used up."""

    def _take(self, move: Move, out: Effects) -> None:
        over = [
            ticket
            for ticket in move.tickets
            if move.attempt <= self.buried.get((move.claim, ticket.place), 0)
        ]
        left = tuple(ticket for ticket in move.tickets if ticket not in over)
        super()._take(msgspec.structs.replace(move, tickets=left), out)


class ServedNotSaved(Tickets):
    """Which tickets have been served is not saved."""

    def _save_served(self, pool: str, out: Effects) -> None:
        super()._save_served(pool, out)
        out[:] = [one for one in out if not (isinstance(one, Save) and one.key.startswith(SERVED_KEY))]


class OldMoveTaken(Tickets):
    """A Move of an earlier epoch is taken."""

    def _on_move(self, sender: Address, move: Move, out: Effects) -> None:
        if move.epoch < self.ring.epoch:
            move = msgspec.structs.replace(move, epoch=self.ring.epoch)
        super()._on_move(sender, move, out)


class NoTicketsAnew(Tickets):
    """What was held back in an earlier epoch gets no other ticket."""

    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        return super().rebuilt(token, [], out)


def _system(make: type[Recovering], protocol: str) -> Callable[[World], ByPoolSystem]:
    def manager(node: str, epoch: int, book: Book, tuning: Tuning) -> Recovering:
        return make(
            node,
            epoch,
            book,
            nodes=tuning.nodes,
            again_ms=tuning.repeat_most_ms,
            sweep_ms=tuning.sweep_ms,
        )

    return lambda world: ByPoolSystem(world, protocol, manager=manager)


def _world(where: str) -> World:
    """A named one, or claims with a blank between them; after `|` nodes whose pools nobody wants."""
    known = by_pool_worlds()
    if where in known:
        return known[where]
    claims, _, others = where.partition("|")
    made = world(where.replace(" ", "_"), "a", claims.split())
    pools = (*made.pools, *(PoolSize(f"n{node}", "a", 1) for node in others.split()))
    return msgspec.structs.replace(made, pools=tuple(sorted(pools)))


def _mutant(
    name: str, rule: str, make: type[Recovering], where: str, found_as: str, faults: str = ""
) -> Mutant:
    protocol = "token-tickets" if issubclass(make, Tickets) else "token"
    return Mutant(
        name=name,
        protocol=protocol,
        rule=rule,
        found_as=(found_as,),
        system=_system(make, protocol),
        world=lambda: _world(where),
        faults=faults,
    )


TOKEN_MUTANTS = (
    _mutant(
        "rests-with-list",
        "the token goes on while claims of its list wait for it",
        RestsWithList,
        "same",
        "deadlock",
    ),
    _mutant(
        "call-kept",
        "a call that meets no token makes it go on when it comes",
        ForgetsCalls,
        "chain",
        "deadlock",
    ),
    _mutant("copy", "a token is taken once", TakesCopies, "0->1 0 0", "number", "duplicate=1"),
    _mutant(
        "passed-kept",
        "a token is kept until the next node has it",
        ForgetsPassed,
        "same",
        "unserved",
        "loss=1",
    ),
    _mutant(
        "save-passed",
        "that a token was sent on is saved before it leaves",
        PassesUnsaved,
        "same",
        "number",
        "crash=1",
    ),
    _mutant(
        "listed-first", "what the token brings comes before the weak queue", OwnFirst, "0->1 1 1", "order"
    ),
    _mutant(
        "buried",
        "what has ended at a node is not enqueued there again",
        EnqueuesBuried,
        "same",
        "deadlock",
        "cancel=1",
    ),
    _mutant("fence", "who has joined an epoch takes no older token", NoFence, "0->1 0 0", "order", "wipe=1"),
    _mutant(
        "joins-first",
        "who begins an epoch joins it before anybody else",
        JoinsLate,
        "0 1",
        "unserved",
        "wipe=1",
    ),
    _mutant(
        "lists-missing",
        "a new token lists what is not enqueued everywhere",
        ListsNothing,
        "0->2 | 1",
        "unserved",
        "wipe=1",
    ),
    _mutant(
        "lists-no-lost",
        "nothing is listed for a node that may have lost its end",
        ListsLost,
        "0->1",
        "row stays",
        "wipe=1,loss=2",
    ),
    _mutant(
        "numbers-go-on",
        "a new token counts on from the highest number",
        NumbersFromOne,
        "0->2 2 | 1",
        "number",
        "wipe=1",
    ),
    _mutant(
        "recovers", "who has lost what it knew begins an epoch", TrustsOldJournal, "0 1", "unserved", "wipe=1"
    ),
    _mutant("gap", "tickets are served without gaps", GapNotAwaited, "same", "deadlock"),
    _mutant(
        "move-again",
        "a Move is repeated until it is acknowledged",
        MoveNotRepeated,
        "same",
        "unserved",
        "loss=1",
    ),
    _mutant(
        "save-ticket", "a ticket is saved before its Move", TicketNotSaved, "same", "unserved", "crash=1"
    ),
    _mutant(
        "save-counter",
        "counters are saved with the tickets that they gave",
        CounterNotSaved,
        "same",
        "number",
        "crash=1",
    ),
    _mutant(
        "void", "the ticket of a claim that is over is used up", OverStaysAGap, "same", "deadlock", "cancel=1"
    ),
    _mutant(
        "save-served",
        "what was served is saved with the entry",
        ServedNotSaved,
        "same",
        "unserved",
        "crash=1",
    ),
    _mutant("old-move", "a Move counts in its epoch only", OldMoveTaken, "0->1 0->1 1", "order", "wipe=1"),
    _mutant(
        "tickets-anew",
        "what was held back gets a ticket of the new epoch",
        NoTicketsAnew,
        "0->2 | 1",
        "unserved",
        "wipe=1",
    ),
)
