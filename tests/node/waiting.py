"""Waiting in tests: for a condition, with a bound, never for a time."""

import asyncio
import time
from collections.abc import Callable

WITHIN_S = 30.0
_PAUSE_S = 0.02


async def until_async(condition: Callable[[], object], what: str) -> None:
    """Return when `condition` holds; fail after half a minute."""
    end = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < end, f"not within {WITHIN_S:g} s: {what}"
        await asyncio.sleep(_PAUSE_S)


def until(condition: Callable[[], object], what: str, *, within_s: float = WITHIN_S) -> None:
    """Return when `condition` holds; fail after half a minute, or what else is said."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"not within {within_s:g} s: {what}"
        time.sleep(_PAUSE_S)
