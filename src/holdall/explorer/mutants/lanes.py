"""Lanes with one rule taken away, and the world in which the search must see it.

Each mutant is a shipped side with one method changed. Source: lanes specification, section 7, and its history, sections
3.4 and 3.7.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdall.explorer.mutants.mutant import Mutant
from holdall.machine.contract import Address, Boot, Record, Save
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.lanes.claimant import Claimant
from holdall.protocols.lanes.lending_claimant import LendingClaimant
from holdall.protocols.lanes.lending_manager import LendingManager
from holdall.protocols.lanes.line import Line
from holdall.protocols.lanes.manager import Manager
from holdall.protocols.lanes.messages import HOLDS, LaneClaim, LaneEntry, LendingClaim, Standing, Status, Wish
from holdall.protocols.registry import Tuning
from holdall.world.by_pool import ByPoolSystem
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.plan import World


class ClockStays(Manager):
    """A final index does not raise the pool's clock."""

    def _final(self, sender: Address, final: Standing, out: Effects) -> None:
        entry = self.entries.get((final.claim, final.place))
        before = None if entry is None else self.clocks[entry.pool]
        super()._final(sender, final, out)
        if entry is not None and before is not None:
            self.clocks[entry.pool] = before


class KeepsAside(Manager):
    """What was set aside stays so when the lane is final."""

    def become(
        self, entry: LaneEntry, status: Status, out: Effects, *, index: int = 0, booked: bool = False
    ) -> LaneEntry:
        if entry.status is Status.ASIDE and status is Status.QUEUED:
            status = Status.GRANTED
        return super().become(entry, status, out, index=index, booked=booked)


class PassesOpen(Manager):
    """Open lanes before a final one keep nothing from it."""

    def settle(self, pool: str, out: Effects) -> None:
        line = self.lines.get(pool, ())
        hidden = [self.entries[key] for key in line if self.entries[key].status is Status.OPEN]
        for entry in hidden:
            self.lines[pool].leave(entry)
        super().settle(pool, out)
        for entry in hidden:
            self.lines.setdefault(pool, Line()).enter(entry)


class InsertsLate(Manager):
    """A lane that a restart has lost is put in again where it was."""

    def _final(self, sender: Address, final: Standing, out: Effects) -> None:
        key = (final.claim, final.place)
        if key in self.entries or final.attempt <= self.buried.get(key, 0) or not self.book.may_grant():
            super()._final(sender, final, out)
            return
        entry = LaneEntry(
            final.claim,
            final.attempt,
            final.place,
            final.pool,
            final.units,
            final.terms,
            status=Status.QUEUED,
            index=final.n,
            asked=final.units,
        )
        self.put(entry, out)
        self.settle(final.pool, out)
        self.tell_held(self.entries[key], out)


class ForgetsClock(Manager):
    """After a restart the clock is 0, whatever was kept."""

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        super().recover(records, boot, out)
        self.clocks = dict.fromkeys(self.clocks, 0)


class UnsavedAside(Manager):
    """Units that are set aside are not saved before the view."""

    def become(
        self, entry: LaneEntry, status: Status, out: Effects, *, index: int = 0, booked: bool = False
    ) -> LaneEntry:
        new = super().become(entry, status, out, index=index, booked=booked)
        if status is Status.ASIDE:
            out[:] = [one for one in out if not (isinstance(one, Save) and isinstance(one.record, LaneEntry))]
        return new


class DropsGranted(Manager):
    """Entries with units go with a restart, like those without."""

    def keeps(self, entry: LaneEntry, boot: Boot) -> bool:
        return boot.kind == "same"


class NoAnswer(Manager):
    """A form that changes nothing is not answered."""

    def on_message(self, sender: Address, message: Standing, out: Effects) -> None:
        entry = self.entries.get((message.claim, message.place))
        known = entry is not None and entry.attempt == message.attempt
        super().on_message(sender, msgspec.structs.replace(message, answer=False), out)
        if known and entry is not None and self.entries.get((entry.claim, entry.place)) is entry:
            out.clear()


class BelievesAside(Claimant):
    """In its lane, a claim takes what was set aside before for had."""

    def has(self, record: LaneClaim, place: int) -> bool:
        seen = record.views[place]
        return seen is not None and seen.status in HOLDS


class AsksOnce(Claimant):
    """A form is never sent again."""

    def ask_all(self, record: LaneClaim, out: Effects) -> None:
        if record.phase.name == "WAITING" and any(view is not None for view in record.views):
            return
        super().ask_all(record, out)


class BelievesLent(LendingClaimant):
    """A grant of before the lending counts again when the claim tries, or wants it back."""

    def has(self, record: LendingClaim, place: int) -> bool:
        lanes = tuple(msgspec.structs.replace(lane, since=0) for lane in record.lanes)
        return super().has(msgspec.structs.replace(record, lanes=lanes), place)


