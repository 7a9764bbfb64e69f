"""The ladder of enforcement with real processes: what each means really keeps, and that nothing of a command is left."""

import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from client.scripted_node import ScriptedNode
from guardian.guarded import Guarded, alive, until, written_pid

from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.enforcement.figures import Figures, Limits
from holdall.guardian.enforcement.ladder import Containment, probe
from holdall.guardian.enforcement.trees import Trees
from holdall.model import frames

MIB = 1 << 20


def without(folder: str) -> tuple[str, ...]:
    """Words that run the rest where `folder` of the host is hidden, and with it the cgroups in it."""
    return ("unshare", "--mount", "sh", "-c", f'mount -t tmpfs tmpfs {folder} && exec "$0" "$@"')


HOSTS = {
    "as it is": (),
    "v1 alone": without("/sys/fs/cgroup/unified"),
    "no cgroups": without("/sys/fs/cgroup"),
}
everywhere = pytest.mark.parametrize(
    "inside", [pytest.param(words, id=name) for name, words in HOSTS.items()]
)


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


def python(*lines: str) -> tuple[str, str, str]:
    return (sys.executable, "-c", "\n".join(lines))


# ---------------------------------------------------------------- nothing is left

FLEES = """
import os, signal, sys, time
folder, generations = sys.argv[1], 3
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
for generation in range(generations):
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        with open(f"{folder}/pid-{generation}.part", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{folder}/pid-{generation}.part", f"{folder}/pid-{generation}")
        time.sleep(1000)
while True:
    time.sleep(1)
"""


@pytest.mark.system
@pytest.mark.requires("mountns")
@everywhere
def test_e3_whoever_leaves_the_session_and_ignores_term_is_gone_within_a_second(
    node: ScriptedNode, tmp_path: Path, inside: tuple[str, ...]
) -> None:
    script = tmp_path / "flees.py"
    script.write_text(FLEES)
    command = (sys.executable, str(script), str(tmp_path))
    with Guarded(node, *command, inside=inside, ttl_ms=600_000, grace_ms=100) as guarded:
        pids = [guarded.started()]
        pids += [written_pid(tmp_path / f"pid-{generation}") for generation in range(3)]
        assert all(alive(pid) for pid in pids)
        guarded.tell(orders.StopCommand("its lease is over"))
        end = boottime_ms() + 100
        guarded.report(orders.Stopping)
        empty = guarded.report(orders.Empty)
        assert not any(alive(pid) for pid in pids)
        assert empty.at_ms - end < 1_000
        guarded.released()
        guarded.report(orders.Ended)


# ---------------------------------------------------------------- limits of the kernel


@pytest.mark.system
@pytest.mark.requires("cgroup-limits")
def test_memory_is_the_kernels_to_keep(node: ScriptedNode) -> None:
    greedy = python("held = [bytearray(1 << 20) for _ in range(200)]")
    with Guarded(node, *greedy, limits=Limits(mem=50 * MIB)) as guarded:
        guarded.attach()
        assert guarded.report(orders.Started).enforced == {"mem": "kernel"}
        assert guarded.released().signal == signal.SIGKILL
        figures = guarded.report(orders.Ended).figures
        assert figures.oom_kills == 1
        assert 0 < figures.mem_peak <= 50 * MIB


@pytest.mark.system
@pytest.mark.requires("cgroup-limits")
def test_the_number_of_processes_is_the_kernels_to_keep(node: ScriptedNode) -> None:
    forks = python(
        "import os, signal",
        "made = 0",
        "try:",
        "    while made < 50:",
        "        if os.fork() == 0: signal.pause()",
        "        made += 1",
        "except BlockingIOError: pass",
        "os._exit(made)",
    )
    with Guarded(node, *forks, limits=Limits(processes=4), grace_ms=0) as guarded:
        guarded.attach()
        assert guarded.report(orders.Started).enforced == {"processes": "kernel"}
        # The children outlive their parent, so the guardian has something to end.
        assert guarded.released().code == 3
        assert guarded.report(orders.Ended).leftovers == 3


