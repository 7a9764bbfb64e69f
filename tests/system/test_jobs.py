"""Jobs on a real node: their course, and what is known when node, runner, watcher or guardian is killed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from node.lab import Lab, lab
from node.waiting import until
from system.job_runs import JobLab, job_lab, json_lines

pytestmark = pytest.mark.system


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        yield made.start("--new")


@pytest.fixture
def jobs(node: Lab) -> Iterator[JobLab]:
    with job_lab(node.folder, node.socket, node.environment) as made:
        yield made


def test_a_job_runs_in_its_order_and_each_command_looks_into_it(jobs: JobLab) -> None:
    file = jobs.file("""
[task.fetch]
run = "STEP 0 0"
[task.test]
foreach = ["a", "b"]
needs = ["board:1", "psu:1"]
run = "STEP $([ $HOLDALL_ITEM = b ] && echo 3 || echo 0) 0"
after = ["fetch"]
may_fail = true
[task.fix]
when = "test.failed"
run = "echo fixing $HOLDALL_TASK in $HOLDALL_JOB; STEP 0 0"
[task.never]
when = "test.ok"
run = "STEP 0 0"
[task.search]
after = ["fetch"]
run = "STEP $([ $HOLDALL_ROUND = 3 ] && echo 0 || echo 1) 0"
repeat = { times = 5, until = "ok" }
[task.flash]
after = ["fetch"]
run = "STEP 0 0"
[task.probe]
after = ["flash"]
run = "STEP $([ $HOLDALL_ROUND = 2 ] && echo 0 || echo 4) 0"
[group.board]
tasks = ["flash", "probe"]
until = "probe.ok"
times = 3
[task.end]
when = "(fix.ok or never.ok) and search.ok and probe.ok"
run = ["sh", "-c", "echo ended"]
""")
    told = jobs.holdall("job", "run", str(file), "--json")
    assert told.returncode == 0, told.stderr
    events = json_lines(told.stdout)
    assert events[0]["event"] == "launched"
    assert events[-1]["event"] == "finished"
    assert {event["v"] for event in events} == {1}
    job = str(events[0]["job"])
    view = jobs.proved(job)
    assert {
        task.name: fate.verdict for task in view.spec.tasks if (fate := view.machine.fate(task.name))
    } == {
        "fetch": "ok",
        "test": "failed",
        "fix": "ok",
        "never": "skipped",
        "search": "ok",
        "flash": "ok",
        "probe": "ok",
        "end": "ok",
    }
    assert jobs.kinds(view, "search") == ["failed", "failed", "ok"]
    assert jobs.kinds(view, "flash") == ["ok", "ok"]
    assert jobs.kinds(view, "probe") == ["failed", "ok"]
    (row,) = json_lines(jobs.holdall("job", "list", "--json").stdout)[0]["jobs"]
    assert (row["name"], row["state"], row["done"], row["total"]) == ("job", "succeeded", 9, 9)
    shown = json_lines(jobs.holdall("job", "show", job[:6], "--json").stdout)[0]["job"]
    assert [task["state"] for task in shown["tasks"]] == [
        "ok",
        "failed",
        "ok",
        "skipped",
        "ok",
        "ok",
        "ok",
        "ok",
    ]
    text = jobs.holdall("job", "show", job).stdout
    assert "x   test" in text
    assert "fetch  is over: ok" in jobs.holdall("job", "show", job, "--log").stdout
    assert jobs.holdall("job", "logs", job, "fix").stdout == f"fixing fix in {job}\n"
    assert jobs.holdall("job", "logs", job, "end").stdout == "ended\n"
    assert jobs.holdall("job", "show", job, "--svg", "-").stdout.startswith("<svg ")


def test_bad_files_and_needs_that_nobody_can_meet_start_nothing(jobs: JobLab) -> None:
    bad = jobs.holdall("job", "run", str(jobs.file("[task.a]\nrun='x'\nafter='b'")))
    assert (bad.returncode, bad.stdout) == (78, "")
    assert 'job.toml:3:1: task "a" waits for "b", which is no task' in bad.stderr
    never = jobs.holdall("job", "run", str(jobs.file("[task.a]\nrun='x'\nneeds=['board:2','board:2']")))
    assert never.returncode == 78
    assert 'job.toml:3:1: task "a" can never have all its needs at once' in never.stderr
    assert jobs.holdall("job", "run", "--check", str(jobs.file("[task.a]\nrun='x'"))).returncode == 0
    assert jobs.holdall("job", "list", "--json").stdout == '{"v":1,"jobs":[]}\n'
    missing = jobs.holdall("job", "show", "7K4M-Q2")
    assert (missing.returncode, "holdall job list" in missing.stderr) == (64, True)


def test_each_way_to_end_has_its_kind_and_its_retry(jobs: JobLab) -> None:
    job = jobs.begin("""
