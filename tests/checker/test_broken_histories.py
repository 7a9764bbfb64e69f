"""Each rule: the smallest history that breaks it, and its neighbour that does not."""

from collections.abc import Mapping

import pytest
from checker.lines import (
    Said,
    audit,
    broken,
    claim,
    crash,
    end,
    fail,
    fault,
    grant,
    judged,
    lost,
    meta,
    queued,
    release,
    renew,
    resume,
    use,
)

A_HOLDS_PSU = [claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 100)]
ONE: Mapping[str, object] = {"psu": {"units": ["a"]}}
COUNTED: Mapping[str, object] = {"mem": {"capacity": 4}}

RULES: dict[str, tuple[list[str], list[Said]]] = {
    "double-hold": (
        ["double-hold"],
        [
            meta(),
            *A_HOLDS_PSU,
            claim("b1", {"psu": 1}, 20),
            grant("b1", ["psu/a#2"], 30, 90),
            release("a1", 31, 32),
        ],
    ),
    "double-hold after a renewal": (
        ["double-hold"],
        [
            meta(),
            *A_HOLDS_PSU,
            renew("a1", 90, 200),
            claim("b1", {"psu": 1}, 20),
            grant("b1", ["psu/a#2"], 150, 190),
        ],
    ),
    "double-hold of one that never ends": (
        ["double-hold"],
        [
            meta(),
            claim("a1", {"psu": 1}, 10),
            grant("a1", ["psu/a#1"], 12),
            claim("b1", {"psu": 1}, 20),
            grant("b1", ["psu/a#2"], 10**12, 10**12 + 1),
        ],
    ),
    "double-hold hidden behind a longer one": (
        ["double-hold", "double-hold"],
        [
            meta(),
            claim("a1", {"psu": 1}, 1),
            grant("a1", ["psu/a#1"], 2, 100),
            claim("b1", {"psu": 1}, 3),
            grant("b1", ["psu/a#2"], 10, 20),
            claim("c1", {"psu": 1}, 4),
            grant("c1", ["psu/a#3"], 50, 60),
        ],
    ),
    "double-hold of one that came back": (
        ["double-hold"],
        [
            meta(),
            *A_HOLDS_PSU,
            crash("a", 20),
            resume("a1", 50, 100),
            claim("b1", {"psu": 1}, 30),
            grant("b1", ["psu/a#2"], 40, 60),
        ],
    ),
    "over-capacity": (
        ["over-capacity"],
        [
            meta(COUNTED),
            claim("a1", {"mem": 3}, 1),
            grant("a1", ["mem*3"], 2, 50),
            claim("b1", {"mem": 2}, 3),
            grant("b1", ["mem*2"], 49, 60),
        ],
    ),
    "over-capacity of three of which any two fit": (
        ["over-capacity"],
        [
            meta(COUNTED),
            *(claim(f"{c}1", {"mem": 2}, 1) for c in "abc"),
            *(grant(f"{c}1", ["mem*2"], at, at + 20) for c, at in (("a", 10), ("b", 15), ("c", 20))),
        ],
    ),
    "over-capacity with named units": (
        ["over-capacity"],
        [
            meta({"mem": {"capacity": 1}}),
            *(claim(f"{c}1", {"mem": 1}, 1) for c in "ab"),
            *(grant(f"{c}1", [f"mem/{c}#1"], 5, 20) for c in "ab"),
        ],
    ),
    "fence-reuse": (
        ["fence-reuse"],
        [
            meta(),
            *A_HOLDS_PSU,
            release("a1", 20, 22),
            claim("b1", {"psu": 1}, 15),
            grant("b1", ["psu/a#1"], 30, 60),
        ],
    ),
    "fence-order, asked after": (
        ["fence-order"],
        [
            meta(),
            claim("a1", {"psu": 1}, 1),
            grant("a1", ["psu/a#7"], 2, 3),
            claim("b1", {"psu": 1}, 5),
            grant("b1", ["psu/a#6"], 9, 20),
        ],
    ),
    "fence-order, believed after": (
        ["fence-order"],
        [
            meta(),
            claim("a1", {"psu": 1}, 1),
            claim("b1", {"psu": 1}, 1),
            grant("a1", ["psu/a#7"], 2, 10),
            grant("b1", ["psu/a#6"], 10, 20),
        ],
    ),
    "no-fence": (["no-fence"], [meta(), claim("a1", {"psu": 1}, 1), grant("a1", ["psu/a"], 2, 3)]),
    "all-or-nothing, too few": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": 2}, 1), grant("a1", ["gpu/0#1"], 2, 3)],
    ),
    "all-or-nothing, too many": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": 1}, 1), grant("a1", ["gpu/0#1", "gpu/1#1"], 2, 3)],
    ),
    "all-or-nothing, a pool missing": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": 1, "psu": 1}, 1), grant("a1", ["gpu/0#1"], 2, 3)],
    ),
    "all-or-nothing, a pool nobody asked for": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": 1}, 1), grant("a1", ["gpu/0#1", "psu/a#1"], 2, 3)],
    ),
    "all-or-nothing, empty": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": 1}, 1), grant("a1", [], 2, 3)],
    ),
    "all-or-nothing, half of one alternative and half of the other": (
        ["all-or-nothing"],
        [
            meta(),
            claim("a1", {"gpu": 2}, 1, **{"or": [{"gpu": 1, "psu": 1}]}),
            grant("a1", ["gpu/0#1"], 2, 3),
        ],
    ),
    "all-or-nothing, none of all": (
        ["all-or-nothing"],
        [meta(), claim("a1", {"gpu": "all", "psu": 1}, 1), grant("a1", ["psu/a#1"], 2, 3)],
    ),
    "all-or-nothing, an amount": (
        ["all-or-nothing"],
        [meta(COUNTED), claim("a1", {"mem": 2}, 1), grant("a1", ["mem*1"], 2, 3)],
    ),
    "same-unit-twice": (
        ["same-unit-twice"],
        [meta(), claim("a1", {"gpu": 2}, 1), grant("a1", ["gpu/0#1", "gpu/0#1"], 2, 3)],
    ),
    "unknown-unit": (
        ["unknown-unit"],
        [meta(), claim("a1", {"gpu": 1}, 1), grant("a1", ["gpu/7#1"], 2, 3)],
    ),
    "unknown-unit, a count of named units": (
        ["unknown-unit"],
        [meta(), claim("a1", {"gpu": 1}, 1), grant("a1", ["gpu*1"], 2, 3)],
    ),
    "double-grant": (
        ["double-grant"],
        [
            meta(),
            claim("a1", {"gpu": 1}, 1),
            grant("a1", ["gpu/0#1"], 2, 30, lease="l1"),
            grant("a1", ["gpu/1#1"], 3, 30, lease="l2"),
        ],
    ),
    "duplicate-lease": (
        ["duplicate-lease"],
        [
            meta(),
            claim("a1", {"gpu": 1}, 1),
            claim("b1", {"gpu": 1}, 1),
            grant("a1", ["gpu/0#1"], 2, 30, lease="l1"),
            grant("b1", ["gpu/1#1"], 3, 30, lease="l1"),
        ],
    ),
    "duplicate-claim": (
        ["duplicate-claim"],
        [meta(), claim("a1", {"gpu": 1}, 1), claim("a1", {"psu": 1}, 2), grant("a1", ["gpu/0#1"], 3, 9)],
    ),
    "unasked-grant": (["unasked-grant"], [meta(), grant("a1", ["gpu/0#1"], 3, 9)]),
    "unasked-grant, asked too late": (
        ["unasked-grant"],
        [meta(), claim("a1", {"gpu": 1}, 5), grant("a1", ["gpu/0#1"], 3, 9)],
    ),
    "grant-and-fail": (
        ["grant-and-fail"],
        [meta(), claim("a1", {"gpu": 1}, 1), fail("a1", 2), grant("a1", ["gpu/0#1"], 3, 9)],
    ),
    "bad-need, none": (["bad-need"], [meta(), claim("a1", {"gpu": 0}, 1), queued("a1", 2), fail("a1", 3)]),
    "bad-need, less than none": (
        ["bad-need"],
        [meta(), claim("a1", {"gpu": -1}, 1), queued("a1", 2), fail("a1", 3)],
    ),
    "bad-need, more than there is": (
        ["bad-need"],
        [meta(), claim("a1", {"gpu": 3}, 1), queued("a1", 2), fail("a1", 9, definite=False)],
    ),
    "bad-need, no such pool": (
        ["bad-need", "unknown-unit"],
        [meta(), claim("a1", {"tpu": 1}, 1), grant("a1", ["tpu/0#1"], 2, 3)],
    ),
    "bad-need, nothing": (["bad-need"], [meta(), claim("a1", {}, 1), grant("a1", [], 2, 3)]),
    "bad-need, left without an answer": (["bad-need", "starvation"], [meta(), claim("a1", {}, 1), end(10)]),
    "stale-use": (
        ["stale-use"],
        [meta(), use("psu/a#2", 10, 11), use("psu/a#1", 20, 21)],
    ),
    "stale-use long after": (
        ["stale-use"],
        [meta(), use("psu/a#2", 10, 11), use("psu/a#3", 12), use("psu/a#3", 13), use("psu/a#2", 20)],
    ),
    "overlapping-use": (["overlapping-use"], [meta(), use("psu/a#1", 10, 20), use("psu/a#2", 15, 30)]),
    "overlapping-use of a moment": (
        ["overlapping-use"],
        [meta(), use("psu/a#1", 10, 20), use("psu/a#2", 15)],
    ),
    "overlapping-use beside another of its number": (
        ["overlapping-use"],
        [
            meta(),
            use("psu/a#1", 10, 100),
            use("psu/a#2", 101, 105),
            use("psu/a#2", 102, 400),
            use("psu/a#3", 300, 301),
        ],
    ),
    "overlapping-use, with the number that lasts second": (
        ["overlapping-use", "overlapping-use"],
        [meta(), use("psu/a#1", 10, 100), use("psu/a#2", 20, 400), use("psu/a#2", 50, 500)],
    ),
    "foreign-op, renewal": (
        ["foreign-op"],
        [meta(), *A_HOLDS_PSU, renew("a1", 20, 200, by="b")],
    ),
    "foreign-op, release": (
        ["foreign-op"],
        [meta(), *A_HOLDS_PSU, release("a1", 20, 25, by="b")],
    ),
    "renewed-after-release": (
        ["renewed-after-release"],
        [meta(), *A_HOLDS_PSU, release("a1", 20, 25), renew("a1", 40, 140, call=30)],
    ),
    "renewed-after-release, no call": (
        ["renewed-after-release"],
        [meta(), *A_HOLDS_PSU, release("a1", 20, 25), renew("a1", 26, 140)],
    ),
    "renewed-after-release, came back": (
        ["renewed-after-release"],
        [meta(), *A_HOLDS_PSU, release("a1", 20, 25), resume("a1", 40, 140)],
    ),
    "unsafe-deadline of a grant": (
        ["unsafe-deadline"],
        [meta(), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 15, 111, call=10, ttl=100)],
    ),
    "unsafe-deadline of a renewal": (
        ["unsafe-deadline"],
        [meta(), *A_HOLDS_PSU, renew("a1", 60, 160, call=50, ttl="100ns")],
    ),
    "unsafe-deadline, none at all": (
        ["unsafe-deadline"],
        [meta(), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 15, None, call=10, ttl=100)],
    ),
    "not-conserved": (["not-conserved"], [meta(), audit("gpu", 5, total=2, free=1, held=0)]),
    "not-conserved, a unit forgotten": (
        ["not-conserved"],
        [meta(), audit("gpu", 5, total=1, free=1, held=0)],
    ),
    "not-conserved, no total": (["not-conserved"], [meta(), audit("gpu", 5, free=2, held=1)]),
    "not-conserved, less than nothing": (
        ["not-conserved"],
        [meta(), audit("gpu", 5, total=2, free=3, held=-1)],
    ),
    "leak": (["leak"], [meta(), audit("gpu", 50, total=2, free=1, held=1, quiesced=True)]),
    "leak by what is free": (["leak"], [meta(), audit("gpu", 50, total=2, free=1, quiesced=True)]),
    "leak of one that was released": (
        ["leak"],
        [
            meta(),
            *A_HOLDS_PSU,
            release("a1", 20, 25),
            audit("psu", 50, total=1, free=0, held=1, quiesced=True),
        ],
    ),
    "fence-regress in the books": (
        ["fence-regress"],
        [meta(), audit("psu", 5, fences={"a": 7}), audit("psu", 9, fences={"a": 6})],
    ),
    "fence-regress, a grant forgotten": (
        ["fence-regress"],
        [meta(), *A_HOLDS_PSU, audit("psu", 50, call=40, fences={"a": 0})],
    ),
    "fence-regress, given again after the books": (
        ["fence-regress"],
        [
            meta(),
            audit("psu", 5, fences={"a": 7}),
            claim("a1", {"psu": 1}, 6),
            grant("a1", ["psu/a#7"], 8, 9),
        ],
    ),
    "starvation": (
        ["starvation"],
        [meta(max_wait=10), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 21, 30)],
    ),
    "starvation, still waiting": (
        ["starvation"],
        [meta(), claim("a1", {"psu": 1}, 10), queued("a1", 11), end(12)],
    ),
    "starvation, gave up": (
        ["starvation"],
        [meta(max_wait="10ns"), claim("a1", {"psu": 1}, 10), fail("a1", 21, definite=False)],
    ),
    "starvation in spite of an excuse": (
        ["starvation"],
        [
            meta(max_wait=10),
            claim("a1", {"psu": 1}, 10),
            fault("kill", 15, 20, excuse=True),
            grant("a1", ["psu/a#1"], 26, 30),
        ],
    ),
    "starvation with somebody else's excuse": (
        ["starvation"],
        [
            meta(max_wait=10),
            claim("a1", {"psu": 1}, 10),
            fault("pause", 11, 25, excuse=True, client="b"),
            grant("a1", ["psu/a#1"], 26, 30),
        ],
    ),
    "overtaken": (
        ["overtaken"],
        [
            meta(ONE, max_overtakes=0),
            *A_HOLDS_PSU,
            release("a1", 20, 21),
            claim("b1", {"psu": 1}, 13),
            claim("c1", {"psu": 1}, 14),
            grant("c1", ["psu/a#2"], 25, 60),
            release("c1", 30, 31),
            grant("b1", ["psu/a#3"], 35, 70),
        ],
    ),
    "overtaken more often than was said": (
        ["overtaken"],
        [
            meta(ONE),
            *A_HOLDS_PSU,
            claim("b1", {"psu": 1}, 13),
            queued("b1", 14, bound=1),
            release("a1", 20, 21),
            claim("c1", {"psu": 1}, 15),
            grant("c1", ["psu/a#2"], 25, 60),
            release("c1", 30, 31),
            claim("c2", {"psu": 1}, 31),
            grant("c2", ["psu/a#3"], 33, 60),
            release("c2", 34, 35),
            grant("b1", ["psu/a#4"], 36, 70),
        ],
    ),
    "overtaken and still waiting": (
        ["overtaken", "starvation"],
        [
            meta(max_overtakes=0),
            claim("b1", {"gpu": 1}, 13),
            claim("c1", {"gpu": 1}, 14),
            grant("c1", ["gpu/0#1"], 20, 60),
            end(30),
        ],
    ),
    "overtaken in a counted pool": (
        ["overtaken"],
        [
            meta(COUNTED, max_overtakes=0),
            claim("a1", {"mem": 3}, 1),
            grant("a1", ["mem*3"], 2, 90),
            claim("b1", {"mem": 3}, 3),
            claim("c1", {"mem": 3}, 4),
            release("a1", 10, 11),
            grant("c1", ["mem*3"], 12, 90),
            release("c1", 20, 21),
            grant("b1", ["mem*3"], 22, 90),
        ],
    ),
    "slow-reclaim": (
        ["slow-reclaim"],
        [
            meta(ONE, max_reclaim=10),
            *A_HOLDS_PSU,
            claim("b1", {"psu": 1}, 15),
            release("a1", 20, 21),
            grant("b1", ["psu/a#2"], 31, 60),
        ],
    ),
    "slow-reclaim after a crash": (
        ["slow-reclaim"],
        [
            meta(ONE, max_reclaim="10ns"),
            *A_HOLDS_PSU,
            claim("b1", {"psu": 1}, 15),
            crash("a", 20),
            grant("b1", ["psu/a#2"], 31, 60),
        ],
    ),
    "slow-reclaim of a unit that nobody ever had": (
        ["slow-reclaim"],
        [meta(ONE, max_reclaim=10), claim("b1", {"psu": 1}, 15), grant("b1", ["psu/a#2"], 31, 60)],
    ),
    "slow-reclaim in a counted pool": (
        ["slow-reclaim"],
        [
            meta(COUNTED, max_reclaim=10),
            claim("a1", {"mem": 4}, 1),
            grant("a1", ["mem*4"], 2, 90),
            claim("b1", {"mem": 1}, 3),
            release("a1", 10, 11),
            grant("b1", ["mem*1"], 22, 90),
        ],
    ),
    "slow-reclaim, within a longer idleness": (
        ["slow-reclaim"],
        [
            meta(ONE, max_reclaim=10),
            claim("b1", {"psu": 1}, 5),
            fail("b1", 30),
            claim("c1", {"psu": 1}, 100),
            grant("c1", ["psu/a#1"], 101, 110),
        ],
    ),
    "lost and released, then another": (
        ["double-hold"],
        [
            meta(),
            *A_HOLDS_PSU,
            lost("a1", 50),
            claim("b1", {"psu": 1}, 13),
            grant("b1", ["psu/a#2"], 49, 60),
        ],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_broken_history_is_caught_by_its_rule_and_by_no_other(name: str) -> None:
    rules, lines = RULES[name]
    assert broken(*lines) == rules
    assert broken(*reversed(lines)) == rules
    assert judged(*lines).exit_status == 1


def test_every_rule_of_the_format_has_a_broken_history() -> None:
    assert {rule for rules, _ in RULES.values() for rule in rules} == {
        *("double-hold", "over-capacity", "fence-reuse", "fence-order", "no-fence"),
        *("all-or-nothing", "same-unit-twice", "unknown-unit", "double-grant", "duplicate-lease"),
        *("duplicate-claim", "unasked-grant", "grant-and-fail", "bad-need", "stale-use", "overlapping-use"),
        *("foreign-op", "renewed-after-release", "unsafe-deadline", "not-conserved", "leak", "fence-regress"),
        *("starvation", "overtaken", "slow-reclaim"),
    }


def test_a_violation_names_who_what_when_and_where() -> None:
    (violation,) = judged(*RULES["double-hold"][1]).violations
    assert violation.at == 30
    assert violation.lines == ("h:3", "h:5")
    for word in ("psu/a", "a1", "b1", "fence 1", "fence 2", "of a ", "of b "):
        assert word in violation.text
