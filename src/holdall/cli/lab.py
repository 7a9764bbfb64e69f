"""`holdall lab …`: the protocols under the glass: explore, simulate, replay, show."""

from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.options import Json

app = typer.Typer(no_args_is_help=True, help="The protocols under the glass: explore, simulate, replay, show.")


@app.command(
    epilog="Examples: holdall lab explore --world list · holdall lab explore --world x2 --faults crash=1,loss=1 · "
    "holdall lab explore --pool gpu@n1=2 --claim gpu@n1:1 --claim gpu@n1:2 --faults cancel=1"
)
def explore(
    protocol: Annotated[str, typer.Option(help="chain.")] = "chain",
    world: Annotated[str | None, typer.Option(help="A named world, a TOML file, or `list`.")] = None,
    pool: Annotated[list[str] | None, typer.Option("--pool", metavar="POOL@NODE=UNITS", help="A pool of an own world.")] = None,
    claim: Annotated[
        list[str] | None, typer.Option("--claim", metavar="POOL@NODE:N,…", help="A claim of an own world, in visiting order.")
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Each claim comes so often.")] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=N,…", help="crash, restart, reboot, wipe, loss, duplicate, expiry, cancel, departure: how many."
        ),
    ] = None,
    passes: Annotated[int | None, typer.Option(min=0, help="Younger claims that may pass a waiting one.")] = None,
    passes_per_ahead: Annotated[int | None, typer.Option(min=0, help="And so many for each that waits before it.")] = None,
    mutant: Annotated[str | None, typer.Option(help="Take one rule away; `list` shows which.")] = None,
    timers: Annotated[str | None, typer.Option(help="Repair timers fire: off, quiet, any.")] = None,
    max_states: Annotated[int | None, typer.Option(min=1, help="Stop there (exit 3).")] = None,
    trace: Annotated[str | None, typer.Option(metavar="FILE", help="Write the shortest counter-example there.")] = None,
    json: Json = False,
) -> int:
    """Search a small closed world exhaustively: every order of events, with faults. Exit 0 clean, 1 violation, 3 cut."""
    from holdall.lab.explore import Asked, run_explore

    return run_explore(
        Asked(
            protocol=protocol,
            world=world,
            pools=tuple(pool or ()),
            claims=tuple(claim or ()),
            repeat=repeat,
            faults=faults,
            passes=passes,
            passes_per_ahead=passes_per_ahead,
            mutant=mutant,
            max_states=max_states,
            trace=trace,
            json=json,
            timers=timers,
        )
    )


@app.command(epilog="Examples: holdall lab replay violation.jsonl · holdall lab replay node.trace")
def replay(trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")], json: Json = False) -> int:
    """Run a trace again on the machines as they are now; name the first turn that differs."""
    from holdall.lab.replay import run_replay

    return run_replay(trace, as_json=json)


@app.command(epilog="Example: holdall lab show violation.jsonl")
def show(trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")], json: Json = False) -> int:
    """Draw a trace as a sequence diagram."""
    from holdall.lab.show import run_show

    return run_show(trace, as_json=json)
