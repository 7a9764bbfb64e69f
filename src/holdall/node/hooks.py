"""Runs the commands of pools (`on_grant`, `on_release`, `check`), a bounded number at once, each in bounded time."""

import asyncio
import contextlib
import ctypes
import os
import shlex
import signal
from collections.abc import Callable
from typing import Protocol

from holdall.parties.messages import HookDone, RunHook

AT_ONCE_MAX = 16
OUTPUT_BYTES_MAX = 64 * 1024
_PR_SET_PDEATHSIG = 1


class Log(Protocol):
    """What this file needs of a logger."""

    def info(self, event: str, **values: object) -> object:
        """One line."""
        ...


class Hooks:
    """The runner. `answer` gets each order's result, exactly once unless the node ends before."""

    def __init__(self, answer: Callable[[RunHook, HookDone], None], log: Log) -> None:
        self._answer = answer
        self._log = log
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._running: set[asyncio.Task[None]] = set()

    def run(self, order: RunHook) -> None:
        """Start the command, when its turn comes."""
        task = asyncio.get_running_loop().create_task(self._run(order))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """End what runs; the machines order it again after the next start."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _run(self, order: RunHook) -> None:
        async with self._slots:
            done = await execute(order)
        last = done.text
        self._log.info(
            "hook",
            hook=order.hook,
            claim=order.claim,
            pool=order.pool,
            unit=order.unit,
            fence=order.fence,
            ok=done.ok,
            text=last,
        )
        self._answer(order, done)


async def execute(order: RunHook) -> HookDone:
    """Run one command in a shell and a process group of its own; the group is killed when its time is over."""
    try:
        process = await _begin(order)
    except OSError as error:
        return HookDone(order.run, ok=False, text=f"{order.hook} did not start: {error.strerror or error}")
    try:
        async with asyncio.timeout(order.limit_ms / 1000):
            output = await _read(process)
            status = await process.wait()
    except TimeoutError:
        await _kill(process)
        return HookDone(order.run, ok=False, text=f"{order.hook} not done within {order.limit_ms / 1000:g} s")
    except asyncio.CancelledError:
        await _kill(process)
        raise
    lines = output.decode(errors="replace").strip().splitlines()
    said = f": {lines[-1][:200]}" if lines else ""
    if status == 0:
        return HookDone(order.run, ok=True, text=f"{order.hook} done{said}")
    how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
    return HookDone(order.run, ok=False, text=f"{order.hook} {how}{said}")


async def _begin(order: RunHook) -> asyncio.subprocess.Process:
    beginning = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            fill_in(order),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(order),
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
    )
    try:
        return await asyncio.shield(beginning)
    except asyncio.CancelledError:
        # Cancelled half-way the shell alone would be killed, and what it has started by then would stay.
        await _kill(await beginning)
        raise


def fill_in(order: RunHook) -> str:
    """The command with its placeholders filled in, each value quoted for the shell."""
    command = order.command
    for name, value in (
        ("{unit}", order.unit),
        ("{pool}", order.pool),
        ("{fence}", str(order.fence)),
        ("{lease}", order.claim),
    ):
        command = command.replace(name, shlex.quote(value))
    return command


def environment(order: RunHook) -> dict[str, str]:
    """The node's environment and what the command is about."""
    about = {
        "HOLDALL_POOL": order.pool,
        "HOLDALL_UNIT": order.unit,
        "HOLDALL_FENCE": str(order.fence),
        "HOLDALL_CLAIM": order.claim,
        "HOLDALL_HOOK": order.hook,
    }
    return dict(os.environ) | about


async def _read(process: asyncio.subprocess.Process) -> bytes:
    """The end of what the command says; the rest is read and dropped, so that it never blocks on a full pipe."""
    tail = b""
    if process.stdout is None:
        return tail
    while chunk := await process.stdout.read(OUTPUT_BYTES_MAX):
        tail = (tail + chunk)[-OUTPUT_BYTES_MAX:]
    return tail


async def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent() -> None:
    """In a child, before it becomes another program: the kernel kills it when the node ends."""
    # A killed node's commands must not go on beside those that its next start orders again.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
