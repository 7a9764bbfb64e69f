"""Puts the lines of a history together: what became of each claim, what each lease went through.

Lines come in any order; every list here is sorted by time. No rule is judged here.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, assert_never

from holdall.checker.reading import Line, Place, Reading
from holdall.checker.records import (
    FOREVER,
    AnyRecord,
    Audit,
    Claim,
    Crash,
    End,
    Fail,
    Fault,
    Grant,
    Lost,
    PoolSize,
    Queued,
    Release,
    Renew,
    Resume,
    Setup,
    Use,
    nanoseconds,
)

Outcome: TypeAlias = Literal["granted", "failed", "crashed", "open"]
UnitKey: TypeAlias = tuple[str, str]
"""(pool, unit)"""


@dataclass(slots=True)
class ClaimStory:
    """Everything said about one claim id. `asked` has one line, unless the id was used twice or nobody asked."""

    claim: str
    asked: list[Line[Claim]] = field(default_factory=list[Line[Claim]])
    queued: list[Line[Queued]] = field(default_factory=list[Line[Queued]])
    grants: list[Line[Grant]] = field(default_factory=list[Line[Grant]])
    fails: list[Line[Fail]] = field(default_factory=list[Line[Fail]])


@dataclass(slots=True)
class LeaseStory:
    """Everything said about one lease id."""

    lease: str
    grants: list[Line[Grant]] = field(default_factory=list[Line[Grant]])
    renewals: list[Line[Renew]] = field(default_factory=list[Line[Renew]])
    resumes: list[Line[Resume]] = field(default_factory=list[Line[Resume]])
    releases: list[Line[Release]] = field(default_factory=list[Line[Release]])
    losses: list[Line[Lost]] = field(default_factory=list[Line[Lost]])
    client: str | None = None
    """Whose it is; None when its claim is missing."""
    asked_at: int | None = None

    def rightful(self, by: str | None) -> bool:
        """May `by` renew and release it? A line without `by` was said by the holder."""
        if by is None or self.client is None or by == self.client:
            return True
        return any(by in grant.record.delegates for grant in self.grants)


@dataclass(frozen=True, slots=True)
class Wait:
    """How long a claim waited and how that ended; `until` is the end of the history for an open one."""

    asked: Line[Claim]
    queued: Sequence[Line[Queued]]
    until: int
    outcome: Outcome
    pauses: Sequence[int]
    """Starts of the excused faults that hit its client alone: a paused client hears late, and may lose its place."""
    lease: str | None
    """Which lease it was granted, if it was."""
    is_certain: bool
    """False: it failed or crashed and may have been granted all the same."""

    @property
    def claim(self) -> str:
        """The claim's id."""
        return self.asked.record.claim

    @property
    def since(self) -> int:
        """When it was asked."""
        return self.asked.record.at

    def undisturbed_from(self, at: int) -> int:
        """The first pause of its client from `at` on, else `until`."""
        index = bisect_left(self.pauses, at)
        return min(self.pauses[index], self.until) if index < len(self.pauses) else self.until

    def last_pause(self) -> int:
        """The last pause of its client in the wait, else `until`."""
        index = bisect_right(self.pauses, self.until) - 1
        return self.pauses[index] if index >= 0 and self.pauses[index] >= self.since else self.until


@dataclass(slots=True)
class History:
    """A whole history, sorted. Times in nanoseconds; `tolerance` is twice the error of the clocks."""

    files: int = 0
    lines: int = 0
    torn: int = 0
    setups: list[Line[Setup]] = field(default_factory=list[Line[Setup]])
    ends: list[Line[End]] = field(default_factory=list[Line[End]])
    claims: dict[str, ClaimStory] = field(default_factory=dict[str, ClaimStory])
    leases: dict[str, LeaseStory] = field(default_factory=dict[str, LeaseStory])
    crashes: list[Line[Crash]] = field(default_factory=list[Line[Crash]])
    crashes_of: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    pauses_of: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """Starts of the excused faults that hit one client alone."""
    uses: list[Line[Use]] = field(default_factory=list[Line[Use]])
    audits: list[Line[Audit]] = field(default_factory=list[Line[Audit]])
    faults: list[Line[Fault]] = field(default_factory=list[Line[Fault]])
    units: frozenset[UnitKey] = frozenset()
    """All units that have names."""
    first: int = 0
    horizon: int = 0
    """The last stamp of all lines."""

    @property
    def pools(self) -> dict[str, PoolSize]:
        """What exists; empty without a `meta` line."""
        return self.setups[0].record.pools if self.setups else {}

    @property
    def tolerance(self) -> int:
        """Overlaps and orders up to this long are no evidence."""
        return 2 * nanoseconds(self.setups[0].record.eps) if self.setups else 0

    @property
    def end_at(self) -> int | None:
        """When the driver said that every claim had had its time."""
        return self.ends[0].record.at if self.ends else None

    def exists(self, pool: str, unit: str | None) -> bool:
        """Is there such a unit; for None: is it a pool whose units are only counted. There any name will do."""
        size = self.pools.get(pool)
        if size is None:
            return False
        return size.units is None or (unit is not None and (pool, unit) in self.units)

    def crash_after(self, client: str | None, at: int) -> int | None:
        """The first crash of the client at or after `at`."""
        crashes = self.crashes_of.get(client, []) if client is not None else []
        index = bisect_left(crashes, at)
        return crashes[index] if index < len(crashes) else None

    def grants(self) -> Iterator[Line[Grant]]:
        """Every grant, claim by claim."""
        for story in self.claims.values():
            yield from story.grants

    def waits(self) -> Iterator[Wait]:
        """One for each claim that was asked."""
        for story in self.claims.values():
            if story.asked:
                yield self._wait_of(story)

    def _wait_of(self, story: ClaimStory) -> Wait:
        asked = story.asked[0]
        since = asked.record.at
        end = self.horizon if self.end_at is None else max(self.end_at, since)
        ends: list[tuple[int, int, Outcome]] = [(FOREVER, 3, "open")]
        if story.grants:
            ends.append((story.grants[0].record.at, 0, "granted"))
        if story.fails:
            ends.append((story.fails[0].record.at, 1, "failed"))
        crash = self.crash_after(asked.record.client, since)
        if crash is not None:
            ends.append((crash, 2, "crashed"))
        until, _, outcome = min(ends)
        until = end if outcome == "open" else until
        return Wait(
            asked=asked,
            queued=story.queued,
            until=until,
            outcome=outcome,
            pauses=self.pauses_of.get(asked.record.client, ()),
            lease=story.grants[0].record.lease_id if outcome == "granted" else None,
            is_certain=outcome in {"granted", "open"}
            or (outcome == "failed" and story.fails[0].record.definite),
        )

    def when(self, at: int) -> str:
        """A stamp for people: seconds since the first line."""
        if at >= FOREVER:
            return "for ever"
        return f"{(at - self.first) / 1e9:.6f} s"


