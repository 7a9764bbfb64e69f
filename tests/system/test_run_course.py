"""`holdall run` against a real node: what the command finds around it, exit statuses, waiting and its texts."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import Lab, lab
from node.waiting import until
from system.runs import all_free, environment, free_units, numbers_in, ran, running

pytestmark = [pytest.mark.system, pytest.mark.requires("linux")]


@pytest.fixture(scope="module")
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


def test_the_command_finds_units_fences_key_file_and_what_set_names(node: Lab, tmp_path: Path) -> None:
    out = tmp_path / "seen"
    run = ran(
        node, "--need", "board:2", "--need", "psu", "--set", "BOARDS=board", "--reason", "nightly", "--",
        "sh", "-c", f"env > {out}; cat $HOLDALL_LEASE_FILE >&2; exit 3",
    )  # fmt: skip
    seen = dict(line.split("=", 1) for line in out.read_text().splitlines() if "=" in line)
    assert run.returncode == 3
    assert seen["HOLDALL_UNITS_BOARD"] == "board-1,board-2" == seen["BOARDS"]
    assert seen["HOLDALL_UNITS_PSU"] == "psu-1"
    assert [int(number) > 0 for number in seen["HOLDALL_FENCE_BOARD"].split(",")] == [True, True]
    assert len(seen["HOLDALL_LEASE"]) >= 26
    assert not Path(seen["HOLDALL_LEASE_FILE"]).parent.exists()
    granted, document = run.stderr.splitlines()[:2]
    assert granted.startswith("granted   lease ")
    assert "ttl 20 s renewing" in granted
    assert [unit["name"] for unit in json.loads(document)["units"]] == ["board-1", "board-2", "psu-1"]
    assert all_free(node)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--need", "psu", "--", "true"), 0, "granted"),
        (("--need", "psu", "--", "sh", "-c", "kill -TERM $$"), 128 + signal.SIGTERM, "granted"),
        (("--need", "psu", "--", "/no/such/command"), 127, "cannot run /no/such/command: No such file"),
        (("--need", "psu", "--", "/etc/passwd"), 126, "cannot run /etc/passwd: Permission denied"),
        (("--need", "psu:3", "--", "true"), 65, "cannot ever be granted: psu:3 — 2 such units exist"),
        (("--need", "nosuch", "--", "true"), 65, "holdall pools"),
        (("--need", "psu:0", "--", "true"), 64, "psu:0"),
        (("--need", "psu:-1", "--", "true"), 64, "psu:-1"),
        (("--need", f"psu:{10**20}", "--", "true"), 64, "count must lie between"),
        (("--need", "psu:two", "--", "true"), 64, "psu:two"),
        (("--need", "p" * 300, "--", "true"), 64, "not a pool name"),
        (("--", "true"), 64, "--need gpu:1"),
        (("--need", "psu", "--ttl", "0", "--", "true"), 64, "--ttl"),
        (("--need", "psu", "--ttl", "365d", "--", "true"), 64, "must lie between"),
        (("--need", "psu", "--set", "psu", "--", "true"), 64, "write VAR=POOL"),
        (("--need", "psu", "--set", "X=gpu", "--", "true"), 64, "Asked for: psu"),
        (("--need", "psu", "--on", "lab-9", "--", "true"), 69, "lab-9"),
        (("--need", "psu", "--url", "unix:///no/holdall.sock", "--", "true"), 69, "holdall serve"),
        (("--need", "psu", "--url", "ftp://x", "--", "true"), 64, "unix:///"),
    ],
)
def test_c10_each_end_has_its_status_and_names_the_next_step(
    node: Lab, arguments: tuple[str, ...], status: int, said: str
) -> None:
    run = ran(node, *arguments)
    assert run.returncode == status, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
    assert all_free(node)


def test_c10_not_granted_in_time_says_who_holds_it_and_e_chooses_the_status(
    node: Lab, tmp_path: Path
) -> None:
    hold = (
        "--need",
        "psu:2",
        "--reason",
        "soak test",
        "--",
        "sh",
        "-c",
        f"echo $$ > {tmp_path}/up; sleep 1000",
    )
    with running(node, *hold, HOLDALL_AGENT="ci@runner-4"):
        numbers_in(tmp_path / "up")
        late = ran(node, "--need", "psu", "--wait", "300ms", "--", "true")
        assert late.returncode == 75
        # Whether it is still seen to wait depends on how busy the machine is; its last word does not.
        assert 'not granted within 300ms: psu:1 busy. Held by ci@runner-4 "soak test"' in late.stderr
        assert "See: holdall why" in late.stderr
        assert ran(node, "--need", "psu", "--now", "-E", "3", "--", "true").returncode == 3
    until(lambda: all_free(node), "the holder was killed and its units are free")


def test_who_is_interrupted_while_waiting_leaves_the_queue(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--", "sh", "-c", f"echo $$ > {tmp_path}/up; sleep 1000"):
        numbers_in(tmp_path / "up")
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with running(node, "--need", "psu", "--wait", "5m", "--", "true") as waiting:
                assert waiting.stderr is not None
                assert waiting.stderr.readline().startswith("waiting")
                waiting.send_signal(number)
                assert waiting.wait(30) == status
            with node.client() as client:
                assert client.listing("queue").waits == ()


def test_without_terminal_the_default_wait_is_an_hour_and_said(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--", "sh", "-c", f"echo $$ > {tmp_path}/up; sleep 1000"):
        numbers_in(tmp_path / "up")
        with running(node, "--need", "psu", "--", "true") as waiting:
            assert waiting.stderr is not None
            assert "waiting at most 1 h, as standard input is no terminal" in waiting.stderr.readline()


def test_c17_a_run_inside_a_run_uses_what_the_outer_one_holds(node: Lab, tmp_path: Path) -> None:
    holdall = f"{sys.executable} -m holdall.cli"
    inner = (
        f"{holdall} run --need board -- sh -c 'echo $HOLDALL_UNITS_BOARD; exit 5'; echo $?;"
        f"{holdall} run --need psu:2 -- true; echo $?;"
        f"{holdall} run --need psu --now -- sh -c 'echo $HOLDALL_UNITS_PSU'; echo $?;"
        f"{holdall} run --independent --need psu --wait 1s -- true; echo $?"
    )
    with running(node, "--need", "board:2", "--", "sh", "-c", inner) as outer:
        out, errors = outer.communicate(timeout=90)
    assert out.split() == ["board-1", "5", "75", "psu-1", "0", "0"], errors
    assert "part of the lease you hold" in errors
    assert "you already hold" in errors
    assert all_free(node)


def test_a_hard_end_that_the_command_extends_does_not_stop_it(node: Lab) -> None:
    holdall = f"{sys.executable} -m holdall.cli"
    # On a busy machine renew takes seconds to start.
    script = f"{holdall} renew --for 1h && sleep 16 && exit 5"
    run = ran(node, "--need", "psu", "--for", "15s", "--", "sh", "-c", script)
    assert run.returncode == 5, run.stderr


def test_what_the_run_was_started_to_ignore_its_command_ignores_too(node: Lab) -> None:
    nohup = (
        f"trap '' HUP; exec {sys.executable} -m holdall.cli run --need psu -- sh -c 'kill -HUP $$; exit 4'"
    )
    run = subprocess.run(
        ["sh", "-c", nohup], env=environment(node), stdin=subprocess.DEVNULL, check=False, timeout=90
    )
    assert run.returncode == 4


def test_an_alternative_is_taken_when_the_first_choice_is_busy(node: Lab, tmp_path: Path) -> None:
    with running(node, "--need", "psu:2", "--", "sh", "-c", f"echo $$ > {tmp_path}/up; sleep 1000"):
        numbers_in(tmp_path / "up")
        run = ran(
            node,
            "--need",
            "psu",
            "--or",
            "board:3",
            "--wait",
            "20s",
            "--",
            "sh",
            "-c",
            "echo $HOLDALL_UNITS_BOARD",
        )
        assert run.stdout.strip() == "board-1,board-2,board-3"


def test_json_lines_tell_what_happens(node: Lab) -> None:
    run = ran(node, "--need", "psu", "--json", "--", "true")
    granted = json.loads(run.stderr.splitlines()[0])
    assert (granted["v"], granted["event"], granted["lease"]["units"][0]["name"]) == (1, "granted", "psu-1")


def test_the_history_is_judged_clean(node: Lab, tmp_path: Path) -> None:
    history = tmp_path / "history"
    for _ in range(2):
        ran(node, "--need", "psu", "--history", str(history), "--", "true")
    said = [json.loads(line) for line in history.read_text().splitlines()]
    assert [line["t"] for line in said if line["t"] != "renew"] == [
        "claim",
        "grant",
        "release",
        "release",
    ] * 2
    first, second = [line["units"][0]["fence"] for line in said if line["t"] == "grant"]
    assert second > first


def test_leftovers_are_ended_and_named(node: Lab, tmp_path: Path) -> None:
    run = ran(
        node,
        "--need",
        "psu",
        "--",
        "sh",
        "-c",
        f"setsid sh -c 'echo $$ > {tmp_path}/far; exec sleep 1000' & while [ ! -s {tmp_path}/far ]; do sleep 0.05; done",
    )
    assert run.returncode == 0
    assert "ended 1 process that outlived the command" in run.stderr
    assert free_units(node, "psu") == 2


def test_c1_where_no_guardian_can_be_started_the_units_are_free_again_at_once(
    node: Lab, tmp_path: Path
) -> None:
    # An interpreter whose name is gone by then: what it starts of itself is not found.
    script = (
        "import sys; from holdall.cli.entry import main; "
        f"sys.executable = {str(tmp_path / 'gone')!r}; main(['run', '--need', 'psu:2', '--', 'true'])"
    )
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(node),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert run.returncode == 126
    assert "true was not started: [Errno 2]" in run.stderr
    assert "Traceback" not in run.stderr
    assert all_free(node)


def test_where_the_lease_file_has_no_place_the_units_are_free_again_at_once(
    node: Lab, tmp_path: Path
) -> None:
    nowhere = str(tmp_path / "nowhere")
    run = ran(node, "--need", "psu:2", "--", "true", TMPDIR=nowhere, XDG_RUNTIME_DIR=nowhere)
    assert (run.returncode, "Traceback" in run.stderr) in {(0, False), (126, False)}, run.stderr
    assert all_free(node)
