"""How much this server keeps for its clients: what is open at once, and for how long what has ended is still told."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from holdall.http.problems import Problem

OPEN_MAX = 1000
OPEN_OF_USER_MAX = 100
KEPT_AFTER_END_MS = 600_000
KEPT_ENDED_MAX = 2000

Key = TypeVar("Key", bound=Hashable)


def refuse_more(open_of: Iterable[int], uid: int, what: str) -> None:
    """`open_of`: whose each is that is open. Raises Problem where one more of this user would be too many."""
    found = list(open_of)
    if len(found) >= OPEN_MAX or found.count(uid) >= OPEN_OF_USER_MAX:
        raise Problem("busy", f"too many {what} are open here. End some, or try again", retry_after_ms=1000)


def outlived(ended: Mapping[Key, int], now_ms: int) -> list[Key]:
    """Of what has ended, by when: what is told no more, which is what is old, and the oldest of too many."""
    by_age = sorted(ended, key=lambda key: ended[key])
    too_many = max(0, len(by_age) - KEPT_ENDED_MAX)
    return by_age[:too_many] + [key for key in by_age[too_many:] if ended[key] + KEPT_AFTER_END_MS < now_ms]
