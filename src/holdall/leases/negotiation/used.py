"""What has been used of leases in all, over restarts of whoever measures and of the host itself.

A meter counts from its own beginning and says which one it is; a lease may have several, each of other terms. What an earlier
meter of a term had counted last is added to what this one counts. It is written down once in a while: a host that is killed forgets `SAVE_MS` of use at most.
"""

import msgspec

from holdall.leases.negotiation.records import USE_PREFIX, Metered, UseRecord
from holdall.machine.contract import Forget, Save
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import TermUse, Usage
from holdall.protocols.hooks import Effects

SAVE_MS = 10_000
BESIDE_MOST = 8
"""Meters of a lease that may take turns; of others that come back all would count again."""


class Uses:
    """By lease."""

    def __init__(self) -> None:
        self._known: dict[str, UseRecord] = {}
        self._saved_ms: dict[str, int] = {}

    def restore(self, record: UseRecord) -> None:
        """From the journal."""
        self._known[record.lease] = record

    def tell(
        self, lease: str, meter: str, uses: tuple[TermUse, ...], now_ms: int, out: Effects
    ) -> tuple[TermUse, ...]:
        """A meter has counted so much of these terms; the sums of all terms."""
        known = self._known.get(lease, UseRecord(lease))
        told = {one.name for one in uses}
        before = (Metered(known.meters.get(one.name, ""), one) for one in known.last if one.name in told)
        beside = (*known.beside, *before)
        # Of this meter, which goes on or takes its turn again, only what it says now counts.
        others = tuple(one for one in beside if one.meter != meter or one.use.name not in told)
        gone = max(0, len(others) - BESIDE_MOST)
        known = UseRecord(
            lease,
            {**known.meters, **dict.fromkeys(told, meter)},
            _sums(known.base, tuple(one.use for one in others[:gone])),
            tuple(sorted((*uses, *(one for one in known.last if one.name not in told)), key=_by_name)),
            others[gone:],
        )
        if known != self._known.get(lease) and now_ms - self._saved_ms.get(lease, -SAVE_MS) >= SAVE_MS:
            self._saved_ms[lease] = now_ms
            out.append(Save(USE_PREFIX + lease, known))
        self._known[lease] = known
        return _all(known)

    def of(self, lease: str) -> tuple[TermUse, ...]:
        """In all."""
        known = self._known.get(lease)
        return () if known is None else _all(known)

    def forget(self, lease: str, out: Effects) -> None:
        """Nobody knows the lease any more."""
        if self._known.pop(lease, None) is not None:
            self._saved_ms.pop(lease, None)
            out.append(Forget(USE_PREFIX + lease))

    def copy(self) -> "Uses":
        """An independent twin."""
        twin = Uses()
        twin._known, twin._saved_ms = dict(self._known), dict(self._saved_ms)
        return twin


def _by_name(use: TermUse) -> str:
    return use.name


def _all(known: UseRecord) -> tuple[TermUse, ...]:
    return _sums(known.base, (*(one.use for one in known.beside), *known.last))


def _sum(one: int, other: int) -> int:
    return min(AMOUNT_MAX, one + other)


def _sums(base: tuple[TermUse, ...], last: tuple[TermUse, ...]) -> tuple[TermUse, ...]:
    """Term by term; how it stands now is what the later one says."""
    sums = {one.name: one for one in base}
    for one in last:
        before = sums.get(one.name, TermUse(one.name))
        used = Usage(
            _sum(before.used.total, one.used.total),
            one.used.rate_1s,
            max(before.used.peak_1s, one.used.peak_1s),
        )
        sums[one.name] = msgspec.structs.replace(
            one,
            used=used,
            denied=_sum(before.denied, one.denied),
            violated_s=_sum(before.violated_s, one.violated_s),
        )
    return tuple(sums[name] for name in sorted(sums))
