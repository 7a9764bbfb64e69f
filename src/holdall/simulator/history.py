"""The history of a run, as `holdall check` reads it: what clients saw, in true time, and the nodes' books at the end.

A client's belief has no end of its own here: its claimant tells it in time that a lease is over, so what it believes
between being told is what counts. A client whose host is down or stands still is put as crashed, and as back (`resume`)
when it goes on with its lease.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdall.checker import records
from holdall.checker.judging import judge_reading
from holdall.checker.reading import Line, Place, Reading
from holdall.checker.records import AnyRecord
from holdall.checker.verdict import Verdict
from holdall.protocols.vocabulary import ClaimId, UnitGrant
from holdall.simulator.setup import Setup

_NS = 1_000_000


class History:
    """Says what happened. Times in ms of virtual time."""

    def __init__(self, say: Callable[[AnyRecord], None]) -> None:
        self._say = say

    def begin(self, setup: Setup) -> None:
        """Which pools and units there are. All clocks are one, so there is no error."""
        workload = setup.workload
        pools = {
            pool: records.PoolSize(units=tuple(f"u{number}" for number in range(units)))
            for node in workload.node_names()
            for pool, units in workload.pools_on(node).items()
        }
        self._say(records.Setup(pools=pools))

    def claim(self, claim: ClaimId, wanted: Mapping[tuple[str, str], int], at: float) -> None:
        """Before it is sent."""
        need: records.Need = {pool: units for (_, pool), units in wanted.items()}
        self._say(records.Claim(claim=str(claim), client=claim.node, need=need, at=_ns(at)))

    def grant(self, claim: ClaimId, units: Iterable[UnitGrant], at: float) -> None:
        """On receipt."""
        given = tuple(records.GrantedUnit(pool=unit.pool, unit=unit.unit, fence=unit.fence) for unit in units)
        self._say(records.Grant(claim=str(claim), units=given, at=_ns(at), valid_until=None))

    def fail(self, claim: ClaimId, at: float, *, definite: bool) -> None:
        """Nothing was granted; not `definite`: the client has given up and does not know."""
        self._say(records.Fail(claim=str(claim), at=_ns(at), definite=definite))

    def release(self, claim: ClaimId, at: float) -> None:
        """The client has stopped using its units, before it says so."""
        self._say(records.Release(lease=str(claim), call=_ns(at)))

    def lost(self, claim: ClaimId, at: float) -> None:
        """The client was told that its lease is over."""
        self._say(records.Lost(lease=str(claim), at=_ns(at)))

    def stopped(self, client: str, at: float) -> None:
        """The client's host is down, stands still, or has fallen silent for ever."""
        self._say(records.Crash(client=client, at=_ns(at)))

    def resumed(self, claim: ClaimId, at: float) -> None:
        """The client goes on with its lease."""
        self._say(records.Resume(lease=str(claim), at=_ns(at), valid_until=None))

    def fault(self, kind: str, start: float, end: float) -> None:
        """A blow that fell on somebody, or on the network."""
        self._say(records.Fault(kind=kind, start=_ns(start), end=_ns(max(start, end))))

    def end(self, books: Mapping[str, Mapping[str, int]], setup: Setup, at: float) -> None:
        """Every claim has had its time. `books`: node -> pool -> units given."""
        for node, given in sorted(books.items()):
            for pool, total in sorted(setup.workload.pools_on(node).items()):
                held = given.get(pool, 0)
                self._say(
                    records.Audit(
                        pool=pool, at=_ns(at), total=total, free=total - held, held=held, quiesced=True
                    )
                )
        self._say(records.End(at=_ns(at)))


def judge_records(said: Sequence[AnyRecord]) -> Verdict:
    """The checker's verdict on records that were kept in memory; places count from 1."""
    lines = [Line(record, Place("run", number)) for number, record in enumerate(said, start=1)]
    return judge_reading(Reading(lines, [], 0, 1))


def _ns(ms: float) -> int:
    return int(ms * _NS)
