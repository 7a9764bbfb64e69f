"""From a location's question to an active lease at one host: propose, select, confirm, or let go.

A hold is saved although a restart drops it: the units that were claimed for it must be given back then.
Source: lease negotiation, sections 4.3 and 4.5.
"""

from collections.abc import Hashable

import msgspec

from holdall.leases.fences import Fences
from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.allotment import Allotted, Question, Short
from holdall.leases.negotiation.book import Claiming, HostBook
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.negotiation.states import OPEN
from holdall.leases.templates import violations
from holdall.machine.contract import Address, CancelTimer, ProtocolViolation, Send, SetTimer
from holdall.model.terms import DURATION, LeasedUnit, TermStatus, fraction_text
from holdall.protocols.hooks import Effects

ROUNDS_SPARE = 64
"""Rounds whose holds are forgotten are looked for when so many more are known than holds."""


class Offering:
    """The holds of a host's book, up to their confirmation."""

    def __init__(self, book: HostBook, fences: Fences) -> None:
        self._book, self._fences = book, fences
        self._counter = 0
        self._rounds: dict[tuple[Address, str], tuple[str, tuple[int, int]]] = {}

    # ------------------------------------------------------------ proposing

    def propose(self, location: Address, message: m.Propose, refused: Short | None, out: Effects) -> None:
        """Answer with what can be held, and hold it; or with why nothing can. The same question has the same answer."""
        known = self._rounds.get((location, message.round))
        if known is not None and (known[0] in self._book.claiming or known[0] in self._book.held):
            self._again(location, message, known, out)
            return
        duration, replaced = 0, None
        short = refused or self._misfit(message)
        if short is None:
            short, duration = self._duration(message)
        if short is None and message.request.replaces is not None:
            replaced = self._book.of(message.request.replaces, message.asker.holder)
            if replaced is None or replaced.state != "active":
                short = Short("replaces", "")
        if short is not None:
            self._refuse(location, message.round, short, out)
            return
        if replaced is not None:
            # A lease has one replacement at most that is held; an earlier one makes way.
            self._book.withdraw_replacements(replaced, out)
        self._hold(location, message, duration, replaced, out)

    def units(self, message: h.UnitsAre | h.UnitsShort, out: Effects) -> None:
        """An answer to a claim of units. One that comes for a hold that is over is given back by whoever claims them."""
        asking = self._book.claiming.get(message.party)
        if asking is None or message.pool not in asking.waits:
            return
        if isinstance(message, h.UnitsShort):
            del self._book.claiming[message.party]
            self._book.let_go(asking, out)
            short = Short("not_free", message.pool, best_possible={message.pool: message.free})
            self._refuse(asking.location, asking.record.round, short, out)
            return
        statuses = tuple(
            _with_units(one, message) if one.name == message.pool else one for one in asking.record.terms
        )
        asking = msgspec.structs.replace(
            asking,
            record=msgspec.structs.replace(asking.record, terms=statuses),
            waits=asking.waits - {message.pool},
        )
        self._book.claiming[message.party] = asking
        if not asking.waits:
            del self._book.claiming[message.party]
            self._proposed(asking, out)

    def units_lost(self, message: h.UnitsLost, out: Effects) -> None:
        """Its pool's manager has taken units away: what is held, leased or being put together with them is over."""
        asking = self._book.claiming.pop(message.party, None)
        if asking is None:
            self._book.units_lost(message.party, message.pool, out)
            return
        self._book.let_go(asking, out)
        self._refuse(asking.location, asking.record.round, Short("not_free", message.pool), out)

    def _hold(
        self,
        location: Address,
        message: m.Propose,
        duration: int,
        replaced: HeldLease | None,
        out: Effects,
    ) -> None:
        book = self._book
        self._counter += 1
        hold = f"{book.settings.host}.{book.incarnation}.{self._counter}"
        question = Question(
            hold,
            message.asker,
            message.request.terms,
            duration,
            book.now_ms,
            None if replaced is None else replaced.party,
            frozenset() if replaced is None else frozenset(one.name for one in replaced.terms),
        )
        holdings = book.holdings("" if replaced is None else replaced.hold)
        found = book.allotments.allot(question, holdings)
        if isinstance(found, Short):
            self._refuse(location, message.round, found, out)
            return
        record = HeldLease(
            hold,
            "proposed",
            message.agent,
            message.asker,
            message.request.request,
            message.request.terms,
            _as_requested(found.terms, message.requested),
            duration,
            hold,
            replaces="" if replaced is None else replaced.hold,
            template=message.request.template,
            has_units=bool(found.pools),
            round=message.round,
            before_end=message.request.before_end,
        )
        self._remember(location, message.round, hold, found.left)
        self._claim_units(location, message, record, found, out)

    def _claim_units(
        self, location: Address, message: m.Propose, record: HeldLease, found: Allotted, out: Effects
    ) -> None:
        asking = Claiming(record, location, message.hold_ms, found.left, frozenset(found.pools))
        if not found.pools:
            self._proposed(asking, out)
            return
        units = self._book.settings.units
        if units is None:
            self._book.allotments.withdraw(record.party, record.terms)
            self._refuse(location, message.round, Short("no_units", min(found.pools)), out)
            return
        self._book.save_hold(record, out)
        empty = tuple(
            TermStatus(pool, "pool", message.requested.get(pool, record.wanted[pool].amount), 0)
            for pool in found.pools
        )
        terms = tuple(sorted((*record.terms, *empty), key=lambda one: one.name))
        self._book.claiming[record.hold] = msgspec.structs.replace(
            asking, record=msgspec.structs.replace(record, terms=terms)
        )
        for pool in sorted(found.pools):
            least, most = found.pools[pool]
            holder = record.asker.holder
            out.append(Send(units, h.WantUnits(record.hold, pool, most, least, record.replaces, holder)))

    def _proposed(self, asking: Claiming, out: Effects) -> None:
        record = asking.record
        self._book.lodge(record, out)
        out.append(SetTimer(f"hold/{record.hold}", asking.hold_ms))
        out.append(
            Send(
                asking.location,
                self._proposal(record, asking.left),
            )
        )

    def _proposal(self, record: HeldLease, left: tuple[int, int]) -> m.Proposal:
        return m.Proposal(
            record.round, record.hold, record.terms, record.duration, self._book.incarnation, left
        )

    def _again(
        self, location: Address, message: m.Propose, known: tuple[str, tuple[int, int]], out: Effects
    ) -> None:
        record = self._book.held.get(known[0])
        if record is None:
            return
        if record.state == "proposed":
            out.append(Send(location, self._proposal(record, known[1])))
        elif record.state != "offered" and not record.lease:
            self._refuse(location, message.round, Short("withdrawn", ""), out)

    def _misfit(self, message: m.Propose) -> Short | None:
        """As it was asked; what the location's policy has left of it need not keep to steps."""
        asked = {
            name: term
            if name not in message.requested
            else msgspec.structs.replace(term, amount=message.requested[name])
            for name, term in message.request.terms.items()
        }
        request = msgspec.structs.replace(message.request, terms=asked)
        for violation in violations(request, self._book.settings.template):
            return Short(violation.code, violation.term)
        return None

    def _duration(self, message: m.Propose) -> tuple[Short | None, int]:
        duration, allowed = self._book.allotments.duration(
            message.asker, message.duration, message.request.terms, self._book.holdings()
        )
        return (None if duration else Short("policy", DURATION, allowed.rule)), duration

    def _refuse(self, location: Address, round_: str, short: Short, out: Effects) -> None:
        retry = self._book.retry_after_ms() if short.reason in {"oversubscribed", "not_free"} else 0
        refused = m.HostRefused(round_, short.reason, short.term, short.rule, short.best_possible, retry)
        out.append(Send(location, refused))

    def _remember(self, location: Address, round_: str, hold: str, left: tuple[int, int]) -> None:
        known = self._book.held
        if len(self._rounds) > len(known) + len(self._book.claiming) + ROUNDS_SPARE:
            self._rounds = {
                one: found
                for one, found in self._rounds.items()
                if found[0] in known or found[0] in self._book.claiming
            }
        self._rounds[location, round_] = hold, left

    # ------------------------------------------------------------ chosen or not

    def select(self, location: Address, message: m.Select, out: Effects) -> None:
        """It is offered to the agent, and lapses after the time of the offer."""
        record = self._book.held.get(message.hold)
        if record is None or (record.state not in OPEN and not record.lease):
            out.append(Send(location, m.UnknownHold(message.hold)))
            return
        # After the confirmation, which may overtake it, it says nothing new.
        if record.state == "proposed":
            self._book.occurs(record, "select", out)
            out.append(SetTimer(f"hold/{record.hold}", message.offer_ms))

    def cancel(self, location: Address, message: m.Cancel, out: Effects) -> None:
        """Free at once. Not answered: one that is lost is harmless, as the hold lapses."""
        del location
        record = self._book.held.get(message.hold)
        if record is None or record.state not in OPEN:
            return
        if record.state == "proposed":
            self._book.occurs(record, "cancel", out)
        else:
            self._book.occurs(record, "decline" if message.why == "declined" else "offer_lapse", out)

    def confirm(self, location: Address, message: m.Confirm, out: Effects) -> None:
        """From hold to lease. One that comes again has the same answer; one that comes too late grants nothing."""
        record = self._book.held.get(message.hold)
        if record is not None and record.state == "active" and record.lease == message.lease:
            out.append(Send(location, m.Confirmed(record.hold, self._book.document(record))))
            return
        if record is None or record.state not in OPEN:
            out.append(Send(location, m.UnknownHold(message.hold)))
            return
        old = self._book.held[record.replaces] if record.replaces else None
        if message.lease != (old.lease if old is not None else message.lease) or (
            old is None and self._book.of(message.lease) is not None
        ):
            raise ProtocolViolation(f"hold {message.hold} can't become lease {message.lease}")
        if record.state == "proposed":
            # The order that selected it was lost; the agent has accepted it all the same.
            record = self._book.occurs(record, "select", out)
        self._confirmed(location, record, old, message.lease, out)

    def _confirmed(
        self, location: Address, record: HeldLease, old: HeldLease | None, lease: str, out: Effects
    ) -> None:
        book = self._book
        fence = self._fences.following(out) if old is None else old.fence
        revision = 1 if old is None else old.revision + 1
        limits = {} if old is None else old.limits
        record = msgspec.structs.replace(
            record, lease=lease, fence=fence, revision=revision, replaces="", limits=limits
        )
        out.append(CancelTimer(f"hold/{record.hold}"))
        record = book.occurs(record, "confirm", out)
        if old is not None:
            book.allotments.take_over(record.party, record.terms, old.party, old.terms)
            book.drop(old, out)
        book.begins(record, out)
        units = book.settings.units
        if units is not None and record.has_units:
            out.append(Send(units, h.KeepUnits(record.hold, "" if old is None else old.hold)))
        elif units is not None and old is not None and old.has_units:
            out.append(Send(units, h.FreeUnits(old.hold)))
        out.append(Send(location, m.Confirmed(record.hold, book.document(record))))

    # ------------------------------------------------------------ twins

    def copy(self, book: HostBook, fences: Fences) -> "Offering":
        """An independent twin on a twin of the book."""
        twin = Offering(book, fences)
        twin._counter = self._counter
        twin._rounds = dict(self._rounds)
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return self._counter, tuple(sorted(self._rounds.items()))


def _with_units(status: TermStatus, message: h.UnitsAre) -> TermStatus:
    units = tuple(LeasedUnit(one.unit, one.node, one.fence) for one in message.units)
    return msgspec.structs.replace(
        status, granted=len(units), units=units, fraction=fraction_text(len(units), status.requested)
    )


def _as_requested(terms: tuple[TermStatus, ...], requested: dict[str, int]) -> tuple[TermStatus, ...]:
    """With what the agent asked for, where the location's policy asked the host for less."""
    return tuple(
        msgspec.structs.replace(
            one,
            requested=requested[one.name],
            fraction=fraction_text(one.granted, requested[one.name]),
        )
        if one.name in requested
        else one
        for one in terms
    )
