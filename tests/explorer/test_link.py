"""The shipped link, searched exhaustively: every order of frames and timers, loss, doubles, either end begins anew."""

import re
from pathlib import Path

import pytest
from explorer.plain_link_search import Left, PlainLinkSearch

from holdall.explorer.link_moves import LinkSpace
from holdall.explorer.moves import Timers
from holdall.explorer.mutants.link import LINK_MUTANTS, link_system, mutant_world
from holdall.explorer.search import Violation, explore
from holdall.explorer.trace import steps_of, told
from holdall.machine.link import OPEN_PARTS
from holdall.machine.link_peer import LinkSettings
from holdall.machine.trace import replay
from holdall.world.faults import budget, read_faults
from holdall.world.link import LinkSystem, LinkWorld, link_world
from holdall.world.plan import BadWorld

LONG_FROM = 20_000
"""Searches with more states run with the long tests only."""

# Timers fire when nothing is in flight: what is repeated never meets its original.
QUIET = {
    "one": {
        "": 8,
        "loss=1": 21,
        "duplicate=1": 26,
        "restart=1": 45,
        "loss=2": 34,
        "restart=2": 152,
        "loss=1,duplicate=1": 70,
        "loss=1,restart=1": 116,
        "duplicate=1,restart=1": 205,
        "loss=1,duplicate=1,restart=1": 526,
    },
    "two": {
        "": 34,
        "loss=1": 91,
        "duplicate=1": 122,
        "restart=1": 328,
        "loss=2": 153,
        "restart=2": 1588,
        "loss=1,duplicate=1": 320,
        "loss=1,restart=1": 881,
        "duplicate=1,restart=1": 1599,
        "loss=1,duplicate=1,restart=1": 4158,
    },
    "turns": {
        "": 34,
        "loss=1": 91,
        "duplicate=1": 122,
        "restart=1": 328,
        "loss=2": 153,
        "restart=2": 1595,
        "loss=1,duplicate=1": 320,
        "loss=1,restart=1": 881,
        "duplicate=1,restart=1": 1599,
        "loss=1,duplicate=1,restart=1": 4158,
    },
    "both": {
        "": 98,
        "loss=1": 321,
        "duplicate=1": 370,
        "restart=1": 828,
        "loss=2": 596,
        "restart=2": 3702,
        "loss=1,duplicate=1": 1175,
        "loss=1,restart=1": 2399,
        "duplicate=1,restart=1": 4250,
        "loss=1,duplicate=1,restart=1": 11719,
    },
    "talk": {
        "": 505,
        "loss=1": 1736,
        "duplicate=1": 1962,
        "restart=1": 5785,
        "loss=2": 3327,
        "restart=2": 35242,
        "loss=1,duplicate=1": 6324,
        "loss=1,restart=1": 17113,
        "duplicate=1,restart=1": 31031,
        "loss=1,duplicate=1,restart=1": 86461,
    },
    "window": {
        "": 57,
        "loss=1": 155,
        "duplicate=1": 189,
        "restart=1": 873,
        "loss=2": 253,
        "restart=2": 5313,
        "loss=1,duplicate=1": 514,
        "loss=1,restart=1": 2401,
        "duplicate=1,restart=1": 4093,
        "loss=1,duplicate=1,restart=1": 10948,
    },
    "silent": {
        "": 88,
        "loss=1": 259,
        "duplicate=1": 290,
        "restart=1": 726,
        "loss=2": 473,
        "restart=2": 3140,
        "loss=1,duplicate=1": 831,
        "loss=1,restart=1": 2016,
        "duplicate=1,restart=1": 3169,
        "loss=1,duplicate=1,restart=1": 8520,
    },
    "silent-both": {
        "": 204,
        "loss=1": 690,
        "duplicate=1": 712,
        "restart=1": 1644,
        "loss=2": 1410,
        "restart=2": 6916,
        "loss=1,duplicate=1": 2364,
        "loss=1,restart=1": 4936,
        "duplicate=1,restart=1": 7544,
        "loss=1,duplicate=1,restart=1": 21612,
    },
    "late": {
        "": 573,
        "loss=1": 1918,
        "duplicate=1": 2206,
        "restart=1": 7642,
        "loss=1,restart=1": 21967,
    },
    "falling": {
        "": 34,
        "loss=1": 91,
        "duplicate=1": 122,
        "restart=1": 351,
        "loss=2": 153,
        "restart=2": 2356,
        "loss=1,duplicate=1": 320,
        "loss=1,restart=1": 942,
        "duplicate=1,restart=1": 1937,
        "loss=1,duplicate=1,restart=1": 5087,
        "loss=1,restart=2": 6272,
        "loss=1,restart=3": 32065,
    },
    "falling-both": {
        "": 98,
        "loss=1": 321,
        "duplicate=1": 370,
        "restart=1": 964,
        "loss=2": 596,
        "restart=2": 5937,
        "loss=1,duplicate=1": 1175,
        "loss=1,restart=1": 2791,
        "duplicate=1,restart=1": 6678,
        "loss=1,duplicate=1,restart=1": 18389,
        "loss=1,restart=2": 16126,
    },
    "much": {"": 3227, "loss=1": 11516, "duplicate=1": 12967, "restart=1": 43941},
}

