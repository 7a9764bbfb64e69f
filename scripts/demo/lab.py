"""Three nodes on this machine, joined as a person joins them: by the line that a node prints."""

import contextlib
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.demo.stage import Stage

from holdall.node.boot import mark_as_new

HOLDALL = (sys.executable, "-m", "holdall.cli")
BUS_PORTS = 3
"""A node's server takes three ports in a row: for nodes, for other servers, for joining."""
CODE_SHOWN = 12
"""Letters of a join code that are told; who has a code can join."""

POOLS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "lab-1": {"board": ("board-1", "board-2")},
    "lab-2": {"psu": ("psu-1", "psu-2", "psu-3")},
    "lab-3": {"scope": ("scope-1",)},
}


class Node:
    """A folder with a configuration, and the process that serves it."""

    def __init__(self, name: str, folder: Path, port: int) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.config = folder / f"{name}.toml"
        self.url = f"unix://{folder}/state/holdall.sock"
        self.process: subprocess.Popen[str] | None = None
        self.server: int | None = None
        """Process id of the nats-server that it runs."""

    def write_config(self) -> None:
        """Ports, state folder and pools; the rest is as it comes."""
        lines = ["[node]", f'name = "{self.name}"', 'state = "state"', 'listen = "off"']
        lines += ["", "[bus]", f'listen = "127.0.0.1:{self.port}"']
        for pool, units in POOLS[self.name].items():
            lines += ["", "[[pool]]", f'name = "{pool}"', f"units = {json.dumps(list(units))}"]
        self.folder.mkdir()
        # As `holdall init` does: it is new, so its fences may begin at 1.
        mark_as_new(self.folder / "state")
        self.config.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def begin(self, environment: Mapping[str, str], *words: str) -> None:
        """Start its process, in a session of its own: Ctrl-C is for the demonstration, which ends it in order."""
        with (
            (self.folder / "said").open("w", encoding="utf-8") as said,
            (self.folder / "log").open("a", encoding="utf-8") as log,
        ):
            log.write(f"$ holdall {shlex.join(words)}\n")
            log.flush()
            self.process = subprocess.Popen(
                [*HOLDALL, *words],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=log,
                text=True,
                env=dict(environment),
                start_new_session=True,
            )

    def serves(self) -> bool:
        """Whether it answers and its server runs. Raises RuntimeError when it has ended."""
        if self.process is None:
            return False
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.name} ended with status {self.process.returncode}")
        # A node prints a line for one more node when everything of it is up.
        if not (self.folder / "said").read_text(encoding="utf-8").endswith("\n"):
            return False
        self.server = int((self.folder / "state" / "bus" / "nats-server.pid").read_text(encoding="ascii"))
        return True

    def kill(self) -> None:
        """`kill -9`, and nothing else."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


class Lab:
    """The three, and what is asked of them."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self.stage = stage
        self.folder = folder
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("HOLDALL_")}
        self.environment: Mapping[str, str] = {
            **inherited,
            "HOLDALL_RUN_DIR": f"{folder}/run",
            "NO_COLOR": "1",
            "COLUMNS": "200",
        }
        self.nodes = {
            name: Node(name, folder / name, port) for name, port in zip(POOLS, free_ports(), strict=True)
        }

    def at(self, node: str) -> Mapping[str, str]:
        """The environment of whoever works at that node."""
        return {**self.environment, "HOLDALL_URL": self.nodes[node].url}

    def start(self) -> None:
        """The first founds the system; the other two join it with a line each, both at once."""
        first, *others = self.nodes.values()
        for node in self.nodes.values():
            node.write_config()
            for pool, units in POOLS[node.name].items():
                self.stage.tell(node.name, f"has the pool {pool}: {' · '.join(units)}")
        self.stage.tell(first.name, f"$ holdall serve {first.config.name}")
        first.begin(self.environment, "serve", str(first.config))
        self._wait_for(first)
        for node in others:
            # Each line lets one node in.
            _, *words = shlex.split(self.ask(first.name, "join"))
            shown = f"{words[-1][:CODE_SHOWN]}…"
            self.stage.tell(first.name, f"$ holdall join        prints: holdall join {shown}")
            self.stage.tell(node.name, f"$ holdall join {shown} --config {node.config.name}")
            node.begin(self.environment, *words, "--config", str(node.config))
        for node in others:
            self._wait_for(node)
        known = {pool for pools in POOLS.values() for pool in pools}
        for node in self.nodes.values():
            self.stage.wait_until(lambda name=node.name: self.pools(name) == known, "they know each other")  # type: ignore[misc]
        self.stage.tell(
            "demo", "one system: each node knows the pools of all, and no node is above the others"
        )

    def restart(self, node: Node) -> None:
        """As after a crash: the same command, the same state folder."""
        self.stage.tell(node.name, f"$ holdall serve {node.config.name}")
        node.begin(self.environment, "serve", str(node.config))
        self._wait_for(node)

    def _wait_for(self, node: Node) -> None:
        self.stage.wait_until(node.serves, f"{node.name} serves")
        self.stage.tell(
            node.name, f"is up, with a nats-server of its own on ports {node.port} to {node.port + 2}"
        )

    def ask(self, node: str, *command: str) -> str:
        """What a command at a node prints. Raises RuntimeError with its message if it fails."""
        ended = subprocess.run(
            [*HOLDALL, *command],
            capture_output=True,
            text=True,
            check=False,
            env=dict(self.at(node)),
            timeout=20,
            start_new_session=True,
        )
        if ended.returncode:
            said = f"{ended.stderr.strip()}{ended.stdout.strip()}"
            raise RuntimeError(f"holdall {command[0]} ended with {ended.returncode}: {said}")
        return ended.stdout + ended.stderr if command[-1] != "--json" else ended.stdout

    def look(self, node: str, *command: str) -> None:
        """Show what a person at that node would see who asks now."""
        self.stage.tell(node, f"$ holdall {' '.join(command)}")
        self.stage.tell(node, self.ask(node, *command))

    def rows(self, node: str, listing: str) -> list[dict[str, Any]]:
        """Rows of a listing as that node gives it: `who`, `queue`, `pools`."""
        name = {"who": "leases", "queue": "waiting", "pools": "pools"}[listing]
        rows: list[dict[str, Any]] = json.loads(self.ask(node, listing, "--json"))[name]
        return rows

    def pools(self, node: str) -> set[str]:
        """Names of the pools that the node knows of."""
        return {str(row["pool"]) for row in self.rows(node, "pools")}

    def waiting(self, node: str) -> dict[str, str]:
        """Party -> printed id of its claim, of all who wait now anywhere."""
        return {
            str(row["holder"]).partition("@")[0]: printed(row["claim"]) for row in self.rows(node, "queue")
        }

    def lease_of(self, node: str, party: str) -> str:
        """Printed id of the lease that the party has now."""
        found = [printed(row["lease"]) for row in self.rows(node, "who") if row["holder"].startswith(party)]
        if len(found) != 1:
            raise RuntimeError(f"{party} has {len(found)} leases, not one")
        return found[0]

    def end(self) -> None:
        """TERM to all, time to end in order, then KILL."""
        running = [one.process for one in self.nodes.values() if one.process is not None]
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in running:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=8)
            if process.poll() is None:
                process.kill()
                process.wait()


def printed(text: str) -> str:
    """A claim's id as people see it: 7K4M-Q2."""
    return f"{text[:4]}-{text[4:6]}" if "-" not in text else text


def free_ports() -> list[int]:
    """For each node the first of three ports in a row that nobody uses, below those of outgoing connections."""
    found: list[int] = []
    with contextlib.ExitStack() as kept:
        while len(found) < len(POOLS):
            port = random.randrange(20_000, 32_000, BUS_PORTS)  # noqa: S311 (no secret)
            with contextlib.suppress(OSError), contextlib.ExitStack() as tried:
                for more in range(BUS_PORTS):
                    tried.enter_context(socket.create_server(("127.0.0.1", port + more)))
                kept.push(tried.pop_all())
                found.append(port)
    return found
