"""`/healthz` on a unix socket, for the HTTP server in front: whether this node serves. Nothing else is answered there."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from holdall.node.sockets import bind

_HEAD_BYTES_MAX = 8192
_WITHIN_S = 5.0
_CONNECTIONS_MAX = 64

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
}


class Health:
    """A minimal HTTP server. `state` gives what to tell; its key `ok` decides between 200 and 503."""

    def __init__(self, state: Callable[[], Mapping[str, object]]) -> None:
        self._state = state
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._path: Path | None = None

    async def listen(self, path: Path) -> None:
        """Open the socket. Raises BadConfig when another node answers on it."""
        listener = bind(path, mode=0o600)
        self._path = path
        self._server = await asyncio.start_unix_server(
            self._accept, sock=listener, limit=_HEAD_BYTES_MAX, backlog=16
        )

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= _CONNECTIONS_MAX:
            writer.close()
            return
        task = asyncio.get_running_loop().create_task(self._answer(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_WITHIN_S):
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                    writer.write(_response(400, {"error": "bad request"}))
                else:
                    writer.write(self.respond(head))
                await writer.drain()
        except (TimeoutError, OSError):
            pass
        finally:
            writer.close()

    def respond(self, head: bytes) -> bytes:
        """The whole answer to one request's head."""
        line = head.partition(b"\r\n")[0].split()
        if len(line) != 3 or not line[2].startswith(b"HTTP/1."):
            return _response(400, {"error": "bad request"})
        method, target = line[0], line[1].partition(b"?")[0]
        if target != b"/healthz":
            return _response(404, {"error": "only /healthz is served here"})
        if method not in {b"GET", b"HEAD"}:
            return _response(405, {"error": "only GET"}, allow=True)
        state = dict(self._state())
        status = 200 if state.get("ok") else 503
        return _response(status, state, body=method == b"GET")


def _response(status: int, value: Mapping[str, object], *, body: bool = True, allow: bool = False) -> bytes:
    data = msgspec.json.encode({"v": 1, **value}) + b"\n"
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\nCache-Control: no-store\r\n"
        + ("Allow: GET, HEAD\r\n" if allow else "")
        + "Connection: close\r\n\r\n"
    )
    return head.encode() + (data if body else b"")