# Timers fire at any time: repetitions, acknowledgements and giving up race with what is under way.
ANY = {
    "one": {"": 75, "loss=1": 168, "duplicate=1": 241, "restart=1": 1385, "loss=1,restart=1": 3186},
    "two": {"": 634, "loss=1": 1470, "duplicate=1": 2078, "restart=1": 40129},
    "both": {"": 67368, "loss=1": 154377, "duplicate=1": 166150},
    "window": {"": 2611, "loss=1": 5936, "duplicate=1": 8451},
    "silent": {"": 27538, "loss=1": 56232, "duplicate=1": 106647},
    "falling": {"": 634, "loss=1": 1470, "duplicate=1": 2078, "restart=1": 107806},
}


def runs(table: dict[str, dict[str, int]]) -> list[object]:
    return [
        pytest.param(
            world,
            faults,
            states,
            id=f"{world}-{faults or 'none'}",
            marks=[pytest.mark.long] * (states > LONG_FROM),
        )
        for world, row in table.items()
        for faults, states in row.items()
    ]


def check(world: str, faults: str, timers: Timers, states: int) -> None:
    result = explore(LinkSpace(LinkSystem(link_world(world)), read_faults(faults), timers=timers))
    assert not result.violations
    assert result.complete
    assert result.states == states


@pytest.mark.parametrize(("world", "faults", "states"), runs(QUIET))
def test_words_arrive_once_and_in_order_or_are_given_up_for_a_reason(
    world: str, faults: str, states: int
) -> None:
    check(world, faults, "quiet", states)


@pytest.mark.parametrize(("world", "faults", "states"), runs(ANY))
def test_timers_that_fire_at_any_time_break_nothing(world: str, faults: str, states: int) -> None:
    check(world, faults, "any", states)


@pytest.mark.parametrize(
    ("world", "left", "timers"),
    [
        ("one", (0, 0, 0), "quiet"),
        ("both", (1, 0, 0), "quiet"),
        ("turns", (1, 1, 0), "quiet"),
        ("two", (0, 0, 1), "quiet"),
        ("both", (0, 1, 1), "quiet"),
        ("silent", (1, 0, 1), "quiet"),
        ("falling", (0, 0, 2), "quiet"),
        ("one", (1, 0, 1), "any"),
        ("window", (1, 0, 0), "any"),
    ],
)
def test_tables_find_exactly_the_states_of_a_plain_search(world: str, left: Left, timers: Timers) -> None:
    system = LinkSystem(link_world(world))
    losses, doubles, restarts = left
    result = explore(
        LinkSpace(system, budget(loss=losses, duplicate=doubles, restart=restarts), timers=timers)
    )
    assert result.complete
    assert result.states == PlainLinkSearch(system, left, any_time=timers == "any").count()


