"""Completion in a real bash: commands, options, and pool names that are live on a node."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import CONFIG, Lab, lab
from system.runs import environment

pytestmark = [pytest.mark.system, pytest.mark.requires("linux", "bash")]
WITHIN_S = 60.0
ASK = """
source <(holdall completion bash)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_holdall_completion holdall
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        labelled = CONFIG.replace('name = "psu"', 'name = "psu"\nlabels = { volts = "48" }')
        made.configure(labelled)
        yield made.start("--new")


def shell_environment(node: Lab, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return environment(node, PATH=path, TERM="dumb", **more)


def completed(node: Lab, *words: str, **more: str) -> list[str]:
    """What bash offers for the last of `words`."""
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-c", ASK, "bash", *words],
        env=shell_environment(node, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("run", "--need", "ps"), ["psu", "psu,volts=48"]),
        (("lease", "--need", "b"), ["board"]),
        (("pools", ""), ["board", "psu"]),
        (("examples", "py"), ["pytest", "python"]),
        (("exam",), ["examples"]),
        (("init", "--pr"), ["--print"]),
        (("run", "--need", "nothing"), []),
    ],
    ids=" ".join,
)
def test_bash_offers(node: Lab, words: tuple[str, ...], offered: list[str]) -> None:
    assert completed(node, "holdall", *words) == offered


def test_without_a_node_nothing_is_offered_and_nothing_is_said(node: Lab, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/holdall.sock"
    assert completed(node, "holdall", "run", "--need", "ps", HOLDALL_URL=nowhere) == []


def test_the_tab_key_writes_the_name_of_a_pool(node: Lab) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(  # noqa: S606
            "bash", ["bash", "--noprofile", "--norc", "-i"], shell_environment(node, PS1="ready> ")
        )
    try:
        shown(terminal, r"ready> \Z")
        os.write(terminal, b"source <(holdall completion bash)\n")
        shown(terminal, r"ready> \Z")
        os.write(terminal, b"holdall run --need bo\t")
        shown(terminal, r"--need board \Z")
        os.write(terminal, b"-- printenv HOLDALL_UNITS_BOARD\n")
        assert re.search(r"^board-\d\r$", shown(terminal, r"ready> \Z"), re.MULTILINE)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def shown(terminal: int, pattern: str) -> str:
    """What the terminal shows until it ends with `pattern`."""
    text = ""
    end = time.monotonic() + WITHIN_S
    while not re.search(pattern, text):
        left = end - time.monotonic()
        assert left > 0, f"not shown within {WITHIN_S:g} s: {pattern}\n{text!r}"
        if select.select([terminal], [], [], left)[0]:
            text += os.read(terminal, 4096).decode(errors="replace")
    return text
