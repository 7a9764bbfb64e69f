"""With `eps` stated, what two clocks may show wrongly is no evidence: overlaps and orders up to twice that."""

import pytest
from checker.lines import Said, audit, broken, claim, grant, meta, release, renew, use

Pools = dict[str, object]


def overlap_of(length: int, *, eps: int | str = 0) -> list[Said]:
    return [
        meta(eps=eps),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#1"], 12, 100),
        claim("b1", {"psu": 1}, 20),
        grant("b1", ["psu/a#2"], 100 - length, 200),
    ]


@pytest.mark.parametrize(("length", "rules"), [(1, []), (6, []), (7, ["double-hold"])])
def test_an_overlap_up_to_twice_the_error_is_forgiven(length: int, rules: list[str]) -> None:
    assert broken(*overlap_of(length, eps=3)) == rules


def test_without_an_error_every_overlap_counts() -> None:
    assert broken(*overlap_of(0)) == []
    assert broken(*overlap_of(1)) == ["double-hold"]


def test_the_error_may_be_said_with_a_unit() -> None:
    assert broken(*overlap_of(6, eps="3ns")) == []
    assert broken(*overlap_of(7, eps="0.003us")) == ["double-hold"]


@pytest.mark.parametrize(("length", "rules"), [(6, []), (7, ["over-capacity"])])
def test_an_over_commitment_up_to_twice_the_error_is_forgiven(length: int, rules: list[str]) -> None:
    counted: Pools = {"mem": {"capacity": 3}}
    lines = [
        meta(counted, eps=3),
        claim("a1", {"mem": 2}, 10),
        grant("a1", ["mem*2"], 12, 100),
        claim("b1", {"mem": 2}, 20),
        grant("b1", ["mem*2"], 100 - length, 200),
    ]
    assert broken(*lines) == rules


@pytest.mark.parametrize(("asked", "rules"), [(18, []), (19, ["fence-order"])])
def test_an_order_of_grants_is_certain_from_more_than_twice_the_error_on(
    asked: int, rules: list[str]
) -> None:
    lines = [
        meta(eps=3),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#7"], 12, 13),
        claim("b1", {"psu": 1}, asked),
        grant("b1", ["psu/a#6"], 30, 29),
    ]
    assert broken(*lines) == rules


@pytest.mark.parametrize(("asked", "rules"), [(18, []), (19, ["fence-regress"])])
def test_books_forget_a_number_only_if_it_was_certainly_given_before(asked: int, rules: list[str]) -> None:
    lines = [
        meta(eps=3),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#7"], 12, 13),
        audit("psu", 40, call=asked, fences={"a": 6}),
    ]
    assert broken(*lines) == rules


@pytest.mark.parametrize(("sent", "rules"), [(26, []), (27, ["renewed-after-release"])])
def test_a_renewal_was_sent_after_the_release_only_if_certainly_so(sent: int, rules: list[str]) -> None:
    lines = [
        meta(eps=3),
        claim("a1", {"psu": 1}, 10),
        grant("a1", ["psu/a#7"], 12, 100),
        release("a1", 15, 20),
        renew("a1", 50, 90, call=sent),
    ]
    assert broken(*lines) == rules


@pytest.mark.parametrize(
    ("start", "fence", "rules"),
    [(94, 8, []), (93, 8, ["overlapping-use"]), (16, 6, []), (17, 6, ["overlapping-use", "stale-use"])],
)
def test_uses_in_a_certain_order(start: int, fence: int, rules: list[str]) -> None:
    lines = [
        meta(eps=3),
        use("psu/a#7", 10, 100),
        use(f"psu/a#{fence}", start, start + (200 if start > 50 else 0)),
    ]
    assert broken(*lines) == rules


def test_a_belief_that_ended_within_the_error_of_an_audit_is_a_holder() -> None:
    held = [meta(eps=3), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#7"], 12, 100)]
    assert broken(*held, audit("psu", 106, total=1, free=0, held=1, quiesced=True)) == []
    assert broken(*held, audit("psu", 107, total=1, free=0, held=1, quiesced=True)) == ["leak"]


def test_a_grant_is_unasked_only_if_certainly_so() -> None:
    def grant_at(at: int) -> list[Said]:
        return [meta(eps=3), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], at, 100)]

    assert broken(*grant_at(4)) == []
    assert broken(*grant_at(3)) == ["unasked-grant"]


def test_own_deadlines_are_compared_by_one_clock_and_forgive_nothing() -> None:
    lines = [meta(eps=50), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 15, 111, call=10, ttl=100)]
    assert broken(*lines) == ["unsafe-deadline"]
