"""Renewal between nodes, the claimant's side: "I live, and these are my claims at yours", every third of the shortest ttl.

One message per pair of nodes covers all claims, waiting and held. It carries their number, a digest and what is new;
when that is not what the other node has, the list follows, and both sides repair what was lost: the pools' node says
which held claims have less there than listed, and ends or lessens those of its own that are listed with less.
Nothing of this is written down. Source: vocabulary of the protocols, section 1.2 (alive, standing, gone).
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

import msgspec

from holdall.leases.holder import DEADLINE_TIMER, Deadlines
from holdall.leases.listing import (
    WEIGHT_MAX,
    Alive,
    AliveOk,
    Compared,
    Entry,
    Short,
    Standing,
    is_within,
    parts_of,
    print_of,
    runs_of,
    weight,
)
from holdall.machine.contract import Address, CancelTimer, Send, SetTimer
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, UnitGrant

RENEW_TIMER = "renew/"
RENEW_SHARE, QUIET_SHARE = 3, 12
"""Parts of the shortest ttl after which a node is told again that this one lives; the second while it is quiet."""
LATE_SHARE = 2, 5
"""Of the ttl: a node whose last answer is of before that is late, as it is told every third of the ttl or more often."""
NEWS_MS = 250
"""A grant is told to the claim's other nodes so soon: their commands before a grant (on_grant) wait for it."""
BORN_MASK = (1 << 40) - 1
"""Claims of one family (placements of one request) differ above it and begin together."""
COUNTS_MAX, STARTS_MAX = 1 << 40, 1 << 23
"""So many counts has a process start, and so many starts differ; together a number that a message can carry. Process
starts are numbered from the wall clock after a lost journal: far beyond `STARTS_MAX`."""

Loss = tuple[ClaimId, str, str]
"""(claim, node where it is lost, reason: `expired` or `restarted`)."""


def born(claim: ClaimId) -> ClaimId:
    """What tells the order in which a node's claims began; the same for all placements of one claim."""
    return ClaimId(claim.node, claim.incarnation, claim.counter & BORN_MASK)


class Quiet(msgspec.Struct, frozen=True):
    """A node that has not answered the last renewals."""

    node: str
    for_ms: int
    """Since the sending of the last one that it answered."""


class _Renewed(msgspec.Struct):
    """A claim of this node at other nodes."""

    attempt: int
    inside: bool
    ttl_ms: int
    places: tuple[str, ...]
    """Nodes of its need that are renewed, ascending."""
    entries: dict[str, Entry]
    """By node; a node that holds nothing of a granted claim any more, and has confirmed that, has none."""
    unconfirmed: frozenset[str]
    """Nodes that have not said yet that they (still) have what it is told to hold there."""


