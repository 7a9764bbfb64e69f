"""How the terms of a host's leases stand by what is measured of them: by its gate, and by whoever keeps a holder to his lease."""

import msgspec

from holdall.leases.negotiation.records import HeldLease
from holdall.leases.negotiation.used import Uses
from holdall.model.terms import Kind, TermStatus, TermUse
from holdall.protocols.hooks import Effects

_MEASURED = frozenset[Kind](("capacity", "time"))


class Measured:
    """By lease, the latest; `uses` alone is kept over restarts."""

    def __init__(self) -> None:
        self.uses = Uses()
        self._measured: dict[str, tuple[TermStatus, ...]] = {}

    def told(self, lease: str, terms: tuple[TermStatus, ...]) -> None:
        """By the gate; not kept over a restart."""
        self._measured[lease] = terms

    def used(
        self, record: HeldLease, meter: str, uses: tuple[TermUse, ...], now_ms: int, out: Effects
    ) -> None:
        """By a meter; of what is no capacity or time of the lease nothing is taken."""
        names = {one.name for one in record.terms if one.kind in _MEASURED}
        told = tuple(one for one in uses if one.name in names)
        self._sum_up(record, self.uses.tell(record.lease, meter, told, now_ms, out))

    def recover(self, record: HeldLease) -> None:
        """After a restart, with the use that was saved."""
        if used := self.uses.of(record.lease):
            self._sum_up(record, used)

    def of(self, lease: str, term: str) -> TermStatus | None:
        """What was measured last."""
        return next((one for one in self._measured.get(lease, ()) if one.name == term), None)

    def statuses(self, record: HeldLease) -> tuple[TermStatus, ...]:
        """All terms of the lease, with what was measured last."""
        measured = {one.name: one for one in self._measured.get(record.lease, ())}
        return tuple(_with_measure(status, measured.get(status.name)) for status in record.terms)

    def forget(self, lease: str, out: Effects) -> None:
        """Nobody knows the lease any more."""
        self._measured.pop(lease, None)
        self.uses.forget(lease, out)

    def copy(self) -> "Measured":
        """An independent twin."""
        twin = Measured()
        twin.uses, twin._measured = self.uses.copy(), dict(self._measured)
        return twin

    def _sum_up(self, record: HeldLease, told: tuple[TermUse, ...]) -> None:
        uses = {one.name: one for one in told}
        self._measured[record.lease] = tuple(
            _with_measure(status, use)
            for status in record.terms
            if status.kind in _MEASURED and (use := uses.get(status.name)) is not None
        )


def _with_measure(status: TermStatus, measure: TermStatus | TermUse | None) -> TermStatus:
    if measure is None:
        return status
    return msgspec.structs.replace(
        status,
        state=measure.state,
        guarantee=measure.guarantee,
        used=measure.used,
        denied=measure.denied,
        violated_s=measure.violated_s,
        enforced=measure.enforced,
    )
