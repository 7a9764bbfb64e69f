"""The manager of one host's leases: the only authority over what the host gives, with a journal of its own.

It makes holds that lapse by themselves, turns a hold into a lease when the location confirms it, renews, ends and
revokes. Whatever happens to the location's manager, nothing is given twice: all that is given is in this machine's books,
saved before any answer leaves. Source: lease negotiation, sections 4 and 10.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.leases.fences import Fences
from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.allotment import NO_LIMITS, Allotments, Short
from holdall.leases.negotiation.book import HostBook
from holdall.leases.negotiation.interfaces import Asker, Askers, ByAddress, Policy, Sharing
from holdall.leases.negotiation.offering import Offering
from holdall.leases.negotiation.records import (
    LEASE_PREFIX,
    SETTING_KEY,
    USE_PREFIX,
    HeldLease,
    HostRecord,
    UseRecord,
)
from holdall.leases.negotiation.renewing import Renewing
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.negotiation.splitting import Splitting
from holdall.leases.negotiation.states import TERMINAL
from holdall.leases.records import FENCE_KEY
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    ClockRead,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
)
from holdall.model.terms import Template, TermStatus
from holdall.protocols.hooks import Effects

HEARTBEAT_TIMER = "heartbeat"
QUARANTINE_TIMER = "quarantine"
DRAIN_TIMER = "drain"


class HostManager:
    """One host's machine. `sharings` makes a new `Sharing` for each capacity of the template, at start and recovery."""

    def __init__(
        self,
        settings: HostSettings,
        *,
        sharings: Callable[[], Mapping[str, Sharing]],
        policy: Policy,
        askers: Askers | None = None,
        manages: Callable[[Address], bool] | None = None,
    ) -> None:
        """`manages`: who may be a manager of this location; None: those of the settings alone."""
        self.settings = settings
        self.host = HostRecord()
        self.quarantined = False
        self.unanswered = 0
        """Heartbeats since the manager spoke last. For whoever elects one; nothing is decided by it here."""
        self._incarnation, self._seq = 1, 0
        self._askers = askers or ByAddress()
        self._manages = manages
        self._make = sharings
        self._policy = policy
        self._fences = Fences(1, settings.fence_block)
        self._fresh()

    def _fresh(self) -> None:
        settings = self.settings
        self.book = HostBook(
            settings, Allotments(settings.template, self._make(), self._policy), self._incarnation
        )
        self.offering = Offering(self.book, self._fences)
        self.renewing = Renewing(self.book)
        self.splitting = Splitting(self.book, self._fences)

    # ------------------------------------------------------------ the contract

    def start(self) -> Sequence[Effect]:
        """Nothing is held; tell the location."""
        out: Effects = []
        self._hello(out)
        self._arm_heartbeat(out)
        return out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event and its whole answer."""
        out: Effects = []
        if isinstance(event, Received):
            self._received(event.sender, event.message, out)
        else:
            self._fired(event.timer, out)
        return out

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Holds that nobody confirmed are dropped; each lease gets a whole duration again, as nobody knows what passed."""
        out: Effects = []
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"{BOOT_KEY} is a {type(boot).__name__}")
        self._incarnation, self._seq = boot.incarnation, 0
        self._fences.recover(records.get(FENCE_KEY), boot)
        self._fresh()
        kept = records.get(SETTING_KEY)
        self.host = kept if isinstance(kept, HostRecord) else HostRecord()
        leases = [
            one
            for key, one in sorted(records.items())
            if key.startswith(LEASE_PREFIX) and isinstance(one, HeldLease)
        ]
        for key, one in records.items():
            if key.startswith(USE_PREFIX) and isinstance(one, UseRecord):
                self.book.measures.uses.restore(one)
        for record in leases:
            self.book.recover(record, out)
        self.quarantined = boot.quarantine_ms > 0
        if self.quarantined:
            out.append(SetTimer(QUARANTINE_TIMER, boot.quarantine_ms))
        if self.host.draining and self.host.drain_ms is not None:
            out.append(SetTimer(DRAIN_TIMER, self.host.drain_ms))
        self._hello(out)
        self._arm_heartbeat(out)
        return out

    def managed_by(self, managers: tuple[Address, ...]) -> Sequence[Effect]:
        """These are told of the host from now on. What others have been promised stands."""
        out: Effects = []
        if managers != self.settings.managers:
            self.settings = self.book.settings = msgspec.structs.replace(self.settings, managers=managers)
            self.unanswered = 0
            self._hello(out)
            self._arm_heartbeat(out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.host,
            self.quarantined,
            self._incarnation,
            self._fences.last,
            self.book.key(),
            self.offering.key(),
        )

    def copy(self) -> Self:
        """An independent twin; settings and policy are shared."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._fences = self._fences.copy()
        twin.book = self.book.copy()
        twin.offering = self.offering.copy(twin.book, twin._fences)
        twin.renewing = Renewing(twin.book)
        twin.splitting = Splitting(twin.book, twin._fences)
        return twin

    # ------------------------------------------------------------ messages

    def _received(self, sender: Address, message: Message, out: Effects) -> None:
        if isinstance(message, ClockRead):
            self.book.clock(message.boot_ms)
            return
        if not self._may_say(sender, message):
            raise ProtocolViolation(f"{type(message).__name__} from {sender}: that is not for it to say")
        if isinstance(message, m.Propose | m.Select | m.Cancel | m.Confirm | m.PassOn | m.Revoke):
            if message.epoch < self.host.epoch:
                out.append(Send(sender, m.StaleLm(self.host.epoch)))
                return
            self._obey(message.epoch, out)
        self._dispatch(sender, message, out)

    def _may_say(self, sender: Address, message: Message) -> bool:
        """Whether such a message can come from there: any member of the system may send anything to anybody."""
        match message:
            case m.Propose() | m.Select() | m.Cancel() | m.Confirm() | m.PassOn() | m.Revoke() | m.Welcome():
                return self._is_manager(sender)
            case h.UnitsAre() | h.UnitsShort() | h.UnitsLost():
                return sender == self.settings.units
            case h.Drained() | h.Measured():
                return sender == self.settings.gate
            case _:
                return True

    def _is_manager(self, sender: Address) -> bool:
        if self._manages is not None:
            return self._manages(sender)
        return sender in self.settings.managers

    def _dispatch(self, sender: Address, message: Message, out: Effects) -> None:
        match message:
            case m.Propose():
                refused = self._takes_none()
                self.offering.propose(sender, message, refused, out)
            case m.Select():
                self.offering.select(sender, message, out)
            case m.Cancel():
                self.offering.cancel(sender, message, out)
            case m.Confirm():
                self.offering.confirm(sender, message, out)
            case h.UnitsAre() | h.UnitsShort():
                self.offering.units(message, out)
            case h.UnitsLost():
                self.offering.units_lost(message, out)
            case m.PassOn(agent=agent, asker=asker, message=m.SplitLease() as order):
                limits = next((one.most for one in message.limits if one.lease == order.part), NO_LIMITS)
                self.splitting.split(agent, asker.holder, order, out, limits)
            case m.PassOn():
                self.book.lets(message.limits, out)
                self._of_agent(message.agent, message.asker, message.message, out)
            case m.Revoke():
                self.book.revoke(message.lease, message.grace_ms, message.why, out)
            case m.Welcome():
                self.unanswered = 0 if sender in self.settings.managers else self.unanswered
                if message.epoch >= self.host.epoch and not message.known:
                    out.append(Send(sender, self._hello_message()))
            case h.Drained():
                self.book.drained(message.lease, out)
            case h.Measured():
                self.book.measured(message)
            case h.Drain():
                self._drain(message, out)
            case h.Offers(template):
                self._offers(template, out)
            case h.DivideAmong(groups):
                self.book.divide_among(groups)
            case h.Review(grace_ms):
                self.book.review(self._policy, grace_ms, out)
            case h.Undrain():
                self._keep(msgspec.structs.replace(self.host, draining=False, drain_ms=None), out)
                out.append(CancelTimer(DRAIN_TIMER))
                self._hello(out)
            case _:
                self._of_agent(sender, self._askers.asker(sender), message, out)

    def _of_agent(self, agent: Address, asker: Asker, message: Message, out: Effects) -> None:
        holder = asker.holder
        match message:
            case m.RenewLeases():
                self.renewing.renew(agent, asker, message, out)
            case m.SplitLease():
                self.splitting.split(agent, holder, message, out)
            case m.ReleaseLease():
                self.book.release(agent, holder, message.lease, out)
            case m.GetStatus():
                record = self.book.of(message.lease, holder)
                answer = (
                    m.UnknownLease(message.lease) if record is None else m.LeaseIs(self.book.document(record))
                )
                out.append(Send(agent, answer))
            case m.UseIs():
                self.book.used(message, holder, out)
            case looking.GetLeases(after):
                out.append(Send(agent, self.book.part(after)))
            case looking.GetShares(after):
                out.append(Send(agent, self.book.shares(after)))
            case _:
                raise ProtocolViolation(f"no message for a host's manager: {type(message).__name__}")

    def use_of(self, lease: str, term: str) -> TermStatus | None:
        """What was measured last of a term, over restarts; None: nothing."""
        return self.book.measures.of(lease, term)

    # ------------------------------------------------------------ timers

    def _fired(self, timer: str, out: Effects) -> None:
        kind, _, name = timer.partition("/")
        match kind:
            case "heartbeat":
                self._seq += 1
                self.unanswered += 1
                self._tell(self._heartbeat(), out)
                self._arm_heartbeat(out)
            case "quarantine":
                self.quarantined = False
            case "drain":
                for lease in self.book.active():
                    self.book.revoke(lease, 0, "the host is drained", out)
            case _:
                self.book.fired(kind, name, out)

    def _arm_heartbeat(self, out: Effects) -> None:
        if self.settings.managers:
            out.append(SetTimer(HEARTBEAT_TIMER, self.settings.heartbeat_ms))

    # ------------------------------------------------------------ the location

    def _obey(self, epoch: int, out: Effects) -> None:
        """Saved, so that a manager that was replaced stays so after a restart of this host."""
        if epoch > self.host.epoch:
            self._keep(msgspec.structs.replace(self.host, epoch=epoch), out)

    def _keep(self, record: HostRecord, out: Effects) -> None:
        if record != self.host:
            self.host = record
            out.append(Save(SETTING_KEY, record))

    def _offers(self, template: Template, out: Effects) -> None:
        """What is granted is kept until its end, or until it is renewed within what there is then."""
        if template != self.settings.template:
            self.settings = self.book.settings = msgspec.structs.replace(self.settings, template=template)
            self.book.allotments.offers(template)
            self._hello(out)

    def _takes_none(self) -> Short | None:
        if self.quarantined:
            return Short("quarantine", "")
        return Short("draining", "") if self.host.draining else None

    def _drain(self, message: h.Drain, out: Effects) -> None:
        self._keep(msgspec.structs.replace(self.host, draining=True, drain_ms=message.drain_ms), out)
        self.book.withdraw_open(out)
        self._tell(m.HostLeave(self.settings.host, self._incarnation), out)
        if message.drain_ms is not None:
            out.append(SetTimer(DRAIN_TIMER, message.drain_ms))

    def _hello_message(self) -> m.HostHello:
        live = tuple(
            self.book.document(one)
            for one in self.book.held.values()
            if one.lease and one.state not in TERMINAL
        )
        return m.HostHello(
            self.settings.host,
            self._incarnation,
            self.settings.template,
            live,
            self.host.draining,
            self.book.askers(),
        )

    def _heartbeat(self) -> m.Heartbeat:
        return m.Heartbeat(
            self.settings.host,
            self._incarnation,
            self._seq,
            self.settings.template.template,
            self.book.allotments.free(),
        )

    def _hello(self, out: Effects) -> None:
        self._tell(self._hello_message(), out)

    def _tell(self, message: Message, out: Effects) -> None:
        for manager in self.settings.managers:
            out.append(Send(manager, message))
