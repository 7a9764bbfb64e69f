"""How a node comes up: which start this is, and what it may do at once.

Four kinds. `first`: nothing of an earlier node of this name can be alive. `same`: the process died, the journal
is whole. `reboot`: another kernel boot; the journal may lack its last turns unless every commit was synced.
`lost`: there may have been a node, but nothing is known of it. In the last two (`reboot` only at level
`process`) nothing is granted until every lease that may be alive has run out: the quarantine.
"""

import contextlib
import os
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from holdall.leases.messages import MANAGER
from holdall.leases.records import QUARANTINE_KEY, QuarantineRecord
from holdall.machine.contract import Boot, Record
from holdall.machine.host import SEPARATOR
from holdall.model.errors import BadConfig
from holdall.node import paths
from holdall.node.configured import Settings
from holdall.node.release import RELEASED_S
from holdall.node.store import BootRecord

Kind: TypeAlias = Literal["first", "same", "reboot", "lost"]

BOOT_ID_ENV = "HOLDALL_BOOT_ID"
"""Replaces the kernel's boot id, so that a test can pretend a reboot."""

WAITED_OUT_KEY = f"{MANAGER}{SEPARATOR}{QUARANTINE_KEY}"
"""Where the journal tells which start's quarantine ended last."""

_SHIFT = 20


class Start(msgspec.Struct, frozen=True):
    """The decision about one start."""

    kind: Kind
    record: BootRecord
    """To be saved, synced, before anything else."""
    boot: Boot
    """For the machines, which know three kinds. A first start goes on from an empty journal (`same`) where the
    operator vouches for it, else it is a `lost` one without quarantine."""

    @property
    def is_blank(self) -> bool:
        """Whether the machines may start as if there never was anything."""
        return self.kind == "first" and self.boot.fence_base == 0


def kernel_boot_id() -> str:
    """Names the running kernel boot."""
    return (
        os.environ.get(BOOT_ID_ENV)
        or Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    )


def waited_out(record: Record | None) -> int:
    """The incarnation that the record at `WAITED_OUT_KEY` names; 0: no quarantine has ended yet."""
    return record.incarnation if isinstance(record, QuarantineRecord) else 0


def clock_is_plausible(wall_ms: int) -> bool:
    """Whether a start that takes its fences from the wall clock may trust it."""
    return wall_ms >= RELEASED_S * 1000


def decide(
    settings: Settings,
    earlier: BootRecord | None,
    *,
    node: str,
    boot_id: str,
    is_new: bool,
    none_alive: bool,
    boottime_ms: int,
    wall_ms: int,
    others_served: bool = False,
    joins: bool = False,
    waited_out: int = 0,
) -> Start:
    """Which start this is. `node`: the id that the key in the state folder gives.

    `is_new`: the operator says that this node is new. `joins`: a system has just let it in under its name, which it does
    only when no lease of an earlier node of that name can be alive. `none_alive`: no earlier node of this name has run since
    process 1 began, which is longer ago than a lease can live. `others_served`: another node of this host gave
    units of our pools in this kernel boot. `waited_out`: the latest start whose quarantine ended while it ran. Raises BadConfig for a folder of another node, or with another's key.
    """
    name = settings.node.name
    if earlier is None:
        return _without_journal(
            settings,
            node,
            boot_id,
            is_new=is_new,
            none_alive=none_alive,
            boottime_ms=boottime_ms,
            wall_ms=wall_ms,
            others_served=others_served,
            joins=joins,
        )
    if earlier.node != name:
        raise BadConfig(
            f'the state folder {settings.node.state} belongs to node "{earlier.node}", not "{name}". '
            f'Set [node].name = "{earlier.node}", or another [node].state.'
        )
    if earlier.id != node:
        raise BadConfig(
            f"the key in {settings.node.state} is not the one with which its journal was written (node {earlier.id}, "
            f"now {node}). Put the key {paths.KEY_NAME} of that node back; where it is lost, move "
            f"{paths.JOURNAL_NAME} away: the next start then waits until its leases have run out."
        )
    same = earlier.boot_id == boot_id
    if same:
        left = max(0, earlier.quarantine_end_ms - boottime_ms)
    else:
        # What was left of a quarantine can't be told: that clock is gone. So all of it is waited for again.
        in_quarantine = earlier.quarantine_end_ms > 0 and waited_out != earlier.incarnation
        complete = earlier.durability == "power" and not in_quarantine
        left = 0 if complete else settings.defaults.quarantine_ms
    if others_served:
        left = settings.defaults.quarantine_ms
    if is_new:
        left = 0
    record = BootRecord(
        node=name,
        boot_id=boot_id,
        incarnation=earlier.incarnation + 1,
        epoch=earlier.epoch if same else earlier.epoch + 1,
        durability=settings.defaults.durability,
        quarantine_end_ms=boottime_ms + left if left else 0,
        fence_base=earlier.fence_base,
        id=node,
    )
    kind: Kind = "same" if same else "reboot"
    return Start(kind, record, _boot(kind, record, left))


