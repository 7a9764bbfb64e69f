"""`holdall lab bandwidth`: four senders of different size on one slow link, without leases and with leases of 2 s.

Exit status: 0 done, 1 a second had more bytes than the link allows, 64 a setting that can't be read, 69 the figure needs
matplotlib, 70 a run broke down.
"""

import asyncio
import sys
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import msgspec

from holdall.lab.bandwidth.agents import Broken
from holdall.lab.bandwidth.expected import SENDERS
from holdall.lab.bandwidth.found import (
    Bandwidth,
    agents_of,
    changes_of,
    link_of,
    shares_while_all_are_there,
)
from holdall.lab.bandwidth.plots import FORMATS, plot
from holdall.lab.bandwidth.runs import Run, repeat
from holdall.lab.bandwidth.table import print_found
from holdall.lab.compare.canvas import NEEDED, MissingPlots
from holdall.leases.divisions import Rule

DONE, EXCEEDED, USAGE, UNAVAILABLE, BROKEN = 0, 1, 64, 69, 70
SPEED_MAX = 100
"""Beyond it a lease would last less than 20 ms."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line asks for."""

    speed: int = 1
    reps: int = 10
    messages: int = 100
    rule: str = "fair"
    plot: str | None = None
    json: bool = False


def run_bandwidth(asked: Asked) -> int:
    """Run, print, draw; the exit status."""
    file = None if asked.plot is None else Path(asked.plot)
    rule = next((rule for rule in get_args(Rule) if rule == asked.rule), None)
    if rule is None:
        return _usage(f"--rule is one of {', '.join(get_args(Rule))}, not {asked.rule!r}")
    if not 1 <= asked.speed <= SPEED_MAX:
        return _usage(f"--speed is 1 to {SPEED_MAX}")
    if file is not None and (file.suffix not in FORMATS or not file.parent.is_dir()):
        return _usage(f"--plot {asked.plot}: name a file {' or '.join(FORMATS)} in a folder that exists")
    if file is not None and find_spec("matplotlib") is None:
        print(f"holdall: {NEEDED.replace('--report', '--plot')}", file=sys.stderr)
        return UNAVAILABLE
    try:
        found = asyncio.run(_experiment(asked, rule))
        if file is not None:
            plot(found, file)
    except Broken as broken:
        print(f"holdall: the run broke down: {broken}", file=sys.stderr)
        return BROKEN
    except (MissingPlots, OSError) as error:
        return _usage(f"can't write the figure: {error}")
    if asked.json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    else:
        print_found(found)
    return DONE if found.link_without.obeyed and found.link_with.obeyed else EXCEEDED


async def _experiment(asked: Asked, rule: Rule) -> Bandwidth:
    begun_s = time.monotonic()
    without = await _series(asked, None)
    with_ = await _series(asked, rule)
    return Bandwidth(
        version=version("holdall"),
        rule=rule,
        speed=asked.speed,
        reps=asked.reps,
        messages=asked.messages,
        without=agents_of(without, None, messages=asked.messages),
        with_=agents_of(with_, rule, messages=asked.messages),
        grants=shares_while_all_are_there(rule),
        link_without=link_of(without),
        link_with=link_of(with_),
        changes=changes_of(with_[0], asked.speed),
        seconds=round(time.monotonic() - begun_s, 1),
    )


async def _series(asked: Asked, rule: Rule | None) -> list[Run]:
    runs: list[Run] = []
    for number in range(1, asked.reps + 1):
        run = await repeat(SENDERS, rule=rule, messages=asked.messages, speed=asked.speed)
        runs.append(run)
        means = ", ".join(f"{agent} {mean:,.0f}" for agent, mean in run.means_ms().items())
        how = "without leases" if rule is None else f"leases, {rule}"
        print(f"{how}, repetition {number} of {asked.reps}: {means} ms", file=sys.stderr)
    return runs


def _usage(text: str) -> int:
    print(f"holdall: {text}", file=sys.stderr)
    return USAGE
