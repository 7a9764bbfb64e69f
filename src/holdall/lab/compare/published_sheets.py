"""The published figures beside those of the shipped code as tables: a row for each protocol, a column for each workload."""

from collections.abc import Sequence
from itertools import groupby

from holdall.lab.compare.published import ABSOLUTE, LIMIT, RELATIVE, Compared, Turned, turned
from holdall.lab.compare.sheet import Sheet

TITLES = {
    "throughput": "throughput",
    RELATIVE: "throughput by ordered's",
    "mean": "mean wait",
    "p99": "99th percentile of waits",
    "messages": "messages per claim",
}


def published_sheets(found: Sequence[Compared]) -> list[Sheet]:
    """For each table and measure one, and at the end whether the order is the same."""
    if not found:
        return []
    sheets: list[Sheet] = []
    for table, group in groupby(found, key=lambda one: one.table):
        ones = list(group)
        for measure in TITLES:
            mine = [one for one in ones if one.measure == measure]
            if mine:
                sheets.append(_matrix(table, measure, mine))
    return [*sheets, _order(found)]


def _matrix(table: str, measure: str, ones: list[Compared]) -> Sheet:
    columns = list(dict.fromkeys(one.column for one in ones))
    labels = list(dict.fromkeys(one.label for one in ones))
    cells = {(one.label, one.column): _cell(one) for one in ones}
    ratio = "" if table in ABSOLUTE or measure == "messages" else ", ratio to ordered"
    return Sheet(
        f"{table[0].upper()}{table[1:]}: {TITLES[measure]}{ratio} ({ones[0].source})",
        ("protocol", *columns),
        [(label, *(cells.get((label, column), "-") for column in columns)) for label in labels],
        f"Published / measured, and measured by published. `!`: throughput beyond {LIMIT:.0%}; `~`: another measure beyond it.",
    )


def _cell(one: Compared) -> str:
    flag = "" if not one.off else " !" if one.gated else " ~"
    return f"{one.published:.3g} / {one.measured:.3g} ({1 + one.difference:.2f}){flag}"


def _order(found: Sequence[Compared]) -> Sheet:
    pairs, wrong = turned(found)
    return Sheet(
        "The order of throughputs",
        ("first as published", "second", "table", "column", "published", "measured"),
        [_turned(one) for one in wrong],
        f"Of {pairs} pairs of protocols whose published throughputs are more than {LIMIT:.0%} apart, {len(wrong)} came out in the "
        "other order.",
    )


def _turned(one: Turned) -> tuple[str, ...]:
    return (
        one.first, one.second, one.table, one.column, f"{one.published:.2f}", f"{one.measured:.2f}",
    )  # fmt: skip
