"""Thirty tasks over three nodes, whose node is killed twice: each ran exactly as its rules say, and the log proves it."""

from collections.abc import Iterator

import pytest
from node.waiting import until
from system.job_runs import job_lab
from system.many_nodes import System, system

from holdall.jobs.client import JobView
from holdall.jobs.entries import Granted

pytestmark = pytest.mark.system

JOB = """
name = "thirty"
[task.fetch]
run = "STEP 0 0"
[task.part]
foreach = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
after = ["fetch"]
needs = ["psu:1"]
run = "STEP 0 0.3"
retry = 2
[task.join]
after = ["part"]
needs = ["bench-b", "bench-c"]
run = "STEP 0 0.5"
retry = 2
[task.check]
after = ["join"]
run = "STEP 3 0"
may_fail = true
[task.good]
when = "check.ok"
run = "STEP 0 0"
[task.bad]
when = "check.status == 3"
needs = ["bench-a"]
run = "STEP 0 0"
retry = 2
[task.merge]
when = "good.ok or bad.ok"
run = "STEP 0 0"
retry = 2
[task.search]
after = ["merge"]
needs = ["bench-a", "bench-b"]
run = "STEP $([ $HOLDALL_ROUND = 4 ] && echo 0 || echo 1) 0.2"
repeat = { times = 6, until = "ok", wait = "100ms" }
retry = { times = 2, on = ["interrupted", "lost"] }
[task.flaky]
after = ["merge"]
run = "STEP $([ $HOLDALL_ATTEMPT -ge 3 ] && echo 0 || echo 1) 0"
retry = { times = 5, wait = "100ms" }
[task.wide]
foreach = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]
after = ["search"]
needs = ["psu:1", "bench-a+bench-b+bench-c:1"]
run = "STEP 0 0.1"
retry = 2
[task.all]
after = ["wide", "flaky"]
needs = ["psu:all", "bench-a", "bench-b", "bench-c"]
run = "STEP 0 0"
retry = 2
[task.end]
when = "all.ok"
run = "STEP 0 0"
"""
"""30 tasks with their items; rounds and retries come on top."""


OTHER = """
name = "other"
[task.a]
foreach = ["1", "2", "3"]
needs = ["psu:1"]
run = "STEP 0 0.2"
retry = 1
[task.b]
after = ["a"]
needs = ["bench-a", "bench-b"]
run = "STEP 0 0"
retry = 1
"""
"""A second job, on another node, over the same pools."""


@pytest.fixture
def three() -> Iterator[System]:
    with system() as made:
        first = made.node("a", "lab-1", "p1", "p2")
        first.serve("--new")
        before = first
        for folder, name in (("b", "lab-2"), ("c", "lab-3")):
            node = made.node(folder, name, f"p{folder}")
            node.join(before.join_line())
            before = node
        yield made


def test_thirty_tasks_over_three_nodes_run_by_their_rules_while_their_node_is_killed_twice(
    three: System,
) -> None:
    first, _, third = three.nodes
    with (
        job_lab(three.folder, first.socket, first.environment) as jobs,
        job_lab(third.folder, third.socket, third.environment) as others,
    ):
        until(lambda: '"node":"lab-3"' in jobs.holdall("pools", "--json").stdout, "all are known")
        job, other = jobs.begin(JOB), others.begin(OTHER)
        until(lambda: len(jobs.lines("end")) >= 4, "some have run")
        first.kill()
        first.serve()
        until(lambda: jobs.lines("begin search"), "the loop has begun")
        first.kill()
        # This time with the runner, and with one who watches a command.
        jobs.kill(jobs.processes("holdall.jobs.runner", "/a/st/"))
        jobs.kill(jobs.processes("holdall.jobs.attempt", "-search/")[:1])
        first.serve()
        view = jobs.proved(job)
        assert view.row.state == "succeeded"
        fates = {name: fate.verdict for name in view.machine.tasks if (fate := view.machine.fate(name))}
        assert fates == dict.fromkeys(view.machine.tasks, "ok") | {"check": "failed", "good": "skipped"}
        assert jobs.kinds(view, "flaky") == ["failed", "failed", "ok"]
        own = [kind for kind in jobs.kinds(view, "search") if kind in {"ok", "failed"}]
        assert own == ["failed", "failed", "failed", "ok"]
        assert {unit.partition("@")[2].partition("#")[0] for unit in _units(view)} == {
            "lab-1",
            "lab-2",
            "lab-3",
        }
        assert others.proved(other).row.state == "succeeded"
        fences = [unit for one in (view, others.look(other)) for unit in _units(one)]
        assert len(set(fences)) == len(fences), "two attempts had one unit under one fence"


def _units(view: JobView) -> list[str]:
    return [unit for one in view.log if isinstance(one, Granted) for unit in one.units]
