"""The manager of a location: it negotiates for agents with the hosts, and grants nothing itself.

What it knows is an index and may be lost: hosts report themselves again. A manager with a smaller epoch than a host has
heard is refused by it. Source: lease negotiation, sections 4.1 to 4.6 and 10.4.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import looking
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.desk import Asked, Desk, OpenOffer
from holdall.leases.negotiation.intake import Intake, Plan
from holdall.leases.negotiation.interfaces import AllowAll, Askers, ByAddress, Policy
from holdall.leases.negotiation.members import Members
from holdall.leases.negotiation.reviewing import revoked
from holdall.leases.negotiation.rounds import Round, new_round, offered_document
from holdall.leases.negotiation.settling import SETTLE_TIMER, Kept, Settling, settle_ms
from holdall.leases.negotiation.unheard import Expected, NobodyExpected, Unheard
from holdall.leases.negotiation.waiting import LINE_TIMER, OTHERS_WAIT, Line, asked_of
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
    Send,
    SetTimer,
)
from holdall.protocols.hooks import Effects


class LocationSettings(msgspec.Struct, frozen=True):
    """How a location negotiates. Times in ms."""

    location: str
    address: Address
    """This manager's; part of the ids of leases, so that no two managers make the same."""
    propose_ms: int = 1000
    offer_ms: int = 10_000
    spare_ms: int = 1000
    """A hold outlives what it is for by so much, as messages take time."""
    heartbeat_ms: int = 1000
    remember_ms: int = 600_000
    keep_ms: int = 86_400_000
    rho_ppm: int = 20_000
    strict_ms: int | None = None
    """With strict limits: how long the longest lease of a host may live. None: they are not strict."""


