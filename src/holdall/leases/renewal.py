"""Renewal between nodes: "I live, and these are my claims at yours", every third of the shortest ttl.

One message per pair of nodes covers all claims, waiting and held. It carries only their number and a digest; when
that differs from what the other node has, the claimant's node sends the list, and both sides repair what was lost:
the pools' node says which held claims it does not know, and ends those of its own that are not listed.
Nothing of this is written down. Source: vocabulary of the protocols, section 1.2 (alive, standing, gone).
"""

import hashlib
from collections.abc import Hashable, Iterable, Mapping

import msgspec

from holdall.leases.holder import DEADLINE_TIMER, Deadlines
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, CancelTimer, Send, SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

RENEW_TIMER = "renew/"
ENTRIES_MAX = 500
"""Claims in one part of a list."""
_BORN_MASK = (1 << 40) - 1
"""Claims of one family (placements of one request) differ above it and begin together."""
COUNTS_MAX = 1 << 40
"""Counts of one process start lie below it."""


class Entry(msgspec.Struct, frozen=True, order=True):
    """One claim as its own node knows it."""

    claim: ClaimId
    attempt: int
    inside: bool


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """To a manager: this node lives. `number` and `digest` are of its claims that may be at the receiver."""

    count: int
    number: int
    digest: int


class AliveOk(msgspec.Struct, frozen=True, tag="alive_ok"):
    """From a manager: heard. `same` False: what is here differs, send the list."""

    count: int
    epoch: int
    same: bool


class Standing(msgspec.Struct, frozen=True, tag="standing"):
    """One part of the list, in order; `last` ends it. Claims above `newest` began after it was written."""

    count: int
    part: int
    entries: tuple[Entry, ...]
    newest: ClaimId | None
    last: bool


class Compared(msgspec.Struct, frozen=True, tag="compared"):
    """From a manager, after the last part of a list.

    `missing` are listed as held and have nothing here, so they are over; all others that are held are here.
    """

    count: int
    missing: tuple[ClaimId, ...]


RenewalMessage = Alive | AliveOk | Standing | Compared
FROM_CLAIMANT = (Alive, Standing)
FROM_MANAGER = (AliveOk, Compared)

CODEC.register("renewal between nodes", RenewalMessage)


def digest(claims: Iterable[tuple[ClaimId, int]]) -> int:
    """Of (claim, attempt) pairs, in any order: 48 bits."""
    total = 0
    for claim, attempt in claims:
        hashed = hashlib.blake2b(f"{claim}/{attempt}".encode(), digest_size=6).digest()
        total ^= int.from_bytes(hashed, "big")
    return total


def _born(claim: ClaimId) -> ClaimId:
    return ClaimId(claim.node, claim.incarnation, claim.counter & _BORN_MASK)


class _Renewed(msgspec.Struct):
    """A claim of this node at other nodes."""

    entry: Entry
    ttl_ms: int
    nodes: tuple[str, ...]
    unconfirmed: frozenset[str]
    """After a restart: nodes that have not said yet that they still have it."""


