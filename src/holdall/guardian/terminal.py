"""The controlling terminal: who is in the foreground, and handing that over."""

import contextlib
import os
from typing import Self


class Terminal:
    """The terminal that controls this session."""

    def __init__(self, file: int) -> None:
        self.file = file

    @classmethod
    def open(cls) -> Self | None:
        """The controlling terminal; None when this session has none."""
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return None

    def foreground(self) -> int:
        """The process group in the foreground; 0 when nobody knows (the terminal has hung up)."""
        try:
            return os.tcgetpgrp(self.file)
        except OSError:
            return 0

    def give(self, group: int) -> bool:
        """Put a process group into the foreground. The caller must ignore SIGTTOU. False when it can't be."""
        try:
            os.tcsetpgrp(self.file, group)
        except OSError:
            return False
        return True

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.file)
