"""What is open at once, each user by himself, and how long what has ended is told."""

import pytest

from holdall.http.kept import (
    KEPT_AFTER_END_MS,
    KEPT_ENDED_MAX,
    OPEN_MAX,
    OPEN_OF_USER_MAX,
    outlived,
    refuse_more,
)
from holdall.http.problems import Problem

ANN, BOB = 1000, 1001


def test_a_user_has_so_many_whatever_others_have_and_all_together_so_many() -> None:
    refuse_more([BOB] * OPEN_OF_USER_MAX + [ANN] * (OPEN_OF_USER_MAX - 1), ANN, "claims of yours")
    with pytest.raises(Problem, match="too many claims of yours are open here"):
        refuse_more([ANN] * OPEN_OF_USER_MAX, ANN, "claims of yours")
    refuse_more(range(2000, 2000 + OPEN_MAX - 1), ANN, "claims of yours")
    with pytest.raises(Problem) as problem:
        refuse_more(range(2000, 2000 + OPEN_MAX), ANN, "claims of yours")
    assert problem.value.detail.code == "busy"


def test_what_is_old_is_told_no_more_and_of_too_many_the_oldest() -> None:
    now = KEPT_AFTER_END_MS + 10_000
    assert outlived({"old": 9_999, "young": 10_000}, now) == ["old"]
    many = {number: now - number for number in range(KEPT_ENDED_MAX + 2)}
    assert outlived(many, now) == [KEPT_ENDED_MAX + 1, KEPT_ENDED_MAX]
    assert outlived({}, now) == []
