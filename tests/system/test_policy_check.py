"""`holdall policy check` as people run it, and conditions that don't end: tried in a child, refused, the old policy stays."""

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdall.model.errors import BadConfig
from holdall.node.policies import Moment, PolicyKeeper, load_policy, try_conditions
from holdall.policy.rules import Expression

pytestmark = pytest.mark.system

HOLDALL = (sys.executable, "-m", "holdall.cli")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "policies.md"
STUDENT = {"id": "ann", "affiliation": "vu", "groups": ["ci"], "role": "student"}
LIST = f"[{','.join('1' * 20)}]"
SIX_LOOPS = "".join(f"{LIST}.all(x{level}, " for level in range(6)) + "x0 == 1" + ")" * 6


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The policy of the guide and a student."""
    page = PAGE.read_text(encoding="utf-8")
    (tmp_path / "policy.toml").write_text(
        page.partition("```toml\n")[2].partition("```")[0], encoding="utf-8"
    )
    (tmp_path / "student.json").write_text(json.dumps(STUDENT), encoding="utf-8")
    return tmp_path


def check(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run it."""
    command = [*HOLDALL, "policy", "check", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def read(folder: Path, *options: str) -> Any:
    """Its JSON."""
    return json.loads(check(folder, *options, "--json").stdout)


def test_the_guide_shows_what_the_command_prints(files: Path) -> None:
    page = PAGE.read_text(encoding="utf-8")
    command, _, shown = (
        page.partition("```console\n$ holdall policy check ")[2].partition("```")[0].partition("\n")
    )
    done = check(files, *command.split())
    assert done.stdout.splitlines() == shown.splitlines()
    assert done.stderr == "refused: gpu by office-hours: denied\n"
    assert done.returncode == 77


def test_p1_by_the_clock(files: Path) -> None:
    asked = ("policy.toml", "--as", "student.json", "--need", "gpu:2")
    assert check(files, *asked, "--at", "2026-11-27T18:00").returncode == 0
    assert check(files, *asked, "--at", "2026-11-27T10:00").returncode == 77
    assert check(files, *asked, "--at", "2026-11-27T08:30+00:00").returncode == 77, "9:30 in Amsterdam"
    assert check(files, *asked, "--at", "2026-11-28T10:00").returncode == 0, "a Saturday"


def test_what_is_held_is_taken_off(files: Path) -> None:
    asked = ("policy.toml", "--as", "student.json", "--term", "net.tx=2MB/s", "--capacity", "net.tx=3MB/s")
    found = read(files, *asked, "--held", "net.tx=400kB/s")
    assert (found["v"], found["allowed"]) == (1, True)
    assert found["terms"]["net.tx"]["granted"] == 600_000
    assert found["terms"]["net.tx"]["rule"] == "each-1mb"
    assert {line["rule"]: line.get("at_most") for line in found["rules"]} == {
        "partners": None,
        "each-1mb": 600_000,
        "all-agents-half": 1_100_000,
        "share": None,
        "short": 60_000,
    }


def test_a_second_file_is_the_host_s(files: Path) -> None:
    (files / "host.toml").write_text(
        '[policy]\naccess = "allow"\n[[rule]]\nname = "small"\nlimit = "net.tx"\nmax = "300kB/s"\n',
        encoding="utf-8",
    )
    asked = ("--as", "student.json", "--term", "net.tx=2MB/s", "--capacity", "net.tx=3MB/s")
    found = read(files, "policy.toml", "host.toml", *asked)["terms"]["net.tx"]
    assert (found["granted"], found["rule"]) == (300_000, "small")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("policy.toml",), 0, ""),
        (("nosuch.toml",), 78, "can't read nosuch.toml"),
        (("student.json",), 78, "student.json: not TOML"),
        (("policy.toml", "--need", "gpu"), 64, "Write --as WHO.json and --need SPEC"),
        (("policy.toml", "--as", "policy.toml", "--need", "gpu"), 64, "no JSON"),
        (("policy.toml", "--as", "student.json", "--need", "gpu:all"), 64, "write POOL:COUNT"),
        (("policy.toml", "--as", "student.json", "--need", "a+b"), 64, "write POOL:COUNT"),
        (("policy.toml", "--as", "student.json", "--need", "gpu", "--term", "gpu=1"), 64, "asked for twice"),
        (("policy.toml", "--as", "student.json", "--term", "net.tx"), 64, "write NAME=AMOUNT"),
        (("policy.toml", "--as", "student.json", "--term", "net.tx=5cpu"), 64, "counted in B/s"),
        (("policy.toml", "--as", "student.json", "--need", "gpu", "--at", "noon"), 64, "is no time"),
    ],
)
def test_statuses(files: Path, options: tuple[str, ...], status: int, said: str) -> None:
    done = check(files, *options)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_no_colour_and_no_frame_in_a_pipe(files: Path) -> None:
    done = check(files, "policy.toml", "--as", "student.json", "--need", "gpu")
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("1 +", "is no CEL"),
        ("(" * 1000 + "true" + ")" * 1000, "is no CEL"),
        ("nosuch == 1", "Undefined variable or function: 'nosuch'"),
        ("agent.role", "gives str; compare it with something"),
        (SIX_LOOPS, "takes longer than 0.5 s, or too much memory"),
    ],
)
def test_a_condition_that_can_t_be_used_is_found_in_the_child(condition: str, said: str) -> None:
    found = try_conditions([Expression("true"), Expression(condition), Expression("also wrong")], cpu_s=0.5)
    assert found is not None
    assert (found[0], said in found[1]) == (1, True), found


