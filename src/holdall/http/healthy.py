"""`/healthz`: what the node itself says over its health socket, passed on."""

import asyncio

import msgspec
from starlette.responses import Response

from holdall.http.api import JSON, Asking
from holdall.http.problems import Problem

WITHIN_S = 5.0
BYTES_MAX = 64 * 1024


async def healthz(asking: Asking) -> Response:
    """200 when the node serves, else 503; the body says more."""
    try:
        async with asyncio.timeout(WITHIN_S):
            head, body = await ask_health(asking.place.orders.health)
    except (OSError, TimeoutError, EOFError):
        raise Problem("unreachable", "the node does not answer") from None
    status = int(head.split(b" ", 2)[1])
    # Figures are for those who may look, who get them as metrics.
    told = {
        name: value
        for name, value in msgspec.json.decode(body, type=dict[str, object]).items()
        if name != "figures"
    }
    body = msgspec.json.encode(told) + b"\n"
    return Response(body, status, {"Cache-Control": "no-store"}, JSON)


async def ask_health(path: str) -> tuple[bytes, bytes]:
    """Head and body of the node's own answer."""
    reader, writer = await asyncio.open_unix_connection(path, limit=BYTES_MAX)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        return head, await reader.read(BYTES_MAX)
    finally:
        writer.close()
