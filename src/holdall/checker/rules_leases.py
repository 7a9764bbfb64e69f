"""Judges what was done to each lease: `foreign-op`, `renewed-after-release`, `unsafe-deadline`."""

from collections.abc import Iterator
from typing import NamedTuple

from holdall.checker.reading import Line, Place
from holdall.checker.records import FOREVER, Duration, Grant, Release, Renew, nanoseconds
from holdall.checker.stories import History, LeaseStory
from holdall.checker.verdict import Violation


def judge_leases(history: History) -> Iterator[Violation]:
    """All violations of the three rules."""
    for lease in history.leases.values():
        yield from _foreign(history, lease)
        yield from _after_release(history, lease)
        for deadline in deadlines_of(lease):
            if not deadline.is_safe:
                yield _unsafe(history, lease, deadline)


def _foreign(history: History, lease: LeaseStory) -> Iterator[Violation]:
    done: list[tuple[int, str, str | None, Place]] = [
        (line.record.at, "renewal", line.record.by, line.place) for line in lease.renewals if line.record.ok
    ]
    done += [
        (
            line.record.call if line.record.at is None else line.record.at,
            "release",
            line.record.by,
            line.place,
        )
        for line in lease.releases
        if line.record.ok
    ]
    for at, what, by, place in done:
        if not lease.rightful(by):
            yield Violation(
                rule="foreign-op",
                at=at,
                text=f"lease {lease.lease} of {lease.client}: a {what} by {by} was accepted at {history.when(at)}",
                lines=(str(place), *(str(line.place) for line in lease.grants[:1])),
            )


def _after_release(history: History, lease: LeaseStory) -> Iterator[Violation]:
    """A renewal that was sent after the acknowledgement of a release, or a return to the lease after it."""
    ended: Line[Release] | None = None
    ended_at = FOREVER
    for line in lease.releases:
        if line.record.ok and line.record.at is not None and line.record.at < ended_at:
            ended, ended_at = line, line.record.at
    if ended is None:
        return
    lived_on: list[tuple[int, int, str, Place]] = [
        (
            line.record.at if line.record.call is None else line.record.call,
            line.record.at,
            "renewed",
            line.place,
        )
        for line in lease.renewals
        if line.record.ok
    ]
    lived_on += [(line.record.at, line.record.at, "still held", line.place) for line in lease.resumes]
    for sent, at, what, place in lived_on:
        if sent > ended_at + history.tolerance:
            yield Violation(
                rule="renewed-after-release",
                at=at,
                text=(
                    f"lease {lease.lease} of {lease.client} was {what} at {history.when(at)}, asked at "
                    f"{history.when(sent)}; its release was acknowledged at {history.when(ended_at)}"
                ),
                lines=(str(ended.place), str(place)),
            )


class Deadline(NamedTuple):
    """An end of validity that a client was told; `safe_until` is call + ttl, None where one of them is missing."""

    at: int
    told: int
    safe_until: int | None
    place: Place

    @property
    def is_safe(self) -> bool:
        """Not shown to be unsafe."""
        return self.safe_until is None or self.told <= self.safe_until


def deadlines_of(lease: LeaseStory) -> Iterator[Deadline]:
    """Of the grants and the accepted renewals of a lease, one each."""
    answers: list[Line[Grant] | Line[Renew]] = [*lease.grants]
    answers += [line for line in lease.renewals if line.record.ok]
    for line in answers:
        record = line.record
        yield Deadline(record.at, record.told, _safe_until(record.call, record.ttl), line.place)


def _safe_until(call: int | None, ttl: Duration | None) -> int | None:
    return None if call is None or ttl is None else call + nanoseconds(ttl)


def _unsafe(history: History, lease: LeaseStory, deadline: Deadline) -> Violation:
    safe = deadline.safe_until or 0
    return Violation(
        rule="unsafe-deadline",
        at=deadline.at,
        text=(
            f"lease {lease.lease} of {lease.client}: told at {history.when(deadline.at)} that it is valid until "
            f"{history.when(deadline.told)}, but its call plus its ttl is {history.when(safe)}"
        ),
        lines=(str(deadline.place),),
    )
