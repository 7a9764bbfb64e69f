"""The verdict as text and as JSON."""

import msgspec
from checker.lines import Said, claim, end, grant, judged, meta

from holdall.checker import Floors, render, to_json

CLEAN = [meta(), claim("a1", {"psu": 1}, 10), grant("a1", ["psu/a#1"], 12, 100), end(200)]


def leaks(number: int) -> list[Said]:
    return [
        {"t": "audit", "pool": "gpu", "at": at, "total": 2, "free": 1, "held": 1, "quiesced": True}
        for at in range(number)
    ]


def test_a_clean_history_says_so_and_what_was_counted() -> None:
    text = render(judged(*CLEAN)).splitlines()
    assert text[0] == "CLEAN: no violation"
    assert "claims        1: 1 grants (0 contended), 0 refused, 0 of unknown outcome" in text
    assert "peak use      gpu 0, psu 1" in text


def test_violations_name_rule_text_and_lines() -> None:
    text = render(judged(*CLEAN, *leaks(1))).splitlines()
    assert text[0] == "VIOLATED: 1 violations of 1 rules"
    assert text[1].startswith("leak   gpu: at rest at 0.000000 s the books show 1 held")
    assert text[2] == "    h:5"


def test_many_violations_of_one_rule_are_cut_and_counted() -> None:
    text = render(judged(*CLEAN, *leaks(9)), each_rule_at_most=3)
    assert text.count("leak   gpu") == 3
    assert "leak   … and 6 more (--json lists all)" in text


def test_too_little_is_said_in_the_first_line() -> None:
    text = render(judged(*CLEAN, floors=Floors(grants=9))).splitlines()
    assert text[0] == "UNPROVEN: no violation, but the history proves too little"
    assert text[1] == "proves less   1 grants, at least 9 wanted"


def test_damage_is_said_in_the_first_line() -> None:
    text = render(judged(*CLEAN, *leaks(1), end(201))).splitlines()
    assert text[0] == "UNPROVEN: the history is damaged in 1 places; 1 violations found in what could be read"
    assert text[1].startswith("damaged       several end lines")


def test_nothing_in_a_name_steers_a_terminal() -> None:
    name = "a\x1b[2J\n\u202e"
    text = render(judged(*CLEAN, claim(name, {"gpu": 1}, 20), claim(name, {"gpu": 1}, 21)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "a\\x1b[2J\\n\\u202e" in text


def test_json_has_a_version_the_status_and_everything_found() -> None:
    verdict = judged(*CLEAN, *leaks(2))
    read = msgspec.json.decode(to_json(verdict))
    assert {key: read[key] for key in ("v", "verdict", "exit", "damage", "shortfalls")} == {
        "v": 1,
        "verdict": "violations",
        "exit": 1,
        "damage": [],
        "shortfalls": [],
    }
    assert [violation["rule"] for violation in read["violations"]] == ["leak", "leak"]
    assert set(read["violations"][0]) == {"rule", "at", "text", "lines"}
    assert read["statistics"]["grants"] == 1
    assert read["statistics"]["peak_use"] == {"gpu": 0, "psu": 1}


def test_json_says_clean_and_unproven_too() -> None:
    assert msgspec.json.decode(to_json(judged(*CLEAN)))["verdict"] == "clean"
    assert msgspec.json.decode(to_json(judged()))["verdict"] == "unproven"
