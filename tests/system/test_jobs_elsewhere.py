"""Tasks on another node, with real nodes and nats-servers: its host's pools, its death in the middle, never twice at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from node.waiting import until
from system.job_runs import job_lab
from system.many_nodes import System, system
from system.test_run_on import pair

pytestmark = pytest.mark.system
JOB = """
name = "two-places"
[task.here]
run = "STEP 0 0"
[task.there]
on = "lab-b"
after = ["here"]
needs = ["gpu:1"]
ttl = "12s"
env = { WORD = "a = b" }
run = 'echo "$HOLDALL_UNITS_GPU $WORD $HOLDALL_URL"; exec STEP 0 $([ $HOLDALL_ATTEMPT = 1 ] && echo 100 || echo 0)'
retry = { times = 2, on = ["lost"] }
[task.bad]
on = "lab-b"
after = ["there"]
needs = ["gpu:1"]
run = "STEP 69 0"
may_fail = true
"""


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def test_a_task_on_another_node_outlives_that_node_by_its_retry_and_never_runs_twice_at_once(
    hosts: System,
) -> None:
    a, b = pair(hosts, "lab-a")
    with job_lab(a.folder, a.socket, a.environment) as jobs:
        job = jobs.begin(JOB)
        until(lambda: jobs.lines("begin there 1 "), "the first attempt runs on lab-b")
        pid = int(jobs.lines("begin there 1 ")[0].split()[3])
        with b.client() as client:
            (lease,) = client.listing("who").leases
        until(lambda: "there" in jobs.look(job).grants, "its lease is known")
        grant = jobs.look(job).grants["there"]
        assert (grant.attempt, grant.lease) == (1, lease.lease)
        assert grant.units == (f"gpu/0@lab-b#{lease.units[0].fence}",)
        assert f"on lab-b, holds {grant.units[0]}" in jobs.holdall("job", "show", job).stdout
        b.kill()
        b.serve()
        until(lambda: not Path(f"/proc/{pid}").exists(), "its guardian has stopped it")
        view = jobs.proved(job)
        assert view.row.state == "succeeded"
        assert jobs.kinds(view, "there") == ["lost", "ok"]
        assert jobs.kinds(view, "bad") == ["failed"]
        logs = jobs.holdall("job", "logs", job, "there", "--attempt", "2").stdout
        assert f"0 a = b unix://{b.socket}\n" in logs


def test_a_node_that_lets_nobody_in_refuses_and_mistakes_have_their_places(hosts: System) -> None:
    a, _ = pair(hosts)
    with job_lab(a.folder, a.socket, a.environment) as jobs:
        bad = jobs.holdall(
            "job", "run", str(jobs.file("[task.a]\non = 'lab-b'\nrun = 'true'\ntimeout = 1\n"))
        )
        assert bad.returncode == 78
        assert "2:1: on without needs" in bad.stderr
        assert "4:1: timeout can't be kept on another node" in bad.stderr
        job = jobs.begin('[task.a]\non = "lab-b"\nneeds = ["gpu"]\nrun = "STEP 0 0"\nretry = 3\n')
        view = jobs.proved(job)
        assert jobs.kinds(view, "a") == ["refused"]
        assert "run_from" in jobs.holdall("job", "logs", job).stdout
