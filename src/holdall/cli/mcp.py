"""`holdall mcp`: lets software agents claim, over the Model Context Protocol."""

import asyncio
import contextlib
import os
import sys
from typing import Annotated

import typer

from holdall.cli.options import Url
from holdall.model.errors import BadConfig, BadSpec

app = typer.Typer()
TOKEN_ENV = "HOLDALL_MCP_TOKEN"  # noqa: S105 - the name of a variable
LOOPBACK = ("127.0.0.1", "localhost")
PORT_MAX = 65_535


@app.command(
    "mcp",
    epilog="Examples: holdall mcp (an agent starts it and talks over standard input and output) · "
    "holdall mcp --listen 127.0.0.1:7430 (many agents, at http://127.0.0.1:7430/mcp)",
)
def mcp(
    listen: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Serve HTTP on this address of this host instead; HOLDALL_MCP_TOKEN: the token to ask for.",
        ),
    ] = "",
    url: Url = "",
) -> None:
    """Let software agents claim, check, extend and release units (Model Context Protocol)."""
    address = _address(listen) if listen else None
    try:
        from holdall.mcp.server import serve
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in {"mcp", "mcp_types", "pydantic"}:
            raise
        raise BadConfig("holdall mcp needs an extra: pip install 'holdall[mcp]'") from None
    token = os.environ.get(TOKEN_ENV, "")
    if address is not None:
        sys.stderr.write(f"serving   http://{address[0]}:{address[1]}/mcp\n")
        if not token:
            sys.stderr.write(
                f"note      whoever can open this port acts with your rights at the node. {TOKEN_ENV}=… asks for a token\n"
            )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(url or None, address, token=token))


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
        raise BadSpec(f"--listen {text}: write HOST:PORT, e.g. 127.0.0.1:7430")
    if host not in LOOPBACK:
        raise BadSpec(
            f"--listen {text}: only addresses of this host itself ({', '.join(LOOPBACK)}), since there is no TLS here. "
            "For other hosts put a proxy with TLS in front, or go through ssh -L"
        )
    return host, int(port)
