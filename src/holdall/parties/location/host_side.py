"""The part `host`: the manager of this host's leases, which believes its location's managers and its users' nodes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import Policy, Sharing
from holdall.leases.negotiation.records import SETTING_KEY, HostRecord
from holdall.leases.negotiation.settings import HostSettings
from holdall.machine.contract import (
    Address,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    TimerFired,
)
from holdall.parties.location.messages import LOCATION, ManagedBy, OnBehalf
from holdall.parties.location.vouching import Vouching, Whom
from holdall.parties.messages import AGENT, NODE
from holdall.parties.neighbours import Neighbours

_OF_AGENT = (
    m.GetTemplates,
    m.RequestLease,
    m.AcceptLease,
    m.DeclineLease,
    m.LeaveLine,
    m.ReleaseLease,
    m.GetStatus,
    m.RenewLeases,
    m.SplitLease,
    m.UseIs,
    looking.GetHosts,
    looking.GetLeases,
    looking.GetShares,
)


class HostSide:
    """One node's machine. A host is called by its node's id."""

    def __init__(
        self,
        settings: HostSettings,
        neighbours: Neighbours,
        *,
        sharings: Callable[[], Mapping[str, Sharing]],
        policy: Policy,
    ) -> None:
        vouching = self._vouching = Vouching(settings.host, settings.location, neighbours)
        self._own, self._agent = Address(settings.host, LOCATION), Address(settings.host, AGENT)
        self._whom = Whom()
        self.manager = HostManager(
            settings, sharings=sharings, policy=policy, askers=self._whom, manages=vouching.is_manager
        )

    def start(self) -> Sequence[Effect]:
        """As the manager."""
        return self.manager.start()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """As the manager: its leases live on. A drain ends with the process, as that of the node's units does."""
        kept = records.get(SETTING_KEY)
        if isinstance(kept, HostRecord) and kept.draining:
            again = msgspec.structs.replace(kept, draining=False, drain_ms=None)
            records = {**records, SETTING_KEY: again}
        return self.manager.recover(records)

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event. Raises ProtocolViolation for what its sender may not say; nothing has changed then."""
        if isinstance(event, TimerFired):
            return self.manager.handle(event)
        sender, message = event.sender, event.message
        if isinstance(message, ManagedBy) and sender == self._own:
            return self.manager.managed_by(message.managers)
        if isinstance(message, OnBehalf):
            self._vouching.check_behalf(sender, message)
            self._whom.current = message.asker
            return self.manager.handle(Received(sender, self._vouching.with_holder(message.message)))
        if isinstance(message, m.PassOn):
            passed = msgspec.structs.replace(message, message=self._vouching.with_holder(message.message))
            return self.manager.handle(Received(sender, passed))
        if isinstance(message, h.Drain | h.Undrain) and sender != self._agent:
            raise ProtocolViolation(f"{type(message).__name__} from {sender}: that is not for it to say")
        if isinstance(message, h.Review | h.Offers | h.DivideAmong) and sender != Address(
            self._own.node, NODE
        ):
            raise ProtocolViolation(f"{type(message).__name__} from {sender}: that is not for it to say")
        if isinstance(message, _OF_AGENT):
            raise ProtocolViolation(f"{type(message).__name__} from {sender}: for whom?")
        return self.manager.handle(event)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return self.manager.key()

    def copy(self) -> Self:
        """An independent twin, which reads the same neighbours."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.manager = self.manager.copy()
        return twin
