"""Makes a failing setup smaller while the same property is violated: fewer clients, faults, pools, and less time.

Every step leaves something out and runs again. As each change also changes what chance draws later, a smaller setup is
tried with a few seeds, too. Source: greedy delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", IEEE TSE 2002), with parts of a setup in place of lines of an input.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdall.simulator.faults import Faults
from holdall.simulator.network import Delays
from holdall.simulator.run import Report
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.workload import Workload

SEEDS = 4
"""A smaller setup is tried with its seed and the following ones."""
RUNS_MAX = 1000

_WORDS = re.compile(r"(?:[^\s:]+: )?(refused|[a-z][a-z -]*):")


def property_of(violation: str) -> str:
    """The name of the property that a violation's text begins with, behind the host that it was seen on."""
    match = _WORDS.match(violation)
    return match[1] if match is not None else violation.partition(":")[0]


class Shrunk(msgspec.Struct, frozen=True):
    """The smallest setup that was found."""

    setup: Setup
    report: Report
    runs: int
    """How many runs it took."""


def shrink(
    setup: Setup, report: Report, run: Callable[[Setup], Report], *, runs_max: int = RUNS_MAX
) -> Shrunk:
    """`report` is what `setup` gave, with a violation; `run` runs a setup. Ends when nothing can be left out any more."""
    wanted = property_of(report.violations[0])
    runs = 0
    smaller = True
    while smaller and runs < runs_max:
        smaller = False
        for less in smaller_setups(setup, report):
            for seed in dict.fromkeys((less.seed, setup.seed, *range(1, SEEDS))):
                tried = msgspec.structs.replace(less, seed=seed)
                found = run(tried)
                runs += 1
                if found.violations and property_of(found.violations[0]) == wanted:
                    setup, report, smaller = tried, found, True
                    break
            if smaller or runs >= runs_max:
                break
    return Shrunk(setup, report, runs)


def smaller_setups(setup: Setup, report: Report) -> Iterator[Setup]:
    """Setups with something less, the biggest steps first; each differs from `setup`."""
    for change in _changes(setup, report):
        try:
            less = msgspec.structs.replace(setup, **change)
        except ValueError:
            continue  # two parts that do not go together, e.g. fewer pools than nodes
        if less != setup:
            yield less


def _changes(setup: Setup, report: Report) -> Iterator[dict[str, Any]]:
    # Faults are over before clients stop, so a run that is cut where it failed has other strikes.
    ended = max(1.0, min(setup.duration, report.ended_at + 1.0))
    for duration in (setup.duration / 4, setup.duration / 2, ended, setup.duration * 0.8):
        if 1 <= duration < setup.duration:
            yield {"duration": float(int(duration))}
    yield {"faults": Faults()}
    for faults in _less_faults(setup.faults):
        yield {"faults": faults}
    for workload in _less_workload(setup.workload):
        yield {"workload": workload}
    plain = Setup(protocol=setup.protocol)
    for name in ("rho", "passes", "passes_per_ahead", "try_from", "patience", "ttl", "leases"):
        yield {name: getattr(plain, name)}
    # one way only, else these would take turns for ever
    if setup.delays.kind != "constant":
        yield {"delays": Delays(kind="constant")}
        yield {"delays": Delays()}


def _less_faults(faults: Faults) -> Iterator[Faults]:
    struck = [name for name in (*faults.kinds, *faults.shares) if getattr(faults, name)]
    for name in struck:
        yield msgspec.structs.replace(faults, **{name: 0})
    for name in struck:
        now = getattr(faults, name)
        if name in faults.kinds and now > 1:
            yield msgspec.structs.replace(faults, **{name: now // 2})
            yield msgspec.structs.replace(faults, **{name: now - 1})


def _less_workload(workload: Workload) -> Iterator[Workload]:
    clients = workload.client_count
    changes: list[dict[str, Any]] = [
        {"clients": count} for count in (1, 2, clients // 2, clients - 1) if 1 <= count < clients
    ]
    for pools in sorted({1, workload.pools // 2, workload.pools - 1} - {0, workload.pools}):
        nodes, k = min(workload.nodes, pools), min(workload.k, pools)
        least = None if workload.k_least is None else min(workload.k_least, k)
        changes.append({"pools": pools, "nodes": nodes, "k": k, "k_least": least, "clients": clients})
    changes += [{"nodes": 1}, {"nodes": workload.nodes - 1}]
    changes += [{"k": 1, "k_least": None}, {"k": workload.k - 1, "k_least": None}]
    if workload.units > 1:
        changes += [{"units": 1, "need_most": None}, {"units": workload.units - 1, "need_most": None}]
        changes += [{"need_most": 1}]
    changes += [{"cancel_share": 0.0}, {"try_share": 0.0}, {"local": None}, {"wide": False}]
    changes += [{"shape": "random"}, {"k_least": None}]
    for change in changes:
        try:
            less = msgspec.structs.replace(workload, **change)
        except ValueError:
            continue
        if less != workload:
            yield less


def command_line(setup: Setup) -> str:
    """What to type to have this run again."""
    plain = Setup()
    words = ["holdall lab simulate", f"--protocol {setup.protocol}"]
    words.append(f"--workload '{_json(_differing(setup.workload, Workload()))}'")
    differing = _differing(setup, plain)
    words += [
        f"--{name.replace('_', '-')} {_number(differing[name])}"
        for name in ("passes", "passes_per_ahead", "try_from", "ttl", "patience", "rho", "claims")
        if name in differing
    ]
    struck = _differing(setup.faults, Faults())
    if struck:
        words.append("--faults " + ",".join(f"{name}={_number(value)}" for name, value in struck.items()))
    if setup.delays != Delays():
        words.append(f"--delays '{_json(_differing(setup.delays, Delays()))}'")
    if not setup.jitter:
        words.append("--delays constant")
    if setup.leases:
        words.append("--leases")
    if setup.strict:
        words.append("--strict")
    words.append(f"--duration {_number(setup.duration)} --seed {setup.seed}")
    return " ".join(words)


def size_of(setup: Setup) -> str:
    """For people: how small it has become."""
    workload = setup.workload
    hours = setup.duration * DELAY_MS / 3_600_000
    return (
        f"{workload.client_count} clients, {workload.pools} pools of {workload.units} on {workload.nodes} nodes, "
        f"{setup.duration:g} mean delays ({hours:.2f} h)"
    )


def _differing(value: msgspec.Struct, plain: msgspec.Struct) -> dict[str, Any]:
    return {
        name: getattr(value, name)
        for name in value.__struct_fields__
        if getattr(value, name) != getattr(plain, name)
    }


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _number(value: float) -> str:
    return f"{value:.12g}"
