"""Completion in real shells: commands, options, and pool names that are live on a node."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from node.lab import CONFIG, Lab, lab
from system.runs import HOLDALL, environment

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]
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
    return answered(["bash", "--noprofile", "--norc", "-c", ASK, "bash", *words], node, **more).split()


def answered(command: list[str], node: Lab, **more: str) -> str:
    done = subprocess.run(
        command,
        env=shell_environment(node, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.requires("bash")
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


@pytest.mark.requires("fish")
def test_fish_offers_pools_with_what_is_free_of_them(node: Lab, tmp_path: Path) -> None:
    script = tmp_path / "fish" / "completions" / "holdall.fish"
    script.parent.mkdir(parents=True)
    script.write_text(answered([*HOLDALL, "completion", "fish"], node), encoding="utf-8")
    ask = "for line in 'holdall run --need ps' 'holdall exam'; complete --do-complete $line; end"
    told = answered(["fish", "-c", ask], node, XDG_CONFIG_HOME=str(tmp_path), HOME=str(tmp_path))
    *pools, examples = told.splitlines()
    assert pools == ["psu\t2 of 2 free", "psu,volts=48\t2 of 2 free"]
    assert examples.startswith("examples\t")


@pytest.mark.requires("zsh")
def test_in_zsh_the_first_tab_of_a_shell_and_each_one_after_it_is_answered(node: Lab, tmp_path: Path) -> None:
    (tmp_path / "_holdall").write_text(answered([*HOLDALL, "completion", "zsh"], node), encoding="utf-8")
    with typing(node, "zsh", "-f", "-i", HOME=str(tmp_path)) as terminal:
        os.write(terminal, b"fpath=(~ $fpath); autoload -U compinit; compinit -D -u; PS1='ready''> '\n")
        shown(terminal, r"ready> (\x1b\S*)?\Z")
        os.write(terminal, b"holdall run --need bo\t")
        shown(terminal, r"ard \Z")
        os.write(terminal, b"\x15holdall pools ps\t")
        shown(terminal, r"pools psu \Z")
        os.write(terminal, b"\x15holdall run --need p\t\t")
        text = shown(terminal, r"psu.*-- 2 of 2 free")
        assert "psu,volts=48" in text


@pytest.mark.requires("bash")
def test_without_a_node_nothing_is_offered_and_nothing_is_said(node: Lab, tmp_path: Path) -> None:
    nowhere = f"unix://{tmp_path}/holdall.sock"
    assert completed(node, "holdall", "run", "--need", "ps", HOLDALL_URL=nowhere) == []


@pytest.mark.requires("bash")
def test_the_tab_key_writes_the_name_of_a_pool(node: Lab) -> None:
    with typing(node, "bash", "--noprofile", "--norc", "-i", PS1="ready> ") as terminal:
        shown(terminal, r"ready> \Z")
        os.write(terminal, b"source <(holdall completion bash)\n")
        shown(terminal, r"ready> \Z")
        os.write(terminal, b"holdall run --need bo\t")
        shown(terminal, r"--need board \Z")
        os.write(terminal, b"-- printenv HOLDALL_UNITS_BOARD\n")
        assert re.search(r"^board-\d\r$", shown(terminal, r"ready> \Z"), re.MULTILINE)


@contextlib.contextmanager
def typing(node: Lab, *command: str, **more: str) -> Generator[int]:
    """The terminal of this shell."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, shell_environment(node, **more))  # noqa: S606
    try:
        yield terminal
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
