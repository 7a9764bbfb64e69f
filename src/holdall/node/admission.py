"""What the directory tells its own node: whether this start may serve, and what speaks against it later."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdall.machine.host import Host
from holdall.model.errors import BadConfig
from holdall.parties.directory import Directory
from holdall.parties.directory_messages import (
    DIRECTORY,
    ForgetDone,
    MayServe,
    MustStop,
    Shunned,
    StartRefused,
    ToNode,
    Warned,
)
from holdall.parties.directory_view import DirectoryView


class Log(Protocol):
    """What this file needs of a logger."""

    def info(self, event: str, **values: object) -> object:
        """News that needs nobody."""
        ...

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...


class Admission:
    """`told` takes the directory's messages; `wait` returns when the node may serve."""

    def __init__(
        self, log: Log, *, must_stop: Callable[[str], None], shun: Callable[[str, str], None]
    ) -> None:
        """`must_stop` is called with a text for people; `shun` with id and name of a node that was forgotten."""
        self._log = log
        self._must_stop = must_stop
        self._shun = shun
        self._answered = asyncio.Event()
        self._refusal = ""
        self._is_in = False

    def told(self, message: ToNode) -> None:
        """One message of the directory to its node."""
        match message:
            case MayServe():
                self._is_in = True
                self._answered.set()
            case StartRefused(text):
                self._refusal = text
                self._answered.set()
            case MustStop(text):
                self._must_stop(text)
            case Warned(text):
                self._log.warning(text)
            case Shunned(node, name):
                self._shun(node, name)
            case ForgetDone(_, ok, text):
                (self._log.info if ok else self._log.warning)(text)

    async def wait(self, stopped: asyncio.Event) -> None:
        """Until the directory lets this start serve. Raises BadConfig when it refuses, or the node is stopped first.

        How long the others may take to answer is the directory's to know; without others it answers at once.
        """
        waits = [asyncio.ensure_future(event.wait()) for event in (self._answered, stopped)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self._refusal:
            raise BadConfig(self._refusal)
        if not self._is_in:
            raise BadConfig("stopped while it asked the other nodes whether it may serve.")


def name_in_use(host: Host, name: str, node: str) -> str:
    """Why a node with this id can't join under this name, as far as the host's directory knows; else empty.

    One that has been silent for longer than any lease lives gives way, as it does when a node of its name starts.
    """
    directory = host.parts.get(DIRECTORY)
    if not isinstance(directory, Directory):
        return ""
    view = DirectoryView(directory)
    other = view.node_named(name)
    if other is None or other == node:
        return ""
    settings = directory.state.settings
    known = view.node(other)
    address = settings.address if known is None else known.address
    if (
        known is not None
        and known.silent_ms > settings.ttl_max_ms * (1_000_000 + settings.rho_ppm) // 1_000_000
    ):
        return ""
    return (
        f'node name "{name}" is in use by {address} (key {other[:8]}…). '
        f"Choose [node].name, or run: holdall forget {name}"
    )