class Renewals:
    """The claimant's side: renews, keeps deadlines, and tells which claims are lost.

    Lost ones are returned as (claim, reason); whoever calls hands them to the protocol's claimant.
    """

    def __init__(self, node: str, *, rho_ppm: int, margin_ms: int, incarnation: int = 1) -> None:
        self.node = node
        self._rho_ppm, self._margin_ms = rho_ppm, margin_ms
        self._deadlines = Deadlines(rho_ppm, margin_ms)
        self._count = incarnation * COUNTS_MAX
        """So that an answer to an earlier process start tells nothing."""
        self._claims: dict[ClaimId, _Renewed] = {}
        self._at: dict[str, dict[ClaimId, None]] = {}
        self._newest: ClaimId | None = None
        self._pause_ms: dict[str, int] = {}

    def anew(self, incarnation: int) -> "Renewals":
        """The same settings and nothing known: after a restart."""
        return Renewals(self.node, rho_ppm=self._rho_ppm, margin_ms=self._margin_ms, incarnation=incarnation)

    def knows(
        self,
        entry: Entry,
        *,
        ttl_ms: int,
        nodes: Iterable[str],
        out: Effects,
        recovered: bool = False,
    ) -> None:
        """The claim has begun, or has another attempt or phase. Call it in the turn that sends its messages.

        `recovered`: known from before a restart. Its deadlines of then are forgotten, so it may not go on before
        every node has confirmed it (`may_go_on`).
        """
        elsewhere = tuple(sorted(node for node in set(nodes) if node != self.node))
        if not elsewhere:
            return
        known = self._claims.get(entry.claim)
        if known is not None and known.nodes != elsewhere:
            self.over(entry.claim, out)
            known = None
        if known is not None:
            known.entry = entry
            return
        born = _born(entry.claim)
        if self._newest is None or self._newest < born:
            self._newest = born
        waits_for = frozenset(elsewhere) if recovered and entry.inside else frozenset[str]()
        self._claims[entry.claim] = _Renewed(entry, ttl_ms, elsewhere, waits_for)
        self._count += 1
        for node in elsewhere:
            self._at.setdefault(node, {})[entry.claim] = None
            self._deadlines.begins(node, ttl_ms, self._count, out)
            self._hasten(node, 1 if recovered else max(1, ttl_ms // 3), out)

    def over(self, claim: ClaimId, out: Effects) -> None:
        """The claim has ended."""
        known = self._claims.pop(claim, None)
        if known is None:
            return
        for node in known.nodes:
            del self._at[node][claim]
            if known.ttl_ms not in self._ttls_at(node):
                self._deadlines.over(node, known.ttl_ms)
            if not self._at[node]:
                del self._at[node]
                self._pause_ms.pop(node, None)
                out.append(CancelTimer(f"{RENEW_TIMER}{node}"))

    def may_go_on(self, claim: ClaimId) -> bool:
        """Whether the holder may be told that it still has its units."""
        known = self._claims.get(claim)
        return known is None or not known.unconfirmed

    def fired(self, timer: str, out: Effects) -> list[tuple[ClaimId, str]]:
        """Time to renew, or a deadline."""
        if timer.startswith(DEADLINE_TIMER):
            lost = self._deadlines.fired(timer)
            return [] if lost is None else self._lost_at(*lost, out)
        node = timer.removeprefix(RENEW_TIMER)
        if node in self._at:
            self._count += 1
            here = [self._claims[claim].entry for claim in self._at[node]]
            sums = digest((entry.claim, entry.attempt) for entry in here)
            out.append(Send(Address(node, "manager"), Alive(self._count, len(here), sums)))
            self._deadlines.sent(node, self._ttls_at(node), self._count, out)
            pause_ms = max(1, min(self._ttls_at(node)) // 3)
            self._pause_ms[node] = pause_ms
            out.append(SetTimer(timer, pause_ms))
        return []

    def heard(self, node: str, message: AliveOk | Compared, out: Effects) -> list[tuple[ClaimId, str]]:
        """An answer of a manager."""
        first = self._count - self._count % COUNTS_MAX
        if node not in self._at or not first < message.count <= self._count:
            # An answer to an earlier process start of this node, or about claims that are over.
            return []
        if isinstance(message, Compared):
            self._deadlines.answered(node, self._ttls_at(node), message.count)
            self._confirm(node, message.missing)
            return [
                (claim, "restarted")
                for claim in message.missing
                if claim in self._at[node] and self._claims[claim].entry.inside
            ]
        if message.same:
            self._deadlines.answered(node, self._ttls_at(node), message.count)
            self._confirm(node, ())
        else:
            # A node that has lost a lease answers, too: what is held lives on only by the comparison of the lists.
            self._send_list(node, message.count, out)
        return []

    def copy(self) -> "Renewals":
        """An independent twin."""
        twin = object.__new__(Renewals)
        twin.__dict__.update(self.__dict__)
        twin._deadlines = self._deadlines.copy()
        twin._claims = {claim: msgspec.structs.replace(known) for claim, known in self._claims.items()}
        twin._at = {node: dict(claims) for node, claims in self._at.items()}
        twin._pause_ms = dict(self._pause_ms)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self._count,
            self._newest,
            tuple(
                (known.entry, known.ttl_ms, known.nodes, tuple(sorted(known.unconfirmed)))
                for _, known in sorted(self._claims.items())
            ),
            self._deadlines.key(),
        )

    def _ttls_at(self, node: str) -> set[int]:
        return {self._claims[claim].ttl_ms for claim in self._at.get(node, ())}

    def _hasten(self, node: str, pause_ms: int, out: Effects) -> None:
        """Renew no later than so; the first renewal of a node, or one for a shorter ttl."""
        known = self._pause_ms.get(node)
        if known is None or pause_ms < known:
            self._pause_ms[node] = pause_ms
            out.append(SetTimer(f"{RENEW_TIMER}{node}", pause_ms))

    def _confirm(self, node: str, missing: Iterable[ClaimId]) -> None:
        lost = frozenset(missing)
        for claim in self._at[node]:
            if claim not in lost:
                self._claims[claim].unconfirmed -= {node}

    def _lost_at(self, node: str, ttl_ms: int, out: Effects) -> list[tuple[ClaimId, str]]:
        lost = [claim for claim in sorted(self._at.get(node, ())) if self._claims[claim].ttl_ms == ttl_ms]
        # Those that still wait come again in this turn, so from here on the node's time counts anew.
        self._deadlines.over(node, ttl_ms)
        self._count += 1
        self._deadlines.begins(node, ttl_ms, self._count, out)
        return [(claim, "expired") for claim in lost]

    def _send_list(self, node: str, count: int, out: Effects) -> None:
        entries = sorted(self._claims[claim].entry for claim in self._at[node])
        parts = [tuple(entries[place : place + ENTRIES_MAX]) for place in range(0, len(entries), ENTRIES_MAX)]
        for part, piece in enumerate(parts):
            last = part + 1 == len(parts)
            standing = Standing(count, part, piece, self._newest, last)
            out.append(Send(Address(node, "manager"), standing))


class Peers:
    """The manager's side: which claims of which other node are here, and lists that are coming in."""

    def __init__(self) -> None:
        self._here: dict[str, dict[ClaimId, int]] = {}
        """Node of the claims -> claim -> attempt."""
        self._digest: dict[str, int] = {}
        self._coming: dict[str, tuple[int, int, dict[ClaimId, Entry]]] = {}
        """Node -> (count, next part, entries so far)."""

    def arrived(self, claim: ClaimId, attempt: int) -> None:
        """A row of this claim is here now, of this attempt."""
        here = self._here.setdefault(claim.node, {})
        before = here.get(claim)
        if before != attempt:
            changed = [(claim, one) for one in (before, attempt) if one is not None]
            self._digest[claim.node] = self._digest.get(claim.node, 0) ^ digest(changed)
            here[claim] = attempt

    def left(self, claim: ClaimId) -> None:
        """The claim's row is gone."""
        attempt = self._here.get(claim.node, {}).pop(claim, None)
        if attempt is None:
            return
        self._digest[claim.node] ^= digest([(claim, attempt)])
        if not self._here[claim.node]:
            del self._here[claim.node], self._digest[claim.node]

    def alive(self, node: str, message: Alive, epoch: int) -> AliveOk:
        """The answer to a renewal."""
        here = self._here.get(node, {})
        same = len(here) == message.number and self._digest.get(node, 0) == message.digest
        return AliveOk(message.count, epoch, same)

    def standing(self, node: str, message: Standing) -> tuple[Compared | None, tuple[ClaimId, ...]]:
        """One part of a list; after the last one: (the answer, claims here that are over)."""
        count, part, entries = self._coming.pop(node, (message.count, 0, {}))
        if message.part == 0:
            count, part, entries = message.count, 0, {}
        if message.count != count or message.part != part:
            # A part was lost: the next renewal begins another list.
            return None, ()
        entries.update((entry.claim, entry) for entry in message.entries)
        if not message.last:
            self._coming[node] = (count, part + 1, entries)
            return None, ()
        here = self._here.get(node, {})
        missing = tuple(sorted(claim for claim, one in entries.items() if one.inside and claim not in here))
        over = tuple(
            sorted(
                claim
                for claim, attempt in here.items()
                if self._is_over(claim, attempt, entries, message.newest)
            )
        )
        return Compared(count, missing), over

    def copy(self) -> "Peers":
        """An independent twin."""
        twin = Peers()
        twin._here = {node: dict(claims) for node, claims in self._here.items()}
        twin._digest = dict(self._digest)
        twin._coming = {node: (count, part, dict(got)) for node, (count, part, got) in self._coming.items()}
        return twin

    def key(self) -> Hashable:
        """Rows are the manager's; only what is coming in is new."""
        return tuple(
            (node, count, part, tuple(sorted(entries.values())))
            for node, (count, part, entries) in sorted(self._coming.items())
        )

    def _is_over(
        self, claim: ClaimId, attempt: int, listed: Mapping[ClaimId, Entry], newest: ClaimId | None
    ) -> bool:
        entry = listed.get(claim)
        if entry is not None:
            # A later attempt ends all earlier ones. Its end was acknowledged here, if the journal has since lost it.
            return attempt < entry.attempt
        return newest is not None and _born(claim) <= newest
