"""Runs of pytest with the plugin, against a real node: pools `board` (3 units) and `psu` (2)."""

import json
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import CONFIG, Lab, lab
from node.waiting import until
from system.runs import HOLDALL, all_free, environment

import holdall

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        boards = 'units = ["board-1", "board-2", "board-3"]'
        assert boards in CONFIG
        made.configure(CONFIG.replace(boards, boards + '\nlabels = { arch = "arm64" }'))
        made.start("--new")
        yield made


class Suite:
    """A folder with tests, and what a run of pytest over it said."""

    def __init__(self, folder: Path, node: Lab) -> None:
        self.folder = folder
        self.node = node
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")

    def write(self, text: str, name: str = "test_it.py") -> None:
        (self.folder / name).write_text(text)

    def begin(self, *arguments: str, autoload: bool = False, **more: str) -> "subprocess.Popen[str]":
        """`autoload`: the plugins that are installed here, as for a user; without, the two that matter, which is faster."""
        inherited = environment(self.node, **more)
        for name in [name for name in inherited if "XDIST" in name or name.startswith("PYTEST")]:
            del inherited[name]
        if not autoload:
            inherited["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
            plugins = ("-p", "holdall.client.pytest_plugin.hooks", "-p", "xdist")
        else:
            plugins = ("-p", "no:schemathesis", "-p", "no:hypothesispytest")  # seconds of imports each
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                *plugins,
                "-p",
                "no:cacheprovider",
                "--junitxml=junit.xml",
                *arguments,
            ],
            cwd=self.folder,
            env=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, autoload: bool = False, **more: str) -> tuple[int, str]:
        process = self.begin(*arguments, autoload=autoload, **more)
        said, _ = process.communicate(timeout=90)
        return process.returncode, said

    def cases(self) -> dict[str, ET.Element]:
        written = ET.parse(self.folder / "junit.xml")  # noqa: S314 - by our own run
        return {case.attrib["name"]: case for case in written.getroot().iter("testcase")}

    def properties(self, name: str) -> dict[str, str]:
        found = self.cases()[name].iter("property")
        return {one.attrib["name"]: one.attrib["value"] for one in found}


@pytest.fixture
def suite(node: Lab, tmp_path: Path) -> Suite:
    return Suite(tmp_path, node)


def test_a_marked_test_holds_all_it_needs_while_it_runs_and_no_longer(suite: Suite, node: Lab) -> None:
    suite.write("""
import os, subprocess, sys
import pytest, holdall

@pytest.mark.needs("board:2", reason="hil")
class TestBoards:
    @pytest.mark.needs("psu:1")
    def test_both(self, lease):
        assert {pool: len(units) for pool, units in lease.units.items()} == {"board": 2, "psu": 1}
        assert all(unit.fence > 0 for unit in lease.units["psu"])
        with holdall.sync.connect() as hub:
            (seen,) = hub.who()
            assert (seen.lease, seen.reason) == (lease.info.lease, "hil")
            with hub.lease("psu:1") as inner:
                assert inner.is_view and inner.units["psu"] == lease.units["psu"]

    def test_a_child_is_the_same_holder(self, lease):
        child = [sys.executable, "-m", "holdall.cli", "run", "--need", "board:1", "--now", "--", "printenv", "HOLDALL_UNITS_BOARD"]
        took = subprocess.run(child, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
        assert took.stdout.strip() in {unit.name for unit in lease.units["board"]}

def test_without_needs_nothing_is_held():
    with holdall.sync.connect() as hub:
        assert hub.who() == ()
    assert "HOLDALL_LEASE" not in os.environ

@pytest.mark.parametrize("pool", [pytest.param("board", marks=pytest.mark.needs("board")), pytest.param("psu", marks=pytest.mark.needs(holdall.any_of("psu:5", "psu:2")))])
def test_by_parameter(pool, lease):
    assert list(lease.units) == [pool]
""")
    status, said = suite.run()
    assert status == 0, said
    said_of = suite.properties("test_both")
    assert said_of["holdall_lease"]
    assert said_of["holdall_lease_units"].count("fence") == 3
    assert float(said_of["holdall_waited_s"]) < 30
    assert all_free(node)


def test_the_examples_of_the_guide_pass(suite: Suite, node: Lab) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "pytest.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        suite.write(block if "import pytest" in block else f"import pytest\n{block}", f"test_{number}.py")
    status, said = suite.run()
    assert (status, "2 passed" in said) == (0, True), said
    assert all_free(node)


