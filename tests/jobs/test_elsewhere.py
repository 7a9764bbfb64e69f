"""A task on another node: the words of its command, the lock that keeps its attempts apart, what its ends mean."""

import subprocess
from pathlib import Path

import pytest
from node.waiting import until

from holdall.jobs.elsewhere import SCRIPT, command_there, judged
from holdall.jobs.entries import Outcome
from holdall.jobs.facts import Order


def begin(state: Path, fence: int, *command: str, patience_s: int = 60) -> "subprocess.Popen[bytes]":
    """As on the other host."""
    return subprocess.Popen(
        ["/bin/sh", "-c", SCRIPT, "sh", "job-0", str(fence), str(patience_s), "WORD=a b", *command],
        env={"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(state)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: "subprocess.Popen[bytes]") -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=60)
    return process.returncode, out.decode(), errors.decode()


def test_a_later_attempt_waits_until_nothing_of_the_one_before_is_left(tmp_path: Path) -> None:
    # The command ends at once; what it has started lives on, and holds the lock.
    first = begin(tmp_path, 1, "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!")
    status, child, _ = ended(first)
    assert status == 0
    second = begin(tmp_path, 2, "sh", "-c", 'echo "$WORD"')
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(0.5)
        impatient = ended(begin(tmp_path, 3, "true", patience_s=0))
        assert impatient == (79, "", "holdall: an earlier attempt has not ended on this host\n")
    finally:
        subprocess.run(["/bin/kill", "-9", child.strip()], check=True)
    assert ended(second) == (0, "a b\n", "")


def test_an_attempt_that_comes_late_is_refused(tmp_path: Path) -> None:
    for fence, status in ((5, 3), (4, 77), (5, 77), (12, 3)):
        found = ended(begin(tmp_path, fence, "sh", "-c", "exit 3"))
        assert found[0] == status, found
        assert ("a later attempt has begun" in found[2]) == (status == 77)
    until(
        lambda: (tmp_path / "holdall" / "elsewhere" / "job-0").read_text() == "12\n", "the last one is kept"
    )


def test_the_command_has_what_the_job_says_and_numbers_that_only_grow() -> None:
    order = Order(
        command=("A=b", "c d"),
        needs=(("gpu:1", "gpu,model=x:2"), ("psu",)),
        environment={"SECRET": "of this host"},
        folder="/",
        node_socket="/s",
        agent="",
        reason="night/a",
        site="",
        ttl_ms=20_000,
        on="lab-2",
        own={"MODE": "fast"},
        task_key="J-3",
        attempt=2,
    )
    words = command_there(order, 7, 1500)
    at = words.index("--")
    assert words[4 : 4 + 8] == (
        "run",
        "--on=lab-2",
        "--need",
        "gpu:1",
        "--or",
        "gpu,model=x:2",
        "--need",
        "psu",
    )
    assert words[12:at] == ("--wait=1500ms", "--ttl=20000ms", "--reason=night/a")
    assert words[at + 5 : at + 7] == ("J-3", "200007")
    assert words[at + 8 :] == ("MODE=fast", "/bin/sh", "-c", 'exec "$@"', "sh", "A=b", "c d")
    assert "SECRET" not in " ".join(words)
    assert command_there(order, 0, None)[12] == "--wait=inf"


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [
        (Outcome("ok", 0), "ok"),
        (Outcome("failed", 3, "exit status 3"), "failed"),
        (Outcome("failed", 79, "exit status 79"), "lost"),
        (Outcome("failed", 75, "exit status 75"), "not-granted"),
        (Outcome("failed", 77, "exit status 77"), "refused"),
        (Outcome("failed", 65, "exit status 65"), "refused"),
        (Outcome("failed", 79, "stopped"), "failed"),
    ],
)
def test_the_status_of_the_run_says_what_the_command_s_own_can_t(outcome: Outcome, kind: str) -> None:
    assert judged(outcome, "lab-2").kind == kind
