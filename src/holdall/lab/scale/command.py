"""`holdall lab scale`: the same load on each node, more and more nodes; messages, waits and memory against their number.

Exit status: 0 clean, 1 a property is violated, 64 a setting that can't be read, 69 the report needs matplotlib, 70 a run broke down.
"""

import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

import msgspec

from holdall.lab.compare.command import prepared
from holdall.lab.compare.contestants import contestants
from holdall.lab.compare.kept import Keeper
from holdall.lab.compare.tables import show_sheet
from holdall.lab.parallel import WorkFailed, each
from holdall.lab.scale.found import Scales, sheet
from holdall.lab.scale.measure import Scale, ScaleCase, scale
from holdall.simulator.systems import pools_max

CLEAN, VIOLATED, USAGE, BROKEN = 0, 1, 64, 70
SIZES = "100,300,1000,3000,10000"
NODES_MAX = 100_000
CLAIMS = 1_000_000
DELAYS_PER_CLAIM = 45.0
"""A client's pause (30), wait (about 10) and hold (5)."""
CLAIM_POOLS = 2
MARGIN = 1.05
"""So much longer, so that the claims asked for are surely made."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    protocols: str = "chain"
    nodes: str = SIZES
    claims: int = CLAIMS
    """At the largest number of nodes; the others run as long, with the same load on each node."""
    regions: int | None = None
    """Once more with so many regions."""
    shape: str = "random"
    """Pools of a claim: any (random), or neighbours on a ring, always the same for a client (ring)."""
    seed: int = 1
    processes: int | None = None
    report: str | None = None
    keep: str | None = None
    """File with the results of single runs, for a series that may be broken off."""
    json: bool = False


def run_scale(asked: Asked) -> int:
    """Run, print, write the report; the exit status."""
    try:
        cases = _cases(asked)
    except ValueError as error:
        print(f"holdall: {error}", file=sys.stderr)
        return USAGE
    folder = None if asked.report is None else Path(asked.report)
    status = CLEAN if folder is None else prepared(folder)
    if status != CLEAN:
        return status
    processes = min(asked.processes or os.cpu_count() or 1, len(cases))
    begun_s = time.monotonic()
    try:
        keeper = Keeper(None if asked.keep is None else Path(asked.keep), ScaleCase, Scale)
        runs = _runs(cases, keeper, processes)
    except WorkFailed as error:
        print(f"holdall: {error}", file=sys.stderr)
        return BROKEN
    except OSError as error:
        print(f"holdall: --keep {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    result = Scales(
        version=version("holdall"),
        runs=runs,
        seconds=round(time.monotonic() - begun_s, 3),
    )
    if asked.json:
        sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
    else:
        show_sheet(sheet(result))
    bad = [(one, text) for one in result.runs for text in one.violations]
    for one, text in bad:
        print(f"{one.protocol}, {one.nodes} nodes: violated: {text}", file=sys.stderr)
    if folder is not None:
        status = _report(result, folder)
        if status != CLEAN:
            return status
    return VIOLATED if bad else CLEAN


def _runs(cases: list[ScaleCase], keeper: Keeper[ScaleCase, Scale], processes: int) -> list[Scale]:
    """The largest first: then the others have the second processor to themselves."""
    found = {place: known for place, case in enumerate(cases) if (known := keeper.known(case)) is not None}
    todo = [place for place in range(len(cases)) if place not in found]
    order = sorted(todo, key=lambda place: -cases[place].nodes)
    for place, one in each([cases[number] for number in order], scale, processes=processes, fresh=True):
        case = cases[order[place]]
        found[order[place]] = one
        keeper.keep(case, one)
        print(
            f"{case.title}: {one.grants:,} grants, {one.delivered:,} messages in {one.seconds:.0f} s of processor time",
            file=sys.stderr,
        )
    return [found[place] for place in range(len(cases))]


def _cases(asked: Asked) -> list[ScaleCase]:
    try:
        sizes = sorted({int(text) for text in asked.nodes.split(",")})
    except ValueError:
        raise ValueError(f"--nodes {asked.nodes!r}: write numbers with commas, e.g. {SIZES}") from None
    if not sizes or not CLAIM_POOLS <= sizes[0] <= sizes[-1] <= NODES_MAX:
        raise ValueError(f"--nodes are {CLAIM_POOLS} to {NODES_MAX} each")
    duration = max(100.0, MARGIN * DELAYS_PER_CLAIM * asked.claims / sizes[-1])
    if asked.claims < 1 or duration > 1e7:
        raise ValueError(
            f"--claims {asked.claims}: at least 1, and at most 200000 for each of {sizes[-1]} nodes"
        )
    if asked.shape not in {"random", "ring"}:
        raise ValueError(f"--shape is random or ring, not {asked.shape!r}")
    who = contestants(asked.protocols)
    for one in who:
        most = pools_max(one.protocol)
        if one.settings or (most is not None and most < CLAIM_POOLS):
            raise ValueError(
                f"{one.name} can't be scaled: claims have {CLAIM_POOLS} pools, and it has settings of its own or serves fewer"
            )
    return [
        ScaleCase(
            protocol=one.protocol,
            nodes=nodes,
            duration=duration,
            regions=regions,
            seed=asked.seed,
            shape="ring" if asked.shape == "ring" else "random",
        )
        for one in who
        for regions in ((None,) if asked.regions is None else (None, asked.regions))
        for nodes in sizes
    ]


def _report(found: Scales, folder: Path) -> int:
    from holdall.lab.scale.report import write

    try:
        write(found, folder)
    except OSError as error:
        print(f"holdall: can't write the report {error.filename}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(f"report: {folder / 'scale.html'}", file=sys.stderr)
    return CLEAN
