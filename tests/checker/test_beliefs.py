"""When a holder believed to hold: never longer than it was told, never shorter than it acted."""

import pytest
from checker.lines import Said, claim, crash, grant, lost, meta, reading, release, renew, resume

from holdall.checker.beliefs import holds_of
from holdall.checker.records import FOREVER
from holdall.checker.stories import put_together

GRANT = [claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 100)]


def spans(*lines: Said) -> list[tuple[int, int, str]]:
    (hold,) = holds_of(put_together(reading([meta(), *lines])))
    return [(span.start, span.end, span.ended_by) for span in hold.spans]


@pytest.mark.parametrize(
    ("lines", "believed"),
    [
        ([], [(12, 100, "validity")]),
        ([release("a1", 40, 50)], [(12, 40, "release")]),
        ([release("a1", 40), release("a1", 40, 50)], [(12, 40, "release")]),
        ([release("a1", 40, 50, ok=False)], [(12, 40, "release")]),
        ([lost("a1", 60)], [(12, 60, "loss")]),
        ([crash("a", 60)], [(12, 60, "crash")]),
        ([crash("b", 60)], [(12, 100, "validity")]),
        ([crash("a", 9)], [(12, 100, "validity")]),  # an earlier life of the client
        ([crash("a", 10)], []),  # in the moment of asking
        ([crash("a", 11)], []),  # it died while the grant was on its way
        ([renew("a1", 90, 200)], [(12, 200, "validity")]),
        ([renew("a1", 100, 200)], [(12, 200, "validity")]),  # in time, to the nanosecond
        ([renew("a1", 101, 200)], [(12, 100, "validity"), (101, 200, "validity")]),  # late: a gap
        ([renew("a1", 50, 70)], [(12, 70, "validity")]),  # the last word counts, also when it is shorter
        ([renew("a1", 50, None, ok=False)], [(12, 100, "validity")]),
        ([renew("a1", 50, 200, by="b")], [(12, 100, "validity")]),  # nobody told the holder
        ([renew("a1", 50, None)], [(12, FOREVER, "validity")]),
        ([release("a1", 40, 50), renew("a1", 60, 300)], [(12, 40, "release")]),
        ([lost("a1", 40), renew("a1", 60, 300)], [(12, 40, "loss")]),
        ([crash("a", 40), renew("a1", 60, 300)], [(12, 40, "crash")]),
        ([crash("a", 40), resume("a1", 60, 80)], [(12, 40, "crash"), (60, 80, "validity")]),
        ([crash("a", 40), resume("a1", 60, 80), crash("a", 70)], [(12, 40, "crash"), (60, 70, "crash")]),
        ([crash("a", 40), resume("a1", 40, 80)], [(12, 40, "crash"), (40, 80, "validity")]),
        ([resume("a1", 60, 180)], [(12, 180, "validity")]),
        ([release("a1", 40, 50), resume("a1", 60, 80)], [(12, 40, "release"), (60, 80, "validity")]),
        ([release("a1", 11)], []),  # it gave up before the grant came
        ([release("a1", 150)], [(12, 100, "validity")]),
    ],
)
def test_a_belief_ends_with_the_first_of_its_ends(
    lines: list[Said], believed: list[tuple[int, int, str]]
) -> None:
    assert spans(*GRANT, *lines) == believed
    assert spans(*reversed([*GRANT, *lines])) == believed


def test_a_grant_that_comes_after_its_end_is_never_believed() -> None:
    assert spans(claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 11)) == []


def test_a_delegate_may_renew_and_release() -> None:
    held = [claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 100, delegates=["d"])]
    assert spans(*held, renew("a1", 50, 200, by="d")) == [(12, 200, "validity")]
    assert spans(*held, release("a1", 50, 60, by="d")) == [(12, 50, "release")]


def test_the_claims_of_a_later_life_are_not_ended_by_an_earlier_crash() -> None:
    lines = [
        meta(),
        crash("a", 5),
        *GRANT,
        crash("a", 50),
        claim("a2", {"gpu": 1}, 60),
        grant("a2", ["gpu/0#1"], 61, 90),
    ]
    first, second = holds_of(put_together(reading(lines)))
    assert [tuple(span) for span in (*first.spans, *second.spans)] == [
        (12, 50, "crash"),
        (61, 90, "validity"),
    ]
