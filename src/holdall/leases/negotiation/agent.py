"""An agent's side: request, accept, renew in time, and stop in time.

The holder's time counts from before it sent what was answered, so nothing that is late or lost can make it hold on too
long. Half-way through (earlier by chance, so that holders don't come together) it asks the location for renewal; after
seven eighths it asks the host itself, so that a location without a manager ends no work. Nothing is saved: an agent
that restarts holds nothing, and its leases run out. Source: lease negotiation, sections 4.5, 4.6 and 10.1.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.leases.holder import DEADLINE_TIMER, Deadlines
from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.parting import Parting
from holdall.machine.contract import (
    Address,
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
from holdall.model.terms import DURATION, LeaseDocument, LeaseRequest, RequestedTerm
from holdall.protocols.hooks import Effects

RELEASES_MOST = 10
"""A release that nobody answers is repeated so often; the lease ends by itself in any case."""


class AgentSettings(msgspec.Struct, frozen=True):
    """Whom an agent asks, and who uses what it gets. Times in ms."""

    owner: Address
    managers: tuple[Address, ...]
    """Of the location; the next one is asked when one does not answer."""
    host_part: str = "host"
    """A host's manager is `Address(host, host_part)`."""
    rho_ppm: int = 20_000
    margin_ms: int = 100
    """Longest time that an action takes which the owner has begun."""
    repeat_ms: int = 2000


class _Wanted(msgspec.Struct, frozen=True):
    """A request that has no lease yet."""

    request: LeaseRequest
    take: bool
    offer: LeaseDocument | None = None
    manager: Address | None = None
    """Who made the offer."""
    taken: bool = False