@pytest.mark.system
@pytest.mark.requires("cgroup-limits")
def test_a_share_of_processors_is_the_kernels_to_keep(node: ScriptedNode) -> None:
    busy = python("import time", "end = time.process_time() + 0.4", "while time.process_time() < end: pass")
    with Guarded(node, *busy, limits=Limits(cpu=200)) as guarded:
        guarded.attach()
        begun = boottime_ms()
        assert guarded.report(orders.Started).enforced == {"cpu": "kernel"}
        guarded.released()
        figures = guarded.report(orders.Ended).figures
        passed = boottime_ms() - begun
        assert figures.cpu_ms >= 400
        assert figures.throttled > 0
        # However busy the host is: never more than the share, and one period that was begun before.
        assert figures.cpu_ms <= passed * 0.2 + 150


# ---------------------------------------------------------------- limits of single processes, and watching


@pytest.mark.system
@pytest.mark.requires("mountns")
def test_without_cgroups_one_process_is_limited_and_that_is_said(node: ScriptedNode) -> None:
    greedy = python("try: held = bytearray(200 << 20)", "except MemoryError: raise SystemExit(5)")
    limits = Limits(cpu=100, mem=120 * MIB, processes=20)
    with Guarded(node, *greedy, inside=HOSTS["no cgroups"], limits=limits) as guarded:
        guarded.attach()
        told = guarded.report(orders.Started).enforced
        assert told == {"cpu": "observed", "mem": "process", "processes": "process"}
        assert guarded.released().code == 5


@pytest.mark.system
@pytest.mark.requires("mountns")
@pytest.mark.parametrize(
    ("limits", "text"),
    [
        (Limits(mem=100 * MIB), "bytes of memory, and may have"),
        (Limits(processes=3), "processes, and may have 3"),
    ],
)
def test_without_cgroups_a_command_that_is_over_its_limit_is_ended(
    node: ScriptedNode, limits: Limits, text: str
) -> None:
    many = python(
        "import os, time",
        "for _ in range(5):",
        "    if os.fork() == 0:",
        "        held = b'x' * (30 << 20)",
        "        time.sleep(1000)",
        "time.sleep(1000)",
    )
    with Guarded(node, *many, inside=HOSTS["no cgroups"], limits=limits, grace_ms=0) as guarded:
        guarded.started()
        stopping = guarded.report(orders.Stopping)
        assert (stopping.reason, text in stopping.text) == ("over-limit", True)
        assert text in guarded.released().reason


def test_what_is_probed_is_what_a_command_gets() -> None:
    *cgroups, processes, observe = probe(Trees())
    assert [(rung.name, rung.there, rung.why_not) for rung in cgroups] == [
        ("cgroup v2", False, "none is mounted"),
        ("cgroup v1", False, "none is mounted"),
    ]
    assert (processes.keeps, set(observe.keeps)) == (
        {"mem": "process", "processes": "process"},
        {"cpu", "mem", "processes"},
    )
    everything = Containment.make(Limits(1000, MIB, 3), Trees())
    assert everything.enforced == {"cpu": "observed", "mem": "process", "processes": "process"}
    assert Containment.make(Limits(), Trees()).enforced == {}
    assert everything.over(Figures(mem=MIB, processes=3)) == ""
    assert everything.over(Figures(mem=MIB + 1)) == (
        f"its processes have {MIB + 1} bytes of memory, and may have {MIB}"
    )


# ---------------------------------------------------------------- limits that change while the command runs


def test_what_is_granted_anew_is_put_in_force_and_what_the_kernel_refuses_is_watched() -> None:
    class Refusing:
        """A group that takes every limit of processors, and none of memory below 100 bytes."""

        def __init__(self) -> None:
            self.said: list[object] = []

        def limit(self, limits: Limits) -> set[str]:
            self.said.append(limits)
            return {name for name, amount in limits.asked().items() if name == "cpu" or amount >= 100}

        def lift(self, terms: Iterable[str]) -> None:
            self.said.append(tuple(terms))

    group = Refusing()
    made = Containment(Limits(cpu=500, mem=200), [group])  # type: ignore[list-item]
    assert made.enforced == {"cpu": "kernel", "mem": "kernel"}
    made.adjust(Limits(cpu=900, mem=300), [])
    assert made.enforced == {"cpu": "kernel", "mem": "kernel"}
    made.adjust(Limits(cpu=900, mem=50), [])
    assert made.enforced == {"cpu": "kernel", "mem": "process"}
    assert made.over(Figures(mem=51)) == "its processes have 51 bytes of memory, and may have 50"
    made.adjust(Limits(cpu=900), [])
    assert (made.enforced, made.over(Figures(mem=51))) == ({"cpu": "kernel"}, "")
    assert group.said == [
        Limits(cpu=500, mem=200),
        (),
        Limits(cpu=900, mem=300),
        (),
        Limits(cpu=900, mem=50),
        ("mem",),
        Limits(cpu=900),
    ]


