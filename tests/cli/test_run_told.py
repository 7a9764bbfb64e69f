"""The lease of a command that runs for somebody else: how it is told, and that nothing else depends on it."""

import os
from pathlib import Path

import msgspec
import pytest

from holdall.cli.run_told import tell_starter, write_down
from holdall.client.scope import FACTS_ENV
from holdall.jobs.entries import Outcome
from holdall.jobs.facts import Done, Facts, Got, Starting, read_facts
from holdall.model.frames import HeldUnit, LeaseView
from holdall.model.run_frames import GRANT_ENV, RunLease

LEASE = LeaseView(
    lease="L" * 26,
    holder="eva@lab-a",
    user="eva",
    pid=1,
    reason="",
    state="active",
    units=(HeldUnit("gpu", "0", "lab-b", 7),),
    needs=("gpu:1",),
    since_ms=0,
    waited_ms=0,
    ttl_ms=1,
    until_ms=None,
    expires_ms=1,
    renewing=True,
)
TOLD = RunLease("L" * 26, ("gpu/0@lab-b#7",))


def test_who_has_started_a_run_hears_its_lease_and_the_command_has_nothing_of_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv(GRANT_ENV, str(writing))
    tell_starter(LEASE)
    assert msgspec.json.decode(os.read(reading, 4096), type=RunLease) == TOLD
    assert os.read(reading, 1) == b"", "closed"
    os.close(reading)
    assert GRANT_ENV not in os.environ


@pytest.mark.parametrize("number", ["", "x", "-1", "99999", "\u0661", "file"])
def test_what_is_no_pipe_of_a_starter_is_left_alone(
    number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "file").open("wb") as file:
        monkeypatch.setenv(GRANT_ENV, str(file.fileno()) if number == "file" else number)
        tell_starter(LEASE)
    assert (tmp_path / "file").read_bytes() == b""


def test_an_attempt_finds_the_lease_among_its_facts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts(tmp_path / "facts")
    facts.write(Starting())
    monkeypatch.setenv(FACTS_ENV, str(tmp_path / "facts"))
    write_down(TOLD)
    facts.write(Done(Outcome("ok", 0)))
    facts.close()
    assert read_facts(tmp_path / "facts") == [Starting(), Got(TOLD.lease, TOLD.units), Done(Outcome("ok", 0))]


@pytest.mark.parametrize("file", ["", "gone/facts"])
def test_without_such_a_file_nothing_is_written(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FACTS_ENV, str(tmp_path / file) if file else "")
    write_down(TOLD)
    assert list(tmp_path.iterdir()) == []