class Renewals:
    """Renews, keeps deadlines, and tells which claims are lost; whoever calls hands those to the protocol's claimant.

    `now_ms` is CLOCK_BOOTTIME as the driver told it last, 0 before; deadlines do not depend on it, only `left_ms`.
    """

    def __init__(self, node: str, *, rho_ppm: int, margin_ms: int, incarnation: int = 1) -> None:
        self.node = node
        self.now_ms = 0
        self.epochs: dict[str, int] = {}
        """Highest epoch of each node's manager that was heard in an answer."""
        self._rho_ppm, self._margin_ms = rho_ppm, margin_ms
        self._deadlines = Deadlines(rho_ppm, margin_ms)
        self._count = incarnation % STARTS_MAX * COUNTS_MAX
        """So that an answer to an earlier process start tells nothing."""
        self._claims: dict[ClaimId, _Renewed] = {}
        self._at: dict[str, dict[ClaimId, int]] = {}
        """Node -> claim -> count of the last renewal before its entry changed: all later ones tell it."""
        self._ttls: dict[str, Counter[int]] = {}
        """Node -> how many claims there have which ttl."""
        self._prints: dict[str, int] = {}
        self._confirmed: dict[str, int] = {}
        """Node -> count of the last renewal whose whole list it confirmed."""
        self._newest: ClaimId | None = None
        self._pause_ms: dict[str, int] = {}

    def anew(self, incarnation: int, *, epoch: int) -> "Renewals":
        """The same settings and nothing known, after a restart; `epoch` is that of the own manager."""
        renewals = Renewals(
            self.node, rho_ppm=self._rho_ppm, margin_ms=self._margin_ms, incarnation=incarnation
        )
        renewals.epochs[self.node] = epoch
        renewals.now_ms = self.now_ms
        return renewals

    # ------------------------------------------------------------ what is renewed

    def knows(
        self,
        claim: ClaimId,
        attempt: int,
        *,
        ttl_ms: int,
        nodes: Iterable[str],
        out: Effects,
        units: Sequence[UnitGrant] | None = None,
        for_ms: int | None = None,
        unconfirmed: Iterable[str] = (),
        recovered: bool = False,
        told: bool = True,
    ) -> None:
        """The claim has begun, or has another attempt or phase. Call it in the turn that sends its messages.

        `units`: all that it has, when it is granted. The own node is renewed only if it is among `unconfirmed`: nodes
        that may have lost what the claim was told to have there, so it may not go on before they have confirmed it
        (`may_go_on`). `recovered`: known from before a restart; its deadlines of then are forgotten. `told`: not, while
        a grant waits for `unconfirmed`.
        """
        doubted = frozenset(unconfirmed)
        known = self._claims.get(claim)
        wanted = {node for node in nodes if node != self.node or node in doubted}
        if known is not None and set(known.places) - {self.node} != wanted - {self.node}:
            self.over(claim, out)
            known = None
        if known is not None:
            doubted |= known.unconfirmed
            wanted.update(known.places)
        places = tuple(sorted(wanted))
        if not places:
            return
        inside = units is not None
        if known is None:
            self._newest = born(claim) if self._newest is None else max(self._newest, born(claim))
            known = _Renewed(attempt, inside, ttl_ms, (), {}, frozenset())
            self._claims[claim] = known
            self._count += 1
        elif known.inside and (known.attempt, inside) == (attempt, True):
            # Units were given back since: nodes where nothing was left are not gone back to.
            places = tuple(sorted({*known.entries, *(doubted - set(known.places))}))
        for node in sorted(wanted - set(known.places)):
            self._deadlines.begins(node, ttl_ms, self._count, self.now_ms, out)
        known.places = tuple(sorted(wanted))
        known.attempt, known.inside = attempt, inside
        known.unconfirmed = doubted & frozenset(places)
        for node in places:
            fences = runs_of(unit.fence for unit in units or () if unit.node == node)
            self._list(node, Entry(claim, attempt, inside, fences, for_ms if inside else None, told))
            soon = 1 if recovered or node in doubted else NEWS_MS if inside else max(1, ttl_ms // 3)
            self._hasten(node, soon, out)

    def over(self, claim: ClaimId, out: Effects) -> None:
        """The claim has ended."""
        known = self._claims.get(claim)
        if known is None:
            return
        for node in tuple(known.entries):
            self._leave(node, claim, out)
        del self._claims[claim]

    # ------------------------------------------------------------ questions

    def may_go_on(self, claim: ClaimId) -> bool:
        """Whether the holder may be told that it has its units."""
        known = self._claims.get(claim)
        return known is None or not known.unconfirmed

    def left_ms(self, claim: ClaimId) -> int | None:
        """How long the claim is confirmed by its other nodes, from `now_ms` on.

        None: it has none. 0 also while a node has not confirmed it, and when no clock was ever told.
        """
        known = self._claims.get(claim)
        if known is None or not any(one.fences or not one.inside for one in known.entries.values()):
            return None
        if known.unconfirmed or not self.now_ms:
            return 0
        return min(
            self._deadlines.left_ms(node, known.ttl_ms, self.now_ms)
            for node, entry in known.entries.items()
            if entry.fences or not entry.inside
        )

    def quiet_ms(self, claim: ClaimId, node: str) -> int:
        """How long ago that was sent which the node answered last of this claim's renewals."""
        known = self._claims.get(claim)
        return 0 if known is None else self._deadlines.quiet_ms(node, known.ttl_ms, self.now_ms)

    def late(self, claim: ClaimId) -> frozenset[str]:
        """Nodes of the claim of which a renewal is missed: a grant by them now may be as good as over."""
        known = self._claims.get(claim)
        if known is None:
            return frozenset()
        share, of = LATE_SHARE
        return frozenset(
            node
            for node in known.entries
            if of * self._deadlines.quiet_ms(node, known.ttl_ms, self.now_ms) > share * known.ttl_ms
        )

    def quiet(self, claim: ClaimId) -> tuple[Quiet, ...]:
        """Nodes of the claim that have let two renewals and more go unanswered, by node."""
        known = self._claims.get(claim)
        if known is None:
            return ()
        found = [
            Quiet(node, self._deadlines.quiet_ms(node, known.ttl_ms, self.now_ms)) for node in known.entries
        ]
        return tuple(one for one in found if one.for_ms > 2 * min(self._ttls_at(one.node)) // 3)

    # ------------------------------------------------------------ events

    def fired(self, timer: str, out: Effects) -> list[Loss]:
        """Time to renew, or a deadline."""
        if timer.startswith(DEADLINE_TIMER):
            lost = self._deadlines.fired(timer)
            return [] if lost is None else self._lost_at(*lost, out)
        node = timer.removeprefix(RENEW_TIMER)
        if node in self._at:
            self._count += 1
            here = self._at[node]
            out.append(
                Send(
                    Address(node, "manager"),
                    Alive(self._count, len(here), self._prints[node], self._news(node)),
                )
            )
            self._deadlines.sent(node, self._ttls_at(node), self._count, self.now_ms, out)
            # A node that does not answer is asked more often: it may be back just before its leases are over.
            share = RENEW_SHARE if self._deadlines.unanswered(node) < 2 else QUIET_SHARE
            pause_ms = max(1, min(self._ttls_at(node)) // share)
            self._pause_ms[node] = pause_ms
            out.append(SetTimer(timer, pause_ms))
        return []

    def counts(self, node: str, message: AliveOk | Compared) -> bool:
        """Whether it answers this process start of ours, about claims that go on, and from a queue that is not lost."""
        first = self._count - self._count % COUNTS_MAX
        return (
            message.epoch >= self.epochs.get(node, 0)
            and node in self._at
            and first < message.count <= self._count
        )

    def heard(self, node: str, message: AliveOk | Compared, out: Effects) -> list[Loss]:
        """An answer of a manager."""
        if message.epoch < self.epochs.get(node, 0):
            # What a manager said before it lost its queue counts no more.
            return []
        self.epochs[node] = message.epoch
        if not self.counts(node, message):
            return []
        lost = [short.claim for short in message.short if self._lacks(node, short)]
        if isinstance(message, AliveOk) and not message.same:
            # A node that has lost a lease answers, too: what is held lives on only by the comparison of the lists.
            self._send_list(node, message.count, out)
        else:
            self._deadlines.answered(node, self._ttls_at(node), message.count)
            self._confirm(node, message.count, frozenset(lost), out)
        return [(claim, node, "restarted") for claim in lost]

    def copy(self) -> "Renewals":
        """An independent twin."""
        twin = object.__new__(Renewals)
        twin.__dict__.update(self.__dict__)
        twin._deadlines = self._deadlines.copy()
        twin._claims = {
            claim: msgspec.structs.replace(known, entries=dict(known.entries))
            for claim, known in self._claims.items()
        }
        twin._at = {node: dict(claims) for node, claims in self._at.items()}
        twin._ttls = {node: ttls.copy() for node, ttls in self._ttls.items()}
        twin._prints, twin._confirmed = dict(self._prints), dict(self._confirmed)
        twin._pause_ms, twin.epochs = dict(self._pause_ms), dict(self.epochs)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self._count,
            self._newest,
            tuple(
                (known.attempt, known.ttl_ms, tuple(known.entries.values()), tuple(sorted(known.unconfirmed)))
                for _, known in sorted(self._claims.items())
            ),
            tuple((node, tuple(sorted(at.items()))) for node, at in sorted(self._at.items())),
            tuple(sorted(self._confirmed.items())),
            tuple(sorted(self.epochs.items())),
            self._deadlines.key(),
        )

    # ------------------------------------------------------------ inside

    def _ttls_at(self, node: str) -> set[int]:
        return set(self._ttls.get(node, ()))

    def _list(self, node: str, entry: Entry) -> None:
        """The claim is listed so at the node from now on."""
        known = self._claims[entry.claim]
        before = known.entries.get(node)
        if before == entry:
            return
        changed = print_of(entry) if before is None else print_of(entry) ^ print_of(before)
        self._prints[node] = self._prints.get(node, 0) ^ changed
        known.entries[node] = entry
        if before is None:
            self._ttls.setdefault(node, Counter())[known.ttl_ms] += 1
        self._at.setdefault(node, {})[entry.claim] = self._count

    def _leave(self, node: str, claim: ClaimId, out: Effects) -> None:
        """The claim is listed at the node no more."""
        known = self._claims[claim]
        self._prints[node] ^= print_of(known.entries.pop(node))
        del self._at[node][claim]
        self._ttls[node][known.ttl_ms] -= 1
        if not self._ttls[node][known.ttl_ms]:
            del self._ttls[node][known.ttl_ms]
            self._deadlines.over(node, known.ttl_ms)
        if not self._at[node]:
            del self._at[node], self._prints[node], self._ttls[node]
            self._pause_ms.pop(node, None)
            self._confirmed.pop(node, None)
            self._deadlines.leaves(node)
            out.append(CancelTimer(f"{RENEW_TIMER}{node}"))

    def _hasten(self, node: str, pause_ms: int, out: Effects) -> None:
        """Renew no later than so; the first renewal of a node, or one for a shorter ttl."""
        known = self._pause_ms.get(node)
        if known is None or pause_ms < known:
            self._pause_ms[node] = pause_ms
            out.append(SetTimer(f"{RENEW_TIMER}{node}", pause_ms))

    def _news(self, node: str) -> tuple[Entry, ...]:
        """Granted claims that have changed since the node confirmed all; none when the list will have to tell them."""
        since = self._confirmed.get(node, 0)
        news: list[Entry] = []
        room = WEIGHT_MAX
        for claim, changed in self._at[node].items():
            known = self._claims[claim]
            if known.inside and changed >= since:
                news.append(known.entries[node])
                room -= weight(news[-1])
                if room < 0:
                    return ()
        return tuple(news)

    def _lacks(self, node: str, short: Short) -> bool:
        """Whether the claim counts on more at the node than it has there."""
        known = self._claims.get(short.claim)
        if known is None or not known.inside or known.attempt != short.attempt or node not in known.entries:
            return False
        return not is_within(known.entries[node].fences, short.here)

    def _confirm(self, node: str, count: int, lost: frozenset[ClaimId], out: Effects) -> None:
        """The node has all claims as they were listed with this count, but for those that are lost."""
        self._confirmed[node] = max(count, self._confirmed.get(node, 0))
        for claim, changed in tuple(self._at[node].items()):
            known = self._claims[claim]
            if claim in lost or changed >= count:
                continue
            known.unconfirmed -= {node}
            if known.inside and not known.entries[node].fences:
                # All was given back there, and the node knows it: what becomes of it is no matter of this claim.
                self._leave(node, claim, out)

    def _lost_at(self, node: str, ttl_ms: int, out: Effects) -> list[Loss]:
        lost = [
            claim
            for claim in sorted(self._at.get(node, ()))
            if (known := self._claims[claim]).ttl_ms == ttl_ms
            and (known.entries[node].fences or not known.inside)
        ]
        # Those that still wait come again in this turn, so from here on the node's time counts anew.
        self._count += 1
        self._deadlines.begins_anew(node, ttl_ms, self._count, self.now_ms, out)
        return [(claim, node, "expired") for claim in lost]

    def _send_list(self, node: str, count: int, out: Effects) -> None:
        entries = [self._claims[claim].entries[node] for claim in sorted(self._at[node])]
        parts = parts_of(entries)
        for part, piece in enumerate(parts):
            last = part + 1 == len(parts)
            standing = Standing(count, part, piece, self._newest, last)
            out.append(Send(Address(node, "manager"), standing))
