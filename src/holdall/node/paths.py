"""Where a node keeps its things: state folder, socket, run folder, and the limits of unix socket names."""

import os
from pathlib import Path

SOCKET_NAME = "holdall.sock"
HTTP_SOCKET_NAME = "http.sock"
HEALTH_SOCKET_NAME = "health.sock"
"""Where the node itself answers its HTTP server whether it serves."""
JOURNAL_NAME = "holdall.db"
LOCK_NAME = "holdall.lock"
KEY_NAME = "node.key"
BUS_NAME = "bus"
"""Folder of what the bus needs: certificates, rights, its server's files."""
NEW_NAME = "new"
"""`holdall init` leaves this file in a state folder; the first start uses it up."""

SOCKET_PATH_BYTES_MAX = 107
"""Linux's `sun_path` holds 108 bytes with the closing zero."""

RUN_ENV = "HOLDALL_RUN_DIR"
"""Replaces `/run/holdall` (run marks, locks of `host` pools, the system node's socket); for containers and tests."""


def run_folder() -> Path:
    """The system's run folder of holdall; emptied by the system at boot."""
    return Path(os.environ.get(RUN_ENV) or "/run/holdall")


def is_system() -> bool:
    """Whether a node started now without `[node].state` is the host's system node."""
    return os.geteuid() == 0


def system_state() -> Path:
    """The journal of the system node must outlive a boot, so it does not lie in the run folder.

    systemd names the folder of a unit with `StateDirectory=` in `STATE_DIRECTORY`.
    """
    return Path(os.environ.get("STATE_DIRECTORY") or "/var/lib/holdall")


def user_state() -> Path:
    """The state folder of this user's node."""
    home = os.environ.get("XDG_STATE_HOME")
    return (Path(home) if home else Path("~/.local/state").expanduser()) / "holdall"


def default_state() -> Path:
    """The state folder of a node whose configuration names none."""
    return system_state() if is_system() else user_state()


def mark_folders() -> tuple[Path, ...]:
    """Where run marks may lie, the preferred one first. Empty: nothing here is emptied at boot."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    own = (Path(runtime) / "holdall",) if runtime else ()
    folder = run_folder()
    shared = (folder,) if os.geteuid() == 0 or os.environ.get(RUN_ENV) or folder.is_dir() else ()
    return shared + own if os.geteuid() == 0 or os.environ.get(RUN_ENV) else own + shared


def lock_folders() -> tuple[Path, ...]:
    """Folders that every user of this host can write; a node takes its host-wide locks in each that exists.

    Systems differ in which of them is open to all, so one alone would let two users miss each other.
    """
    if os.environ.get(RUN_ENV):
        return (run_folder() / "locks",)
    # Only lock files lie there, and they are opened without following links.
    return (Path("/run/lock"), Path("/dev/shm"), Path("/tmp"))  # noqa: S108


def socket_path_problem(path: Path) -> str:
    """Why a unix socket can't have this path; empty when it can."""
    size = len(os.fsencode(path))
    if size <= SOCKET_PATH_BYTES_MAX:
        return ""
    return (
        f"the socket path {path} has {size} bytes; unix sockets allow {SOCKET_PATH_BYTES_MAX}. "
        "Set [node].state to a shorter path."
    )
