"""A location with its hosts and agents in one process: messages in the order of their sending, clocks that are moved by hand."""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import AllowAll, Policy
from holdall.leases.negotiation.location import LocationManager, LocationSettings
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.negotiation.unheard import Expected
from holdall.leases.shares import Shares
from holdall.leases.templates import template_of
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    ClockRead,
    Effect,
    Forget,
    Machine,
    Message,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model.terms import Durations, LeaseDocument, LeaseRequest, RequestedTerm, TemplateTerm

LM = Address("lm", "location")
AGENT = Address("x", "agent")
DURATION = Durations(500, 3_600_000, 60_000)
NET = TemplateTerm("capacity", "B/s", min=1, max=100_000, sharing="fair")
TTL = TemplateTerm("time", max=5_000_000)

Lost = Callable[[Address, Address, Message], bool]


def all_arrive(sender: Address, to: Address, message: Message) -> bool:
    """Nothing is lost."""
    return False


class Town:
    """`said`: all messages that were delivered, as (from, to, message); `heard`: those to parts that are no machine here."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.machines: dict[Address, Machine] = {}
        self.kept: dict[Address, dict[str, Record]] = {}
        self.said: list[tuple[Address, Address, Message]] = []
        self.heard: dict[Address, list[Message]] = {}
        self.lost: Lost = all_arrive
        self._made: dict[Address, Callable[[], Machine]] = {}
        self._timers: dict[tuple[Address, str], int] = {}
        self._mail: deque[tuple[Address, Address, Message]] = deque()
        self._incarnations: Counter[Address] = Counter()

    # ------------------------------------------------------------ who is there

    def add(self, address: Address, make: Callable[[], Machine]) -> None:
        self._made[address] = make
        self.kept[address] = {}
        self._incarnations[address] = 1
        self.machines[address] = make()
        self._carry(address, self.machines[address].start())
        self.deliver()

    def location(
        self,
        address: Address = LM,
        policy: Policy | None = None,
        *,
        strict_ms: int | None = None,
        expected: Expected | None = None,
    ) -> LocationManager:
        settings = LocationSettings("loc1", address, strict_ms=strict_ms)
        self.add(address, lambda: LocationManager(settings, policy=policy or AllowAll(), expected=expected))
        machine = self.machines[address]
        assert isinstance(machine, LocationManager)
        return machine

    def host(
        self,
        name: str,
        terms: Mapping[str, TemplateTerm],
        capacities: Mapping[str, int],
        *,
        policy: Policy | None = None,
        managers: Sequence[Address] = (LM,),
        **how: Any,
    ) -> None:
        settings = HostSettings(name, "loc1", tuple(managers), template_of(terms, DURATION))
        settings = msgspec.structs.replace(settings, **how)

        def sharings() -> dict[str, Shares]:
            return {term: Shares(amount, step=terms[term].step) for term, amount in capacities.items()}

        self.add(at(name), lambda: HostManager(settings, sharings=sharings, policy=policy or AllowAll()))

    def host_manager(self, name: str) -> HostManager:
        machine = self.machines[at(name)]
        assert isinstance(machine, HostManager)
        return machine

    def location_manager(self, address: Address = LM) -> LocationManager:
        machine = self.machines[address]
        assert isinstance(machine, LocationManager)
        return machine

    def dies(self, address: Address) -> None:
        """Its timers and what is on its way to it are lost."""
        del self.machines[address]
        self._timers = {key: due for key, due in self._timers.items() if key[0] != address}

    def comes_up(self, address: Address, kind: str = "same", quarantine_ms: int = 0) -> None:
        self._incarnations[address] += 1
        number = self._incarnations[address]
        machine = self._made[address]()
        self.machines[address] = machine
        boot = Boot(kind, number, number, quarantine_ms)
        self._carry(address, machine.recover({**self.kept[address], BOOT_KEY: boot}))
        self.deliver()

    # ------------------------------------------------------------ what happens

    def send(self, sender: Address, to: Address, message: Message) -> list[Message]:
        """Deliver it and all that follows; what the sender hears of it."""
        before = len(self.heard.setdefault(sender, []))
        self._mail.append((sender, to, message))
        self.deliver()
        return self.heard[sender][before:]

    def ask(self, to: Address, message: Message, sender: Address = AGENT) -> Message:
        """The one answer."""
        (answer,) = self.send(sender, to, message)
        return answer

    def deliver(self) -> None:
        while self._mail:
            self.deliver_one()

    def deliver_one(self) -> None:
        """The message that was sent first."""
        sender, to, message = self._mail.popleft()
        if self.lost(sender, to, message):
            return
        self.said.append((sender, to, message))
        machine = self.machines.get(to)
        if machine is None:
            if to not in self._made:
                self.heard.setdefault(to, []).append(message)
            return
        self._clock(to)
        self._carry(to, machine.handle(Received(sender, message)))

    def passes(self, ms: int) -> None:
        """Time passes, and every timer fires when it is due."""
        until = self.now_ms + ms
        while self._timers and min(self._timers.values()) <= until:
            (address, timer), due = min(self._timers.items(), key=lambda item: (item[1], str(item[0])))
            del self._timers[address, timer]
            self.now_ms = due
            self._clock(address)
            self._carry(address, self.machines[address].handle(TimerFired(timer)))
            self.deliver()
        self.now_ms = until

    def count(self, *kinds: type[msgspec.Struct]) -> int:
        return sum(isinstance(message, kinds) for _, _, message in self.said)

    def counts(self) -> dict[str, int]:
        """Delivered messages by kind, heartbeats and welcomes apart."""
        quiet = (m.Heartbeat, m.Welcome, m.HostHello)
        return dict(Counter(type(one).__name__ for _, _, one in self.said if not isinstance(one, quiet)))

    def hears(self, address: Address) -> list[Message]:
        """What was said to it, and is forgotten now."""
        return self.heard.pop(address, [])

    def _clock(self, address: Address) -> None:
        self.machines[address].handle(Received(address, ClockRead(self.now_ms, self.now_ms)))

    def _carry(self, address: Address, effects: Sequence[Effect]) -> None:
        sends: list[Send] = []
        for effect in effects:
            match effect:
                case Save(key, record):
                    self.kept[address][key] = record
                case Forget(key):
                    self.kept[address].pop(key, None)
                case SetTimer(timer, after_ms):
                    self._timers[address, timer] = self.now_ms + after_ms
                case CancelTimer(timer):
                    self._timers.pop((address, timer), None)
                case Send():
                    sends.append(effect)
        self._mail.extend((address, one.to, one.message) for one in sends)


def at(host: str) -> Address:
    return Address(host, "host")


def wish(
    name: str = "r1", duration: int | None = 2000, replaces: str | None = None, **terms: object
) -> m.RequestLease:
    """`net__tx=51200` asks for the term `net.tx`; a RequestedTerm stands for itself."""
    asked = {
        term.replace("__", "."): one if isinstance(one, RequestedTerm) else RequestedTerm(one)  # type: ignore[arg-type]
        for term, one in terms.items()
    }
    return m.RequestLease(LeaseRequest(name, asked, duration=duration, replaces=replaces))


def offered(answer: Message) -> LeaseDocument:
    assert isinstance(answer, m.Offer), answer
    return answer.document


def lease(answer: Message) -> LeaseDocument:
    assert isinstance(answer, m.LeaseIs), answer
    return answer.document


def accepts(town: Town, document: LeaseDocument, sender: Address = AGENT) -> LeaseDocument:
    return lease(town.ask(LM, m.AcceptLease(document.lease, document.revision), sender))


def gets(town: Town, request: m.RequestLease, sender: Address = AGENT) -> LeaseDocument:
    return accepts(town, offered(town.ask(LM, request, sender)), sender)
