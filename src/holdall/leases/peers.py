"""Renewal between nodes, the manager's side: which claims of which other node are here, and lists that are coming in.

What is told about a granted claim is compared with what it has here before it counts as known, so equal digests mean
that every holder's units are set aside for it. Source: vocabulary of the protocols, section 1.2.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

from holdall.leases.listing import Alive, AliveOk, Compared, Entry, Short, Standing, digest, print_of
from holdall.leases.renewal import born
from holdall.machine.contract import ProtocolViolation
from holdall.protocols.vocabulary import ClaimId

LISTED_MAX = 200_000
"""Claims of one node that a list may name."""

Compare = Callable[[Entry], Short | None]
"""Makes what is here what the entry says, where a granted claim has more here; what it has, where it has less.

Of a waiting claim too it may say that what is here is of no use; the claim's node is told so otherwise.
"""

_Sums = tuple[int, int]
"""Number and digest of a list."""


class Peers:
    """By node of the claims: what is here of them, and what that node is known to know."""

    def __init__(self) -> None:
        self._here: dict[str, dict[ClaimId, Entry]] = {}
        """A granted claim as its node has told it and as it was compared; any other only with its attempt."""
        self._digest: dict[str, int] = {}
        self._agreed: dict[str, tuple[_Sums, _Sums]] = {}
        """What a node listed, and what was here, when a comparison found nothing to repair.

        They may differ: a claim over several nodes is listed at all of them while it waits at one.
        """
        self._unlisted: set[str] = set()
        """Nodes whose claims here come from records, until their list was compared."""
        self._coming: dict[str, tuple[int, int, dict[ClaimId, Entry]]] = {}
        """Node -> (count, next part, entries so far)."""

    def restarted(self) -> None:
        """What is here by now comes from records: no digest of it is believed before its list was compared once."""
        self._unlisted = set(self._here)

    def has_unlisted(self) -> bool:
        """Whether claims are here that come from records, and were not compared with their nodes' lists yet."""
        return bool(self._unlisted)

    def arrived(self, claim: ClaimId, attempt: int) -> bool:
        """A row of this claim is here now, of this attempt; whether that is news."""
        known = self._here.get(claim.node, {}).get(claim)
        if known is not None and known.attempt == attempt:
            return False
        self._note(Entry(claim, attempt, inside=False))
        return True

    def left(self, claim: ClaimId) -> None:
        """The claim's row is gone."""
        here = self._here.get(claim.node, {})
        known = here.pop(claim, None)
        if known is None:
            return
        self._digest[claim.node] ^= print_of(known)
        if not here:
            del self._here[claim.node], self._digest[claim.node]
            self._agreed.pop(claim.node, None)
            self._unlisted.discard(claim.node)

    def alive(self, node: str, message: Alive, epoch: int, compare: Compare) -> AliveOk:
        """The answer to a renewal. Raises ProtocolViolation when it speaks of claims of others."""
        _check(node, message.news)
        short = self._told(message.news, compare)
        told, here = (message.number, message.digest), self._sums(node)
        same = (
            node not in self._unlisted
            and not short
            and (told == here or self._agreed.get(node) == (told, here))
        )
        return AliveOk(message.count, epoch, same, short)

    def standing(
        self, node: str, message: Standing, epoch: int, compare: Compare
    ) -> tuple[Compared | None, tuple[ClaimId, ...]]:
        """One part of a list; after the last one: (the answer, claims here that are over).

        Raises ProtocolViolation when it speaks of claims of others, or of too many.
        """
        _check(node, message.entries)
        count, part, entries = self._coming.pop(node, (message.count, 0, {}))
        if message.part == 0:
            count, part, entries = message.count, 0, {}
        if message.count != count or message.part != part:
            # A part was lost: the next renewal begins another list.
            return None, ()
        if len(entries) + len(message.entries) > LISTED_MAX:
            raise ProtocolViolation(f"{node} lists more than {LISTED_MAX} claims")
        entries.update((entry.claim, entry) for entry in message.entries)
        if not message.last:
            self._coming[node] = (count, part + 1, entries)
            return None, ()
        here = self._here.get(node, {})
        over = tuple(
            sorted(claim for claim, known in here.items() if _is_over(claim, known, entries, message.newest))
        )
        short = self._told(entries.values(), compare)
        if not short and not over:
            self._agreed[node] = ((len(entries), digest(entries.values())), self._sums(node))
            self._unlisted.discard(node)
        return Compared(count, epoch, short), over

    def copy(self) -> "Peers":
        """An independent twin."""
        twin = Peers()
        twin._here = {node: dict(claims) for node, claims in self._here.items()}
        twin._digest, twin._agreed = dict(self._digest), dict(self._agreed)
        twin._unlisted = set(self._unlisted)
        twin._coming = {node: (count, part, dict(got)) for node, (count, part, got) in self._coming.items()}
        return twin

    def key(self) -> Hashable:
        """Rows are the manager's; what was told about them and what is coming in is new."""
        return (
            tuple(
                entry
                for _, claims in sorted(self._here.items())
                for _, entry in sorted(claims.items())
                if entry.inside
            ),
            tuple(sorted(self._agreed.items())),
            tuple(sorted(self._unlisted)),
            tuple(
                (node, count, part, tuple(entries[claim] for claim in sorted(entries)))
                for node, (count, part, entries) in sorted(self._coming.items())
            ),
        )

    def nodes(self) -> tuple[str, ...]:
        """Nodes with claims here, or with a list on its way."""
        return tuple(sorted({*self._here, *self._coming}))

    def _sums(self, node: str) -> _Sums:
        return (len(self._here.get(node, ())), self._digest.get(node, 0))

    def _note(self, entry: Entry) -> None:
        node = entry.claim.node
        here = self._here.setdefault(node, {})
        known = here.get(entry.claim)
        changed = print_of(entry) if known is None else print_of(entry) ^ print_of(known)
        self._digest[node] = self._digest.get(node, 0) ^ changed
        here[entry.claim] = entry

    def _told(self, entries: Iterable[Entry], compare: Compare) -> tuple[Short, ...]:
        short: list[Short] = []
        for entry in entries:
            less = compare(entry)
            if less is not None:
                short.append(less)
                continue
            known = self._here.get(entry.claim.node, {}).get(entry.claim)
            if known is not None and known.attempt == entry.attempt:
                self._note(entry)
        return tuple(short)


def _check(node: str, entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.claim.node != node:
            raise ProtocolViolation(f"{node} lists {entry.claim}, which is another node's claim")


def _is_over(claim: ClaimId, known: Entry, listed: Mapping[ClaimId, Entry], newest: ClaimId | None) -> bool:
    entry = listed.get(claim)
    if entry is not None:
        # A later attempt ends all earlier ones. Its end was acknowledged here, if the journal has since lost it.
        return known.attempt < entry.attempt
    return newest is not None and born(claim) <= newest
