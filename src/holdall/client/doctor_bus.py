"""What `holdall doctor` looks at where there are several nodes: server, ports, certificates, peers, what must be alike."""

import contextlib
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdall.client.finding import Finding
from holdall.model import frames
from holdall.model.decoding import decoded
from holdall.model.durations import show_duration
from holdall.model.errors import BadConfig

if TYPE_CHECKING:
    from holdall.bus.system import System
    from holdall.node.configured import BusSettings, Settings

_DAY_S = 86_400
WARN_S = 30 * _DAY_S
"""A certificate that ends within this time is told."""
_WITHIN_S = 10.0
"""The first connection starts the HTTP server, which takes a second or two."""
_HEALTH_BYTES_MAX = 1 << 16
SHOWN_MAX = 12


class _BusHealth(msgspec.Struct):
    state: str = "none"
    text: str = ""
    problem: str = ""


class _Health(msgspec.Struct):
    node: str
    bus: _BusHealth


def bus_findings(settings: "Settings", *, runs: bool) -> Iterator[Finding]:
    """Of this node's own means. `runs`: the node serves, so its ports are in use rightly."""
    from holdall.bus.identity import NodeKey
    from holdall.node import paths
    from holdall.node.configured import BusSettings
    from holdall.node.identity import identity_of

    bus = settings.bus or BusSettings()
    if bus.servers:
        yield from _foreign(bus)
        return
    is_member = (settings.state / paths.BUS_NAME).exists()
    if not is_member and bus.listen is None:
        text = 'this node stands alone. To let others join: [bus] listen = "0.0.0.0:4222"'
        yield Finding("bus", "ok", text)
        return
    key: NodeKey | None = None
    with contextlib.suppress(BadConfig):
        key = identity_of(settings.state, may_make=False)
    system: System | None = None
    if is_member and key is not None:
        try:
            system = _system(settings, key)
        except BadConfig as problem:
            yield Finding("bus", "error", problem.text)
            return
    listen = bus.listen if system is None else system.membership.listen
    if system is not None:
        known = len(system.membership.servers)
        role = "runs one of its servers" if listen else "is a client of its servers"
        yield Finding(
            "bus", "ok", f"member of system {system.membership.system}, {role}; servers known: {known}"
        )
        yield _certificates(system)
    if listen is not None:
        yield _program(bus)
        if not runs:
            yield _ports(listen)
    if runs:
        yield from _connection(settings)


def peer_findings(listing: frames.Listing, version: str) -> Iterator[Finding]:
    """Of the other nodes, as the node that was asked knows them."""
    if not listing.known:
        return
    silent = [known for known in listing.known if known.state == "silent"]
    heard = [known.node for known in listing.known if known.state not in {"silent", "stopped"}]
    yield Finding("peers", "ok" if heard else "warning", f"{len(heard)} heard{_named(heard)}")
    for known in silent[:SHOWN_MAX]:
        where = f" ({known.address})" if known.address else ""
        text = (
            f"{known.node}{where} has been silent for {show_duration(known.silent_ms)}: does it run, and does its bus? "
            f"If it never comes back: holdall forget {known.node}"
        )
        yield Finding("peers", "warning", text)
    stopped = [known.node for known in listing.known if known.state == "stopped"]
    if stopped:
        yield Finding("peers", "ok", f"{len(stopped)} stopped{_named(stopped)}")
    own = [row.node for row in listing.nodes]
    for name, count in Counter([*own, *(known.node for known in listing.known)]).items():
        if count > 1:
            ids = ", ".join(known.id for known in listing.known if known.node == name)
            text = (
                f'{count} nodes are named "{name}": others plan with the first one only. '
                f"Give one another [node].name, or forget it by its id (holdall forget ID; {ids})"
            )
            yield Finding("names", "error", text)
    others = sorted(
        f"{known.node} {known.version}" for known in listing.known if known.version not in {"", version}
    )
    if others:
        yield Finding(
            "versions", "warning", f"this is {version}; others run: {', '.join(others[:SHOWN_MAX])}"
        )


