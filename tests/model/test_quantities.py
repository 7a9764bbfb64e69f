"""Amounts: what is read, and each refusal by its own code."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.model.quantities import AMOUNT_MAX, BaseUnit, parse_quantity
from holdall.model.refusals import Refusal

UNITS: tuple[BaseUnit, ...] = ("B/s", "B", "mcpu", "ms", "unit")


@pytest.mark.parametrize(
    ("text", "amount"), [(51200, 51200), ("50KiB/s", 51200), ("50kB/s", 50000), ("400kbit/s", 50000)]
)
def test_q1_amounts_of_a_rate(text: object, amount: int) -> None:
    assert parse_quantity(text, "B/s") == amount


@pytest.mark.parametrize(
    ("text", "unit", "amount"),
    [
        ("51200", "B/s", 51200),
        ("8bit/s", "B/s", 1),
        ("1 Mbit/s", "B/s", 125_000),
        ("64 GiB", "B", 64 << 30),
        ("7TB", "B", 7 * 10**12),
        ("1B", "B", 1),
        ("2 cpu", "mcpu", 2000),
        ("250mcpu", "mcpu", 250),
        ("2000 s", "ms", 2_000_000),
        ("5min", "ms", 300_000),
        ("1h", "ms", 3_600_000),
        ("2d", "ms", 172_800_000),
        ("3ms", "ms", 3),
        ("4", "unit", 4),
        ("9007199254740991", "B", AMOUNT_MAX),
        ("007", "unit", 7),
    ],
)
def test_amounts(text: str, unit: BaseUnit, amount: int) -> None:
    assert parse_quantity(text, unit) == amount


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("50KB/s", "ambiguous_unit"),
        (-1, "negative"),
        (0, "zero"),
        (1.5, "float"),
        (True, "boolean"),
        (float("nan"), "not_a_number"),
        (float("1e400"), "not_a_number"),
        ("1_000", "underscore"),
        (" 5", "blank"),
        (2**53, "too_large"),
    ],
)
def test_q2_each_is_refused_with_its_own_code(value: object, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_quantity(value, "B/s", what="net.tx")
    assert (refused.value.reason, refused.value.where) == (f"quantity.{reason}", "net.tx")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "not_a_number"),
        ("-inf", "negative"),
        ("1e400", "float"),
        ("1.5", "float"),
        ("1.5kB/s", "float"),
        ("5.", "float"),
        (5.0, "float"),
        (None, "type"),
        ([5], "type"),
        ("", "empty"),
        ("5 ", "blank"),
        ("5\n", "blank"),
        ("5  kB/s", "blank"),
        ("+5", "sign"),
        ("-5", "negative"),
        ("0", "zero"),
        ("0kB/s", "zero"),
        ("\u0665", "digits"),
        ("\uff15", "digits"),
        ("5\u0665", "digits"),
        ("\u00b2", "digits"),
        ("50Kb/s", "ambiguous_unit"),
        ("50kb/s", "ambiguous_unit"),
        ("50mb", "ambiguous_unit"),
        ("50MBps", "ambiguous_unit"),
        ("50Kbit/s", "ambiguous_unit"),
        ("5 furlong", "unknown_unit"),
        ("5kms", "unknown_unit"),
        ("5b/s", "unknown_unit"),
        ("5B", "wrong_unit"),
        ("5s", "wrong_unit"),
        ("1bit/s", "not_whole"),
        ("9007199254740992", "too_large"),
        ("9007199254740991kB/s", "too_large"),
        ("9" * 5000, "too_large"),
        (10**400, "too_large"),
        (-(10**400), "negative"),
        ("kB/s", "malformed"),
        ("0x10", "unknown_unit"),
        ("\x00", "malformed"),
    ],
)
def test_refused(value: object, reason: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_quantity(value, "B/s")
    assert refused.value.reason == f"quantity.{reason}"


def test_an_ambiguous_unit_is_shown_with_its_readings() -> None:
    with pytest.raises(Refusal, match=r"write 50kB/s .* or 50KiB/s .* or 50kbit/s"):
        parse_quantity("50Kb/s", "B/s")
    with pytest.raises(Refusal, match=r"write 3MB .* or 3MiB"):
        parse_quantity("3mb", "B")


def test_numbers_that_are_too_long_to_be_written_are_refused() -> None:
    with pytest.raises(Refusal, match="beyond"):
        parse_quantity(10**5000, "B")
    with pytest.raises(Refusal, match="below 1"):
        parse_quantity(-(10**5000), "B")


def outcome(value: object, unit: BaseUnit) -> int | str:
    """The amount, or the code of the refusal."""
    try:
        return parse_quantity(value, unit)
    except Refusal as refused:
        return refused.reason


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none()), st.sampled_from(UNITS))
def test_anything_is_an_amount_in_bounds_or_refused(value: object, unit: BaseUnit) -> None:
    amount = outcome(value, unit)
    if isinstance(amount, str):
        assert amount.startswith("quantity.")
    else:
        assert type(amount) is int
        assert 1 <= amount <= AMOUNT_MAX


NEAR = st.from_regex(
    r"[ +_\-]?[0-9\u0660-\u0669]{1,18}[ ._]?[kKmMgGtT]?i?([bB](it)?(/s|ps)?|cpu|s|min)?", fullmatch=True
)


@given(NEAR, st.sampled_from(UNITS))
def test_what_nearly_is_an_amount(text: str, unit: BaseUnit) -> None:
    amount = outcome(text, unit)
    if isinstance(amount, str):
        assert amount.startswith("quantity.")
    else:
        digits = "".join(letter for letter in text if letter.isdigit())
        assert text[0].isdigit()
        assert text.isascii()
        assert 1 <= amount <= AMOUNT_MAX
        assert amount % int(digits) == 0 or text.endswith("bit/s")


@given(st.integers(1, 10**9))
def test_units_agree_with_each_other(number: int) -> None:
    assert parse_quantity(f"{number}KiB", "B") == 1024 * number
    assert parse_quantity(f"{8 * number}kbit/s", "B/s") == parse_quantity(f"{number} kB/s", "B/s")
