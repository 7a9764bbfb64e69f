"""The process: orders from standard input, sockets that the node has opened, and a loop until the node ends."""

import asyncio
import os
import socket
import ssl
import struct
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from uvicorn.protocols.http.h11_impl import H11Protocol

from holdall.bus.log import Seldom
from holdall.http.api import Route, serve
from holdall.http.callers import UNIX, peer_of
from holdall.http.log import make_log
from holdall.http.pages import HEADERS
from holdall.http.place import Place
from holdall.http.problems import detail_of, respond
from holdall.http.spans import Spans, spans_of
from holdall.http.table import BESIDE, V1
from holdall.http.tunnel import PATH, UPGRADE, Tunnels
from holdall.model import frames
from holdall.node.front import FrontOrders
from holdall.node.http_settings import HttpSettings
from holdall.node.unread import Unread

ORDERS_BYTES_MAX = 1 << 20
CONNECTIONS_MAX = 1000
KEEP_ALIVE_S = 30
HEAD_WITHIN_S = 30.0
"""Who has not sent the head of a request by then is no client: so many connections there are, and all others need them."""
HEAD_BYTES_MAX = 32 * 1024
END_WITHIN_S = 2


def main() -> int:
    """Serve until standard input ends, which is when the node has."""
    line = sys.stdin.buffer.readline(ORDERS_BYTES_MAX)
    if not line.endswith(b"\n"):
        sys.stderr.write("holdall.http is started by a node, which tells it what to do: holdall serve\n")
        return 64
    orders = msgspec.json.decode(line, type=FrontOrders)
    asyncio.run(_serve(orders))
    return 0


async def _serve(orders: FrontOrders) -> None:
    place = Place(orders, make_log())
    app = application(place)
    listening = _listening(app, orders)
    servers = [server for server, _ in listening]
    loop = asyncio.get_running_loop()
    os.set_blocking(sys.stdin.fileno(), False)
    loop.add_reader(sys.stdin.fileno(), _perhaps_over, servers)
    spans = spans_of(orders.node)
    if isinstance(spans, str):
        place.log("no spans", level="warning", why=spans)
    counting = loop.create_task(place.meters.watch(spans.row if isinstance(spans, Spans) else _unheard))
    try:
        tasks = [loop.create_task(server.serve([one])) for server, one in listening]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        _end(servers)
        await asyncio.gather(*tasks)
    finally:
        counting.cancel()
        app.state.tunnels.close()
        place.close()


def _listening(app: Starlette, orders: FrontOrders) -> list[tuple[uvicorn.Server, socket.socket]]:
    """Over TCP with TLS where there is a certificate; on the unix socket never, which no network reads."""
    secure, plain = orders.http, HttpSettings()
    sockets = [(orders.tcp, secure), (orders.unix, plain)]
    return [
        (uvicorn.Server(configuration(app, http)), socket.socket(fileno=number))
        for number, http in sockets
        if number is not None
    ]


def configuration(app: Starlette, http: HttpSettings) -> uvicorn.Config:
    """How uvicorn serves; with a certificate by TLS 1.3 and nothing older."""
    made = uvicorn.Config(
        app,
        http=Peer,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=END_WITHIN_S,
        h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        ssl_certfile=http.certificate,
        ssl_keyfile=http.key,
    )
    made.load()
    if made.ssl is not None:
        made.ssl.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def application(place: Place) -> Starlette:
    """All routes, each answered by `api.serve`."""
    app = Starlette(
        routes=[_route(route, place) for route in (*V1, *BESIDE)],
        exception_handlers={HTTPException: _http_problem, 404: _http_problem, 405: _http_problem},
    )
    app.router.redirect_slashes = False
    app.state.tell_unread = Seldom(partial(place.log, level="warning"))
    app.state.tunnels = Tunnels(place, app.state.tell_unread)
    return app


def _route(route: Route, place: Place) -> StarletteRoute:
    async def endpoint(request: Request) -> Response:
        response = await serve(route, place, request)
        place.meters.requests.labels(f"{route.method} {route.path}", str(response.status_code)).inc()
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    return StarletteRoute(route.path, endpoint, methods=[route.method])


async def _http_problem(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == 405:
        response = respond(
            detail_of(
                "method", f"{request.method} is not for {request.url.path[:200]}. See: /v1/openapi.json"
            )
        )
        if isinstance(error, HTTPException) and error.headers:
            response.headers.update(error.headers)
    else:
        response = respond(
            detail_of("not-found", f"nothing is at {request.url.path[:200]}. See: /v1/openapi.json")
        )
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


class Peer(H11Protocol):
    """Of a unix socket the kernel says who connects; the routes see it as the client's address.

    uvicorn itself waits for ever for the first request of a connection, for the rest of a head that has begun, and for
    whoever does not read his answer.
    """

    _head_due: asyncio.TimerHandle | None = None
    _unread: Unread

    def _should_upgrade(self) -> bool:
        """To frames only, which have a path of their own. It is asked of each head."""
        self._head_is_there()
        return self._get_upgrade() == UPGRADE.encode() and self.scope["path"] == PATH

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Called when `_should_upgrade` says so: from now on the connection is the tunnel's."""
        del event
        self.connections.discard(self)
        self._unread.stop()
        app = cast("Starlette", self.config.app)
        tunnels = cast("Tunnels", app.state.tunnels)
        tunnels.begin(Request(dict(self.scope)), self.transport, self.conn.trailing_data[0])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = cast("socket.socket", transport.get_extra_info("socket"))
        if peer.family == socket.AF_UNIX:
            credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            _, uid, _ = struct.unpack("3i", credentials)
            self.client: Any = (f"{UNIX}{uid}", 0)
        app = cast("Starlette", self.config.app)
        self._unread = Unread(transport, app.state.tell_unread, lambda: peer_of(self.client))
        self._await_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread.pause_writing()

    def resume_writing(self) -> None:
        self._unread.resume_writing()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_answered = getattr(self.cycle, "response_complete", True)  # there is none before the first
        if is_answered and self._head_due is None and self in self.connections:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        self._unread.connection_lost(exc)
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._head_due = self.loop.call_later(HEAD_WITHIN_S, self.transport.abort)

    def _head_is_there(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None


def _unheard(row: frames.LogRow) -> None:
    del row


def _end(servers: Sequence[uvicorn.Server]) -> None:
    for server in servers:
        server.should_exit = True


def _perhaps_over(servers: Sequence[uvicorn.Server]) -> None:
    """Nothing more is said on standard input; its end is ours."""
    if not os.read(sys.stdin.fileno(), 1 << 16):
        _end(servers)
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
