"""What a host would give for a request: the least of what is asked, allowed, fair and free, term by term.

Either all terms come to their floors or nothing is taken. Units are not given here: for pools this says only how many
may be claimed at their manager. Source: lease negotiation, sections 4.3, 6.1 and 7.1.
"""

from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import TypeAlias

import msgspec

from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, Policy, Sharing, TermAsk
from holdall.leases.negotiation.looking import SharesAre, part_of
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.shares import Wanted
from holdall.model.location_rows import CapacityRow, ShareRow
from holdall.model.terms import (
    DURATION,
    RequestedTerm,
    Template,
    TermStatus,
    Value,
    fraction_text,
)


class Allotted(msgspec.Struct, frozen=True):
    """Taken for a party, but for units, which are still to be claimed."""

    terms: tuple[TermStatus, ...]
    pools: dict[str, tuple[int, int]]
    """Pool -> (least, most) units."""
    left: tuple[int, int]
    """The least part of the capacities asked that is left, as (free, all)."""


class Short(msgspec.Struct, frozen=True):
    """Not to be had; nothing was taken."""

    reason: str
    term: str
    rule: str = ""
    best_possible: dict[str, int] = {}


Limits: TypeAlias = Mapping[str, tuple[int, str]]
"""What the location's policy lets a lease have beside the host's own: term, or `duration` -> at most, and the rule."""
NO_LIMITS: Limits = MappingProxyType({})


class Question(msgspec.Struct, frozen=True):
    """All that an allotment depends on, beside what is taken already."""

    party: str
    asker: Asker
    wanted: Mapping[str, RequestedTerm]
    duration: int
    now_ms: int = 0
    replaces: str | None = None
    """The party whose capacities may serve again."""
    has: frozenset[str] = frozenset()
    """The terms that it has."""
    renewal: bool = False
    """A fair capacity's floor is one step then, so that a renewal is one message."""
    limits: Limits = NO_LIMITS


