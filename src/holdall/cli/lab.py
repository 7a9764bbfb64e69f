"""`holdall lab …`: the protocols under the glass: explore, simulate, compare, replay, show."""

from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.lab_bandwidth import app as links
from holdall.cli.lab_runs import app as runs
from holdall.cli.options import Json

app = typer.Typer(
    no_args_is_help=True,
    help="The protocols under the glass: explore, simulate, compare, replay, show.",
)
app.registered_commands += runs.registered_commands + links.registered_commands


@app.command(
    epilog="Examples: holdall lab explore --world list · holdall lab explore --world x2 --faults crash=1,loss=1 · "
    "holdall lab explore --pool gpu@n1=2 --claim gpu@n1:1 --claim gpu@n1:2 --faults cancel=1 · "
    "holdall lab explore --protocol link --world talk --faults restart=1,loss=1 · "
    "holdall lab explore --world all --jobs 2"
)
def explore(
    protocol: Annotated[
        str,
        typer.Option(
            help="chain or another; link: what two hosts say to each other; all: with --world all or long."
        ),
    ] = "chain",
    world: Annotated[
        str | None,
        typer.Option(help="A named world, a TOML file, `list`, or the runs that are listed: `all`, `long`."),
    ] = None,
    pool: Annotated[
        list[str] | None, typer.Option("--pool", metavar="POOL@NODE=UNITS", help="A pool of an own world.")
    ] = None,
    claim: Annotated[
        list[str] | None,
        typer.Option("--claim", metavar="POOL@NODE:N,…", help="A claim of an own world, in visiting order."),
    ] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Each claim comes so often.")] = None,
    faults: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=N,…",
            help="crash, restart, reboot, wipe, loss, duplicate, expiry, cancel, departure, gone: how many.",
        ),
    ] = None,
    passes: Annotated[
        int | None, typer.Option(min=0, help="Younger claims that may pass a waiting one.")
    ] = None,
    passes_per_ahead: Annotated[
        int | None, typer.Option(min=0, help="And so many for each that waits before it.")
    ] = None,
    mutant: Annotated[str | None, typer.Option(help="Take one rule away; `list` shows which.")] = None,
    falls_at: Annotated[
        str,
        typer.Option(metavar="HOST", help="The only host that crashes or comes up anew; default: each may."),
    ] = "",
    timers: Annotated[str | None, typer.Option(help="Repair timers fire: off, quiet, any.")] = None,
    links: Annotated[str, typer.Option(help="any: links reorder; fifo: they keep order.")] = "any",
    reduce: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="late, overtaken, newest, symmetry: look at fewer states; what each keeps is said.",
        ),
    ] = "",
    compact: Annotated[
        bool, typer.Option("--compact", help="Keep hashes of states; the chance of a miss is told.")
    ] = False,
    fair: Annotated[
        bool, typer.Option("--fair/--no-fair", help="Look for fair cycles in which somebody waits for ever.")
    ] = True,
    jobs: Annotated[int, typer.Option(min=1, help="--world all: so many worlds at once.")] = 1,
    min_states: Annotated[
        int, typer.Option(min=0, help="--world all: fail when a protocol has fewer states in all.")
    ] = 0,
    max_states: Annotated[int | None, typer.Option(min=1, help="Stop there (exit 3).")] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the shortest counter-example there.")
    ] = None,
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
            falls_at=falls_at,
            timers=timers,
            links=links,
            reduce=reduce,
            compact=compact,
            fair=fair,
            jobs=jobs,
            min_states=min_states,
        )
    )


@app.command(epilog="Examples: holdall lab mutants · holdall lab mutants --protocol link --json")
def mutants(
    name: Annotated[list[str] | None, typer.Argument(help="Only these; default: all.")] = None,
    protocol: Annotated[str | None, typer.Option(help="Only this protocol's.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="So many at once.")] = 2,
    json: Json = False,
) -> int:
    """Take each necessary rule away once: how explorer or simulator finds that it is missing. Exit 1: one is not found."""
    from holdall.lab.mutants import run_mutants

    return run_mutants(protocol=protocol, names=tuple(name or ()), jobs=jobs, as_json=json)


@app.command(epilog="Examples: holdall lab replay violation.jsonl · holdall lab replay node.trace")
def replay(
    trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")],
    simulated: Annotated[
        bool,
        typer.Option(
            "--simulated",
            help="Of the explorer: as a run in virtual time, messages held up as long as it takes.",
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Run a trace again on the machines as they are now; name the first turn that differs."""
    from holdall.lab.replay import run_replay

    return run_replay(trace, as_json=json, simulated=simulated)


@app.command(
    epilog="Examples: holdall lab show violation.jsonl · holdall lab show violation.jsonl --svg violation.svg"
)
def show(
    trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")],
    svg: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a picture instead: messages that overtake each other cross."
        ),
    ] = None,
    title: Annotated[str, typer.Option(help="Of the picture, in place of the trace's own note.")] = "",
    json: Json = False,
) -> int:
    """Draw a trace as a sequence diagram."""
    from holdall.lab.show import run_show

    return run_show(trace, as_json=json, svg=svg, title=title)


@app.command(
    epilog="Examples: holdall lab phases --protocol lanes --world same --faults expiry=1 · "
    "holdall lab phases --protocol chain --world x2 --svg phases.svg"
)
def phases(
    protocol: Annotated[str, typer.Option(help="A protocol that can be explored.")] = "chain",
    world: Annotated[str, typer.Option(help="A small named world, see lab explore --world list.")] = "",
    faults: Annotated[
        str, typer.Option(metavar="KIND=N,…", help="As for lab explore.")
    ] = "cancel=1,expiry=1",
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a picture.")] = None,
    json: Json = False,
) -> int:
    """The phases of a claim and what leads from one to the next, from all explored transitions of a small world."""
    from holdall.lab.phases import run_phases

    return run_phases(
        protocol, world or ("x2low" if protocol == "chain" else "same"), faults, svg=svg, as_json=json
    )
