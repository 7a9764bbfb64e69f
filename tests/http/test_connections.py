"""Connections to the HTTP server: who says nothing, or half of a head, or does not read, is not waited for; who was heard is."""

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from node.waiting import until_async
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn import Server

from holdall.bus.log import Seldom
from holdall.http import server
from holdall.node import unread
from holdall.node.http_settings import HttpSettings
from holdall.node.sockets import user_name

WITHIN_S = 30
HEAD_WITHIN_S = 0.2
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
MUCH = b"GET /much HTTP/1.1\r\nHost: localhost\r\n\r\n"
MUCH_BYTES = 8 << 20
ENDED_UNREAD = "a client does not read its answers; its connection is ended"
Said = list[dict[str, object]]


async def late(request: Request) -> Response:
    del request
    await asyncio.sleep(3 * HEAD_WITHIN_S)
    return PlainTextResponse("late")


async def much(request: Request) -> Response:
    del request
    return PlainTextResponse("x" * MUCH_BYTES)


class Tunnels:
    """Answers each byte of a connection that was handed over."""

    def begin(self, request: Request, transport: asyncio.Transport, rest: bytes) -> None:
        del request, rest
        transport.set_protocol(Echo(transport))


class Echo(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


@contextlib.asynccontextmanager
async def serving(listener: socket.socket) -> AsyncGenerator[tuple[Server, Said]]:
    said: Said = []
    app = Starlette(routes=[Route("/", late), Route("/much", much)])
    app.state.tunnels = Tunnels()

    def say(event: str, **values: object) -> None:
        said.append({"event": event, **values})

    app.state.tell_unread = Seldom(say)
    with listener:
        made = Server(server.configuration(app, HttpSettings()))
        task = asyncio.create_task(made.serve([listener]))
        async with asyncio.timeout(WITHIN_S):
            yield made, said
        made.should_exit = True
        await task


@contextlib.asynccontextmanager
async def connected() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    listener = socket.create_server(("127.0.0.1", 0))
    address = listener.getsockname()
    async with serving(listener):
        reader, writer = await asyncio.open_connection(*address)
        yield reader, writer
        writer.close()


@pytest.mark.parametrize("said", [b"", GET[:20]], ids=["nothing", "half"])
def test_without_a_head_a_connection_ends(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", HEAD_WITHIN_S)

    async def course() -> None:
        async with connected() as (reader, writer):
            writer.write(said)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

    asyncio.run(course())


def test_an_answer_may_take_longer_and_the_next_head_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", HEAD_WITHIN_S)

    async def course() -> None:
        async with connected() as (reader, writer):
            for _ in range(2):
                writer.write(GET)
                assert (await reader.readuntil(b"late")).startswith(b"HTTP/1.1 200")
            writer.write(GET[:20])
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""

    asyncio.run(course())


def test_a_connection_that_was_handed_over_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_WITHIN_S", HEAD_WITHIN_S)

    async def course() -> None:
        async with connected() as (reader, writer):
            writer.write(
                b"GET /v1/frames HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: holdall\r\n\r\n"
            )
            await asyncio.sleep(3 * HEAD_WITHIN_S)
            writer.write(b"there?")
            assert await reader.readexactly(6) == b"there?"

    asyncio.run(course())


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX], ids=["tcp", "unix"])
def test_who_does_not_read_is_cut_off_and_the_log_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, family: socket.AddressFamily
) -> None:
    monkeypatch.setattr(unread, "UNREAD_WITHIN_S", 1)
    listener = socket.socket(family)
    listener.bind(("127.0.0.1", 0) if family is socket.AF_INET else str(tmp_path / "http.sock"))
    listener.listen()

    async def course() -> tuple[Said, dict[str, object]]:
        async with serving(listener) as (made, said):
            with socket.socket(family) as client:
                client.connect(listener.getsockname())
                # The second one is asked for while the first is not read.
                client.sendall(MUCH + MUCH)
                await until_async(lambda: said, "it is said")
                await until_async(lambda: not made.server_state.connections, "it is over")
                if family is socket.AF_UNIX:
                    return said, {"user": user_name(os.getuid())}
                host, port = client.getsockname()
                return said, {"peer": f"{host}:{port}"}

    (line,), who = asyncio.run(course())
    why = str(line.pop("why"))
    assert why.startswith("it has taken nothing for 1 s")
    assert line == {"event": ENDED_UNREAD, **who}


def test_a_long_answer_is_read_to_its_end(tmp_path: Path) -> None:
    path = str(tmp_path / "http.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    async def course() -> tuple[Said, int]:
        async with serving(listener) as (_, said):
            reader, writer = await asyncio.open_unix_connection(path, limit=1 << 16)
            writer.write(MUCH)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            got = len(await reader.readexactly(MUCH_BYTES))
            writer.close()
            return said, got

    assert asyncio.run(course()) == ([], MUCH_BYTES)
