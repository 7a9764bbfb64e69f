"""The live stream as server-sent events."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable

from starlette.responses import Response, StreamingResponse

from holdall.http import request_words
from holdall.http.api import Asking
from holdall.http.mirror import LISTENERS_MAX, Event, Full
from holdall.http.problems import Problem

STILL_HERE_S = 15.0


async def events(asking: Asking) -> Response:
    """A snapshot, then changes, without end."""
    query: request_words.EventsQuery = asking.query
    mirror = asking.place.mirror
    last = asking.request.headers.get("last-event-id", "") or query.last
    stream = mirror.events(last)
    try:
        first = [await anext(stream)] if not mirror.knows(last) else []
    except Full:
        raise Problem(
            "busy", f"{LISTENERS_MAX} streams are open; at most so many", retry_after_ms=5000
        ) from None
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    lines = lines_of(first, stream, lambda: _may_still(asking))
    return StreamingResponse(lines, 200, headers, "text/event-stream")


def _may_still(asking: Asking) -> bool:
    """Whether the same request would be let in now: its token may have been ended, its log-in be over."""
    try:
        return "see" in asking.place.caller(asking.request).may
    except Problem:
        return False


async def lines_of(
    first: list[Event], stream: AsyncIterator[Event], may_still: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Events as lines; a comment when nothing has happened for a while. Ends soon after the listener may listen no more."""
    looked_s = time.monotonic()
    yield b"retry: 1000\n\n"
    for event in first:
        yield _line(event)
    waiting: asyncio.Future[Event] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(stream))
            done, _ = await asyncio.wait([waiting], timeout=STILL_HERE_S)
            if time.monotonic() - looked_s >= STILL_HERE_S:
                if not may_still():
                    return
                looked_s = time.monotonic()
            if not done:
                yield b": still here\n\n"
                continue
            try:
                event = waiting.result()
            except (StopAsyncIteration, Full):
                return
            waiting = None
            yield _line(event)
    finally:
        if waiting is not None:
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await waiting
        await stream.aclose()  # type: ignore[attr-defined]


def _line(event: Event) -> bytes:
    name = f"id: {event.id}\n" if event.id else ""
    return f"event: {event.name}\n{name}data: ".encode() + event.data + b"\n\n"
