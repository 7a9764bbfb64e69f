"""One round: the question to all hosts that support every term, at once, and the choice among what they propose.

Source: lease negotiation, sections 4.3 and 5.
"""

from collections.abc import Hashable, Mapping
from fractions import Fraction

import msgspec

from holdall.leases.distance import Proposed, closest
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker, Policy
from holdall.machine.contract import Address
from holdall.model.terms import LeaseDocument, LeaseRequest


class Round(msgspec.Struct, frozen=True):
    """A request whose hosts have been asked."""

    name: str
    agent: Address
    asker: Asker
    request: LeaseRequest
    requested: dict[str, int]
    """As asked, of what the location's policy has lessened."""
    waits: frozenset[str]
    """Hosts that have not answered."""
    proposals: dict[str, m.Proposal]
    refusals: dict[str, m.HostRefused]

    def proposes(self, host: str, proposal: m.Proposal) -> "Round":
        """With a host's proposal."""
        return msgspec.structs.replace(
            self, waits=self.waits - {host}, proposals={**self.proposals, host: proposal}
        )

    def refuses(self, host: str, refusal: m.HostRefused) -> "Round":
        """With a host's refusal, or in place of an answer that can't come any more."""
        proposals = {name: one for name, one in self.proposals.items() if name != host}
        return msgspec.structs.replace(
            self,
            waits=self.waits - {host},
            proposals=proposals,
            refusals={**self.refusals, host: refusal},
        )

    def choice(self, policy: Policy) -> str | None:
        """The host whose proposal is closest; None when there is no valid one."""
        found = closest(
            self.request.terms,
            (
                Proposed(
                    host,
                    {one.name: one.granted for one in proposal.terms},
                    policy.rank(host),
                    Fraction(*proposal.left),
                )
                for host, proposal in self.proposals.items()
            ),
        )
        return None if found is None else found.host

    def declined(self) -> m.Declined:
        """Why there is no offer: the reason of most hosts, and the best that any would have had."""
        request = self.request.request
        if not self.refusals:
            return m.Declined(request, "no_answer", retry_after_ms=1000)
        by_reason: dict[str, list[m.HostRefused]] = {}
        for host in sorted(self.refusals):
            by_reason.setdefault(self.refusals[host].reason, []).append(self.refusals[host])
        reason = max(by_reason, key=lambda one: (len(by_reason[one]), one))
        first = by_reason[reason][0]
        retries = [one.retry_after_ms for one in self.refusals.values() if one.retry_after_ms]
        return m.Declined(
            request,
            reason,
            first.term,
            first.rule,
            best_possible=_best(self.refusals),
            retry_after_ms=min(retries, default=0),
        )

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr(self)


def new_round(
    name: str,
    agent: Address,
    asker: Asker,
    request: LeaseRequest,
    requested: dict[str, int],
    hosts: tuple[str, ...],
) -> Round:
    """Nobody has answered yet."""
    return Round(name, agent, asker, request, requested, frozenset(hosts), {}, {})


def offered_document(
    round_: Round, host: str, location: str, lease: str, known: LeaseDocument | None
) -> LeaseDocument:
    """What this host proposes, as an offer: a new lease of this id, or another revision of the `known` one."""
    proposal, request = round_.proposals[host], round_.request
    return LeaseDocument(
        lease if known is None else known.lease,
        location,
        host,
        proposal.incarnation,
        round_.asker.holder,
        "offered",
        1 if known is None else known.revision + 1,
        proposal.duration,
        request.request,
        tuple(sorted(proposal.terms, key=lambda one: one.name)),
        template=request.template,
        before_end=request.before_end,
    )


def _best(refusals: Mapping[str, m.HostRefused]) -> dict[str, int]:
    best: dict[str, int] = {}
    for refusal in refusals.values():
        for term, amount in refusal.best_possible.items():
            best[term] = max(best.get(term, 0), amount)
    return dict(sorted(best.items()))
