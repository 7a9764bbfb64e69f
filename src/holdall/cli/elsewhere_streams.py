"""Standard input and output of a command that runs elsewhere: numbered pieces, a few of them under way at a time."""

import contextlib
import os
import select
from collections import deque
from collections.abc import Collection, Iterable, Mapping

from holdall.model.run_frames import PIECE_BYTES_MAX, WINDOW, RunFed, RunOver, RunSaid, Stream

_RUN = 1
STREAMS: Mapping[Stream, int] = {1: 1, 2: 2}
AT_ONCE = select.PIPE_BUF
"""A pipe that is ready to be written to takes so much without a wait."""


class Input:
    """What is read here and used up there. Nothing more is read while `WINDOW` pieces are under way."""

    def __init__(self, file: int = 0) -> None:
        self.file = file
        self.sent = 0
        self._unused: deque[RunFed] = deque()
        self._is_over = False
        self._is_closed = False
        """There is no such file: its end is all that it has."""
        try:
            os.fstat(file)
        except OSError:
            self._is_closed = True

    @property
    def wants(self) -> bool:
        """Whether it is worth polling."""
        return self._may_read and not self._is_closed and self._is_ours()

    def is_ready(self, ready: Collection[int]) -> bool:
        """Whether `read` has something, given the files that a poll has found."""
        return self._may_read and (self._is_closed or self.file in ready)

    def read(self) -> RunFed:
        """The next piece; an empty one at the end, and where reading fails."""
        data = b""
        if not self._is_closed:
            with contextlib.suppress(OSError):
                data = os.read(self.file, PIECE_BYTES_MAX)
        self._is_over = not data
        self.sent += 1
        piece = RunFed(_RUN, self.sent, data)
        self._unused.append(piece)
        return piece

    def taken(self, upto: int, *, again: bool) -> Iterable[RunFed]:
        """So much has been used up; the pieces to send again, when those after it were lost."""
        while self._unused and self._unused[0].piece <= upto:
            self._unused.popleft()
        return tuple(self._unused) if again else ()

    @property
    def _may_read(self) -> bool:
        return not self._is_over and len(self._unused) < WINDOW

    def _is_ours(self) -> bool:
        """A job in the background that reads from its terminal would be stopped."""
        if not os.isatty(self.file):
            return True
        try:
            return os.tcgetpgrp(self.file) == os.getpgrp()
        except OSError:
            return True


class Output:
    """What comes from there and is written here, in the order of the pieces."""

    def __init__(self, files: Mapping[Stream, int] = STREAMS) -> None:
        """`files`: where each stream goes."""
        self._files = files
        self.used = 0
        """Every piece up to this one has been written."""
        self.ended: int | None = None
        """The exit status, when everything before it has been written."""
        self.deaf: tuple[Stream, ...] = ()
        """Streams that nobody reads any more."""
        self._come = 0
        self._waiting: deque[RunSaid | RunOver] = deque()
        self._written = 0
        """Of the first one that waits."""
        self._is_lost = False
        self._has_asked = False

    @property
    def file(self) -> int | None:
        """Where the next bytes go."""
        first = self._waiting[0] if self._waiting else None
        return self._files[first.stream] if isinstance(first, RunSaid) else None

    def take(self, piece: RunSaid | RunOver) -> None:
        """The next one; others came before, or tell that some were lost."""
        if piece.piece == self._come + 1 and len(self._waiting) <= WINDOW:
            self._come += 1
            self._is_lost = self._has_asked = False
            self._waiting.append(piece)
        elif piece.piece > self._come:
            self._is_lost = True

    def sent_there(self, pieces: int) -> None:
        """So many were sent before this word, so what has not come by now does not come."""
        if pieces > self._come:
            self._is_lost = True

    def take_lost(self, *, ask: bool) -> bool:
        """Whether to ask for pieces again: once, and then at each beat that asks."""
        if not self._is_lost or (self._has_asked and not ask):
            return False
        self._has_asked = True
        return True

    def write(self) -> None:
        """What goes without waiting."""
        while self._waiting:
            first = self._waiting[0]
            if isinstance(first, RunOver):
                self.ended = first.status
            elif first.stream not in self.deaf and not self._put(first):
                return
            self.used = first.piece
            self._written = 0
            self._waiting.popleft()

    def _put(self, piece: RunSaid) -> bool:
        """Whether all of it has been written, or nobody wants it."""
        data, file = memoryview(piece.data), self._files[piece.stream]
        while self._written < len(data):
            if not _is_writable(file):
                return False
            try:
                self._written += os.write(file, data[self._written :][:AT_ONCE])
            except BlockingIOError:
                return False
            except OSError:
                # Nobody reads any more: the command is to find that out as it would on a pipe.
                self.deaf = (*self.deaf, piece.stream)
                break
        return True


def _is_writable(file: int) -> bool:
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return bool(poll.poll(0))
