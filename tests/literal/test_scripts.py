"""Guided scripts: how they read, and that a script that the machines do not follow is refused."""

import pytest
from literal.found import space_of

from holdall.explorer.guided import replay
from holdall.world.literal.lane_scripts import LL
from holdall.world.literal.scripts import Line, read_script
from holdall.world.literal.strong_weak_scripts import L7, L12
from holdall.world.plan import BadWorld


def test_a_script_is_moves_in_words_and_a_property() -> None:
    script = read_script(
        "# who\nc1 claims  # begins\n\nagain\nc1 -> n0 view users=() version=2\nc1 rings alarm\n= x y\n"
    )
    assert script.lines == (
        Line(2, "act", "c1", "claims"),
        Line(5, "deliver", "n0", "view", "c1", (("users", "()"), ("version", "2"))),
        Line(6, "timer", "c1", "alarm"),
    )
    assert (script.ends_in, script.again) == ("x y", 1)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "last line"),
        ("c1 claims", "last line"),
        ("= deadlock", "last line"),
        ("c1 claims\n= deadlock\nc1 releases", "line 3: nothing may follow"),
        ("c1 says hello\n= deadlock", "line 1: can't read"),
    ],
)
def test_a_text_that_is_no_script_is_refused(text: str, match: str) -> None:
    with pytest.raises(BadWorld, match=match):
        read_script(text)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("n1 -> n2 KillACK2\n", "", "ends in 'nothing wrong'"),
        ("= deadlock", "= exclusion", "not in 'exclusion'"),
        ("n2 -> n1 KillACK1", "n2 -> n1 Token", "0 moves fit 'n2 -> n1 Token'"),
        ("= deadlock", "c1 claims\n= deadlock", "0 moves fit 'c1 claims'"),
    ],
)
def test_l7_holds_exactly_as_it_is_written(old: str, new: str, match: str) -> None:
    assert old in L7
    with pytest.raises(BadWorld, match=match):
        replay(space_of("literal-strong-weak", "L7"), read_script(L7.replace(old, new)))


def test_a_line_that_fits_two_moves_is_refused() -> None:
    text = L12.replace("n1 -> n0 seekLoop               #", "n1 -> n0 seekLoop nth=7         #")
    with pytest.raises(BadWorld, match="0 moves fit"):
        replay(space_of("literal-strong-weak", "L12"), read_script(text))


def test_nothing_may_follow_the_violation() -> None:
    text = L12.replace("= exclusion", "c1 releases\n= exclusion")
    with pytest.raises(BadWorld, match="already violated before it: exclusion"):
        replay(space_of("literal-strong-weak", "L12"), read_script(text))


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("again\nc1 -> n1 request\n", "c1 -> n1 request\nagain\n", "does not lead back"),
        ("n0 -> c2 reject                 # c2 restarts\n", "", "does not lead back"),
    ],
)
def test_ll_a_cycle_must_lead_back(old: str, new: str, match: str) -> None:
    assert old in LL
    with pytest.raises(BadWorld, match=match):
        replay(space_of("literal-lanes", "LL"), read_script(LL.replace(old, new)))