def _system(settings: "Settings", key: object) -> "System | None":
    """The member's files, read as a start reads them. Raises BadConfig, also where system-wide settings differ."""
    from holdall.bus.identity import NodeKey
    from holdall.bus.system import load
    from holdall.node import paths
    from holdall.node.membership import facts_of

    if not isinstance(key, NodeKey):
        return None
    return load(settings.state / paths.BUS_NAME, key, facts_of(settings))


def _certificates(system: "System") -> Finding:
    from holdall.bus.certificates import ends_at
    from holdall.bus.system import CERTIFICATE

    path = system.folder / CERTIFICATE
    try:
        ends = ends_at(path.read_bytes())
    except (OSError, ValueError) as problem:
        return Finding("certificate", "error", f"{path} can't be read: {problem}. Bring it back from a copy")
    day = time.strftime("%Y-%m-%d", time.gmtime(ends))
    left_s = ends - time.time()
    if left_s <= 0:
        text = f"{path} has ended on {day}: no node lets this one in. Is the clock right? Else remove {path.parent} and join again"
        return Finding("certificate", "error", text)
    if left_s < WARN_S:
        text = f"{path} ends on {day}: remove {path.parent} and join again before"
        return Finding("certificate", "warning", text)
    return Finding("certificate", "ok", f"good until {day}")


def _program(bus: "BusSettings") -> Finding:
    from holdall.bus.server import find_program

    try:
        program = find_program(bus.server)
    except BadConfig as problem:
        return Finding("nats-server", "error", problem.text)
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as problem:
        return Finding(
            "nats-server", "error", f"{program} does not run: {problem}. Name another in [bus].server"
        )
    return Finding("nats-server", "ok", f"{program}, {told.stdout.strip() or 'no version told'}")


def _ports(listen: tuple[str, int]) -> Finding:
    from holdall.bus.sockets import find_owner, is_free
    from holdall.node.bus_settings import BUS_PORTS

    host, port = listen
    taken = [one for one in range(port, port + BUS_PORTS) if not is_free(host, one)]
    if taken:
        text = (
            f"port {taken[0]} is in use{find_owner(taken[0])}: end that program, or take another [bus].listen"
        )
        return Finding("ports", "error", text)
    return Finding("ports", "ok", f"{port} to {port + BUS_PORTS - 1} are free; others must reach all three")


def _connection(settings: "Settings") -> Iterator[Finding]:
    """Whether the running node's bus is reached, as its `/healthz` tells."""
    if settings.node.listen is None:
        return
    host, port = settings.node.listen
    connection = HTTPConnection(host, port, timeout=_WITHIN_S)
    try:
        connection.request("GET", "/healthz")
        told = decoded(msgspec.json.Decoder(_Health).decode, connection.getresponse().read(_HEALTH_BYTES_MAX))
    except (OSError, HTTPException, msgspec.DecodeError):
        return
    finally:
        connection.close()
    if told.node != settings.name:
        return  # another node has that port
    if told.bus.state == "connected":
        yield Finding("connection", "ok", f"bus reached: {told.bus.text}")
    elif told.bus.state != "none":
        text = f"bus not reached: {told.bus.problem or told.bus.text or 'no reason told yet'}"
        yield Finding("connection", "warning", text + ". Claims on this node's own pools go on")


def _foreign(bus: "BusSettings") -> Iterator[Finding]:
    from holdall.bus.claims import read_creds
    from holdall.bus.files import read_secret

    shown = ", ".join(bus.servers[:SHOWN_MAX])
    yield Finding("bus", "ok", f"servers of somebody else: {shown}; system {bus.system}")
    if bus.creds is None:
        text = "no creds: the servers let anybody in, or nobody. See: holdall nats-config"
        yield Finding("creds", "warning", text)
        return
    try:
        read_creds(read_secret(Path(bus.creds)))
    except FileNotFoundError:
        yield Finding("creds", "error", f"{bus.creds} is not there. See: holdall nats-config")
    except BadConfig as problem:
        yield Finding("creds", "error", problem.text)
    except ValueError as problem:
        yield Finding("creds", "error", f"{bus.creds} is no NATS credentials file: {problem}")
    else:
        yield Finding("creds", "ok", f"{bus.creds} can be read")


def _named(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - SHOWN_MAX} more" if len(listed) > SHOWN_MAX else ""
    return f": {', '.join(listed[:SHOWN_MAX])}{more}" if listed else ""
