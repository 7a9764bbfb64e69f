"""Three real nodes with all that a page can show: pools, holders, queues, names that try to harm it, leases of a location, jobs."""

import contextlib
import json
import subprocess
import time
from collections.abc import Generator
from itertools import pairwise

from node.lab import Client
from node.waiting import until
from system.many_nodes import HOLDALL, NodeProcess, System, free_ports, system

from holdall.model import frames
from holdall.model.spec import parse_needs

TTL_MS = 300_000
DEFAULTS = '[defaults]\nttl = "30s"\nttl_max = "5m"\nmargin = "200ms"\n'
CAPACITY = '[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "fair"\n'
GPUS = '[[pool]]\nname = "gpu"\ncount = 8\nlabels = {{ model = "{model}", mem = "80G" }}\n'
MORE = (
    GPUS.format(model="h100") + '[[pool]]\nname = "cell"\ncount = 240\n',
    GPUS.format(model="a100") + '[[pool]]\nname = "board"\ncount = 5\nlabels = { arch = "arm64" }\n',
    '[[pool]]\nname = "board"\ncount = 4\nlabels = { arch = "x86" }\n',
)
HELD = (
    ("ana@desk", "soak test of the new supply", ("psu:1",)),
    ("ci@runner-4", "nightly #812", ("gpu,model=h100:6", "board,arch=arm64:2")),
    (
        "<img src=x onerror=alert(1)>@host",
        "<b>bold</b> & \u202ereversed\u202c \u0434\u0430, \u4f60\u597d",
        ("psu:1",),
    ),
    (
        "a-name-without-any-end-" + "x" * 60,
        "a reason that goes on and on " * 6,
        ("board,arch=x86:3", "cell:100"),
    ),
    ("ben@laptop", "", ("gpu,model=a100:5",)),
    ("eva@bench", "calibration", ("psu:1", "bench-b:1")),
)
WAITING = (
    ("ci@runner-5", "nightly #813", ("psu:2",)),
    ("olga@desk", "short check", ("psu:1", "board,arch=x86:2")),
    ("<script>alert(2)</script>", "'; DROP TABLE leases; --", ("psu:1",)),
    ("mcp:agent-7", "fine-tune", ("gpu,model=h100:4",)),
    ("ci@runner-6", "nightly #814", ("gpu,model=h100:8", "board,arch=arm64:4")),
    ("ben@laptop", "waits for a bench", ("bench-b:1", "psu:1")),
)
JOB = """
name = "nightly"

[task.fetch]
run = ["true"]

[task.build]
after = ["fetch"]
needs = ["cell:4"]
run = ["true"]

[task.lint]
after = ["fetch"]
run = ["false"]
may_fail = true

[task.test]
foreach = ["arm64", "x86", "riscv"]
after = ["build"]
needs = ["cell:1"]
run = ["sh", "-c", "[ {item} = x86 ] || sleep 1000"]

[task.soak]
after = ["build"]
needs = ["psu:1"]
run = ["sleep", "1000"]

[task.repair]
when = "lint.failed"
run = ["sleep", "1000"]

[task.report]
after = ["test", "soak", "repair"]
run = ["true"]

[task.publish]
after = ["report"]
run = ["true"]
"""
SHORT = 'name = "smoke"\n[task.ask]\nrun = ["true"]\n[task.answer]\nafter = ["ask"]\nrun = ["true"]\n'
WRONG = 'name = "release"\n[task.sign]\nrun = ["false"]\n[task.ship]\nafter = ["sign"]\nrun = ["true"]\n'
RATES = (("60kB/s", "1m"), ("50kB/s", "1m"), ("30kB/s", "1m"))
RATE_PAUSE_S = 6.0
"""Between two who want a part of one capacity, so that their shares are seen to change."""


