"""A ring whose token is lost, or whose members change: a new epoch, which every member joins before it has a token.

Source: strong/weak specification, section 5 (token loss). Three things make a node begin an epoch: it has come up
without what it knew, so that the token may be lost with it; it has been told that a member's membership lease is over;
or it hears that the ring has gone on without it. It joins the epoch itself first, then asks all members to. A member
that has joined refuses older tokens, so when all have reported there is none but the new one.
"""

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Self, Unpack

import msgspec

from holdall.machine.contract import Address, Boot, ProtocolViolation, Record, Send
from holdall.protocols.by_pool.messages import MANAGER
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.token.lines import is_complete
from holdall.protocols.token.merging import merged
from holdall.protocols.token.messages import (
    Behind,
    Call,
    Epoch,
    Known,
    Recover,
    Report,
    RingAbsent,
    RingJoin,
    RingLeave,
    RingState,
    Stage,
    Token,
    TokenAck,
)
from holdall.protocols.token.ring import NO_EPOCH, RING_KEY, Ring, RingSettings

PLACES_MAX = 250
"""Places in one message: it must fit into a frame."""


class Recovering(Ring):
    """A ring that can lose its token, and whose members come and go."""

    def __init__(self, node: str, epoch: int, book: Book, **settings: Unpack[RingSettings]) -> None:
        super().__init__(node, epoch, book, **settings)
        self.reports: dict[str, tuple[Report, ...]] = {}
        """Of the epoch that this node gathers for: member -> what it has reported."""
        self.contacts: tuple[str, ...] = ()
        """Whom this node asks to take it in."""
        self.leaving = False
        self.absent: frozenset[str] = frozenset()

    # ------------------------------------------------------------ what the list and the tickets say

    def joined(self, out: Effects) -> None:
        """This node has joined another epoch: what belonged to the one before is over."""

    @abstractmethod
    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        """The new token, with claims that lack these places at members; by number."""

    # ------------------------------------------------------------ a new epoch

    def gather(self, counter: int, members: tuple[str, ...], out: Effects) -> None:
        """Begin an epoch: join it, then have all others join."""
        epoch = (counter, self.node, self.epoch)
        self._join(RingState(epoch, 0, tuple(sorted(members)), Stage.GATHERING), out)
        self.reports = {self.node: self._own_reports()}
        self._ask_members(out)
        self._complete(out)
        self.arm(out)

    def _join(self, ring: RingState, out: Effects) -> None:
        if not set(self.ring.members) <= set(ring.members):
            self._abandon(ring.members, out)
        self.reports = {}
        self.contacts = ()
        self.keep(ring, out)
        self.joined(out)

    def _abandon(self, members: tuple[str, ...], out: Effects) -> None:
        """Claims that wait for a node that is no member come again; they are admitted when it is one.

        If they kept their places and it came back, they could stand before and behind the same claims. Who is inside
        does not care.
        """
        for claim in sorted(self.places):
            entry = next(self.of_claim(claim))
            if entry.number > 0 and not self.can_admit(claim, members):
                self.refuse(claim, entry.attempt, entry.place, out)

    def _ask_members(self, out: Effects) -> None:
        for member in self.ring.members:
            if not _is_whole(self.reports.get(member, ())):
                out.append(Send(Address(member, MANAGER), Recover(self.ring.epoch, self.ring.members)))

    def _own_reports(self) -> tuple[Report, ...]:
        chunks: list[list[Known]] = [[]]
        places = 0
        for known in self.known_claims():
            places += len(known.need)
            if places > PLACES_MAX and chunks[-1]:
                chunks.append([])
                places = len(known.need)
            chunks[-1].append(known)
        count = len(chunks)
        return tuple(
            Report(self.ring.epoch, self.epoch, part, count, tuple(chunk))
            for part, chunk in enumerate(chunks)
        )

    def _complete(self, out: Effects) -> None:
        """All members have reported: no token but the one that is made now will be taken by any of them."""
        ring = self.ring
        if any(not _is_whole(self.reports.get(member, ())) for member in ring.members):
            return
        following, missing = self.merged(self.reports)
        self.reports = {}
        fresh = Token(ring.epoch, 0, ring.members, following, unrested=len(ring.members))
        token = self.rebuilt(fresh, missing, out)
        self.ring = msgspec.structs.replace(ring, stage=Stage.HERE, token=token)
        self.visited(out)

    def merged(
        self, reports: Mapping[str, Sequence[Report]]
    ) -> tuple[int, list[tuple[Known, tuple[int, ...]]]]:
        """Next number, and what is missing where."""
        return merged(reports)

    # ------------------------------------------------------------ messages

    def ignores(self, message: Any) -> bool:
        """What is of an earlier epoch, or of an earlier hop, and needs no answer."""
        match message:
            case Report(epoch=epoch):
                return epoch < self.ring.epoch or (
                    epoch == self.ring.epoch and self.ring.stage is not Stage.GATHERING
                )
            case Behind(epoch=epoch):
                return epoch <= self.ring.epoch
            case TokenAck(epoch, hop):
                now = (self.ring.epoch, self.ring.hop)
                return (epoch, hop) < now or ((epoch, hop) == now and self.ring.stage is not Stage.PASSED)
            case _:
                return False

    def about_ring(self, sender: Address, message: Any, out: Effects) -> None:
        """A message about epochs and members."""
        match message:
            case Recover(epoch, members):
                self._on_recover(sender, epoch, members, out)
            case Report():
                self._on_report(sender, message, out)
            case Behind(epoch, members):
                self._on_behind(epoch, members, out)
            case RingJoin():
                self._on_join(sender, message, out)
            case RingLeave():
                self._only_own(sender, message)
                self.leaving = len(self.ring.members) > 1
                self._wake(out)
            case RingAbsent(nodes):
                self._only_own(sender, message)
                self._on_absent(nodes, out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is no message of the ring")

    def _on_recover(self, sender: Address, epoch: Epoch, members: tuple[str, ...], out: Effects) -> None:
        if epoch < self.ring.epoch:
            out.append(Send(sender, Behind(self.ring.epoch, self.ring.members)))
            return
        if epoch > self.ring.epoch:
            self._join(RingState(epoch, 0, members), out)
            self.arm(out)
        out.extend(Send(sender, report) for report in self._own_reports())

    def _on_report(self, sender: Address, report: Report, out: Effects) -> None:
        ring = self.ring
        if ring.stage is not Stage.GATHERING or report.epoch != ring.epoch or sender.node not in ring.members:
            return
        parts = [one for one in self.reports.get(sender.node, ()) if one.parts == report.parts]
        parts = [one for one in parts if one.part != report.part]
        self.reports[sender.node] = tuple(sorted((*parts, report), key=lambda one: one.part))
        self._complete(out)
        self.arm(out)

    def _on_behind(self, epoch: Epoch, members: tuple[str, ...], out: Effects) -> None:
        """A member is asked by whoever has begun that epoch, and needs to do nothing."""
        if epoch <= self.ring.epoch:
            return
        if self.ring.stage is Stage.GATHERING or self.node not in members or self.ring.epoch == NO_EPOCH:
            self.outrun(epoch, members, out)

    def outrun(self, epoch: Epoch, members: tuple[str, ...], out: Effects) -> None:
        """The ring is in an epoch that this node has not joined: what it knows must come into it."""
        self.gather(epoch[0] + 1, tuple({*members, self.node}), out)

    # ------------------------------------------------------------ members

    def _only_own(self, sender: Address, message: Any) -> None:
        if sender.node != self.node:
            raise ProtocolViolation(
                f"{type(message).__name__} is for this node's own parts, not for {sender}"
            )

    def _on_join(self, sender: Address, message: RingJoin, out: Effects) -> None:
        if sender.node == self.node:
            self.contacts = tuple(one for one in message.contacts if one != self.node)
            self._ask_in(out)
            self.arm(out)
            return
        self.absent -= {sender.node}
        if message.epoch is not None and message.epoch > self.ring.epoch:
            # The ring has gone on without this node, so it is the one to be taken in.
            out.append(Send(sender, RingJoin(self.ring.epoch)))
        elif self.ring.epoch not in {NO_EPOCH, message.epoch}:
            out.append(Send(sender, Behind(self.ring.epoch, self.ring.members)))

    def _ask_in(self, out: Effects) -> None:
        asked = RingJoin(self.ring.epoch)
        out.extend(Send(Address(contact, MANAGER), asked) for contact in self.contacts)

    def _wake(self, out: Effects) -> None:
        """Have the token come."""
        if self.ring.stage is Stage.HERE:
            self.visited(out)
        elif self.ring.members[0] != self.node:
            out.append(Send(Address(self.ring.members[0], MANAGER), Call()))
        self.arm(out)

    def _on_absent(self, nodes: tuple[str, ...], out: Effects) -> None:
        """The lowest member that lives begins an epoch without them."""
        self.absent |= frozenset(nodes) - {self.node}
        live = tuple(one for one in self.ring.members if one not in self.absent)
        if len(live) < len(self.ring.members) and live and live[0] == self.node:
            self.gather(self.ring.epoch[0] + 1, live, out)

    def with_members(self, token: Token) -> Token:
        """This node goes out when it leaves and nothing here or in the token needs it any more."""
        self.contacts = ()
        if not self.leaving or self.entries or self.owes() or len(token.members) < 2:
            return token
        if any(self.node in listed.nodes for listed in token.listed):
            return token
        self.leaving = False
        members = tuple(one for one in token.members if one != self.node)
        return msgspec.structs.replace(token, members=members, unrested=len(members))

    # ------------------------------------------------------------ repeats and restarts

    def waits_for_token(self) -> bool:
        """Also to leave."""
        return super().waits_for_token() or (self.leaving and self.ring.stage is not Stage.HERE)

    def waits(self) -> bool:
        """Also to be taken in."""
        return super().waits() or bool(self.contacts) or self.leaving

    def say_again(self, out: Effects) -> None:
        """Recover to those who have not reported; the wish to join."""
        if self.ring.stage is Stage.GATHERING:
            self._ask_members(out)
        self._ask_in(out)
        if self.leaving and self.ring.stage is Stage.HERE:
            self.visited(out)

    def own_recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """With a complete journal go on; else the token may be lost, or the journal may tell of one that has gone."""
        self.sort_queues()
        kept = records.get(RING_KEY)
        known = kept if isinstance(kept, RingState) else self.ring
        if not is_complete(boot):
            self.gather(max(2, known.epoch[0] + 1), known.members, out)
            return
        self.ring = known
        if known.stage is Stage.GATHERING:
            self.reports = {self.node: self._own_reports()}
        self.arm(out)

    def own_key(self) -> Hashable:
        """With who has reported what."""
        reports = tuple(sorted(self.reports.items()))
        return (super().own_key(), reports, self.contacts, self.leaving, self.absent)

    def copy_with(self, book: Book) -> Self:
        """With what it gathers."""
        twin = super().copy_with(book)
        twin.reports = self.reports.copy()
        return twin


def _is_whole(reports: tuple[Report, ...]) -> bool:
    return bool(reports) and len(reports) == reports[0].parts