def test_what_depends_on_the_request_is_no_reason_to_refuse_a_file() -> None:
    assert (
        try_conditions(
            [Expression('request.terms["gpu"] > 4'), Expression("1 / (size(agent.groups) - 1) == 1")]
        )
        is None
    )


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ('who = "nosuch"', '"mine" who Undefined variable or function'),
        (
            'when = "now.hour < 9"\nzone = "Europe/Nowhere"',
            '"mine" zone = "Europe/Nowhere" is not known here',
        ),
        (
            'when = "now.hour < 9"\nzone = "../../etc/passwd"',
            '"mine" zone = "../../etc/passwd" is not known here',
        ),
        ("max = 1", 'unknown key "max"'),
    ],
)
def test_a_reload_replaces_the_policy_as_a_whole_or_not_at_all(tmp_path: Path, bad: str, said: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[[rule]]\nname = 'first'\nallow = ['gpu']\n", encoding="utf-8")
    keeper = PolicyKeeper(file)
    before = keeper.policy
    file.write_text(
        f"[[rule]]\nname = 'other'\nallow = ['*']\n[[rule]]\nname = 'mine'\ndeny = ['gpu']\n{bad}\n",
        encoding="utf-8",
    )
    with pytest.raises(BadConfig) as refused:
        keeper.reload()
    assert said in refused.value.text
    assert keeper.policy is before
    file.write_text(
        "[[rule]]\nname = 'second'\nallow = ['psu']\nwho = 'agent.id == \"x\"'\n", encoding="utf-8"
    )
    assert [rule.name for rule in keeper.reload().rules] == ["second"]
    assert keeper.policy is not before


def test_files_that_are_too_long_or_no_text(tmp_path: Path) -> None:
    for raw, said in ((b"#" * (1024 * 1024 + 1), "too long"), (b"a = '\xff'", "not UTF-8")):
        (tmp_path / "p.toml").write_bytes(raw)
        with pytest.raises(BadConfig, match=said):
            load_policy(tmp_path / "p.toml")


def test_a_moment_in_each_zone() -> None:
    at = Moment(dt.datetime(2026, 11, 29, 23, 30, tzinfo=dt.UTC))
    assert (at("UTC").weekday, at("UTC").hour, at("UTC").minute) == (6, 23, 30)
    assert (at("Europe/Amsterdam").weekday, at("Europe/Amsterdam").hour) == (0, 0)
    assert Moment(dt.datetime(2026, 11, 29, 23, 30))("Asia/Tokyo").hour == 23