[task.status]
run = "STEP 3 0"
retry = 1
[task.slow]
run = "trap '' TERM; STEP 0 60"
timeout = "0.3s"
needs = ["psu:1"]
[task.bare]
run = ["sleep", "60"]
timeout = "0.3s"
retry = { times = 1, on = ["timeout"] }
[task.none]
run = ["no-such-command"]
retry = 3
[task.nowhere]
run = ["no-such-command"]
needs = ["board"]
[task.killed]
run = "kill -9 $$"
[task.hold]
run = "STEP 0 4"
needs = ["board:2"]
[task.impatient]
run = "STEP 0 0"
needs = ["board:2"]
wait = "0.1s"
""")
    view = jobs.proved(job)
    kinds = {name: jobs.kinds(view, name) for name in view.machine.task_of}
    assert kinds["status"] == ["failed", "failed"]
    assert kinds["bare"] == ["timeout", "timeout"]
    assert kinds["none"] == kinds["nowhere"] == ["refused"]
    assert kinds["killed"] == ["failed"]
    assert kinds["slow"] == ["timeout"]
    # Which of the two comes first is chance; with that one's time the other can't wait.
    assert (kinds["hold"], kinds["impatient"]) in [(["ok"], ["not-granted"]), (["ok"], ["ok"])]
    assert view.row.state == "failed"
    assert jobs.holdall("job", "show", job, "--follow").returncode == 1


def test_a_node_and_a_runner_that_are_killed_change_nothing_for_what_runs(node: Lab, jobs: JobLab) -> None:
    job = jobs.begin("""
[task.held]
needs = ["board:3"]
run = "STEP 0 3"
[task.bare]
run = "STEP 0 3"
[task.next]
after = ["held", "bare"]
needs = ["board:1"]
run = "STEP 0 0"
""")
    until(lambda: len(jobs.lines("begin")) == 2, "both run")
    node.kill()
    jobs.kill(jobs.processes("holdall.jobs.runner"))
    node.start()
    view = jobs.proved(job)
    assert view.row.state == "succeeded"
    assert [jobs.kinds(view, name) for name in ("held", "bare", "next")] == [["ok"], ["ok"], ["ok"]]


def test_what_nobody_saw_end_is_retried_by_its_rule_or_failed(node: Lab, jobs: JobLab) -> None:
    job = jobs.begin("""
[task.again]
needs = ["board:1"]
run = "STEP 0 $([ $HOLDALL_ATTEMPT = 1 ] && echo 60 || echo 0)"
retry = 1
[task.once]
run = "STEP 0 60"
[task.after]
when = "again.ok and once.failed"
run = "STEP 0 0"
""")
    until(lambda: len(jobs.lines("begin")) == 2, "both run")
    node.kill()
    jobs.crash()
    node.start()
    view = jobs.proved(job)
    assert jobs.kinds(view, "again") == ["interrupted", "ok"]
    assert jobs.kinds(view, "once") == ["interrupted"]
    assert jobs.kinds(view, "after") == ["ok"]


def test_a_killed_watcher_s_command_is_ended_before_the_next_attempt(jobs: JobLab) -> None:
    job = jobs.begin("""
[task.a]
needs = ["board:1"]
run = "trap 'echo heard >> $PWD/heard' TERM; STEP 0 $([ $HOLDALL_ATTEMPT = 1 ] && echo 60 || echo 0)"
retry = 1
""")
    until(lambda: jobs.lines("begin"), "it runs")
    jobs.kill(jobs.processes("holdall.jobs.attempt"))
    view = jobs.proved(job)
    assert jobs.kinds(view, "a") == ["interrupted", "ok"]
    with_node = jobs.holdall("pools", "--json")
    assert '"held":0' in with_node.stdout


def test_a_lease_that_is_taken_away_stops_its_command_and_is_retried(jobs: JobLab) -> None:
    job = jobs.begin("""
[task.a]
needs = ["psu:2"]
run = "STEP 0 $([ $HOLDALL_ATTEMPT = 1 ] && echo 60 || echo 0)"
retry = { times = 1, on = ["lost"] }
""")
    until(lambda: jobs.lines("begin"), "it runs")
    (lease,) = json_lines(jobs.holdall("who", "--json").stdout)[0]["leases"]
    assert lease["reason"] == "job/a"
    kicked = jobs.holdall("kick", lease["lease"], "--reason", "needed")
    assert kicked.returncode == 0, kicked.stderr
    view = jobs.proved(job)
    assert jobs.kinds(view, "a") == ["lost", "ok"]


def test_a_cancelled_job_stops_what_runs_and_begins_nothing_more(node: Lab, jobs: JobLab) -> None:
    job = jobs.begin("""
[task.runs]
needs = ["board:3"]
run = "STEP 0 60"
[task.waits]
needs = ["board:1"]
run = "STEP 0 60"
[task.bare]
run = "STEP 0 60"
[task.later]
after = ["runs"]
run = "STEP 0 60"
""")
    until(lambda: len(jobs.lines("begin")) >= 2, "two run")
    node.kill()
    node.start()
    ended = jobs.holdall("job", "cancel", job, "--reason", "wrong branch")
    assert ended.returncode == 0, ended.stderr
    view = jobs.proved(job)
    assert (view.row.state, view.row.text) == ("cancelled", "wrong branch")
    assert {jobs.kinds(view, name)[0] for name in ("runs", "waits", "bare")} <= {"failed", "unstarted"}
    assert jobs.kinds(view, "later") == []
    assert '"held":0' in jobs.holdall("pools", "--json").stdout
    again = jobs.holdall("job", "cancel", job)
    assert "is over already: cancelled" in again.stderr


def test_the_python_of_the_guide_works_as_it_is_written(jobs: JobLab) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "guide" / "jobs.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    script = jobs.folder / "guide.py"
    script.write_text("\n".join(blocks))
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=jobs.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    assert "succeeded 1 of 1" in ran.stdout
    (row,) = json_lines(jobs.holdall("job", "list", "--json").stdout)[0]["jobs"]
    assert row["state"] == "cancelled"
