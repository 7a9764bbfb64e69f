"""Renewal of leases that live, at their host, in one message each.

A renewal is evaluated from scratch: policy, fair fraction and what is free count anew. It either gives a new revision or
leaves the lease exactly as it is. Source: lease negotiation, section 4.6.
"""

from collections.abc import Mapping

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.allotment import Allotted, Question, Short
from holdall.leases.negotiation.book import HostBook
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.negotiation.records import HeldLease
from holdall.leases.templates import violations
from holdall.machine.contract import Address, Send
from holdall.model.terms import DURATION, LeaseRequest, RequestedTerm
from holdall.protocols.hooks import Effects


class Renewing:
    """Keeps nothing of its own: two copies of a renewal give two revisions with the same amounts or better."""

    def __init__(self, book: HostBook) -> None:
        self._book = book

    # ------------------------------------------------------------ renewal

    def renew(self, agent: Address, asker: Asker, message: m.RenewLeases, out: Effects) -> None:
        """Each lease of the batch by itself, as one of who asks now: his groups may be others, or were not known before."""
        for renewal in message.renewals:
            found = self._one(asker, renewal, message.duration, out)
            if isinstance(found, HeldLease):
                document = self._book.document(found)
                answer = m.Renewed(message.count, renewal.lease, document)
                self._book.tell(m.LeaseChanged(document), out)
            else:
                answer = m.Renewed(
                    message.count,
                    renewal.lease,
                    reason=found.reason,
                    term=found.term,
                    rule=found.rule,
                    best_possible=found.best_possible,
                )
            out.append(Send(agent, answer))

    def _one(self, asker: Asker, renewal: m.Renewal, duration: int, out: Effects) -> HeldLease | Short:
        book = self._book
        record = book.of(renewal.lease, asker.holder)
        if record is None or record.state != "active" or record.revoked_after_ms is not None:
            return _not_renewable(record)
        record = msgspec.structs.replace(record, asker=asker)
        wanted = self._wanted(record, renewal.terms)
        if isinstance(wanted, Short):
            return wanted
        for violation in violations(
            LeaseRequest("renewal", wanted, duration=duration), book.settings.template
        ):
            return Short(violation.code, violation.term)
        holdings = book.holdings(record.hold)
        life, allowed = book.allotments.duration(record.asker, duration, wanted, holdings, record.limits)
        if life < duration:
            # Its holder counts from when it asked, so it must know before for how long.
            reason = "worse" if life else "policy"
            return Short(reason, DURATION, allowed.rule, {DURATION: life})
        self._book.withdraw_replacements(record, out)
        party = f"{record.hold}+{record.revision + 1}"
        names = frozenset(one.name for one in record.terms)
        question = Question(
            party,
            record.asker,
            wanted,
            life,
            book.now_ms,
            record.party,
            names,
            renewal=True,
            limits=record.limits,
        )
        found = book.allotments.allot(question, holdings)
        if isinstance(found, Short):
            return found
        worse = self._worse(record, wanted, found)
        if worse is not None:
            book.allotments.withdraw(party, found.terms)
            return worse
        return self._renewed(record, renewal, wanted, found, party, life, out)

    def _renewed(
        self,
        record: HeldLease,
        renewal: m.Renewal,
        wanted: dict[str, RequestedTerm],
        found: Allotted,
        party: str,
        life: int,
        out: Effects,
    ) -> HeldLease:
        pools = tuple(one for one in record.terms if one.kind == "pool")
        terms = tuple(sorted((*found.terms, *pools), key=lambda one: one.name))
        self._book.allotments.take_over(party, found.terms, record.party, record.terms)
        kept = record.wanted if renewal.terms is None else {**record.wanted, **wanted}
        changed = msgspec.structs.replace(
            record,
            wanted=kept,
            terms=terms,
            duration=life,
            party=party,
            revision=record.revision + 1,
            was_split=False,
        )
        changed = self._book.occurs(changed, "renew", out)
        self._book.begins(changed, out)
        return changed

    def _wanted(
        self, record: HeldLease, terms: Mapping[str, RequestedTerm] | None
    ) -> dict[str, RequestedTerm] | Short:
        """Pools stay as they are: units change hands by a request that replaces the lease, or by a release."""
        wanted = {name: self._within(name, asked) for name, asked in record.wanted.items()}
        for name, asked in (terms or {}).items():
            if name not in wanted:
                return Short("term", name)
            wanted[name] = asked
        for status in record.terms:
            if status.kind == "pool" and isinstance(status.granted, int):
                wanted[status.name] = RequestedTerm(status.granted, floor=status.granted)
        return wanted

    def _within(self, name: str, asked: RequestedTerm) -> RequestedTerm:
        """Of a capacity that has shrunk since it was asked for, all that there is now."""
        term = self._book.settings.template.terms.get(name)
        if term is None or term.kind != "capacity" or term.max is None or not isinstance(asked.amount, int):
            return asked
        return msgspec.structs.replace(asked, amount=min(asked.amount, term.max))

    def _worse(self, record: HeldLease, wanted: Mapping[str, RequestedTerm], found: Allotted) -> Short | None:
        """A term that would shrink without its holder having said how far it may."""
        template = self._book.settings.template
        before = {one.name: one.granted for one in record.terms}
        for status in found.terms:
            asked, old, new = wanted[status.name], before[status.name], status.granted
            agreed = asked.floor is not None or template.terms[status.name].sharing == "fair"
            agreed = agreed or (isinstance(asked.amount, int) and asked.amount < int(old))
            if isinstance(new, int) and isinstance(old, int) and new < old and not agreed:
                return Short("worse", status.name, best_possible={status.name: new})
        return None


def _not_renewable(record: HeldLease | None) -> Short:
    if record is None:
        return Short("unknown", "")
    return Short("revoking" if record.state == "active" else "ended", "")
