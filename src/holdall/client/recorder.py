"""Says into a history what a link lives through; without a history it says nothing."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence

from holdall.client.history import HistoryWriter, Unit
from holdall.client.tenure import Tenure
from holdall.model import frames
from holdall.model.why import Why

HISTORY_ENV = "HOLDALL_HISTORY"
ALTERNATIVES_MAX = 64
IN_LINE = frozenset({"waits", "your limit", "has its units"})
"""States of `NodeLine` of a claim that has come to that node."""

_MS = 1_000_000


def open_recorder(path: str | os.PathLike[str] | None, client: str) -> "Recorder":
    """A recorder for `path`, else for what HOLDALL_HISTORY names, else one that says nothing."""
    named = os.fspath(path) if path is not None else os.environ.get(HISTORY_ENV, "")
    return Recorder(HistoryWriter(named, client) if named else None)


def client_name(agent: str) -> str:
    """Who a history's lines are about: the agent where it has a name, else this process."""
    return agent or f"{os.uname().nodename}-{os.getpid()}"


class Recorder:
    """Between a link and a HistoryWriter: moments are CLOCK_BOOTTIME in milliseconds here, stamps there."""

    def __init__(self, writer: HistoryWriter | None) -> None:
        self.writer = writer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()

    def claiming(self, claim: frames.Claim) -> str:
        """Before it is sent. Returns the claim's id in the history."""
        if self.writer is None:
            return ""
        name = self.writer.new_claim()
        first, *others = itertools.islice(whole_needs(claim.needs), ALTERNATIVES_MAX)
        self.writer.claim(name, first, otherwise=others)
        return name

    def queued(self, name: str, queued: frames.Queued) -> None:
        if self.writer is not None and name:
            self.writer.queued(name, bound=bound_of(queued.why))

    def granted(self, name: str, tenure: Tenure) -> None:
        if self.writer is None or not name or not tenure.in_history:
            return
        self.writer.grant(
            name,
            units_of(tenure.lease.units),
            lease=tenure.lease.lease,
            call=_stamp(tenure.sent_ms),
            ttl_ns=tenure.ttl_ms * _MS,
            valid_until=_stamp(tenure.end_ms()),
        )

    def failed(self, name: str, *, definite: bool) -> None:
        if self.writer is not None and name:
            self.writer.fail(name, definite=definite)

    def renewed(self, tenure: Tenure) -> None:
        if self.writer is not None and tenure.in_history:
            self.writer.renew(
                tenure.lease.lease,
                ok=True,
                call=_stamp(tenure.sent_ms),
                ttl_ns=tenure.ttl_ms * _MS,
                valid_until=_stamp(tenure.end_ms()),
            )

    def lost(self, tenure: Tenure) -> None:
        if self.writer is not None and tenure.in_history:
            self.writer.lost(tenure.lease.lease)

    def releasing(self, tenure: Tenure, *, at_ms: int | None = None) -> int:
        """Before it is sent; `at_ms` where somebody else stopped using it, and when. Returns the stamp for `released`."""
        if self.writer is None or not tenure.in_history:
            return 0
        return self.writer.releasing(tenure.lease.lease, call=_stamp(at_ms))

    def changing(self, tenure: Tenure) -> None:
        """Before a part is given back or exchanged: what is believed of this lease ends here."""
        stamp = self.releasing(tenure)
        self.released(tenure, stamp, ok=None)
        tenure.in_history = False

    def released(self, tenure: Tenure, stamp: int, *, ok: bool | None) -> None:
        if self.writer is not None and stamp:
            self.writer.released(tenure.lease.lease, call=stamp, ok=ok)


def bound_of(why: Why) -> int | None:
    """How many younger claims may pass, where that is a promise: only if the claim stands in all its lines already."""
    if not why.bounded:
        return None
    begun = [line for line in why.lines if line.state != "in reserve"]
    if begun:
        return why.passes_bound if all(line.state in IN_LINE for line in begun) else None
    return why.passes_bound if why.in_line else None


def units_of(units: Sequence[frames.HeldUnit]) -> list[Unit]:
    """As a history names them: with their node always, as nobody can tell from one lease where else its pools are."""
    return [Unit(unit.pool, f"{unit.name}@{unit.node}", unit.fence) for unit in units]


def whole_needs(needs: Sequence[frames.Need]) -> Iterator[Mapping[str, int | str]]:
    """Every way in which the needs can be met, as units by pool; the preferred ones first."""
    ways = [[way for option in need.options for way in _ways(option)] for need in needs]
    for choice in itertools.product(*ways):
        total: dict[str, int | str] = {}
        for pool, count in itertools.chain.from_iterable(choice):
            before = total.get(pool, 0)
            total[pool] = "all" if isinstance(before, str) or isinstance(count, str) else before + count
        yield total


def _ways(option: frames.Selector) -> Iterator[tuple[tuple[str, int | str], ...]]:
    if option.count == 0:
        yield tuple((pool, "all") for pool in option.pools)
        return
    if len(option.pools) == 1:
        yield ((option.pools[0], option.count),)
        return
    for picked in itertools.combinations_with_replacement(option.pools, option.count):
        yield tuple((pool, picked.count(pool)) for pool in option.pools if pool in picked)


def _stamp(boottime_ms: int | None) -> int | None:
    return HistoryWriter.stamp_of(None if boottime_ms is None else boottime_ms * _MS)
