"""The policy of a file as negotiation asks for it: one term at a time, with what everybody holds.

`policy` knows nothing of leases, and `leases` nothing of policies; they meet here. A condition sees in `request.terms` the one
term that is asked about. What a request asks of other terms is not told, so a rule that reads it fails closed.
"""

from collections.abc import Sequence
from math import isqrt

from holdall.leases.negotiation.interfaces import Allowed, Asker, Holding, TermAsk
from holdall.model.terms import DURATION, Value
from holdall.policy.conditions import Moments
from holdall.policy.evaluation import Ask, Held, evaluate, revoked_by
from holdall.policy.rules import Agent, Policy, Scope


class PolicyOfFile:
    """A policy for one manager: the location's (`scope` "location") or a host's.

    `moments` tells the time; the driver gives it, so that the machines that share this read no clock of their own.
    `replace` puts another policy in force as a whole.
    """

    def __init__(self, policy: Policy, moments: Moments, *, scope: Scope) -> None:
        self._policy, self._moments, self._scope = policy, moments, scope

    def replace(self, policy: Policy) -> None:
        """From now on this one is obeyed; live leases meet it when they are renewed."""
        self._policy = policy

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        """What is left of a term, or of the lease duration; `amount` 0 refuses, None leaves all that is asked."""
        decision = evaluate([self._policy], self._question(ask, holdings), self._moments)
        found = decision.duration if ask.term == DURATION else decision.terms[ask.term]
        share = next((one for one in found.shares if one.scope == self._scope), None)
        group = "" if share is None else share.group
        weight = 1 if share is None or share.weight_by == "equal" else root(found.amount)
        if found.amount == found.asked:
            return Allowed(weight=weight, group=group)
        assert isinstance(found.amount, int)  # noqa: S101  # only amounts are lessened, and what is refused is 0
        return Allowed(found.amount, found.rule, weight, group)

    def revoked_by(self, ask: TermAsk, holdings: Sequence[Holding]) -> str:
        """The rule with `revoke` that ends a live lease with so much of the term; empty: none does."""
        return revoked_by(self._policy, self._question(ask, holdings), self._moments)

    def rank(self, host: str) -> int:
        """Of a host, among proposals that are equally close."""
        return self._policy.rank(host)

    def _question(self, ask: TermAsk, holdings: Sequence[Holding]) -> Ask:
        terms: dict[str, Value] = {} if ask.term == DURATION else {ask.term: ask.amount}
        return Ask(
            agent=agent_of(ask.asker),
            terms=terms,
            duration_ms=ask.duration_ms,
            capacities={} if ask.capacity is None else {ask.term: ask.capacity},
            held=[
                Held(agent_of(one.asker), one.term, one.amount)
                for one in holdings
                if one.term == ask.term and not isinstance(one.amount, bool | str)
            ],
        )


def root(amount: Value) -> int:
    """A weight that grows with the square root of an amount, in millionths of it; only what weights are to each other counts.

    Of what policy leaves: who asks for more than he may have does not weigh more by it.
    """
    return 1 if isinstance(amount, str) or amount < 1 else isqrt(amount * 10**12)


def agent_of(asker: Asker) -> Agent:
    """Who asks, for conditions: `affiliation`, `role`, and each `group` of the attributes."""
    attributes = asker.attributes
    named = dict(attributes)
    return Agent(
        id=asker.holder,
        affiliation=named.get("affiliation", ""),
        groups=tuple(value for name, value in attributes if name == "group"),
        role=named.get("role", ""),
    )