class LendsBlindly(LendingClaimant):
    """A grant counts although it is lent already, and the pool will hear of it."""

    def has(self, record: LendingClaim, place: int) -> bool:
        lanes = tuple(
            msgspec.structs.replace(lane, wish=Wish.KEEP, since=0) if lane.wish is Wish.LEND else lane
            for lane in record.lanes
        )
        return super().has(msgspec.structs.replace(record, lanes=lanes), place)


class HalfATry(LendingClaimant):
    """A try that fails at one place keeps what the others have set aside."""

    def _give_up(self, record: LendingClaim, out: Effects) -> LendingClaim:
        del out
        return record

    def _has_failed(self, record: LendingClaim) -> bool:
        del record
        return False


class HearsOldWishes(LendingManager):
    """A wish that was overtaken by a newer one is followed."""

    def wished(self, entry: LaneEntry, final: Standing, out: Effects) -> LaneEntry:
        if final.turn and final.turn <= entry.turn:
            entry = msgspec.structs.replace(entry, turn=final.turn - 1)
        return super().wished(entry, final, out)


def _mutant(
    name: str,
    rule: str,
    change: type[Any],
    where: str,
    found_as: tuple[str, ...],
    faults: str = "",
    protocol: str = "lanes",
) -> Mutant:
    """A manager or a claimant in place of the shipped one."""

    def manager(node: str, epoch: int, book: Book, tuning: Tuning) -> Any:
        return change(node, epoch, book, sweep_ms=tuning.sweep_ms)

    def claimant(node: str, agent: Address, tuning: Tuning) -> Any:
        again_ms = tuning.repeat_most_ms or tuning.repeat_ms
        if protocol == "lanes":
            return change(node, agent, again_ms=again_ms)
        return change(node, agent, again_ms=again_ms, patience_ms=tuning.patience_ms)

    def system(world: World) -> ByPoolSystem:
        if issubclass(change, Manager):
            return ByPoolSystem(world, protocol, manager=manager, patience_ms=0)
        return ByPoolSystem(world, protocol, claimant=claimant, patience_ms=0)

    def world() -> World:
        return by_pool_worlds()[where]

    return Mutant(
        name=name, protocol=protocol, rule=rule, system=system, world=world, found_as=found_as, faults=faults
    )


def _no_quarantine(world: World) -> ByPoolSystem:
    return ByPoolSystem(world, "lanes", quarantine=False)


LENDING = "lanes-lending"
LANES_MUTANTS = (
    _mutant("clock-stays", "a final index raises the pool's clock", ClockStays, "same2+1", ("clock",)),
    _mutant("keeps-aside", "what was set aside goes back to the order", KeepsAside, "same", ("deadlock",)),
    _mutant("passes-open", "open lanes keep their units from later ones", PassesOpen, "same2+1", ("deadlock",)),
    _mutant("asks-once", "a form is sent again until it is answered", AsksOnce, "same", ("deadlock",), "loss=1"),
    _mutant("no-answer", "a form that comes again is answered", NoAnswer, "same", ("unserved",), "loss=1"),
    _mutant("believes-aside", "in a lane only grants count", BelievesAside, "chain3", ("exclusion",)),
    _mutant("inserts-late", "a lane that is lost never comes back at its index", InsertsLate, "same", ("deadlock", "unserved"), "reboot=1"),
    _mutant("forgets-clock", "the clock starts from what is kept", ForgetsClock, "same", ("clock",), "reboot=1"),
    _mutant("unsaved-aside", "saved before the view", UnsavedAside, "pair", ("exclusion",), "restart=1"),
    _mutant("drops-granted", "who has units outlives a restart", DropsGranted, "pair", ("exclusion",), "reboot=1"),
    Mutant(
        name="no-quarantine",
        protocol="lanes",
        rule="who has lost everything waits until no lease of before can live",
        system=_no_quarantine,
        world=lambda: by_pool_worlds()["pair"],
        found_as=("exclusion",),
        faults="wipe=1",
    ),
    _mutant("lends-blindly", "what is lent does not count", LendsBlindly, "same", ("deadlock",), "", LENDING),
    _mutant("believes-lent", "a grant of before the lending is void", BelievesLent, "chain3", ("deadlock", "exclusion"), "loss=1", LENDING),
    _mutant("half-a-try", "a try has all or nothing", HalfATry, "same", ("deadlock",), "", LENDING),
    _mutant("old-wishes", "a wish that was overtaken is not followed", HearsOldWishes, "chain3", ("exclusion",), "", LENDING),
)  # fmt: skip
"""Those of the lanes specification's list, and of lending."""
