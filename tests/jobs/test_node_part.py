"""The part `jobs` of a node: what it keeps, whom it answers, and that each unfinished job gets a runner."""

from collections.abc import Sequence

import msgspec
import pytest

from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    Address,
    CancelTimer,
    ClockRead,
    Effect,
    Forget,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model import frames
from holdall.model.job_frames import (
    JobBegun,
    JobCancel,
    JobCancelled,
    JobFollow,
    JobForget,
    JobForgotten,
    JobList,
    JobNote,
    JobRows,
    JobSave,
    JobSaved,
    JobStart,
    JobTake,
    JobTaken,
    JobTold,
)
from holdall.parties.jobs import machine as part
from holdall.parties.jobs.kept import LOOK_MS
from holdall.parties.jobs.machine import Jobs, JobSettings
from holdall.parties.jobs.messages import (
    JobEntry,
    JobGone,
    JobRecord,
    OutputGone,
    RemoveOutput,
    RunnerFailed,
    RunnerPlace,
    StartRunner,
    UserKnown,
    UserUnknown,
)
from holdall.parties.jobs.outputs import UNKNOWN_USER_MS
from holdall.parties.messages import Asked, SessionClosed

NODE = "n1"
KEY = "k" * 32


class Bench:
    """The part with a journal around it."""

    def __init__(self) -> None:
        self.jobs = Jobs(JobSettings(NODE, "lab-1", 1000))
        self.kept: dict[str, Record] = {}
        self.sent: list[tuple[str, Message]] = []
        self.timers: dict[str, int] = {}
        self.lots = 0
        self.take(self.jobs.start())
        self.take(self.jobs.handle(Received(Address(NODE, "node"), ClockRead(wall_ms=5_000))))

    def take(self, effects: Sequence[Effect]) -> list[Message]:
        """Carry effects out; what was sent."""
        sent: list[tuple[str, Message]] = []
        for effect in effects:
            match effect:
                case Save(key, record):
                    assert CODEC.decode(CODEC.encode(record)) == record
                    self.kept[key] = record
                case Forget(key):
                    self.kept.pop(key, None)
                case Send(to, message):
                    sent.append((to.part, message))
                case SetTimer(timer, after_ms):
                    self.timers[timer] = after_ms
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
        self.sent = sent
        return [message for _, message in sent]

    def ask(self, frame: frames.ToNode, connection: str = "c1", uid: int = 7) -> list[Message]:
        self.lots += 1
        asked = Asked(frame=frame, uid=uid, user=f"u{uid}", lot=f"{self.lots:032d}")
        return self.take(self.jobs.handle(Received(Address(NODE, f"session/{connection}"), asked)))

    def one(self, frame: frames.ToNode, connection: str = "c1", uid: int = 7) -> Message:
        (answer,) = self.ask(frame, connection, uid)
        return answer

    def begin(self, key: str = KEY, name: str = "night") -> str:
        begun = self.ask(JobStart(1, key, name, b"what", 3, (("A", "b"),)))[0]
        assert isinstance(begun, JobBegun)
        return begun.row.job

    def close(self, connection: str) -> list[Message]:
        closed = SessionClosed(process_gone=True)
        return self.take(self.jobs.handle(Received(Address(NODE, f"session/{connection}"), closed)))

    def restart(self) -> list[Message]:
        self.jobs = Jobs(JobSettings(NODE, "lab-1", 1000))
        self.timers = {}
        return self.take(self.jobs.recover(self.kept))


def save(job: str, first: int, *entries: bytes, state: str = "running", done: int = 0) -> JobSave:
    return msgspec.structs.replace(JobSave(9, job, first, entries, done), state=state)


def test_a_job_is_kept_before_it_is_told_and_gets_a_runner() -> None:
    bench = Bench()
    begun, order = bench.ask(JobStart(1, KEY, "night", b"what", 3, (("A", "b"),)))
    assert isinstance(begun, JobBegun)
    row = begun.row
    assert (row.name, row.user, row.uid, row.state, row.total, row.started_ms) == (
        "night",
        "u7",
        7,
        "running",
        3,
        5_000,
    )
    assert order == StartRunner(row.job, 7, "u7")
    assert sorted(bench.kept) == [f"body/{row.job}", f"job/{row.job}"]
    assert bench.timers == {f"look/{row.job}": LOOK_MS}
    again = bench.one(JobStart(4, KEY, "night", b"what", 3))
    assert again == JobBegun(4, row)


