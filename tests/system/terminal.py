"""An interactive shell on a pseudo-terminal, typed at and read like a person does."""

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

WITHIN_S = 30.0
PROMPT = "ready> "
HOLDALL = f"{sys.executable} -m holdall.cli"


class Shell:
    """bash with job control. `expect` reads up to a text; `enter` types a line; `press` types one control letter."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.seen = ""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            command = ["bash", "--norc", "--noprofile", "--noediting", "-i"]
            surroundings = {**environment, "PS1": PROMPT, "TERM": "dumb", "HISTFILE": ""}
            os.execvpe(command[0], command, surroundings)  # noqa: S606 - nobody types but the test

    def __enter__(self) -> Self:
        self.expect(PROMPT)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            os.close(self._terminal)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def enter(self, line: str) -> None:
        os.write(self._terminal, line.encode() + b"\n")

    def press(self, letter: str) -> None:
        os.write(self._terminal, bytes([ord(letter) & 0x1F]))

    def expect(self, pattern: str) -> str:
        """Read until the pattern has come; gives everything up to its end, and starts behind it next time."""
        end = time.monotonic() + WITHIN_S
        while not (found := re.search(pattern, self.seen)):
            left = end - time.monotonic()
            assert left > 0, f"no {pattern!r} within {WITHIN_S:g} s in {self.seen!r}"
            if select.select([self._terminal], [], [], left)[0]:
                self.seen += os.read(self._terminal, 1 << 16).decode(errors="replace")
        before, self.seen = self.seen[: found.end()], self.seen[found.end() :]
        return before

    def foreground(self) -> tuple[str, str]:
        """Name and state (as in /proc/PID/stat, `T` is stopped) of the process that leads the foreground group."""
        try:
            stat = Path(f"/proc/{os.tcgetpgrp(self._terminal)}/stat").read_text()
        except OSError:
            return "", ""
        name, _, rest = stat.partition("(")[2].rpartition(")")
        return name, rest.split()[0]

    def status(self) -> int:
        """Exit status of the last command line."""
        self.enter("echo status=$?=")
        said = self.expect(r"status=(\d+)=")
        self.expect(PROMPT)
        match = re.search(r"status=(\d+)=", said)
        assert match is not None
        return int(match[1])