class Allotments:
    """The terms of one host. `sharings`: one for each capacity of the template."""

    def __init__(self, template: Template, sharings: Mapping[str, Sharing], policy: Policy) -> None:
        missing = sorted(
            name for name, term in template.terms.items() if term.kind == "capacity" and name not in sharings
        )
        if missing:
            raise ValueError(f"no capacity is given for {', '.join(missing)}")
        self.template = template
        self.sharings = dict(sharings)
        self._policy = policy

    def duration(
        self,
        asker: Asker,
        duration: int,
        wanted: Mapping[str, RequestedTerm],
        holdings: Sequence[Holding],
        limits: Limits = NO_LIMITS,
    ) -> tuple[int, Allowed]:
        """How long a lease may be; 0: not at all."""
        duration = min(duration, self.template.duration.max)
        ask = TermAsk(asker, DURATION, duration, duration, terms=_amounts(wanted))
        allowed = _both(self._policy.may_have(ask, holdings), limits.get(DURATION))
        most = duration if allowed.amount is None else min(duration, allowed.amount)
        return (most if most >= self.template.duration.min else 0), allowed

    def allot(self, question: Question, holdings: Sequence[Holding]) -> Allotted | Short:
        """Take what there is for the party. Each asked term is one of the template's, and keeps to it."""
        given: dict[str, TermStatus] = {}
        pools: dict[str, tuple[int, int]] = {}
        capacities: list[tuple[str, Allowed, int]] = []
        for name in sorted(question.wanted):
            allowed = self._allowed(question, name, holdings)
            asked, kind = question.wanted[name], self.template.terms[name].kind
            floor = self._floor(question, name)
            most = _capped(asked.amount, allowed.amount)
            if not most or (isinstance(most, int) and most is not True and most < floor):
                return Short("policy", name, allowed.rule, {name: most} if type(most) is int else {})
            if kind == "capacity":
                capacities.append((name, allowed, floor))
            elif kind == "pool" and isinstance(most, int):
                pools[name] = floor, most
            else:
                given[name] = _status(name, self.template, asked.amount, most)
        short = self._take(question, capacities, given)
        if short is not None:
            return short
        terms = tuple(given[name] for name in sorted(given))
        return Allotted(terms, pools, self._left([name for name, _, _ in capacities]))

    def refuses(
        self,
        asker: Asker,
        wanted: Mapping[str, RequestedTerm],
        duration: int,
        holdings: Sequence[Holding],
        limits: Limits = NO_LIMITS,
    ) -> Short | None:
        """Why policy does not let one have all of this for so long; None: it does."""
        amounts = _amounts(wanted)
        asks = [
            TermAsk(asker, name, amounts[name], duration, self.sharings[name].capacity, amounts)
            for name in sorted(wanted)
        ]
        for ask in (*asks, TermAsk(asker, DURATION, duration, duration, terms=amounts)):
            allowed = _both(self._policy.may_have(ask, holdings), limits.get(ask.term))
            if allowed.amount is not None and allowed.amount < int(ask.amount):
                return Short("policy", ask.term, allowed.rule, {ask.term: allowed.amount})
        return None

    def withdraw(self, party: str, terms: Sequence[TermStatus]) -> None:
        """The party's capacities are given back as though it had never asked."""
        for name in self._capacities(terms):
            self.sharings[name].withdraw(party)

    def take_over(
        self, party: str, terms: Sequence[TermStatus], old: str, old_terms: Sequence[TermStatus]
    ) -> None:
        """The party that was to replace `old` has done so: nothing is the old one's any more."""
        new = self._capacities(terms)
        for name in new:
            self.sharings[name].confirm(party)
        for name in self._capacities(old_terms):
            if name not in new:
                self.sharings[name].release(old)

    def split(self, record: HeldLease, rest: HeldLease, cut: HeldLease) -> None:
        """What `record` has is that of two others now; both together have exactly as much."""
        for name in self._capacities(record.terms):
            self.sharings[name].release(record.party)
        for part in (rest, cut):
            self.restore(part)

    def over(
        self,
        party: str,
        terms: Sequence[TermStatus],
        *,
        released: bool,
        draining: bool,
        now_ms: int,
        duration: int,
    ) -> None:
        """The party's lease is over; `draining`: its work goes on."""
        for name in self._capacities(terms):
            if released:
                self.sharings[name].release(party, draining=draining)
            else:
                self.sharings[name].expire(party, now_ms=now_ms, duration_ms=duration, draining=draining)

    def drained(self, party: str, terms: Sequence[TermStatus]) -> None:
        """Its work is done."""
        for name in self._capacities(terms):
            self.sharings[name].drained(party)

    def restore(self, record: HeldLease) -> None:
        """The record's party had this before. Its demand is what it asked for then, by the policy in force."""
        granted = {one.name: one.granted for one in record.terms}
        for name in self._capacities(record.terms):
            wanted = self._again(record, name)
            self.sharings[name].restore(record.asker.holder, record.party, wanted, int(granted[name]))

    def divide_among(self, groups: Mapping[str, Mapping[str, str]]) -> None:
        """Weights of the groups among which each capacity is divided first; one that is not here has one level."""
        for name, sharing in self.sharings.items():
            weights = groups.get(name)
            sharing.divide_among(
                None if weights is None else {one: Fraction(text) for one, text in weights.items()}
            )

    def reweigh(self, record: HeldLease) -> None:
        """What the record's party demands counts as the policy in force says."""
        for name in self._capacities(record.terms):
            wanted = self._again(record, name)
            self.sharings[name].reweigh(record.party, wanted.weight, wanted.group)

    def offers(self, template: Template) -> None:
        """From now on. Of a capacity that has shrunk nothing is free before enough of it has come back."""
        self.template = template
        for name, sharing in self.sharings.items():
            sharing.capacity = template.terms[name].max or 0

    def free(self) -> dict[str, int]:
        """Of each capacity."""
        return {name: max(0, self.sharings[name].free) for name in sorted(self.sharings)}

    def part(self, after: str, *, now_ms: int) -> SharesAre:
        """How the capacities are divided, for whoever looks; leases by their parties."""
        demands = {term: self.sharings[term].demands(now_ms=now_ms) for term in sorted(self.sharings)}
        names = ((term, *name) for term, found in demands.items() for name in found)
        shown, more = part_of(names, self._share_row, after)
        capacities = tuple(self._capacity(term, len(found)) for term, found in demands.items())
        return SharesAre(after, capacities, shown, more)

    def _share_row(self, name: tuple[str, ...]) -> ShareRow:
        term, holder, lease = name
        part = self.sharings[term].demand(holder, lease)
        wanted = part.wanted
        return ShareRow(
            term, holder, lease, part.place, wanted.amount, wanted.cap, str(wanted.weight), wanted.group,
            part.share, part.granted, part.taken,
        )  # fmt: skip

    def _capacity(self, name: str, demands: int) -> CapacityRow:
        sharing, term = self.sharings[name], self.template.terms[name]
        free = max(0, sharing.free)
        return CapacityRow(
            name, term.base_unit, term.sharing, sharing.capacity, free, sharing.capacity - free, term.step,
            demands,
        )  # fmt: skip

    def copy(self) -> "Allotments":
        """An independent twin."""
        twins = {name: sharing.copy() for name, sharing in self.sharings.items()}
        return Allotments(self.template, twins, self._policy)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple((name, self.sharings[name].key()) for name in sorted(self.sharings))

    # ------------------------------------------------------------ inside

    def _take(
        self,
        question: Question,
        capacities: Sequence[tuple[str, Allowed, int]],
        given: dict[str, TermStatus],
    ) -> Short | None:
        taken: list[TermStatus] = []
        holder, party = question.asker.holder, question.party
        for name, allowed, floor in capacities:
            sharing, asked = self.sharings[name], question.wanted[name].amount
            wanted = Wanted(int(asked), allowed.weight, allowed.group, allowed.amount)
            granted = sharing.ask(
                holder,
                party,
                wanted,
                now_ms=question.now_ms,
                duration_ms=question.duration,
                replaces=question.replaces if name in question.has else None,
                floor=floor,
            )
            if not granted:
                self.withdraw(party, taken)
                best = sharing.best(holder, wanted, now_ms=question.now_ms)
                return Short("oversubscribed", name, best_possible={name: best})
            given[name] = _status(name, self.template, asked, granted)
            taken.append(given[name])
        return None

    def _again(self, record: HeldLease, name: str) -> Wanted:
        """What is demanded of a capacity that the record has. What policy caps it to, it is told at its renewal."""
        granted = next(int(one.granted) for one in record.terms if one.name == name)
        asked = record.wanted[name].amount if name in record.wanted else granted
        demand = max(int(asked), granted)
        ask = TermAsk(record.asker, name, demand, record.duration, self.sharings[name].capacity)
        allowed = self._policy.may_have(ask, ())
        return Wanted(demand, allowed.weight, allowed.group)

    def _allowed(self, question: Question, name: str, holdings: Sequence[Holding]) -> Allowed:
        sharing = self.sharings.get(name)
        ask = TermAsk(
            question.asker,
            name,
            question.wanted[name].amount,
            question.duration,
            None if sharing is None else sharing.capacity,
            _amounts(question.wanted),
        )
        return _both(self._policy.may_have(ask, holdings), question.limits.get(name))

    def _floor(self, question: Question, name: str) -> int:
        term, asked = self.template.terms[name], question.wanted[name]
        least = max(term.min or 1, asked.floor or 1)
        if question.renewal and asked.floor is None and term.sharing == "fair":
            return max(least, term.step)
        return least

    def _left(self, names: Sequence[str]) -> tuple[int, int]:
        parts = [
            (max(0, self.sharings[name].free), self.sharings[name].capacity)
            for name in names
            if self.sharings[name].capacity
        ]
        return min(parts, key=lambda one: Fraction(*one), default=(1, 1))

    def _capacities(self, terms: Sequence[TermStatus]) -> list[str]:
        """A lease of before a restart may have what the host does not offer any more."""
        return [one.name for one in terms if one.kind == "capacity" and one.name in self.sharings]


def _both(allowed: Allowed, most: tuple[int, str] | None) -> Allowed:
    """The tighter of two policies."""
    if most is None or (allowed.amount is not None and allowed.amount <= most[0]):
        return allowed
    return msgspec.structs.replace(allowed, amount=most[0], rule=most[1])


def _amounts(wanted: Mapping[str, RequestedTerm]) -> dict[str, Value]:
    return {name: asked.amount for name, asked in wanted.items()}


def _capped(amount: Value, cap: int | None) -> Value:
    """The amount, or the cap if that is less; 0 when a function is not allowed."""
    if cap is None:
        return amount
    if isinstance(amount, int) and not isinstance(amount, bool):
        return min(amount, cap)
    return amount if cap else 0


def _status(name: str, template: Template, asked: Value, granted: Value) -> TermStatus:
    term = template.terms[name]
    return TermStatus(name, term.kind, asked, granted, fraction=fraction_text(granted, asked), unit=term.unit)