class Stage:
    """Nodes that serve, and who does something there."""

    def __init__(self, hosts: System) -> None:
        self.nodes = [self._node(hosts, place) for place in range(len(MORE))]
        self.port = free_ports()
        self._clients: list[Client] = []
        self._holding: list[subprocess.Popen[bytes]] = []

    def _node(self, hosts: System, place: int) -> NodeProcess:
        folder = "abc"[place]
        units = [f"psu-{place + 1}"]
        return hosts.node(folder, f"lab-{place + 1}", *units, defaults=DEFAULTS + MORE[place] + CAPACITY)

    def serve(self) -> None:
        """All nodes, as one system; the first one shows the page."""
        for place, node in enumerate(self.nodes):
            text = node.config.read_text()
            location = "prague" if place < 2 else "brno"
            text = text.replace("[node]\n", f'[node]\nlocation = "{location}"\n')
            if node is self.nodes[0]:
                text = text.replace('listen = "off"', f'listen = "127.0.0.1:{self.port}"')
            node.config.write_text(text)
        self.nodes[0].serve("--new")
        for before, node in pairwise(self.nodes):
            node.join(before.join_line())
        first = Client(self.nodes[0].socket, agent="setting up")
        until(
            lambda: len({row.node for row in first.listing("pools").pools}) == len(MORE),
            "all pools are known",
        )
        first.close()

    def fill(self) -> None:
        """Holders, then those who wait, in this order."""
        for agent, reason, needs in HELD:
            self._client(agent, reason, needs).wait(frames.Granted)
        for agent, reason, needs in WAITING:
            self._client(agent, reason, needs).wait(frames.Queued)

    def _client(self, agent: str, reason: str, needs: tuple[str, ...]) -> Client:
        client = Client(self.nodes[len(self._clients) % 2].socket, agent=agent)
        client.send(frames.Claim(n=client.n(), needs=parse_needs(needs), ttl_ms=TTL_MS, reason=reason[:200]))
        self._clients.append(client)
        return client

    def jobs(self) -> None:
        """One that goes on, one that succeeds, one that fails."""
        node = self.nodes[0]
        for place, text in enumerate((SHORT, WRONG, JOB)):
            file = node.folder / f"job-{place}.toml"
            file.write_text(text)
            done = node.command("job", "run", str(file), "--detach")
            if done.returncode:
                raise RuntimeError(done.stderr)

    def negotiate(self) -> None:
        """Each user of a node wants more of one capacity than is left; later ones lessen the earlier ones' shares."""
        until(lambda: self._request(self.nodes[0], "10kB/s", "1s") == 0, "the location offers something")
        for node, (amount, duration) in zip(self.nodes, RATES, strict=True):
            words = (*HOLDALL, "location", "request", "prague", "--term", f"net.tx={amount}", "--floor", "net.tx=1kB/s",
                     "--duration", duration, "--accept", "--hold")  # fmt: skip
            with (node.folder / "hold").open("wb") as out:
                self._holding.append(
                    subprocess.Popen(
                        words,
                        cwd=node.folder,
                        env=node.environment,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=out,
                    )
                )
            time.sleep(RATE_PAUSE_S)

    def _request(self, node: NodeProcess, amount: str, duration: str) -> int:
        words = ("request", "prague", "--term", f"net.tx={amount}", "--duration", duration)
        return node.command("location", *words).returncode

    def close(self) -> None:
        """End the jobs and all who hold something."""
        for process in self._holding:
            process.terminate()
            process.wait(30)
        for client in self._clients:
            client.close()
        listed = self.nodes[0].command("job", "list", "--json")
        for row in json.loads(listed.stdout or '{"jobs": []}')["jobs"]:
            if row["state"] == "running":
                self.nodes[0].command("job", "cancel", row["job"], "--reason", "the pictures are made")


@contextlib.contextmanager
def stage() -> Generator[Stage]:
    """Set up, and taken down whatever happens."""
    with system() as hosts:
        made = Stage(hosts)
        try:
            made.serve()
            made.fill()
            made.jobs()
            yield made
        finally:
            made.close()