STEPS = {
    "doubles": ("double", 5),
    "any-order": ("gap", 5),
    "ack-unheard": ("acknowledged", 8),
    "mute": ("unserved", 6),
    "any-peer": ("double", 9),
    "old-peer": ("double", 9),
    "any-self": ("acknowledged", 10),
    "any-acks": ("acknowledged", 10),
    "no-resend": ("deadlock", 2),
    "no-answer": ("unserved", 0),
    "numbers-go-on": ("refused", 9),
    "keeps-frames": ("unserved", 3),
    "not-above": ("unserved", 2),
    "deaf-to-low": ("unserved", 7),
    "one-instance": ("refused", 14),
    "opens-with-data": ("refused", 10),
}


def found(name: str) -> tuple[LinkSpace, Violation]:
    mutant = LINK_MUTANTS[name]
    space = LinkSpace(link_system(mutant_world(mutant)), mutant.budget(), timers=mutant.timers)
    (violation,) = explore(space).violations
    return space, violation


def test_every_mutant_has_its_number_of_steps() -> None:
    assert {name: mutant.found_as for name, mutant in LINK_MUTANTS.items()} == {
        name: (property_,) for name, (property_, _) in STEPS.items()
    }


@pytest.mark.parametrize("name", STEPS)
def test_a_rule_taken_away_is_found_and_its_trace_replays(name: str) -> None:
    space, violation = found(name)
    assert (violation.name, violation.steps) == STEPS[name]
    assert len(list(told(space, violation.moves))) == violation.steps
    assert replay(steps_of(space, violation.moves), link_system(space.system.world).build) is None


@pytest.mark.parametrize("name", STEPS)
def test_the_shipped_link_stands_in_the_mutants_world(name: str) -> None:
    mutant = LINK_MUTANTS[name]
    result = explore(LinkSpace(LinkSystem(link_world(mutant.world)), mutant.budget(), timers=mutant.timers))
    assert result.complete
    assert not result.violations


def test_a_window_of_one_keeps_the_rest_back() -> None:
    space = LinkSpace(LinkSystem(link_world("window")), budget())
    explore(space)
    links = [host.link for host in space.tables[0].hosts]
    out = [len(peer.sent) for link in links if link is not None for peer in link.peers.values()]
    assert set(out) == {0, 1}


def test_the_page_of_the_link_says_what_was_found() -> None:
    page = (Path(__file__).parents[2] / "docs" / "internals" / "link.md").read_text(encoding="utf-8")
    rules = re.findall(
        r"^\| ([^|]+) \| ([a-z]+) \| (\d+) \|$", page.partition("| taken away |")[2], re.MULTILINE
    )
    assert rules == [
        (mutant.rule, STEPS[name][0], str(STEPS[name][1])) for name, mutant in LINK_MUTANTS.items()
    ]
    counts = re.findall(r"^\| .* \| (quiet|any) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert len(counts) == 9
    tables = {"quiet": QUIET, "any": ANY}
    for timers, number in counts:
        assert int(number.replace(",", "")) in {
            states for row in tables[timers].values() for states in row.values()
        }


def test_the_page_of_the_link_gives_its_settings() -> None:
    page = (Path(__file__).parents[2] / "docs" / "internals" / "link.md").read_text(encoding="utf-8")
    settings = LinkSettings()
    assert f"within {settings.ack_ms} ms" in page
    assert f"after {settings.resend_ms} ms is sent again, the first {settings.resend_frames} frames" in page
    assert f"every {settings.resend_max_ms // 1000} s" in page
    assert f"{settings.window_frames} frames may be out" in page
    assert (
        f"for {(settings.give_up_ms or 0) // 1000} s, or more than {settings.pending_max >> 20} MiB" in page
    )
    assert all(f"`{part}`" in page for part in OPEN_PARTS)


def test_faults_that_the_link_does_not_know_are_refused() -> None:
    with pytest.raises(BadWorld, match="the faults are restart, loss, duplicate"):
        LinkSpace(LinkSystem(link_world("one")), budget(cancel=1))
    with pytest.raises(BadWorld, match="there are one, two"):
        link_world("none")
    with pytest.raises(BadWorld, match="there are doubles"):
        link_system(LinkWorld(name="x", says=((1,), ()), mutant="none"))
