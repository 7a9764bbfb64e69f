"""What `holdall init` finds on this machine and the configuration it writes. Looks at /dev and /sys, asks nvidia-smi."""

import os
import re
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdall.model.names import UNIT_RE, is_name

NVIDIA_SMI = ("nvidia-smi", "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits")
NVIDIA_SMI_WITHIN_S = 10.0
CORE_HINT = "holdall run --need core:2 --set CPUS=core -- sh -c 'taskset -c $CPUS COMMAND'"


class Found(msgspec.Struct, frozen=True):
    """Units of one kind on this host, and where they were seen."""

    pool: str
    units: tuple[str, ...]
    seen: str
    labels: dict[str, str] = {}
    hint: str = ""
    """How a command uses them, for a comment; empty: nothing to say."""


def find_units(root: Path = Path("/"), *, nvidia_smi: Sequence[str] = NVIDIA_SMI) -> list[Found]:
    """GPUs, serial devices, cameras and cores below `root`; every pool has at least one unit."""
    cores = tuple(str(number) for number in sorted(os.sched_getaffinity(0)))
    return [
        *_gpus(root, nvidia_smi),
        *_serial_devices(root / "dev"),
        *_some("camera", _names(root / "dev", r"(video[0-9]+)\Z"), "/dev/video*"),
        Found("core", cores, "cores this process may use", hint=CORE_HINT),
    ]


def _some(pool: str, units: tuple[str, ...], seen: str, *, hint: str = "") -> Iterator[Found]:
    if units:
        yield Found(pool, units, seen, hint=hint)


def _gpus(root: Path, nvidia_smi: Sequence[str]) -> Iterator[Found]:
    """Of the first kind that is found: what several drivers show is often the same board."""
    hint = "holdall run --need gpu --set CUDA_VISIBLE_DEVICES=gpu -- COMMAND"
    if boards := _asked_nvidia(nvidia_smi):
        for labels, units in boards:
            yield Found("gpu", units, "nvidia-smi", labels, hint)
    elif units := _numbers(root / "dev", r"nvidia([0-9]+)\Z"):
        yield Found("gpu", units, "/dev/nvidia*", hint=hint)
    elif (root / "dev" / "kfd").exists() and (count := _kfd_gpus(root)):
        hint = "holdall run --need gpu --set ROCR_VISIBLE_DEVICES=gpu -- COMMAND"
        yield Found("gpu", tuple(map(str, range(count))), "/dev/kfd", {"vendor": "amd"}, hint)
    else:
        yield from _some("gpu", _numbers(root / "dev" / "dri", r"renderD([0-9]+)\Z"), "/dev/dri/renderD*")


def _asked_nvidia(command: Sequence[str]) -> list[tuple[dict[str, str], tuple[str, ...]]]:
    """(labels, units) for each model that nvidia-smi lists; nothing where it is missing or has nothing to say."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=NVIDIA_SMI_WITHIN_S
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    boards: dict[tuple[str, str], list[str]] = {}
    for line in done.stdout.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 3 and parts[0].isdecimal():
            boards.setdefault((_label(parts[1]), _memory(parts[2])), []).append(parts[0])
    return [
        ({key: value for key, value in (("model", model), ("mem", memory)) if value}, tuple(units))
        for (model, memory), units in boards.items()
    ]


def _label(model: str) -> str:
    words = [word for word in re.findall(r"[a-z0-9.]+", model.lower()) if word not in {"nvidia", "geforce"}]
    return "-".join(words)[:63]


def _memory(mib: str) -> str:
    return f"{round(int(mib) / 1024)}G" if mib.isdecimal() else ""


def _kfd_gpus(root: Path) -> int:
    """GPUs among the nodes that AMD's driver lists; CPUs are nodes there too, without any SIMD unit."""
    nodes = root / "sys" / "class" / "kfd" / "kfd" / "topology" / "nodes"
    found = 0
    for node in nodes.glob("[0-9]*"):
        try:
            told = re.search(r"^simd_count (\d+)$", (node / "properties").read_text(), re.MULTILINE)
        except OSError:
            continue
        found += told is not None and int(told[1]) > 0
    return found


def _serial_devices(dev: Path) -> Iterator[Found]:
    """By the names that stay when a device is plugged in elsewhere, as far as they are names of units; else by ttys."""
    hint = ""
    units: list[str] = []
    by_tty = {link.resolve().name: link.name for link in _entries(dev / "serial" / "by-id")}
    for tty in _names(dev, r"(tty(?:USB|ACM)[0-9]+)\Z"):
        lasting = by_tty.get(tty, "")
        units.append(lasting if UNIT_RE.match(lasting) else tty)
    if any(unit in by_tty.values() for unit in units):
        hint = "holdall run --need serial --set TTY=serial -- sh -c 'picocom /dev/serial/by-id/$TTY'"
    yield from _some("serial", tuple(sorted(units)), "/dev/ttyUSB*, /dev/ttyACM*", hint=hint)


def host_name() -> str:
    """This host's name as a node name."""
    name = re.sub(r"[^a-z0-9._-]", "-", socket.gethostname().lower()).lstrip("._-")[:63]
    return name if is_name(name) else "node"


def told(found: Sequence[Found]) -> str:
    """What was found, a line for each kind, for people."""
    lines = (
        f"found     {kind.pool}{''.join(f',{key}={value}' for key, value in kind.labels.items())}: "
        f"{len(kind.units)} ({kind.seen})\n"
        for kind in found
    )
    return "".join(lines)


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
            *([f"labels = {_table(kind.labels)}"] if kind.labels else []),
            'reach = "host"              # useful on this host only; "system": from any host',
            *([f"# use: {kind.hint}"] if kind.hint else []),
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


def _table(labels: dict[str, str]) -> str:
    return "{ " + ", ".join(f'{key} = "{value}"' for key, value in labels.items()) + " }"


def _quoted(key: str, value: str) -> str:
    return f'{key} = "{value}"'


def _numbers(folder: Path, pattern: str) -> tuple[str, ...]:
    return tuple(sorted(_names(folder, pattern), key=int))


def _names(folder: Path, pattern: str) -> tuple[str, ...]:
    matches = (re.match(pattern, entry.name) for entry in _entries(folder))
    return tuple(sorted(match[1] for match in matches if match and UNIT_RE.match(match[1])))


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []
