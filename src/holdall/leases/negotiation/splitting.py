"""Split of a lease that lives, at its host: amounts of its capacities become a lease of another holder, in one turn.

Both together have exactly what the one had. The part has an id and a fence of its own and ends no later than the first
would have; from then on the two have nothing to do with each other. The same order again is the same split.
Source: lease negotiation, section 4.8.
"""

from collections.abc import Mapping

import msgspec

from holdall.leases.fences import Fences
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.allotment import NO_LIMITS, Limits, Short
from holdall.leases.negotiation.book import HostBook
from holdall.leases.negotiation.interfaces import Holding
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.templates import violations
from holdall.machine.contract import Address, Send
from holdall.model.location_frames import is_part_of
from holdall.model.terms import LeaseRequest, RequestedTerm, TermStatus, fraction_text
from holdall.protocols.hooks import Effects


class Splitting:
    """Keeps nothing of its own: the part's record tells of which lease it was cut."""

    def __init__(self, book: HostBook, fences: Fences) -> None:
        self._book, self._fences = book, fences

    def split(
        self, agent: Address, holder: str, message: m.SplitLease, out: Effects, limits: Limits = NO_LIMITS
    ) -> None:
        """Answered by Split, or NoSplit where nothing was changed. `limits`: of the part, by the location's policy."""
        book = self._book
        record, part = book.of(message.lease, holder), book.of(message.part)
        if record is not None and part is not None and _is_that(part, record, message):
            out.append(Send(agent, m.Split(book.document(record), book.document(part))))
            return
        found = self._cut(record, part, message, limits)
        if isinstance(found, Short) or record is None:
            short = found if isinstance(found, Short) else Short("unknown", "")
            none = m.NoSplit(
                message.lease, message.part, short.reason, short.term, short.rule, short.best_possible
            )
            out.append(Send(agent, none))
            return
        rest, cut = self._lodge(record, *found, out)
        out.append(Send(agent, m.Split(book.document(rest), book.document(cut))))
        book.tell(m.LeaseChanged(book.document(rest)), out)
        book.tell(m.LeaseChanged(book.document(cut), cut.asker), out)

    def _cut(
        self, record: HeldLease | None, part: HeldLease | None, message: m.SplitLease, limits: Limits
    ) -> tuple[HeldLease, HeldLease] | Short:
        """What stays and what goes, or why not."""
        if record is None:
            return Short("unknown", "")
        left_ms = self._book.document(record).remaining_ms
        if left_ms < 1:
            return Short("ended", "")
        if record.revoked_after_ms is not None:
            return Short("revoking", "")
        if not is_part_of(message.part, message.lease):
            return Short("part", "")
        if part is not None:
            return Short("taken", "")
        if not message.to.holder:
            return Short("to", "")
        short = self._unfit(record, message.amounts)
        if short is not None:
            return short
        rest = _rest(record, message.amounts)
        cut = msgspec.structs.replace(_part(record, message, left_ms), limits=dict(limits))
        return self._refused(record, rest, cut) or (rest, cut)

    def _unfit(self, record: HeldLease, amounts: Mapping[str, int]) -> Short | None:
        """By what the lease has, and by the template, as any request."""
        template = self._book.settings.template
        has = {one.name: one for one in record.terms if one.kind == "capacity"}
        for name in sorted(amounts):
            if name not in has:
                return Short("term", name)
            known = template.terms.get(name)
            least = 1 if known is None else known.min or 1
            if not 0 < amounts[name] <= int(has[name].granted) - least:
                return Short("amount", name)
        if not amounts:
            return Short("amount", "")
        wanted = {name: RequestedTerm(amount) for name, amount in amounts.items()}
        for violation in violations(LeaseRequest("split", wanted), template):
            return Short(violation.code, violation.term)
        return None

    def _refused(self, record: HeldLease, rest: HeldLease, cut: HeldLease) -> Short | None:
        """By policy, as though the new holder had asked for it beside what stays."""
        kept = [Holding(record.asker, one.name, one.granted) for one in rest.terms]
        holdings = [*self._book.holdings(record.hold), *kept]
        return self._book.allotments.refuses(cut.asker, cut.wanted, cut.duration, holdings, cut.limits)

    def _lodge(
        self, record: HeldLease, rest: HeldLease, cut: HeldLease, out: Effects
    ) -> tuple[HeldLease, HeldLease]:
        book = self._book
        book.withdraw_replacements(record, out)
        cut = msgspec.structs.replace(cut, fence=self._fences.following(out))
        book.allotments.split(record, rest, cut)
        rest = book.occurs(rest, "renew", out)
        book.lodge(cut, out)
        book.begins(cut, out)
        book.gate_begins(rest, cut.duration, out)
        return rest, cut


def _is_that(part: HeldLease, record: HeldLease, message: m.SplitLease) -> bool:
    """Whether this order has been obeyed before. What a part had at first is known until its first renewal."""
    amounts = {one.name: one.granted for one in part.terms}
    same = part.revision > 1 or amounts == message.amounts
    return same and part.asker.holder == message.to.holder and part.request == _request(record.lease)


def _request(lease: str) -> str:
    return f"split of {lease}"


def _rest(record: HeldLease, amounts: Mapping[str, int]) -> HeldLease:
    wanted = {
        name: msgspec.structs.replace(asked, amount=int(asked.amount) - amounts[name], floor=None)
        if name in amounts and isinstance(asked.amount, int) and asked.amount > amounts[name]
        else asked
        for name, asked in record.wanted.items()
    }
    return msgspec.structs.replace(
        record,
        terms=tuple(less(one, amounts.get(one.name, 0)) for one in record.terms),
        party=f"{record.hold}+{record.revision + 1}",
        revision=record.revision + 1,
        wanted=wanted,
        was_split=True,
    )


def _part(record: HeldLease, message: m.SplitLease, left_ms: int) -> HeldLease:
    whole = {one.name: one for one in record.terms}
    return HeldLease(
        message.part,  # which names no other hold or part
        "active",
        message.to_address,
        message.to,
        _request(record.lease),
        {name: RequestedTerm(amount) for name, amount in message.amounts.items()},
        tuple(
            TermStatus(name, "capacity", amount, amount, fraction="1", unit=whole[name].unit)
            for name, amount in sorted(message.amounts.items())
        ),
        left_ms,
        message.part,
        lease=message.part,
        revision=1,
    )


def less(status: TermStatus, amount: int) -> TermStatus:
    """The term without so much of it."""
    if not amount or not isinstance(status.granted, int):
        return status
    granted = status.granted - amount
    requested = max(granted, int(status.requested) - amount)
    return msgspec.structs.replace(
        status, granted=granted, requested=requested, fraction=fraction_text(granted, requested)
    )
