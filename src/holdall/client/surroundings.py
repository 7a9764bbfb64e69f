"""What a command finds around it: variables that name its lease, units and fences, and a folder for the lease file."""

import contextlib
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdall.client.address import URL_ENV
from holdall.client.scope import LEASE_ENV
from holdall.client.tenure import Tenure
from holdall.model.errors import BadSpec
from holdall.model.frames import HeldUnit, Need
from holdall.model.names import variable_part

UNITS_ENV = "HOLDALL_UNITS_"
FENCE_ENV = "HOLDALL_FENCE_"
FILE_ENV = "HOLDALL_LEASE_FILE"
LEASE_FILE_NAME = "lease.json"


def child_environment(
    base: Mapping[bytes, bytes],
    tenure: Tenure,
    *,
    node_url: str,
    lease_file: str,
    settings: Sequence[tuple[str, str]],
) -> dict[bytes, bytes]:
    """`base` and the lease. Variables of an outer lease that this one does not replace stay as they are."""
    units: dict[str, list[HeldUnit]] = {}
    for unit in tenure.lease.units:
        units.setdefault(unit.pool, []).append(unit)
    one_node = len({unit.node for unit in tenure.lease.units}) <= 1
    environment = dict(base)

    def put(name: str, value: str) -> None:
        environment[os.fsencode(name)] = os.fsencode(value)

    put(LEASE_ENV, tenure.key)
    put(FILE_ENV, lease_file)
    put(URL_ENV, node_url)
    for pool, held in units.items():
        put(UNITS_ENV + variable_part(pool), _names(held, short=one_node))
        put(FENCE_ENV + variable_part(pool), ",".join(str(unit.fence) for unit in held))
    for variable, pool in settings:
        # Empty where another alternative was granted.
        put(variable, _names(units.get(pool, ()), short=one_node))
    return environment


def check_settings(settings: Sequence[tuple[str, str]], needs: Sequence[Need]) -> None:
    """Each `--set VAR=POOL` names a pool that is asked for. Raises BadSpec, before anything is claimed."""
    pools = list(dict.fromkeys(pool for need in needs for option in need.options for pool in option.pools))
    for variable, pool in settings:
        if pool not in pools:
            asked = ", ".join(pools)
            raise BadSpec(f"--set {variable}={pool}: pool {pool!r} is not asked for. Asked for: {asked}")


def _names(units: Sequence[HeldUnit], *, short: bool) -> str:
    return ",".join(unit.name if short else f"{unit.name}@{unit.node}" for unit in units)


def lease_folder() -> Path:
    """A new folder that only this user can enter, gone at reboot where the system has such a place."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    place = runtime if runtime and os.access(runtime, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="holdall-", dir=place))


def remove_lease_folder(folder: Path) -> None:
    """The guardian does it, too; whoever comes second finds nothing."""
    with contextlib.suppress(OSError):
        (folder / LEASE_FILE_NAME).unlink(missing_ok=True)
        folder.rmdir()
