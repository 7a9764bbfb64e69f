"""What the directory tells its own node: whether this start may serve, and what speaks against it later."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from holdall.machine.contract import Address, Message
from holdall.machine.host import Host
from holdall.machine.link import LINK
from holdall.machine.link_orders import Shun
from holdall.model.errors import BadConfig, HoldallError
from holdall.node.loop import Loop
from holdall.node.membership import CODE_VALID_S, Seat, Wishes
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    DIRECTORY,
    ForgetDone,
    MayServe,
    Member,
    Met,
    MustStop,
    Shunned,
    StartRefused,
    ToNode,
    Warned,
)
from holdall.parties.directory.view import DirectoryView
from holdall.parties.inviting import CodeGiven, WantCode
from holdall.parties.messages import AGENT, NODE


class Log(Protocol):
    """What this file needs of a logger."""

    def info(self, event: str, **values: object) -> object:
        """News that needs nobody."""
        ...

    def warning(self, event: str, **values: object) -> object:
        """Something a person may want to look at."""
        ...

    def error(self, event: str, **values: object) -> object:
        """Something a person must look at."""
        ...


class Admission:
    """Between the node's own parts and its bus: `told` takes what the parts say, `wishes` gives what the bus may ask.

    `wait` returns when the node may serve.
    """

    def __init__(self, log: Log, *, must_stop: Callable[[str], None]) -> None:
        """`must_stop` is called with a text for people."""
        self.seat = Seat()
        self.met: list[Member] = []
        """Nodes that the bus has told of before the machines began."""
        self._log = log
        self._must_stop = must_stop
        self._unlike: list[str] = []
        """Ids of nodes with other system-wide settings."""
        self._loop: Loop | None = None
        self._answered = asyncio.Event()
        self._refusal = ""
        self._is_in = False

    def wishes(self) -> Wishes:
        """What the bus asks and tells the node."""
        return Wishes(may_join=self._may_join, met=self._meet, differs=self._differs)

    def begin(self, loop: Loop) -> None:
        """The machines are about to begin."""
        self._loop = loop
        for node in self._unlike:
            self._put(LINK, Shun(node))

    def told(self, message: ToNode | WantCode) -> None:
        """One message of a part to its node."""
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
            case WantCode():
                self._give_code(message)

    def _give_code(self, wanted: WantCode) -> None:
        code, why_not = "", ""
        try:
            code = self.seat.join_code()
        except HoldallError as error:
            why_not = error.text
        self._put(AGENT, CodeGiven(wanted.connection, wanted.n, code, CODE_VALID_S, why_not))

    def _shun(self, node: str, name: str) -> None:
        self._put(LINK, Shun(node))
        self.seat.shut_out(node)
        self._log.warning("forgotten: nothing is taken from this node any more", id=node, name=name)

    def _meet(self, node: str, name: str) -> None:
        """A node is there that joining has not told of."""
        if self._loop is None:
            self.met.append(Member(node, name))
        else:
            self._put(DIRECTORY, Met(node, name))

    def _differs(self, node: str, name: str, what: str) -> None:
        self._log.error(
            "a node with other system-wide settings: it is not dealt with", id=node, name=name, why=what
        )
        self._unlike.append(node)
        self._put(LINK, Shun(node))

    def _may_join(self, name: str, node: str) -> str:
        """Why a node can't join under this name; empty when it can."""
        return (
            "this node is still starting." if self._loop is None else name_in_use(self._loop.host, name, node)
        )

    def _put(self, part: str, message: Message) -> None:
        if self._loop is not None:
            self._loop.put(part, Address(self._loop.host.node, NODE), message)

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
