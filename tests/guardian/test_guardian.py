"""A guardian process: whatever happens, nothing of the command is left before the node hears of the end."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from client.scripted_node import ScriptedNode, lease_view
from guardian.guarded import Guarded, alive, until, written_pid

from holdall.guardian import orders
from holdall.guardian.clock import boottime_ms
from holdall.guardian.signals import Signals
from holdall.guardian.tether import Tether
from holdall.guardian.wrapper import Wrapper
from holdall.model import frames


@pytest.fixture
def node() -> Iterator[ScriptedNode]:
    with ScriptedNode() as node:
        yield node


def script(*lines: str) -> tuple[str, str, str]:
    return ("/bin/sh", "-c", "\n".join(lines))


def test_the_command_starts_only_when_the_lease_is_the_guardians(node: ScriptedNode, tmp_path: Path) -> None:
    with Guarded(node, *script(f"echo ran > {tmp_path}/ran")) as guarded:
        attach = node.hear(frames.Attach)
        assert attach.key == "key-" + guarded.lease.lease
        assert node.hellos[0].role == "guardian"
        assert not (tmp_path / "ran").exists()
        node.grant(attach, guarded.lease)
        guarded.report(orders.Started)
        assert guarded.released() == frames.ExitRecord(code=0)
        assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("line", "record"), [("exit 3", frames.ExitRecord(code=3)), ("kill -9 $$", frames.ExitRecord(signal=9))]
)
def test_the_exit_record_is_the_commands_own(
    node: ScriptedNode, line: str, record: frames.ExitRecord
) -> None:
    with Guarded(node, *script(line)) as guarded:
        guarded.started()
        assert guarded.released() == record
        assert guarded.report(orders.Ended).exit == record


def test_a_command_that_is_not_there_is_said_so_and_the_lease_is_given_back(node: ScriptedNode) -> None:
    with Guarded(node, "/no/such/command") as guarded:
        guarded.attach()
        assert guarded.released().code == 127
        assert guarded.report(orders.NotStarted).errno == 2


def test_a_script_without_interpreter_line_runs_in_sh(node: ScriptedNode, tmp_path: Path) -> None:
    file = tmp_path / "job"
    file.write_text("exit 7\n")
    file.chmod(0o755)
    with Guarded(node, str(file)) as guarded:
        guarded.started()
        assert guarded.released().code == 7


def test_a_lease_that_is_gone_before_it_is_taken_over_starts_nothing(
    node: ScriptedNode, tmp_path: Path
) -> None:
    with Guarded(node, *script(f"echo ran > {tmp_path}/ran")) as guarded:
        attach = node.hear(frames.Attach)
        node.say(frames.Denied(attach.n, "not-holder", "no such lease"))
        word = guarded.report(orders.NotStarted)
        assert (word.code, word.text) == ("not-holder", "no such lease")
    assert not (tmp_path / "ran").exists()
    assert node.hears_nothing_more()


def test_c2_a_command_that_is_killed_frees_only_after_its_grandchildren_have_ended(
    node: ScriptedNode, tmp_path: Path
) -> None:
    lines = ("setsid sh -c 'setsid sleep 1000 & echo $! > far; sleep 1000' &", "echo $$ > near; sleep 1000")
    with Guarded(node, *script(f"cd {tmp_path}", *lines)) as guarded:
        pid = guarded.started()
        far, near = written_pid(tmp_path / "far"), written_pid(tmp_path / "near")
        assert near == pid
        os.kill(pid, signal.SIGKILL)
        release = node.hear(frames.Release)
        assert release.exit == frames.ExitRecord(signal=9)
        assert not alive(far)
        node.say(frames.Released(release.n, guarded.lease.lease, "released"))
        assert guarded.report(orders.Ended).leftovers >= 3


def test_c9_killing_the_wrapper_stops_the_command_with_all_that_it_started(
    node: ScriptedNode, tmp_path: Path
) -> None:
    lines = ("trap '' TERM", "setsid sleep 1000 & echo $! > far", "while :; do sleep 1; done")
    with Guarded(node, *script(f"cd {tmp_path}", *lines), grace_ms=200) as guarded:
        pid = guarded.started()
        far = written_pid(tmp_path / "far")
        guarded.wrapper.close()  # what the kernel does when the wrapper is killed
        record = guarded.released()
        assert record == frames.ExitRecord(signal=9, reason="wrapper-gone: holdall run has ended")
        assert not alive(pid)
        assert not alive(far)


def test_c9_a_wrapper_that_does_not_move_is_noticed_and_the_command_stopped(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), ttl_ms=8_000, grace_ms=100) as guarded:
        guarded.started()
        stopping = guarded.report(orders.Stopping)
        assert stopping.reason == "wrapper-silent"
        assert guarded.released().signal == signal.SIGTERM


def test_pulses_of_the_wrapper_keep_the_command_running(node: ScriptedNode, tmp_path: Path) -> None:
    file = tmp_path / "end"
    lines = (f"while [ ! -e {file} ]; do sleep 0.05; done",)
    with Guarded(node, *script(*lines), ttl_ms=8_000, grace_ms=100) as guarded:
        guarded.started()
        for _ in range(9):  # one a second: more than twice ttl / 2, if they were not heard
            guarded.tell(orders.Pulse())
            guarded.report(orders.GuardianPulse)
        file.touch()
        assert guarded.released() == frames.ExitRecord(code=0)


def test_c9_a_silent_node_stops_the_command_at_its_deadline_and_not_before(node: ScriptedNode) -> None:
    node.answers_beats = False
    command = script("trap '' TERM", "while :; do sleep 1; done")
    with Guarded(node, *command, grace_ms=3_000, deadline_in_ms=None) as guarded:
        pid = guarded.started(valid_for_ms=7_000)
        for _ in range(3):
            guarded.tell(orders.Pulse())
        stopping = guarded.report(orders.Stopping)
        assert stopping.reason == "not-renewed"
        assert "no renewal was confirmed for 30 s" in stopping.text
        assert alive(pid)  # it ignores TERM and has its grace
        assert guarded.released().signal == signal.SIGKILL


def test_an_unreachable_node_stops_the_command_and_says_since_when(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), grace_ms=600, deadline_in_ms=None) as guarded:
        pid = guarded.started(valid_for_ms=5_000)
        node.go_away()
        for _ in range(3):
            guarded.tell(orders.Pulse())
        assert "node unreachable for" in guarded.report(orders.Stopping).text
        until(lambda: not alive(pid), "the command is stopped")
        assert guarded.report(orders.Ended).released == ""


def test_a_node_that_lets_nobody_in_any_more_is_said_to_do_so(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), grace_ms=600, deadline_in_ms=None) as guarded:
        guarded.started(valid_for_ms=5_000)
        node.greets = False
        node.break_off()
        node.wait_for_hello(2)
        node.say(frames.Denied(0, "refused", "the token was ended", definite=False))
        node.break_off()
        for _ in range(3):
            guarded.tell(orders.Pulse())
        stopping = guarded.report(orders.Stopping)
        assert stopping.text == "no renewal was confirmed for 30 s (the token was ended)"


def test_c1_a_node_that_comes_back_in_time_finds_the_same_session_and_the_command_goes_on(
    node: ScriptedNode,
) -> None:
    with Guarded(node, *script("read line; sleep 1000"), ttl_ms=30_000) as guarded:
        pid = guarded.started()
        session = node.hellos[0]
        assert session.session == ""
        node.go_away()
        node.listen()
        guarded.report(orders.Renewed)
        until(lambda: node.beats >= 1, "the lease is renewed in the resumed session")
        assert node.hellos[1].session == "session-1"
        assert alive(pid) or guarded.process.poll() is None
        assert node.hears_nothing_more()  # nothing was attached anew
        guarded.tell(orders.StopCommand("enough"))
        guarded.released()


def test_a_node_that_forgot_the_session_is_asked_for_the_lease_by_its_key(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), ttl_ms=30_000) as guarded:
        guarded.started()
        node.go_away()
        node.resumes = False
        node.listen()
        guarded.attach()
        guarded.tell(orders.StopCommand("enough"))
        assert guarded.released().reason == "asked: enough"


def test_a_revoked_lease_is_released_after_the_command_has_ended(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000")) as guarded:
        pid = guarded.started()
        node.say(frames.Lost(guarded.lease.lease, "taken away by admin: needed", stop=True))
        assert guarded.report(orders.Stopping).reason == "revoked"
        record = guarded.released()
        assert not alive(pid)
        assert record.reason == "revoked: taken away by admin: needed"


def test_a_lease_that_is_over_stops_the_command_and_releases_nothing(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000")) as guarded:
        pid = guarded.started()
        node.say(frames.Lost(guarded.lease.lease, "expired"))
        ended = guarded.report(orders.Stopping)
        assert ended.reason == "lease-gone"
        assert guarded.report(orders.Ended).reason == "lease-gone"
        assert not alive(pid)
    assert node.hears_nothing_more()


def test_the_hard_end_stops_the_command(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), grace_ms=300) as guarded:
        guarded.started(for_left_ms=3_000)
        assert guarded.report(orders.Stopping).reason == "for-over"
        assert guarded.released().signal == signal.SIGTERM


def test_c9_when_the_guardian_is_killed_the_kernel_kills_the_command(node: ScriptedNode) -> None:
    with Guarded(node, "/bin/sleep", "1000") as guarded:
        pid = guarded.started()
        guarded.process.kill()
        until(lambda: not alive(pid), "the command dies with its guardian")


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM])
def test_c9_a_guardian_is_deaf_to_signals_that_are_for_the_wrapper(node: ScriptedNode, number: int) -> None:
    with Guarded(node, *script("sleep 1000")) as guarded:
        pid = guarded.started()
        guarded.process.send_signal(number)
        guarded.tell(orders.Forward(signal.SIGTERM))
        assert guarded.released() == frames.ExitRecord(signal=signal.SIGTERM)
        assert not alive(pid)


def test_the_command_finds_signals_as_it_would_without_us(node: ScriptedNode, tmp_path: Path) -> None:
    with Guarded(
        node,
        *script(
            f"grep SigIgn /proc/self/status > {tmp_path}/ignored; grep SigBlk /proc/self/status >> {tmp_path}/ignored"
        ),
    ) as guarded:
        guarded.started()
        guarded.released()
    assert (tmp_path / "ignored").read_text().split() == ["SigIgn:", "0" * 16, "SigBlk:", "0" * 16]


def test_the_command_inherits_no_file_of_ours(node: ScriptedNode, tmp_path: Path) -> None:
    with Guarded(node, *script(f"ls /proc/self/fd | wc -l > {tmp_path}/files")) as guarded:
        guarded.started()
        guarded.released()
    assert int((tmp_path / "files").read_text()) <= 4  # 0, 1, 2 and the folder that ls reads


def test_the_lease_file_follows_the_lease_and_is_gone_afterwards(node: ScriptedNode, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    copy = tmp_path / "copy"
    with Guarded(
        node, *script(f"cp {folder}/lease.json {copy}.part; mv {copy}.part {copy}; sleep 1000"), folder=folder
    ) as guarded:
        guarded.started()
        until(copy.exists, "the command has seen its lease file")
        guarded.tell(orders.StopCommand("enough"))
        guarded.released()
    content = json.loads(copy.read_text())
    assert content["v"] == 1
    assert content["state"] == "active"
    assert content["units"] == [{"pool": "gpu", "name": "gpu-0", "node": "lab-1", "fence": 5, "need": 0}]
    assert content["deadline_boottime_ms"] > 0
    assert not folder.exists()


def test_c17_an_inherited_lease_is_viewed_and_neither_attached_nor_released(node: ScriptedNode) -> None:
    with Guarded(node, *script("exit 4"), view=True) as guarded:
        claim = node.hear(frames.Claim)
        assert (claim.under, claim.now) == ("key-" + guarded.lease.lease, False)
        node.grant(claim, guarded.lease, view=True)
        guarded.report(orders.Started)
        ended = guarded.report(orders.Ended)
        assert (ended.exit.code, ended.released) == (4, "inherited")
    assert node.hears_nothing_more()


def test_c17_a_view_ends_with_the_lease_that_it_is_a_view_of(node: ScriptedNode) -> None:
    with Guarded(node, *script("sleep 1000"), view=True) as guarded:
        node.grant(node.hear(frames.Claim), guarded.lease, view=True)
        pid = guarded.report(orders.Started).pid
        node.say(frames.Lost(guarded.lease.lease, "its holder has released it"))
        assert guarded.report(orders.Stopping).reason == "lease-gone"
        guarded.report(orders.Ended)
        assert not alive(pid)
    assert node.hears_nothing_more()


def test_near_its_hard_end_the_lease_is_asked_for_again_so_that_an_extension_is_heard(
    node: ScriptedNode,
) -> None:
    with Guarded(node, *script("sleep 1000"), ttl_ms=6_000, grace_ms=200) as guarded:
        guarded.started(for_left_ms=4_000)
        again = node.hear(frames.Attach)
        node.say(frames.Granted(again.n, "k", guarded.lease, valid_for_ms=6_000, for_left_ms=3_600_000))
        while (guarded.report(orders.Renewed).hard_end_ms or 0) < boottime_ms() + 3_000_000:
            pass
        guarded.tell(orders.StopCommand("enough"))
        assert guarded.released().reason == "asked: enough"


def test_a_renewal_that_is_answered_after_the_end_counts_for_nothing(
    node: ScriptedNode, tmp_path: Path
) -> None:
    """Else its deadline, which may be over by then, has the wrapper find its guardian late with a command that is gone."""
    node.answers_beats = False
    file = tmp_path / "end"
    lines = (f"while [ ! -e {file} ]; do sleep 0.05; done",)
    with Guarded(node, *script(*lines), ttl_ms=12_000, grace_ms=20) as guarded:
        guarded.started(valid_for_ms=600_000)

        def beaten() -> bool:
            guarded.tell(orders.Pulse())
            return node.unanswered > 0

        until(beaten, "a renewal is asked for")
        file.touch()
        guarded.report(orders.Empty)
        release = node.hear(frames.Release)
        for number in range(1, release.n):
            node.say(frames.BeatOk(number, ((guarded.lease.lease, 0),)))
        node.say(frames.Released(release.n, guarded.lease.lease, "released"))
        said: list[orders.FromGuardian] = []
        while not said or not isinstance(said[-1], orders.Ended):
            said.append(orders.read_report(guarded.wrapper.recv(orders.ORDER_BYTES_MAX)))
    assert release.n >= 3
    assert not [report for report in said if isinstance(report, orders.Renewed)]


def test_a_wrapper_counts_no_deadline_once_nothing_of_the_command_is_left() -> None:
    start = orders.Start(
        key="key", lease=lease_view(), node="none", ttl_ms=30_000, deadline_ms=1, grace_ms=5_000
    )
    signals = Signals()
    try:
        wrapper = Wrapper(start, ["true"], {}, signals=signals, on_report=lambda _report: None)
    finally:
        signals.restore()
    wrapper._hear(orders.Empty(at_ms=1))
    wrapper._hear(orders.Renewed(sent_ms=1, deadline_ms=2, hard_end_ms=3))
    assert wrapper._vigil.end_ms is None


def test_a_connection_that_is_not_greeted_yet_is_waited_for_by_no_clock(node: ScriptedNode) -> None:
    """Else the guardian would turn round and round for as long as its node is silent, or its host out of reach."""
    node.greets = False
    start = orders.Start(
        key="key", lease=lease_view(), node=str(node.path), ttl_ms=30_000, deadline_ms=None, grace_ms=5_000
    )
    line = Tether(start)
    try:
        assert (line.wake_ms() or 0) <= boottime_ms()
        line.tick()
        node.wait_for_hello(1)
        assert line.wake_ms() is None
        node.say(node.welcome(node.hellos[0]))
        until(lambda: line.read() or line.wake_ms() is not None, "the greeting is read")
        assert node.hear(frames.Attach).key == "key"
    finally:
        line.close()