class LocationManager:
    """One location's machine; several may run, and a host obeys the one with the highest epoch."""

    def __init__(
        self,
        settings: LocationSettings,
        *,
        policy: Policy,
        askers: Askers | None = None,
        expected: Expected | None = None,
    ) -> None:
        self.settings = settings
        self.epoch = 1
        self.members = Members(settings.heartbeat_ms)
        self.desk = Desk(remember_ms=settings.remember_ms, keep_ms=settings.keep_ms, rho_ppm=settings.rho_ppm)
        self.is_deposed = False
        """A host has heard of a later manager."""
        self._policy = policy
        self._askers = askers or ByAddress()
        self._rounds: dict[str, Round] = {}
        self._settling: Settling | None = None
        self._unheard = Unheard(settings.strict_ms, expected or NobodyExpected())
        self._looked_in = 0
        """The epoch of the last look for what is to be revoked."""
        self.line = Line()
        self._counter = 0

    # ------------------------------------------------------------ the contract

    def start(self) -> Sequence[Effect]:
        """Hosts come by themselves."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Nothing is saved; hosts are asked to report when they are next heard of."""
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"{BOOT_KEY} is a {type(boot).__name__}")
        self.epoch = boot.incarnation
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event and its whole answer."""
        out: Effects = []
        if isinstance(event, Received):
            self._received(event.sender, event.message, out)
        else:
            kind, _, name = event.timer.partition("/")
            self._fired(kind, name, out)
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.epoch,
            self.is_deposed,
            self._counter,
            self._looked_in,
            self.members.key(),
            self.desk.key(),
            tuple(self._rounds[name].key() for name in sorted(self._rounds)),
            None if self._settling is None else self._settling.key(),
            self._unheard.key(),
            self.line.key(),
        )

    def copy(self) -> Self:
        """An independent twin; settings and policy are shared."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.members, twin.desk, twin._rounds = self.members.copy(), self.desk.copy(), dict(self._rounds)
        twin.line, twin._unheard = self.line.copy(), self._unheard.copy()
        twin._settling = None if self._settling is None else self._settling.copy()
        return twin

    # ------------------------------------------------------------ messages

    def _received(self, sender: Address, message: Message, out: Effects) -> None:
        match message:
            case ClockRead():
                pass
            case m.GetTemplates():
                out.append(Send(sender, self.members.templates()))
            case looking.GetHosts(after):
                out.append(Send(sender, self.members.part(after)))
            case looking.GetLeases(after):
                known = self.desk.leases
                out.append(Send(sender, looking.leases_part(known, known.__getitem__, after)))
            case m.RequestLease():
                self._request(sender, message, out)
            case m.AcceptLease():
                self._accept(sender, message, out)
            case m.DeclineLease():
                self._decline(sender, message, out)
            case m.LeaveLine(request):
                self._leave_line(sender, request, out)
            case m.GetStatus():
                self._status(sender, message, out)
            case m.ReleaseLease():
                self._pass_on(sender, message.lease, message, m.UnknownLease(message.lease), out)
            case m.SplitLease():
                none = m.NoSplit(message.lease, message.part, "unknown")
                self._pass_on(sender, message.lease, message, none, out)
            case m.RenewLeases():
                self._renew(sender, message, out)
            case h.Review(grace_ms):
                self._review(grace_ms, out)
            case m.Lead():
                if message.epoch > self.epoch:
                    self._lead(message.epoch, out)
            case _:
                self._from_host(sender, message, out)

    def _review(self, grace_ms: int, out: Effects) -> None:
        """End what rules with `revoke` do not allow any more; at the second look of an epoch, when all hosts have reported."""
        is_first, self._looked_in = self._looked_in != self.epoch, self.epoch
        if is_first or self.is_deposed or self._settling is not None or self._unheard.hosts():
            return
        for lease, rule in revoked(self.desk.live(), self._policy, self.members.capacity_ever):
            host = self.desk.leases[lease].host
            if host in self.members.known:
                why = f"rule {rule} of the location's policy"
                self._to_host(host, m.Revoke(self.epoch, lease, grace_ms, why), out)

    def _from_host(self, sender: Address, message: Message, out: Effects) -> None:
        match message:
            case m.HostHello():
                self._hello(sender, message, out)
            case m.Heartbeat():
                out.append(Send(sender, m.Welcome(self.epoch, self.members.heartbeat(message, out))))
            case m.HostLeave():
                if self.members.leaves(message):
                    self._host_takes_none(message.host, "withdrawn", out)
            case m.Proposal():
                self._proposal(sender, message, out)
            case m.HostRefused():
                self._refusal(sender, message, out)
            case m.Confirmed():
                self.desk.confirmed(message.document, out)
            case m.UnknownHold():
                offer = self.desk.of_hold(message.hold)
                if offer is not None:
                    self.desk.lapses(offer, "lapsed", out)
            case m.LeaseChanged():
                self.desk.knows(message.document, out, message.asker)
            case m.StaleLm():
                self._stale(message, out)
            case _:
                raise ProtocolViolation(f"no message for a location's manager: {type(message).__name__}")

    # ------------------------------------------------------------ requests

    def _request(self, agent: Address, message: m.RequestLease, out: Effects) -> None:
        asker = self._askers.asker(agent)
        asked = asker.holder, message.request.request
        if asked in self.desk.answers:
            answer = self.desk.answers[asked]
            if answer is not None:
                out.append(Send(agent, answer))
            else:
                self.line.hears(asked, out)
                self.line.tells(asked, out)
            return
        if self.is_deposed:
            out.append(Send(agent, m.Declined(asked[1], "stale_lm")))
            return
        if self._settling is None:
            self._take_up(Kept(agent, asker, message), out)
        elif not self._settling.keep(Kept(agent, asker, message)):
            wait_ms = settle_ms(self.settings.heartbeat_ms)
            out.append(Send(agent, m.Declined(asked[1], "busy", retry_after_ms=wait_ms)))

    def _take_up(self, kept: Kept, out: Effects) -> None:
        agent, asker = kept.agent, kept.asker
        asked = asked_of(kept)
        request = kept.message.request
        plan = Intake(self.members, self.desk, self._policy).plan(asker, request)
        if isinstance(plan, m.Declined):
            self._decline_asked(asked, agent, plan, out)
            return
        if request.wait_ms and not self.line.joins(kept, self.settings.heartbeat_ms, out):
            busy = m.Declined(asked[1], "busy", retry_after_ms=self.settings.heartbeat_ms)
            self.desk.answer(asked, agent, busy, out)
            return
        self.desk.answers[asked] = None
        unsure = self._unheard.declined(asked[1], self.settings.heartbeat_ms)
        if unsure is not None:
            self._decline_asked(asked, agent, unsure, out)
            return
        if request.replaces is None and self.line.is_behind(asked, request.terms):
            text = "others wait for one of these terms; ask with wait_ms to stand in line behind them"
            self._decline_asked(asked, agent, m.Declined(asked[1], OTHERS_WAIT, text=text), out)
            return
        self._ask(agent, plan, out)

    def _decline_asked(self, asked: Asked, agent: Address, declined: m.Declined, out: Effects) -> None:
        """Unless it may wait on."""
        if not self.line.waits_on(asked, declined, out):
            self.line.leaves(asked, out)
            self.desk.answer(asked, agent, declined, out)

    def _leave_line(self, agent: Address, request: str, out: Effects) -> None:
        """Nobody wants it any more. What is being asked for at hosts is offered, and lapses."""
        asked = self._askers.asker(agent).holder, request
        kept = None if self._settling is None else self._settling.kept.pop(asked, None)
        if self.line.leaves(asked, out) is not None or kept is not None:
            self.desk.answer(asked, agent, m.Declined(request, "cancelled"), out)

    def _quiet(self, name: str, out: Effects) -> None:
        """Who waits has not asked for long: he holds nobody up, and stands at the end if he comes again."""
        asked = self.line.named(name)
        if asked is not None and self.line.leaves(asked, out) and not self._is_asked_for(asked):
            del self.desk.answers[asked]

    def _is_asked_for(self, asked: Asked) -> bool:
        """At hosts, just now."""
        return any((one.asker.holder, one.request.request) == asked for one in self._rounds.values())

    def _try_line(self, out: Effects) -> None:
        """Those with nobody before them. One that is being asked for is tried when that is decided."""
        under_way = {(one.asker.holder, one.request.request) for one in self._rounds.values()}
        for asked, waiter in list(self.line.waiters.items()):
            if asked not in under_way and not self.line.is_behind(asked, waiter.kept.message.request.terms):
                self._take_up(waiter.kept, out)
        if self.line.waiters:
            out.append(SetTimer(LINE_TIMER, self.settings.heartbeat_ms))

    def _waited(self, name: str, out: Effects) -> None:
        """Its time is over. One that is being asked for has its answer when that is decided."""
        asked = self.line.named(name)
        waiter = None if asked is None else self.line.leaves(asked, out)
        if asked is None or waiter is None or waiter.last is None:
            return
        if not self._is_asked_for(asked):
            self.desk.answer(asked, waiter.kept.agent, waiter.last, out)

    def _ask(self, agent: Address, plan: Plan, out: Effects) -> None:
        self._counter += 1
        name = f"{self.epoch}.{self._counter}"
        hosts = self.members.foremost(plan.hosts, plan.request, self._counter)
        self._rounds[name] = new_round(name, agent, plan.asker, plan.request, plan.requested, hosts)
        settings = self.settings
        hold_ms = settings.propose_ms + settings.offer_ms + settings.spare_ms
        propose = m.Propose(
            self.epoch, name, agent, plan.asker, plan.request, plan.duration, hold_ms, plan.requested
        )
        out += [Send(self.members.known[host].address, propose) for host in hosts]
        out.append(SetTimer(f"round/{name}", settings.propose_ms))

    def _proposal(self, sender: Address, message: m.Proposal, out: Effects) -> None:
        host = self._host_at(sender)
        round_ = self._rounds.get(message.round)
        if round_ is None or host is None or host not in round_.waits:
            chosen = self.desk.of_hold(message.hold) is not None
            chosen = chosen or (round_ is not None and host in round_.proposals)
            if not chosen:
                out.append(Send(sender, m.Cancel(self.epoch, message.hold)))
            return
        self._heard(round_.proposes(host, message), out)

    def _refusal(self, sender: Address, message: m.HostRefused, out: Effects) -> None:
        host = self._host_at(sender)
        round_ = self._rounds.get(message.round)
        if round_ is not None and host is not None and host in round_.waits:
            self._heard(round_.refuses(host, message), out)

    def _heard(self, round_: Round, out: Effects) -> None:
        self._rounds[round_.name] = round_
        if not round_.waits:
            self._decide(round_, out)

    def _decide(self, round_: Round, out: Effects) -> None:
        """All have answered, or the time is over. One that answers later is cancelled then."""
        del self._rounds[round_.name]
        out.append(CancelTimer(f"round/{round_.name}"))
        chosen = round_.choice(self._policy)
        for host in sorted(round_.proposals):
            if host != chosen:
                self._to_host(host, m.Cancel(self.epoch, round_.proposals[host].hold), out)
        asked = round_.asker.holder, round_.request.request
        if chosen is None:
            self._decline_asked(asked, round_.agent, round_.declined(), out)
            return
        self.line.leaves(asked, out)
        hold = round_.proposals[chosen].hold
        offer_ms = self.settings.offer_ms
        self._to_host(chosen, m.Select(self.epoch, hold, offer_ms + self.settings.spare_ms), out)
        known = self.desk.leases.get(round_.request.replaces or "")
        lease = f"L-{self.settings.location}-{self.settings.address.node}-{round_.name}"
        document = offered_document(round_, chosen, self.settings.location, lease, known)
        self.desk.offer(OpenOffer(asked, round_.agent, round_.asker, hold, document), offer_ms, out)

    # ------------------------------------------------------------ offers

    def _accept(self, agent: Address, message: m.AcceptLease, out: Effects) -> None:
        holder = self._askers.asker(agent).holder
        lease, revision = message.lease, message.revision
        offer, known = self.desk.offers.get(lease), self.desk.leases.get(lease)
        owner = offer.document.holder if offer is not None else known.holder if known is not None else holder
        if owner != holder:
            out.append(Send(agent, m.UnknownLease(lease)))
        elif offer is not None and offer.document.revision == revision:
            offer = self.desk.accepted(offer, out)
            self._to_host(offer.document.host, m.Confirm(self.epoch, offer.hold, lease), out)
        elif known is not None and known.revision == revision:
            out.append(Send(agent, m.LeaseIs(known)))
        else:
            out.append(Send(agent, self.desk.too_late(lease, revision)))

    def _decline(self, agent: Address, message: m.DeclineLease, out: Effects) -> None:
        offer = self.desk.offers.get(message.lease)
        wanted = self._askers.asker(agent).holder, message.revision
        is_open = offer is not None and not offer.accepted
        if offer is not None and is_open and (offer.asker.holder, offer.document.revision) == wanted:
            self._to_host(offer.document.host, m.Cancel(self.epoch, offer.hold, "declined"), out)
            self.desk.lapses(offer, "declined", out)
        out.append(Send(agent, m.Done(message.lease)))

    # ------------------------------------------------------------ leases

    def _status(self, agent: Address, message: m.GetStatus, out: Effects) -> None:
        offer, known = self.desk.offers.get(message.lease), self.desk.leases.get(message.lease)
        document = known if known is not None else None if offer is None else offer.document
        if document is None or document.holder != self._askers.asker(agent).holder:
            out.append(Send(agent, m.UnknownLease(message.lease)))
        elif known is None:
            out.append(Send(agent, m.LeaseIs(document)))
        elif self.members.is_live(known.host):
            self._pass_on(agent, message.lease, message, m.UnknownLease(message.lease), out)
        else:
            out.append(Send(agent, m.LeaseIs(msgspec.structs.replace(known, host_reachable=False))))

    def _renew(self, agent: Address, message: m.RenewLeases, out: Effects) -> None:
        """One message to each host, for all its leases of the batch."""
        by_host: dict[str, list[tuple[m.Renewal, m.LeaseLimits]]] = {}
        intake = Intake(self.members, self.desk, self._policy)
        asker = self._askers.asker(agent)
        holder = asker.holder
        self.desk.asks(asker)
        for renewal in message.renewals:
            known = self.desk.leases.get(renewal.lease)
            if known is None or known.holder != holder or known.host not in self.members.known:
                out.append(Send(agent, m.Renewed(message.count, renewal.lease, reason="unknown")))
            else:
                judged = renewal, intake.renewal(asker, known, renewal, message.duration)
                by_host.setdefault(known.host, []).append(judged)
        for host, its in sorted(by_host.items()):
            part = m.RenewLeases(message.count, tuple(renewal for renewal, _ in its), message.duration)
            limits = tuple(one for _, one in its)
            self._to_host(host, m.PassOn(self.epoch, agent, asker, part, limits), out)

    def _pass_on(
        self,
        agent: Address,
        lease: str,
        message: m.ReleaseLease | m.GetStatus | m.SplitLease,
        unknown: Message,
        out: Effects,
    ) -> None:
        known, asker = self.desk.leases.get(lease), self._askers.asker(agent)
        if known is None or known.holder != asker.holder or known.host not in self.members.known:
            out.append(Send(agent, unknown))
        else:
            limits: tuple[m.LeaseLimits, ...] = ()
            if isinstance(message, m.SplitLease):
                limits = (Intake(self.members, self.desk, self._policy).part(asker, known, message),)
            self._to_host(known.host, m.PassOn(self.epoch, agent, asker, message, limits), out)

    # ------------------------------------------------------------ hosts

    def _hello(self, sender: Address, message: m.HostHello, out: Effects) -> None:
        if self.members.is_outdated(message.host, message.incarnation):
            return
        before = self.members.hello(sender, message, out)
        self.desk.reported(message.host, message.leases, message.askers, out)
        for document in message.leases:
            offer = self.desk.offers.get(document.lease)
            if offer is not None and offer.document.revision == document.revision:
                self.desk.confirmed(document, out)
        if before is not None and before.incarnation < message.incarnation:
            self._host_takes_none(message.host, "lapsed", out, before=message.incarnation)
        out.append(Send(sender, m.Welcome(self.epoch, known=True)))
        self._unheard.reported(message.host)
        if self._settling is not None and self._settling.reported(message.host):
            self._settled(out)

    def _lead(self, epoch: int, out: Effects) -> None:
        """From now on. What is known of hosts may be old, so each is asked for its leases anew."""
        self.epoch, self.is_deposed = epoch, False
        self.desk.forget_deposed()
        for host in sorted(self.members.known):
            self._to_host(host, m.Welcome(epoch, known=False), out)
        if not isinstance(self._policy, AllowAll):
            kept = {} if self._settling is None else self._settling.kept
            there = [one.host for one in self.members.known.values() if one.presence != "gone"]
            self._unheard.begins(out)
            self._settling = Settling([*there, *self._unheard.hosts()] if there else ())
            self._settling.kept = kept
            out.append(SetTimer(SETTLE_TIMER, settle_ms(self.settings.heartbeat_ms)))

    def _settled(self, out: Effects) -> None:
        """Requests that waited are taken up in the order in which they came."""
        settling, self._settling = self._settling, None
        out.append(CancelTimer(SETTLE_TIMER))
        for kept in settling.kept.values() if settling is not None else ():
            self._take_up(kept, out)

    def _host_takes_none(self, host: str, why: str, out: Effects, before: int | None = None) -> None:
        """What it was asked or has promised is void: it leaves, or has restarted, and then only what is of `before`."""
        for offer in [one for one in self.desk.offers.values() if one.document.host == host]:
            is_void = not offer.accepted if before is None else offer.document.host_incarnation < before
            if is_void:
                self.desk.lapses(offer, why, out)
        for round_ in list(self._rounds.values()):
            known = round_.proposals.get(host)
            if host in round_.waits or (known is not None and (before is None or known.incarnation < before)):
                self._heard(round_.refuses(host, m.HostRefused(round_.name, why)), out)

    def _stale(self, message: m.StaleLm, out: Effects) -> None:
        """Another manager leads: nothing that is open here can come to an end here."""
        if message.epoch <= self.epoch:
            return
        self.is_deposed = True
        settling, self._settling = self._settling, None
        for kept in settling.kept.values() if settling is not None else ():
            out.append(Send(kept.agent, m.Declined(kept.message.request.request, "stale_lm")))
        for asked in list(self.line.waiters):
            waiter = self.line.leaves(asked, out)
            if waiter is not None:
                self.desk.answer(asked, waiter.kept.agent, m.Declined(asked[1], "stale_lm"), out)
        for offer in list(self.desk.offers.values()):
            self.desk.lapses(offer, "stale_lm", out)
        for round_ in list(self._rounds.values()):
            del self._rounds[round_.name]
            out.append(CancelTimer(f"round/{round_.name}"))
            asked = round_.asker.holder, round_.request.request
            self.desk.answer(asked, round_.agent, m.Declined(asked[1], "stale_lm"), out)

    def _host_at(self, address: Address) -> str | None:
        return next((one.host for one in self.members.known.values() if one.address == address), None)

    def _to_host(self, host: str, message: Message, out: Effects) -> None:
        out.append(Send(self.members.known[host].address, message))

    # ------------------------------------------------------------ timers

    def _fired(self, kind: str, name: str, out: Effects) -> None:
        match kind:
            case "round":
                if name in self._rounds:
                    self._decide(self._rounds[name], out)
            case "offer":
                offer = self.desk.offers.get(name)
                if offer is not None and not offer.accepted:
                    self._to_host(offer.document.host, m.Cancel(self.epoch, offer.hold, "lapsed"), out)
                    self.desk.lapses(offer, "lapsed", out)
            case "suspect" | "gone":
                self.members.missing(name, "suspect" if kind == "suspect" else "gone")
            case "lease":
                known = self.desk.leases.get(name)
                reachable = known is not None and self.members.is_live(known.host)
                self.desk.lease_timer(name, reachable=reachable, out=out)
            case "answer":
                self.desk.forget_answer(name)
            case "settle":
                self._settled(out)
            case "unheard":
                self._unheard.is_over()
            case "line":
                self._try_line(out)
            case "wait":
                self._waited(name, out)
            case "quiet":
                self._quiet(name, out)
            case _:
                raise ProtocolViolation(f"no timer of a location's manager: {kind}")
