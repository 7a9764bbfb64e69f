"""Listings of a system of several nodes, as people and programs see them: a table in a pipe and on terminals, JSON."""

import io
import re
import sys
from collections.abc import Callable, Iterator
from typing import Self

import msgspec
import pytest

from holdall.cli import looking
from holdall.cli.why import bound_text, node_lines, place_text
from holdall.model import frames
from holdall.model.why import Blocker, NeedWhy, NodeLine, Why

CLAIM = "4AAQY1" + "0" * 20
LEASE = "450VKS" + "0" * 20
SILENT = frames.NotAsked("lab-3", "silent for 40 s")


class Scripted:
    """A node that has one answer to everything."""

    def __init__(self, answer: frames.Listing, node: str = "lab-1") -> None:
        self.answer = answer
        self.asked: list[frames.Ask] = []
        self.welcome = frames.Welcome(
            1, node, "s", "x", resumed=False, ttl_ms=1, ttl_max_ms=1, margin_ms=1, rho_ppm=1
        )

    def number(self) -> int:
        return 1

    def listing(self, ask: frames.Ask) -> frames.Listing:
        self.asked.append(ask)
        return self.answer

    def answers(self, request: frames.Watch, *, patient: bool) -> Iterator[frames.FromNode]:
        assert patient
        del request
        return iter([frames.Happened(1, row) for row in self.answer.log])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


Show = Callable[..., tuple[str, str]]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Show:
    """(stdout, stderr) of a command against a scripted answer, in a pipe or on a terminal so wide."""

    def run(
        command: Callable[..., None],
        answer: frames.Listing,
        *,
        columns: int = 0,
        node: str = "lab-1",
        **options: object,
    ) -> tuple[str, str]:
        out, errors = (Terminal() if columns else io.StringIO()), io.StringIO()
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", errors)
        monkeypatch.setenv("COLUMNS", str(columns or 80))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("NO_COLOR", "1")
        scripted = Scripted(answer, node)

        def converse(url: str) -> Scripted:
            del url
            return scripted

        monkeypatch.setattr(looking, "converse", converse)
        command(**options)
        return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()), errors.getvalue()

    return run


def pool_row(node: str, name: str = "psu", state: str = "serving", **fields: object) -> frames.PoolRow:
    row = frames.PoolRow(name, node, {}, "system", 1, 1, 0, 0, 0, (frames.UnitRow("0", "free", 0),), state)
    return msgspec.structs.replace(row, **fields)


def lease(*units: tuple[str, str], **fields: object) -> frames.LeaseView:
    view = frames.LeaseView(
        lease=LEASE,
        holder="ci@runner-4",
        user="ci",
        pid=7,
        reason="soak test",
        state="active",
        units=tuple(frames.HeldUnit("psu", name, node, 61) for name, node in units),
        needs=("psu:2",),
        since_ms=1_000,
        waited_ms=0,
        ttl_ms=30_000,
        until_ms=None,
        expires_ms=2_000,
        renewing=True,
        node="lab-1",
    )
    return msgspec.structs.replace(view, **fields)


WHY = Why(
    claim=CLAIM,
    holder="a@lab-1",
    since_ms=1_000,
    position=2,
    waiting=3,
    ahead=4,
    overtaken=1,
    passes_left=18,
    passes_bound=28,
    needs=(NeedWhy("psu:2", free=0, total=2, state="busy"),),
    blockers=(Blocker(LEASE, "ci@runner-4", "soak test", "psu", ("p9",), node="lab-2"),),
    node="lab-1",
    lines=(
        NodeLine("lab-1", 1, "has its units", passes_bound=8, pools=("gpu",)),
        NodeLine("lab-2", 1, "waits", 2, 3, 1, 1, 8, 9, ("psu",)),
        NodeLine("lab-3", 1, "comes later", 4, 4, 3, 0, 10, 11, ("bench", "psu"), "draining: gives no units"),
        NodeLine("lab-4", 2, "not asked", pools=("psu",), note="silent for 40 s"),
    ),
)


def test_pools_stand_by_name_with_their_node_and_its_state_and_missing_nodes_on_stderr(show: Show) -> None:
    answer = frames.Listing(
        1, pools=(pool_row("lab-1"), pool_row("lab-2", state="draining")), not_asked=(SILENT,)
    )
    out, errors = show(looking.pools, answer)
    assert [line.split("  ")[0:2] for line in out.splitlines()][1:] == [
        ["psu", " lab-1"],
        ["psu", " lab-2 (draining)"],
    ]
    assert errors == "not asked: lab-3 (silent for 40 s)\n"


