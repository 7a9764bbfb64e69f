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
from holdall.model.frames import HeldUnit, LeaseView, Need
from holdall.model.names import variable_part

UNITS_ENV = "HOLDALL_UNITS_"
FENCE_ENV = "HOLDALL_FENCE_"
FILE_ENV = "HOLDALL_LEASE_FILE"
LOCATION_LEASE_ENV = "HOLDALL_LOCATION_LEASE"
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
    units = _by_pool(tenure.lease)
    added = {LEASE_ENV: tenure.key, FILE_ENV: lease_file, URL_ENV: node_url, **_of_units(tenure.lease)}
    # Empty where another alternative was granted.
    added |= {
        variable: _names(units.get(pool, ()), short=_on_one_node(tenure.lease)) for variable, pool in settings
    }
    return _with(base, added)


def negotiated_environment(
    base: Mapping[bytes, bytes], lease: LeaseView, *, node_url: str, lease_file: str
) -> dict[bytes, bytes]:
    """`base` and a negotiated lease, which has no key; that of an outer lease stays as it is."""
    added = {LOCATION_LEASE_ENV: lease.lease, FILE_ENV: lease_file, URL_ENV: node_url, **_of_units(lease)}
    return _with(base, added)


def check_settings(settings: Sequence[tuple[str, str]], needs: Sequence[Need]) -> None:
    """Each `--set VAR=POOL` names a pool that is asked for. Raises BadSpec, before anything is claimed."""
    pools = list(dict.fromkeys(pool for need in needs for option in need.options for pool in option.pools))
    for variable, pool in settings:
        if pool not in pools:
            asked = ", ".join(pools)
            raise BadSpec(f"--set {variable}={pool}: pool {pool!r} is not asked for. Asked for: {asked}")


def _with(base: Mapping[bytes, bytes], added: Mapping[str, str]) -> dict[bytes, bytes]:
    return {**base, **{os.fsencode(name): os.fsencode(value) for name, value in added.items()}}


def _of_units(lease: LeaseView) -> dict[str, str]:
    """The variables that name units and their fences."""
    short = _on_one_node(lease)
    found: dict[str, str] = {}
    for pool, held in _by_pool(lease).items():
        found[UNITS_ENV + variable_part(pool)] = _names(held, short=short)
        found[FENCE_ENV + variable_part(pool)] = ",".join(str(unit.fence) for unit in held)
    return found


def _by_pool(lease: LeaseView) -> dict[str, list[HeldUnit]]:
    units: dict[str, list[HeldUnit]] = {}
    for unit in lease.units:
        units.setdefault(unit.pool, []).append(unit)
    return units


def _on_one_node(lease: LeaseView) -> bool:
    return len({unit.node for unit in lease.units}) <= 1


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
