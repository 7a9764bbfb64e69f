"""What a policy makes of a request: refused, or so much of each term and for so long, rule by rule.

1. Each term needs an `allow` that applies (or `access = "allow"`) and no `deny` that does; the order of rules is nothing.
2. The amount is the least over the limits that apply, of `max` and `fraction` x capacity, less what is already held under
   the same rule.
3. The location's policy comes first, then the host's; the smaller amount counts.
4. Less than the floor, or than one step, is refused with the name of the rule.

A rule whose condition fails does not allow, but it does deny and limit. Conditions see amounts as they were asked, so
that a tighter policy can never widen what another one gives. Source: lease negotiation, section 6.1.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

import msgspec

from holdall.model.terms import DURATION, Value
from holdall.policy.conditions import Asked, Moments, Truth, Verdict, applies
from holdall.policy.rules import (
    Agent,
    Allow,
    AnyRule,
    Deny,
    Fair,
    Limit,
    Policy,
    Scope,
    WeightBy,
    covers,
)

DEFAULT_RULE = "policy.access"
"""Named as the refusing rule where no `allow` applies."""


class Held(msgspec.Struct, frozen=True):
    """What somebody has of a term: active, held or draining. The lease that is being replaced is left out."""

    agent: Agent
    term: str
    amount: int


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A request, as far as policies look at it."""

    agent: Agent
    terms: Mapping[str, Value]
    """Amounts in base units; `true` or a word for functions."""
    duration_ms: int
    floors: Mapping[str, int] = {}
    steps: Mapping[str, int] = {}
    capacities: Mapping[str, int] = {}
    """All there is of a term, for limits that are fractions."""
    held: Sequence[Held] = ()


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one rule said about one term (or `duration`)."""

    policy: str
    rule: str
    kind: str
    term: str
    applies: Truth
    effect: str
    """For people."""
    at_most: int | None = None
    """Of a limit that applies: what it leaves."""
    error: str = ""


class Share(msgspec.Struct, frozen=True):
    """For whoever divides a capacity: the asker's group, its weight, and all weights the file names (others: 1)."""

    rule: str
    scope: Scope
    group: str
    weight: Fraction
    weights: tuple[tuple[str, Fraction], ...]
    weight_by: WeightBy = "equal"
    """How the members of a group weigh against each other."""


