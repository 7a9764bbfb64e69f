"""Runs the commands of other nodes: for each an ordinary `holdall run` as child, its streams in bounded pieces.

The child asks this node for its lease over the socket, as anybody does. When the node ends, however, the kernel kills the
child, and the child's guardian ends the command (TERM, grace, KILL); so does whoever stops a run.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable
from io import FileIO

import msgspec

from holdall.model.decoding import decoded
from holdall.model.errors import Refused
from holdall.model.run_frames import GRANT_ENV, LEASE_BYTES_MAX, PIECE_BYTES_MAX, WINDOW, RunLease, Stream
from holdall.node.command_line import Surroundings, command_line
from holdall.node.hooks import Log, end_with_parent
from holdall.parties.runs.messages import (
    BeginJob,
    CreditJob,
    DeafenJob,
    FeedJob,
    JobBegan,
    JobEnded,
    JobFailed,
    JobLeased,
    JobOrder,
    JobReport,
    JobSaid,
    JobTook,
    SignalJob,
    StopJob,
)

STDOUT: Stream = 1
STDERR: Stream = 2


class Commands:
    """All of them. `answer` gets what happens; of each job nothing after its JobEnded or JobFailed."""

    def __init__(self, answer: Callable[[JobReport], None], log: Log, place: Surroundings | None) -> None:
        """`place` None: nothing can be started."""
        self._answer = answer
        self._log = log
        self._place = place
        self._jobs: dict[int, Job] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def take(self, order: JobOrder) -> None:
        """An order of the machine. One about a job that is over comes too late and changes nothing."""
        if isinstance(order, BeginJob):
            job = self._jobs[order.job] = Job(order, self._answer)
            task = asyncio.get_running_loop().create_task(self._run(job))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        found = self._jobs.get(order.job)
        if found is not None:
            found.take(order)

    async def close(self) -> None:
        """End what runs; what is told of it goes nowhere."""
        self._answer = _nowhere
        for job in self._jobs.values():
            job.answer = _nowhere
            job.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, job: "Job") -> None:
        order = job.order
        what = order.wishes.command[0].decode(errors="replace")[:200]
        report: JobReport
        try:
            await job.begin(self._place)
        except Refused as problem:
            report = JobFailed(order.job, problem.code, problem.text)
        except (OSError, ValueError) as problem:
            text = f"holdall run can't be started: {problem}. See: holdall doctor, on that host"
            report = JobFailed(order.job, Refused.code, text)
        else:
            self._log.info("command of another node", caller=order.caller, command=what, job=order.job)
            job.answer(JobBegan(order.job))
            report = JobEnded(order.job, await job.ended())
        self._log.info(
            "command of another node is over",
            caller=order.caller,
            command=what,
            job=order.job,
            how=report.text if isinstance(report, JobFailed) else f"exit status {report.status}",
            stopped=job.why,
        )
        del self._jobs[order.job]
        self._answer(report)


class Job:
    """One child and its three streams."""

    def __init__(self, order: BeginJob, answer: Callable[[JobReport], None]) -> None:
        self.order = order
        self.answer = answer
        self.why = ""
        """Why it was stopped."""
        self._process: asyncio.subprocess.Process | None = None
        self._lease: FileIO
        """The end of the pipe over which the child tells its lease."""
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        """At most `WINDOW` pieces: the machine lets no more through."""
        self._credit = asyncio.Semaphore(WINDOW)
        self._signals: list[int] = []
        """Those that came before there was a process."""
        self._is_stopped = False

    async def begin(self, place: Surroundings | None) -> None:
        """Start the child. Raises Refused, OSError or ValueError: nothing was started."""
        if place is None:
            raise Refused("this node starts no commands.")
        line = command_line(self.order.wishes, place)
        reading, writing = os.pipe()
        beginning = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *line.arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                limit=PIECE_BYTES_MAX,
                env={**line.environment, GRANT_ENV: str(writing)},
                pass_fds=(writing,),
                cwd=line.folder,
                start_new_session=True,
                preexec_fn=end_with_parent,
                **line.identity,
            )
        )
        self._lease = os.fdopen(reading, "rb", buffering=0)
        try:
            self._process = await asyncio.shield(beginning)
        except asyncio.CancelledError:
            self._process = await beginning
            self._lease.close()
            self.stop()
            raise
        finally:
            os.close(writing)
            if self._process is None:
                self._lease.close()
        for number in self._signals:
            self._signal(number)
        if self._is_stopped:
            self.stop()

    async def ended(self) -> int:
        """Relay until nothing is left; the exit status as a shell has it."""
        process = self._process
        if process is None or process.stdout is None or process.stderr is None:
            raise AssertionError("it was started with pipes")
        loop = asyncio.get_running_loop()
        feeding, leasing = loop.create_task(self._feed(process)), loop.create_task(self._leased())
        try:
            await asyncio.gather(self._relay(process.stdout, STDOUT), self._relay(process.stderr, STDERR))
            status = await process.wait()
            await leasing  # the child has ended, and with it the pipe
        except asyncio.CancelledError:
            self.stop()
            await process.wait()
            self._close(None)
            raise
        finally:
            feeding.cancel()
            leasing.cancel()
            await asyncio.gather(feeding, leasing, return_exceptions=True)
            self._lease.close()
        return status if status >= 0 else 128 - status

    def take(self, order: JobOrder) -> None:
        """An order about this job."""
        match order:
            case FeedJob(_, data):
                self._input.put_nowait(data)
            case CreditJob(_, pieces):
                for _ in range(pieces):
                    self._credit.release()
            case SignalJob(_, number):
                self._signal(number)
            case DeafenJob(_, stream):
                self._close(stream)
            case StopJob(_, why):
                self.why = why
                self.stop()
            case _:
                raise AssertionError("a job begins once")

    def stop(self) -> None:
        """Kill the child, so that its guardian ends the command; output is read on, so that nobody is held up."""
        self._is_stopped = True
        self._credit.release()
        self._credit.release()  # one for each stream that may wait: from now on nothing is told
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is None:
            self._signals.append(number)
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _relay(self, stream: asyncio.StreamReader, number: Stream) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await stream.read(PIECE_BYTES_MAX):
                if not self._is_stopped:
                    await self._credit.acquire()
                if not self._is_stopped:
                    self.answer(JobSaid(self.order.job, number, data))

    async def _leased(self) -> None:
        """What the child says about its lease, once."""
        reader = asyncio.StreamReader(limit=LEASE_BYTES_MAX)
        loop = asyncio.get_running_loop()
        way, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._lease)
        try:
            told = await reader.read(LEASE_BYTES_MAX)
            with contextlib.suppress(msgspec.DecodeError):  # it is the user's process, and may say anything
                lease = decoded(msgspec.json.Decoder(RunLease).decode, told)
                if not self._is_stopped:
                    self.answer(JobLeased(self.order.job, lease))
        finally:
            way.close()

    async def _feed(self, process: asyncio.subprocess.Process) -> None:
        writer = process.stdin
        while writer is not None:
            data = await self._input.get()
            # A command that reads no more takes everything, as one that has closed a pipe does.
            if not writer.is_closing():
                with contextlib.suppress(ConnectionError):
                    await self._put(writer, data)
            self.answer(JobTook(self.order.job))

    @staticmethod
    async def _put(writer: asyncio.StreamWriter, data: bytes) -> None:
        if not data:
            writer.close()
            return
        writer.write(data)
        await writer.drain()

    def _close(self, stream: int | None) -> None:
        """Our end of one pipe; None: of all, although others may still have theirs."""
        transport: asyncio.SubprocessTransport | None = getattr(self._process, "_transport", None)
        if transport is None:
            return
        if stream is not None:
            pipe = transport.get_pipe_transport(stream)
            if pipe is not None:
                pipe.close()
            return
        typed = transport.get_pipe_transport(0)
        if isinstance(typed, asyncio.WriteTransport):
            # Closed, it would wait for ever until a command that is gone has read what was typed.
            typed.abort()
        transport.close()


def _nowhere(report: JobReport) -> None:
    del report
