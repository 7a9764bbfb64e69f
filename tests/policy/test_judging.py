"""What rules make of a request, to the unit; lease negotiation, sections 6.1 and 12.1 (P1)."""

from fractions import Fraction
from typing import Any

import pytest
from policy.asking import ALLOW, EVENING, FRIDAY, OTHER, STUDENT, decide, outcome, policy

from holdall.policy.conditions import Truth
from holdall.policy.evaluation import DEFAULT_RULE, Ask, Held, Share, evaluate, revoked_by
from holdall.policy.rules import Agent, Now

P1 = """
[[rule]]
name = "partners"
allow = ["net.*", "gpu", "stay"]
who = 'agent.affiliation in ["vu", "uni-a"]'

[[rule]]
name = "office-hours"
deny = ["gpu"]
who = 'agent.role == "student"'
when = 'now.weekday < 5 && now.hour >= 9 && now.hour < 17'
zone = "Europe/Amsterdam"

[[rule]]
name = "each-1mb"
limit = "net.tx"
per = "holder"
max = "1MB/s"
"""


def limits(*lines: str) -> str:
    rules = (f'[[rule]]\nname = "r{number}"\n{line}\n' for number, line in enumerate(lines))
    return ALLOW + "".join(rules)


def held(agent: Agent, amount: int, term: str = "gpu") -> Held:
    return Held(agent, term, amount)


@pytest.mark.parametrize(
    ("now", "amount", "rule"), [(FRIDAY, 0, "office-hours"), (EVENING, 1, "")], ids=["10:00", "18:00"]
)
def test_p1_a_student_has_no_gpu_in_office_hours(now: Now, amount: int, rule: str) -> None:
    decision = decide(policy(P1), now=now, terms={"gpu": 1})
    assert outcome(decision, "gpu") == (amount, rule)
    assert decision.allowed is (amount > 0)


def test_p1_partners_are_allowed_and_others_are_not() -> None:
    assert outcome(decide(policy(P1), terms={"net.tx": 5}), "net.tx") == (5, "")
    assert outcome(decide(policy(P1), agent=OTHER, terms={"net.tx": 5}), "net.tx") == (0, DEFAULT_RULE)


def test_p1_each_holder_has_a_megabyte() -> None:
    decision = decide(policy(P1), terms={"net.tx": 2_000_000})
    assert outcome(decision, "net.tx") == (1_000_000, "each-1mb")
    assert decision.terms["net.tx"].asked == 2_000_000
    assert decision.allowed


def test_conditions_read_the_clock_of_their_rule_s_zone() -> None:
    text = limits("deny = ['gpu']\nwhen = 'now.hour == 10'\nzone = 'Asia/Tokyo'")
    asked: list[str] = []

    def moments(zone: str) -> Now:
        asked.append(zone)
        return FRIDAY

    decision = evaluate([policy(text)], Ask(agent=STUDENT, terms={"gpu": 1}, duration_ms=1), moments)
    assert (asked, outcome(decision, "gpu")) == (["Asia/Tokyo"], (0, "r0"))


