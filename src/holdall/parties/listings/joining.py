"""What several nodes have told, as one listing: in an order that does not depend on who answered first.

A peer speaks for itself only: for its own units, claims, leases and history. Rows about claims of others that are not
about its own units are dropped.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from holdall.model import frames
from holdall.model.names import matches_id, printed_id
from holdall.model.why import Why
from holdall.parties.listings.inquiries import Inquiry
from holdall.parties.listings.questions import (
    CLAIMS_MAX,
    QUESTION_BYTES_MAX,
    HeldOf,
    LeaseOf,
    LineOf,
    LogOf,
    NamedOf,
    Places,
    PoolOf,
    Pools,
    Question,
    UnitOf,
    WaitOf,
    What,
)
from holdall.parties.listings.spanning import merged, named
from holdall.parties.state import PRINTED_LETTERS, State
from holdall.protocols.vocabulary import ClaimId, Stamp, claim_named

CLAIM_BYTES = 64
"""A claim's numbers and the names of the fields."""

Kind = TypeVar("Kind", bound=msgspec.Struct)


class Joining:
    """Reads the rows of inquiries; changes nothing."""

    def __init__(self, state: State) -> None:
        self._state = state

    # ------------------------------------------------------------ listings

    def pools(self, inquiry: Inquiry) -> list[frames.PoolRow]:
        """By name, labels, and node."""
        names = self._names(inquiry)
        own = self._state.settings.node
        rows = [
            one.row
            if node == own and not names
            else msgspec.structs.replace(
                one.row,
                node=self._state.name_of(node),
                units=tuple(_unit_named(unit, names) for unit in one.row.units) if names else one.row.units,
            )
            for node, one in _rows(inquiry, PoolOf)
        ]
        return sorted(rows, key=lambda row: (row.pool, sorted(row.labels.items()), row.node))

    def leases(self, inquiry: Inquiry) -> list[frames.LeaseView]:
        """Oldest first; those whose own node can't be asked as the nodes of their units know them."""
        views = [self._view(node, one) for node, one in _rows(inquiry, LeaseOf)]
        views += self._held_views(inquiry)
        return sorted(views, key=lambda view: (view.since_ms, view.lease))

    def waits(self, inquiry: Inquiry) -> list[Why]:
        """In order of age; last those that are in no line."""
        lines = self._lines(inquiry)
        if not lines and set(inquiry.rows) == {self._state.settings.node}:
            # This node alone, and nobody in line elsewhere: its rows stand as they are.
            names = self._names(inquiry) if self._state.neighbours.nodes() else {}
            return [named(wait.why, names) for _, wait in self._waits(inquiry)]
        names = self._names(inquiry)
        found: list[tuple[Stamp | None, Why]] = []
        for node, wait in self._waits(inquiry):
            of_claim = lines.get(wait.claim, {})
            why = merged(wait, of_claim, inquiry.not_asked, self._state.name_of)
            why = msgspec.structs.replace(why, node=self._state.name_of(node))
            told = names.get(str(wait.claim))
            if told is not None and not why.since_ms:
                why = msgspec.structs.replace(why, claim=told.printed, holder=told.holder, reason=told.reason)
            stamps = [line.stamp for told in of_claim.values() for line in told if line.stamp is not None]
            if wait.stamp is not None:
                stamps.append(wait.stamp)
            found.append((min(stamps, default=None), named(why, names)))
        return [why for _, why in sorted(found, key=_age)]

    def log(self, inquiry: Inquiry) -> list[frames.LogRow]:
        """By time; rows of one node in the order in which it wrote them when its clock stood still."""
        own = self._state.settings.node
        rows = [
            one.row if node == own else msgspec.structs.replace(one.row, node=self._state.name_of(node))
            for node, one in _rows(inquiry, LogOf)
        ]
        return sorted(rows, key=lambda row: (row.at_ms, row.node, row.seq))

    def found(self, inquiry: Inquiry) -> list[frames.LeaseView]:
        """Leases and waiting claims that `find` has found."""
        views = {
            one.view.lease: self._view(node, one)
            for node, one in _rows(inquiry, LeaseOf)
            if one.by_key or matches_id(one.view.lease, inquiry.typed)
        }
        views |= {
            view.lease: view for view in self._held_views(inquiry) if matches_id(view.lease, inquiry.typed)
        }
        return [views[lease] for lease in sorted(views)]

    def history(self, inquiry: Inquiry, lease: str = "") -> list[frames.LogRow]:
        """What `find` has found of this lease's history; without one, of leases that have ended."""
        is_key = len(inquiry.typed.replace("-", "")) > PRINTED_LETTERS
        return [
            row
            for row in self.log(inquiry)
            if (row.lease == lease if lease else is_key or matches_id(row.lease, inquiry.typed))
        ]

    def units(self, inquiry: Inquiry) -> list[tuple[str, UnitOf]]:
        """(node, unit) of the units that `find` has found on other nodes."""
        own = self._state.settings.node
        return sorted(
            ((node, unit) for node, unit in _rows(inquiry, UnitOf) if node != own), key=lambda one: one[0]
        )

    # ------------------------------------------------------------ what is still to be asked

    def unplaced(self, inquiry: Inquiry) -> dict[str, Question]:
        """Node -> the question for places of waiting claims that it has not told."""
        lines = self._lines(inquiry)
        wanted: dict[str, dict[ClaimId, Pools]] = {}
        for _, wait in self._waits(inquiry):
            of_claim = lines.get(wait.claim, {})
            for places in wait.placements:
                for node, pools in places:
                    if pools and not _has_line(of_claim.get(node, ()), places):
                        known = wanted.setdefault(node, {})
                        known[wait.claim] = tuple(sorted({*known.get(wait.claim, ()), *pools}))
        return {
            node: question_about("lines", claims)
            for node, claims in wanted.items()
            if self._in_reach(inquiry, node)
        }

    def unnamed(self, inquiry: Inquiry) -> dict[str, Question]:
        """Node -> the question what people call its claims, for those that others have told of."""
        names = self._names(inquiry)
        claims: dict[str, set[ClaimId]] = {}
        for party in self._parties(inquiry):
            claim = None if party in names else _claim_of(party)
            if claim is not None and self._in_reach(inquiry, claim.node):
                claims.setdefault(claim.node, set()).add(claim)
        return {
            node: question_about("claims", dict.fromkeys(sorted(named_here), ()))
            for node, named_here in claims.items()
        }

    # ------------------------------------------------------------ inside

    def _parties(self, inquiry: Inquiry) -> Iterator[str]:
        for _, pool in _rows(inquiry, PoolOf):
            yield from (unit.party for unit in pool.row.units if unit.party)
        for _, wait in self._waits(inquiry):
            if not wait.why.since_ms:
                yield str(wait.claim)
            yield from (blocker.party for blocker in wait.why.blockers if blocker.party)
        known = {wait.claim for _, wait in self._waits(inquiry)}
        for _, line in _rows(inquiry, LineOf):
            if line.claim in known:
                yield from (blocker.party for blocker in line.blockers if blocker.party)
        for _, held in _rows(inquiry, HeldOf):
            if not self._tells(inquiry, held.claim.node):
                yield str(held.claim)

    def _names(self, inquiry: Inquiry) -> dict[str, NamedOf]:
        """Claim's id as text -> what people call it."""
        names = {
            str(wait.claim): NamedOf(wait.claim, wait.why.claim, wait.why.holder, wait.why.reason)
            for _, wait in self._waits(inquiry)
            if wait.why.since_ms
        }
        names |= {str(one.claim): one for node, one in _rows(inquiry, NamedOf) if one.claim.node == node}
        return names

    def _waits(self, inquiry: Inquiry) -> Iterable[tuple[str, WaitOf]]:
        """(node of its agent, claim): as that node tells, or as others know it when that node has not told."""
        waits = {wait.claim: (node, wait) for node, wait in _rows(inquiry, WaitOf) if wait.claim.node == node}
        orphans: dict[ClaimId, list[tuple[str, LineOf]]] = {}
        for node, line in _rows(inquiry, LineOf):
            is_known = line.claim in waits or self._tells(inquiry, line.claim.node)
            if not is_known and line.nodes:
                orphans.setdefault(line.claim, []).append((node, line))
        waits |= {claim: (claim.node, self._orphan(claim, lines)) for claim, lines in orphans.items()}
        return waits.values()

    def _orphan(self, claim: ClaimId, lines: Iterable[tuple[str, LineOf]]) -> WaitOf:
        pools: dict[tuple[str, ...], dict[str, Pools]] = {}
        for node, line in lines:
            pools.setdefault(line.nodes, dict.fromkeys(line.nodes, ()))[node] = line.pools
        why = Why(
            claim=printed_id(str(claim)),
            holder=f"a claim of {self._state.name_of(claim.node)}",
            since_ms=0,
            position=0,
            waiting=0,
            ahead=0,
            overtaken=0,
            passes_left=0,
            passes_bound=0,
            bounded=self._state.settings.bounded,
        )
        return WaitOf(claim, why, tuple(tuple(places.items()) for places in pools.values()))

    def _lines(self, inquiry: Inquiry) -> dict[ClaimId, dict[str, list[LineOf]]]:
        found: dict[ClaimId, dict[str, list[LineOf]]] = {}
        for node, line in _rows(inquiry, LineOf):
            found.setdefault(line.claim, {}).setdefault(node, []).append(line)
        return found

    def _view(self, node: str, one: LeaseOf) -> frames.LeaseView:
        if node == self._state.settings.node:
            return one.view
        return msgspec.structs.replace(one.view, node=self._state.name_of(node))

    def _tells(self, inquiry: Inquiry, node: str) -> bool:
        """Whether the node has told all of its own leases."""
        return (
            node in inquiry.rows
            and node not in inquiry.not_asked
            and (node in inquiry.peers or (inquiry.own and node == self._state.settings.node))
        )

    def _in_reach(self, inquiry: Inquiry, node: str) -> bool:
        """Whether it may be asked in a further round, by what the client wants and what is known."""
        if node == self._state.settings.node:
            return True
        local = isinstance(inquiry.request, frames.Ask) and inquiry.request.local
        return not local and self._state.neighbours.node(node) is not None

    def _held_views(self, inquiry: Inquiry) -> list[frames.LeaseView]:
        """Leases whose own nodes have not told, as the nodes of their units know them."""
        names = self._names(inquiry)
        held: dict[ClaimId, list[HeldOf]] = {}
        for _, one in _rows(inquiry, HeldOf):
            if not self._tells(inquiry, one.claim.node):
                held.setdefault(one.claim, []).append(one)
        return [self._held_view(claim, held[claim], names.get(str(claim))) for claim in sorted(held)]

    def _held_view(self, claim: ClaimId, held: list[HeldOf], told: NamedOf | None) -> frames.LeaseView:
        first, name = held[0], self._state.name_of(claim.node)
        known = self._state.neighbours.node(claim.node)
        silent = known is None or known.state in {"silent", "stopped"}
        until_ms = None if first.for_ms is None else first.since_ms + first.for_ms
        return frames.LeaseView(
            lease=printed_id(str(claim)) if told is None else told.printed,
            holder=f"a claim of {name}" if told is None else told.holder,
            user="",
            pid=0,
            reason="" if told is None else told.reason,
            state="active",
            units=tuple(sorted(unit for one in held for unit in one.units)),
            needs=(),
            since_ms=min(one.since_ms for one in held),
            waited_ms=0,
            ttl_ms=first.ttl_ms,
            until_ms=until_ms if told is None else told.until_ms,
            expires_ms=0,
            renewing=told is not None and told.renewing,
            node=name,
            silent=(name,) if silent and claim.node != self._state.settings.node else (),
        )


