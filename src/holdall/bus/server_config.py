"""The configuration file of a supervised nats-server.

Every name is written as a JSON string, which is also a string of that file format; so no value can end its own line.
"""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdall.bus.addresses import shown
from holdall.bus.subjects import FRAME_BYTES_MAX

CONNECTIONS_MAX = 4096
UNREAD_BYTES_MAX = 16 * 1024 * 1024
"""Of one client; one that reads so slowly is cut off, as it would be for not reading at all for `write_deadline`."""
LOG_BYTES_MAX = 1024 * 1024


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that differs between two servers. Times are in seconds inside the file."""

    folder: Path
    """Of certificates, log and the rest."""
    node: str
    system: str
    instance: str = ""
    """Text of this process. Servers of one name turn each other away, and two processes with one node's identity could
    not find out about each other then.
    """
    listen: tuple[str, int]
    hosts: tuple[str, ...]
    """Under which it is reached from outside."""
    operator: str
    accounts: dict[str, str]
    """Signed text by public half."""
    system_account: str
    routes_password: str
    others: tuple[tuple[str, int], ...]
    """(host, port for clients) of the servers to join; routes are one port above."""


def config_text(config: ServerConfig) -> str:
    """The file. JetStream stays off: what is granted rests in the nodes' own journals."""
    host, port = config.listen
    tls = [
        f"cert_file: {_text(config.folder / 'tls.pem')}",
        f"key_file: {_text(config.folder / 'tls.key')}",
        f"ca_file: {_text(config.folder / 'authority.pem')}",
        "verify: true",
        'min_version: "1.3"',
        "timeout: 2",
    ]
    routes = [
        _text(f"nats-route://servers:{config.routes_password}@{shown(other, port_of + 1)}")
        for other, port_of in config.others
    ]
    return "\n".join(
        (
            "# Written by holdall at each start of the node; changes are lost.",
            f"server_name: {_text(config.node + config.instance)}",
            f"listen: {_text(shown(host, port))}",
            f"max_payload: {FRAME_BYTES_MAX}",
            "max_control_line: 1024",
            f"max_connections: {CONNECTIONS_MAX}",
            f"max_pending: {UNREAD_BYTES_MAX}",
            'write_deadline: "2s"',
            'ping_interval: "2s"',
            "ping_max: 2",
            f"pid_file: {_text(config.folder / 'nats-server.pid')}",
            f"log_file: {_text(config.folder / 'nats-server.log')}",
            f"logfile_size_limit: {LOG_BYTES_MAX}",
            "logfile_max_num: 2",
            f"operator: {_text(config.operator)}",
            "resolver: MEMORY",
            f"system_account: {config.system_account}",
            *_block("resolver_preload", [f"{one}: {_text(text)}" for one, text in config.accounts.items()]),
            *_block("tls", [*tls, "handshake_first: true"]),
            "cluster {",
            f"  name: {_text(config.system)}",
            f"  listen: {_text(shown(host, port + 1))}",
            f"  advertise: {_text(shown(config.hosts[0], port + 1))}",
            "  no_advertise: true",  # clients learn of servers from notices, with all their addresses
            "  pool_size: 1",
            '  ping_interval: "2s"',
            *(f"  {line}" for line in _authorization(config.routes_password)),
            *(f"  {line}" for line in _block("tls", tls)),
            f"  routes: [ {', '.join(routes)} ]",
            "}",
            "",
        )
    )


def _block(name: str, lines: Sequence[str]) -> list[str]:
    return [f"{name} {{", *(f"  {line}" for line in lines), "}"]


def _authorization(password: str) -> list[str]:
    return _block("authorization", ["user: servers", f"password: {_text(password)}", "timeout: 2"])


def _text(value: object) -> str:
    return json.dumps(str(value))
