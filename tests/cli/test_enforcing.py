"""`--limit` and `--before-end`: what is read, and what is refused with what to write."""

import contextlib
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.cli.enforcing import kept_text, read_before_end, read_limits
from holdall.guardian.enforcement.figures import Limits
from holdall.guardian.orders import BeforeEnd
from holdall.model.errors import BadSpec


def test_limits_are_amounts_with_their_units() -> None:
    assert read_limits(()) == Limits()
    assert read_limits(("cpu=2cpu", "mem=4GiB", "processes=100")) == Limits(2000, 4 << 30, 100)
    assert read_limits(("cpu=500mcpu",)) == Limits(cpu=500)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (("mem",), "write e.g. --limit cpu=2cpu"),
        (("disk=4GiB",), "write e.g. --limit cpu=2cpu"),
        (("mem=4GiB", "mem=1GiB"), "--limit mem is given twice"),
        (("mem=4KB",), "--limit mem: "),
        (("mem=5",), "no command starts in less than 1048576 bytes"),
        (("cpu=0cpu",), "--limit cpu: "),
        (("cpu=2GiB",), "--limit cpu: "),
        (("processes=0",), "a number from 1 to 4194304"),
        (("processes=\u0665",), "a number from 1 to 4194304"),
        (("processes=1e3",), "a number from 1 to 4194304"),
    ],
)
def test_what_is_no_limit_is_refused(texts: tuple[str, ...], said: str) -> None:
    with pytest.raises(BadSpec) as refused:
        read_limits(texts)
    assert said in refused.value.text


def test_before_the_end_is_a_signal_or_a_command() -> None:
    assert read_before_end("") is None
    assert read_before_end("30s:USR1") == BeforeEnd(30_000, signal=signal.SIGUSR1)
    assert read_before_end("1m: sigterm") == BeforeEnd(60_000, signal=signal.SIGTERM)
    assert read_before_end("1m:./save.sh a:b") == BeforeEnd(
        60_000, command=("/bin/sh", "-c", "./save.sh a:b")
    )
    for text in ("30s", "30s:", ":USR1", "inf:USR1", "30s:KILL", "x:USR1"):
        with pytest.raises(BadSpec):
            read_before_end(text)


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(BadSpec):
        assert read_limits((text,)) == read_limits((text,))
    with contextlib.suppress(BadSpec):
        before = read_before_end(text)
        assert (before is None) == (text == "")


def test_a_person_is_told_what_the_kernel_does_not_keep() -> None:
    assert kept_text({"cpu": "kernel", "mem": "kernel"}) == ""
    assert kept_text({"cpu": "observed", "mem": "process"}) == (
        "mem: the kernel does not keep it here; the command is ended when it is over; "
        "cpu: only measured here, nothing keeps the command from more. See: holdall doctor"
    )
