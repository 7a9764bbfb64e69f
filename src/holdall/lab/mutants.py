"""`holdall lab mutants`: every rule taken away once, and how its loss is found.

Exit status: 0 all are found as they must be, 1 one is not, 64 an unknown protocol or mutant.
"""

import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from holdall.explorer.fair import explore_fairly
from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.mutants.link import link_system, mutant_world
from holdall.explorer.mutants.mutant import Change, LinkMutant, Mutant, Seeded
from holdall.explorer.mutants.registry import all_mutants
from holdall.explorer.search import explore
from holdall.explorer.systems import system_of
from holdall.lab.parallel import Progress, each
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.whole.run import WholeRun
from holdall.simulator.whole.setup import WholeSetup

FOUND, MISSED, USAGE = 0, 1, 64
JSON_VERSION = 1


class Row(msgspec.Struct):
    """One mutant and what was seen."""

    protocol: str
    name: str
    rule: str
    expected: tuple[str, ...]
    how: str
    """explorer or simulator."""
    broken: str | None
    """What was violated; None: nothing was found."""
    steps: int | None
    """Explorer: the length of a shortest path."""
    seed: int | None
    """Simulator: the first seed that shows it."""
    states: int | None
    where: str
    """The world and its faults, or the driver."""
    text: str
    seconds: float

    @property
    def is_found(self) -> bool:
        """Whether the property broke that must."""
        return self.broken in self.expected


def run_mutants(
    *, protocol: str | None = None, names: Sequence[str] = (), jobs: int = 2, as_json: bool = False
) -> int:
    """All mutants, or those of a protocol, or those named; the exit status."""
    chosen = [
        (mutant.protocol, mutant.name)
        for mutant in all_mutants()
        if protocol in {None, mutant.protocol} and (not names or mutant.name in names)
    ]
    if not chosen:
        known = ", ".join(sorted({mutant.protocol for mutant in all_mutants()}))
        print(f"holdall: no such mutants; there are some of {known}", file=sys.stderr)
        return USAGE
    rows: dict[int, Row] = {}
    progress = Progress(len(chosen), what="mutants")
    for place, row in each(chosen, hunt, processes=jobs):
        rows[place] = row
        progress.done(f"{row.protocol} {row.name}")
    progress.close()
    found = [rows[place] for place in sorted(rows)]
    if as_json:
        print(msgspec.json.encode({"v": JSON_VERSION, "mutants": found}).decode())
    else:
        _print(found)
    return FOUND if all(row.is_found for row in found) else MISSED


def hunt(which: tuple[str, str]) -> Row:
    """Look for the property that breaks without a rule; `which` is (protocol, name)."""
    mutant = next(one for one in all_mutants() if (one.protocol, one.name) == which)
    begun = time.monotonic()
    if isinstance(mutant, LinkMutant) or mutant.seeded is None:
        row = _explored(mutant)
    else:
        row = _simulated(mutant, mutant.seeded)
    row.seconds = round(time.monotonic() - begun, 2)
    return row


def _explored(mutant: Mutant | LinkMutant) -> Row:
    if isinstance(mutant, LinkMutant):
        world = mutant_world(mutant)
        result = explore(LinkSpace(link_system(world), mutant.budget(), timers=mutant.timers))
        name = world.name
    else:
        if mutant.world is None:
            raise ValueError(f"mutant {mutant.name} names neither a world nor seeded runs")
        made = msgspec.structs.replace(mutant.world(), mutant=mutant.name)
        space = mutant.options().space(system_of(mutant.protocol, made), mutant.budget())
        result = explore_fairly(space, states_max=mutant.states_max)
        name = made.name
    first = result.violations[0] if result.violations else None
    return Row(
        protocol=mutant.protocol,
        name=mutant.name,
        rule=mutant.rule,
        expected=mutant.found_as,
        how="explorer",
        broken=None if first is None else first.name,
        steps=None if first is None else first.steps,
        seed=None,
        states=result.states,
        where=", ".join(filter(None, (name, mutant.faults))),
        text="" if first is None else first.text,
        seconds=0.0,
    )


def _simulated(mutant: Mutant, seeded: Seeded) -> Row:
    text, at = "", None
    with _changed(seeded.changes):
        for seed in range(seeded.first, seeded.first + seeded.seeds):
            violations = _seed(seeded, seed)
            if violations:
                text, at = violations[0], seed
                break
    return Row(
        protocol=mutant.protocol,
        name=mutant.name,
        rule=mutant.rule,
        expected=mutant.found_as,
        how="simulator",
        broken=next((name for name in mutant.found_as if name in text), text.partition(": ")[0])
        if text
        else None,
        steps=None,
        seed=at,
        states=None,
        where=seeded.driver,
        text=text,
        seconds=0.0,
    )


def _seed(seeded: Seeded, seed: int) -> Sequence[str]:
    values = {**seeded.setup, "seed": seed}
    if seeded.driver == "whole":
        return WholeRun(msgspec.convert(values, WholeSetup)).run().violations
    return Run(msgspec.convert(values, Setup)).run().violations


@contextmanager
def _changed(changes: Sequence[Change]) -> Generator[None]:
    """The methods are replaced here, and are as they were afterwards."""
    before: list[tuple[Any, str, Any]] = [
        (change.owner, change.name, vars(change.owner)[change.name]) for change in changes
    ]
    try:
        for change in changes:
            setattr(change.owner, change.name, change.value)
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def _print(rows: list[Row]) -> None:
    width = max(len(f"{row.protocol} {row.name}") for row in rows)
    for row in rows:
        title = f"{row.protocol} {row.name}"
        if row.is_found:
            how = f"{row.steps} steps" if row.how == "explorer" else f"seed {row.seed}"
            verdict = f"{row.broken}, {how} ({row.where})"
        else:
            verdict = f"NOT FOUND as {' or '.join(row.expected)}: {row.text or 'nothing'} ({row.where})"
        print(f'{title:{width}}  {verdict}: without "{row.rule}"')
    missed = [row for row in rows if not row.is_found]
    seconds = sum(row.seconds for row in rows)
    print(f"{len(rows) - len(missed)} of {len(rows)} mutants found, {seconds:.0f} s of work", file=sys.stderr)
