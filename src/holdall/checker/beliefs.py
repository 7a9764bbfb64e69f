"""When each holder believed to hold, and nothing more than that ("Rules", history format).

A belief runs from the receipt of the grant to the first of: the call of the release, the loss that the client
noticed, its crash, the last end of validity it was told. A renewal that comes late leaves a gap.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal, NamedTuple, TypeAlias

from holdall.checker.reading import Line
from holdall.checker.records import FOREVER, Grant, GrantedUnit
from holdall.checker.stories import History, LeaseStory, UnitKey

EndedBy: TypeAlias = Literal["release", "loss", "crash", "validity"]


class Span(NamedTuple):
    """One unbroken belief: from `start` until just before `end`."""

    start: int
    end: int
    ended_by: EndedBy


@dataclass(frozen=True, slots=True)
class Hold:
    """A lease as its holder saw it: units, amounts, and when it believed to hold them."""

    lease: str
    client: str
    asked_at: int | None
    grant: Line[Grant]
    units: dict[UnitKey, int | None]
    """With fences."""
    amounts: dict[str, int]
    """Of pools whose units are only counted."""
    spans: Sequence[Span]

    @property
    def start(self) -> int:
        """When the grant was received."""
        return self.grant.record.at

    @property
    def end(self) -> int:
        """The end of the last belief; `start` where the grant came too late to be believed."""
        return self.spans[-1].end if self.spans else self.start

    def weights(self) -> dict[str, int]:
        """How many units of each pool it holds."""
        weights = dict(self.amounts)
        for pool, _ in self.units:
            weights[pool] = weights.get(pool, 0) + 1
        return weights


def holds_of(history: History) -> list[Hold]:
    """One for each lease of which a grant was recorded."""
    return [_hold_of(history, lease) for lease in history.leases.values() if lease.grants]


def _hold_of(history: History, lease: LeaseStory) -> Hold:
    units: dict[UnitKey, int | None] = {}
    for grant in lease.grants:
        for unit in grant.record.units:
            if unit.unit is not None:
                units.setdefault((unit.pool, unit.unit), unit.fence)
    first = lease.grants[0]
    return Hold(
        lease=lease.lease,
        client=lease.client or "?",
        asked_at=lease.asked_at,
        grant=first,
        units=units,
        amounts=_amounts_of(first.record.units),
        spans=_spans_of(history, lease),
    )


def _amounts_of(units: Sequence[GrantedUnit]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for unit in units:
        if unit.count is not None:
            amounts[unit.pool] = amounts.get(unit.pool, 0) + unit.count
    return amounts


class _What(IntEnum):
    """The order of events of one moment: what is told first, then what ends a belief, then who comes back."""

    GRANTED = 0
    RENEWED = 1
    RELEASED = 2
    LOST = 3
    CRASHED = 4
    RESUMED = 5


class _Event(NamedTuple):
    at: int
    what: _What
    told: int
    """Until when the lease is valid, as far as the event says."""


def _events_of(history: History, lease: LeaseStory) -> list[_Event]:
    events = [_Event(line.record.at, _What.GRANTED, line.record.told) for line in lease.grants]
    events += [
        _Event(line.record.at, _What.RENEWED, line.record.told)
        for line in lease.renewals
        if line.record.ok and lease.rightful(line.record.by)
    ]
    events += [
        _Event(line.record.call, _What.RELEASED, FOREVER)
        for line in lease.releases
        if lease.rightful(line.record.by)
    ]
    events += [_Event(line.record.at, _What.LOST, FOREVER) for line in lease.losses]
    events += [_Event(line.record.at, _What.RESUMED, line.record.told) for line in lease.resumes]
    # Only the first crash after the claim, and after each return, ends a belief.
    alive_since = lease.grants[0].record.at if lease.asked_at is None else lease.asked_at
    for since in (alive_since, *(line.record.at + 1 for line in lease.resumes)):
        crash = history.crash_after(lease.client, since)
        if crash is not None:
            events.append(_Event(crash, _What.CRASHED, FOREVER))
    return sorted(events)


def _spans_of(history: History, lease: LeaseStory) -> list[Span]:
    spans: list[Span] = []
    start: int | None = None
    limit = FOREVER
    over = False  # released, lost or crashed: only a return begins a new belief

    def close(at: int, ended_by: EndedBy) -> None:
        if start is not None and min(at, limit) > start:
            spans.append(Span(start, min(at, limit), ended_by if at <= limit else "validity"))

    for event in _events_of(history, lease):
        match event.what:
            case _What.GRANTED | _What.RENEWED | _What.RESUMED:
                if event.what is _What.RENEWED and start is None:
                    continue
                if over and event.what is not _What.RESUMED:
                    continue
                if start is not None and event.at > limit:
                    close(limit, "validity")
                    start = None
                if start is None:
                    start = event.at
                limit, over = event.told, False
            case _What.RELEASED | _What.LOST | _What.CRASHED:
                close(event.at, _ENDED_BY[event.what])
                start, over = None, True
    close(FOREVER, "validity")
    return spans


_ENDED_BY: dict[_What, EndedBy] = {
    _What.RELEASED: "release",
    _What.LOST: "loss",
    _What.CRASHED: "crash",
}
