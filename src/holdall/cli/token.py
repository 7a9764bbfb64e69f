"""`holdall token`: access tokens, with which a program reaches a node's HTTP API over TCP."""

import sys
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from holdall.cli.options import Json, Url
from holdall.cli.tables import clock_time, plain, print_json, print_table
from holdall.model.errors import BadSpec, Refused
from holdall.model.names import is_name

app = typer.Typer(
    no_args_is_help=True,
    help="Access tokens: who has one reaches this node's HTTP API over TCP as the user who made it.",
)

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="What you call it, e.g. after the program that has it.")
]


@app.command(epilog="Examples: holdall token create ci · holdall token create wall --may see")
def create(
    name: Name,
    may: Annotated[
        Literal["act", "see"],
        typer.Option("--may", help="see: only look; act: also claim, release, negotiate."),
    ] = "act",
    json: Json = False,
    url: Url = "",
) -> None:
    """Make a token of yours and print it, this once: the node keeps only its hash."""
    told = _ask(url, "POST", "/v1/tokens", {"name": _checked(name), "may": may})
    if json:
        print_json("token", {name: told[name] for name in ("token", "name", "may")})
        return
    sys.stdout.write(f"{told['token']}\n")
    sys.stderr.write(f"next      give it as HOLDALL_ACCESS_TOKEN; end it: holdall token end {name}\n")


@app.command("list", epilog="Examples: holdall token list · holdall token list --json")
def list_tokens(json: Json = False, url: Url = "") -> None:
    """Your tokens at this node, without their secrets."""
    rows = _ask(url, "GET", "/v1/tokens")["tokens"]
    if json:
        print_json("tokens", rows)
        return
    print_table(
        ("NAME", "MAY", "MADE"),
        [(plain(row["name"]), row["may"], clock_time(row["at_ms"])) for row in rows],
        empty="you have no tokens here. Make one: holdall token create NAME",
    )


@app.command(epilog="Example: holdall token end ci")
def end(name: Name, url: Url = "") -> None:
    """End a token: who has it is not let in any more."""
    told = _ask(url, "DELETE", f"/v1/tokens/{quote(_checked(name))}")
    sys.stderr.write(f"{plain(told['text'])}\n")


def _checked(name: str) -> str:
    if not is_name(name):
        raise BadSpec(f"{name[:80]!r} is no name of a token: small letters, digits, '.', '_' and '-'")
    return name


def _ask(
    url: str, method: Literal["GET", "POST", "DELETE"], path: str, body: object = None
) -> dict[str, Any]:
    from holdall.client.address import find_node
    from holdall.client.http_socket import ask_http
    from holdall.guardian.reaching import is_remote

    where = find_node(url or None)
    if method == "POST" and is_remote(where):
        raise Refused(
            "a token is made on the node's host only: there the kernel says whose it is, and who has one token can't make "
            "himself others that outlive it. Log in there, then: holdall token create NAME"
        )
    return ask_http(where, method, path, body)
