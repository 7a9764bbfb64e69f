"""One host of a closed world as a table: local states are numbers, and each step is worked out once.

Machines are deterministic, so (local state, event) -> (local state, messages, notices) is a function; the search
looks it up. A local state is what the host's machines compare as equal, with its armed timers and, where a host may
come up again, what it has saved.
"""

from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol, runtime_checkable

import msgspec

from holdall.explorer.mail import Mail
from holdall.machine.contract import Boot, ProtocolViolation, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.world.clients import Notice
from holdall.world.system import TimerKind

AGENT = "agent"


class Hosts(Protocol):
    """What a table must know of a system's hosts; `world.system.System` says what each is for."""

    def build(self, host: str) -> Host: ...

    def facts(self, host: Host) -> Hashable: ...

    def wrong_here(self, host: Host, facts: Hashable) -> str: ...

    def idle(self, facts: Hashable) -> bool: ...

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]: ...

    def timer_kind(self, host: str, timer: str) -> TimerKind: ...


@runtime_checkable
class Keeping(Protocol):
    """A system that knows which differences between records make none to who comes up with them."""

    def same_records(self, host: Host, saved: Mapping[str, Record]) -> Mapping[str, Record]:
        """The records as they count: numbers that only order things may become small ones of the same order."""
        ...


class Outcome(NamedTuple):
    """What one turn does. `sends` are message numbers in order, `mask` their bits, `notice` is 0 for none."""

    local: int
    mask: int
    notice: int
    sends: tuple[int, ...]
    wrong: str


class Notices:
    """Numbers for what turns tell the scene; 0 is nothing."""

    def __init__(self) -> None:
        self.values: list[tuple[msgspec.Struct, ...]] = [()]
        self._ids: dict[tuple[msgspec.Struct, ...], int] = {(): 0}

    def number(self, notices: tuple[msgspec.Struct, ...]) -> int:
        """The number of this sequence of notices, new or known."""
        known = self._ids.setdefault(notices, len(self.values))
        if known == len(self.values):
            self.values.append(notices)
        return known


class Events:
    """Numbers for arrivals that are not messages in flight: commands, timers, lapses."""

    def __init__(self) -> None:
        self.values: list[Arrival] = []
        self._ids: dict[Arrival, int] = {}

    def number(self, arrival: Arrival) -> int:
        """The arrival's number, new or known."""
        known = self._ids.setdefault(arrival, len(self.values))
        if known == len(self.values):
            self.values.append(arrival)
        return known


