"""The processes of a command: started in a group of their own, found wherever they went, ended, and waited for.

A guardian is a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): whoever forks twice or starts a session of his own
stays its descendant, so "no child is left" means that nothing of the command is left.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from holdall.guardian.enforcement.figures import Figures, Limits
from holdall.guardian.enforcement.ladder import Containment
from holdall.guardian.terminal import Terminal

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)

RESET_SIGNALS = tuple(
    number
    for number in (
        signal.SIGHUP,
        signal.SIGINT,
        signal.SIGQUIT,
        signal.SIGTERM,
        signal.SIGPIPE,
        signal.SIGXFSZ,
        signal.SIGTSTP,
        signal.SIGTTIN,
        signal.SIGTTOU,
        signal.SIGCHLD,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGWINCH,
    )
)
"""What Python or the guardian changed, and a command must find as it is by default."""


class Ended(msgspec.Struct, frozen=True):
    """A direct child is gone."""

    pid: int
    code: int | None
    signal: int | None


class Halted(msgspec.Struct, frozen=True):
    """A direct child was stopped by a signal."""

    pid: int
    signal: int


def become_subreaper() -> None:
    """Orphaned descendants come to this process. Raises OSError where the kernel has no such thing."""
    if _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot become a subreaper: {os.strerror(number)}")


def descendants(pid: int) -> list[int]:
    """All live or unreaped descendants of a process, parents before children."""
    found: list[int] = []
    look = [pid]
    while look:
        parent = look.pop()
        for child in _children(parent):
            found.append(child)
            look.append(child)
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return children
    for thread in threads:
        try:
            children += [int(word) for word in (thread / "children").read_text().split()]
        except OSError:
            continue  # the thread has ended while we looked
    return children


def kill_descendants() -> None:
    """KILL to every descendant of this process, once."""
    for pid in descendants(os.getpid()):
        _send(pid, signal.SIGKILL)


class Group:
    """The command's processes, seen by the process that started them."""

    def __init__(self, pid: int, containment: Containment) -> None:
        self.pid = pid
        self.containment = containment

    def signal(self, number: int) -> None:
        """To the command's process group, and to each descendant that left it."""
        self._to_group(number)
        for pid in self._strays():
            _send(pid, number)

    def pass_on(self, number: int) -> None:
        """A signal that somebody sent to the wrapper: to the process group only, as a terminal would."""
        self._to_group(number)

    def kill(self) -> None:
        """KILL to everybody, once. Forks can outrun it, so call it until `reap` says that nobody is left."""
        self.containment.kill()
        self._to_group(signal.SIGKILL)
        kill_descendants()

    def count(self) -> int:
        """Descendants that have not ended."""
        return len([pid for pid in descendants(os.getpid()) if not _is_zombie(pid)])

    def close(self) -> None:
        """Nobody is left: give its cgroups back."""
        self.containment.remove()

    def adjust(self, limits: Limits) -> None:
        """Other limits, from now on."""
        self.containment.adjust(limits, descendants(os.getpid()))

    def figures(self) -> Figures:
        """What the command has used until now."""
        return self.containment.figures(descendants(os.getpid()))

    def _to_group(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return  # the group is empty, or consists of a set-user-ID command: its own end is awaited

    def _strays(self) -> list[int]:
        strays: list[int] = []
        for pid in descendants(os.getpid()):
            try:
                if os.getpgid(pid) != self.pid:
                    strays.append(pid)
            except ProcessLookupError:
                continue
        return strays


def reap() -> tuple[list[Ended | Halted], bool]:
    """What happened to direct children since the last call, and whether none is left."""
    happened: list[Ended | Halted] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
        except ChildProcessError:
            return happened, True
        if pid == 0:
            return happened, False
        if os.WIFSTOPPED(status):
            happened.append(Halted(pid, os.WSTOPSIG(status)))
        elif os.WIFSIGNALED(status):
            happened.append(Ended(pid, None, os.WTERMSIG(status)))
        else:
            happened.append(Ended(pid, os.WEXITSTATUS(status), None))


def start(
    command: Sequence[str],
    *,
    terminal: Terminal | None,
    ignored: Iterable[int],
    containment: Containment,
) -> Group:
    """Start the command as leader of its own process group, which KILL reaches when this process dies.

    `terminal`: hand it to the command first. Raises OSError with the reason when it can't be executed.
    """
    guardian = os.getpid()
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(
            command,
            guardian=guardian,
            report=writing,
            prepare=lambda: _prepare(terminal, tuple(ignored), containment),
        )
    os.close(writing)
    trouble = os.read(reading, 16)  # empty when the command has taken over and so closed the other end
    os.close(reading)
    if trouble:
        os.waitpid(pid, 0)
        number = int(trouble)
        raise OSError(number, os.strerror(number), command[0])
    containment.verify(pid)
    return Group(pid, containment)


def start_beside(command: Sequence[str]) -> int:
    """A process of the guardian's own, for the command's sake: in a group of its own, with nothing to read. Its pid.

    It is waited for and ended as the command's processes are. Raises OSError.
    """
    return os.posix_spawnp(command[0], list(command), os.environ, setpgroup=0, setsigdef=RESET_SIGNALS)


def _prepare(terminal: Terminal | None, ignored: tuple[int, ...], containment: Containment) -> None:
    os.setpgid(0, 0)
    containment.enter()
    if terminal is not None:
        # SIGTTOU is ignored here, else this process would be stopped for asking from the background.
        terminal.give(os.getpid())
    for number in RESET_SIGNALS:
        signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)


def _become(command: Sequence[str], *, guardian: int, report: int, prepare: Callable[[], None]) -> None:
    """In the child: never returns."""
    number = 1
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != guardian:
            os._exit(1)  # it died before the order was in force
        prepare()
        _execute(command)
    except OSError as problem:
        number = problem.errno or 1
    finally:
        # An errno of the child, for its parent; nothing else of this copy of the guardian may run.
        os.write(report, str(number).encode())
        os._exit(127)


def _execute(command: Sequence[str]) -> None:
    """As a shell would: a text file without `#!` is a script of sh."""
    try:
        os.execvpe(command[0], list(command), os.environ)  # noqa: S606 - the user's command
    except OSError as problem:
        import errno
        import shutil

        script = shutil.which(command[0])
        if problem.errno != errno.ENOEXEC or script is None:
            raise
        os.execve("/bin/sh", ["/bin/sh", script, *command[1:]], os.environ)  # noqa: S606 - as a shell would


def _send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return  # it has ended, or changed its user: its end is awaited all the same


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True
