"""Reads the question of `holdall policy check`, asks the policies, and prints what each rule said."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdall.cli.needs import read_needs
from holdall.cli.policy_table import print_decision
from holdall.cli.tables import print_json
from holdall.client.policy_question import PolicyQuestion, as_document, checked_agent, decide
from holdall.model import strict_json
from holdall.model.errors import BadSpec, Refused
from holdall.model.names import is_name
from holdall.model.terms import DURATION
from holdall.node.policies import load_policy
from holdall.policy.rules import Agent, Policy


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
    asked = PolicyQuestion(
        agent=_agent(question.who),
        needs=read_needs(question.needs) if question.needs else (),
        terms=_pairs("--term", question.terms),
        duration=question.duration,
        floors=_pairs("--floor", question.floors),
        capacities=_pairs("--capacity", question.capacities),
        held=_pairs("--held", question.held),
        at=question.at,
    )
    decision, units = decide(policies, asked)
    if question.json:
        print_json("allowed", decision.allowed, **as_document(decision))
    else:
        print_decision(decision, units)
    if decision.allowed:
        return 0
    for name, one in decision.refusals.items():
        sys.stderr.write(f"refused: {name} by {one.rule}: {one.why}\n")
    return Refused.exit_status


def _say_usable(policies: Sequence[Policy], *, json: bool) -> int:
    if json:
        print_json("files", [{"file": one.name, "rules": len(one.rules)} for one in policies])
        return 0
    for one in policies:
        count = len(one.rules)
        rules = "1 rule" if count == 1 else f"{count} rules"
        sys.stdout.write(f'{one.name}: {rules}, access = "{one.access}": can be used\n')
    return 0


def _agent(file: str) -> Agent:
    try:
        return checked_agent(strict_json.read(Path(file).read_bytes(), Agent, prefix="agent"))
    except OSError as error:
        raise BadSpec(f"can't read --as {file}: {error.strerror}. Check the path.") from None
    except BadSpec as error:
        raise BadSpec(f'--as {file}: {error.text}. Write e.g. {{"id": "ann", "affiliation": "vu"}}') from None


def _pairs(option: str, texts: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, amount = text.partition("=")
        if not equals or not is_name(name) or name == DURATION:
            raise BadSpec(f"{option} {text[:60]!r}: write NAME=AMOUNT, e.g. {option} net.tx=2MB/s")
        if name in pairs:
            raise BadSpec(f"{name} is asked for twice; write one amount")
        pairs[name] = amount
    return pairs
