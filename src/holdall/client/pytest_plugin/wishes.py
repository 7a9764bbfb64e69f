"""What the marks of a test ask for, read once for all tests before the first one runs."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pytest

from holdall.client.wishes import Duration
from holdall.model.durations import finite_duration, parse_duration
from holdall.model.errors import BadSpec
from holdall.model.frames import Need
from holdall.model.spec import parse_needs

SCOPES = ("test", "session")


class Wish(msgspec.Struct, frozen=True):
    """All needs of one test, or of the session, that are claimed together."""

    needs: tuple[Need, ...]
    wait: Duration | None = None
    """None: as the run says."""
    hold_for: Duration | None = None
    ttl: Duration | None = None
    reason: str = ""


class Marked(msgspec.Struct, frozen=True):
    """One mark."""

    scope: str
    wish: Wish


def read_marks(item: pytest.Item, name: str) -> tuple[Marked, ...]:
    """The marks of a test, its own first, then those of its class and module. Raises UsageError that names the test."""
    try:
        return tuple(read_mark(mark) for mark in item.iter_markers(name))
    except BadSpec as problem:
        raise pytest.UsageError(f"{item.nodeid}: {problem}") from problem


def joined(wishes: Sequence[Wish]) -> Wish | None:
    """One claim of several marks: the needs of all; the first mark that says something of the rest counts."""
    if not wishes:
        return None

    def first(values: Iterable[Any]) -> Any:
        return next((value for value in values if value not in {None, ""}), None)

    return Wish(
        needs=parse_needs(need for wish in wishes for need in wish.needs),
        wait=first(wish.wait for wish in wishes),
        hold_for=first(wish.hold_for for wish in wishes),
        ttl=first(wish.ttl for wish in wishes),
        reason=first(wish.reason for wish in wishes) or "",
    )


def session_wish(wishes: Iterable[Wish]) -> Wish | None:
    """What all tests together want of the session: the same mark on many tests is one wish, not many."""
    different: list[Wish] = []
    for wish in wishes:
        if wish not in different:
            different.append(wish)
    return joined(different)


def read_mark(mark: pytest.Mark) -> Marked:
    """What one mark says. Raises BadSpec."""
    known = {"wait", "hold_for", "ttl", "reason", "scope"}
    unknown = sorted(mark.kwargs.keys() - known)
    if unknown:
        raise BadSpec(f"the mark {mark.name} has no {unknown[0]}=. It has: {', '.join(sorted(known))}")
    scope = mark.kwargs.get("scope", "test")
    if scope not in SCOPES:
        raise BadSpec(f"the mark {mark.name} has scope={scope!r}. Write one of: {', '.join(SCOPES)}")
    if not mark.args:
        raise BadSpec(
            f'the mark {mark.name} says nothing that is needed. Write for instance {mark.name}("psu:1")'
        )
    reason = mark.kwargs.get("reason") or ""
    if not isinstance(reason, str):
        raise BadSpec(f"the mark {mark.name} has reason={reason!r}, which is no text")
    wait, ttl, hold_for = (mark.kwargs.get(key) for key in ("wait", "ttl", "hold_for"))
    if wait is not None:
        parse_duration(wait, what="wait")
    if ttl is not None:
        finite_duration(ttl, what="ttl")
    if hold_for is not None:
        parse_duration(hold_for, what="hold_for")
    needs = tuple(_need(mark.name, spec) for spec in mark.args)
    return Marked(
        scope=scope, wish=Wish(needs=parse_needs(needs), wait=wait, hold_for=hold_for, ttl=ttl, reason=reason)
    )


def _need(name: str, spec: object) -> str | Need:
    if not isinstance(spec, (str, Need)):
        raise BadSpec(
            f'the mark {name} has {spec!r} among its needs. A need is text such as "psu:2", or holdall.any_of(…)'
        )
    return spec
