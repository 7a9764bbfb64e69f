"""How a decision looks: first what each rule said, then what is left of each term and which rule it was."""

import sys
from collections.abc import Mapping, Sequence

from holdall.cli.tables import plain, print_table
from holdall.model.durations import show_duration
from holdall.model.terms import DURATION, Value
from holdall.policy.conditions import Truth
from holdall.policy.evaluation import DEFAULT_RULE, Decision, Granted, Line

_RULES = ("RULE", "KIND", "TERM", "APPLIES", "WHAT IT DOES", "")
_RESULT = ("TERM", "ASKED", "GRANTED", "BECAUSE OF")
_APPLIES = {Truth.YES: "yes", Truth.NO: "no", Truth.ERROR: "fails"}


def print_decision(decision: Decision, units: Mapping[str, str]) -> None:
    """Two tables on stdout; colour on a terminal only."""
    everything = {**decision.terms, DURATION: decision.duration}
    several = len({line.policy for line in decision.lines}) > 1
    ordered = sorted(decision.lines, key=lambda line: list(everything).index(line.term))
    rules = [
        (
            plain(f"{line.policy}: {line.rule}" if several else line.rule),
            line.kind,
            line.term,
            _APPLIES[line.applies],
            plain(line.effect + (f" ({line.error})" if line.error else "")),
            _mark(line, everything[line.term]),
        )
        for line in ordered
    ]
    result = [
        (
            name,
            _shown(one.asked, name, units),
            "refused" if one.refused else _shown(one.amount, name, units),
            _because(one),
        )
        for name, one in everything.items()
    ]
    if not sys.stdout.isatty():
        print_table(_RULES, rules, empty="no rule speaks of it")
        sys.stdout.write("\n")
        print_table(_RESULT, result, empty="")
        return
    if rules:
        _draw(_RULES, rules, [_rule_style(row) for row in rules])
    _draw(_RESULT, result, [_result_style(one) for one in everything.values()])


def _mark(line: Line, one: Granted) -> str:
    """Whether it was this rule that decided."""
    if line.rule != one.rule or line.applies is Truth.NO:
        return ""
    return "refuses" if one.refused else "limits"


def _because(one: Granted) -> str:
    if not one.rule:
        return ""
    rule = 'access = "deny"' if one.rule == DEFAULT_RULE else plain(one.rule)
    return f"{rule}: {one.why}"


def _shown(value: Value, name: str, units: Mapping[str, str]) -> str:
    if isinstance(value, bool | str):
        return str(value).lower() if isinstance(value, bool) else plain(value)
    if name == DURATION:
        return show_duration(value)
    unit = units.get(name, "")
    if unit == "unit":
        return "1 unit" if value == 1 else f"{value:,} units"
    return f"{value:,} {unit}".rstrip()


def _rule_style(row: Sequence[str]) -> str:
    if row[5]:
        return "bold red" if row[5] == "refuses" else "bold yellow"
    return {"no": "dim", "fails": "red"}.get(row[3], "")


def _result_style(one: Granted) -> str:
    if one.refused:
        return "bold red"
    return "yellow" if one.amount != one.asked else "green"


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row, style in zip(rows, styles, strict=True):
        table.add_row(*(Text(cell) for cell in row), style=style)
    Console().print(table)
