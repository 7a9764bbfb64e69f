"""Where the demonstration is told: one line each, with the time since the start and whose line it is."""

import os
import shutil
import signal
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

SECONDS_MAX = 58.0
"""The whole demonstration gives up after this long, so that it ends within a minute."""

COLOURS = {
    "lab-1": 32,
    "lab-2": 32,
    "lab-3": 32,
    "ann": 36,
    "bob": 33,
    "cem": 35,
    "dia": 34,
    "eva": 96,
    "fay": 95,
    "gus": 93,
    "ida": 94,
    "kill": 31,
}
BOLD = 1
NAME_LETTERS = 5
MARGIN = f"{0:6.1f} s  {NAME_LETTERS * 'n'} "
"""As wide as what stands before the text of each line."""
WIDTH_IN_A_PIPE = 100
KEYWORD_LETTERS = 10
"""Listings of holdall begin their lines with a keyword in so many columns; what is wrapped stands below the text."""


class Interrupted(Exception):
    """Somebody ended the demonstration: Ctrl-C, TERM, HUP, or nobody reads any more what it tells."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Stage:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self._lock = threading.Lock()
        self._colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self.interrupted: Interrupted | None = None
        """Why the story ends early."""

    def take_signals(self) -> None:
        """From now on Ctrl-C, TERM and HUP end the story at its next wait, never between a start and its note."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note_signal)

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        what = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
        self.interrupted = Interrupted(what, 128 + number)

    def now(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def tell(self, who: str, text: str) -> None:
        """Print a line, or several that belong together; long ones are wrapped at the width of the terminal."""
        width = max(40, shutil.get_terminal_size((WIDTH_IN_A_PIPE, 24)).columns - len(MARGIN))
        name = f"{who:<{NAME_LETTERS}}"
        if self._colour:
            name = f"\033[{COLOURS.get(who, BOLD)}m{name}\033[0m"
        rows = [row for line in text.splitlines() for row in wrapped(line, width)]
        with self._lock:
            for number, row in enumerate(rows):
                self._print((" " * len(MARGIN) if number else f"{self.now():6.1f} s  {name} ") + row)

    def act(self, title: str) -> None:
        """A heading between two parts of the story."""
        with self._lock:
            heading = f"-- {title}"
            self._print("")
            self._print(f"\033[{BOLD}m{heading}\033[0m" if self._colour else heading)

    def _print(self, line: str) -> None:
        try:
            print(line.rstrip(), flush=True)
        except BrokenPipeError:
            # Whoever read it has gone. The story ends at its next wait; its processes must be ended all the same.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            self.interrupted = Interrupted("nobody reads this any more", 128 + signal.SIGPIPE)

    def go_on(self) -> None:
        """Raises Interrupted when somebody has ended the story."""
        if self.interrupted is not None:
            raise self.interrupted

    def wait_until(self, happened: Callable[[], bool], what: str, seconds: float = 25.0) -> None:
        """Poll until it has happened; raise TimeoutError when it does not, Interrupted when that is wished."""
        until = min(time.monotonic() + seconds, self.start + SECONDS_MAX)
        while True:
            self.go_on()
            if happened():
                return
            if time.monotonic() > until:
                raise TimeoutError(f"did not happen in time: {what}")
            time.sleep(0.02)


def wrapped(line: str, width: int) -> list[str]:
    """The line in rows of at most `width` letters, where it has spaces; later rows stand below the text."""
    if len(line) <= width:
        return [line]
    keyword = line[:KEYWORD_LETTERS]
    padded = (
        keyword.endswith(" ") and " " not in keyword.strip() and not line[KEYWORD_LETTERS:].startswith(" ")
    )
    below = KEYWORD_LETTERS if padded else 4
    return textwrap.wrap(line, width, subsequent_indent=" " * below, break_on_hyphens=False)


def last_lines(file: Path, count: int) -> str:
    """The end of a log, for people; nothing if it isn't there."""
    if not file.exists():
        return ""
    return "\n".join(file.read_text(encoding="utf-8", errors="replace").splitlines()[-count:])
