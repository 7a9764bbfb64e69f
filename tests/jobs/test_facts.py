"""What an attempt's files say about it, whenever its watcher was killed."""

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs.scripts import ITEMS, SEQUENCE

from holdall.jobs.attempts import Attempts
from holdall.jobs.entries import TEXT_MAX, Decided, Ended, Granted, Outcome, encode_entry
from holdall.jobs.facts import Done, Facts, Got, Starting, Stopping, outcome_of, read_facts, units_shown
from holdall.jobs.folders import ATTEMPT_LOCK, FACTS, Lock, attempt_folder
from holdall.jobs.moves import AttemptEnded, AttemptGranted
from holdall.model.job_frames import ENTRY_BYTES_MAX

LINES = (Got("L1", ("gpu/0@n#1",)), Starting(), Stopping("x"), Done(Outcome("ok", 0)))
WHOLE = [(0, "unstarted"), (1, "unstarted"), (2, "interrupted"), (3, "interrupted"), (4, "ok")]


@pytest.mark.parametrize(("lines", "kind"), WHOLE)
def test_the_lines_that_are_there_say_what_is_known(tmp_path: Path, lines: int, kind: str) -> None:
    facts = Facts(tmp_path / "facts")
    for line in LINES[:lines]:
        facts.write(line)
    facts.close()
    assert read_facts(tmp_path / "facts") == list(LINES[:lines])
    assert outcome_of(read_facts(tmp_path / "facts")).kind == kind


def test_a_line_that_was_cut_off_counts_for_nothing(tmp_path: Path) -> None:
    facts = Facts(tmp_path / "facts")
    for line in LINES:
        facts.write(line)
    facts.close()
    data = (tmp_path / "facts").read_bytes()
    ends = [place for place, byte in enumerate(data) if byte == 10]
    for cut in range(len(data) + 1):
        (tmp_path / "cut").write_bytes(data[:cut])
        whole = sum(1 for end in ends if end < cut)
        assert read_facts(tmp_path / "cut") == list(LINES[:whole])
        assert outcome_of(read_facts(tmp_path / "cut")).kind == dict(WHOLE)[whole]


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        outcome_of(read_facts(Path(file.name)))


def test_an_attempt_is_over_only_when_its_lock_is_free(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, "J" * 26, tmp_path / "socket")
    attempts.job = SEQUENCE
    folder = attempt_folder(tmp_path, 0, "a", 1)
    folder.mkdir(parents=True)
    lock = Lock.take(folder / ATTEMPT_LOCK)
    assert lock is not None
    facts = Facts(folder / FACTS)
    attempts.launch("a", 1, 1)
    facts.waits("1st of 2")
    assert attempts.notes() == [("a", "1st of 2")]
    facts.write(Got("L1", ("gpu/0@n#1",)))
    facts.write(Starting())
    assert attempts.look() == [AttemptGranted("a", 1, "L1", ("gpu/0@n#1",))]
    facts.write(Done(Outcome("failed", 3)))
    facts.close()
    assert attempts.look() == []
    assert attempts.notes() == [("a", "running")]
    lock.close()
    assert attempts.look() == [AttemptEnded("a", 1, Outcome("failed", 3))]
    assert attempts.look() == []


def test_a_folder_without_anything_is_an_attempt_that_never_began(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, "J" * 26, tmp_path / "socket")
    attempts.job = SEQUENCE
    attempt_folder(tmp_path, 1, "b", 4).mkdir(parents=True)
    attempts.launch("b", 4, 1)
    attempts.stop("b", 4)
    (ended,) = attempts.look()
    assert isinstance(ended, AttemptEnded)
    assert ended.outcome.kind == "unstarted"


def test_only_so_many_are_under_way_as_the_job_says_and_the_others_have_their_turn(tmp_path: Path) -> None:
    attempts = Attempts(tmp_path, "J" * 26, tmp_path / "socket")
    attempts.job = msgspec.structs.replace(ITEMS, at_once=1)
    folder = attempt_folder(tmp_path, 0, "a[1]", 1)
    folder.mkdir(parents=True)
    lock = Lock.take(folder / ATTEMPT_LOCK)
    assert lock is not None
    (tmp_path / "tasks" / "0002-a_2").write_text("in the way")
    for name in ("a[1]", "a[2]", "b"):
        attempts.launch(name, 1, 1)
    assert attempts.look() == []
    assert [note[:20] for _, note in attempts.notes()] == [
        "begins",
        "waits for its turn, ",
        "waits for its turn, ",
    ]
    attempts.stop("b", 1)
    (stopped,) = attempts.look()
    assert stopped == AttemptEnded("b", 1, Outcome("unstarted", None, "stopped before it began"))
    lock.close()
    (first,), (second,) = attempts.look(), attempts.look()
    assert isinstance(first, AttemptEnded)
    assert isinstance(second, AttemptEnded)
    assert (first.instance, second.instance) == ("a[1]", "a[2]")
    assert attempts.look() == []


def test_a_folder_that_can_t_be_made_is_an_attempt_that_never_began(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("in the way")
    attempts = Attempts(tmp_path, "J" * 26, tmp_path / "socket")
    attempts.job = SEQUENCE
    attempts.launch("a", 1, 1)
    (ended,) = attempts.look()
    assert isinstance(ended, AttemptEnded)
    assert ended.outcome.kind == "unstarted"
    assert "its folder: Not a directory" in ended.outcome.text


def test_a_lease_of_many_units_is_told_by_the_first_of_them() -> None:
    units = tuple(f"gpu/{number}@{'n' * 63}#1" for number in range(5_000))
    shown = units_shown(units)
    assert shown[:-1] == units[: len(shown) - 1]
    assert shown[-1] == f"and {5_000 - len(shown) + 1} more"
    assert len(encode_entry(Granted("x" * 130, 1, "L" * 26, shown))) < ENTRY_BYTES_MAX
    assert units_shown(units[:3]) == units[:3]


def test_the_longest_texts_fit_into_an_entry() -> None:
    worst = "\x01" * TEXT_MAX
    assert len(encode_entry(Ended("x" * 130, 1, Outcome("failed", 255, worst)))) < ENTRY_BYTES_MAX
    assert len(encode_entry(Decided("x" * 130, "failed", worst))) < ENTRY_BYTES_MAX
