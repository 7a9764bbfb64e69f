"""A real guardian process, driven by a test that plays its wrapper; the node is a scripted one."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from client.scripted_node import ScriptedNode, lease_view

from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.figures import Limits
from holdall.model import frames
from holdall.model.spec import parse_needs
from holdall.model.terms import LeaseDocument

WITHIN_S = 40.0
NO_LIMITS = Limits()
Report = TypeVar("Report")


def until(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end, f"not within {WITHIN_S:g} s: {what}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether that process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Guarded:
    """`ttl_ms` and `grace_ms` are short here. The deadline at first leaves a busy machine time to start Python."""

    def __init__(
        self,
        node: ScriptedNode,
        *command: str,
        ttl_ms: int = 30_000,
        grace_ms: int = 5_000,
        deadline_in_ms: int | None = 60_000,
        view: bool = False,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
        limits: Limits = NO_LIMITS,
        stay_ms: int | None = None,
        before_end: orders.BeforeEnd | None = None,
        hard_end_in_ms: int | None = None,
        negotiated: LeaseDocument | None = None,
        inside: tuple[str, ...] = (),
    ) -> None:
        """`inside`: words before the guardian's own, of which the last executes the rest.

        `deadline_in_ms`: as the wrapper says it; None: it leaves that to the node's first answer.
        """
        self.node = node
        self.lease = lease_view(ttl_ms=ttl_ms)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [
                    *inside,
                    sys.executable,
                    "-P",
                    "-m",
                    "holdall.guardian",
                    str(theirs.fileno()),
                    "--",
                    *command,
                ],
                pass_fds=(theirs.fileno(),),
                process_group=0,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )
        ours.settimeout(WITHIN_S)
        self.wrapper = ours
        self.tell(
            orders.Start(
                key="key-" + self.lease.lease,
                lease=self.lease,
                node=str(node.path),
                ttl_ms=ttl_ms,
                deadline_ms=None if deadline_in_ms is None else boottime_ms() + deadline_in_ms,
                grace_ms=grace_ms,
                view=parse_needs(["gpu:1"]) if view else (),
                lease_file="" if folder is None else str(folder / "lease.json"),
                hard_end_ms=None if hard_end_in_ms is None else boottime_ms() + hard_end_in_ms,
                limits=limits,
                stay_ms=stay_ms,
                before_end=before_end,
                negotiated=negotiated,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wrapper.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(0 if kind else WITHIN_S)
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def tell(self, order: orders.ToGuardian) -> None:
        self.wrapper.send(orders.pack(order))

    def report(self, kind: type[Report]) -> Report:
        """The next report of this kind; pulses and renewals before it are passed over."""
        while True:
            packet = self.wrapper.recv(orders.ORDER_BYTES_MAX)
            assert packet, f"the guardian ended before it said {kind.__name__}"
            report = orders.read_report(packet)
            if isinstance(report, kind):
                return report
            assert isinstance(
                report, (orders.GuardianPulse, orders.Renewed, orders.Attached, orders.Empty)
            ), report

    def attach(self, **more: object) -> frames.Granted:
        """Let the node hand the lease over."""
        return self.node.grant(self.node.hear(frames.Attach), self.lease, **more)

    def started(self, **more: object) -> int:
        self.attach(**more)
        return self.report(orders.Started).pid

    def released(self) -> frames.ExitRecord:
        """Wait for the release, confirm it, and give what it said."""
        release = self.node.hear(frames.Release)
        assert release.key == "key-" + self.lease.lease
        assert release.exit is not None
        self.node.say(frames.Released(release.n, self.lease.lease, "released"))
        return release.exit


def written_pid(file: Path) -> int:
    """The number that a command wrote into a file."""
    until(lambda: file.exists() and file.read_text().strip(), f"{file.name} is written")
    return int(file.read_text())