def test_a_wait_is_not_in_the_duration_and_its_blocker_is_named(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

@pytest.mark.needs("psu:1")
def test_waits(lease): ...

@pytest.mark.needs("psu:1")
@pytest.mark.skipif(False, reason="asked before the claim is made")
def test_may_be_skipped(lease): ...
""")
    url = f"unix://{node.socket}"
    with holdall.sync.connect(url, agent="ann") as hub:
        for name in ("test_waits", "test_may_be_skipped"):
            other = hub.lease("psu:2", reason="soak test")
            process = suite.begin("-k", name)
            until(hub.queue, "the test waits")
            time.sleep(1.2)  # the wait must be longer than what the test itself takes
            other.release()
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0, said
            found = suite.properties(name)
            assert float(found["holdall_waited_s"]) >= 1.2
            assert float(suite.cases()[name].attrib["time"]) < float(found["holdall_waited_s"]) - 0.5
            assert "ann" in found["holdall_blocked_by"]
            assert '"soak test" (psu-1, psu-2' in found["holdall_blocked_by"]
            assert f"holdall: test_it.py::{name} waits, blocked by" in said
            assert "= holdall: 1 waited" in said
    assert all_free(node)


def test_what_is_not_granted_in_time_fails_and_says_who_holds_it(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest
ran = []

@pytest.fixture
def power():
    ran.append("power")

@pytest.mark.needs("psu:1")
def test_it(power): ran.append("test")

def test_nothing_of_it_ran(): assert ran == []
""")
    with holdall.sync.connect(f"unix://{node.socket}", agent="ann") as hub, hub.lease("psu:2", reason="soak"):
        status, said = suite.run("--holdall-wait=300ms", "--holdall-missing=skip")
    assert status == 1
    assert "1 passed, 1 error" in said
    assert "holdall: not granted within 300ms" in said
    assert '"soak"' in said
    assert all_free(node)


def test_what_nobody_has_fails_or_is_skipped_as_the_run_says(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

@pytest.mark.needs("laser")
def test_it(lease): ...
""")
    status, said = suite.run()
    assert status == 1
    assert "holdall: cannot ever be granted" in said
    status, said = suite.run("--holdall-missing=skip", "-rs")
    assert status == 0
    assert "1 skipped" in said
    assert "laser" in said
    nowhere = f"unix://{suite.folder}/holdall.sock"
    status, said = suite.run("-o", "holdall_missing=skip", "-rs", HOLDALL_URL=nowhere)
    assert (status, "1 skipped" in said) == (0, True), said
    status, said = suite.run(HOLDALL_URL=nowhere)
    assert (status, "1 error" in said) == (1, True), said


def test_a_test_that_is_skipped_claims_nothing(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

@pytest.mark.needs("laser")
@pytest.mark.skip(reason="today not")
def test_skip(): ...

@pytest.mark.needs("laser")
@pytest.mark.skipif(True, reason="here not")
def test_skipif(): ...
""")
    status, said = suite.run()
    assert (status, "2 skipped" in said) == (0, True), said


def test_a_lease_that_is_taken_away_stops_the_test(suite: Suite, node: Lab) -> None:
    suite.write("""
import pathlib, time
import pytest

@pytest.fixture
def cleaned():
    yield
    pathlib.Path("cleaned").touch()

@pytest.mark.needs("board:1")
def test_long(cleaned, lease):
    pathlib.Path("began").write_text(lease.id)
    while True:
        time.sleep(0.01)

@pytest.mark.needs("board:1")
def test_next(lease): ...
""")
    process = suite.begin()
    until(lambda: (suite.folder / "began").exists() and (suite.folder / "began").read_text(), "the test runs")
    lease = (suite.folder / "began").read_text()
    kick = [*HOLDALL, "kick", lease, "--reason", "the bench is on fire"]
    subprocess.run(kick, env=environment(node), check=True, timeout=60, capture_output=True)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "1 failed, 1 passed" in said
    assert "LeaseLost" in said
    assert "on fire" in said
    assert (suite.folder / "cleaned").exists()
    assert all_free(node)


def test_workers_of_xdist_are_parties_of_their_own(suite: Suite, node: Lab) -> None:
    suite.write("""
import json, os, pathlib, time
import pytest

@pytest.mark.parametrize("number", range(6))
@pytest.mark.needs("psu:2")
def test_alone(number, lease):
    mine = pathlib.Path("inside")
    mine.touch(exist_ok=False)
    time.sleep(0.05)
    pathlib.Path(f"ran-{number}").write_text(json.dumps([os.environ["PYTEST_XDIST_WORKER"], lease.info.holder]))
    mine.unlink()
""")
    status, said = suite.run("-n2")
    assert status == 0, said
    ran = {tuple(json.loads(file.read_text())) for file in suite.folder.glob("ran-*")}
    assert {worker for worker, _ in ran} == {"gw0", "gw1"}
    assert all(f"pytest-{worker}" in holder for worker, holder in ran)
    assert suite.properties("test_alone[0]")["holdall_lease"]
    assert all_free(node)


