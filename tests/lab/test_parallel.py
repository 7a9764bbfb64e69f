"""Runs in processes of their own: every job once, in any order, and what happens when one breaks down."""

import os

import pytest

from holdall.lab.parallel import Progress, WorkFailed, each


def tenfold(job: int) -> tuple[int, int]:
    return job * 10, os.getpid()


def breaks(job: int) -> int:
    if job == 2:
        raise ValueError("job 2 is broken")
    return job


def ends(job: int) -> int:
    os._exit(7 + job)


@pytest.mark.parametrize(("processes", "fresh"), [(1, False), (1, True), (2, False), (3, True)])
def test_every_job_is_done_once_and_its_place_told(processes: int, fresh: bool) -> None:
    jobs = [5, 3, 8, 1, 9]
    found = dict(each(jobs, tenfold, processes=processes, fresh=fresh))
    assert {place: value for place, (value, _) in found.items()} == {0: 50, 1: 30, 2: 80, 3: 10, 4: 90}
    assert (os.getpid() in {pid for _, pid in found.values()}) is (processes == 1 and not fresh)


def test_a_broken_run_is_told_with_its_traceback() -> None:
    with pytest.raises(WorkFailed, match="job 2 is broken"):
        list(each([1, 2, 3, 4], breaks, processes=2))
    with pytest.raises(WorkFailed, match="exit code 7"):
        list(each([0], ends, processes=2))


def test_progress_is_one_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("holdall.lab.parallel.PLAIN_EVERY_S", 0.0)
    progress = Progress(2)
    progress.done("chain on ring-50")
    progress.done("chain on star-12")
    progress.close()
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(" runs")[0] for line in lines] == ["1 of 2", "2 of 2"]
    assert lines[1].endswith("about 0 s left; last: chain on star-12")