def test_a_unit_in_quarantine_on_another_node_is_cleared_there(show: Show) -> None:
    unit = frames.UnitRow("p9", "quarantined", 3, note="broken")
    answer = frames.Listing(1, pools=(pool_row("lab-2", units=(unit,)),))
    assert (
        show(looking.pools, answer)[1]
        == "next      on lab-2: holdall clear psu/p9   when you have looked at it\n"
    )
    assert (
        show(looking.pools, answer, node="lab-2")[1]
        == "next      holdall clear psu/p9   when you have looked at it\n"
    )


def test_who_names_nodes_only_where_there_are_several(show: Show) -> None:
    alone = frames.Listing(1, leases=(lease(("p1", "lab-1"), ("p2", "lab-1")),))
    assert "psu/p1#61 psu/p2#61  " in show(looking.who, alone)[0]
    several = frames.Listing(1, leases=(lease(("p1", "lab-1"), ("p2", "lab-1"), ("p9", "lab-2")),))
    assert "psu/p1#61 psu/p2#61 on lab-1, psu/p9#61 on lab-2  " in show(looking.who, several)[0]


def test_a_lease_of_a_silent_node_says_so_and_not_when_it_ends(show: Show) -> None:
    view = lease(("p9", "lab-2"), silent=("lab-3",), renewing=False, expires_ms=0)
    out, _ = show(looking.who, frames.Listing(1, leases=(view,)))
    assert out.rstrip().endswith("active, silent: lab-3")


def test_nobody_holds_anything_as_far_as_was_asked(show: Show) -> None:
    assert show(looking.who, frames.Listing(1, not_asked=(SILENT,))) == (
        "",
        "nobody holds anything\nnot asked: lab-3 (silent for 40 s)\n",
    )


def test_the_queue_says_at_which_node_the_place_is(show: Show) -> None:
    out, _ = show(looking.queue, frames.Listing(1, waits=(WHY,)))
    assert "4AAQ-Y1  2 of 3 at lab-2  a@lab-1" in out
    assert "1 of at most 28  ci@runner-4" in out


def test_why_shows_every_node_of_every_placement(show: Show) -> None:
    out, errors = show(looking.why, frames.Listing(1, waits=(WHY,), not_asked=(SILENT,)), claim="4AAQ-Y1")
    assert out.splitlines()[1:] == [
        "place     2nd of 3 at lab-2",
        "need      psu:2 busy (0 of 2 free)",
        "node      lab-1: has its units of gpu",
        "and       lab-2: 2nd of 3 for psu; 1 passed it, 8 still can",
        "and       lab-3: comes later, for bench, psu: as of now 3 wait before it and 10 can pass it (draining: gives no units)",
        "or        lab-4: psu, not known (silent for 40 s)",
        'blocked   by ci@runner-4 "soak test" (p9 on lab-2, renewing) [450V-KS]',
        "fairness  at most 28 younger ones can get ahead of you at its 3 nodes (8 + 9 + 11); 1 did, 18 still can",
    ]
    assert errors == "not asked: lab-3 (silent for 40 s)\n"


def test_a_place_at_a_node_that_could_not_be_asked_is_not_made_up() -> None:
    lost = msgspec.structs.replace(
        WHY,
        position=0,
        waiting=0,
        passes_left=0,
        passes_bound=8,
        lines=(WHY.lines[0], NodeLine("lab-2", 1, "not asked", pools=("psu",), note="silent for 7 s")),
    )
    assert place_text(lost) == "at lab-2, which could not be asked"
    assert node_lines(lost)[1] == "and       lab-2: psu, not known (silent for 7 s)"
    assert bound_text(lost) == (
        "at most 8 younger ones can get ahead of you without what is at lab-2; 1 did, 0 still can"
    )


def test_the_log_has_the_node_of_each_row_and_watch_tells_of_nodes(show: Show) -> None:
    rows = (
        frames.LogRow(3, 1_000, "granted", LEASE, "ci@runner-4", ("psu/p9#61",), "at once", "lab-2"),
        frames.LogRow(0, 2_000, "node-silent", "", "", (), "not heard for 12 s", "lab-3"),
    )
    out, _ = show(looking.log, frames.Listing(1, log=rows))
    assert out.splitlines()[0].split() == ["TIME", "NODE", "WHAT", "LEASE", "HOLDER", "UNITS", "TEXT"]
    assert "lab-2  granted      450V-KS  ci@runner-4" in out
    out, _ = show(looking.watch, frames.Listing(1, log=rows))
    assert out.splitlines()[1].split("  ")[1:] == ["lab-3", "node-silent", "not heard for 12 s"]
    out, _ = show(looking.watch, frames.Listing(1, log=rows), json=True)
    assert [msgspec.json.decode(line)["node"] for line in out.splitlines()] == ["lab-2", "lab-3"]