def test_the_own_limit_of_a_process_that_runs_is_lowered_and_raised_again() -> None:
    with subprocess.Popen(["sleep", "1000"]) as running:
        try:
            _, hard = resource.prlimit(running.pid, resource.RLIMIT_AS)
            made = Containment.make(Limits(mem=200 * MIB), Trees(), may_change=True)
            for mem in (100 * MIB, 300 * MIB):
                made.adjust(Limits(mem=mem), [running.pid])
                assert resource.prlimit(running.pid, resource.RLIMIT_AS) == (mem, hard)
            made.adjust(Limits(), [running.pid])
            assert resource.prlimit(running.pid, resource.RLIMIT_AS) == (hard, hard)
        finally:
            running.kill()


@pytest.mark.system
@pytest.mark.requires("cgroup-limits")
def test_the_kernels_limits_follow_what_is_granted() -> None:
    made = Containment.make(Limits(cpu=500, mem=100 * MIB), may_change=True)
    try:
        for mem, cpu in ((200 * MIB, 900), (50 * MIB, 200), (60 * MIB, 300)):
            made.adjust(Limits(cpu=cpu, mem=mem), [])
            assert made.enforced == {"cpu": "kernel", "mem": "kernel"}
    finally:
        made.remove()


# ---------------------------------------------------------------- how long, and what is done before


def test_a_command_that_may_not_stay_longer_is_ended_though_its_lease_goes_on(node: ScriptedNode) -> None:
    with Guarded(node, "sleep", "1000", stay_ms=300, grace_ms=0) as guarded:
        guarded.started()
        stopping = guarded.report(orders.Stopping)
        assert (stopping.reason, stopping.text) == (
            "stay-over",
            "it has run for 0.3 s, which is as long as it may",
        )
        assert guarded.released() == frames.ExitRecord(
            signal=signal.SIGKILL, reason=f"stay-over: {stopping.text}"
        )
        assert guarded.report(orders.Ended).reason == "stay-over"


def test_before_the_end_a_signal_is_sent_once_and_its_result_told(node: ScriptedNode, tmp_path: Path) -> None:
    script = f"trap 'echo saved >> {tmp_path}/saved; exit 0' USR1; echo > {tmp_path}/ready; while :; do sleep 0.05; done"
    before = orders.BeforeEnd(lead_ms=500_000, signal=signal.SIGUSR1)
    with Guarded(
        node, "sh", "-c", script, ttl_ms=600_000, stay_ms=504_000, before_end=before, grace_ms=0
    ) as guarded:
        guarded.started()
        until((tmp_path / "ready").exists, "the command has set its trap")
        assert guarded.released().code == 0
        assert guarded.report(orders.Ended).before_end == "signal SIGUSR1 was sent"
    assert (tmp_path / "saved").read_text() == "saved\n"


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("exit 3", "ended with 3"),
        ("sleep 1000", "was ended by signal 9"),
        ("kill -TERM $$", "was ended by signal 15"),
    ],
)
def test_before_the_end_a_command_is_run_and_its_result_told(
    node: ScriptedNode, tmp_path: Path, line: str, outcome: str
) -> None:
    mark = shlex.quote(str(tmp_path / "ran"))
    before = orders.BeforeEnd(lead_ms=100_000, command=("sh", "-c", f"echo >> {mark}; {line}"))
    with Guarded(node, "sleep", "1000", stay_ms=100_500, before_end=before, grace_ms=0) as guarded:
        guarded.started()
        until((tmp_path / "ran").exists, "the command before the end has begun")
        guarded.tell(orders.StopCommand("enough"))
        guarded.report(orders.Stopping)
        guarded.released()
        assert guarded.report(orders.Ended).before_end in {outcome, "was still running at the end"}
    assert (tmp_path / "ran").read_text() == "\n"


def test_what_can_not_be_done_before_the_end_is_said_and_ends_nothing(node: ScriptedNode) -> None:
    before = orders.BeforeEnd(lead_ms=100_000, command=("/no/such/command",))
    with Guarded(node, "sleep", "0.5", stay_ms=100_000, before_end=before, grace_ms=0) as guarded:
        guarded.started()
        assert guarded.released().code == 0
        assert guarded.report(orders.Ended).before_end.startswith("could not be started: ")
