"""Standard output whose reader may go away (`holdall log | head`): the command ends then, quietly, as by SIGPIPE.

An error that a broken pipe raises would pass for one of what is being read or listened on, wherever OSError is handled,
or come as Python's own at the very end. As SystemExit it passes all of them, and whatever is held is given back on its way.
"""

import io
import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any, TextIO

GONE_STATUS = 128 + signal.SIGPIPE


def watch_reader() -> None:
    """From now on a write to standard output raises SystemExit when nobody reads it any more. Only pipes and sockets have a reader."""
    output: TextIO | None = sys.stdout
    if output is None:  # closed by whoever started us
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  # until the end
        return
    if _has_reader(output) and isinstance(output, io.TextIOWrapper):
        sys.stdout = io.TextIOWrapper(
            io.BufferedWriter(_Pipe(output.fileno(), "w", closefd=False)),
            encoding=output.encoding,
            errors=output.errors,
            line_buffering=output.line_buffering or output.write_through,
        )


def flush_last() -> None:
    """Write what is left; afterwards nothing more can fail, also when Python flushes once more at its end."""
    try:
        sys.stdout.flush()
    except (SystemExit, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), sys.stdout.fileno())
        raise SystemExit(GONE_STATUS) from None


def _has_reader(output: TextIO) -> bool:
    try:
        mode = os.fstat(output.fileno()).st_mode
    except io.UnsupportedOperation:  # text that is kept in memory
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Pipe(io.FileIO):
    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise SystemExit(GONE_STATUS) from None
