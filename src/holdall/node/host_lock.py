"""One node of a host for each `host` pool name: two nodes never give one device twice.

The lock is a `flock`, so the kernel drops it with the process, however that ends. The file keeps who had it: when
another node takes over within the same kernel boot, leases of the earlier one may be alive.
"""

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from holdall.model.errors import BadConfig
from holdall.node import paths


class Owner(msgspec.Struct, frozen=True):
    """Who has (or had) a lock."""

    node: str
    state: str
    boot_id: str
    pid: int = 0


def owner_now(pool: str) -> Owner | None:
    """Who serves units of this pool name on this host at the moment; None: nobody, or nobody who can be told."""
    for folder in paths.lock_folders():
        try:
            descriptor = os.open(folder / f"holdall-{pool}.lock", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _read(descriptor)
        finally:
            os.close(descriptor)
    return None


class HostLocks:
    """The locks that this process has. A pool name's lock is taken in each folder that all users share."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._files: dict[str, list[int]] = {}

    def take(self, pool: str) -> bool:
        """Take the lock of this pool name; idempotent.

        True when another node may have given its units in this kernel boot. Raises BadConfig when one has it now.
        """
        if pool in self._files:
            return False
        files: list[int] = []
        was_other = False
        self._files[pool] = files
        for folder in paths.lock_folders():
            descriptor = _open(folder / f"holdall-{pool}.lock", make_folder=len(paths.lock_folders()) == 1)
            if descriptor < 0:
                continue
            files.append(descriptor)
            earlier = _read(descriptor)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.give_up(pool)
                raise BadConfig(_taken_text(pool, earlier)) from None
            was_other = was_other or self._is_other(earlier)
            self._write(descriptor)
        return was_other

    def give_up(self, pool: str) -> None:
        """Let the lock of this pool name go, as when it is taken out of the configuration."""
        for descriptor in self._files.pop(pool, []):
            os.close(descriptor)

    def close(self) -> None:
        """Let all locks go."""
        for pool in list(self._files):
            self.give_up(pool)

    def _is_other(self, earlier: Owner | None) -> bool:
        return (
            earlier is not None
            and earlier.boot_id == self._owner.boot_id
            and (earlier.node, earlier.state) != (self._owner.node, self._owner.state)
        )

    def _write(self, descriptor: int) -> None:
        body = msgspec.json.encode(msgspec.structs.replace(self._owner, pid=os.getpid()))
        # Another user's file can be locked, but not written: then its words are out of date and say so by boot id.
        with contextlib.suppress(OSError):
            os.pwrite(descriptor, body + b"\n", 0)
            os.ftruncate(descriptor, len(body) + 1)


def _open(path: Path, *, make_folder: bool) -> int:
    if make_folder:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    for attempt in (os.O_RDWR, os.O_RDWR | os.O_CREAT, os.O_RDONLY):
        try:
            return os.open(path, attempt | flags, 0o644)
        except OSError:
            continue
    return -1


def _read(descriptor: int) -> Owner | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 4096, 0), type=Owner)
    except (OSError, msgspec.MsgspecError, ValueError):
        return None


def _taken_text(pool: str, owner: Owner | None) -> str:
    by = f'node "{owner.node}" (process {owner.pid}, state {owner.state})' if owner else "another node"
    return (
        f'pool {pool} has reach = "host" and is served by {by} on this host. '
        "Stop that node, or take the pool out of one of the two configurations."
    )