def _rows(inquiry: Inquiry, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    for node in sorted(inquiry.rows):
        for row in inquiry.rows[node]:
            if isinstance(row, kind):
                yield node, row


def _has_line(lines: Iterable[LineOf], places: Places) -> bool:
    nodes = sorted(node for node, _ in places)
    return any(line.state == "absent" or sorted(line.nodes) == nodes for line in lines)


def question_about(what: What, wanted: Mapping[ClaimId, Pools]) -> Question:
    """About the first of these claims that fit."""
    claims: list[ClaimId] = []
    size = 0
    for claim, pools in wanted.items():
        size += CLAIM_BYTES + len(claim.node) + sum(len(pool.encode()) + 5 for pool in pools)
        if size > QUESTION_BYTES_MAX or len(claims) == CLAIMS_MAX:
            break
        claims.append(claim)
    wants = tuple(wanted[claim] for claim in claims) if what == "lines" else ()
    return Question(what, claims=tuple(claims), wants=wants)


def _unit_named(unit: frames.UnitRow, names: dict[str, NamedOf]) -> frames.UnitRow:
    told = names.get(unit.party) if unit.party else None
    if told is None:
        return unit
    return msgspec.structs.replace(unit, lease=told.printed, holder=told.holder, party="")


def _claim_of(party: str) -> ClaimId | None:
    """The claim that a text of another node names, if it names one."""
    try:
        claim = claim_named(party)
    except ValueError:
        return None
    return claim if 0 <= claim.incarnation < 2**53 and 0 <= claim.counter < 2**53 else None


def _age(found: tuple[Stamp | None, Why]) -> tuple[bool, tuple[Stamp, ...], int, str]:
    stamp, why = found
    return (stamp is None, () if stamp is None else (stamp,), why.since_ms, why.claim)