class Granted(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is left of a term."""

    asked: Value
    amount: Value
    """0: refused."""
    rule: str = ""
    """The rule that limits or refuses; "": nothing does."""
    why: str = ""
    shares: tuple[Share, ...] = ()

    @property
    def refused(self) -> bool:
        """Nothing of it can be had."""
        return self.amount == 0 and not isinstance(self.amount, str)


class Decision(msgspec.Struct, frozen=True):
    """The whole answer. A request is allowed when each of its terms is."""

    terms: dict[str, Granted]
    duration: Granted
    lines: tuple[Line, ...]

    @property
    def allowed(self) -> bool:
        """Whether no term and not the duration is refused."""
        return not self.refusals

    @property
    def refusals(self) -> dict[str, Granted]:
        """By term, and `duration`."""
        everything = {**self.terms, DURATION: self.duration}
        return {name: one for name, one in everything.items() if one.refused}


def evaluate(policies: Sequence[Policy], ask: Ask, moments: Moments) -> Decision:
    """What the policies, the location's first, then the host's, make of the request together.

    Pure: the same policies, request and moment give the same decision, but for the order of its lines, which is that of
    the rules.
    """
    judge = _Judge(ask, moments)
    terms = {name: Granted(asked=amount, amount=amount) for name, amount in ask.terms.items()}
    duration = Granted(asked=ask.duration_ms, amount=ask.duration_ms)
    for policy in policies:
        verdicts = [(rule, judge.verdict(rule)) for rule in policy.rules]
        for name, before in terms.items():
            terms[name] = judge.term(policy, verdicts, name, before)
        duration = judge.limited(policy, verdicts, DURATION, duration)
    return Decision(terms, duration, tuple(judge.lines))


def revoked_by(policy: Policy, ask: Ask, moments: Moments) -> str:
    """The rule that ends a live lease with these terms before its time; "": none does.

    Only rules with `revoke` are looked at. `ask.held` is what older leases have, so that the youngest go first.
    """
    cutting = msgspec.structs.replace(
        policy,
        access="allow",
        rules=tuple(rule for rule in policy.rules if isinstance(rule, Deny | Limit) and rule.revoke),
    )
    decision = evaluate([cutting], ask, moments)
    everything = (*decision.terms.values(), decision.duration)
    return next((one.rule for one in everything if one.amount != one.asked), "")


class _Judge:
    """Walks through the rules of one request and keeps what each said."""

    def __init__(self, ask: Ask, moments: Moments) -> None:
        self._ask, self._moments = ask, moments
        self._asked = Asked(ask.terms, ask.duration_ms)
        self.lines: list[Line] = []

    def verdict(self, rule: AnyRule) -> Verdict:
        """Whether a rule applies to the one who asks."""
        return applies(rule, self._ask.agent, self._asked, self._moments)

    def term(
        self, policy: Policy, verdicts: Sequence[tuple[AnyRule, Verdict]], name: str, before: Granted
    ) -> Granted:
        """What one policy leaves of a term that an earlier one has left `before` of."""
        after = self._access(policy, verdicts, name, before)
        after = self.limited(policy, verdicts, name, after)
        shares = tuple(
            self._share(policy, rule, name)
            for rule, _ in verdicts
            if isinstance(rule, Fair) and rule.term == name
        )
        return msgspec.structs.replace(after, shares=after.shares + shares) if shares else after

    def _access(
        self, policy: Policy, verdicts: Sequence[tuple[AnyRule, Verdict]], name: str, before: Granted
    ) -> Granted:
        allowed = policy.access == "allow"
        denied: list[str] = []
        failed: list[str] = []
        for rule, verdict in verdicts:
            if not isinstance(rule, Allow | Deny) or not any(covers(one, name) for one in rule.terms):
                continue
            if isinstance(rule, Allow):
                allowed = allowed or verdict.truth is Truth.YES
                failed += [rule.name] if verdict.truth is Truth.ERROR else []
                effect = {
                    Truth.YES: "allows it",
                    Truth.NO: "not for this request",
                    Truth.ERROR: "can't allow it",
                }
            else:
                denied += [] if verdict.truth is Truth.NO else [rule.name]
                effect = {
                    Truth.YES: "denies it",
                    Truth.NO: "not for this request",
                    Truth.ERROR: "denies it, as its condition fails",
                }
            self._say(policy, rule, name, verdict, effect[verdict.truth])
        if denied:
            return _refuse(before, min(denied), "denied")
        if not allowed and failed:
            return _refuse(before, min(failed), "the condition of this rule fails, and no other allows it")
        if not allowed:
            return _refuse(before, DEFAULT_RULE, "no rule allows it")
        return before

    def limited(
        self, policy: Policy, verdicts: Sequence[tuple[AnyRule, Verdict]], name: str, before: Granted
    ) -> Granted:
        """The least that the limits leave, in whole steps."""
        asked = before.asked
        tightest: tuple[int, str, str] | None = None
        for rule, verdict in verdicts:
            if not isinstance(rule, Limit) or rule.term != name:
                continue
            if isinstance(asked, bool | str):
                self._say(policy, rule, name, verdict, "counts amounts, not functions")
                continue
            if verdict.truth is Truth.NO:
                self._say(policy, rule, name, verdict, "not for this request")
                continue
            left, effect = self._left(rule)
            self._say(policy, rule, name, verdict, effect, at_most=left)
            tightest = min(filter(None, (tightest, (left, rule.name, effect))))
        if before.refused or tightest is None or isinstance(before.amount, bool | str):
            return before
        left, rule_name, effect = tightest
        if left >= before.amount:
            return before
        step = self._ask.steps.get(name, 1)
        amount = left // step * step
        floor = max(self._ask.floors.get(name, 1), step)
        if amount < floor:
            return _refuse(
                before, rule_name, effect if floor == 1 else f"{effect}; less than {floor:,} is of no use"
            )
        return msgspec.structs.replace(before, amount=amount, rule=rule_name, why=effect)

    def _left(self, rule: Limit) -> tuple[int, str]:
        """What a limit leaves, and how that comes about."""
        bounds: list[int] = [] if rule.max is None else [rule.max]
        if rule.fraction is not None:
            capacity = self._ask.capacities.get(rule.term)
            if capacity is None:
                return 0, f"leaves nothing: it is {rule.fraction} of a capacity that is not known"
            bounds.append(int(rule.fraction * capacity))
        most = min(bounds)
        whose = {
            "holder": "a holder",
            "affiliation": "an affiliation",
            "all": "all together",
            "lease": "a lease",
        }
        unit = "" if rule.unit in {None, "unit"} else f" {rule.unit}"
        effect = f"at most {most:,}{unit} for {whose[rule.per]}"
        held = sum(one.amount for one in self._ask.held if self._counts(rule, one))
        if held:
            effect += f", {held:,} of it held"
        return max(0, most - held), effect

    def _counts(self, rule: Limit, held: Held) -> bool:
        """Whether what is held counts under the rule: the same subject, and one whom the rule is for."""
        agent = self._ask.agent
        same = {
            "lease": False,
            "holder": held.agent.id == agent.id,
            "affiliation": held.agent.affiliation == agent.affiliation,
            "all": True,
        }[rule.per]
        if held.term != rule.term or not same:
            return False
        whom = msgspec.structs.replace(rule, when=None)
        return applies(whom, held.agent, self._asked, self._moments).truth is not Truth.NO

    def _share(self, policy: Policy, rule: Fair, name: str) -> Share:
        group = rule.group_of(self._ask.agent)
        weight = rule.weight(group)
        members = "each holder alike" if rule.weight_by == "equal" else "each by the root of what it asks"
        among = f"in group {group!r}, weight {weight}" if rule.group else members
        among += f"; in it {members}" if rule.group and rule.weight_by != "equal" else ""
        self._say(policy, rule, name, Verdict(Truth.YES), f"divides what is scarce: {among}")
        return Share(rule.name, rule.scope, group, weight, rule.weights, rule.weight_by)

    def _say(
        self,
        policy: Policy,
        rule: AnyRule,
        term: str,
        verdict: Verdict,
        effect: str,
        *,
        at_most: int | None = None,
    ) -> None:
        kind = type(rule).__name__.lower()
        self.lines.append(
            Line(policy.name, rule.name, kind, term, verdict.truth, effect, at_most, verdict.why)
        )


def _refuse(before: Granted, rule: str, why: str) -> Granted:
    """Refused; the first refusal stays the one that is named."""
    if before.refused:
        return before
    return msgspec.structs.replace(before, amount=0, rule=rule, why=why)
