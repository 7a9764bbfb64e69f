"""Whether a rule applies to an agent, at a moment, for a request. What can't be evaluated is an error, never a guess.

The language is CEL. The library is an extra (`holdall[location]`) and is loaded when the first expression is met; grants
in short form need none. Source: lease negotiation, sections 6.1 and 6.2.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from holdall.model.errors import BadConfig
from holdall.model.terms import Value
from holdall.policy.rules import Agent, Attribute, Condition, Expression, Now, Rule

Moments: TypeAlias = Callable[[str], Now]
"""The present moment in a time zone; given by whoever has a clock."""

FIELDS: dict[str, tuple[str, ...]] = {
    "agent": Agent.__struct_fields__,
    "now": Now.__struct_fields__,
    "request": ("duration", "terms"),
}
"""What an expression can read."""


class Asked(msgspec.Struct, frozen=True):
    """What expressions see of a request: amounts as the agent asked for them, whatever other rules make of them."""

    terms: Mapping[str, Value]
    duration_ms: int


class Truth(Enum):
    """What came of a condition."""

    YES = "yes"
    NO = "no"
    ERROR = "error"


class Verdict(msgspec.Struct, frozen=True):
    """Whether a rule applies, and what went wrong when that can't be told."""

    truth: Truth
    why: str = ""


YES, NO = Verdict(Truth.YES), Verdict(Truth.NO)


def applies(rule: Rule, agent: Agent, asked: Asked, moments: Moments) -> Verdict:
    """`who` and `when` together. As with CEL's `&&`, one that is false decides, even when the other fails."""
    verdicts = [
        judge(condition, agent, asked, moments)
        for condition in (rule.who, rule.when)
        if condition is not None
    ]
    for wanted in (Truth.NO, Truth.ERROR):
        for verdict in verdicts:
            if verdict.truth is wanted:
                return verdict
    return YES


def judge(condition: Condition, agent: Agent, asked: Asked, moments: Moments) -> Verdict:
    """One condition."""
    if isinstance(condition, Attribute):
        return YES if _has(agent, condition) else NO
    try:
        value = compiled(condition.text).execute(variables(condition, agent, asked, moments))
    except Exception as error:  # noqa: BLE001  # whatever the library raises, the rule fails closed
        return Verdict(Truth.ERROR, explain(error))
    if not isinstance(value, bool):
        return Verdict(Truth.ERROR, f"it gives {type(value).__name__}, neither true nor false")
    return YES if value else NO


def variables(
    condition: Expression, agent: Agent, asked: Asked, moments: Moments
) -> dict[str, dict[str, Any]]:
    """`agent`, `now` and `request` as CEL sees them."""
    return {
        "agent": {
            "id": agent.id,
            "affiliation": agent.affiliation,
            "groups": list(agent.groups),
            "role": agent.role,
        },
        "now": msgspec.to_builtins(moments(condition.zone)),
        "request": {"duration": asked.duration_ms, "terms": dict(asked.terms)},
    }


@lru_cache(maxsize=4096)
def compiled(text: str) -> Any:
    """The program of an expression. Raises ValueError for what is no CEL, BadConfig when the library is missing."""
    try:
        import cel
    except ModuleNotFoundError:
        raise BadConfig("conditions (who, when) need an extra: pip install 'holdall[location]'") from None
    return cel.compile(text)


def explain(error: BaseException) -> str:
    """The first line of what the library says, for people."""
    if isinstance(error, KeyError):
        return f"there is no {error.args[0]!r}"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]


def _has(agent: Agent, condition: Attribute) -> bool:
    if condition.name == "group":
        return condition.value in agent.groups
    return {"id": agent.id, "affiliation": agent.affiliation, "role": agent.role}[
        condition.name
    ] == condition.value
