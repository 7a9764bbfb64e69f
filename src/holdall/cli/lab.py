"""`holdall lab …`: the protocols under the glass: explore, simulate, replay, show."""

from pathlib import Path
from typing import Annotated

import typer

from holdall.cli.options import Json

app = typer.Typer(
    no_args_is_help=True, help="The protocols under the glass: explore, simulate, replay, show."
)


@app.command(
    epilog="Examples: holdall lab explore --world list · holdall lab explore --world x2 --faults crash=1,loss=1 · "
    "holdall lab explore --pool gpu@n1=2 --claim gpu@n1:1 --claim gpu@n1:2 --faults cancel=1 · "
    "holdall lab explore --protocol link --world talk --faults restart=1,loss=1"
)
def explore(
    protocol: Annotated[
        str, typer.Option(help="chain, or link: what two hosts say to each other.")
    ] = "chain",
    world: Annotated[str | None, typer.Option(help="A named world, a TOML file, or `list`.")] = None,
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
            help="crash, restart, reboot, wipe, loss, duplicate, expiry, cancel, departure: how many.",
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
        )
    )


@app.command(
    epilog="Examples: holdall lab simulate --load saturated --pools 8 --seed 1 · "
    "holdall lab simulate --nodes 4 --faults crash=2,loss=0.01 --seeds 20 · holdall lab simulate --protocol ordered --json · "
    "holdall lab simulate --whole --nodes 5 --faults all --seeds 20"
)
def simulate(
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Whole nodes with clients, clocks and a bus instead of the bare protocol. Times are seconds then.",
        ),
    ] = False,
    protocol: Annotated[str, typer.Option(help="chain, ordered, or the yardstick central.")] = "chain",
    pools: Annotated[
        int | None,
        typer.Option(min=1, help="Pools in all, in blocks over the nodes (8); --whole: of each node (2)."),
    ] = None,
    units: Annotated[int | None, typer.Option(min=1, help="Units of a pool (1); --whole: 2.")] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes that share the pools (1); --whole: 3.")
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", min=1, help="Pools of a claim (2); --whole: at most (3).")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="--whole: clients of each node.")] = 2,
    reach: Annotated[
        int, typer.Option(min=1, help="--whole: a client's claims go to the pools of so many nodes.")
    ] = 3,
    load: Annotated[str, typer.Option(help="low, medium or saturated.")] = "medium",
    local: Annotated[
        float | None, typer.Option(min=0, max=1, help="Share of claims that stay on one node.")
    ] = None,
    wide: Annotated[
        bool, typer.Option("--wide", help="One client wants all pools, the others one each.")
    ] = False,
    hold: Annotated[
        float | None, typer.Option(help="Mean hold, in mean message delays (5); --whole: in s (1.5).")
    ] = None,
    cancel: Annotated[
        float, typer.Option(min=0, max=1, help="Share of claims given up while waiting.")
    ] = 0.0,
    now: Annotated[float, typer.Option(min=0, max=1, help="Share of claims that do not wait.")] = 0.0,
    faults: Annotated[
        str,
        typer.Option(
            metavar="KIND=N,…",
            help="e.g. crash=2,restart=1,loss=0.01; --whole: also pause, split, oneway, bridge, bus, slow, kill, nap, or all.",
        ),
    ] = "",
    passes: Annotated[
        int, typer.Option(min=0, help="Younger claims that may get ahead of a waiting one at a node.")
    ] = 8,
    passes_per_ahead: Annotated[
        int, typer.Option(min=0, help="So many more for each claim that waits before it.")
    ] = 1,
    try_from: Annotated[
        int, typer.Option(min=1, help="Claims over so many nodes try all at once first.")
    ] = 1000,
    duration: Annotated[
        float | None, typer.Option(help="In mean message delays (4000); --whole: in s (120).")
    ] = None,
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 1,
    seeds: Annotated[int, typer.Option(min=1, help="So many runs, with the seeds from --seed on.")] = 1,
    strict: Annotated[bool, typer.Option("--strict", help="Check every property after every turn.")] = False,
    trace: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the run, or the first with a violation.")
    ] = None,
    history: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="--whole: write what its clients saw, for `holdall check`."),
    ] = None,
    json: Json = False,
) -> int:
    """Seeded runs in virtual time with delays and faults, judged all the time; one seed, one run. Exit 1: violation."""
    if whole:
        from holdall.lab.whole import WholeAsked, run_whole

        return run_whole(
            WholeAsked(
                nodes=nodes or 3,
                pools=pools or 2,
                units=units or 2,
                k=k or 3,
                clients=clients,
                reach=reach,
                hold=hold or 1.5,
                faults=faults,
                passes=passes,
                passes_per_ahead=passes_per_ahead,
                try_from=try_from,
                duration=duration or 120.0,
                seed=seed,
                seeds=seeds,
                trace=trace,
                history=history,
                json=json,
            )
        )
    from holdall.lab.simulate import Asked, run_simulate

    asked = Asked(
        protocol=protocol,
        pools=pools or 8,
        units=units or 1,
        nodes=nodes or 1,
        k=k or 2,
        load=load,
        local=local,
        wide=wide,
        hold=5.0 if hold is None else hold,
        cancel=cancel,
        now=now,
        faults=faults,
        passes=passes,
        passes_per_ahead=passes_per_ahead,
        try_from=try_from,
        duration=4000.0 if duration is None else duration,
        seed=seed,
        seeds=seeds,
        strict=strict,
        trace=trace,
        json=json,
    )
    return run_simulate(asked)


@app.command(epilog="Examples: holdall lab replay violation.jsonl · holdall lab replay node.trace")
def replay(
    trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")], json: Json = False
) -> int:
    """Run a trace again on the machines as they are now; name the first turn that differs."""
    from holdall.lab.replay import run_replay

    return run_replay(trace, as_json=json)


@app.command(epilog="Example: holdall lab show violation.jsonl")
def show(
    trace: Annotated[Path, typer.Argument(help="A trace of explorer, simulator or node.")], json: Json = False
) -> int:
    """Draw a trace as a sequence diagram."""
    from holdall.lab.show import run_show

    return run_show(trace, as_json=json)
