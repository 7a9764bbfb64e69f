"""One capacity of a host and who has what of it: the fair fraction, over demands that are remembered.

A grant is the least of three: what is asked (after policy's cap), the demand's share of the division, and what is free
now. The last keeps the sum of all grants within the capacity even while earlier ones are larger than their shares; the
first two bring everybody to the division as leases are renewed. That works only if the demand of one who has nothing at
the moment is not forgotten: of one who was refused, and of one whose lease has just expired. Without this, holders that
renew exactly at expiry would meet an empty table one by one and never come to the division. Such a demand, an intent,
lapses after one lease duration. Source: lease negotiation, section 7.

Instants are milliseconds of any clock that never goes back, the same for all calls.
"""

from collections.abc import Hashable, Mapping
from enum import Enum
from heapq import heappop, heappush
from typing import Literal

import msgspec
from msgspec.structs import replace

from holdall.leases.demands import Demands
from holdall.leases.divisions import Rule
from holdall.leases.filling import Demand
from holdall.leases.sorted_sums import Exact, Name


class Wanted(msgspec.Struct, frozen=True):
    """What a holder asks of the capacity, in base units."""

    amount: int
    """As asked, before policy."""
    weight: Exact = 1
    group: str = ""
    cap: int | None = None
    """Policy's, for this holder now. It lessens the demand before the division."""

    @property
    def capped(self) -> int:
        """What counts as demand."""
        return self.amount if self.cap is None else min(self.amount, self.cap)


class Place(Enum):
    """Where a lease stands, as far as the capacity is concerned."""

    LIVE = "live"
    """An offer that is held, or an active lease."""
    DRAINING = "draining"
    """Over, but admitted work goes on: what was granted is still used."""


class Demanded(msgspec.Struct, frozen=True):
    """A demand for whoever looks. `share`: what it would have if all were renewed now."""

    wanted: Wanted
    place: Literal["live", "draining", "wanted"]
    share: int
    granted: int = 0
    taken: int = 0


class Part(msgspec.Struct):
    """A lease's part of the capacity."""

    holder: str
    wanted: Wanted
    granted: int
    taken: int
    """What counts as used. Less than `granted` while it is to replace a lease that still lives."""
    place: Place = Place.LIVE
    replaces: str | None = None
    inside: bool = False
    """Whether it counts on what the lease has that it replaces. One offer for a lease at most does."""


