"""`holdall agreement`: between JSON and WS-Agreement XML."""

from typing import Annotated, Literal

import typer

app = typer.Typer()


@app.command(
    "agreement",
    epilog="Examples: holdall agreement offer.xml --location prague · holdall agreement request.json --location prague · "
    "holdall agreement - --location prague --dialect draft-2004 < offer.xml",
)
def agreement(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A request, a template or a lease; - for standard input.")
    ],
    location: Annotated[
        str, typer.Option(metavar="NAME", help="The location that a request is for, or whose template it is.")
    ],
    dialect: Annotated[
        Literal["2007-03", "draft-2004"],
        typer.Option(help="Form of the XML that is read: the standard, or its draft of 2004."),
    ] = "2007-03",
) -> int:
    """Convert a WS-Agreement document to JSON, or JSON to WS-Agreement. Asks nobody for anything."""
    import sys
    import time
    from pathlib import Path

    from holdall.leases.agreement.convert import as_json, as_xml, from_json, from_xml, is_xml
    from holdall.leases.agreement.elements import BYTES_MAX
    from holdall.model.errors import BadSpec
    from holdall.model.names import is_name
    from holdall.model.refusals import Refusal

    if not is_name(location):
        raise BadSpec(f"--location {location[:80]!r} names no location.")
    now_unix_ms = int(time.time() * 1000)
    try:
        if file == "-":
            text = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as opened:
                text = opened.read(BYTES_MAX + 1)
    except OSError as problem:
        raise BadSpec(f"{file}: {problem.strerror or problem}.") from None
    try:
        if is_xml(text):
            document = from_xml(text, location, now_unix_ms=now_unix_ms, dialect=dialect)
            converted = as_json(document)
        else:
            converted = as_xml(from_json(text), location, now_unix_ms=now_unix_ms)
    except Refusal as refused:
        raise BadSpec(f"{file}: {refused.text} [{refused.reason}]") from None
    sys.stdout.write(converted)
    return 0
