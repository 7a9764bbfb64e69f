"""What `holdall examples` prints, used as its reader would use it, against a real node."""

import asyncio
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult
from node.lab import Lab, lab
from node.waiting import until
from system.runs import HOLDALL, all_free, environment, ran

CORES = """
[node]
name = "lab-1"
listen = "off"
[[pool]]
name = "core"
units = ["0", "1"]
"""
pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]
yaml: Any = importlib.import_module("yaml")


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.configure(CORES)
        yield made.start("--new")


def printed(name: str, file: Path) -> Path:
    """As `holdall examples NAME > FILE`."""
    with file.open("wb") as output:
        subprocess.run([*HOLDALL, "examples", name], stdout=output, check=True, timeout=60)
    return file


def used(node: Lab, *command: str, cwd: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """In a shell whose PATH has this holdall first."""
    bin_folder = str(Path(sys.executable).parent)
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(node, PATH=path, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def granted(node: Lab) -> list[str]:
    """The holder of each lease so far."""
    done = subprocess.run(
        [*HOLDALL, "log", "--json"], env=environment(node), capture_output=True, check=True, timeout=60
    )
    return [str(row["holder"]) for row in json.loads(done.stdout)["log"] if row["kind"] == "granted"]


def test_the_program_holds_and_says_what(node: Lab, tmp_path: Path) -> None:
    program = printed("python", tmp_path / "lease.py")
    done = used(node, sys.executable, str(program), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "core: 2 of 2 free"
    assert re.search(r"^holding \d on lab-1, fence \d+$", done.stdout, re.MULTILINE)
    refused = used(node, sys.executable, str(program), "core:3", cwd=tmp_path)
    assert "cannot ever be granted" in refused.stderr
    until(lambda: all_free(node), "it has given back what it held")


def test_the_tests_hold_while_they_run(node: Lab, tmp_path: Path) -> None:
    printed("pytest", tmp_path / "test_bench.py")
    before = len(granted(node))
    done = used(node, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert len(granted(node)) == before + 2
    until(lambda: all_free(node), "they have given back what they held")


@pytest.mark.requires("bash")
def test_the_step_of_the_action_runs_with_all_needs(node: Lab, tmp_path: Path) -> None:
    action = yaml.safe_load(printed("github", tmp_path / "action.yml").read_text())
    (step,) = action["runs"]["steps"]
    values = {
        "needs": "core:1\n\n  core:1\n",
        "run": "echo units=$HOLDALL_UNITS_CORE | tee out; false | true",
        "wait": "1m",
    }
    variables = {
        name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: values[found[1]], text)
        for name, text in step["env"].items()
    }
    run = used(
        node,
        *("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]),
        cwd=tmp_path,
        GITHUB_WORKFLOW="nightly",
        GITHUB_RUN_NUMBER="812",
        **variables,
    )
    assert run.returncode == 1, run.stderr  # pipefail counts inside, too
    assert (tmp_path / "out").read_text().strip() in {"units=0,1", "units=1,0"}
    assert "github" in granted(node)


def test_the_steps_of_the_pipeline_run(node: Lab, tmp_path: Path) -> None:
    text = printed("jenkins", tmp_path / "Jenkinsfile").read_text()
    (script,) = re.findall(r"sh '''(.*?)'''", text, re.DOTALL)
    run = used(
        node,
        *("sh", "-xe", "-c", script),
        cwd=tmp_path,
        JOB_NAME="hil/main",
        BUILD_NUMBER="7",
        HOLDALL_AGENT="jenkins",
    )
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(r"on \d, fence \d+\n", run.stdout)
    assert "jenkins" in granted(node)


def test_the_server_of_an_agent_is_the_one_that_its_configuration_names(node: Lab, tmp_path: Path) -> None:
    named = json.loads(printed("mcp", tmp_path / "mcp.json").read_text())["mcpServers"]["holdall"]
    server = StdioServerParameters(command=named["command"], args=named["args"], env=environment(node))

    async def claimed() -> tuple[set[str], str]:
        async with Client(server) as agent:
            tools = {tool.name for tool in (await agent.list_tools()).tools}
            answer = await agent.call_tool("claim", {"needs": ["core:1"], "reason": "an example"})
            assert isinstance(answer, CallToolResult)
            told: dict[str, Any] = answer.structured_content or {}
            return tools, str(told["state"])

    assert asyncio.run(claimed()) == ({"claim", "check", "extend", "release", "who"}, "granted")
    until(lambda: all_free(node), "the server has ended with its agent")


def test_what_init_finds_has_what_the_examples_need(node: Lab, tmp_path: Path) -> None:
    done = used(node, *HOLDALL, "init", "--print", cwd=tmp_path)
    assert done.returncode == 0
    assert 'name = "core"' in done.stdout
    assert [*tmp_path.iterdir()] == []
    assert ran(node, "--need", "core:1", "--", "true").returncode == 0
