"""Who claims units for a host, in tests: so many units, each with one holder, each grant with a larger fence."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

from holdall.leases.negotiation import host_messages as h
from holdall.machine.contract import Address, ClockRead, Effect, Event, Received, Record, Send
from holdall.protocols.vocabulary import UnitGrant


class Stock:
    """Gives no unit twice, and notes each that it gave."""

    def __init__(self, node: str, pool: str, count: int) -> None:
        self.node, self.pool = node, pool
        self.free = [f"{pool}-{number}" for number in range(count)]
        self.of: dict[str, tuple[UnitGrant, ...]] = {}
        """By party."""
        self._fence = 0

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        raise AssertionError("it is not restarted")

    def handle(self, event: Event) -> Sequence[Effect]:
        assert isinstance(event, Received)
        match event.message:
            case h.WantUnits():
                return (Send(event.sender, self._want(event.message)),)
            case h.FreeUnits():
                self.free += [one.unit for one in self.of.pop(event.message.party, ())]
            case h.KeepUnits():
                assert not event.message.instead_of
            case _:
                assert isinstance(event.message, ClockRead)
        return ()

    def key(self) -> Hashable:
        return tuple(self.free), tuple(sorted(self.of.items()))

    def copy(self) -> Self:
        raise AssertionError("it is not searched")

    def _want(self, message: h.WantUnits) -> h.UnitsAre | h.UnitsShort:
        assert message.pool == self.pool
        assert message.party not in self.of
        count = min(message.most, len(self.free))
        if count < message.least:
            return h.UnitsShort(message.party, self.pool, len(self.free))
        units, self.free = self.free[:count], self.free[count:]
        self._fence += 1
        grants = tuple(UnitGrant(self.node, self.pool, unit, self._fence) for unit in units)
        self.of[message.party] = grants
        return h.UnitsAre(message.party, self.pool, grants)


def units_part(host: str) -> Address:
    return Address(host, "units")
