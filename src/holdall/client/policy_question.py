"""What policies say about a request, before a node uses them: the question in words, the answer in JSON."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdall.model.durations import finite_duration
from holdall.model.errors import BadSpec
from holdall.model.names import NEEDS_MAX, is_name
from holdall.model.spec import ALL_COUNT
from holdall.model.terms import DURATION, Value
from holdall.model.wanted import Need
from holdall.node.policies import Moment
from holdall.policy.evaluation import Ask, Decision, Granted, Held, evaluate
from holdall.policy.reading import read_amount
from holdall.policy.rules import GROUPS_MAX, Agent, Policy, TermUnit


class PolicyQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts as people write them, by term: `2MB/s`, `true`. `at`: as `2026-11-27T10:00`; empty: now."""

    agent: Agent
    needs: Sequence[Need] = ()
    terms: Mapping[str, str] = {}
    duration: str = "60s"
    floors: Mapping[str, str] = {}
    capacities: Mapping[str, str] = {}
    held: Mapping[str, str] = {}
    at: str = ""


def decide(policies: Sequence[Policy], question: PolicyQuestion) -> tuple[Decision, Mapping[str, TermUnit]]:
    """The decision, and the unit of each term. Raises BadSpec for a question that can't be read."""
    reader = _Amounts(policies)
    return evaluate(policies, _ask(question, reader), _moment(question.at)), reader.units


def checked_agent(agent: Agent) -> Agent:
    """The same, when it is named. Raises BadSpec."""
    if not agent.id or len(agent.groups) > GROUPS_MAX:
        raise BadSpec(f"an agent has an id, and at most {GROUPS_MAX} groups")
    return agent


def as_document(decision: Decision) -> dict[str, Any]:
    """The decision in JSON: `terms` and `duration_ms` with what is left of them, and `rules`, a line for each rule and term."""
    return {
        "terms": {name: _granted(one) for name, one in decision.terms.items()},
        "duration_ms": _granted(decision.duration),
        "rules": [msgspec.to_builtins(line) for line in decision.lines],
    }


def _granted(one: Granted) -> dict[str, Any]:
    shares = [
        {
            "rule": share.rule,
            "scope": share.scope,
            "group": share.group,
            "weight": str(share.weight),
            "weights": {group: str(weight) for group, weight in share.weights},
            "weight_by": share.weight_by,
        }
        for share in one.shares
    ]
    return {"asked": one.asked, "granted": one.amount, "rule": one.rule, "why": one.why, "fair": shares}


def _ask(question: PolicyQuestion, reader: "_Amounts") -> Ask:
    terms: dict[str, Value] = {}
    for name, amount in [*reader.needs(question.needs), *reader.values(question.terms)]:
        if name in terms:
            raise BadSpec(f"{name} is asked for twice; write one amount")
        terms[name] = amount
    if len(terms) > NEEDS_MAX:
        raise BadSpec(f"{len(terms)} terms; at most {NEEDS_MAX}")
    return Ask(
        agent=question.agent,
        terms=terms,
        duration_ms=finite_duration(question.duration, what="duration"),
        floors=reader.amounts(question.floors),
        capacities=reader.amounts(question.capacities),
        held=[Held(question.agent, name, one) for name, one in reader.amounts(question.held).items()],
    )


def _moment(at: str) -> Moment:
    if not at:
        return Moment()
    try:
        return Moment(dt.datetime.fromisoformat(at))
    except ValueError:
        raise BadSpec(
            f"{at[:40]!r} is no time. Write e.g. 2026-11-27T10:00 or 2026-11-27T10:00+01:00"
        ) from None


class _Amounts:
    """Reads amounts, each in the unit that the policies or the first mention of its term say."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self.units: dict[str, TermUnit] = {DURATION: "ms"}

    def needs(self, needs: Iterable[Need]) -> list[tuple[str, Value]]:
        """Pools and their counts."""
        found: list[tuple[str, Value]] = []
        for need in needs:
            selector = need.options[0]
            plain = not (selector.labels or selector.node) and selector.count != ALL_COUNT
            if len(need.options) > 1 or len(selector.pools) != 1 or not plain:
                raise BadSpec("a policy speaks of pools by name: write POOL:COUNT, e.g. gpu:2")
            found.append((selector.pools[0], selector.count))
            self.units[selector.pools[0]] = "unit"
        return found

    def values(self, texts: Mapping[str, str]) -> list[tuple[str, Value]]:
        """Terms of all kinds."""
        found: list[tuple[str, Value]] = []
        for name, text in texts.items():
            function = self._unit(name) == "function"
            if text == "true" or function:
                found.append((_checked(name), True if text == "true" else text))
                self.units[name] = "function"
            else:
                found.append((name, self._amount(name, text)))
        return found

    def amounts(self, texts: Mapping[str, str]) -> dict[str, int]:
        """Terms that have amounts."""
        return {name: self._amount(name, text) for name, text in texts.items()}

    def _amount(self, name: str, text: str) -> int:
        amount, unit = read_amount(text, self._unit(_checked(name)), what=name)
        if unit is not None:
            self.units[name] = unit
        return amount

    def _unit(self, name: str) -> TermUnit | None:
        if name in self.units:
            return self.units[name]
        for policy in self._policies:
            unit = policy.unit(name)
            if unit is not None:
                return unit
        return None


def _checked(name: str) -> str:
    if not is_name(name) or name == DURATION:
        raise BadSpec(f"{name[:60]!r} is no name of a term, as net.tx is")
    return name
