"""Reads the question of `holdall policy check`, asks the policies, and prints what each rule said."""

import datetime as dt
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdall.cli.needs import read_needs
from holdall.cli.policy_table import print_decision
from holdall.cli.tables import print_json
from holdall.model import strict_json
from holdall.model.durations import finite_duration
from holdall.model.errors import BadSpec, Refused
from holdall.model.names import NEEDS_MAX, is_name
from holdall.model.spec import ALL_COUNT
from holdall.model.terms import DURATION, Value
from holdall.node.policies import Moment, load_policy
from holdall.policy.evaluation import Ask, Decision, Granted, Held, evaluate
from holdall.policy.reading import read_amount
from holdall.policy.rules import GROUPS_MAX, Agent, Policy, TermUnit


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The command line."""

    files: Sequence[str]
    who: str
    needs: Sequence[str]
    terms: Sequence[str]
    duration: str
    floors: Sequence[str]
    capacities: Sequence[str]
    held: Sequence[str]
    at: str
    json: bool


def run_check(question: Question) -> int:
    """Print the answer. Raises BadConfig for a policy that can't be used, BadSpec for a question that can't be read."""
    policies = [load_policy(Path(file)) for file in question.files]
    if not (question.who or question.needs or question.terms):
        return _say_usable(policies, json=question.json)
    if not question.who or not (question.needs or question.terms):
        raise BadSpec("who asks for what? Write --as WHO.json and --need SPEC or --term NAME=AMOUNT.")
    reader = _Amounts(policies)
    ask = _ask(question, reader)
    decision = evaluate(policies, ask, _moment(question.at))
    if question.json:
        print_json("allowed", decision.allowed, **as_document(decision))
    else:
        print_decision(decision, reader.units)
    if decision.allowed:
        return 0
    for name, one in decision.refusals.items():
        sys.stderr.write(f"refused: {name} by {one.rule}: {one.why}\n")
    return Refused.exit_status


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
        }
        for share in one.shares
    ]
    return {"asked": one.asked, "granted": one.amount, "rule": one.rule, "why": one.why, "fair": shares}


def _say_usable(policies: Sequence[Policy], *, json: bool) -> int:
    if json:
        print_json("files", [{"file": one.name, "rules": len(one.rules)} for one in policies])
        return 0
    for one in policies:
        count = len(one.rules)
        rules = "1 rule" if count == 1 else f"{count} rules"
        sys.stdout.write(f'{one.name}: {rules}, access = "{one.access}": can be used\n')
    return 0


def _ask(question: Question, reader: "_Amounts") -> Ask:
    agent = _agent(question.who)
    terms: dict[str, Value] = {}
    for name, amount in [*reader.needs(question.needs), *reader.values(question.terms)]:
        if name in terms:
            raise BadSpec(f"{name} is asked for twice; write one amount")
        terms[name] = amount
    if len(terms) > NEEDS_MAX:
        raise BadSpec(f"{len(terms)} terms; at most {NEEDS_MAX}")
    return Ask(
        agent=agent,
        terms=terms,
        duration_ms=finite_duration(question.duration, what="--duration"),
        floors=reader.amounts("--floor", question.floors),
        capacities=reader.amounts("--capacity", question.capacities),
        held=[Held(agent, name, one) for name, one in reader.amounts("--held", question.held).items()],
    )


def _agent(file: str) -> Agent:
    try:
        agent = strict_json.read(Path(file).read_bytes(), Agent, prefix="agent")
    except OSError as error:
        raise BadSpec(f"can't read --as {file}: {error.strerror}. Check the path.") from None
    except BadSpec as error:
        raise BadSpec(f'--as {file}: {error.text}. Write e.g. {{"id": "ann", "affiliation": "vu"}}') from None
    if not agent.id or len(agent.groups) > GROUPS_MAX:
        raise BadSpec(f"--as {file}: an agent has an id, and at most {GROUPS_MAX} groups")
    return agent


def _moment(at: str) -> Moment:
    if not at:
        return Moment()
    try:
        return Moment(dt.datetime.fromisoformat(at))
    except ValueError:
        raise BadSpec(
            f"--at {at[:40]!r} is no time. Write e.g. 2026-11-27T10:00 or 2026-11-27T10:00+01:00"
        ) from None


class _Amounts:
    """Reads amounts, each in the unit that the policies or the first mention of its term say."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self.units: dict[str, TermUnit] = {DURATION: "ms"}

    def needs(self, values: Sequence[str]) -> list[tuple[str, Value]]:
        """Pools and their counts."""
        found: list[tuple[str, Value]] = []
        if not values:
            return found
        for need in read_needs(values):
            selector = need.options[0]
            plain = not (selector.labels or selector.node) and selector.count != ALL_COUNT
            if len(need.options) > 1 or len(selector.pools) != 1 or not plain:
                raise BadSpec("a policy speaks of pools by name: write --need POOL:COUNT, e.g. --need gpu:2")
            found.append((selector.pools[0], selector.count))
            self.units[selector.pools[0]] = "unit"
        return found

    def values(self, texts: Sequence[str]) -> list[tuple[str, Value]]:
        """Terms of all kinds."""
        found: list[tuple[str, Value]] = []
        for name, text in map(self._split, ["--term"] * len(texts), texts):
            function = self._unit(name) == "function"
            if text == "true" or function:
                found.append((name, True if text == "true" else text))
                self.units[name] = "function"
            else:
                found.append((name, self._amount(name, text)))
        return found

    def amounts(self, option: str, texts: Sequence[str]) -> dict[str, int]:
        """Terms that have amounts."""
        pairs = [self._split(option, text) for text in texts]
        return {name: self._amount(name, text) for name, text in pairs}

    def _amount(self, name: str, text: str) -> int:
        amount, unit = read_amount(text, self._unit(name), what=name)
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

    @staticmethod
    def _split(option: str, text: str) -> tuple[str, str]:
        name, equals, amount = text.partition("=")
        if not equals or not is_name(name) or name == DURATION:
            raise BadSpec(f"{option} {text[:60]!r}: write NAME=AMOUNT, e.g. {option} net.tx=2MB/s")
        return name, amount
