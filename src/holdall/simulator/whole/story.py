"""The history of a run, as `holdall check` reads it: one clock for all, true time in nanoseconds.

The simulator knows true time, so the clocks of the history have no error but rounding.
"""

from collections.abc import Callable, Iterable

from holdall.checker import records
from holdall.model.frames import HeldUnit, Need
from holdall.simulator.whole.setup import WholeSetup, node_name

_NS = 1_000_000
ROUNDING = "2us"

Say = Callable[[records.AnyRecord], None]


class Story:
    """Says what clients and driver saw. Times in ms of true time."""

    def __init__(self, say: Say) -> None:
        self._say = say

    def meta(self, setup: WholeSetup) -> None:
        """What exists: units are named `UNIT@NODE`."""
        pools: dict[str, list[str]] = {}
        for number in range(setup.nodes):
            for spec in setup.pools_on(number):
                pools.setdefault(spec.name, []).extend(f"{unit}@{node_name(number)}" for unit in spec.units)
        sizes = {name: records.PoolSize(units=tuple(units)) for name, units in pools.items()}
        self._say(records.Setup(pools=sizes, eps=ROUNDING))

    def claim(self, claim: str, client: str, needs: Iterable[Need], at: float) -> None:
        """Before it is sent."""
        first, *others = whole_needs(needs)
        self._say(
            records.Claim(claim=claim, client=client, need=first, at=_ns(at), alternatives=tuple(others))
        )

    def queued(self, claim: str, bound: int | None, at: float) -> None:
        """The client learned that it waits."""
        self._say(records.Queued(claim=claim, at=_ns(at), bound=bound))

    def grant(
        self,
        claim: str,
        lease: str,
        units: Iterable[HeldUnit],
        *,
        at: float,
        call: float,
        until: float,
        ttl_ms: float,
    ) -> None:
        """On receipt. `ttl_ms` by the client's clock, put as true time."""
        self._say(
            records.Grant(
                claim=claim,
                units=tuple(
                    records.GrantedUnit(pool=unit.pool, unit=f"{unit.name}@{unit.node}", fence=unit.fence)
                    for unit in units
                ),
                at=_ns(at),
                valid_until=_ns(until),
                lease=lease,
                call=_ns(call),
                ttl=_ns(ttl_ms),
            )
        )

    def fail(self, claim: str, at: float) -> None:
        """Definitely not granted."""
        self._say(records.Fail(claim=claim, at=_ns(at)))

    def renew(self, lease: str, *, at: float, call: float, until: float, ttl_ms: float) -> None:
        """A renewal was confirmed."""
        self._say(
            records.Renew(
                lease=lease, ok=True, at=_ns(at), valid_until=_ns(until), call=_ns(call), ttl=_ns(ttl_ms)
            )
        )

    def release(self, lease: str, *, call: float, at: float | None = None, ok: bool | None = None) -> None:
        """Before it is sent; once more with its answer."""
        self._say(records.Release(lease=lease, call=_ns(call), at=None if at is None else _ns(at), ok=ok))

    def lost(self, lease: str, at: float) -> None:
        """The client knows that it is over."""
        self._say(records.Lost(lease=lease, at=_ns(at)))

    def crash(self, client: str, at: float) -> None:
        """Before the client is killed."""
        self._say(records.Crash(client=client, at=_ns(at)))

    def fault(self, kind: str, start: float, end: float, client: str | None = None) -> None:
        """Something was broken, which excuses waits."""
        self._say(records.Fault(kind=kind, start=_ns(start), end=_ns(end), excuse=True, client=client))

    def audit(self, pool: str, *, total: int, free: int, at: float, fences: dict[str, int]) -> None:
        """The books of all nodes together, at rest."""
        self._say(
            records.Audit(
                pool=pool,
                at=_ns(at),
                call=_ns(at),
                total=total,
                free=free,
                held=total - free,
                fences=fences,
                quiesced=True,
            )
        )

    def end(self, at: float) -> None:
        """Every claim has had its time."""
        self._say(records.End(at=_ns(at)))


def whole_needs(needs: Iterable[Need]) -> list[records.Need]:
    """Every way in which the needs can be met, as units by pool; the preferred ones first."""
    ways: list[records.Need] = [{}]
    for need in needs:
        ways = [
            {**way, option.pools[0]: _sum(way.get(option.pools[0], 0), option.count)}
            for option in need.options
            for way in ways
        ]
    return ways


def _sum(before: object, count: int) -> int:
    return count + (before if isinstance(before, int) else 0)


def _ns(ms: float) -> int:
    return int(ms * _NS)