def test_every_term_needs_its_own_allow() -> None:
    decision = decide(
        policy("[[rule]]\nname = 'a'\nallow = ['net.*']"), terms={"net.tx": 1, "network": 1, "gpu": 1}
    )
    assert {name: one.amount for name, one in decision.terms.items()} == {"net.tx": 1, "network": 0, "gpu": 0}
    assert list(decision.refusals) == ["network", "gpu"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_deny_wins_whatever_the_order(order: tuple[int, int]) -> None:
    rules = ["[[rule]]\nname = 'yes'\nallow = ['*']\n", "[[rule]]\nname = 'no'\ndeny = ['gpu']\n"]
    decision = decide(policy("".join(rules[one] for one in order)), terms={"gpu": 1, "board": 1})
    assert (outcome(decision, "gpu"), outcome(decision, "board")) == ((0, "no"), (1, ""))


@pytest.mark.parametrize(
    ("lines", "more", "expected"),
    [
        (("limit = 'gpu'\nmax = 4", "limit = 'gpu'\nmax = 3"), {}, (3, "r1")),
        (("limit = 'gpu'\nmax = 3", "limit = 'gpu'\nmax = 4"), {}, (3, "r0")),
        (("limit = 'gpu'\nmax = 4\nfraction = '1/2'",), {"capacities": {"gpu": 7}}, (3, "r0")),
        (("limit = 'gpu'\nmax = 2\nfraction = '1/2'",), {"capacities": {"gpu": 7}}, (2, "r0")),
        (("limit = 'gpu'\nfraction = 1",), {"capacities": {"gpu": 7}}, (7, "r0")),
        (("limit = 'gpu'\nmax = 10",), {}, (10, "")),
        (("limit = 'gpu'\nmax = 4",), {"held": [held(STUDENT, 3)]}, (1, "r0")),
        (("limit = 'gpu'\nmax = 4",), {"held": [held(STUDENT, 4)]}, (0, "r0")),
        (("limit = 'gpu'\nmax = 4",), {"held": [held(STUDENT, 9)]}, (0, "r0")),
        (("limit = 'gpu'\nmax = 4",), {"held": [held(OTHER, 3), held(STUDENT, 3, "psu")]}, (4, "r0")),
        (("limit = 'gpu'\nper = 'lease'\nmax = 4",), {"held": [held(STUDENT, 4)]}, (4, "r0")),
        (("limit = 'gpu'\nper = 'all'\nmax = 8",), {"held": [held(OTHER, 3), held(STUDENT, 2)]}, (3, "r0")),
        (
            ("limit = 'gpu'\nper = 'affiliation'\nmax = 8",),
            {"held": [held(OTHER, 3), held(Agent("eve", "vu"), 2)]},
            (6, "r0"),
        ),
        (("limit = 'gpu'\nmax = 7",), {"steps": {"gpu": 4}}, (4, "r0")),
        (("limit = 'gpu'\nmax = 3",), {"steps": {"gpu": 4}}, (0, "r0")),
        (("limit = 'gpu'\nmax = 4",), {"floors": {"gpu": 4}}, (4, "r0")),
        (("limit = 'gpu'\nmax = 4",), {"floors": {"gpu": 5}}, (0, "r0")),
        (("limit = 'gpu'\nfraction = '1/2'",), {}, (0, "r0")),
    ],
)
def test_the_tightest_limit_less_what_is_held(
    lines: tuple[str, ...], more: dict[str, Any], expected: tuple[int, str]
) -> None:
    assert outcome(decide(policy(limits(*lines)), terms={"gpu": 10}, **more), "gpu") == expected


def test_a_limit_for_some_counts_only_what_those_hold() -> None:
    text = limits("limit = 'gpu'\nper = 'all'\nmax = 5\nwho = 'agent.role == \"student\"'")
    holding = [held(OTHER, 4), held(Agent("eve", role="student"), 2)]
    assert outcome(decide(policy(text), terms={"gpu": 9}, held=holding), "gpu") == (3, "r0")
    assert outcome(decide(policy(text), agent=OTHER, terms={"gpu": 9}, held=holding), "gpu") == (9, "")


def test_the_location_comes_first_and_the_smaller_amount_counts() -> None:
    location = policy(ALLOW + "[[rule]]\nname = 'wide'\nlimit = 'gpu'\nmax = 6", "location.toml")
    host = policy(ALLOW + "[[rule]]\nname = 'narrow'\nlimit = 'gpu'\nmax = 2", "host.toml")
    both = decide(location, host, terms={"gpu": 10})
    assert outcome(both, "gpu") == (2, "narrow")
    assert [(line.policy, line.at_most) for line in both.lines] == [("location.toml", 6), ("host.toml", 2)]
    assert outcome(decide(host, location, terms={"gpu": 10}), "gpu") == (2, "narrow")
    denying = policy(ALLOW + "[[rule]]\nname = 'never'\ndeny = ['gpu']")
    assert outcome(decide(denying, host, terms={"gpu": 10}), "gpu") == (0, "never")
    assert outcome(decide(host, denying, terms={"gpu": 10}), "gpu") == (0, "never")


def test_the_host_sees_what_was_asked_not_what_the_location_left() -> None:
    location = policy(limits("limit = 'gpu'\nmax = 3"))
    host = policy(
        ALLOW + "[[rule]]\nname = 'greedy'\nlimit = 'gpu'\nmax = 1\nwho = 'request.terms[\"gpu\"] > 4'"
    )
    assert outcome(decide(location, host, terms={"gpu": 5}), "gpu") == (1, "greedy")
    assert outcome(decide(location, host, terms={"gpu": 4}), "gpu") == (3, "r0")


def test_functions_are_allowed_or_not_and_have_no_amount() -> None:
    text = limits(
        "limit = 'db'\nmax = 1", "deny = ['cpu.arch']\nwho = 'request.terms[\"cpu.arch\"] == \"arm64\"'"
    )
    decision = decide(policy(text), terms={"db": True, "cpu.arch": "arm64"})
    assert (outcome(decision, "db"), outcome(decision, "cpu.arch")) == ((True, ""), (0, "r1"))
    assert outcome(decide(policy(text), terms={"cpu.arch": "amd64"}), "cpu.arch") == ("amd64", "")


def test_a_lease_is_shortened_to_what_the_policy_lets() -> None:
    text = limits(
        "limit = 'duration'\nmax = '60 s'",
        "limit = 'duration'\nmax = '10 s'\nwho = 'agent.role == \"staff\"'",
    )
    assert (d := decide(policy(text), terms={"gpu": 1}, duration_ms=90_000)).duration.amount == 60_000
    assert (d.duration.rule, d.allowed) == ("r0", True)
    assert decide(policy(text), agent=OTHER, terms={"gpu": 1}, duration_ms=90_000).duration.amount == 10_000
    assert decide(policy(text), terms={"gpu": 1}, duration_ms=60_000).duration.rule == ""
    floored = decide(policy(text), terms={"gpu": 1}, duration_ms=90_000, floors={"duration": 61_000})
    assert list(floored.refusals) == ["duration"]


@pytest.mark.parametrize(
    ("kind", "amount", "rule"),
    [
        ("allow = ['gpu']", 0, "fails"),
        ("deny = ['gpu']", 0, "fails"),
        ("limit = 'gpu'\nmax = 2", 2, "fails"),
    ],
)
@pytest.mark.parametrize(
    "condition", ["10 / size(agent.groups) > 1", "request.terms['nosuch'] > 1", "'text'"]
)
@pytest.mark.parametrize("field", ["who", "when"])
def test_a_condition_that_fails_closes_both_ways(
    kind: str, amount: int, rule: str, condition: str, field: str
) -> None:
    access = "deny" if kind.startswith("allow") else "allow"
    text = f'[policy]\naccess = "{access}"\n[[rule]]\nname = "fails"\n{kind}\n{field} = "{condition}"'
    decision = decide(policy(text), agent=OTHER, terms={"gpu": 5})
    assert outcome(decision, "gpu") == (amount, rule)
    assert decision.lines[0].applies is Truth.ERROR
    assert decision.lines[0].error


def test_a_failing_allow_does_not_stop_another_one() -> None:
    text = "[[rule]]\nname='a'\nallow=['gpu']\nwho='1/0 == 1'\n[[rule]]\nname='b'\nallow=['gpu']"
    assert outcome(decide(policy(text), terms={"gpu": 5}), "gpu") == (5, "")


def test_who_that_is_false_decides_even_when_when_fails() -> None:
    text = limits("deny = ['gpu']\nwho = 'agent.role == \"student\"'\nwhen = '1/0 == 1'")
    assert outcome(decide(policy(text), agent=OTHER, terms={"gpu": 5}), "gpu") == (5, "")
    assert outcome(decide(policy(text), terms={"gpu": 5}), "gpu") == (0, "r0")


@pytest.mark.parametrize(
    ("who", "amount"),
    [
        ("*", 1),
        ("agent:ann", 1),
        ("agent:an", 0),
        ("affiliation:vu", 1),
        ("group:ci", 1),
        ("group:c", 0),
        ("role:staff", 0),
    ],
)
def test_a_grant_is_the_short_form_of_an_allow(who: str, amount: int) -> None:
    text = f'[[grant]]\nwho = "{who}"\nmay = ["claim"]\npools = ["board", "psu"]'
    decision = decide(policy(text), terms={"psu": 1, "gpu": 1})
    assert (decision.terms["psu"].amount, decision.terms["gpu"].amount) == (amount, 0)


def test_fair_rules_tell_group_and_weights_to_whoever_divides() -> None:
    text = limits(
        "fair = 'net.tx'\ngroup = 'affiliation'\nweights = {vu = '3/2', uni-a = 1}\nscope = 'location'"
    )
    weights = (("uni-a", Fraction(1)), ("vu", Fraction(3, 2)))
    found = decide(policy(text), terms={"net.tx": 9, "gpu": 1}).terms
    assert found["net.tx"].shares == (Share("r0", "location", "vu", Fraction(3, 2), weights),)
    assert (found["net.tx"].amount, found["gpu"].shares) == (9, ())
    other = decide(policy(text), agent=OTHER, terms={"net.tx": 9}).terms["net.tx"].shares[0]
    assert (other.group, other.weight) == ("other", Fraction(1))
    fair = policy(text).fair("net.tx", "location")
    assert fair is not None
    assert fair.weights == weights
    assert policy(text).fair("net.tx", "host") is None


def test_ranks() -> None:
    ranked = policy(limits("rank = -1\nhost = 'h2'"))
    assert [ranked.rank(host) for host in ("h1", "h2")] == [0, -1]


@pytest.mark.parametrize(
    ("lines", "now", "rule"),
    [
        (("deny = ['gpu']",), FRIDAY, ""),
        (("deny = ['gpu']\nrevoke = true",), FRIDAY, "r0"),
        (("deny = ['gpu']\nrevoke = true\nwhen = 'now.hour < 17'",), EVENING, ""),
        (("limit = 'gpu'\nmax = 3\nrevoke = true",), FRIDAY, "r0"),
        (("limit = 'gpu'\nmax = 4\nrevoke = true",), FRIDAY, ""),
        (("limit = 'duration'\nmax = '1 s'\nrevoke = true",), FRIDAY, "r0"),
    ],
)
def test_only_rules_that_say_so_end_live_leases(lines: tuple[str, ...], now: Now, rule: str) -> None:
    lease = Ask(agent=STUDENT, terms={"gpu": 4}, duration_ms=60_000)
    assert revoked_by(policy(limits(*lines)), lease, lambda _zone: now) == rule
