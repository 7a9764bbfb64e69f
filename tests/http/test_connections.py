"""Connections to the HTTP server: who says nothing, or half of a head, is not waited for; who was heard is."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn import Server

from holdall.http import server
from holdall.node.http_settings import HttpSettings

WITHIN_S = 30
HEAD_WITHIN_S = 0.2
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def late(request: Request) -> Response:
    del request
    await asyncio.sleep(3 * HEAD_WITHIN_S)
    return PlainTextResponse("late")


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
async def connected() -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    app = Starlette(routes=[Route("/", late)])
    app.state.tunnels = Tunnels()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = Server(server.configuration(app, HttpSettings()))
        task = asyncio.create_task(serving.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        async with asyncio.timeout(WITHIN_S):
            yield reader, writer
        writer.close()
        serving.should_exit = True
        await task


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
