"""Reads `[bus]`: a server of the node's own that others can join, or a cluster that somebody else runs."""

import re
from collections.abc import Mapping
from pathlib import Path

from holdall.bus.addresses import ADDRESSES_MAX, is_address
from holdall.bus.subjects import is_system_name
from holdall.node.configured import BusSettings
from holdall.node.toml_table import PORT_MAX, Source, Table

BUS_PORTS = 3
"""For clients, among servers, and for joining: the port of `listen` and the two after it."""
_SERVER_RE = re.compile(r"(?:nats|tls)://[A-Za-z0-9.:\[\]_-]{1,253}:[0-9]{1,5}\Z")


def read_bus(source: Source, values: Mapping[str, object], path: Path | None) -> BusSettings:
    """The table's settings; files are named relative to the configuration. Raises BadConfig."""
    table = Table(source, values, "[bus]", known=BusSettings.__struct_fields__)
    listen, servers = _listen(table), _servers(table)
    if listen and servers:
        raise table.bad(
            "listen",
            "listen and servers exclude each other: a node runs a server of its own, or uses a cluster that is "
            "there. Leave one of them out.",
        )
    for key in ("creds", "system"):
        if table.has(key) and not servers:
            raise table.bad(key, f"{key} is for a cluster that somebody else runs: give its servers, too")
    if table.has("server") and servers:
        raise table.bad("server", "server is the program of a server of its own: leave it out beside servers")
    if table.has("advertise") and listen is None:
        raise table.bad("advertise", "advertise tells others where listen is reached: give listen, too")
    return BusSettings(
        listen=listen,
        advertise=_advertise(table),
        servers=servers,
        creds=table.file("creds", path),
        system=_system(table),
        server=table.file("server", path),
    )


def _advertise(table: Table) -> tuple[str, ...]:
    addresses = table.texts("advertise")
    for address in addresses:
        if not is_address(address):
            raise table.bad(
                "advertise",
                f'"{address[:80]}" must be an IP address or the name of this host, without a port',
            )
    if len(addresses) > ADDRESSES_MAX:
        raise table.bad("advertise", f"{len(addresses)} addresses; at most {ADDRESSES_MAX}")
    return addresses


def _system(table: Table) -> str:
    system = table.text("system", BusSettings().system)
    if not is_system_name(system):
        raise table.bad("system", f'system = "{system[:64]}" must be letters a-z, digits and "-", at most 32')
    return system


def _listen(table: Table) -> tuple[str, int] | None:
    value = table.text("listen", "")
    if not value:
        return None
    host, port, _ = table.address("listen", value, example='"0.0.0.0:4222"')
    most = PORT_MAX - BUS_PORTS + 1
    if not 1 <= port <= most:
        raise table.bad(
            "listen", f'listen = "{value[:80]}": the two ports after it are used, too; take 1 to {most}'
        )
    return host, port


def _servers(table: Table) -> tuple[str, ...]:
    servers = table.texts("servers")
    if table.has("servers") and not servers:
        raise table.bad("servers", 'servers is empty: name at least one, e.g. "nats://10.0.0.7:4222"')
    for server in servers:
        if not _SERVER_RE.match(server) or int(server.rpartition(":")[2]) > PORT_MAX:
            raise table.bad("servers", f'"{server[:80]}" must be nats://HOST:PORT or tls://HOST:PORT')
    return servers
