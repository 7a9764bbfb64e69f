"""`holdall proxy`: connections to a port here go on to another address, as fast as a lease allows."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdall.cli.options import Url, converse
from holdall.cli.tables import plain
from holdall.model.errors import BadSpec, HoldallError

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdall.client.forwarding import Address, Change, Forwarding

app = typer.Typer()
PORT_MAX = 65_535


@app.command(
    epilog="Examples: holdall proxy --lease L-prague-… --listen 4000 --to files.lab:873 · "
    "holdall proxy --lease L-prague-… --term net.tx --listen 127.0.0.1:0 --to 10.0.0.7:5432"
)
def proxy(
    lease: Annotated[
        str,
        typer.Option(
            "--lease", metavar="KEY", help="A negotiated lease of yours. See: holdall location request"
        ),
    ],
    listen: Annotated[
        str,
        typer.Option(
            "--listen", metavar="[HOST:]PORT", help="Where to listen; this host only, unless HOST says more."
        ),
    ],
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Where connections go on to.")],
    term: Annotated[
        str, typer.Option("--term", metavar="NAME", help="The rate, where the lease has several capacities.")
    ] = "",
    url: Url = "",
) -> None:
    """Forward bytes at a leased rate, renewing the lease, until interrupted; then it is given back.

    The address that listens is printed on stdout. Without a valid lease not one byte goes out: connections wait
    for its renewal, and are reset when it does not come. Exit status 79 when the lease is over.
    """
    import asyncio

    from holdall.client.forwarding import Forwarding

    here, there = read_address(listen, "--listen", host="127.0.0.1"), read_address(to, "--to")
    if not there[1]:
        raise BadSpec("--to needs the port of somebody who listens, not 0")

    def told(change: "Change") -> None:
        sys.stderr.write(f"rate      {change.rate:,} B/s, granted by {plain(change.host)}\n")

    def opened(address: "Address") -> None:
        sys.stdout.write(f"{show_address(address)}\n")
        sys.stdout.flush()
        sys.stderr.write(f"forwarding {show_address(address)} to {plain(show_address(there))}\n")

    forwarding = Forwarding(lambda: converse(url), lease, term, told)
    try:
        asyncio.run(_until_interrupted(forwarding, here, there, opened))
    except HoldallError:
        raise  # some of these are OSErrors, too
    except OSError as problem:
        raise BadSpec(
            f"can't listen on {show_address(here)}: {problem.strerror or problem}. Choose another --listen."
        ) from None


async def _until_interrupted(
    forwarding: "Forwarding", here: "Address", there: "Address", opened: "Callable[[Address], None]"
) -> None:
    import asyncio
    import signal

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await forwarding.run(here, there, opened=opened, stop=stop)


def read_address(text: str, option: str, *, host: str = "") -> "Address":
    """`HOST:PORT`, `[IPV6]:PORT`; with a default for the host also `PORT`. Raises BadSpec."""
    before, colon, port = text.rpartition(":")
    name = before.removeprefix("[").removesuffix("]") if colon else host
    number = int(port) if port.isascii() and port.isdecimal() and len(port) <= 5 else PORT_MAX + 1
    if not name or number > PORT_MAX or (":" in name and not before.startswith("[")):
        example = "4000 or 127.0.0.1:4000" if host else "files.lab:873 or [fd00::1]:873"
        raise BadSpec(f"{option} {text[:80]!r}: write e.g. {example}")
    return name, number


def show_address(address: "Address") -> str:
    """As it is written on the command line."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