class HostTable:
    """The local states of one host and the steps between them."""

    def __init__(
        self,
        name: str,
        system: Hosts,
        mail: Mail,
        notices: Notices,
        *,
        timers: bool,
        records: bool,
        meter: bool,
    ) -> None:
        self.name = name
        self.hosts: list[Host] = []
        self.timers: list[tuple[str, ...]] = []
        """Local state -> armed timers, ascending."""
        self.saved: list[Mapping[str, Record]] = []
        self.facts: list[int] = []
        """Local state -> number of its facts."""
        self.wrong: list[str] = []
        self.idle: list[bool] = []
        self.fact_values: list[Hashable] = []
        self.delivered: dict[int, Outcome] = {}
        """(local << 24 | message) -> outcome."""
        self._done: dict[tuple[int, Hashable], Outcome] = {}
        self._ids: dict[Hashable, int] = {}
        self._fact_ids: dict[Hashable, int] = {}
        self._system = system
        self._keeping = system if isinstance(system, Keeping) else None
        self._mail = mail
        self._notices = notices
        self._keep_timers = timers
        self._keep_records = records
        self._meter = meter

    def start(self) -> Outcome:
        """The first local state and what the host sends at its start."""
        host = self._system.build(self.name)
        turn = host.start()
        return self._outcome(None, host, turn, (), {})

    def deliver(self, local: int, message: int) -> Outcome:
        """One message in flight arrives."""
        key = local << 24 | message
        found = self.delivered.get(key)
        if found is None:
            found = self._step(local, self._mail.arrivals[message], "")
            self.delivered[key] = found
        return found

    def arrive(self, local: int, number: int, arrival: Arrival) -> Outcome:
        """A command or a lapse; `number` is the arrival's number."""
        found = self._done.get((local, number))
        if found is None:
            found = self._done[local, number] = self._step(local, arrival, "")
        return found

    def fire(self, local: int, timer: str) -> Outcome:
        """An armed timer runs out."""
        found = self._done.get((local, timer))
        if found is None:
            found = self._done[local, timer] = self._step(local, self.hosts[local].fire(timer), timer)
        return found

    def recover(self, local: int, boot: Boot) -> Outcome:
        """The host comes up with what it saved in this local state (with nothing, when the boot says lost)."""
        found = self._done.get((local, boot))
        if found is None:
            kept: Mapping[str, Record] = {} if boot.kind == "lost" else self.saved[local]
            host = self._system.build(self.name)
            try:
                turn = host.recover(kept, boot)
            except ProtocolViolation as error:
                found = Outcome(local, 0, 0, (), f"refused: {error}")
            else:
                found = self._outcome(local, host, turn, (), kept)
            self._done[local, boot] = found
        return found

    def put(self, local: int, host: Host) -> int:
        """The number of this host, with timers and records as in `local`."""
        return self._number(host, self.timers[local], self.saved[local])

    def put_all(self, host: Host, timers: tuple[str, ...], saved: Mapping[str, Record]) -> int:
        """The number of this host with these timers and records."""
        return self._number(host, timers, saved)

    def _step(self, local: int, arrival: Arrival, fired: str) -> Outcome:
        host = self.hosts[local].copy()
        try:
            turn = host.turn((arrival,))
        except ProtocolViolation as error:
            return Outcome(local, 0, 0, (), f"refused: {error}")
        armed = tuple(timer for timer in self.timers[local] if timer != fired)
        return self._outcome(local, host, turn, armed, self.saved[local])

    def _outcome(
        self, before: int | None, host: Host, turn: Turn, armed: tuple[str, ...], saved: Mapping[str, Record]
    ) -> Outcome:
        told: list[msgspec.Struct] = []
        sends: list[int] = []
        for sender, to, message in turn.sends:
            if to.node != self.name:
                sends.append(self._mail.number(sender, to, message))
            elif to.part == AGENT:
                told.append(message)
        local = self._number(host, self._timers_after(turn, armed), self._saved_after(turn, saved))
        if self._meter and before is not None and self.facts[before] != self.facts[local]:
            facts = self.fact_values
            told += self._system.metered(facts[self.facts[before]], facts[self.facts[local]])
        mask = 0
        for number in sends:
            mask |= 1 << number
        return Outcome(local, mask, self._notices.number(tuple(told)), tuple(sends), "")

    def _timers_after(self, turn: Turn, armed: tuple[str, ...]) -> tuple[str, ...]:
        names = set(armed)
        for name, timer in turn.timers.items():
            kind = self._system.timer_kind(self.name, name)
            if isinstance(timer, SetTimer) and (
                kind == "quarantine" or (kind != "never" and self._keep_timers)
            ):
                names.add(name)
            else:
                names.discard(name)
        return tuple(sorted(names))

    def _saved_after(self, turn: Turn, saved: Mapping[str, Record]) -> Mapping[str, Record]:
        if not self._keep_records or not turn.saves:
            return saved
        after = dict(saved)
        for key, record in turn.saves.items():
            if record is None:
                after.pop(key, None)
            else:
                after[key] = record
        return after

    def _number(self, host: Host, timers: tuple[str, ...], saved: Mapping[str, Record]) -> int:
        counted = saved
        if saved and self._keeping is not None:
            counted = self._keeping.same_records(host, saved)
        kept = tuple((key, _frozen(counted[key])) for key in sorted(counted))
        key = (host.key(), timers, kept)
        known = self._ids.get(key)
        if known is not None:
            return known
        number = len(self.hosts)
        self._ids[key] = number
        facts = self._system.facts(host)
        fact = self._fact_ids.setdefault(facts, len(self.fact_values))
        if fact == len(self.fact_values):
            self.fact_values.append(facts)
        self.hosts.append(host)
        self.timers.append(timers)
        self.saved.append(saved)
        self.facts.append(fact)
        self.wrong.append(self._system.wrong_here(host, facts))
        self.idle.append(self._system.idle(facts))
        return number


def _frozen(record: Record) -> Hashable:
    return type(record).__name__, msgspec.msgpack.encode(record)
