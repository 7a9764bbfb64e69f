"""The report as one page of HTML: figures and tables inside it, nothing fetched from anywhere."""

import base64
import html
import re
from collections.abc import Sequence

from holdall.lab.compare.canvas import Drawn
from holdall.lab.compare.contestants import BOUNDS
from holdall.lab.compare.rows import Comparison
from holdall.lab.compare.sheet import Sheet
from holdall.lab.compare.tables import sheets

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; } .lead { color: #555; margin-top: 0; }
figure { margin: 1rem 0 2rem; } figure img { width: 100%; height: auto; } figcaption { color: #444; font-size: .87rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums; }
th, td { padding: .18rem .6rem; text-align: right; border-bottom: 1px solid #e4e4e4; } th { border-bottom: 1.5px solid #888; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; white-space: nowrap; } .note { color: #555; font-size: .82rem; margin: .3rem 0 0; }
.wrong { background: #fff0e6; border-left: 4px solid #d55e00; padding: .5rem 1rem; } details { margin: .4rem 0; } summary { cursor: pointer; }
dt { font-weight: 600; } dd { margin: 0 0 .3rem 1.2rem; }
"""

HOW = """
<p>Every protocol runs its shipped machines in virtual time on the same claims: each client draws its pauses, pools
and holds from a generator of its own. A message takes 0.5 + Exp(0.5) mean message delays, so messages overtake each
other; a hold takes Exp(5) and a pause Exp(30), Exp(15) or Exp(1) (low, medium, saturated) unless the name of the workload
says otherwise. Clients claim in a closed loop: a client claims anew only after its last lease. The first tenth of a
run is dropped. All times are in mean message delays.</p>
"""


CODE = re.compile("`([^`]*)`")


def page(found: Comparison, drawn: Sequence[Drawn]) -> str:
    """The whole document."""
    problems = found.violations()
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>Protocols compared - holdall {html.escape(found.version)}</title><style>{STYLE}</style></head><body>",
        "<h1>Protocols compared</h1>",
        f'<p class="lead">holdall {html.escape(found.version)}, {html.escape(found.effort)}: {found.runs:,} runs, {found.delivered:,} messages, {found.seconds:,.0f} s.</p>',
        HOW,
        _problems(problems),
        '<h2 id="figures">Figures</h2>',
        *(figure_html(number, one) for number, one in enumerate(drawn, 1)),
        '<h2 id="bounds">What each promises about being passed</h2><dl>',
        *(
            f"<dt>{html.escape(name)}</dt><dd>{_text(BOUNDS[name])}</dd>"
            for name in found.protocols
            if name in BOUNDS
        ),
        '</dl><h2 id="tables">Tables</h2>',
        *(table_html(sheet) for sheet in sheets(found)),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _text(plain: str) -> str:
    """With code between backquotes."""
    return CODE.sub(r"<code>\1</code>", html.escape(plain))


def _problems(problems: list[str]) -> str:
    if not problems:
        return "<p>No run violated a property.</p>"
    items = "".join(f"<li>{html.escape(text)}</li>" for text in problems)
    return (
        f'<div class="wrong"><p>Properties were violated; such a run ended there:</p><ul>{items}</ul></div>'
    )


def figure_html(number: int, one: Drawn) -> str:
    """A figure with its caption; the image is in it."""
    image = base64.b64encode(one.svg).decode()
    caption = html.escape(one.caption)
    return (
        f'<figure id="{html.escape(one.name)}"><img alt="{caption}" src="data:image/svg+xml;base64,{image}">'
        f"<figcaption><b>Figure {number}.</b> {caption}</figcaption></figure>"
    )


def table_html(sheet: Sheet) -> str:
    """A table with its title and note."""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in sheet.headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in sheet.rows
    )
    note = f'<p class="note">{html.escape(sheet.note)}</p>' if sheet.note else ""
    return (
        f'<h3>{html.escape(sheet.title)}</h3><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{note}"
    )
