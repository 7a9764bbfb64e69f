"""Whatever the rules: their order is nothing, and a tighter policy never gives more."""

import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from policy.asking import decide

from holdall.policy.evaluation import Decision, Held
from holdall.policy.rules import (
    Access,
    Agent,
    Allow,
    AnyRule,
    Attribute,
    Condition,
    Deny,
    Expression,
    Limit,
    Policy,
)

TERMS = ("gpu", "net.tx", "net.rx", "stay")
AGENTS = (Agent("a", "vu", ("ci",), "student"), Agent("b", "vu"), Agent("c", "uni-a", ("ci",)))

conditions: st.SearchStrategy[Condition | None] = st.sampled_from(
    [
        None,
        Attribute("affiliation", "vu"),
        Attribute("group", "ci"),
        Expression('agent.role == "student"'),
        Expression("size(agent.groups) > 0 && 1 / size(agent.groups) == 1"),
        Expression("1 / size(agent.groups) == 1"),
        Expression('"gpu" in request.terms && request.terms["gpu"] > 5'),
        Expression('request.terms["gpu"] > 5'),
    ]
)
patterns = st.lists(st.sampled_from([*TERMS, "*", "net.*"]), min_size=1, max_size=2).map(tuple)
names = st.integers(0, 10**9).map(lambda number: f"r{number}")
allows = st.builds(Allow, name=names, who=conditions, terms=patterns)
denies = st.builds(Deny, name=names, who=conditions, terms=patterns)
limits = st.builds(
    Limit,
    name=names,
    who=conditions,
    term=st.sampled_from([*TERMS, "duration"]),
    per=st.sampled_from(["holder", "affiliation", "all", "lease"]),
    max=st.integers(1, 20),
    fraction=st.none() | st.fractions(min_value="1/9", max_value=1, max_denominator=9),
)
rules: st.SearchStrategy[list[AnyRule]] = st.lists(
    st.one_of(allows, denies, limits), max_size=8, unique_by=lambda rule: rule.name
)
holdings = st.lists(
    st.builds(Held, agent=st.sampled_from(AGENTS), term=st.sampled_from(TERMS), amount=st.integers(1, 9)),
    max_size=4,
)


def made(found: list[AnyRule], access: Access) -> Policy:
    return Policy("p", tuple(found), access)


policies = st.builds(made, rules, st.sampled_from(["allow", "deny"]))
asks = st.fixed_dictionaries(
    {
        "agent": st.sampled_from(AGENTS),
        "terms": st.dictionaries(st.sampled_from(TERMS), st.integers(1, 20), min_size=1),
        "duration_ms": st.integers(1, 20),
        "held": holdings,
        "floors": st.dictionaries(st.sampled_from(TERMS), st.integers(1, 9)),
        "capacities": st.just(dict.fromkeys(TERMS, 24)),
    }
)


def amounts(decision: Decision) -> dict[str, int]:
    return {name: int(one.amount) for name, one in {**decision.terms, "duration": decision.duration}.items()}


@settings(max_examples=100, deadline=None)
@given(policies, asks, st.randoms())
def test_permuting_rules_changes_nothing(policy: Policy, ask: dict[str, Any], chance: random.Random) -> None:
    shuffled = list(policy.rules)
    chance.shuffle(shuffled)
    one, other = decide(policy, **ask), decide(msgspec.structs.replace(policy, rules=tuple(shuffled)), **ask)
    assert (one.terms, one.duration) == (other.terms, other.duration)
    assert sorted(map(repr, one.lines)) == sorted(map(repr, other.lines))


@settings(max_examples=100, deadline=None)
@given(policies, asks, denies | limits)
def test_one_more_deny_or_limit_never_raises_a_grant(
    policy: Policy, ask: dict[str, Any], more: Deny | Limit
) -> None:
    before = amounts(decide(policy, **ask))
    after = amounts(decide(msgspec.structs.replace(policy, rules=(*policy.rules, more)), **ask))
    assert [name for name in before if after[name] > before[name]] == []


@settings(max_examples=100, deadline=None)
@given(policies, policies, asks)
def test_a_tighter_limit_of_the_location_never_raises_a_grant(
    location: Policy, host: Policy, ask: dict[str, Any]
) -> None:
    tighter = tuple(
        msgspec.structs.replace(rule, max=max(1, (rule.max or 1) - 3)) if isinstance(rule, Limit) else rule
        for rule in location.rules
    )
    before = amounts(decide(location, host, **ask))
    after = amounts(decide(msgspec.structs.replace(location, rules=tighter), host, **ask))
    assert [name for name in before if after[name] > before[name]] == []


@settings(max_examples=100, deadline=None)
@given(policies, asks)
def test_nobody_is_given_more_than_was_asked_and_each_cut_names_its_rule(
    policy: Policy, ask: dict[str, Any]
) -> None:
    decision = decide(policy, **ask)
    for one in (*decision.terms.values(), decision.duration):
        assert 0 <= int(one.amount) <= int(one.asked)
        assert bool(one.rule) is (one.amount != one.asked)
