"""`[http]`: who may look without a token, by which names the node is reached, and the certificate for TLS."""

import re
from pathlib import Path

import msgspec

from holdall.node.toml_table import Table

HOSTS_MAX = 100
_HOST_RE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")


class HttpSettings(msgspec.Struct, frozen=True):
    """What the HTTP server of a node is told. Without a certificate it listens on loopback addresses only."""

    anonymous: str = "none"
    """`see`: whoever reaches the port may look; `none`: only `/healthz` is open there."""
    hosts: tuple[str, ...] = ()
    """Names in `Host` headers that are this node's, beside addresses and `localhost`; lower case."""
    certificate: str | None = None
    """File in PEM, the chain after the node's own."""
    key: str | None = None


def read_http(table: Table, path: Path | None) -> HttpSettings:
    """From the table `[http]`. Raises BadConfig."""
    hosts = table.texts("hosts")
    for host in hosts:
        if not _HOST_RE.match(host):
            raise table.bad("hosts", f'"{host[:80]}" must be a host name in lower case, without a port')
    if len(hosts) > HOSTS_MAX:
        raise table.bad("hosts", f"{len(hosts)} names; at most {HOSTS_MAX}")
    if table.has("certificate") != table.has("key"):
        raise table.bad("", "certificate and key belong together: give both files, or neither")
    return HttpSettings(
        anonymous=table.choice("anonymous", HttpSettings().anonymous, {"none": "", "see": ""}),
        hosts=hosts,
        certificate=_existing(table, "certificate", path),
        key=_existing(table, "key", path),
    )


def _existing(table: Table, key: str, path: Path | None) -> str | None:
    found = table.file(key, path)
    if found is not None and not found.is_file():
        raise table.bad(key, f"{key}: there is no file {found}")
    return None if found is None else str(found)
