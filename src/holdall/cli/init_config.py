"""What `holdall init` finds on this machine and the configuration it writes. Looks at /dev and /sys only."""

import os
import re
import socket
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdall.model.names import UNIT_RE, is_name


class Found(msgspec.Struct, frozen=True):
    """Units of one kind on this host, and where they were seen."""

    pool: str
    units: tuple[str, ...]
    seen: str
    labels: dict[str, str] = {}


def find_units(root: Path = Path("/")) -> list[Found]:
    """GPUs, serial devices and cores below `root`; every pool has at least one unit."""
    found = [
        Found("gpu", _numbers(root / "dev", r"nvidia([0-9]+)\Z"), "/dev/nvidia*"),
        Found("gpu", _numbers(root / "dev" / "dri", r"renderD([0-9]+)\Z"), "/dev/dri/renderD*"),
        Found("serial", _names(root / "dev", r"(tty(?:USB|ACM)[0-9]+)\Z"), "/dev/ttyUSB*, /dev/ttyACM*"),
        Found("camera", _names(root / "dev", r"(video[0-9]+)\Z"), "/dev/video*"),
        Found(
            "core",
            tuple(str(number) for number in sorted(os.sched_getaffinity(0))),
            "cores this process may use",
        ),
    ]
    pools: dict[str, Found] = {}
    for kind in found:
        if kind.units:
            pools.setdefault(kind.pool, kind)
    return list(pools.values())


def host_name() -> str:
    """This host's name as a node name."""
    name = re.sub(r"[^a-z0-9._-]", "-", socket.gethostname().lower()).lstrip("._-")[:63]
    return name if is_name(name) else "node"


def config_text(found: Sequence[Found], node: str) -> str:
    """The configuration as TOML, with a comment at each place somebody will want to change."""
    lines = [
        "# One file per node. Check it with: holdall doctor. Apply changes with: kill -HUP the node",
        "[node]",
        f"{_quoted('name', node):<27} # unique among the nodes that join",
        '# run_from = ["lab-2"]      # whose commands are started here (holdall run --on); nobody\'s when left out',
        '# run_as = "lab"            # as which user, where the node itself runs as root',
        "",
        "# [bus]                     # without it this node stands alone, or is a client of the system that it joined",
        '# listen = "0.0.0.0:4222"   # others can join here; 4223 and 4224 are used, too. Keys and TLS are made at the start',
        '# servers = ["nats://a:4222"]   # or: a NATS cluster that is there already',
        '# creds = "holdall.creds"       # and this node\'s rights in it. See: holdall nats-config',
        "",
        "[defaults]",
        'ttl = "30s"                 # a lease lives so long without renewal',
        'wait = "inf"                # how long a claim waits if it does not say',
    ]
    for kind in found:
        units = ", ".join(f'"{unit}"' for unit in kind.units)
        lines += [
            "",
            f"[[pool]]                    # found: {kind.seen}",
            f'name = "{kind.pool}"',
            f"units = [{units}]",
            'reach = "host"              # useful on this host only; "system": from any host',
        ]
    lines += [
        "",
        "# [[pool]]",
        '# name = "psu"',
        '# units = ["psu-1", "psu-2"]',
        '# on_release = "labctl off {unit}"   # a failure puts the unit in quarantine, not back in the pool',
        '# check = "labctl ping {unit}"',
        '# max_for = "8h"',
        "",
    ]
    return "\n".join(lines)


def _quoted(key: str, value: str) -> str:
    return f'{key} = "{value}"'


def _numbers(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(_names(folder, pattern), key=int))


def _names(folder: Path, pattern: str) -> tuple[str, ...]:
    if not folder.is_dir():
        return ()
    matches = (re.match(pattern, entry.name) for entry in folder.iterdir())
    return tuple(sorted(match[1] for match in matches if match and UNIT_RE.match(match[1])))
