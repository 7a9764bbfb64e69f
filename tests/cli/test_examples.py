"""The files that `holdall examples` prints: there is one for each name, and what reads them can read them."""

import configparser
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdall.cli import examples
from holdall.cli.entry import main
from holdall.cli.examples import EXAMPLES, example_text

yaml: Any = importlib.import_module("yaml")
pygments: Any = importlib.import_module("pygments.lexers")
token: Any = importlib.import_module("pygments.token").Token
"""These come with the tools that build the documentation; they have no types."""


class Typed:
    """A command line in this process: exit status, stdout, stderr."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        self.status = ended.value.code
        self.out, self.err = capsys.readouterr()


def test_without_a_name_the_examples_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    done = Typed(capsys, "examples")
    assert (done.status, [line.split()[0] for line in done.out.splitlines()]) == (0, list(EXAMPLES))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_printed_is_the_file_and_nothing_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = Typed(capsys, "examples", name)
    assert (done.status, done.err, done.out) == (0, "", example_text(name))
    assert examples.PROGRAM_MARK not in done.out


def test_an_unknown_name_is_told_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    done = Typed(capsys, "examples", "gitlab")
    assert (done.status, done.out) == (64, "")
    assert "pytest, python, mcp, github, jenkins, systemd" in done.err


def test_the_program_is_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.access(examples.this_program(), os.X_OK)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert examples.this_program() == "holdall"
    (tmp_path / "holdall").write_text("#!/bin/sh\n")
    (tmp_path / "holdall").chmod(0o755)
    assert examples.this_program() == str(tmp_path / "holdall")
    assert json.loads(example_text("mcp"))["mcpServers"]["holdall"]["command"] == str(tmp_path / "holdall")


@pytest.mark.parametrize("name", ["pytest", "python"])
def test_python_compiles(name: str) -> None:
    compile(example_text(name), EXAMPLES[name].file, "exec")


def test_the_action_is_a_composite_one_and_no_input_stands_in_its_script() -> None:
    action = yaml.safe_load(example_text("github"))
    assert action["runs"]["using"] == "composite"
    (step,) = action["runs"]["steps"]
    assert step["shell"] == "bash"
    assert "${{" not in step["run"]
    inputs = {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    assert inputs == {text for text in step["env"].values() if "${{" in text}


def test_the_workflow_in_the_head_of_the_action_uses_its_inputs() -> None:
    head = example_text("github").partition("\nname:")[0]
    workflow = yaml.safe_load("\n".join(line.removeprefix("#") for line in head.splitlines()[2:]))
    used = workflow["jobs"]["hil"]["steps"][1]
    action = yaml.safe_load(example_text("github"))
    required = {name for name, about in action["inputs"].items() if about.get("required")}
    assert required <= set(used["with"]) <= set(action["inputs"])
    assert used["uses"] == "./.github/actions/holdall"


def test_the_pipeline_is_groovy_with_closed_brackets() -> None:
    text = example_text("jenkins")
    tokens: list[tuple[Any, str]] = list(pygments.GroovyLexer().get_tokens(text))
    assert [value for kind, value in tokens if kind in token.Error] == []
    opened: list[str] = []
    for kind, value in tokens:
        if kind in token.String or kind in token.Comment:
            continue
        for letter in value:
            if letter in "{([":
                opened.append("})]"["{([".index(letter)])
            elif letter in "})]":
                assert opened.pop() == letter
    assert opened == []
    assert re.findall(r"^pipeline \{", text, re.MULTILINE) == ["pipeline {"]


def test_the_unit_waits_for_ready_has_a_watchdog_and_keeps_the_run_folder() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=True, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(example_text("systemd", program="/opt/holdall/bin/holdall"))
    service = unit["Service"]
    assert service["ExecStart"] == "/opt/holdall/bin/holdall serve /etc/holdall/holdall.toml"
    assert (service["Type"], service["KillMode"], service["RuntimeDirectoryPreserve"]) == (
        "notify",
        "process",
        "yes",
    )
    assert "WatchdogSec" in service
    assert {"PrivateTmp", "PrivateDevices", "DeviceAllow", "ProtectClock"} & set(service) == set()


@pytest.mark.system
@pytest.mark.requires("systemd")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / EXAMPLES["systemd"].file
    program = shutil.which("true")
    assert program is not None
    good = example_text("systemd", program=program)
    for text, is_good in ((good, True), (good.replace("WatchdogSec", "WatchdogSecs"), False)):
        unit.write_text(text)
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(unit)],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "SYSTEMD_LOG_LEVEL": "info"},
        )
        ours = [line for line in done.stderr.splitlines() if unit.name in line]
        assert (ours == []) == is_good, done.stderr
