"""The token on its way round the ring of nodes: accepted once, saved before it is passed on, resting when nobody waits.

Source: strong/weak specification, sections 5 and 6 (a ring in key order; park the token when no pool has a weak
request). The first node of the ring is where it rests, and where it is called from.
"""

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, TypedDict, Unpack

import msgspec

from holdall.machine.contract import Address, CancelTimer, Save, Send, SetTimer
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.token.lines import Lines, order_of
from holdall.protocols.token.messages import (
    Behind,
    Call,
    Epoch,
    Known,
    RingState,
    Stage,
    Token,
    TokenAck,
    TokenEntry,
)
from holdall.protocols.vocabulary import ClaimId

RING_KEY = "ring"
RING_TIMER = "ring"
NO_EPOCH: Epoch = (0, "", 0)
"""Of a node that was never in a ring."""


class RingSettings(TypedDict, total=False):
    """What a node of a ring can be told."""

    nodes: tuple[str, ...]
    """Who is in the ring at its start; none: this node alone. A node that is not among them must join."""
    again_ms: int | None
    """How long an answer may take before the question is repeated; None: for ever."""
    parks: bool
    """Whether the token rests when nobody waits for it; by default it does. Else it goes round from the first call on."""
    sweep_ms: int | None
    """As in `Manager`."""