def test_c17_workers_do_not_share_the_lease_around_pytest(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

@pytest.mark.needs("psu:1")
def test_it(lease): assert lease.is_view
""")
    with holdall.sync.connect(f"unix://{node.socket}") as hub, hub.lease("psu:1") as outer:
        status, said = suite.run(HOLDALL_LEASE=outer.key)
        assert status == 0, said
        status, said = suite.run("-n1", HOLDALL_LEASE=outer.key)
        assert status == 1
        assert f"inside lease {outer.id}" in said
        assert outer.loss is None


def test_the_session_holds_what_its_marks_name_once(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest, holdall

pytestmark = pytest.mark.needs("board:2", scope="session")
seen = set()

@pytest.fixture(scope="session")
def boards(lease_session):
    return [unit.name for unit in lease_session.units["board"]]

def test_one(boards, lease_session): seen.add(lease_session.id)

@pytest.mark.needs("psu:1")
def test_two(boards, lease, lease_session):
    seen.add(lease_session.id)
    assert list(lease.units) == ["psu"]
    assert len(seen) == 1

@pytest.mark.needs("board:1")
def test_covered(lease, boards):
    assert lease.is_view and lease.units["board"][0].name in boards
""")
    status, said = suite.run()
    assert status == 0, said
    assert (
        suite.properties("test_one")["holdall_session_lease"]
        == suite.properties("test_two")["holdall_session_lease"]
    )
    assert all_free(node)


def test_c17_what_the_session_does_not_cover_is_not_waited_for(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

pytestmark = pytest.mark.needs("board:1", scope="session")

@pytest.mark.needs("psu:1")
def test_more(lease): ...
""")
    with holdall.sync.connect(f"unix://{node.socket}", agent="ann") as hub, hub.lease("psu:2"):
        status, said = suite.run()
    assert status == 1
    assert "1 error" in said
    assert "test_it.py:6" in said  # where it was asked, not where the plugin asks
    assert all_free(node)


def test_a_mark_that_can_not_be_read_ends_the_run_before_any_test(suite: Suite) -> None:
    suite.write("""
import pytest

def test_first(): ...

@pytest.mark.needs("BOARD")
def test_it(): ...
""")
    status, said = suite.run()
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "test_it.py::test_it: bad SPEC 'BOARD'" in said
    assert "1 passed" not in said


def test_fixtures_without_marks_say_what_to_write(suite: Suite) -> None:
    suite.write("def test_it(lease): ...\n\ndef test_session(lease_session): ...\n")
    status, said = suite.run()
    assert (status, "2 errors" in said) == (1, True)
    assert '@pytest.mark.needs("psu:1")' in said
    assert 'scope="session"' in said


def test_ctrl_c_while_a_test_waits_leaves_no_claim(suite: Suite, node: Lab) -> None:
    suite.write("""
import pytest

@pytest.mark.needs("psu:1")
def test_it(lease): ...
""")
    with holdall.sync.connect(f"unix://{node.socket}") as hub, hub.lease("psu:2"):
        process = suite.begin()
        until(hub.queue, "the test waits")
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60)
        assert process.returncode == pytest.ExitCode.INTERRUPTED, said
        assert hub.queue() == ()
    assert all_free(node)


def test_who_does_not_use_it_loads_nothing_of_it(suite: Suite) -> None:
    suite.write("""
import sys

def test_it():
    loaded = {name for name in sys.modules if name.startswith("holdall")}
    assert loaded == {"holdall", "holdall.client", "holdall.client.pytest_plugin", "holdall.client.pytest_plugin.hooks", "holdall.client.pytest_plugin.said"}
    assert "holdall.client.link" not in sys.modules
""")
    status, said = suite.run(autoload=True)
    assert status == 0, said
    assert "holdall:" not in said


def test_a_project_with_a_needs_mark_of_its_own_keeps_it(suite: Suite, node: Lab) -> None:
    (suite.folder / "pytest.ini").write_text("[pytest]\nmarkers = needs(thing): of this project\n")
    suite.write("""
import pytest

@pytest.mark.needs("a thing that no pool is called")
def test_theirs(): ...

@pytest.mark.holdall_needs("psu:1")
def test_ours(lease): assert list(lease.units) == ["psu"]
""")
    status, said = suite.run("--strict-markers")
    assert status == 0, said
