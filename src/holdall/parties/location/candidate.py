"""The part `location`: a location's manager that works while its node leads, and sends agents on while it does not."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Policy
from holdall.leases.negotiation.location import LocationManager, LocationSettings
from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Send,
    TimerFired,
)
from holdall.parties.location.messages import (
    HOST,
    LOCATION,
    Deposed,
    Elsewhere,
    Led,
    ManagedBy,
    OnBehalf,
)
from holdall.parties.location.vouching import Vouching, Whom
from holdall.parties.messages import NODE
from holdall.parties.neighbours import Neighbours


class CandidateSettings(msgspec.Struct, frozen=True):
    """Of one node in a location. Times in ms."""

    node: str
    location: str
    has_host: bool = False
    """It has a part `host`, too."""
    propose_ms: int = 1000
    offer_ms: int = 10_000
    rho_ppm: int = 20_000
    strict_ms: int | None = None
    """As in `LocationSettings`."""


class HostsOfDirectory:
    """Implements `Expected`: all hosts of the location that this node has ever heard of, its own one included."""

    def __init__(self, settings: CandidateSettings, neighbours: Neighbours) -> None:
        self._settings, self._neighbours = settings, neighbours

    def silent_ms(self) -> Mapping[str, int]:
        """As the directory knows it, which is kept over restarts; after one silence counts anew."""
        location = self._settings.location
        known = {
            one.node: one.silent_ms
            for one in self._neighbours.nodes()
            if one.location == location and one.offers
        }
        return known | ({self._settings.node: 0} if self._settings.has_host else {})

    def name_of(self, host: str) -> str:
        """As `Expected.name_of`."""
        return self._neighbours.name_of(host)


class Candidate:
    """One node's machine. It keeps nothing: a manager that begins anew is told by the hosts what there is."""

    def __init__(self, settings: CandidateSettings, neighbours: Neighbours, *, policy: Policy) -> None:
        self.settings = settings
        self.leader = ""
        self._own = Address(settings.node, LOCATION)
        self._vouching = Vouching(settings.node, settings.location, neighbours)
        self._whom = Whom()
        self.manager = LocationManager(
            LocationSettings(
                settings.location,
                self._own,
                propose_ms=settings.propose_ms,
                offer_ms=settings.offer_ms,
                rho_ppm=settings.rho_ppm,
                strict_ms=settings.strict_ms,
            ),
            policy=policy,
            askers=self._whom,
            expected=HostsOfDirectory(settings, neighbours),
        )

    @property
    def leads(self) -> bool:
        """Whether this node leads, as far as it knows."""
        return self.leader == self.settings.node

    def waiting(self) -> dict[str, int]:
        """Location -> requests that wait in line at this node; nothing where another one leads."""
        return {self.settings.location: self.manager.line.waiting} if self.leads else {}

    def start(self) -> Sequence[Effect]:
        """Nobody leads yet."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """As `start`: the epoch comes with the leadership."""
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event. Raises ProtocolViolation for what its sender may not say; nothing has changed then."""
        if isinstance(event, TimerFired):
            return self.manager.handle(event)
        sender, message = event.sender, event.message
        match message:
            case ClockRead():
                return ()
            case Led() if sender == Address(self.settings.node, NODE):
                return self._led(message)
            case h.Review() if sender == Address(self.settings.node, NODE):
                return self._manage(Received(self._own, message)) if self.leads else ()
            case OnBehalf():
                self._vouching.check_behalf(sender, message)
                return self._of_agent(sender, message)
            case _:
                self._check_host(sender, message)
                return self._of_host(event) if self.leads else ()

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return self.leader, self.manager.key()

    def copy(self) -> Self:
        """An independent twin, which reads the same neighbours."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.manager = self.manager.copy()
        return twin

    # ------------------------------------------------------------ inside

    def _led(self, message: Led) -> Sequence[Effect]:
        out: list[Effect] = []
        led, self.leader = self.leads, message.node
        if self.leads:
            out += self._manage(Received(self._own, m.Lead(message.epoch)))
        elif led:
            # What is open here can't come to an end here.
            out += self._manage(Received(self._own, m.StaleLm(self.manager.epoch + 1)))
        if self.settings.has_host:
            managers = (Address(self.leader, LOCATION),) if self.leader else ()
            out.append(Send(Address(self.settings.node, HOST), ManagedBy(managers)))
        return out

    def _of_agent(self, sender: Address, said: OnBehalf) -> Sequence[Effect]:
        if not self.leads:
            return (Send(sender, Elsewhere(self.settings.location, self.leader, said)),)
        self._whom.current = said.asker
        return self._manage(Received(sender, self._vouching.with_holder(said.message)))

    def _check_host(self, sender: Address, message: Message) -> None:
        match message:
            case m.HostHello() | m.Heartbeat() | m.HostLeave():
                self._vouching.check_host(sender, message, message.host)
            case m.Confirmed() | m.LeaseChanged():
                self._vouching.check_host(sender, message, message.document.host)
            case m.Proposal() if message.left[1] < 1:
                raise ProtocolViolation(f"{sender} proposes a part of nothing")
            case m.Proposal() | m.HostRefused() | m.UnknownHold() | m.StaleLm():
                self._vouching.check_host(sender, message, sender.node)
            case _:
                raise ProtocolViolation(
                    f"{type(message).__name__} from {sender} is not for a location's manager"
                )

    def _of_host(self, event: Received) -> Sequence[Effect]:
        epoch = self.manager.epoch
        out = self._manage(event)
        if isinstance(event.message, m.StaleLm) and event.message.epoch > epoch:
            return (*out, Send(Address(self.settings.node, NODE), Deposed(event.message.epoch)))
        return out

    def _manage(self, event: Received) -> Sequence[Effect]:
        return self.manager.handle(event)