class Ring(Lines):
    """A node in a ring."""

    def __init__(self, node: str, epoch: int, book: Book, **settings: Unpack[RingSettings]) -> None:
        super().__init__(node, epoch, book, sweep_ms=settings.get("sweep_ms"))
        self.again_ms = settings.get("again_ms")
        self.parks = settings.get("parks", True)
        members = tuple(sorted(settings.get("nodes", ()))) or (node,)
        self.ring = RingState((1, members[0], 0) if node in members else NO_EPOCH, 0, members)
        self.called = False
        """The token must not rest here when it comes next."""
        self.has_called = False
        """This node has called it, and it has not come yet."""

    # ------------------------------------------------------------ what the list and the tickets say

    @abstractmethod
    def serve(self, token: Token, out: Effects) -> Token:
        """The token is here: enqueue what it brings, admit the weak queue. The token as it goes on."""

    def owes(self) -> bool:
        """Whether something else of the protocol's waits for an acknowledgement."""
        return False

    def say_again(self, out: Effects) -> None:
        """Send that again."""

    # ------------------------------------------------------------ passing

    def begin(self, out: Effects) -> None:
        """The first node makes the token."""
        members = self.ring.members
        if self.ring.epoch == NO_EPOCH or self.node != members[0]:
            return
        self.ring = msgspec.structs.replace(
            self.ring, stage=Stage.HERE, token=Token(self.ring.epoch, 0, members, 1)
        )
        self.visited(out)

    def between(self, sender: Address, message: Any, out: Effects) -> None:
        """A message of another manager."""
        match message:
            case Token():
                self._on_token(sender, message, out)
            case TokenAck(epoch, hop):
                if self.ring.stage is Stage.PASSED and (epoch, hop) == (self.ring.epoch, self.ring.hop):
                    self.keep(msgspec.structs.replace(self.ring, stage=Stage.AWAY, token=None), out)
                    self.arm(out)
            case Call():
                self._on_call(sender, out)
            case _:
                self.about_ring(sender, message, out)

    @abstractmethod
    def about_ring(self, sender: Address, message: Any, out: Effects) -> None:
        """A message about epochs and members, or of the tickets."""

    @abstractmethod
    def outrun(self, epoch: Epoch, members: tuple[str, ...], out: Effects) -> None:
        """A token of an epoch that this node has not joined."""

    def _on_token(self, sender: Address, token: Token, out: Effects) -> None:
        if token.epoch < self.ring.epoch:
            out.append(Send(sender, Behind(self.ring.epoch, self.ring.members)))
        elif token.epoch > self.ring.epoch:
            self.outrun(token.epoch, token.members, out)
        elif token.hop <= self.ring.hop:
            out.append(Send(sender, TokenAck(token.epoch, token.hop)))
        else:
            self.ring = RingState(token.epoch, token.hop, token.members, Stage.HERE, token)
            self.visited(out)

    def visited(self, out: Effects) -> None:
        """Serve with the token that is here, then let it rest or go."""
        self.has_called = False
        token = self.serve(self.with_members(self.token), out)
        self.ring = msgspec.structs.replace(self.ring, members=token.members, token=token)
        if self._rests(token):
            self.called = False
            self.keep(self.ring, out)
            self.arm(out)
        else:
            self.pass_on(out)

    @property
    def token(self) -> Token:
        """The token, which is here."""
        if self.ring.token is None:
            raise AssertionError(f"{self.node} has no token")
        return self.ring.token

    def with_members(self, token: Token) -> Token:
        """The token, without this node among its members if it leaves now."""
        return token

    def _rests(self, token: Token) -> bool:
        if token.members == (self.node,):
            return True
        may_rest = self.parks or token.hop == 0
        at_rest = may_rest and self.node == token.members[0] and not self.called
        return at_rest and not token.listed and token.unrested <= 0

    def pass_on(self, out: Effects) -> None:
        """To the next node, and keep it until that one is known to have it."""
        self.called = False
        token = msgspec.structs.replace(
            self.token, hop=self.token.hop + 1, unrested=max(0, self.token.unrested - 1)
        )
        self.keep(msgspec.structs.replace(self.ring, hop=token.hop, stage=Stage.PASSED, token=token), out)
        self._send_token(out)
        self.arm(out)

    def _send_token(self, out: Effects) -> None:
        out.append(Send(Address(after(self.node, self.token.members), MANAGER), self.token))

    # ------------------------------------------------------------ resting

    def weak_came(self, out: Effects) -> None:
        """Admit it at once where the token rests; elsewhere it is called."""
        if self.ring.stage is Stage.HERE:
            self.visited(out)
        else:
            self.call(out)

    def call(self, out: Effects) -> None:
        """Have the token come, where it does not come of itself."""
        if self.waits_for_token() and not self.has_called:
            self.has_called = True
            if self.ring.members[0] != self.node:
                out.append(Send(Address(self.ring.members[0], MANAGER), Call()))
        self.arm(out)

    def waits_for_token(self) -> bool:
        """Whether a weak claim could be admitted by a token that rests elsewhere."""
        if self.ring.stage is Stage.HERE or (self.ring.hop > 0 and not self.parks):
            return False
        return any(self.can_admit(claim, self.ring.members) for claim in self.weak)

    def can_admit(self, claim: ClaimId, members: tuple[str, ...]) -> bool:
        """Whether all nodes of its need are in the ring: one that stood in line elsewhere would only be in the way."""
        return all(want.node in members for want in self.need_of(claim))

    def need_of(self, claim: ClaimId) -> Any:
        """All places of a claim that has an entry here."""
        return next(self.of_claim(claim)).need

    def weak_entries(self, claim: ClaimId) -> list[TokenEntry]:
        """Its places here that are in the weak queue."""
        return [entry for entry in self.of_claim(claim) if entry.number == 0]

    def _on_call(self, sender: Address, out: Effects) -> None:
        first = self.ring.members[0]
        if self.ring.stage is Stage.HERE:
            if len(self.ring.members) > 1:
                self.pass_on(out)
        elif first not in {self.node, sender.node}:
            out.append(Send(Address(first, MANAGER), Call()))
        else:
            self.called = True

    # ------------------------------------------------------------ repeats

    def keep(self, ring: RingState, out: Effects) -> None:
        """Over a crash."""
        self.ring = ring
        out.append(Save(RING_KEY, ring))

    def waits(self) -> bool:
        """Whether an answer of another node is awaited."""
        return self.ring.stage in {Stage.PASSED, Stage.GATHERING} or self.owes() or self.waits_for_token()

    def arm(self, out: Effects) -> None:
        """Say it again later, if there is something to say."""
        if self.again_ms is None:
            return
        if self.waits():
            out.append(SetTimer(RING_TIMER, self.again_ms, self.again_ms // 4))
        else:
            out.append(CancelTimer(RING_TIMER))

    def own_timer(self, timer: str, out: Effects) -> bool:
        """Say again what may have been lost."""
        if timer != RING_TIMER:
            return False
        if self.ring.stage is Stage.PASSED:
            self._send_token(out)
        self.say_again(out)
        self.has_called = False
        self.call(out)
        return True

    # ------------------------------------------------------------ the frame's hooks

    def own_key(self) -> Hashable:
        """A token that was passed on matters only where it may be sent again."""
        ring = self.ring
        if self.again_ms is None and ring.stage is Stage.PASSED:
            ring = msgspec.structs.replace(ring, stage=Stage.AWAY, token=None)
        return (ring, self.called, self.has_called)

    def own_facts(self) -> Hashable:
        """The epoch, and whether the token is here."""
        return (self.ring.epoch, self.ring.stage is Stage.HERE)

    def known_claims(self) -> tuple[Known, ...]:
        """Claims with a number that are in line or held here, in the order of the ring."""
        found: dict[tuple[ClaimId, int], list[TokenEntry]] = {}
        for entry in sorted(self.entries.values(), key=order_of):
            if entry.number > 0:
                found.setdefault((entry.claim, entry.attempt), []).append(entry)
        return tuple(
            Known(
                entries[0].number,
                claim,
                attempt,
                entries[0].need,
                entries[0].terms,
                tuple(entry.place for entry in entries if entry.ticket == 0),
            )
            for (claim, attempt), entries in found.items()
        )


def after(node: str, members: tuple[str, ...]) -> str:
    """The next node of the ring; this one need not be in it any more."""
    return next((one for one in members if one > node), members[0])