def test_a_runner_takes_the_job_and_adds_to_its_log_without_gap_or_double() -> None:
    bench = Bench()
    job = bench.begin()
    taken = bench.one(JobTake(2, job), "run")
    assert isinstance(taken, JobTaken)
    assert (taken.environment, taken.row.entries) == ((("A", "b"),), 0)
    assert bench.timers == {}
    assert bench.one(save(job, 0, b"e0", b"e1", done=1), "run") == JobSaved(9, 2)
    assert bench.one(save(job, 1, b"e1", b"e2"), "run") == JobSaved(9, 3)
    assert [bench.kept[f"entry/{job}/{number:06d}"] for number in range(3)] == [
        JobEntry(b"e0"),
        JobEntry(b"e1"),
        JobEntry(b"e2"),
    ]
    gap = bench.one(save(job, 5, b"e5"), "run")
    assert isinstance(gap, frames.Denied)
    stranger = bench.one(save(job, 3, b"x"), "c1")
    assert isinstance(stranger, frames.Denied)
    assert stranger.code == "not-holder"
    bench.one(JobTake(3, job), "run2")
    late = bench.one(save(job, 3, b"x"), "run")
    assert isinstance(late, frames.Denied)
    assert len(bench.jobs.jobs[job].log) == 3


def test_a_restart_has_the_same_jobs_and_logs_and_wants_runners_for_what_is_not_over() -> None:
    bench = Bench()
    first, second = bench.begin(), bench.begin("z" * 32, "other")
    for job in (first, second):
        bench.ask(JobTake(2, job), "run" + job)
        bench.ask(save(job, 0, b"e0", b"e1"), "run" + job)
    bench.ask(save(second, 2, b"end", state="failed", done=3), "run" + second)
    before = {name: (kept.row, kept.log, kept.body) for name, kept in bench.jobs.jobs.items()}
    orders = bench.restart()
    assert {name: (kept.row, kept.log, kept.body) for name, kept in bench.jobs.jobs.items()} == before
    assert orders == [StartRunner(first, 7, "u7")]
    rows = bench.one(JobList(1))
    assert isinstance(rows, JobRows)
    assert {row.job: row.state for row in rows.rows} == {first: "running", second: "failed"}
    assert bench.timers == {f"look/{first}": LOOK_MS}


