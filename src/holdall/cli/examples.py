"""`holdall examples`: files that work as they are, each with what to do with it at its top."""

import os
import shutil
import sys
from importlib import resources
from pathlib import Path

import msgspec

PROGRAM_MARK = "@HOLDALL@"
"""Stands in a file where the path of this very program belongs: a service manager does not look into a virtual environment."""


class ExampleFile(msgspec.Struct, frozen=True):
    """One file: what it is called where it is used, what it is for, and what to do after it was written."""

    file: str
    about: str
    then: str


EXAMPLES: dict[str, ExampleFile] = {
    "pytest": ExampleFile(
        "test_bench.py", "tests that hold what they need", "holdall examples pytest > test_bench.py && pytest"
    ),
    "python": ExampleFile(
        "lease.py", "a lease from a program", "holdall examples python > lease.py && python lease.py"
    ),
    "mcp": ExampleFile(
        "mcp.json",
        "the configuration of an agent that speaks the Model Context Protocol",
        "put it where your agent reads its servers from; its tools are claim, check, extend, release and who",
    ),
    "github": ExampleFile(
        "action.yml",
        "a composite action for GitHub's workflows",
        "holdall examples github > .github/actions/holdall/action.yml",
    ),
    "jenkins": ExampleFile("Jenkinsfile", "a pipeline for Jenkins", "holdall examples jenkins > Jenkinsfile"),
    "systemd": ExampleFile(
        "holdall.service",
        "a node as a service of this host",
        "holdall examples systemd > /etc/systemd/system/holdall.service && systemctl daemon-reload",
    ),
}


def example_text(name: str, *, program: str = "") -> str:
    """The text of one of EXAMPLES. `program`: the path of holdall that is written into it; empty: this one's."""
    file = resources.files("holdall.cli") / "example_files" / f"{EXAMPLES[name].file}.txt"
    return file.read_text(encoding="utf-8").replace(PROGRAM_MARK, program or this_program())


def this_program() -> str:
    """The path by which others can start this very holdall; `holdall` alone when none is known."""
    beside = Path(sys.executable).with_name("holdall")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("holdall") or "holdall"
