"""`holdall lab phases`: the phases of a claim and what leads from one to the next, drawn from explored transitions.

Nothing is written by hand: a small world is explored, and every step of a claimant that changes a claim's phase is
noted with what arrived. So the picture shows what the shipped machines do, no more and no less.
"""

import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from holdall.explorer.search import explore
from holdall.explorer.space import Space
from holdall.explorer.systems import system_of, world_of
from holdall.lab.phases_svg import drawn_phases
from holdall.machine.contract import Effect, Event, Machine, Received, Record
from holdall.machine.host import Host
from holdall.protocols.by_pool.messages import CLAIMANT
from holdall.world.faults import read_faults
from holdall.world.plan import BadWorld
from holdall.world.system import System

DRAWN, USAGE = 0, 64
JSON_VERSION = 1
STATES_MAX = 300_000
NONE = "none"
"""Before a claim, and after its end."""


class Change(msgspec.Struct, frozen=True, order=True):
    """One transition of a claim's phase, with what brought it about."""

    before: str
    after: str
    by: str


class Phases(msgspec.Struct):
    """What an exploration has shown."""

    v: int
    protocol: str
    world: str
    faults: str
    states: int
    changes: list[Change]


class _Watched:
    """A claimant whose changes of phase are noted; in all else the claimant itself."""

    def __init__(self, claimant: Any, seen: Counter[Change]) -> None:
        self._claimant = claimant
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claimant, name)

    def start(self) -> Sequence[Effect]:
        return list(self._claimant.start())

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        return list(self._claimant.recover(records))

    def handle(self, event: Event) -> Sequence[Effect]:
        before = self._phases()
        out = list(self._claimant.handle(event))
        after = self._phases()
        for claim in sorted({*before, *after}):
            was, now = before.get(claim, NONE), after.get(claim, NONE)
            if was != now:
                self._seen[Change(was, now, _name(event))] += 1
        return out

    def key(self) -> Hashable:
        known: Hashable = self._claimant.key()
        return known

    def copy(self) -> Self:
        return type(self)(self._claimant.copy(), self._seen)

    def _phases(self) -> dict[Any, str]:
        claims = self._claimant.claims
        name = getattr(self._claimant, "shown", _plain)
        return {claim: name(claims[claim]) for claim in claims}


def _plain(record: Any) -> str:
    phase = getattr(record, "phase", None)
    return type(record).__name__.lower() if phase is None else str(phase.name).lower()


def _name(event: Event) -> str:
    if not isinstance(event, Received):
        return event.timer.partition("/")[0]
    message: Any = event.message
    yes = getattr(message, "yes", None)
    return type(message).__name__ + ("" if yes is None else " yes" if yes else " no")


class _Watching:
    """A system whose claimants are watched."""

    def __init__(self, system: System, seen: Counter[Change]) -> None:
        self._system = system
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._system, name)

    def build(self, host: str) -> Host:
        built = self._system.build(host)
        parts: dict[str, Machine] = {
            name: _Watched(part, self._seen) if name == CLAIMANT else part
            for name, part in built.parts.items()
        }
        return Host(host, parts)


def explored_phases(protocol: str, world: str, faults: str) -> Phases:
    """All changes of phase in this world. Raises BadWorld."""
    seen: Counter[Change] = Counter()
    made = world_of(protocol, world)
    system: Any = _Watching(system_of(protocol, made), seen)
    result = explore(Space(system, read_faults(faults)), states_max=STATES_MAX, liveness=False)
    return Phases(JSON_VERSION, protocol, world, faults, result.states, sorted(seen))


def run_phases(
    protocol: str, world: str, faults: str, *, svg: Path | None = None, as_json: bool = False
) -> int:
    """Explore and tell, or draw; the exit status."""
    try:
        found = explored_phases(protocol, world, faults)
    except BadWorld as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    if svg is not None:
        try:
            svg.write_text(drawn_phases([(one.before, one.after, one.by) for one in found.changes]) + "\n")
        except OSError as error:
            print(f"holdall: can't write {error.filename}: {error.strerror}", file=sys.stderr)
            return USAGE
        print(f"picture: {svg}", file=sys.stderr)
    if as_json:
        print(msgspec.json.encode(found).decode())
    elif svg is None:
        for change in found.changes:
            print(f"{change.before:>12} → {change.after:<12} {change.by}")
    return DRAWN
