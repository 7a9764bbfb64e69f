"""What a test may ask of the machine with `@pytest.mark.requires(...)`: how each is probed and how to get it."""

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Capability:
    """One thing a machine can offer, and what to do where it does not."""

    offered: Callable[[], bool]
    remedy: str


def _succeeds(*command: str) -> bool:
    """Whether a short probe command ends with 0; a missing command counts as no."""
    try:
        return subprocess.run(command, capture_output=True, check=False, timeout=20).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _tool(name: str) -> Callable[[], bool]:
    return lambda: shutil.which(name) is not None


def _is_root() -> bool:
    return os.geteuid() == 0


def _traces_processes() -> bool:
    return shutil.which("strace") is not None and _succeeds("strace", "-o", "/dev/null", "true")


def _makes_network_namespaces() -> bool:
    return shutil.which("ip") is not None and _succeeds("unshare", "--net", "ip", "link", "set", "lo", "up")


def _makes_mount_namespaces() -> bool:
    return _succeeds("unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", "/mnt")


def _switches_user() -> bool:
    return _is_root() and _succeeds("setpriv", "--reuid", "65534", "--clear-groups", "true")


def _shows_the_dashboard() -> bool:
    import holdall.http

    return (Path(holdall.http.__file__).parent / "dashboard/index.html").exists()


def _limits_by_cgroups() -> bool:
    from holdall.guardian.enforcement.ladder import probe

    return {"cpu", "mem", "processes"} <= {
        term for rung in probe() if "cgroup" in rung.name for term in rung.keeps
    }


def _makes_cgroups() -> bool:
    """Whether a cgroup tree of version 2 can be mounted in a mount namespace, with cgroups that can be killed."""
    steps = 'mount -t cgroup2 cgroup2 /mnt && mkdir "$0" && test -e "$0/cgroup.kill"; found=$?; rmdir "$0"; exit $found'
    return _succeeds("unshare", "--mount", "sh", "-c", steps, f"/mnt/holdall-probe-{os.getpid()}")


CAPABILITIES: Mapping[str, Capability] = {
    "linux": Capability(lambda: sys.platform == "linux", "run on Linux"),
    "cgroup-limits": Capability(
        _limits_by_cgroups, "run as root where the controllers cpu, memory and pids are mounted and writable"
    ),
    "root": Capability(_is_root, "run as root"),
    "other-user": Capability(_switches_user, "run as root with setpriv (package util-linux)"),
    "pypy3": Capability(
        lambda: _succeeds("pypy3", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"),
        "install PyPy for Python 3.11 or later as `pypy3`",
    ),
    "strace": Capability(_traces_processes, "apt-get install strace, and allow ptrace"),
    "netns": Capability(_makes_network_namespaces, "apt-get install iproute2, run as root with namespaces"),
    "mountns": Capability(_makes_mount_namespaces, "run as root with mount namespaces"),
    "cgroup": Capability(
        _makes_cgroups, "run as root with mount namespaces and cgroups of version 2 (Linux 5.14)"
    ),
    "nft": Capability(_tool("nft"), "apt-get install nftables"),
    "git": Capability(_tool("git"), "apt-get install git"),
    "systemd": Capability(_tool("systemd-analyze"), "apt-get install systemd"),
    "browser": Capability(_tool("chromium"), "apt-get install chromium"),
    "dashboard": Capability(_shows_the_dashboard, "run scripts/dashboard (needs nodejs and npm)"),
    "bash": Capability(_tool("bash"), "apt-get install bash"),
    "zsh": Capability(_tool("zsh"), "apt-get install zsh"),
    "fish": Capability(_tool("fish"), "apt-get install fish"),
}


@functools.cache
def offered(name: str) -> bool:
    """Whether this machine offers the capability; each is probed once.

    Raises KeyError for a name that is not in `CAPABILITIES`.
    """
    return CAPABILITIES[name].offered()


def unmet(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `names` that this machine does not offer, in the order given."""
    return tuple(name for name in names if not offered(name))
