"""The README's ten minutes, line by line as they stand there, on two machines that have seen no holdall before.

The machines are network namespaces with folders of their own. Each has two GPUs, as far as a program in its PATH that
answers like nvidia-smi can tell.
"""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.network import Network, network
from node.waiting import until

from holdall.cli.examples import EXAMPLES
from holdall.node import paths

pytestmark = [pytest.mark.system, pytest.mark.requires("linux", "root", "netns", "nft", "bash")]
README = Path(__file__).resolve().parents[2] / "README.md"
SERVES = r"\nnext +(HOLDALL_URL=\S+ )?holdall run"
NVIDIA_SMI = """#!/bin/sh
case "$*" in
    -L) printf 'GPU 0: NVIDIA A100\\nGPU 1: NVIDIA A100\\n' ;;
    --query-gpu=*) printf '0, NVIDIA A100, 40960\\n1, NVIDIA A100, 40960\\n' ;;
    *) exit 2 ;;
esac
"""


def commands_of_the_page() -> list[str]:
    """What stands behind `$` in the section, without the remarks."""
    section = README.read_text(encoding="utf-8").partition("\n## Ten minutes\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\$ (.+)$", section, re.MULTILINE)
    return [re.split(r"\s{2,}# ", line)[0].strip() for line in lines]


class Machine:
    """One host: a network, a home, a PATH with this holdall and nvidia-smi, and nothing else of ours."""

    def __init__(self, net: Network, number: int, folder: Path) -> None:
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', f"lab-{number + 1}")
        self.prefix = (*net.prefix(number), *named)
        self.home = folder / f"m{number}"
        self.processes: list[subprocess.Popen[str]] = []
        tools = self.home / "bin"
        tools.mkdir(parents=True)
        (tools / "nvidia-smi").write_text(NVIDIA_SMI)
        (tools / "nvidia-smi").chmod(0o755)
        (tools / "holdall").symlink_to(Path(sys.executable).with_name("holdall"))
        inherited = {
            name: text
            for name, text in os.environ.items()
            if not name.startswith(("HOLDALL_", "XDG_")) or name == "HOLDALL_TEST_RUN"
        }
        self.environment = {
            **inherited,
            "HOME": str(self.home),
            "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
            "STATE_DIRECTORY": str(self.home / "state"),
            paths.RUN_ENV: str(self.home / "run"),
            "HOLDALL_AGENT": f"user-{number}",
        }

    def run(self, line: str) -> str:
        """A line from beginning to end; its output. It must succeed."""
        done = subprocess.run(
            [*self.prefix, "bash", "-c", line],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def waiting_claim(self) -> str:
        """The short id of the one claim that waits."""
        (row,) = json.loads(self.run("holdall queue --json"))["waiting"]
        return str(row["claim"])[:6]

    def begin(self, line: str, name: str) -> "subprocess.Popen[str]":
        """A line in a terminal of its own; what it shows goes to files."""
        with (self.home / f"{name}.out").open("w") as out, (self.home / f"{name}.err").open("w") as errors:
            process = subprocess.Popen(
                [*self.prefix, "bash", "-c", line],
                cwd=self.home,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def shown(self, name: str) -> str:
        return (self.home / f"{name}.err").read_text()

    def until_it_says(self, name: str, word: str) -> None:
        until(
            lambda: re.search(word, self.shown(name)),
            f"{name} says {word}; it said:\n{self.shown(name)[-2000:]}",
        )

    def end(self, process: "subprocess.Popen[str]", number: signal.Signals) -> None:
        os.killpg(process.pid, number)
        process.wait(60)

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for name in self.home.glob("*.err"):
            sys.stderr.write(f"--- {name.stem}\n{name.read_text()[-3000:]}\n")


@pytest.fixture
def machines() -> Iterator[list[Machine]]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder, network(2) as net:
        made = [Machine(net, number, Path(folder)) for number in range(2)]
        try:
            yield made
        finally:
            for machine in made:
                machine.close()
            until(lambda: not any(map(net.processes, range(2))), "nothing is left running")


def test_every_line_of_the_ten_minutes_works_as_it_stands_there(machines: list[Machine]) -> None:
    here, there = machines
    lines = iter(commands_of_the_page())
    install = next(lines)
    assert install.startswith("python3 -m venv .venv && .venv/bin/pip install .")  # ./demo does this part
    demo, serve, look, hold, wait, who_why, doctor, serve_bus, join, hold_there, wait_here, show = lines

    assert "next      holdall init && holdall serve" in here.run(demo)
    node = here.begin(serve, "serve")
    here.until_it_says("serve", SERVES)
    assert re.search(r"^pool +gpu,mem=40G,model=a100: 2 units", here.shown("serve"), re.MULTILINE)
    assert here.run(look).startswith("GPU 0: NVIDIA A100\n")
    holder = here.begin(hold, "hold")
    here.until_it_says("hold", r"granted +lease")
    waiter = here.begin(wait, "wait")
    here.until_it_says("wait", r"1st of 1 · blocked by user-0 \(gpu/\d, renewing\)")
    told = here.run(who_why.replace("CLAIM", here.waiting_claim()))
    assert "user-0" in told
    assert re.search(r"^blocked +by user-0", told, re.MULTILINE)
    here.end(holder, signal.SIGKILL)
    assert waiter.wait(60) == 0
    here.run(doctor)

    here.end(node, signal.SIGTERM)
    here.begin(serve_bus, "serve2")
    here.until_it_says("serve2", SERVES)
    (pasted,) = re.findall(r"^holdall join hd1-\S+$", (here.home / "serve2.out").read_text(), re.MULTILINE)
    assert join == "holdall join hd1-…"
    there.begin(pasted, "join")
    there.until_it_says("join", SERVES)
    holder = there.begin(hold_there, "hold")
    there.until_it_says("hold", r"granted +lease")
    waiter = here.begin(wait_here, "wait2")
    # Where the first line comes before the holder's node has told its name, one more line has it.
    here.until_it_says("wait2", r"1st of 1 · blocked by user-1 ")
    assert re.search(r"^blocked +by user-1", here.run(f"holdall why {here.waiting_claim()}"), re.MULTILINE)
    there.end(holder, signal.SIGKILL)
    assert waiter.wait(60) == 0

    command, _, names = show.rpartition(" ")
    assert names.split("|") == list(EXAMPLES)
    for name in names.split("|"):
        assert here.run(shlex.join([*command.split(), name])) != ""
