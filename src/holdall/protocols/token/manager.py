"""The list: the token carries the claims that have a number and are not enqueued everywhere yet.

Source: strong/weak specification, section 5. At a node first the listed claims that need it are enqueued, in the order
of their numbers, then its own weak queue is admitted; so every strong queue is in the order of the numbers.
"""

import msgspec

from holdall.protocols.hooks import Effects
from holdall.protocols.token.messages import Known, Listed, Token
from holdall.protocols.token.recovery import PLACES_MAX, Recovering
from holdall.protocols.vocabulary import ClaimId


class Manager(Recovering):
    """All pools of one node."""

    def serve(self, token: Token, out: Effects) -> Token:
        """Listed claims first, then the weak queue."""
        left = [self._enqueue_listed(listed, token, out) for listed in token.listed]
        token = msgspec.structs.replace(token, listed=tuple(listed for listed in left if listed.nodes))
        places = sum(len(listed.need) for listed in token.listed)
        for claim in tuple(self.weak):
            if not self.can_admit(claim, token.members):
                continue
            places += len(self.need_of(claim))
            if places > PLACES_MAX and token.listed:
                break
            token = self._admit(claim, token, out)
        return token

    def _enqueue_listed(self, listed: Listed, token: Token, out: Effects) -> Listed:
        """What the claim wants here goes into the strong queues; what has ended here is not put in again."""
        if self.node not in listed.nodes:
            return listed
        for place, _ in self.places_of(listed.need):
            entry = self.comes(listed, place, out)
            if entry is not None:
                self.enqueue(entry, listed.number, token.epoch, out)
        nodes = tuple(node for node in listed.nodes if node != self.node)
        return msgspec.structs.replace(listed, nodes=nodes)

    def _admit(self, claim: ClaimId, token: Token, out: Effects) -> Token:
        """A number for a claim, its places here into the strong queues, the other nodes into the list."""
        entries = self.weak_entries(claim)
        first = entries[0]
        nodes = tuple(sorted({want.node for want in first.need} - {self.node}))
        for entry in entries:
            self.enqueue(entry, token.next, token.epoch, out)
        listed = token.listed
        if nodes:
            listed = (*listed, Listed(token.next, claim, first.attempt, first.need, first.terms, nodes))
        return msgspec.structs.replace(token, next=token.next + 1, listed=listed)

    def rebuilt(self, token: Token, missing: list[tuple[Known, tuple[int, ...]]], out: Effects) -> Token:
        """What is missing somewhere is listed again, with its number."""
        del out
        listed = tuple(
            Listed(
                known.number,
                known.claim,
                known.attempt,
                known.need,
                known.terms,
                tuple(sorted({known.need[place].node for place in places})),
            )
            for known, places in missing
        )
        return msgspec.structs.replace(token, listed=listed)
