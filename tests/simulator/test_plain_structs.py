"""What takes msgspec's place under PyPy changes nothing: the same runs, step by step, message by message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdall.simulator.swarm import simulated

ROOT = Path(__file__).resolve().parents[2]
PLAIN = f"{ROOT / 'bench' / 'pypy'}{os.pathsep}{ROOT / 'src'}"


def said(script: str, *arguments: str, python: str = sys.executable, path: str = str(ROOT / "src")) -> str:
    """What a script beside this file prints, over msgspec or over what `path` has in its place."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [python, str(Path(__file__).with_name(script)), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runs(protocol: str, **where: str) -> tuple[str, str]:
    """Who ran it with whose structs, and all that the runs were."""
    who, _, rest = said("plain_structs_run.py", protocol, **where).partition("\n")
    return who, rest


@pytest.mark.parametrize("protocol", simulated())
def test_runs_over_plain_structs_are_those_over_msgspec(protocol: str) -> None:
    ours = runs(protocol)
    plain = runs(protocol, path=PLAIN)
    assert ours[0] == "cpython msgspec"
    assert plain[0] == "cpython plain"
    assert plain[1] == ours[1]
    assert ours[1].count("\n") == 2


@pytest.mark.long  # the build server's Debian has none for this version of Python
@pytest.mark.requires("pypy3")
@pytest.mark.parametrize("protocol", ["chain", "game", "lanes", "token"])
def test_runs_under_pypy_are_those_under_cpython(protocol: str) -> None:
    there = runs(protocol, python="pypy3", path=PLAIN)
    assert there[0] == "pypy plain"
    assert there[1] == runs(protocol)[1]


def test_plain_structs_are_made_compared_and_copied_like_msgspecs() -> None:
    facts = said("plain_structs_facts.py")
    assert said("plain_structs_facts.py", path=PLAIN) == facts
    assert facts.count("\n") > 20
