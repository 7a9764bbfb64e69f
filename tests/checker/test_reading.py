"""Files in any number and order; half a last line is dropped, every other bad line is a problem."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast, get_args

import msgspec
import pytest
from checker import lines
from checker.lines import Said, claim, end, grant, meta, release
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdall.checker import judge, nanoseconds
from holdall.checker.reading import LINE_BYTES_MAX, read_files, record_in
from holdall.checker.records import AnyRecord, GrantedUnit, PoolSize, Record

GOOD: Sequence[Said] = [
    meta(),
    claim("a1", {"psu": 1}, 10),
    grant("a1", ["psu/a#1"], 12, 100),
    release("a1", 20, 22),
    end(30),
]


def text_of(*said: Mapping[str, object]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in said)


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_lines_may_be_spread_over_files_in_any_order(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{number}.jsonl", text_of(line)) for number, line in enumerate(GOOD)]
    verdict = judge(list(reversed(files)))
    assert verdict.exit_status == 0
    assert (verdict.statistics.files, verdict.statistics.lines, verdict.statistics.grants) == (5, 5, 1)


@pytest.mark.parametrize("kept", range(1, len(text_of(GOOD[-1])) - 1))
def test_a_line_torn_anywhere_is_dropped_and_counted(tmp_path: Path, kept: int) -> None:
    torn = written(tmp_path / "h", text_of(*GOOD) + text_of(GOOD[-1])[:kept])
    verdict = judge([torn])
    assert (verdict.exit_status, verdict.statistics.torn_lines, verdict.statistics.lines) == (0, 1, 5)


def test_a_torn_line_in_the_middle_of_a_letter_is_dropped(tmp_path: Path) -> None:
    whole = msgspec.json.encode(claim("é", {"psu": 1}, 10))
    cut = whole[: whole.index("é".encode()) + 1]
    verdict = judge([written(tmp_path / "h", text_of(*GOOD) + cut)])
    assert (verdict.exit_status, verdict.statistics.torn_lines) == (0, 1)


def test_every_file_may_have_a_torn_line(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a", text_of(*GOOD) + b'{"t":"cl'),
        written(tmp_path / "b", b"{"),
        written(tmp_path / "c", b""),
    ]
    verdict = judge(files)
    assert (verdict.exit_status, verdict.statistics.torn_lines) == (0, 2)


def test_a_whole_last_line_needs_no_line_feed(tmp_path: Path) -> None:
    verdict = judge([written(tmp_path / "h", text_of(*GOOD).rstrip(b"\n"))])
    assert (verdict.exit_status, verdict.statistics.lines, verdict.statistics.torn_lines) == (0, 5, 0)


def test_empty_lines_and_other_line_ends_say_nothing(tmp_path: Path) -> None:
    verdict = judge([written(tmp_path / "h", b"\n" + text_of(*GOOD).replace(b"\n", b"\r\n") + b"  \n")])
    assert (verdict.exit_status, verdict.statistics.lines) == (0, 5)


BAD_LINES: Sequence[tuple[bytes, str]] = [
    (b'{"t":"claim","claim":"a', "malformed"),
    (b"hello", "malformed"),
    (b"[]", "Expected `object`"),
    (b'{"t":"gift","at":1}', "gift"),
    (b'{"at":1}', "`t`"),
    (b'{"t":"end"}', "`at`"),
    (b'{"t":"end","at":1.5}', "float"),
    (b'{"t":"end","at":"1"}', "str"),
    (b'{"t":"end","at":true}', "bool"),
    (b'{"t":"end","at":null}', "null"),
    (b'{"t":"end","at":9223372036854775808}', "<="),
    (b'{"t":"end","at":1,"when":2}', "unknown field `when`"),
    (b'{"t":"claim","claim":"","client":"c","need":{},"at":1}', "length"),
    (b'{"t":"claim","claim":"a","client":"c","need":{"p":1.5},"at":1}', "float"),
    (b'{"t":"claim","claim":"a","client":"c","need":{"p":"some"},"at":1}', "some"),
    (b'{"t":"claim","claim":"\xff","client":"c","need":{},"at":1}', "utf-8"),
    (b'{"t":"grant","claim":"a","units":[{"pool":"p"}],"at":1,"valid_until":2}', "either a unit or a count"),
    (
        b'{"t":"grant","claim":"a","units":[{"pool":"p","unit":"u","count":1}],"at":1,"valid_until":2}',
        "either",
    ),
    (
        b'{"t":"grant","claim":"a","units":[{"pool":"p","count":1,"fence":1}],"at":1,"valid_until":2}',
        "no fence",
    ),
    (b'{"t":"grant","claim":"a","units":[{"pool":"p","count":0}],"at":1,"valid_until":2}', ">= 1"),
    (b'{"t":"grant","claim":"a","units":[],"at":1}', "valid_until"),
    (b'{"t":"grant","claim":"a","units":[],"at":1,"valid_until":2,"call":3}', "before its call"),
    (b'{"t":"grant","claim":"a","units":[],"at":1,"valid_until":2,"ttl":"soon"}', "no duration"),
    (b'{"t":"renew","lease":"a","ok":true,"at":1}', "valid_until"),
    (b'{"t":"renew","lease":"a","ok":true,"at":1,"valid_until":2,"call":3}', "before its call"),
    (b'{"t":"release","lease":"a","call":3,"at":2}', "before its call"),
    (b'{"t":"use","pool":"p","unit":"u","fence":1,"start":3,"end":2}', "ends before"),
    (b'{"t":"fault","kind":"k","start":3,"end":2}', "ends before"),
    (b'{"t":"audit","pool":"p","at":1,"call":2}', "before its call"),
    (b'{"t":"meta","pools":{"p":{}}}', "either units or a capacity"),
    (b'{"t":"meta","pools":{"p":{"units":["a"],"capacity":1}}}', "either units or a capacity"),
    (b'{"t":"meta","pools":{"p":{"units":["a","a"]}}}', "twice"),
    (b'{"t":"meta","pools":{"p":{"capacity":-1}}}', ">= 0"),
    (b'{"t":"meta","pools":{},"eps":"-1ms"}', "no duration"),
    (b'{"t":"meta","pools":{},"max_wait":-1}', ">= 0"),
    (b'{"t":"end","at":1} {"t":"end","at":1}', "trailing"),
    (b'{"t":"end","at":' + b"[" * 100_000, ""),
]


@pytest.mark.parametrize(("bad", "reason"), BAD_LINES, ids=lambda value: str(value)[:60])
def test_any_other_bad_line_is_a_problem_that_says_where_and_why(
    tmp_path: Path, bad: bytes, reason: str
) -> None:
    verdict = judge([written(tmp_path / "h", text_of(*GOOD[:2]) + bad + b"\n" + text_of(*GOOD[2:]))])
    assert verdict.exit_status == 3
    (problem,) = verdict.damage
    assert problem.startswith(f"{tmp_path / 'h'}:3: ")
    assert reason in problem
    assert len(problem) < 700
    assert verdict.statistics.lines == len(GOOD)


def test_a_bad_last_line_that_is_whole_is_not_torn(tmp_path: Path) -> None:
    for bad in (b'{"t":"end","at":"soon"}', b'{"t":"end', b"hello"):
        content = text_of(*GOOD) + bad + (b"\n" if bad == b'{"t":"end' else b"")
        assert judge([written(tmp_path / "h", content)]).exit_status == 3


def test_a_damaged_history_is_unproven_whatever_else_it_shows(tmp_path: Path) -> None:
    """The missing line may be the release that would explain the overlap."""
    content = (
        text_of(*GOOD[:3], claim("b1", {"psu": 1}, 13), grant("b1", ["psu/a#2"], 21, 90), GOOD[4])
        + b'{"t":"relea\n'
    )
    verdict = judge([written(tmp_path / "h", content)])
    assert [violation.rule for violation in verdict.violations] == ["double-hold"]
    assert verdict.exit_status == 3


def test_an_endless_line_is_a_problem_and_what_follows_is_read(tmp_path: Path) -> None:
    content = b'{"t":"claim","claim":"' + b"x" * (3 * LINE_BYTES_MAX) + b'"}\n' + text_of(*GOOD)
    verdict = judge([written(tmp_path / "h", content)])
    assert verdict.damage == [f"{tmp_path / 'h'}:1: longer than {LINE_BYTES_MAX} bytes"]
    assert verdict.statistics.lines == len(GOOD)


def test_files_that_cannot_be_read_are_problems(tmp_path: Path) -> None:
    good = written(tmp_path / "h", text_of(*GOOD))
    verdict = judge([good, tmp_path / "missing", tmp_path])
    assert verdict.exit_status == 3
    assert len(verdict.damage) == 2
    assert "missing: cannot be read: No such file or directory" in verdict.damage[0]


def test_a_file_given_twice_is_read_once_and_named(tmp_path: Path) -> None:
    good = written(tmp_path / "h", text_of(*GOOD))
    os.link(good, tmp_path / "same")
    for again in (good, tmp_path / "." / "h", tmp_path / "same"):
        verdict = judge([good, again])
        assert verdict.exit_status == 3
        assert "given twice" in verdict.damage[0]
        assert list(verdict.violations) == []


def test_answers_to_claims_that_nobody_recorded_are_problems() -> None:
    verdict = lines.judged(meta(), lines.queued("a1", 5), lines.fail("b1", 6), end(9))
    assert verdict.exit_status == 3
    assert [problem.split(":")[0:2] for problem in verdict.damage] == [["h", "2"], ["h", "3"]]


def test_a_lease_without_its_grant_is_a_problem_unless_somebody_died() -> None:
    alone = [meta(), *GOOD, lines.renew("zz", 5, 9)]
    assert lines.judged(*alone).exit_status == 3
    assert lines.judged(*alone, lines.crash("q", 3)).exit_status == 0


def test_uses_and_audits_of_what_does_not_exist_are_problems() -> None:
    for line in (lines.use("tpu/0#1", 1), lines.use("psu/b#1", 1), lines.audit("tpu", 1)):
        verdict = lines.judged(meta(), line)
        assert verdict.exit_status == 3
        assert "there is no" in verdict.damage[0]


def test_differing_beginnings_and_ends_are_problems() -> None:
    assert lines.judged(*GOOD, meta({})).exit_status == 3
    assert lines.judged(*GOOD, end(31)).exit_status == 3


@pytest.mark.parametrize(
    ("text", "length"),
    [
        (7, 7),
        ("7ns", 7),
        ("7us", 7_000),
        ("7ms", 7_000_000),
        ("1.5s", 1_500_000_000),
        ("2m", 120 * 10**9),
        ("1h", 3600 * 10**9),
        ("1d", 86400 * 10**9),
        ("0.5ns", 0),
    ],
)
def test_durations(text: int | str, length: int) -> None:
    assert nanoseconds(text) == length


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KINDS = [cast("str", kind.__struct_config__.tag) for kind in get_args(AnyRecord)]
FIELDS = sorted(
    {
        field
        for kind in (*get_args(AnyRecord), GrantedUnit, PoolSize)
        for field in kind.__struct_encode_fields__
    }
)
likely = (
    values | st.integers(-2, 9) | st.sampled_from(["p", "u", [{"pool": "p", "unit": "u"}], {"p": 1}, "1ms"])
)


def line_of(kind: str, fields: dict[str, object]) -> bytes:
    return msgspec.json.encode({"t": kind, **fields})


almost_lines = st.builds(
    line_of, st.sampled_from(KINDS), st.dictionaries(st.sampled_from(FIELDS), likely, max_size=9)
)
junk = st.one_of(st.binary(max_size=80), values.map(repr).map(str.encode), almost_lines)


def read_or_refused(text: bytes) -> None:
    try:
        record = record_in(text)
    except ValueError:
        return
    assert isinstance(record, Record)
    assert record_in(msgspec.json.encode(record)) == record


@given(junk)
@example(b"[" * 200_000)
@example(b'{"t":"end","at":1e999}')
@settings(max_examples=2_000)
def test_no_line_makes_the_parser_stumble(text: bytes) -> None:
    read_or_refused(text)


@pytest.mark.long
@given(junk)
@settings(max_examples=200_000, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_line_of_very_many_makes_the_parser_stumble(text: bytes) -> None:
    read_or_refused(text)


@given(st.lists(junk | st.sampled_from([msgspec.json.encode(line) for line in GOOD]), max_size=12), st.data())
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_file_makes_the_judge_stumble(tmp_path: Path, content: list[bytes], data: st.DataObject) -> None:
    joined = b"\n".join(content)
    cut = data.draw(st.integers(0, len(joined)))
    path = written(tmp_path / "h", joined[:cut])
    verdict = judge([path])
    assert verdict.exit_status in {0, 1, 3}
    assert read_files([path]).torn in {0, 1}