class Agent:
    """One holder's machine."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        self.held: dict[str, LeaseDocument] = {}
        """By lease: what may be used now."""
        self._deadlines = Deadlines(settings.rho_ppm, settings.margin_ms)
        self._wanted: dict[str, _Wanted] = {}
        self._releasing: dict[str, tuple[str, int]] = {}
        """Lease -> its host, and how often the release was sent."""
        self._taking_up: dict[str, tuple[int, int]] = {}
        """Lease that is not held yet -> the duration that is asked for, and the count of that question."""
        self._asked_ms: dict[str, int] = {}
        """Lease -> the duration that renewals ask for."""
        self._accepts: dict[str, int] = {}
        """Lease -> the count under which its acceptance was first sent."""
        self._shorter: dict[tuple[str, int], tuple[int, int]] = {}
        """(lease, duration) that was asked for and is shorter than what is had -> counts of the first and last such question."""
        self._parting = Parting()
        self._count = 0
        self._turn = 0
        self._now_ms = 0

    # ------------------------------------------------------------ the contract

    def start(self) -> Sequence[Effect]:
        """Nothing is wanted yet."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Nothing is held any more, as nobody knows for how long it was not running."""
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event and its whole answer."""
        out: Effects = []
        if isinstance(event, Received):
            self._received(event.sender, event.message, out)
        elif event.timer.startswith(DEADLINE_TIMER):
            lost = self._deadlines.fired(event.timer)
            if lost is not None:
                self._lose(lost[0], "expired", out)
        else:
            kind, _, name = event.timer.partition("/")
            self._fired(kind, name, out)
        return out

    def managed_by(self, managers: tuple[Address, ...]) -> None:
        """These are asked from now on, the first of them first. There must be one."""
        self.settings = msgspec.structs.replace(self.settings, managers=managers)
        self._turn = 0

    def offer_of(self, request: str) -> LeaseDocument | None:
        """What was offered for it and is not taken yet."""
        wanted = self._wanted.get(request)
        return None if wanted is None or wanted.taken else wanted.offer

    def left_ms(self, lease: str) -> int:
        """How long a lease that is held may be used from now on, if no renewal is answered any more."""
        held = self.held.get(lease)
        if held is None:
            return 0
        durations = [held.duration, *(duration for one, duration in self._shorter if one == lease)]
        return min(self._deadlines.left_ms(lease, duration, self._now_ms) for duration in durations)

    def until_ms(self, lease: str) -> int:
        """The same as a time of CLOCK_BOOTTIME; 0 for one that is not held."""
        return self._now_ms + self.left_ms(lease) if lease in self.held else 0

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            repr(sorted(self.held.items())),
            repr(sorted(self._wanted.items())),
            tuple(sorted(self._releasing.items())),
            tuple(sorted(self._taking_up.items())),
            tuple(sorted(self._asked_ms.items())),
            tuple(sorted(self._accepts.items())),
            tuple(sorted(self._shorter.items())),
            self._parting.key(),
            self._deadlines.key(),
            self._count,
            self._turn % len(self.settings.managers),
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.held, twin._wanted = dict(self.held), dict(self._wanted)
        twin._releasing, twin._asked_ms = dict(self._releasing), dict(self._asked_ms)
        twin._taking_up, twin._parting = dict(self._taking_up), self._parting.copy()
        twin._accepts, twin._deadlines = dict(self._accepts), self._deadlines.copy()
        twin._shorter = dict(self._shorter)
        return twin

    # ------------------------------------------------------------ messages

    def _received(self, sender: Address, message: Message, out: Effects) -> None:
        match message:
            case ClockRead():
                self._now_ms = message.boot_ms
            case a.Want():
                self._wants(message, out)
            case a.Take():
                self._takes(message.request, out)
            case a.Leave():
                self._leaves(message.request, out)
            case a.RenewNow():
                if message.lease in self.held:
                    self._asked_ms[message.lease] = message.duration or self._asked_ms[message.lease]
                    self._renew(message.lease, self._manager(), out, message.terms)
            case a.TakeUp():
                self._takes_up(message, out)
            case a.GiveBack():
                self._gives_back(message.lease, out)
            case a.CutOff(order):
                self._cuts_off(order, out)
            case m.Split():
                self._parted(message.part.lease, message, out)
            case m.NoSplit():
                held = self.held.get(message.lease)
                if held is None or sender == self._host(held.host):
                    # A manager that knows nothing of it can't tell that the host has not cut it before.
                    self._parted(message.part, message, out)
            case m.Offer():
                self._offered(sender, message, out)
            case m.Declined():
                if self._wanted.pop(message.request, None) is not None:
                    out += (CancelTimer(f"ask/{message.request}"), self._tell(a.NotOffered(message)))
            case m.LeaseIs():
                self._is(message.document, out)
            case m.Lapsed() | m.StaleRevision():
                self._void(message.lease, message.revision, message, out)
            case m.Renewed():
                self._renewed(sender, message, out)
            case m.Revoking():
                self._warned(message, out)
            case m.Done():
                self._released(message.lease, out)
            case m.UnknownLease():
                self._unknown(sender, message.lease, out)
            case m.Queued():
                if message.request in self._wanted:
                    out.append(self._tell(a.InLine(message)))
            case m.Templates():
                pass
            case _:
                raise ProtocolViolation(f"no message for an agent: {type(message).__name__}")

    def _fired(self, kind: str, name: str, out: Effects) -> None:
        match kind:
            case "ask":
                if name in self._wanted and self._wanted[name].offer is None:
                    self._turn += 1
                    self._ask(self._wanted[name].request, out)
            case "accept":
                wanted = self._taken(name)
                if wanted is not None and wanted.offer is not None:
                    # The manager may be gone; another one learns of the lease from its host.
                    self._turn += 1
                    out.append(Send(self._manager(), m.AcceptLease(name, wanted.offer.revision)))
                    out.append(SetTimer(f"accept/{name}", self.settings.repeat_ms))
            case "renew":
                if name in self.held:
                    self._renew(name, self._manager(), out)
                    out.append(SetTimer(f"renew/{name}", max(1, self._asked_ms[name] // 8)))
            case "rebind":
                if name in self.held:
                    self._turn += 1
                    self._renew(name, self._host(self.held[name].host), out)
                    out.append(SetTimer(f"rebind/{name}", max(1, self._asked_ms[name] // 32)))
            case "revoked":
                self._lose(name, "revoked", out)
            case "release":
                self._release(name, out)
            case "split":
                self._ask_split(name, out)
            case _:
                raise ProtocolViolation(f"no timer of an agent: {kind}")

    # ------------------------------------------------------------ requests and offers

    def _wants(self, message: a.Want, out: Effects) -> None:
        if message.request.request not in self._wanted:
            self._wanted[message.request.request] = _Wanted(message.request, message.take)
            self._ask(message.request, out)

    def _ask(self, request: LeaseRequest, out: Effects) -> None:
        out.append(Send(self._manager(), m.RequestLease(request)))
        out.append(SetTimer(f"ask/{request.request}", self.settings.repeat_ms))

    def _offered(self, sender: Address, message: m.Offer, out: Effects) -> None:
        wanted, document = self._wanted.get(message.request), message.document
        known = None if wanted is None else wanted.offer
        if wanted is None or (known is not None and known.lease != document.lease):
            # Not wanted, or another manager was first.
            if document.lease not in self.held:
                out.append(Send(sender, m.DeclineLease(document.lease, document.revision)))
            return
        if known is not None:
            return
        self._wanted[message.request] = msgspec.structs.replace(wanted, offer=document, manager=sender)
        out.append(CancelTimer(f"ask/{message.request}"))
        if wanted.take:
            self._takes(message.request, out)
        else:
            out.append(self._tell(a.Offered(message.request, document, message.offer_ms)))

    def _takes(self, request: str, out: Effects) -> None:
        wanted = self._wanted.get(request)
        if wanted is None or wanted.offer is None or wanted.manager is None or wanted.taken:
            return
        self._wanted[request] = msgspec.structs.replace(wanted, taken=True)
        offer = wanted.offer
        self._count += 1
        if offer.lease in self.held:
            self._may_get_shorter(offer.lease, offer.duration, out)
            self._deadlines.sent(offer.lease, (offer.duration,), self._count, self._now_ms, out)
        else:
            self._deadlines.begins(offer.lease, offer.duration, self._count, self._now_ms, out)
        self._accepts[offer.lease] = self._count
        out.append(Send(wanted.manager, m.AcceptLease(offer.lease, offer.revision)))
        out.append(SetTimer(f"accept/{offer.lease}", self.settings.repeat_ms))

    def _leaves(self, request: str, out: Effects) -> None:
        wanted = self._wanted.get(request)
        if wanted is None or wanted.taken:
            return
        del self._wanted[request]
        out.append(CancelTimer(f"ask/{request}"))
        if wanted.offer is not None and wanted.manager is not None:
            out.append(Send(wanted.manager, m.DeclineLease(wanted.offer.lease, wanted.offer.revision)))
        elif wanted.request.wait_ms:
            out.append(Send(self._manager(), m.LeaveLine(request)))

    def _void(self, lease: str, revision: int, message: Message, out: Effects) -> None:
        """An acceptance came to nothing. A lease that the offer was to replace goes on."""
        wanted = self._taken(lease)
        if wanted is None or wanted.offer is None or wanted.offer.revision != revision:
            return
        count = self._accepts.get(lease, 0)
        self._drop_wanted(wanted, out)
        if lease in self.held:
            self._settled(lease, count, count)
        else:
            self._deadlines.over(lease, wanted.offer.duration)
            self._deadlines.leaves(lease)
        reason = "lapsed" if isinstance(message, m.Lapsed) else "stale_revision"
        out.append(self._tell(a.NotOffered(m.Declined(wanted.request.request, reason))))

    # ------------------------------------------------------------ holding

    def _is(self, document: LeaseDocument, out: Effects) -> None:
        wanted = self._taken(document.lease)
        if wanted is None or wanted.offer is None or document.state != "active":
            return
        if document.revision != wanted.offer.revision:
            return
        count = self._accepts[document.lease]
        self._drop_wanted(wanted, out)
        self._answered(document, count, out)

    def _answered(self, document: LeaseDocument, count: int, out: Effects) -> None:
        """The lease is had in this revision; its time runs from when `count` was sent."""
        lease, duration = document.lease, document.duration
        before = self.held.get(lease)
        if before is not None and before.duration != duration:
            self._deadlines.over(lease, before.duration)
        self._deadlines.answered(lease, (duration,), count)
        self.held[lease] = self._parting.told(document)
        self._settled(lease, 0, count)
        self._asked_ms[lease] = duration
        out.append(SetTimer(f"renew/{lease}", max(1, duration * 2 // 5), spread_ms=duration // 10))
        out.append(SetTimer(f"rebind/{lease}", max(1, duration * 7 // 8)))
        out.append(self._tell(a.Got(self.held[lease])))

    def _renew(
        self, lease: str, to: Address, out: Effects, terms: dict[str, RequestedTerm] | None = None
    ) -> None:
        duration = self._asked_ms[lease]
        self._count += 1
        if self._may_get_shorter(lease, duration, out):
            out.append(SetTimer(f"renew/{lease}", max(1, duration // 8)))
            out.append(SetTimer(f"rebind/{lease}", max(1, duration // 2)))
        self._deadlines.sent(lease, (duration,), self._count, self._now_ms, out)
        out.append(Send(to, m.RenewLeases(self._count, (m.Renewal(lease, terms),), duration)))

    def _may_get_shorter(self, lease: str, duration: int, out: Effects) -> bool:
        """Its host may grant less time than is had long before that is heard: then no more is had from when it was asked.

        True: nothing so short was under way.
        """
        if duration >= self.held[lease].duration:
            return False
        first = self._shorter.get((lease, duration), (self._count, 0))[0]
        self._shorter[lease, duration] = first, self._count
        self._deadlines.begins(lease, duration, self._count, self._now_ms, out)
        return first == self._count

    def _settled(self, lease: str, since: int, until: int) -> None:
        """What came of all questions with these counts is known."""
        held = self.held.get(lease)
        for (one, duration), (first, last) in list(self._shorter.items()):
            if one == lease and since <= first and last <= until:
                del self._shorter[one, duration]
                if held is None or held.duration != duration:
                    self._deadlines.over(lease, duration)

    def _takes_up(self, message: a.TakeUp, out: Effects) -> None:
        lease, duration = message.lease, message.duration
        if lease in self.held:
            return
        self._count += 1
        before = self._taking_up.get(lease)
        if before is not None:
            self._deadlines.over(lease, before[0])
        self._taking_up[lease] = duration, self._count
        self._deadlines.begins(lease, duration, self._count, self._now_ms, out)
        renewal = m.RenewLeases(self._count, (m.Renewal(lease, message.terms),), duration)
        out.append(Send(self._manager(), renewal))

    def _taken_up(self, message: m.Renewed, out: Effects) -> None:
        """The answer for a lease that is not held yet. One that comes too late changes nothing."""
        asked = self._taking_up.get(message.lease)
        if asked is None or asked[1] != message.count:
            return  # of an earlier question, whose time is not noted any more
        del self._taking_up[message.lease]
        duration, document = asked[0], message.document
        if document is not None and document.duration == duration:
            self._answered(document, message.count, out)
            return
        self._deadlines.over(message.lease, duration)
        self._deadlines.leaves(message.lease)
        if document is not None:
            # Another duration than was asked for, whose deadline is not set: ask for just that.
            self._takes_up(a.TakeUp(message.lease, document.duration), out)
        elif message.reason in {"unknown", "ended"}:
            out.append(self._tell(a.Lost(message.lease, message.reason)))
        else:
            out.append(self._tell(a.NotRenewed(message.lease, message.reason, message.term, message.rule)))

    def _renewed(self, sender: Address, message: m.Renewed, out: Effects) -> None:
        lease, held = message.lease, self.held.get(message.lease)
        if held is None:
            self._taken_up(message, out)
            return
        if message.document is not None:
            if message.document.revision > held.revision:
                self._answered(message.document, message.count, out)
            return
        self._settled(lease, message.count, message.count)
        from_host = sender == self._host(held.host)
        if message.reason == "ended" or (message.reason == "unknown" and from_host):
            self._lose(lease, "ended", out)
        elif message.reason == "worse" and message.term == DURATION:
            shorter = message.best_possible[DURATION]
            if shorter < self._asked_ms[lease]:
                self._asked_ms[lease] = shorter
                self._renew(lease, sender, out)
        elif message.reason != "unknown":
            if all(one != lease for one, _ in self._shorter):
                self._asked_ms[lease] = held.duration  # it goes on as it was
            out.append(self._tell(a.NotRenewed(lease, message.reason, message.term, message.rule)))

    def _warned(self, message: m.Revoking, out: Effects) -> None:
        if message.lease in self.held:
            out.append(self._tell(a.Warned(message.lease, message.grace_ms, message.why)))
            out.append(SetTimer(f"revoked/{message.lease}", message.grace_ms))

    def _unknown(self, sender: Address, lease: str, out: Effects) -> None:
        """To an acceptance: another manager may learn of it yet, so it is asked again until the time is over."""
        releasing = self._releasing.get(lease)
        if releasing is not None and sender == self._host(releasing[0]):
            self._released(lease, out)

    # ------------------------------------------------------------ parts for others

    def _cuts_off(self, order: m.SplitLease, out: Effects) -> None:
        if order.part in self._parting.orders:
            return
        left = self._parting.begins(order, self.held.get(order.lease))
        if left is not None:
            self.held[order.lease] = left
        self._ask_split(order.part, out)

    def _ask_split(self, part: str, out: Effects) -> None:
        order = self._parting.orders.get(part)
        if order is None:
            return
        held, sent = self.held.get(order.lease), self._parting.sent[part]
        if held is None and sent >= RELEASES_MOST:
            self._parted(part, m.NoSplit(order.lease, part, "no_answer"), out)
            return
        self._parting.sent[part] = sent + 1
        if sent:
            self._turn += 1
        # The location's policy is asked as well: as a request, it is nothing without a manager.
        out.append(Send(self._manager(), order))
        out.append(SetTimer(f"split/{part}", self.settings.repeat_ms))

    def _parted(self, part: str, answer: m.Split | m.NoSplit, out: Effects) -> None:
        lease = answer.rest.lease if isinstance(answer, m.Split) else answer.lease
        if part not in self._parting.orders or self._parting.orders[part].lease != lease:
            held = self.held.get(lease)
            if isinstance(answer, m.Split) and held is not None and answer.rest.revision > held.revision:
                # Answered before, or of an order that was given up, or from before this agent began.
                self.held[lease] = self._parting.told(answer.rest)
            return
        left = self._parting.answered(part, answer.rest if isinstance(answer, m.Split) else None)
        if left is not None and lease in self.held:
            self.held[lease] = left
        out.append(CancelTimer(f"split/{part}"))
        if isinstance(answer, m.Split):
            out.append(self._tell(a.Parted(answer.rest, answer.part)))
        else:
            out.append(self._tell(a.NotParted(*msgspec.structs.astuple(answer))))

    # ------------------------------------------------------------ ends

    def _lose(self, lease: str, reason: str, out: Effects) -> None:
        held, wanted = self.held.get(lease), self._taken(lease)
        asked = self._taking_up.pop(lease, None)
        if asked is not None:
            self._deadlines.over(lease, asked[0])
            out.append(self._tell(a.Lost(lease, reason)))
        if held is None and wanted is None:
            return
        if wanted is not None:
            self._drop_wanted(wanted, out)
        if held is not None:
            self._stop(held, out)
        elif wanted is not None and wanted.offer is not None:
            # It may be active at its host, with an answer that is lost.
            self._deadlines.over(lease, wanted.offer.duration)
            self._releasing[lease] = wanted.offer.host, 0
            self._release(lease, out)
        out.append(self._tell(a.Lost(lease, reason)))

    def _gives_back(self, lease: str, out: Effects) -> None:
        held = self.held.get(lease)
        if held is not None:
            self._stop(held, out)
            self._releasing[lease] = held.host, 0
            self._release(lease, out)

    def _release(self, lease: str, out: Effects) -> None:
        host, sent = self._releasing.get(lease, ("", RELEASES_MOST))
        if sent >= RELEASES_MOST:
            self._releasing.pop(lease, None)
            return
        self._releasing[lease] = host, sent + 1
        out.append(Send(self._host(host), m.ReleaseLease(lease)))
        out.append(SetTimer(f"release/{lease}", self.settings.repeat_ms))

    def _released(self, lease: str, out: Effects) -> None:
        if self._releasing.pop(lease, None) is not None:
            out.append(CancelTimer(f"release/{lease}"))

    def _stop(self, held: LeaseDocument, out: Effects) -> None:
        """Not used any more; its deadlines mean nothing."""
        del self.held[held.lease]
        self._settled(held.lease, 0, self._count)
        self._parting.lost(held.lease)
        self._asked_ms.pop(held.lease, None)
        self._deadlines.over(held.lease, held.duration)
        self._deadlines.leaves(held.lease)
        out += [CancelTimer(f"{kind}/{held.lease}") for kind in ("renew", "rebind", "revoked")]

    # ------------------------------------------------------------ inside

    def _taken(self, lease: str) -> _Wanted | None:
        return next(
            (
                one
                for one in self._wanted.values()
                if one.taken and one.offer is not None and one.offer.lease == lease
            ),
            None,
        )

    def _drop_wanted(self, wanted: _Wanted, out: Effects) -> None:
        del self._wanted[wanted.request.request]
        if wanted.offer is not None:
            self._accepts.pop(wanted.offer.lease, None)
            out.append(CancelTimer(f"accept/{wanted.offer.lease}"))

    def _manager(self) -> Address:
        return self.settings.managers[self._turn % len(self.settings.managers)]

    def _host(self, host: str) -> Address:
        return Address(host, self.settings.host_part)

    def _tell(self, message: Message) -> Send:
        return Send(self.settings.owner, message)