def put_together(reading: Reading) -> History:
    """Sort and group the lines."""
    history = History(files=reading.files, lines=len(reading.lines), torn=reading.torn)
    stamps: list[int] = []
    for line in reading.lines:
        stamps.extend(_file_line(history, line.record, line.place))
    history.first, history.horizon = min(stamps, default=0), max(stamps, default=0)
    _sort(history)
    history.units = frozenset(
        (pool, unit) for pool, size in history.pools.items() for unit in size.units or ()
    )
    for lease in history.leases.values():
        if lease.grants:
            story = history.claims[lease.grants[0].record.claim]
            if story.asked:
                lease.client = story.asked[0].record.client
                lease.asked_at = story.asked[0].record.at
    for crash in history.crashes:
        history.crashes_of.setdefault(crash.record.client, []).append(crash.record.at)
    for fault in history.faults:
        if fault.record.excuse and fault.record.client is not None:
            history.pauses_of.setdefault(fault.record.client, []).append(fault.record.start)
    return history


def _claim(history: History, claim: str) -> ClaimStory:
    return history.claims.setdefault(claim, ClaimStory(claim))


def _lease(history: History, lease: str) -> LeaseStory:
    return history.leases.setdefault(lease, LeaseStory(lease))


def _file_line(history: History, record: AnyRecord, place: Place) -> tuple[int, ...]:
    """Puts the line where it belongs; returns its stamps."""
    match record:
        case Setup():
            history.setups.append(Line(record, place))
            return ()
        case Claim():
            _claim(history, record.claim).asked.append(Line(record, place))
        case Queued():
            _claim(history, record.claim).queued.append(Line(record, place))
        case Grant():
            _claim(history, record.claim).grants.append(Line(record, place))
            _lease(history, record.lease_id).grants.append(Line(record, place))
        case Fail():
            _claim(history, record.claim).fails.append(Line(record, place))
        case Renew():
            _lease(history, record.lease).renewals.append(Line(record, place))
        case Resume():
            _lease(history, record.lease).resumes.append(Line(record, place))
        case Release():
            _lease(history, record.lease).releases.append(Line(record, place))
            return (record.call,) if record.at is None else (record.call, record.at)
        case Lost():
            _lease(history, record.lease).losses.append(Line(record, place))
        case Crash():
            history.crashes.append(Line(record, place))
        case Audit():
            history.audits.append(Line(record, place))
        case End():
            history.ends.append(Line(record, place))
        case Use():
            history.uses.append(Line(record, place))
            return (record.start,) if record.end is None else (record.start, record.end)
        case Fault():
            history.faults.append(Line(record, place))
            return (record.start,) if record.end is None else (record.start, record.end)
        case _:
            assert_never(record)
    return (record.at,)


def _sort(history: History) -> None:
    """By time; lines of one moment in the order of their files, so that a verdict never depends on luck."""
    for claim in history.claims.values():
        claim.asked.sort(key=lambda line: (line.record.at, line.place))
        claim.queued.sort(key=lambda line: (line.record.at, line.place))
        claim.grants.sort(key=lambda line: (line.record.at, line.place))
        claim.fails.sort(key=lambda line: (line.record.at, line.place))
    for lease in history.leases.values():
        lease.grants.sort(key=lambda line: (line.record.at, line.place))
        lease.renewals.sort(key=lambda line: (line.record.at, line.place))
        lease.resumes.sort(key=lambda line: (line.record.at, line.place))
        lease.releases.sort(key=lambda line: (line.record.call, line.place))
        lease.losses.sort(key=lambda line: (line.record.at, line.place))
    history.crashes.sort(key=lambda line: (line.record.at, line.place))
    history.uses.sort(key=lambda line: (line.record.start, line.place))
    history.audits.sort(key=lambda line: (line.record.at, line.place))
    history.faults.sort(key=lambda line: (line.record.start, line.place))
    history.ends.sort(key=lambda line: (line.record.at, line.place))