def test_a_job_without_runner_is_looked_after_ever_more_seldom_until_one_comes() -> None:
    bench = Bench()
    job = bench.begin()
    waits: list[int] = []
    for _ in range(7):
        bench.take(bench.jobs.handle(TimerFired(f"look/{job}")))
        assert [type(message) for _, message in bench.sent] == [StartRunner]
        waits.append(bench.timers[f"look/{job}"])
    assert waits == [2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    bench.ask(JobTake(2, job), "run")
    bench.close("run")
    assert bench.timers == {f"look/{job}": LOOK_MS}
    bench.ask(JobTake(2, job), "run")
    bench.take(bench.jobs.handle(TimerFired(f"look/{job}")))
    assert bench.sent == []


def test_what_the_driver_says_of_a_runner_stands_in_the_row() -> None:
    bench = Bench()
    job = bench.begin()
    runners = Address(NODE, "runners")
    bench.take(bench.jobs.handle(Received(runners, RunnerPlace(job, "/x/y"))))
    bench.take(bench.jobs.handle(Received(runners, RunnerFailed(job, "no memory"))))
    record = bench.kept[f"job/{job}"]
    assert isinstance(record, JobRecord)
    assert (record.row.folder, record.row.text) == ("/x/y", "no runner: no memory")
    bench.ask(JobTake(2, job), "run")
    assert bench.jobs.jobs[job].row.text == ""
    with pytest.raises(ProtocolViolation):
        bench.jobs.handle(Received(Address("n2", "jobs"), RunnerFailed(job, "x")))


def test_who_follows_hears_what_there_is_and_then_what_comes_until_the_end() -> None:
    bench = Bench()
    job = bench.begin()
    bench.ask(JobTake(2, job), "run")
    bench.ask(save(job, 0, *(b"%d" % number for number in range(60))), "run")
    bench.ask(save(job, 60, *(b"x" * 1000 for _ in range(50))), "run")
    told = [one for one in bench.ask(JobFollow(5, job[:6], since=10)) if isinstance(one, JobTold)]
    assert told[0].job == b"what"
    assert [one.first for one in told] == [10, 10, 74]
    assert b"".join(entry for one in told for entry in one.entries).startswith(b"101112")
    assert sum(len(one.entries) for one in told) == 100
    assert all(one.more for one in told)
    once = bench.ask(JobFollow(6, job, since=109, once=True))
    assert [(one.entries, one.more) for one in once if isinstance(one, JobTold)] == [
        ((), True),
        ((b"x" * 1000,), False),
    ]
    bench.ask(JobNote(1, job, (("a", "waits"),)), "run")
    assert bench.sent == [
        ("session/c1", JobTold(5, bench.jobs.jobs[job].row, 110, (), notes=(("a", "waits"),), more=True))
    ]
    answers = bench.ask(save(job, 110, b"end", state="succeeded", done=3), "run")
    assert answers[0] == JobSaved(9, 111)
    assert isinstance(answers[1], JobTold)
    assert (answers[1].entries, answers[1].more, answers[1].row.state) == ((b"end",), False, "succeeded")
    assert bench.jobs.jobs[job].followers == {}


def test_a_cancel_is_kept_told_to_the_runner_and_known_to_the_next_one() -> None:
    bench = Bench()
    job = bench.begin()
    bench.ask(JobTake(2, job), "run")
    answers = bench.ask(JobCancel(3, job, "wrong"))
    assert [type(one) for one in answers] == [JobCancelled, JobBegun]
    assert bench.sent[0] == ("session/run", JobCancelled(2, "wrong"))
    bench.restart()
    taken = bench.one(JobTake(2, job), "next")
    assert isinstance(taken, JobTaken)
    assert taken.row.cancel == "wrong"


def test_jobs_of_others_are_listed_and_nothing_more() -> None:
    bench = Bench()
    job = bench.begin()
    rows = bench.one(JobList(1), "c2", uid=8)
    assert isinstance(rows, JobRows)
    assert len(rows.rows) == 1
    for frame in (JobFollow(1, job), JobCancel(2, job), JobTake(3, job), JobStart(4, KEY, "n", b"", 0)):
        answer = bench.one(frame, "c2", uid=8)
        assert isinstance(answer, frames.Denied)
        assert answer.code == "refused"
    for uid in (0, 1000):
        assert isinstance(bench.ask(JobFollow(1, job, once=True), "c3", uid=uid)[0], JobTold)
    missing = bench.one(JobFollow(1, "ZZZZ-ZZ"))
    assert isinstance(missing, frames.Denied)
    assert "holdall job list" in missing.text


def test_the_oldest_jobs_that_are_over_are_forgotten_with_all_they_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(part, "FINISHED_KEPT", 2)
    monkeypatch.setattr(part, "UNFINISHED_MAX", 3)
    bench = Bench()
    names: list[str] = []
    for number in range(4):
        job = bench.begin(f"{number:032d}")
        names.append(job)
        bench.ask(JobTake(2, job), "run")
        bench.ask(save(job, 0, b"end", state="succeeded"), "run")
    assert list(bench.jobs.jobs) == names[2:]
    assert {key.split("/")[1] for key in bench.kept if not key.startswith("gone/")} == set(names[2:])
    assert [key for key in bench.kept if key.startswith("gone/")] == [f"gone/{name}" for name in names[:2]]
    for number in range(3):
        bench.begin(f"u{number:031d}")
    full = bench.one(JobStart(1, "f" * 32, "n", b"", 0))
    assert isinstance(full, frames.Denied)
    assert "3 jobs of this node are not over" in full.text


def test_a_job_that_is_over_is_forgotten_and_its_output_is_seen_to_until_it_is_gone() -> None:
    bench = Bench()
    job, other = bench.begin(), bench.begin("z" * 32, "other")
    early = bench.one(JobForget(1, job))
    assert isinstance(early, frames.Denied)
    assert "holdall job cancel" in early.text
    for one in (job, other):
        bench.ask(JobTake(2, one), "run" + one)
    bench.ask(save(job, 0, b"e0", b"e1", state="failed"), "run" + job)
    stranger = bench.one(JobForget(1, job), "c2", uid=8)
    assert isinstance(stranger, frames.Denied)
    assert stranger.code == "refused"
    order, forgotten = bench.ask(JobForget(1, job))
    assert order == RemoveOutput(job, 7, "u7")
    assert isinstance(forgotten, JobForgotten)
    assert forgotten.row.state == "failed"
    assert {key for key in bench.kept if job in key} == {f"gone/{job}"}
    assert isinstance(bench.one(JobFollow(1, job)), frames.Denied)
    assert bench.restart() == [StartRunner(other, 7, "u7"), RemoveOutput(job, 7, "u7")]
    runners = Address(NODE, "runners")
    bench.take(bench.jobs.handle(Received(runners, OutputGone(job))))
    assert {key for key in bench.kept if job in key} == set()
    assert bench.restart() == [StartRunner(other, 7, "u7")]


def test_output_of_a_user_who_is_unknown_for_long_is_not_looked_for_any_more() -> None:
    bench = Bench()
    job = bench.begin()
    bench.ask(JobTake(2, job), "run")
    bench.ask(save(job, 0, b"end", state="succeeded"), "run")
    bench.ask(JobForget(1, job))
    runners = Address(NODE, "runners")

    def unknown_at(wall_ms: int) -> None:
        bench.take(bench.jobs.handle(Received(Address(NODE, "node"), ClockRead(wall_ms=wall_ms))))
        bench.take(bench.jobs.handle(Received(runners, UserUnknown(job))))

    unknown_at(6_000)
    assert bench.kept[f"gone/{job}"] == JobGone(job, 7, "u7", unknown_since_ms=6_000)
    assert bench.restart() == [RemoveOutput(job, 7, "u7")]
    unknown_at(6_000 + UNKNOWN_USER_MS - 1)
    assert bench.kept[f"gone/{job}"] == JobGone(job, 7, "u7", unknown_since_ms=6_000)
    unknown_at(6_000 + UNKNOWN_USER_MS)
    assert bench.kept == {}
    unknown_at(6_001 + UNKNOWN_USER_MS)  # told twice, as it was asked twice
    assert bench.restart() == []


def test_a_user_who_was_known_in_between_is_unknown_anew() -> None:
    bench = Bench()
    job = bench.begin()
    bench.ask(JobTake(2, job), "run")
    bench.ask(save(job, 0, b"end", state="succeeded"), "run")
    bench.ask(JobForget(1, job))
    runners = Address(NODE, "runners")

    def heard_at(wall_ms: int, news: UserUnknown | UserKnown) -> None:
        bench.take(bench.jobs.handle(Received(Address(NODE, "node"), ClockRead(wall_ms=wall_ms))))
        bench.take(bench.jobs.handle(Received(runners, news)))

    def unknown_since() -> int | None:
        record = bench.kept[f"gone/{job}"]
        assert isinstance(record, JobGone)
        return record.unknown_since_ms

    heard_at(6_000, UserUnknown(job))
    unlike = bench.jobs.key()
    heard_at(7_000, UserKnown(job))
    assert unknown_since() is None
    assert bench.jobs.key() != unlike
    again_ms = 6_000 + UNKNOWN_USER_MS
    heard_at(again_ms, UserUnknown(job))
    assert unknown_since() == again_ms
    assert bench.restart() == [RemoveOutput(job, 7, "u7")]
    assert unknown_since() == again_ms
    heard_at(again_ms + UNKNOWN_USER_MS, UserUnknown(job))
    assert bench.kept == {}
    heard_at(again_ms + UNKNOWN_USER_MS + 1, UserKnown(job))  # of a job that is settled
    assert bench.restart() == []


def test_what_ended_first_goes_first_whenever_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part, "FINISHED_KEPT", 1)
    bench = Bench()
    long, short = bench.begin(), bench.begin("z" * 32)
    for number, one in enumerate((short, long)):
        bench.take(bench.jobs.handle(Received(Address(NODE, "node"), ClockRead(wall_ms=6_000 + number))))
        bench.ask(JobTake(2, one), "run" + one)
        bench.ask(save(one, 0, b"end", state="succeeded"), "run" + one)
    assert list(bench.jobs.jobs) == [long]


def test_a_twin_goes_its_own_way() -> None:
    bench = Bench()
    job = bench.begin()
    twin = bench.jobs.copy()
    bench.ask(JobTake(2, job), "run")
    assert twin.key() != bench.jobs.key()
    assert twin.jobs[job].runner is None
