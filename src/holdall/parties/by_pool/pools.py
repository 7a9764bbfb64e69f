"""A pool's side of a node by pool: the protocol's manager and the lease book as one machine, joined by plain calls."""

from collections.abc import Iterable
from typing import Any, Unpack

from holdall.leases.listing import Entry, Short, is_in, number_in, runs_of
from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address, Boot, Message, Save
from holdall.parties.by_pool.saying import check_to_manager
from holdall.parties.side import BookTerms, Make, Side
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.by_pool.messages import Buried, attempt_of
from holdall.protocols.by_pool.messages import Entry as PlaceEntry
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId


class PoolsByPool(Side[Manager[Any]]):
    """Of any protocol that asks each pool apart.

    `messages` are those that its manager takes, `between` those of them that managers send each other.
    """

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        make: Make[Manager[Any]],
        messages: tuple[type, ...],
        *,
        between: tuple[type, ...] = (),
        epoch: int = 1,
        ttl_max_ms: int | None = None,
        **terms: Unpack[BookTerms],
    ) -> None:
        self._watch_peers = terms.get("watch_peers", True)
        terms.setdefault("attempt_of", attempt_of)
        super().__init__(node, pools, make, epoch=epoch, ttl_max_ms=ttl_max_ms, **terms)
        self._messages = frozenset(messages)
        self._between = frozenset(between)

    def start(self) -> Effects:
        """Nothing is kept."""
        out: Effects = []
        self.manager.begin(out)
        return out

    def takes(self, message: Message) -> bool:
        """Whether it is a message to the manager."""
        return type(message) in self._messages

    def touched(self) -> set[str] | None:
        """The manager's."""
        return self.manager.touched

    def touch(self) -> None:
        """From now on, empty."""
        self.manager.touched = set()

    def protocol(self, sender: Address, message: Any, out: Effects) -> None:
        """A message to the manager, from a node that may send it."""
        between = type(message) in self._between
        check_to_manager(sender, message, between=between, ttl_max_ms=self.ttl_max_ms)
        if not between and sender.node != self.node:
            # What a manager says of the claims of others tells nothing of its own: they may be lost to it.
            self.book.heard(sender.node, out)
        self.manager.receive(sender, message, out)

    def recovered(self, boot: Boot, out: Effects) -> None:
        """Claims of other nodes are watched again."""
        del boot
        self._note({claim for claim, _ in self.manager.entries}, out)

    def note_peers(self, out: Effects) -> None:
        """Entries of other nodes' claims that have come or gone in this turn: what is saved tells."""
        self._end_what_is_over(out)
        if self._watch_peers:
            claims = {
                effect.record.claim
                for effect in out
                if type(effect) is Save and isinstance(effect.record, PlaceEntry | Buried)
            }
            if claims:
                self._note(claims, out)

    def _end_what_is_over(self, out: Effects) -> None:
        """Claims of this node that have ended, of which another manager has brought something back.

        No renewal compares a node with itself, so that would stay here for ever; and a node that stood still or was
        cut off may speak of a claim longer after its end than any tombstone is kept.
        """
        if self.stands is None:
            return
        for effect in tuple(out):
            match effect:
                case Save(_, PlaceEntry(claim, attempt, place)) if claim.node == self.node:
                    known = self.manager.entries.get((claim, place))
                    if known is not None and known.attempt == attempt and not self.stands(claim, attempt):
                        self.manager.end((claim, place), attempt, out)
                case _:
                    pass

    def compare(self, entry: Entry, out: Effects) -> Short | None:
        """What is here of a granted claim, if it is less than its node says or ends before that; else its end is that.

        Places that have more here than they should are found by asking each, see `ClaimsByPool`.
        """
        if not entry.inside:
            return None
        leases = [
            lease for lease in self.book.of_claim(entry.claim) if attempt_of(lease.attempt) == entry.attempt
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
        if entry.told:
            self.manager.confirmed(entry.claim, entry.attempt, out)
        return None

    def _note(self, claims: Iterable[ClaimId], out: Effects) -> None:
        """Entries of these claims have come or gone."""
        for claim in sorted(one for one in claims if one.node != self.node):
            here = list(self.manager.of_claim(claim)) if claim in self.manager.places else []
            if here:
                self.peers.arrived(claim, max(entry.attempt for entry in here))
                self.book.watch(claim, here[0].terms.ttl_ms, out)
            else:
                self.peers.left(claim)
                self.book.unwatch(claim, out)
