"""Frames over HTTP: `GET /v1/frames` with `Upgrade: holdall` becomes a connection to the node's own socket.

With it the command line works from other hosts. The caller is known by an access token (or by the kernel, over `http.sock`);
the first frame, a Hello, is rewritten to say for whom this server asks, and that it is no process of this host: what such a
client holds ends by silence only. All later bytes pass as they are: the node judges each frame for that user, as it judges
those of its own socket.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdall.bus.log import Seldom
from holdall.http.api import Asking
from holdall.http.callers import Caller, peer_of
from holdall.http.place import Place
from holdall.http.problems import Problem, ProblemDetail, respond
from holdall.model import frames
from holdall.model.names import FRAME_BYTES_MAX
from holdall.node.unread import Unread

PATH = "/v1/frames"
UPGRADE = "holdall"
TUNNELS_MAX = 100
TUNNELS_OF_ONE_MAX = 25
"""Of one user, so that others have their share."""
HELLO_SECONDS_MAX = 10.0
PIECE_BYTES = 1 << 16
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: holdall\r\n\r\n"

_BAD = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError)


async def not_upgraded(asking: Asking) -> Response:
    """Whoever asks without `Upgrade`."""
    del asking
    raise Problem("bad-spec", "frames need a connection of their own: Connection: Upgrade, Upgrade: holdall")


class Tunnels:
    """All that are open at this server."""

    def __init__(self, place: Place, tell_unread: Seldom) -> None:
        self._place = place
        self._tell_unread = tell_unread
        self._tasks: dict[asyncio.Task[None], Caller | None] = {}
        """None: who it is has not been looked at."""

    def begin(self, request: Request, transport: asyncio.Transport, rest: bytes) -> None:
        """Take the connection over; `rest` is what came after the request."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=PIECE_BYTES)
        protocol = _Watched(reader)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        reader.feed_data(rest)
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        protocol.unread = Unread(
            transport, self._tell_unread, lambda: {**peer_of(request.scope["client"]), **protocol.whose}
        )
        task = loop.create_task(self._serve(request, reader, writer, protocol))
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def end(self, uid: int, token: str) -> None:
        """End those of a token that is not known any more."""
        for task, caller in self._tasks.items():
            if caller is not None and (caller.uid, caller.via, caller.name) == (uid, "token", token):
                task.cancel()

    def close(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()

    async def _serve(
        self,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        protocol: "_Watched",
    ) -> None:
        try:
            with contextlib.suppress(OSError, EOFError, TimeoutError):
                try:
                    caller = self._caller(request)
                except Problem as problem:
                    writer.write(_refusal(problem.detail))
                    await writer.drain()
                else:
                    protocol.whose = {"user": caller.user, "token": caller.name}
                    await self._join(caller, reader, writer)
        finally:
            writer.close()

    def _caller(self, request: Request) -> Caller:
        caller = self._place.caller(request)
        if caller.via not in {"socket", "token"}:
            raise Problem("unauthorized", "frames need an access token. Make one: holdall token create NAME")
        if "claim" not in caller.may:
            raise Problem(
                "refused",
                "this access token may only look, by the routes of /v1; frames need one that may act",
            )
        of_one = sum(other is not None and other.uid == caller.uid for other in self._tasks.values())
        if len(self._tasks) > TUNNELS_MAX or of_one >= TUNNELS_OF_ONE_MAX:
            text = (
                f"{len(self._tasks) - 1} connections for frames are open, {of_one} of them yours; try again"
            )
            raise Problem("busy", text, retry_after_ms=1000)
        self._place.audit("frames", caller)
        task = asyncio.current_task()
        if task is not None:
            self._tasks[task] = caller
        return caller

    async def _join(self, caller: Caller, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        async with asyncio.timeout(HELLO_SECONDS_MAX):
            hello = await _hello(reader)
            node_reader, node_writer = await asyncio.open_unix_connection(self._place.orders.socket)
        node_writer.write(frames.pack(msgspec.structs.replace(hello, for_uid=caller.uid, pid=0)))
        ways = [
            asyncio.ensure_future(_pass_on(reader, node_writer)),
            asyncio.ensure_future(_pass_on(node_reader, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            node_writer.close()


class _Watched(asyncio.StreamReaderProtocol):
    """A stream whose client has to read."""

    unread: Unread | None = None
    whose: Mapping[str, object] = MappingProxyType({})
    """What the log says of the caller, once he is known."""

    def pause_writing(self) -> None:
        super().pause_writing()
        if self.unread is not None:
            self.unread.pause_writing()

    def resume_writing(self) -> None:
        if self.unread is not None:
            self.unread.resume_writing()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.unread is not None:
            self.unread.connection_lost(exc)
        super().connection_lost(exc)


async def _hello(reader: asyncio.StreamReader) -> frames.Hello:
    size = int.from_bytes(await reader.readexactly(frames.LENGTH_BYTES), "big")
    if size > FRAME_BYTES_MAX:
        raise ConnectionResetError(f"a frame of {size} bytes")
    body = await reader.readexactly(size)
    try:
        hello = frames.read_request(body)
    except _BAD as problem:
        raise ConnectionResetError("no frame") from problem
    if not isinstance(hello, frames.Hello):
        raise ConnectionResetError("the first frame must be a Hello")
    return hello


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(PIECE_BYTES):
            writer.write(data)
            await writer.drain()


def _refusal(detail: ProblemDetail) -> bytes:
    response: Response = respond(detail)

    def lines() -> Iterator[bytes]:
        yield b"HTTP/1.1 %d Refused" % response.status_code
        for name, value in response.raw_headers:
            yield name + b": " + value
        yield b"connection: close"

    return b"\r\n".join(lines()) + b"\r\n\r\n" + bytes(response.body)
