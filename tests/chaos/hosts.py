"""Hosts with a node and a nats-server each: started, killed, stopped, without their disk, after a loss of power."""

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.network import Network
from chaos.processes import is_alive
from node.waiting import until
from system.many_nodes import PID_FILE, free_ports

from holdall.node import boot, paths

HOLDALL = (sys.executable, "-m", "holdall.cli")
PORT = 4222
JOURNAL = "holdall.db"

CONFIG = """
[node]
name = "{name}"
state = "st"
listen = "off"

[bus]
listen = "{listen}"

[defaults]
ttl = "{ttl}"
ttl_max = "{ttl_max}"
margin = "100ms"
protocol = "{protocol}"
"""


class Host:
    """A folder with a configuration, its node process, and what else belongs to one machine."""

    def __init__(self, number: int, folder: Path, config: str, prefix: tuple[str, ...]) -> None:
        self.number = number
        self.name = f"h{number}"
        self.folder = folder
        self.prefix = prefix
        self.config = folder / "holdall.toml"
        self.state = folder / "st"
        self.process: subprocess.Popen[bytes] | None = None
        self.boots = 1
        self._begun_at = 0
        """Where in its log the present start begins."""
        folder.mkdir()
        self.config.write_text(config)

    @property
    def socket(self) -> Path:
        return self.state / paths.SOCKET_NAME

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def environment(self) -> Mapping[str, str]:
        """For whatever runs on this host."""
        inherited = {
            name: text for name, text in os.environ.items() if not name.startswith(("HOLDALL_", "XDG_"))
        }
        mark = {name: text for name, text in os.environ.items() if name == "HOLDALL_TEST_RUN"}
        return {
            **inherited,
            **mark,
            paths.RUN_ENV: str(self.folder / "run"),
            boot.BOOT_ID_ENV: f"{self.name}-boot-{self.boots}",
            "HOME": str(self.folder),
            "HOLDALL_URL": self.url,
            "TMPDIR": str(self.folder),
        }

    def begin(self, *words: str) -> None:
        """Start its node without waiting; `words`: another command than `serve`."""
        log = self.folder / "err"
        self._begun_at = log.stat().st_size if log.exists() else 0
        with (self.folder / "out").open("wb") as out, log.open("ab") as errors:
            self.process = subprocess.Popen(
                [*self.prefix, *HOLDALL, *(words or ("serve",))],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
            )

    def join(self, line: str) -> None:
        """Paste a line that another node printed, and wait until this one serves."""
        word, *rest = shlex.split(line)
        assert word == "holdall"
        self.begin(*rest, "--config", str(self.config))
        until(self.serves, f"{self.name} serves")

    def join_line(self) -> str:
        """A fresh line for one more node. Only hosts with a nats-server have one: the first three."""
        done = subprocess.run(
            [*self.prefix, *HOLDALL, "join"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout.strip()

    def serves(self) -> bool:
        """Whether its present start has got so far. Fails when it has ended."""
        assert self.process is not None
        assert self.process.poll() is None, f"{self.name} ended: {self.said()[-3000:]}"
        return "\nnext " in f"\n{self.said()}"

    def said(self) -> str:
        """The log of its present start."""
        with (self.folder / "err").open("rb") as log:
            log.seek(self._begun_at)
            return log.read().decode(errors="replace")

    def server_pid(self) -> int | None:
        """Of its running nats-server; None when it has none now."""
        try:
            pid = int((self.state / paths.BUS_NAME / PID_FILE).read_text())
        except (OSError, ValueError):
            return None
        return pid if is_alive(pid) else None

    def kill(self) -> None:
        """`kill -9` of the node; the kernel ends its nats-server with it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> int:
        """In order; its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(60)
        self.process = None
        return status

    def lose_journal(self) -> None:
        """What a new disk means. Its key and its rights on the bus were kept elsewhere."""
        for file in self.state.glob(f"{JOURNAL}*"):
            file.unlink()

    def lose_power(self) -> None:
        """Nothing of the host lives, and what lies in memory only is empty after the next start."""
        self.boots += 1
        shutil.rmtree(self.folder / "run", ignore_errors=True)

    def close(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
            self.kill()


def make_hosts(
    folder: Path,
    pools: Sequence[Mapping[str, int]],
    network: Network | None,
    *,
    ttl: str,
    ttl_max: str,
    protocol: str = "chain",
) -> list[Host]:
    """Not started. `pools`: size of each pool of each host; without a network they share the loopback."""
    made: list[Host] = []
    for number, sizes in enumerate(pools):
        listen = f"127.0.0.1:{free_ports()}" if network is None else f"{network.address(number)}:{PORT}"
        config = CONFIG.format(name=f"h{number}", listen=listen, ttl=ttl, ttl_max=ttl_max, protocol=protocol)
        for pool, size in sizes.items():
            units = json.dumps([f"{pool}-{unit}" for unit in range(1, size + 1)])
            config += f'\n[[pool]]\nname = "{pool}"\nunits = {units}\n'
        prefix = () if network is None else network.prefix(number)
        made.append(Host(number, folder / f"h{number}", config, prefix))
    return made


def start_together(hosts: Sequence[Host]) -> None:
    """The first makes a system, the others join it."""
    first, *others = hosts
    first.begin("serve", "--new")
    until(first.serves, "the first node serves")
    for host in others:
        host.join(first.join_line())
