"""`holdall lab replay`: run a trace again on the machines as they are now.

Exit status: 0 every turn is the same, 1 a turn differs, 64 a file that is no trace or can't be built again.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import msgspec

from holdall.machine.codec import CodecError
from holdall.machine.host import Host
from holdall.machine.trace import BadTrace, Header, Trace, read
from holdall.machine.trace import replay as run_again
from holdall.simulator.scripted import BadScript, Scripted, ScriptedRun
from holdall.simulator.setup import from_plain
from holdall.simulator.systems import system
from holdall.simulator.whole.setup import builder as whole_builder
from holdall.simulator.whole.setup import from_plain as from_plain_whole
from holdall.world.plan import BadWorld

SAME, DIFFERS, USAGE = 0, 1, 64
JSON_VERSION = 1
EXPLORER = "explorer"

Build = Callable[[str], Host]


class _Report(msgspec.Struct):
    v: int
    trace: str
    driver: str
    turns: int
    same: bool
    turn: int | None
    host: str | None
    expected: tuple[str, ...]
    got: tuple[str, ...]


def run_replay(trace: Path, *, as_json: bool = False, simulated: bool = False) -> int:
    """Replay and tell; the exit status. `simulated`: as a run in virtual time, see `simulator.scripted`."""
    if simulated:
        return _simulate(trace, as_json=as_json)
    try:
        found = load(trace)
        difference = run_again(found.steps, builder(found.header))
    except (BadTrace, CodecError) as error:
        print(f"holdall: {trace}: {error}", file=sys.stderr)
        return USAGE
    if as_json:
        report = _Report(
            JSON_VERSION,
            str(trace),
            found.header.driver,
            len(found.steps),
            difference is None,
            None if difference is None else difference.n,
            None if difference is None else difference.host,
            () if difference is None else difference.expected,
            () if difference is None else difference.got,
        )
        print(msgspec.json.encode(report).decode())
    elif difference is None:
        note = f" It shows: {found.header.note}." if found.header.note else ""
        print(f"{len(found.steps)} turns, all as in the trace.{note}")
    else:
        print(difference.text())
    return SAME if difference is None else DIFFERS


class _Simulated(msgspec.Struct):
    v: int
    trace: str
    same: bool
    expected: str
    run: Scripted


def _simulate(trace: Path, *, as_json: bool) -> int:
    """A counter-example of the explorer with its messages held up as long as it takes; its property must be violated."""
    try:
        found = load(trace)
        ran = _scripted(found).run()
    except (BadTrace, BadScript, CodecError, BadWorld) as error:
        print(f"holdall: {trace}: {error}", file=sys.stderr)
        return USAGE
    expected = found.header.note.partition(": ")[0]
    same = ran.wrong.partition(": ")[0] == expected
    if as_json:
        print(msgspec.json.encode(_Simulated(JSON_VERSION, str(trace), same, expected, ran)).decode())
    else:
        print(
            f"{ran.steps} turns in {ran.ended_at:g} mean message delays, {ran.delivered} messages, the slowest took "
            f"{ran.slowest:g}, {ran.overtaken} overtook another. It shows: {ran.wrong or 'nothing wrong'}."
        )
        if not same:
            print(f"The trace shows {expected}.")
    return SAME if same else DIFFERS


def _scripted(found: Trace) -> ScriptedRun:
    """Raises BadTrace, BadScript, BadWorld."""
    from holdall.explorer.systems import system_of
    from holdall.explorer.trace import world_from

    if found.header.driver != EXPLORER:
        raise BadTrace(f"only the explorer's traces are scripts; this is one of {found.header.driver!r}")
    protocol = str(found.header.world.get("protocol", "chain"))
    return ScriptedRun(system_of(protocol, world_from(found.header.world)), found.steps)


def load(trace: Path) -> Trace:
    """Read a trace of any driver. Raises BadTrace."""
    _know_all_families()
    try:
        with trace.open("rb") as file:
            return read(file)
    except OSError as error:
        raise BadTrace(f"can't be read: {error.strerror}") from error


def builder(header: Header) -> Build:
    """What builds the hosts of a trace. Raises BadTrace."""
    try:
        match header.driver:
            case "simulator":
                return system(from_plain(header.world)).host
            case "whole":
                return whole_builder(from_plain_whole(header.world))
            case "explorer":
                return _explorer_builder(header)
            case "node":
                return _node_builder(header)
            case _:
                raise BadTrace(f"no hosts can be built for a trace of {header.driver!r}")
    except (msgspec.ValidationError, ValueError, KeyError) as error:
        raise BadTrace(f"its header does not say how to build its hosts: {error}") from error


def _explorer_builder(header: Header) -> Build:
    from holdall.explorer.mutants.link import link_system
    from holdall.explorer.systems import system_of
    from holdall.explorer.trace import world_from
    from holdall.world.link import LinkWorld

    protocol = header.world.get("protocol", "chain")
    if protocol == "link":
        plain = {name: part for name, part in header.world.items() if name != "protocol"}
        return link_system(msgspec.convert(plain, LinkWorld)).build
    return system_of(str(protocol), world_from(header.world)).build


def _node_builder(header: Header) -> Build:
    from holdall.node.assembly import host_of_world

    host_of_world(header.world)  # a header that is none fails here, not in the middle
    return lambda _: host_of_world(header.world)


def _know_all_families() -> None:
    """The packages register their messages when they are imported."""
    for package in ("holdall.explorer.systems", "holdall.node.families", "holdall.world.link"):
        import_module(package)
