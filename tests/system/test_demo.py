"""The demonstration runs as it stands, keeps its promises, and leaves nothing behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SECONDS_MAX = 60


@pytest.mark.system
@pytest.mark.requires("linux")
def test_the_demonstration_ends_well_within_a_minute() -> None:
    before = set(Path("/tmp").glob("hd-demo-*"))
    ended = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "demo.py")],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        env={name: text for name, text in os.environ.items() if not name.startswith("HOLDALL_U")},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    held = re.findall(r"^.* (ann|bob|cem|dia) .*\bfence \d+.*$", ended.stdout, re.MULTILINE)
    assert {"ann", "bob", "cem", "dia"} <= set(held)
    assert re.search(r"\$ kill -9 \d+", ended.stdout)
    again = re.findall(
        r"(\S+): ann held it with fence (\d+) .* granted to (\w+) .* with fence (\d+)", ended.stdout
    )
    assert {unit.partition("-")[0] for unit, *_ in again} == {"board", "psu"}
    assert all(int(later) > int(earlier) for _, earlier, _, later in again)
    assert "nothing is left running" in ended.stdout
    assert set(Path("/tmp").glob("hd-demo-*")) <= before


@pytest.mark.system
@pytest.mark.requires("linux")
def test_the_small_lab_tells_its_story_with_small_fences_every_time_and_leaves_no_trace(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "holdall.cli", "demo"],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS_MAX,
        env={**os.environ, "HOLDALL_RUN_DIR": str(tmp_path / "run"), "TMPDIR": str(tmp_path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    told = ended.stdout.partition("\n\n")[0].splitlines()
    assert [line for line in told if not re.match(r" *\d+\.\d\d s  \w+ +\S", line)] == []
    assert re.search(r"gus +holds scope-1 fence 1, and is now cut off", ended.stdout)
    assert "all is free again: board 2/2 · psu 3/3 · scope 1/1" in ended.stdout
    assert list(tmp_path.iterdir()) == []
