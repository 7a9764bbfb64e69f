"""Reads `[bus]`: a server of the node's own that others can join, or a cluster that somebody else runs."""

import re
from collections.abc import Mapping
from pathlib import Path

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
    if servers and not table.has("creds"):
        raise table.bad(
            "servers", 'servers need creds = "FILE", this node\'s rights there. See: holdall nats-config'
        )
    if table.has("creds") and not servers:
        raise table.bad("creds", "creds is for a cluster that somebody else runs: give its servers, too")
    if table.has("server") and servers:
        raise table.bad("server", "server is the program of a server of its own: leave it out beside servers")
    return BusSettings(
        listen=listen, servers=servers, creds=_file(table, "creds", path), server=_file(table, "server", path)
    )


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


def _file(table: Table, key: str, path: Path | None) -> Path | None:
    if not table.has(key):
        return None
    text = table.text(key, "")
    if not text.strip():
        raise table.bad(key, f"{key} is empty: name a file, or leave it out")
    named = Path(text).expanduser()
    return named if named.is_absolute() or path is None else (path.parent / named).absolute()
