"""A policy from text, and requests to it."""

from typing import Any

from holdall.policy.evaluation import Ask, Decision, evaluate
from holdall.policy.reading import parse_policy
from holdall.policy.rules import Agent, Now, Policy

STUDENT = Agent("ann", affiliation="vu", groups=("ci",), role="student")
OTHER = Agent("bob", affiliation="other", role="staff")

FRIDAY = Now(year=2026, month=11, day=27, weekday=4, hour=10, minute=0)
EVENING = Now(year=2026, month=11, day=27, weekday=4, hour=18, minute=0)

ALLOW = '[policy]\naccess = "allow"\n'


def policy(text: str, name: str = "policy.toml") -> Policy:
    """Read it."""
    return parse_policy(text, name=name)


def decide(*policies: Policy, now: Now = FRIDAY, agent: Agent = STUDENT, **more: Any) -> Decision:
    """`terms` and whatever else `Ask` has, at one moment in all zones."""
    more.setdefault("duration_ms", 60_000)
    return evaluate(policies, Ask(agent=agent, **more), lambda _zone: now)


def outcome(decision: Decision, term: str) -> tuple[object, str]:
    """What is left of a term, and because of which rule."""
    return decision.terms[term].amount, decision.terms[term].rule