def _without_journal(
    settings: Settings,
    node: str,
    boot_id: str,
    *,
    is_new: bool,
    none_alive: bool,
    boottime_ms: int,
    wall_ms: int,
    others_served: bool,
    joins: bool,
) -> Start:
    # Small numbers only where the operator vouches for a new node and no trace speaks against it: what is guarded
    # by fences may remember an earlier node of this name for longer than any lease lives.
    base = 0 if is_new and none_alive else (wall_ms // 1000) << _SHIFT
    first = is_new or joins or (none_alive and not others_served)
    left = 0 if first else settings.defaults.quarantine_ms
    record = BootRecord(
        node=settings.node.name,
        boot_id=boot_id,
        incarnation=base + 1,
        epoch=base + 1,
        durability=settings.defaults.durability,
        quarantine_end_ms=boottime_ms + left if left else 0,
        fence_base=base,
        id=node,
    )
    return Start("first" if first else "lost", record, _boot("lost" if base else "same", record, left))


def _boot(kind: str, record: BootRecord, quarantine_ms: int) -> Boot:
    return Boot(
        kind=kind,
        epoch=record.epoch,
        incarnation=record.incarnation,
        quarantine_ms=quarantine_ms,
        fence_base=record.fence_base,
    )


# What speaks for an earlier node


def mark_as_new(state: Path) -> None:
    """Leave the operator's word in a state folder that the node to start here is new (`holdall init`)."""
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    (state / paths.NEW_NAME).touch(mode=0o600)


def is_marked_as_new(state: Path) -> bool:
    """Whether `mark_as_new` has been called here and no start has used it up."""
    return (state / paths.NEW_NAME).exists()


def use_up_new_mark(state: Path) -> None:
    """A start took the operator's word: the next one needs it anew."""
    with contextlib.suppress(FileNotFoundError):
        (state / paths.NEW_NAME).unlink()


def none_alive(name: str, *, quarantine_ms: int, boottime_ms: int) -> bool:
    """Whether no node of this name can have granted anything that is still alive.

    That is so when no run mark of it lies in a folder that the system empties at boot, and process 1 of this pid
    namespace (the boot, or the container's start) is older than any lease can be.
    """
    folders = paths.mark_folders()
    if not folders or any(_mark_path(folder, name).exists() for folder in folders):
        return False
    began = process_start_ms(1)
    return began is not None and boottime_ms - began > quarantine_ms


def leave_run_mark(name: str, state: Path, boot_id: str) -> None:
    """Show that a node of this name has run since the boot; without a writable folder nothing is left.

    A later start without journal then waits out the quarantine unless the operator speaks.
    """
    for folder in paths.mark_folders():
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o755)
            body = msgspec.json.encode({"node": name, "state": str(state), "boot_id": boot_id})
            _mark_path(folder, name).write_bytes(body + b"\n")
        except OSError:
            continue
        return


def process_start_ms(pid: int) -> int | None:
    """When the process began, in milliseconds of CLOCK_BOOTTIME; None when it can't be read."""
    ticks = process_start_ticks(pid)
    return None if ticks == 0 else ticks * 1000 // os.sysconf("SC_CLK_TCK")


def process_start_ticks(pid: int) -> int:
    """Field 22 of /proc/PID/stat: with the pid it names a process for ever. 0 when it can't be read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The second field is the command in parentheses and may itself contain spaces and parentheses.
    return int(stat.rpartition(b")")[2].split()[19])


def _mark_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.mark"
