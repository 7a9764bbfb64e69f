"""The live stream's lines: it goes on for those alone who would be let in again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from holdall.http import streaming
from holdall.http.mirror import Event

WITHIN_S = 30


async def happening() -> AsyncIterator[Event]:
    """Always something new."""
    number = 0
    while True:
        await asyncio.sleep(0)
        number += 1
        yield Event("change", b"{}", str(number))


async def nothing() -> AsyncIterator[Event]:
    await asyncio.Event().wait()
    yield Event("change", b"{}")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_stream_ends_soon_after_its_token_was_ended_whether_something_happens_or_not(
    monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    monkeypatch.setattr(streaming, "STILL_HERE_S", 0.01)
    answers = [True, True, False]
    ended: list[bool] = []

    async def stream() -> AsyncIterator[Event]:
        try:
            async for event in nothing() if quiet else happening():
                yield event
        finally:
            ended.append(True)

    async def heard() -> list[bytes]:
        async with asyncio.timeout(WITHIN_S):
            return [
                line
                async for line in streaming.lines_of(
                    [Event("snapshot", b"[]", "0")], stream(), lambda: answers.pop(0)
                )
            ]

    lines = asyncio.run(heard())
    assert lines[:2] == [b"retry: 1000\n\n", b"event: snapshot\nid: 0\ndata: []\n\n"]
    assert answers == []
    assert ended == [True]
    # Of a stream in which nothing happens there is a sign of life for each look but the last.
    assert {*lines[2:]} == {b": still here\n\n"} if quiet else len(lines) > 2
