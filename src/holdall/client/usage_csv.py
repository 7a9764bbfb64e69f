"""Sums of use as comma-separated values, for spreadsheets."""

import csv
import io
from collections.abc import Iterable

from holdall.model.frames import UsageRow


def usage_csv(by: str, rows: Iterable[UsageRow]) -> str:
    """A line of headings, then one for each row; the first column is what the sums are of."""
    fields = [name for name in UsageRow.__struct_fields__ if name != "group"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((by, *fields))
    writer.writerows((_cell(row.group), *(getattr(row, name) for name in fields)) for row in rows)
    return text.getvalue()


def _cell(text: str) -> str:
    """Without control characters; what a spreadsheet would take for a formula is shown as text."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return f"'{shown}" if shown[:1] in {"=", "+", "-", "@"} else shown
