"""One table, whatever it is shown on: a terminal, a pipe, a page, or a text in Markdown."""

from typing import NamedTuple


class Sheet(NamedTuple):
    """One table; the first column is text, the others are aligned to the right."""

    title: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    note: str = ""


def markdown(sheet: Sheet) -> str:
    """The table in Markdown, with its title in bold before it and its note after it."""
    lines = [
        f"**{_escaped(sheet.title)}**",
        "",
        _line(sheet.headings),
        _line(("---", *("---:" for _ in sheet.headings[1:]))),
        *(_line(tuple(_escaped(cell) for cell in row)) for row in sheet.rows),
    ]
    return "\n".join([*lines, *(["", sheet.note] if sheet.note else [])]) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
