"""Commands about a system of several nodes: join, forget, nats-config."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.options import Json, Url, converse
from holdall.cli.tables import plain, print_json
from holdall.model import frames

app = typer.Typer()


@app.command(
    epilog="Examples: holdall join hd1-… · holdall join hd1-… --config lab-2.toml --name lab-2 · "
    "holdall join (prints a fresh line for one more node)"
)
def join(
    code: Annotated[
        str, typer.Argument(help="What `holdall serve` printed. Without it: print a line for one more node.")
    ] = "",
    config: Annotated[
        Path | None, typer.Option(help="This node's configuration; written when it is not there.")
    ] = None,
    state: Annotated[Path | None, typer.Option(help="Its state folder, for a new configuration.")] = None,
    name: Annotated[str, typer.Option(help="Its name, for a new configuration.")] = "",
    json: Json = False,
    url: Url = "",
) -> int:
    """Join the system of another node and run this one in the foreground, as serve does; later: holdall serve."""
    if not code:
        return _invite(url, as_json=json)
    from holdall.cli.join_config import config_to_join
    from holdall.node.foreground import serve

    return serve(config_to_join(config, state, name), code=code)


@app.command(epilog="Examples: holdall forget lab-3 · holdall forget lab-3 --force")
def forget(
    node_name: Annotated[
        str, typer.Argument(metavar="NODE", help="Name or id of a node that never comes back.")
    ],
    force: Annotated[
        bool, typer.Option("--force", help="Also when it is heard, or was a short while ago.")
    ] = False,
    url: Url = "",
) -> None:
    """Remove a node from the system for good: it is shut out, and its name is free."""
    with converse(url) as node:
        answer = node.ask(frames.Forget(n=node.number(), node=node_name, heard=force))
    if isinstance(answer, frames.Drained):
        sys.stderr.write(plain(answer.text) + "\n")


@app.command(
    "nats-config", epilog="Examples: holdall nats-config · holdall nats-config --config lab-2.toml --json"
)
def nats_config(
    config: Annotated[Path | None, typer.Option(help="Configuration of the node.")] = None,
    json: Json = False,
) -> None:
    """Print what this node's login needs in a NATS cluster that somebody else runs: its subjects."""
    from holdall.bus.entry import nats_config_text
    from holdall.bus.subjects import needed_elsewhere
    from holdall.node.configured import BusSettings
    from holdall.node.identity import identity_of
    from holdall.node.settings import load_settings

    settings = load_settings(config)
    settings.state.mkdir(parents=True, exist_ok=True, mode=0o700)
    node, system = identity_of(settings.state).id, (settings.bus or BusSettings()).system
    if json:
        publish, subscribe = needed_elsewhere(system, node)
        row = {
            "node": settings.name,
            "id": node,
            "system": system,
            "publish": publish,
            "subscribe": subscribe,
        }
        print_json("nodes", [row])
    else:
        sys.stdout.write(nats_config_text([(settings.name, node)], system))


def _invite(url: str, *, as_json: bool) -> int:
    with converse(url) as node:
        answer = node.ask(frames.Invite(n=node.number()))
    if isinstance(answer, frames.Invited):
        if as_json:
            print_json("codes", [{"code": answer.code, "valid_s": answer.valid_s}])
        else:
            sys.stdout.write(f"holdall join {answer.code}\n")
    return 0