class Shares:
    """Grants parts of a capacity. Each call costs what a change and a share of `Filling` cost, never a walk over all leases.

    `groups`: weights of groups, when the capacity is first divided among groups (one that is not named weighs 1) and
    inside each group then; None: one level.
    """

    def __init__(
        self, capacity: int, *, step: int = 1, rule: Rule = "fair", groups: Mapping[str, Exact] | None = None
    ) -> None:
        if capacity < 0 or step < 1:
            raise ValueError("a capacity is 0 or more base units, and a step is 1 or more of them")
        self.capacity, self.step = capacity, step
        self.taken = 0
        """By live and draining leases together; never above the capacity."""
        self.parts: dict[str, Part] = {}
        """By lease."""
        self._demands = Demands(step=step, rule=rule, weights=groups)
        """Of (holder, lease), or (holder, "") for an intent."""
        self._leases_of: dict[str, dict[str, None]] = {}
        """The leases of a holder, earliest first."""
        self._intents: dict[str, tuple[Wanted, int]] = {}
        """By holder: what it wanted, and when that is forgotten."""
        self._lapses: list[tuple[int, str]] = []
        self._queued: set[str] = set()
        """The holders among `_lapses`, so that one who is refused again and again stands there once."""

    @property
    def free(self) -> int:
        """What nobody has."""
        return self.capacity - self.taken

    def has(self, holder: str) -> bool:
        """Whether anything is taken by the holder, live or draining."""
        return holder in self._leases_of

    # ------------------------------------------------------------ asking

    def ask(
        self,
        holder: str,
        lease: str,
        wanted: Wanted,
        *,
        now_ms: int,
        duration_ms: int,
        replaces: str | None = None,
        floor: int = 1,
    ) -> int:
        """What is granted now, 0 when that would be less than `floor`; from then on `lease` has it.

        0 leaves an intent for one `duration_ms`. `replaces`: a lease of the same holder that lives on until `confirm` or
        `withdraw` of this one says which of the two it is; both together take no more than the larger. Raises ValueError
        for an amount below 1, a lease that is there already, or one to replace that is not the holder's or not live.
        """
        self._forget_until(now_ms)
        _check(wanted)
        if lease in self.parts or not lease:
            raise ValueError(f"lease {lease!r} is there already, or has no name")
        old = None if replaces is None else self.parts.get(replaces)
        if replaces is not None and (old is None or old.holder != holder or old.place is not Place.LIVE):
            raise ValueError(
                f"lease {replaces!r} can't be replaced: {holder!r} has no live lease of that name"
            )
        self._drop_intent(holder)
        if replaces is not None:
            self._demands.drop((holder, replaces))
        inside = old is not None and self._inside(holder, replaces) is None
        # An offer that is to be replaced by another counts itself on what an earlier one has.
        held = old.taken if old is not None and inside else 0
        granted = self._granted(holder, lease, wanted, held)
        if granted < max(1, floor):
            self._demands.drop((holder, lease))
            self._restore(holder, replaces)
            if old is None:
                self._remember(holder, wanted, now_ms + duration_ms)
            return 0
        taken = max(0, granted - held)
        self._lodge(holder, lease, Part(holder, wanted, granted, taken, replaces=replaces, inside=inside))
        return granted

    def renew(self, lease: str, wanted: Wanted, *, now_ms: int, floor: int = 1) -> int:
        """What a live lease has from now on, in one step; 0: less than `floor`, and it keeps what it had till its end.

        Raises KeyError for a lease that is not live, ValueError for an amount below 1.
        """
        self._forget_until(now_ms)
        _check(wanted)
        part = self._live(lease)
        granted = self._granted(part.holder, lease, wanted, part.taken)
        if granted < max(1, floor):
            self._restore(part.holder, lease)
            return 0
        self._take(part, granted)
        part.wanted, part.granted, part.inside = wanted, granted, False
        offer = self._inside(part.holder, lease)
        if offer is not None:
            self._take(offer, max(0, offer.granted - granted))
        return granted

    def restore(self, holder: str, lease: str, wanted: Wanted, granted: int) -> None:
        """A live lease that had so much before a restart, whatever is free now and whatever its share.

        Raises ValueError when there is one of that name.
        """
        if lease in self.parts or not lease:
            raise ValueError(f"lease {lease!r} is there already, or has no name")
        self._put((holder, lease), wanted)
        self._lodge(holder, lease, Part(holder, wanted, granted, granted))

    def best(self, holder: str, wanted: Wanted, *, now_ms: int) -> int:
        """What `ask` would grant with no floor; nothing is remembered of it."""
        self._forget_until(now_ms)
        intent = self._intents.get(holder)
        counted = [lease for lease in self._leases_of.get(holder, ()) if (holder, lease) in self._demands]
        self._demands.drop((holder, ""))
        granted = self._granted(holder, "", wanted, 0)
        self._demands.drop((holder, ""))
        for lease in counted:
            self._put((holder, lease), self.parts[lease].wanted)
        if intent is not None:
            self._put((holder, ""), intent[0])
        return granted

    def demands(self, *, now_ms: int) -> list[Name]:
        """(holder, lease) of each part, live or draining, and (holder, "") of each intent."""
        self._forget_until(now_ms)
        return [
            *((part.holder, lease) for lease, part in self.parts.items()),
            *((one, "") for one in self._intents),
        ]

    def demand(self, holder: str, lease: str) -> "Demanded":
        """One of `demands`. Raises KeyError."""
        if not lease:
            share = self._demands.share((holder, ""), self.capacity)
            return Demanded(self._intents[holder][0], "wanted", share)
        part = self.parts[lease]
        return Demanded(part.wanted, part.place.value, self.share(lease), part.granted, part.taken)

    def share(self, lease: str) -> int:
        """What the lease would have if all leases were renewed now: its share of the division."""
        part = self.parts[lease]
        return (
            self._demands.share((part.holder, lease), self.capacity)
            if (part.holder, lease) in self._demands
            else 0
        )

    # ------------------------------------------------------------ another division

    def divide_among(self, groups: Mapping[str, Exact] | None) -> None:
        """Weights of groups from now on; None: one level. What is granted stays until it is renewed. Walks all demands."""
        before, self._demands = self._demands, self._demands.empty(groups)
        for holder, lease in before.names():
            wanted = self.parts[lease].wanted if lease else self._intents[holder][0]
            self._put((holder, lease), wanted)

    def reweigh(self, lease: str, weight: Exact, group: str) -> None:
        """The lease's demand has this weight and group from now on. Raises KeyError."""
        part = self.parts[lease]
        part.wanted = replace(part.wanted, weight=weight, group=group)
        if (part.holder, lease) in self._demands:
            self._put((part.holder, lease), part.wanted)

    # ------------------------------------------------------------ the life of a lease

    def confirm(self, lease: str) -> None:
        """The offer was accepted: what it replaces ends, and work of it that is not done yet goes on under this one.

        Raises KeyError for a lease that is not live.
        """
        part = self._live(lease)
        if part.replaces is not None:
            self._remove(part.replaces)

    def withdraw(self, lease: str) -> None:
        """The offer was declined, cancelled, or has lapsed: it never was, and a lease it was to replace lives on."""
        self._live(lease)
        self._remove(lease)

    def expire(self, lease: str, *, now_ms: int, duration_ms: int, draining: bool = False) -> None:
        """Over without a release: its demand is remembered for one duration, as its holder may well come again."""
        self._forget_until(now_ms)
        part = self._live(lease)
        self._end(lease, draining=draining)
        self._remember(part.holder, part.wanted, now_ms + duration_ms)

    def release(self, lease: str, *, draining: bool = False) -> None:
        """Given back: nothing of it is remembered. Raises KeyError for a lease that is not live."""
        holder = self._live(lease).holder
        self._end(lease, draining=draining)
        self._drop_intent(holder)

    def drained(self, lease: str) -> None:
        """The last admitted work of a draining lease is done, or was cut."""
        if self.parts[lease].place is not Place.DRAINING:
            raise ValueError(f"lease {lease!r} is not draining")
        self._remove(lease)

    def next_lapse_ms(self) -> int | None:
        """When the first intent may lapse. Calls forget what has lapsed by themselves; None: there is no intent."""
        return self._lapses[0][0] if self._lapses else None

    def key(self) -> Hashable:
        """Equal keys behave alike, given the same instants."""
        parts = tuple(
            (
                name,
                one.holder,
                one.wanted,
                one.granted,
                one.taken,
                one.place.value,
                one.replaces or "",
                one.inside,
            )
            for name, one in sorted(self.parts.items())
        )
        intents = tuple((holder, *self._intents[holder]) for holder in sorted(self._intents))
        return self.capacity, parts, self._demands.key(), intents

    def copy(self) -> "Shares":
        """An independent twin."""
        twin = object.__new__(Shares)
        twin.__dict__.update(self.__dict__)
        twin.parts = {lease: replace(part) for lease, part in self.parts.items()}
        twin._demands = self._demands.copy()
        twin._leases_of = {holder: dict(leases) for holder, leases in self._leases_of.items()}
        twin._intents, twin._lapses, twin._queued = dict(self._intents), list(self._lapses), set(self._queued)
        return twin

    # ------------------------------------------------------------ inside

    def _live(self, lease: str) -> Part:
        part = self.parts.get(lease)
        if part is None or part.place is not Place.LIVE:
            raise KeyError(lease)
        return part

    def _granted(self, holder: str, lease: str, wanted: Wanted, held: int) -> int:
        """The least of demand, share, and what is free beside `held`. Leaves the demand in the division."""
        self._drop_drained(holder)
        self._put((holder, lease), wanted)
        granted = max(0, min(self._demands.share((holder, lease), self.capacity), self.free + held))
        return granted if granted == wanted.capped else granted // self.step * self.step

    def _lodge(self, holder: str, lease: str, part: Part) -> None:
        self.parts[lease] = part
        self._leases_of.setdefault(holder, {})[lease] = None
        self.taken += part.taken

    def _inside(self, holder: str, lease: str | None) -> Part | None:
        """The offer that counts on what the lease has."""
        parts = (self.parts[one] for one in self._leases_of.get(holder, ()))
        return next((part for part in parts if part.inside and part.replaces == lease), None)

    def _take(self, part: Part, taken: int) -> None:
        self.taken += taken - part.taken
        part.taken = taken

    def _end(self, lease: str, *, draining: bool) -> None:
        """No longer live."""
        if draining:
            self.parts[lease].place = Place.DRAINING
        else:
            self._remove(lease)

    def _remove(self, lease: str) -> None:
        """Nothing is taken by it any more. A lease that was to replace it stands on its own from here on."""
        part = self.parts.pop(lease)
        leases = self._leases_of[part.holder]
        del leases[lease]
        for other in leases:
            new = self.parts[other]
            if new.replaces == lease:
                self._take(new, new.granted)
                new.replaces, new.inside = None, False
        self.taken -= part.taken
        if not leases:
            del self._leases_of[part.holder]
        self._demands.drop((part.holder, lease))
        # One that was offered in place of another and never became it: that one counts again.
        self._restore(part.holder, part.replaces)

    def _restore(self, holder: str, lease: str | None) -> None:
        """The demand of a live lease is as it was before a question."""
        if lease is not None and lease in self.parts and self.parts[lease].place is Place.LIVE:
            self._put((holder, lease), self.parts[lease].wanted)

    # ------------------------------------------------------------ demands

    def _drop_drained(self, holder: str) -> None:
        """One who comes again, or may, is counted once, though what still drains is used."""
        for other in self._leases_of.get(holder, ()):
            if self.parts[other].place is Place.DRAINING:
                self._demands.drop((holder, other))

    def _remember(self, holder: str, wanted: Wanted, until_ms: int) -> None:
        self._drop_drained(holder)
        self._intents[holder] = (wanted, until_ms)
        self._put((holder, ""), wanted)
        if holder not in self._queued:
            self._queued.add(holder)
            heappush(self._lapses, (until_ms, holder))

    def _drop_intent(self, holder: str) -> None:
        if self._intents.pop(holder, None) is not None:
            self._demands.drop((holder, ""))

    def _forget_until(self, now_ms: int) -> None:
        while self._lapses and self._lapses[0][0] <= now_ms:
            _, holder = heappop(self._lapses)
            self._queued.discard(holder)
            intent = self._intents.get(holder)
            if intent is None:
                continue
            if intent[1] <= now_ms:
                self._drop_intent(holder)
            else:
                # It was refused again since.
                self._queued.add(holder)
                heappush(self._lapses, (intent[1], holder))

    def _put(self, name: Name, wanted: Wanted) -> None:
        self._demands.put(name, wanted.group, Demand(wanted.capped, wanted.weight))


def _check(wanted: Wanted) -> None:
    if wanted.amount < 1 or wanted.weight <= 0:
        raise ValueError(
            f"{wanted.amount} with weight {wanted.weight}: ask for an amount of 1 or more, with a weight above 0"
        )
