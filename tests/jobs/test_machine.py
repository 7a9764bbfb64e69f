"""The course of a job, one thing that happens at a time, with all that follows from it."""

import pytest
from jobs import scripts

from holdall.jobs.entries import (
    Cancelled,
    Decided,
    Ended,
    Entry,
    Finished,
    Granted,
    Launched,
    Outcome,
    decode_entry,
    encode_entry,
)
from holdall.jobs.machine import JobMachine, NotOfThisJob
from holdall.jobs.moves import AttemptEnded, AttemptGranted, Cancel, Launch, Pause, PauseOver, Record, Stop

OK = Outcome("ok", 0)
BAD = Outcome("failed", 1, "exit status 1")
LOST = Outcome("lost", None, "lease lost")


def test_a_sequence_begins_each_task_when_the_one_before_is_over() -> None:
    machine = JobMachine(scripts.SEQUENCE)
    assert machine.begin() == [Record(Launched("a", 1, 1)), Launch("a", 1, 1)]
    assert machine.waits_for("b") == ("a",)
    assert machine.handle(AttemptGranted("a", 1, "L", ("u",))) == [Record(Granted("a", 1, "L", ("u",)))]
    assert machine.handle(AttemptGranted("a", 1, "L", ("u",))) == []
    assert machine.handle(AttemptEnded("a", 1, OK)) == [
        Record(Ended("a", 1, OK)),
        Record(Decided("a", "ok")),
        Record(Launched("b", 1, 1)),
        Launch("b", 1, 1),
    ]
    assert machine.handle(AttemptEnded("b", 1, BAD)) == [
        Record(Ended("b", 1, BAD)),
        Record(Decided("b", "failed", "exit status 1")),
        Record(Finished("failed", "b failed")),
    ]


def test_a_failure_skips_what_needs_its_success() -> None:
    machine = JobMachine(scripts.CHAIN)
    machine.begin()
    assert machine.handle(AttemptEnded("a", 1, BAD))[2:] == [
        Record(Decided("b", "skipped", "a failed")),
        Record(Decided("c", "skipped", "b skipped")),
        Record(Finished("failed", "a failed")),
    ]


def test_a_choice_takes_one_way_and_the_merge_follows() -> None:
    machine = JobMachine(scripts.CHOICE)
    machine.begin()
    assert machine.handle(AttemptEnded("a", 1, BAD))[2:] == [
        Record(Decided("b", "skipped", "not: a.ok")),
        Record(Launched("c", 1, 1)),
        Launch("c", 1, 1),
    ]
    assert machine.handle(AttemptEnded("c", 1, OK))[2:] == [Record(Launched("d", 1, 1)), Launch("d", 1, 1)]
    assert machine.handle(AttemptEnded("d", 1, OK))[-1] == Record(Finished("succeeded"))


def test_a_retry_pauses_and_comes_once() -> None:
    machine = JobMachine(scripts.RETRY)
    machine.begin()
    assert machine.handle(AttemptEnded("a", 1, BAD)) == [Record(Ended("a", 1, BAD)), Pause("a", 1, 1_000)]
    assert machine.handle(PauseOver("a", 1)) == [Record(Launched("a", 2, 1)), Launch("a", 2, 1)]
    assert machine.handle(PauseOver("a", 1)) == []
    assert machine.handle(AttemptEnded("a", 1, OK)) == []
    assert machine.handle(AttemptEnded("a", 2, BAD))[1] == Record(Decided("a", "failed", "exit status 1"))


def test_a_loop_ends_with_the_round_that_it_looks_for_and_has_its_retries_in_each() -> None:
    machine = JobMachine(scripts.LOOP)
    machine.begin()
    assert machine.handle(AttemptEnded("a", 1, LOST))[1:] == [Pause("a", 1, 1_000)]
    machine.handle(PauseOver("a", 1))
    assert machine.handle(AttemptEnded("a", 2, BAD))[1:] == [Pause("a", 2, 1_000)]
    assert machine.handle(PauseOver("a", 2))[0] == Record(Launched("a", 3, 2))
    machine.handle(AttemptEnded("a", 3, LOST))
    machine.handle(PauseOver("a", 3))
    assert machine.handle(AttemptEnded("a", 4, BAD))[1:] == [
        Record(Decided("a", "failed", "not ok in 2 rounds")),
        Record(Finished("failed", "a failed")),
    ]


def test_what_never_ran_is_begun_again_without_counting_but_not_for_ever() -> None:
    machine = JobMachine(scripts.ONE)
    machine.begin()
    unstarted = Outcome("unstarted")
    for attempt in range(1, 5):
        assert machine.handle(AttemptEnded("a", attempt, unstarted))[1:] == [
            Record(Launched("a", attempt + 1, 1)),
            Launch("a", attempt + 1, 1),
        ]
    assert machine.handle(AttemptEnded("a", 5, unstarted))[1] == Record(
        Decided("a", "failed", "it could not be begun 5 times")
    )


def test_a_cancel_stops_what_runs_and_decides_what_waits() -> None:
    machine = JobMachine(scripts.SEQUENCE)
    machine.begin()
    assert machine.handle(Cancel("enough")) == [
        Record(Cancelled("enough")),
        Stop("a", 1, "enough"),
        Record(Decided("b", "cancelled", "enough")),
    ]
    assert machine.handle(Cancel("again")) == []
    assert machine.handle(AttemptEnded("a", 1, BAD)) == [
        Record(Ended("a", 1, BAD)),
        Record(Decided("a", "cancelled", "enough")),
        Record(Finished("cancelled", "enough")),
    ]


def test_a_log_leads_to_the_state_it_was_written_in_and_goes_on_from_there() -> None:
    machine = JobMachine(scripts.JOIN)
    log: list[Entry] = [effect.entry for effect in machine.begin() if isinstance(effect, Record)]
    log += [one.entry for one in machine.handle(AttemptEnded("a", 1, OK)) if isinstance(one, Record)]
    again = JobMachine(scripts.JOIN)
    for entry in log:
        again.apply(decode_entry(encode_entry(entry)))
    assert again.key() == machine.key()
    assert again.resume() == [Launch("b", 1, 1)]
    # Its end was kept, and what follows from it was not.
    again.apply(Ended("b", 1, BAD))
    assert again.resume() == [
        Record(Decided("b", "failed", "exit status 1")),
        Record(Launched("c", 1, 1)),
        Launch("c", 1, 1),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        Launched("a", 2, 1), Launched("a", 1, 1), Launched("z", 1, 1), Ended("a", 2, OK), Ended("b", 1, OK),
        Decided("a", "ok"), Granted("b", 1, "L", ()),
    ],
)  # fmt: skip
def test_an_entry_that_can_t_be_is_refused_and_changes_nothing(entry: Entry) -> None:
    machine = JobMachine(scripts.SEQUENCE)
    machine.begin()
    before = machine.key()
    with pytest.raises(NotOfThisJob):
        machine.apply(entry)
    assert machine.key() == before
