"""What others wrote is shown as text, whatever they wrote."""

import io
import sys

import msgspec
import pytest

from holdall.cli.run_lines import PLAIN_EVERY_SECONDS, RunLines, rows_of, waiting_lines
from holdall.cli.tables import granted_units, plain, print_json, print_table
from holdall.cli.why import bound_text, ordinal, why_lines
from holdall.model.frames import HeldUnit, LeaseView
from holdall.model.why import Blocker, NeedWhy, Why

WHY = Why(
    claim="7K4MR9" + "0" * 20,
    holder="ci@runner-4",
    since_ms=1,
    position=2,
    waiting=3,
    ahead=1,
    overtaken=2,
    passes_left=7,
    passes_bound=9,
    needs=(NeedWhy("psu:1", free=1, total=3, state="kept aside", set_aside=1, unusable=1),),
    blockers=(
        Blocker("7K4MQ2" + "0" * 20, "ana@lab-1", 'soak\x1b[2J"test"', "psu", ("psu-2",), until_ms=None),
    ),
    blockers_more=4,
    reason="nightly",
)


def test_control_characters_of_others_never_reach_the_terminal() -> None:
    assert plain("a\x1b[31mb\nc\u202e") == "a�[31mb�c�"
    assert not any("\x1b" in line for line in why_lines(WHY))


def test_why_tells_place_needs_blockers_and_the_bound() -> None:
    text = "\n".join(why_lines(WHY))
    assert '7K4M-R9 of ci@runner-4 "nightly" waits since' in text
    assert "2nd of 3" in text
    assert "psu:1 kept aside (1 of 3 free, 1 set aside for older claims, 1 out of service)" in text
    assert "ana@lab-1" in text
    assert "(psu-2, renewing) [7K4M-Q2]" in text
    assert "and 4 more" in text
    assert bound_text(WHY) == (
        "1 claim waited before you when you came; at most 9 younger ones can get ahead of you at this node; "
        "2 did, 7 still can"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1st"),
        (2, "2nd"),
        (3, "3rd"),
        (4, "4th"),
        (11, "11th"),
        (12, "12th"),
        (21, "21st"),
        (113, "113th"),
    ],
)
def test_places_are_counted_as_people_do(number: int, text: str) -> None:
    assert ordinal(number) == text


def test_a_pipe_gets_aligned_columns_and_json_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    print_table(("A", "LONG"), [("x" * 5, "y"), ("z", "")], empty="none")
    assert out.getvalue() == "A      LONG\nxxxxx  y\nz\n"
    out.truncate(0)
    out.seek(0)
    print_json("why", WHY)
    document = msgspec.json.decode(out.getvalue())
    assert document["v"] == 1
    assert msgspec.convert(document["why"], Why) == WHY


def test_what_a_waiting_run_shows_is_counted_in_rows_of_the_terminal_so_that_all_of_it_is_replaced() -> None:
    assert rows_of(("a" * 80, "b" * 81, "", "短" * 41), 80) == 1 + 2 + 1 + 2


def test_a_run_that_waits_for_what_is_out_of_service_is_told_where_to_look() -> None:
    out = msgspec.structs.replace(
        WHY, needs=(NeedWhy("psu:3", free=2, total=3, state="unusable", unusable=1),)
    )
    first, second = waiting_lines(out)
    assert first == "waiting   psu:3 unusable (2 of 3 free)"
    assert second.endswith("units are out of service, see: holdall pools")
    assert "out of service" not in "".join(waiting_lines(WHY))


def test_c13_in_a_log_who_is_in_the_way_is_one_more_line_as_soon_as_it_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    lines = RunLines(as_json=False)
    unnamed = Blocker("", "a claim of lab-2", "", "psu", ("psu-2",), party="x.1.2")
    named = Blocker("7K4MQ2" + "0" * 20, "ana@lab-2", "soak", "psu", ("psu-2",))
    known = msgspec.structs.replace(WHY, blockers=(named,), blockers_more=0)
    lines.queued(msgspec.structs.replace(known, blockers=(unnamed,)))
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("waiting   psu:1")
    assert second == "          2nd of 3 · blocked by a claim of lab-2 (psu-2)"
    lines.queued(known)
    assert capsys.readouterr().err.splitlines() == [
        '          2nd of 3 · blocked by ana@lab-2 "soak" (psu-2, renewing) [7K4M-Q2]'
    ]
    moved = msgspec.structs.replace(known, position=1)
    lines.queued(moved)
    assert capsys.readouterr().err == "", "a log gets a line now and then"
    now += PLAIN_EVERY_SECONDS
    lines.waits_on()
    assert "1st of 3" in capsys.readouterr().err
    now += PLAIN_EVERY_SECONDS
    lines.waits_on()
    assert capsys.readouterr().err == "", "nothing has changed"


def test_a_grant_names_the_nodes_of_its_units_where_they_are_several() -> None:
    def lease(*units: HeldUnit) -> LeaseView:
        empty = LeaseView("", "", "", 0, "", "active", (), (), 0, 0, 30_000, None, 0, renewing=True)
        return msgspec.structs.replace(empty, units=units)

    board, gpu = HeldUnit("board", "board-1", "lab-1", 7), HeldUnit("gpu", "0", "lab-2", 8)
    assert granted_units(lease(board)) == "board-1 fence 7"
    assert granted_units(lease(board, gpu)) == "board-1@lab-1 fence 7 · gpu/0@lab-2 fence 8"
