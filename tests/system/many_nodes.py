"""Several real node processes with real nats-servers on one host, joined as a person joins them: by pasted lines."""

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

from node.lab import Client
from node.waiting import until

from holdall.node import boot, paths

HOLDALL = (sys.executable, "-m", "holdall.cli")
BUS_PORTS = 3
PID_FILE = "nats-server.pid"
DEFAULTS = '[defaults]\nttl = "12s"\nttl_max = "20s"\nmargin = "200ms"\n'


def free_ports() -> int:
    """The first of three ports in a row that nobody uses now, below those that outgoing connections get."""
    while True:
        port = random.randrange(20_000, 32_000, BUS_PORTS)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for more in range(BUS_PORTS):
                stack.enter_context(socket.create_server(("127.0.0.1", port + more)))
            return port


class NodeProcess:
    """A folder with a configuration, and the process that serves it."""

    def __init__(self, folder: Path, environment: Mapping[str, str], name: str, config: str) -> None:
        self.name = name
        self.folder = folder
        self.config = folder / "holdall.toml"
        self.state = folder / "st"
        self.environment = {**environment, "HOLDALL_URL": f"unix://{self.socket}"}
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(exist_ok=True)
        self.config.write_text(f'[node]\nname = "{name}"\nstate = "st"\nlisten = "off"\n{config}')

    @property
    def socket(self) -> Path:
        return self.state / paths.SOCKET_NAME

    def begin(self, *arguments: str) -> None:
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as errors:
            self.process = subprocess.Popen(
                [*HOLDALL, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )

    def serve(self, *arguments: str) -> None:
        """Start it and wait until it serves."""
        self.begin("serve", *arguments)
        self.wait()

    def join(self, line: str, *arguments: str) -> None:
        """Paste a line of another node, and wait until this one serves."""
        self.begin_join(line, *arguments)
        self.wait()

    def begin_join(self, line: str, *arguments: str) -> None:
        word, *rest = shlex.split(line)
        assert word == "holdall"
        self.begin(*rest, *arguments)

    def wait(self) -> None:
        until(self._serves, f"{self.name} serves")

    def _serves(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} ended: {self.said()}"
        return "\nnext " in self.said()

    def said(self) -> str:
        return (self.folder / "err").read_text()

    def join_line(self) -> str:
        """The one line on stdout that joins another node."""
        until(lambda: (self.folder / "out").read_text().endswith("\n"), "the line is there")
        (line,) = (self.folder / "out").read_text().splitlines()
        assert line.startswith("holdall join hd1-")
        return line

    def server_pid(self) -> int:
        return int((self.state / paths.BUS_NAME / PID_FILE).read_text())

    def command(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """A command at this node, from beginning to end."""
        return subprocess.run(
            [*HOLDALL, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=90,
        )

    def client(self) -> Client:
        return Client(self.socket)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def reload(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        return self._signal(signal.SIGTERM)

    def ended(self) -> tuple[int, str]:
        """Wait for its end: exit status and what it said."""
        assert self.process is not None
        status = self.process.wait(60)
        self.process = None
        return status, self.said()

    def _signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        status = self.process.wait(60)
        self.process = None
        return status


class System:
    """Nodes below one folder, as on one host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes: list[NodeProcess] = []
        self.environment = {
            name: text for name, text in os.environ.items() if not name.startswith(("HOLDALL_", "XDG_"))
        } | {paths.RUN_ENV: str(folder / "run"), boot.BOOT_ID_ENV: "boot-1", "HOME": str(folder)}

    def node(
        self, folder: str, name: str, *units: str, bus: str | None = None, defaults: str = DEFAULTS
    ) -> NodeProcess:
        """Not started. It has a pool `psu` with these units and one of its own, `bench-` and its folder."""
        pools = f'[[pool]]\nname = "bench-{folder}"\ncount = 1\n'
        if units:
            listed = ", ".join(f'"{unit}"' for unit in units)
            pools += f'[[pool]]\nname = "psu"\nunits = [{listed}]\n'
        given = f'[bus]\nlisten = "127.0.0.1:{free_ports()}"\n' if bus is None else bus
        made = NodeProcess(self.folder / folder, self.environment, name, given + defaults + pools)
        self.nodes.append(made)
        return made

    def close(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.kill()
            if (node.folder / "err").exists():
                sys.stderr.write(f"--- {node.name} in {node.folder.name}\n{node.said()}")


@contextlib.contextmanager
def system() -> Generator[System]:
    """In a folder with a short name, since socket paths must be short."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd", ignore_cleanup_errors=True) as folder:
        made = System(Path(folder))
        try:
            yield made
        finally:
            made.close()


def is_alive(pid: int) -> bool:
    """Whether a process with this number runs and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
