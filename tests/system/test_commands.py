"""The commands beside `run`, as a user types them: what they say, their status, their JSON, and what they change."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from node.lab import CONFIG, Lab, lab
from node.waiting import until
from system.runs import HOLDALL, all_free, environment, free_units, ran, running

from holdall.cli import entry

pytestmark = pytest.mark.system


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        made.start("--new")
        yield made


def typed(lab: Lab, *arguments: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """One command from beginning to end."""
    return subprocess.run(
        [*HOLDALL, *arguments],
        env=environment(lab, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def listed(lab: Lab, *arguments: str) -> dict[str, Any]:
    """The JSON document of a command; every one says its version."""
    done = typed(lab, *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["v"] == 1
    return document


def test_a_detached_lease_from_its_grant_to_its_release(node: Lab) -> None:
    granted = typed(node, "lease", "--need", "board:2", "--for", "1h", "--reason", "soak")
    key = granted.stdout.strip()
    assert (granted.returncode, len(key)) == (0, 32)
    assert "board-1 fence" in granted.stderr
    (lease,) = listed(node, "who")["leases"]
    assert [unit["name"] for unit in lease["units"]] == ["board-1", "board-2"]
    assert (lease["reason"], lease["detached"], lease["ttl_ms"]) == ("soak", True, 20_000)
    shown = listed(node, "show", key)
    assert shown["lease"] == lease
    assert [row["kind"] for row in shown["log"]] == ["granted"]

    later = listed(node, "renew", key, "--for", "2h")["lease"]["until_ms"]
    assert later > lease["until_ms"]
    same = typed(node, "renew", "--for", "1m", HOLDALL_LEASE=key)
    assert same.returncode == 0
    assert listed(node, "show", key)["lease"]["until_ms"] == later, "an end is never made earlier"

    inside = ran(node, "--need", "board", "--", "sh", "-c", "echo $HOLDALL_UNITS_BOARD", HOLDALL_LEASE=key)
    assert (inside.returncode, inside.stdout) == (0, "board-1\n")
    assert [typed(node, "release", key, "--wait").returncode for _ in range(2)] == [0, 0]
    assert all_free(node)
    ended = typed(node, "show", key)
    assert (ended.returncode, "released" in ended.stdout) == (0, True)
    refused = typed(node, "renew", key, "--for", "1h")
    assert (refused.returncode, "has ended" in refused.stderr) == (77, True)


def waited_s(node: Lab, claim: str) -> int:
    told = re.search(r"\((\d+) s\)", typed(node, "why", claim).stdout)
    return int(told[1]) if told else 0


def test_a_lease_that_is_waited_for_longer_than_its_ttl_keeps_its_place(node: Lab) -> None:
    with node.client() as holder:
        held = holder.lease("psu:2", ttl_ms=60_000)
        with subprocess.Popen(
            [*HOLDALL, "lease", "--need", "psu", "--for", "1m", "--ttl", "5s", "--wait", "1m"],
            env=environment(node),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as waiting:
            until(lambda: len(holder.listing("queue").waits) == 1, "it waits")
            (queued,) = holder.listing("queue").waits
            # Where its place was given up, this comes after the ttl.
            until(
                lambda: waited_s(node, queued.claim) >= 11 or waiting.poll() is not None,
                "twice its ttl has passed",
            )
            assert waiting.poll() is None
            holder.release(held.key)
            assert waiting.stdout is not None
            assert len(waiting.stdout.read().strip()) == 32
        assert waiting.returncode == 0


def test_who_waits_is_told_why_and_can_be_cancelled(node: Lab) -> None:
    with contextlib.ExitStack() as runs:
        runs.enter_context(running(node, "--need", "psu:2", "--reason", "soak test", "--", "sleep", "1000"))
        until(lambda: free_units(node, "psu") == 0, "both are held")
        waiting = runs.enter_context(
            running(node, "--need", "psu", "--need", "board", "--wait", "10m", "--", "true")
        )
        until(lambda: bool(listed(node, "queue")["waiting"]), "it waits")
        (queued,) = listed(node, "queue")["waiting"]
        claim = f"{queued['claim'][:4]}-{queued['claim'][4:6]}"
        why = typed(node, "why", claim).stdout
        assert "place     1st of 1" in why
        assert "need      psu:1 busy (0 of 2 free)" in why
        assert "need      board:1 ok (3 of 3 free)" in why
        assert '"soak test" (psu-1, psu-2, renewing)' in why
        assert "at most 8 younger ones can get ahead of you at this node; 0 did, 8 still can" in why
        document = listed(node, "why", claim)["why"]
        assert document == queued
        assert document["blockers"][0]["reason"] == "soak test"
        cancelled = typed(node, "cancel", claim)
        assert cancelled.returncode == 0
        assert waiting.wait(60) == 75
        assert listed(node, "queue")["waiting"] == []
        assert typed(node, "cancel", claim).returncode == 77
        kinds = [(row["kind"], row["lease"] == queued["claim"]) for row in listed(node, "log")["log"]]
        assert kinds[-1] == ("cancelled", True)


def test_what_happens_is_watched_as_it_happens(node: Lab) -> None:
    with subprocess.Popen(
        [*HOLDALL, "watch"], env=environment(node), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as watch:
        assert watch.stdout is not None
        lines: list[str] = []
        # It tells what comes after it has begun, so there is news until it has seen some.
        while not any("released" in line for line in lines):
            assert ran(node, "--need", "psu", "--", "true").returncode == 0
            lines.append(watch.stdout.readline())
        watch.send_signal(signal.SIGINT)
        watch.communicate()
    assert watch.returncode in {0, 130}


def test_a_drained_node_gives_nothing_until_that_ends(node: Lab) -> None:
    assert typed(node, "drain", "elsewhere").returncode == 64
    assert typed(node, "drain").returncode == 0
    refused = ran(node, "--need", "psu", "--now", "--", "true")
    assert (refused.returncode, "draining" in refused.stderr) == (75, True)
    assert typed(node, "drain", "--end").returncode == 0
    assert ran(node, "--need", "psu", "--now", "--", "true").returncode == 0


def test_a_kick_needs_a_reason_and_one_that_does_not_wait_says_what_is_not_protected(node: Lab) -> None:
    with node.client() as holder:
        held = holder.lease("psu:1", ttl_ms=60_000)
        fence = held.lease.units[0].fence
        assert typed(node, "kick", held.lease.lease).returncode == 64
        assert typed(node, "kick", "ZZZZ-ZZ", "--reason", "x").returncode == 77
        kicked = typed(node, "kick", held.lease.lease, "--reason", "host is dead", "--unsafe")
        assert kicked.returncode == 0
        assert free_units(node, "psu") == 2
        assert "fence" in kicked.stderr
        with node.client() as other:
            again = other.lease("psu:2")
        assert min(unit.fence for unit in again.lease.units) > fence
    rows = [row for row in listed(node, "log")["log"] if row["lease"] == held.lease.lease]
    assert any("host is dead" in row["text"] for row in rows)


def test_a_unit_in_quarantine_is_cleared_by_hand() -> None:
    with lab() as made:
        made.configure(
            CONFIG.replace('units = ["psu-1", "psu-2"]', 'units = ["psu-1"]\non_release = "false"')
        )
        made.start("--new")
        assert ran(made, "--need", "psu", "--", "true").returncode == 0
        until(lambda: "quarantined" in typed(made, "pools", "psu").stdout, "its hook has failed")
        assert typed(made, "clear", "psu/nothing").returncode != 0
        assert typed(made, "clear", "psu/psu-1").returncode == 0
        assert listed(made, "pools", "psu")["pools"][0]["free"] == 1


def test_doctor_looks_at_everything_and_a_bad_file_is_a_finding(node: Lab, tmp_path: Path) -> None:
    findings = {one["about"]: one["state"] for one in listed(node, "doctor", str(node.config))["findings"]}
    assert {"clock", "config", "state", "disk", "node", "version"} <= set(findings)
    assert findings["node"] == "ok"
    bad = tmp_path / "bad.toml"
    bad.write_text("[node\n")
    done = typed(node, "doctor", str(bad))
    assert done.returncode != 0
    assert "not TOML" in done.stdout + done.stderr


def test_a_first_configuration_is_written_once_and_can_be_served(tmp_path: Path, node: Lab) -> None:
    config = tmp_path / "holdall.toml"
    assert typed(node, "init", str(config)).returncode == 0
    text = config.read_text()
    assert "[[pool]]" in text
    refused = typed(node, "init", str(config))
    assert (refused.returncode, "--force" in refused.stderr) == (78, True)
    assert config.read_text() == text
    assert typed(node, "init", str(config), "--force").returncode == 0
    done = typed(node, "doctor", str(config))
    assert "config" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_each_shell_and_no_other(node: Lab, shell: str) -> None:
    done = typed(node, "completion", shell)
    assert (done.returncode, "holdall" in done.stdout) == (0, True)
    assert typed(node, "completion", "tcsh").returncode == 64


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("--need", "nothing:1"), 65, "See: holdall pools"),
        (("--need", "board:4"), 65, "Ask for ≤ 3"),
        (("--need", "board:99999"), 65, "Ask for ≤ 3"),
        (("--need", "board:3", "--need", "board:1"), 65, "needs that overlap get distinct units"),
        (("--need", "board:0"), 64, "between 1 and"),
        (("--need", "board:-1"), 64, "between 1 and"),
        (("--need", "board:100000000000000000000"), 64, "between 1 and"),
        (("--need", "board:two"), 64, "board:two"),
        (("--need", "b" * 300), 64, "is not a pool name"),
        (("--need", "board", "--ttl", "0"), 64, "between"),
        (("--need", "board", "--ttl", "365d"), 64, "between"),
        (("--need", "board", "--for", "0"), 64, "--for 30m"),
        (("--need", "board", "--now", "--wait", "1m"), 64, "Leave one of them out"),
        (("--need", "board", "--wait", "soon"), 64, "10m"),
        (("--need", "board,@elsewhere"), 65, "this is lab-1"),
        ((), 64, "--need gpu:1"),
    ],
)
def test_c11_bad_input_has_its_status_and_next_step_and_changes_nothing(
    node: Lab, arguments: tuple[str, ...], status: int, said: str
) -> None:
    before = listed(node, "log"), listed(node, "pools")
    for command in (
        ("run", *arguments, "--", "true"),
        ("lease", *arguments, *(() if "--for" in arguments else ("--for", "1h"))),
    ):
        if not arguments and command[0] == "lease":
            continue  # its parser says that --need is missing
        done = typed(node, *command)
        assert (done.returncode, done.stdout) == (status, ""), (command, done.stderr)
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert (listed(node, "log"), listed(node, "pools")) == before


def test_without_a_node_every_command_says_how_to_start_one(tmp_path: Path, node: Lab) -> None:
    nowhere = f"unix://{tmp_path}/holdall.sock"
    for command in (
        ("run", "--need", "psu", "--", "true"),
        ("lease", "--need", "psu", "--for", "1h"),
        ("who",),
        ("pools", "--json"),
        ("release", "key"),
        ("cancel", "7K4M-Q2"),
    ):
        done = typed(node, *command, HOLDALL_URL=nowhere)
        assert (done.returncode, done.stdout) == (69, "")
        assert "holdall serve" in done.stderr


@pytest.mark.requires("root")
def test_the_node_of_another_user_is_refused_and_not_called_absent(node: Lab) -> None:
    """A copy of this process changes its user, since that user may not be able to start our Python."""
    for name in ("looking", "running"):
        import_module(f"holdall.cli.{name}")  # before that user comes, who may not be able to read them
    node.folder.chmod(0o711)
    for command in (["who"], ["run", "--need", "psu", "--", "true"]):
        heard, said = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.dup2(said, 2)
                sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - it lives as long as the copy
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
                entry.main([*command[:1], "--url", f"unix://{node.socket}", *command[1:]])
            except SystemExit as ended:
                sys.stderr.flush()
                os._exit(int(str(ended.code)))
            finally:
                os._exit(99)
        os.close(said)
        with open(heard) as pipe:  # noqa: PTH123 - a descriptor
            text = pipe.read()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 77, text
        assert "is not for this user" in text
        assert "holdall serve" in text


@pytest.mark.parametrize(("file", "status"), [("", 126), ("absent", 127)])
def test_a_command_that_can_not_be_executed_is_told_apart_from_one_that_is_not_there(
    node: Lab, tmp_path: Path, file: str, status: int
) -> None:
    done = ran(node, "--need", "psu", "--", str(tmp_path / file))
    assert done.returncode == status
    assert listed(node, "log")["log"][-1]["text"].startswith(f"command ended with {status} (")
    assert all_free(node)