def test_json_carries_what_could_not_be_asked(show: Show) -> None:
    answer = frames.Listing(
        1, pools=(pool_row("lab-1"),), leases=(lease(),), waits=(WHY,), not_asked=(SILENT,)
    )
    for command, name in (
        (looking.pools, "pools"),
        (looking.who, "leases"),
        (looking.queue, "waiting"),
        (looking.log, "log"),
    ):
        out, errors = show(command, answer, json=True)
        document = msgspec.json.decode(out)
        assert document["v"] == 1
        assert document["not_asked"] == [{"node": "lab-3", "why": "silent for 40 s"}]
        assert name in document
        assert errors == ""
    why = msgspec.json.decode(show(looking.why, answer, json=True, claim="4AAQ-Y1")[0])
    assert msgspec.convert(why["why"], Why) == WHY
    assert why["not_asked"] == [{"node": "lab-3", "why": "silent for 40 s"}]


def test_the_filters_are_what_the_node_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted = Scripted(frames.Listing(1))

    def converse(url: str) -> Scripted:
        del url
        return scripted

    monkeypatch.setattr(looking, "converse", converse)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    looking.pools(pool="gpu", node_name="lab-2")
    looking.who(local=True)
    assert [(ask.arg, ask.node, ask.local) for ask in scripted.asked] == [
        ("gpu", "lab-2", False),
        ("", "", True),
    ]


@pytest.mark.parametrize("columns", [60, 80, 132])
def test_no_line_is_wider_than_the_terminal_and_ids_and_numbers_stay_whole(show: Show, columns: int) -> None:
    view = lease(("p1", "lab-1"), ("p9", "laboratory-number-2"), silent=("laboratory-number-2",))
    answer = frames.Listing(1, pools=(pool_row("laboratory-number-2"),), leases=(view,), waits=(WHY,))
    for command in (looking.pools, looking.who, looking.queue):
        out, _ = show(command, answer, columns=columns)
        assert max(map(len, out.splitlines())) <= columns, out
        assert "450V-KS" in out or "4AAQ-Y1" in out or "1/1" in out


def test_what_other_nodes_say_can_not_move_the_cursor(show: Show) -> None:
    evil = "\x1b[2J"
    row = pool_row(
        evil, evil, units=(frames.UnitRow(evil, evil, 0, holder=evil, note=evil),), labels={evil: evil}
    )
    view = lease(
        (evil, evil), holder=evil, reason=evil, state=evil, silent=(evil,), until_ms=2**62, since_ms=2**62
    )
    why = msgspec.structs.replace(
        WHY,
        holder=evil,
        reason=evil,
        note=evil,
        since_ms=2**62,
        blockers=(Blocker(LEASE, evil, evil, evil, (evil,), node=evil, until_ms=2**62),),
        lines=(NodeLine(evil, 1, "waits", pools=(evil,), note=evil), NodeLine(evil, 2, evil, pools=(evil,))),
    )
    log = (frames.LogRow(1, 2**62, evil, LEASE, evil, (evil,), evil, evil),)
    answer = frames.Listing(
        1, pools=(row,), leases=(view,), waits=(why,), log=log, not_asked=(frames.NotAsked(evil, evil),)
    )
    for command in (looking.pools, looking.who, looking.queue, looking.log, looking.watch):
        for columns in (0, 80):
            assert "\x1b[2J" not in "".join(show(command, answer, columns=columns))
    assert "\x1b[2J" not in "".join(show(looking.why, answer, claim="4AAQ-Y1"))
    assert "\x1b[2J" not in "".join(show(looking.show, answer, key="4AAQ-Y1"))


def test_a_protocol_without_bound_is_not_said_to_have_one() -> None:
    why = msgspec.structs.replace(WHY, bounded=False)
    assert bound_text(why) == "the protocol of this system states no bound of younger claims that get ahead"
    assert not any("can" in line and "pass" in line for line in node_lines(why))
    assert any("2nd of 3 for psu" in line for line in node_lines(why))


def test_a_queue_without_bound_tells_only_how_many_got_ahead(show: Show) -> None:
    why = msgspec.structs.replace(WHY, bounded=False)
    out, _ = show(looking.queue, frames.Listing(1, waits=(why,)))
    assert "of at most" not in out
    assert "1 of at most 28" in show(looking.queue, frames.Listing(1, waits=(WHY,)))[0]
