"""What the writer says is what the checker reads; a kill loses nothing that was said."""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from holdall.checker import judge
from holdall.checker.reading import read_files
from holdall.checker.records import Claim, Grant, Release, Renew
from holdall.client.history import Amount, Capacity, HistoryWriter, Unit, UnitNames
from holdall.client.recorder import bound_of
from holdall.model.why import NodeLine, Why


def test_every_kind_of_line_is_read_back_without_damage(tmp_path: Path) -> None:
    path = tmp_path / "h"
    with HistoryWriter(path, "driver") as driver, HistoryWriter(path, "ann") as ann:
        driver.meta(
            {"psu": UnitNames(["a", "b"]), "mem": Capacity(4)},
            eps="1us",
            max_wait="1m",
            max_overtakes=3,
            max_reclaim="10s",
        )
        called = ann.now()
        ann.claim("c1", {"psu": 1, "mem": 2}, otherwise=[{"psu": 2}], group="g")
        ann.queued("c1", bound=8)
        until = called + 1_000_000_000
        ann.grant(
            "c1",
            [Unit("psu", "a", 7), Amount("mem", 2)],
            lease="l1",
            valid_until=until,
            call=called,
            ttl_ns=1_000_000_000,
            delegates=["guard"],
        )
        renewing = ann.now()
        ann.renew("l1", ok=True, valid_until=renewing + 5, call=renewing, ttl_ns=1_000_000_000, by="guard")
        ann.renew("l1", ok=False, valid_until=None)
        driver.use("psu", "a", fence=7, start=ann.now())
        driver.audit("psu", call=ann.now(), total=2, free=1, held=1, fences={"a": 7})
        call = ann.releasing("l1")
        ann.released("l1", call=call, ok=True)
        ann.claim("c2", {"psu": "all"})
        ann.fail("c2", definite=False)
        ann.lost("l1")
        ann.resume("l1", valid_until=None)
        driver.fault("pause", start=called, end=ann.now(), excuse=True, client="ann")
        driver.crash("ann")
        driver.end()
    read = read_files([path])
    assert (list(read.problems), read.torn) == ([], 0)
    kinds = [type(line.record).__name__.lower() for line in read.lines]
    assert kinds == [
        *("setup", "claim", "queued", "grant", "renew", "renew", "use", "audit", "release", "release"),
        *("claim", "fail", "lost", "resume", "fault", "crash", "end"),
    ]
    grant = next(line.record for line in read.lines if isinstance(line.record, Grant))
    assert (grant.lease_id, grant.call, grant.ttl, grant.valid_until) == ("l1", called, 1_000_000_000, until)
    renewal = next(line.record for line in read.lines if isinstance(line.record, Renew))
    assert renewal.by == "guard"


def test_a_whole_life_of_a_lease_is_judged_clean(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h", "ann") as ann:
        ann.meta({"psu": UnitNames(["a"])})
        for fence in (1, 2, 3):
            name = ann.new_claim()
            called = ann.claim(name, {"psu": 1})
            ann.grant(name, [Unit("psu", "a", fence)], valid_until=called + 10**9, call=called, ttl_ns=10**9)
            call = ann.releasing(name)
            ann.released(name, call=call, ok=True)
        ann.end()
    verdict = judge([tmp_path / "h"])
    assert (verdict.exit_status, verdict.statistics.grants, verdict.statistics.deadlines_unproven) == (
        0,
        3,
        0,
    )


def test_a_lease_without_an_end_says_so(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h", "ann") as ann:
        ann.grant("c", [Unit("psu", "a", 1)], valid_until=None)
    assert b'"valid_until":null' in (tmp_path / "h").read_bytes()


def test_a_deadline_of_the_clock_that_counts_suspend_becomes_a_stamp() -> None:
    before = HistoryWriter.now()
    stamp = HistoryWriter.stamp_of(time.clock_gettime_ns(time.CLOCK_BOOTTIME) + 5_000_000_000)
    after = HistoryWriter.now()
    assert stamp is not None
    assert before <= stamp - 5_000_000_000 + 1_000_000
    assert stamp - 5_000_000_000 <= after
    assert HistoryWriter.stamp_of(None) is None


def test_claim_ids_of_one_name_differ(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "h", "ann") as one, HistoryWriter(tmp_path / "h", "ann") as other:
        assert len({one.new_claim(), one.new_claim(), other.new_claim(), other.new_claim()}) == 4


def test_many_processes_share_a_file_without_mixing_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "h"
    children: list[int] = []
    for number in range(8):
        child = os.fork()
        if child == 0:
            with HistoryWriter(path, f"client-{number}") as writer:
                for index in range(200):
                    writer.claim(f"{number}-{index}", {"psu": 1, "x" * (index % 90 + 1): 2})
            os._exit(0)
        children.append(child)
    for child in children:
        assert os.waitpid(child, 0)[1] == 0
    read = read_files([path])
    assert (list(read.problems), read.torn) == ([], 0)
    said = {line.record.claim for line in read.lines if isinstance(line.record, Claim)}
    assert said == {f"{number}-{index}" for number in range(8) for index in range(200)}


def test_a_kill_loses_nothing_that_was_said(tmp_path: Path) -> None:
    path = tmp_path / "h"
    child = os.fork()
    if child == 0:
        writer = HistoryWriter(path, "ann")
        writer.releasing("l1")
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    (line,) = read_files([path]).lines
    assert isinstance(line.record, Release)


def test_a_line_after_somebodys_half_line_is_not_glued_to_it(tmp_path: Path) -> None:
    path = tmp_path / "h"
    path.write_bytes(b'{"t":"cla')
    with HistoryWriter(path, "ann") as ann:
        ann.lost("l1")
    read = read_files([path])
    assert len(read.lines) == 1
    assert [problem.split(": ")[0] for problem in read.problems] == [f"{path}:1"]


def test_a_closed_writer_refuses(tmp_path: Path) -> None:
    writer = HistoryWriter(tmp_path / "h", "ann")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="is closed"):
        writer.lost("l1")


def test_a_full_disk_is_an_error() -> None:
    if sys.platform == "linux":
        with pytest.raises(OSError, match="No space left"):
            HistoryWriter("/dev/full", "ann").lost("l1")


def test_a_folder_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HistoryWriter(tmp_path / "no" / "h", "ann")


def test_a_bound_is_said_only_of_a_claim_that_stands_in_all_its_lines() -> None:
    in_line = Why("7" * 26, "ann", 1, 1, 1, 0, 0, 8, 8)
    assert bound_of(in_line) == 8
    assert bound_of(msgspec.structs.replace(in_line, in_line=False)) is None
    assert bound_of(msgspec.structs.replace(in_line, bounded=False)) is None
    there = NodeLine("b", 1, "waits", passes_bound=8)
    reserve = NodeLine("d", 2, "in reserve")
    for state, bound in (("has its units", 8), ("comes later", None), ("not asked", None)):
        lines = (there, NodeLine("c", 1, state), reserve)
        assert bound_of(msgspec.structs.replace(in_line, in_line=False, lines=lines)) == bound
