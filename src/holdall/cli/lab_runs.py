"""`holdall lab simulate`, `compare` and `scale`: seeded runs in virtual time, one by one, side by side, and large."""

from typing import Annotated

import typer

from holdall.cli.options import Json

app = typer.Typer()

Processes = Annotated[int | None, typer.Option(min=1, help="At once; default: one for each processor.")]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Each run's result is kept there, and not made again: for runs that may be broken off.",
    ),
]


@app.command(
    epilog="Examples: holdall lab simulate --load saturated --pools 8 --seed 1 · "
    "holdall lab simulate --nodes 4 --faults crash=2,loss=0.01 --seeds 20 · holdall lab simulate --protocol ordered --json · "
    "holdall lab simulate --workload ring-50-saturated --agents 100 --claims 10000 · "
    "holdall lab simulate --swarm --seeds 100 --floors claims=50000,faults=25000 · "
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
    swarm: Annotated[
        bool,
        typer.Option(
            "--swarm",
            help="Protocol, settings, workload, faults and delays of each seed drawn from it; counted. Exit 3: below --floors.",
        ),
    ] = False,
    protocol: Annotated[
        str | None,
        typer.Option(help="A protocol's name (chain), or the yardstick central; --swarm: several, or all."),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="E.g. ring-50-saturated, or a TOML file of its values."),
    ] = None,
    agents: Annotated[int | None, typer.Option(min=1, help="Clients in all, each with its host.")] = None,
    claims: Annotated[
        int | None, typer.Option(min=1, help="Stop claiming after so many claims in all.")
    ] = None,
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
    delays: Annotated[
        str, typer.Option(metavar="KIND", help="constant, uniform, exponential, lognormal or regions.")
    ] = "",
    rho: Annotated[
        float, typer.Option(min=0, help="Hosts' clocks go wrong by up to this share, at most 0.02.")
    ] = 0.0,
    ttl: Annotated[float, typer.Option(help="Life of a lease, in mean message delays.")] = 60.0,
    patience: Annotated[
        float, typer.Option(help="Mean delays before a waiting claim lends, or asks to be let pass.")
    ] = 6.0,
    leases: Annotated[
        bool, typer.Option("--leases", help="Leases are renewed and run out without faults, too.")
    ] = False,
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
        typer.Option(metavar="FILE", help="Judge runs by `holdall check`, too; write what clients saw."),
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option("--shrink", help="Make a run that violates something smaller, and say how to have it."),
    ] = False,
    processes: Annotated[
        int | None, typer.Option(min=1, help="--swarm: at once; default: one for each processor.")
    ] = None,
    floors: Annotated[
        str,
        typer.Option(metavar="NAME=N,…", help="--swarm: at least so many runs, claims, faults, hours."),
    ] = "",
    json: Json = False,
) -> int:
    """Seeded runs in virtual time with delays and faults, judged all the time; one seed, one run. Exit 1: violation."""
    if swarm:
        from holdall.lab.swarm import SwarmAsked, run_swarm

        return run_swarm(
            SwarmAsked(
                protocols=tuple(filter(None, (protocol or "").split(","))),
                seed=seed,
                seeds=seeds,
                duration=duration,
                processes=processes,
                floors=floors,
                trace=trace,
                json=json,
            )
        )
    if whole:
        from holdall.lab.whole import WholeAsked, run_whole

        return run_whole(
            WholeAsked(
                protocol=protocol or "chain",
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
        protocol=protocol or "chain",
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
        duration=duration,
        workload=workload,
        agents=agents,
        claims=claims,
        delays=delays,
        rho=rho,
        ttl=ttl,
        patience=patience,
        leases=leases,
        history=history,
        shrink=shrink,
        seed=seed,
        seeds=seeds,
        strict=strict,
        trace=trace,
        json=json,
    )
    return run_simulate(asked)


@app.command(
    epilog="Examples: holdall lab compare --quick --report report · holdall lab compare --protocols chain,ordered --workloads "
    "ring-50-saturated,mine.toml · holdall lab compare --suite alone · holdall lab compare --suite published --seeds 2"
)
def compare(
    quick: Annotated[
        bool, typer.Option("--quick", help="Short runs, a few minutes in all (the default).")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Every suite, long runs, five seeds: for a night.")
    ] = False,
    suite: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="loads, extent, alone, published; default: by effort."),
    ] = None,
    protocols: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Only these; chain-try is the chain that tries first."),
    ] = None,
    workloads: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Only these: names such as ring-50-saturated, or TOML files."),
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each, with the seeds 1, 2, …")] = None,
    duration: Annotated[float | None, typer.Option(help="Of each load, in mean message delays.")] = None,
    processes: Processes = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write figures (PNG, SVG), index.html and compare.json there."),
    ] = None,
    keep: Keep = None,
    json: Json = False,
) -> int:
    """All protocols on the same claims: throughput, waits, messages, fairness, and how far a failure reaches."""
    from holdall.lab.compare.command import Asked, run_compare

    if quick and full:
        raise typer.BadParameter("--quick or --full, not both")
    return run_compare(
        Asked(
            full=full,
            suites=suite,
            protocols=protocols,
            workloads=workloads,
            seeds=seeds,
            duration=duration,
            processes=processes,
            report=report,
            keep=keep,
            json=json,
        )
    )


@app.command(
    epilog="Examples: holdall lab scale --nodes 100,1000 --claims 100000 · holdall lab scale --protocols chain,lanes --regions 5 "
    "--report report"
)
def scale(
    protocols: Annotated[str, typer.Option(metavar="NAME,…", help="Which protocols.")] = "chain",
    nodes: Annotated[
        str, typer.Option(metavar="N,…", help="Numbers of nodes, each with a pool and a client.")
    ] = "100,300,1000,3000,10000",
    claims: Annotated[
        int, typer.Option(min=1, help="Claims over the largest number of nodes; the others run as long.")
    ] = 1_000_000,
    regions: Annotated[
        int | None, typer.Option(min=2, max=1000, help="Once more with so many regions, 1 to 150 ms apart.")
    ] = None,
    shape: Annotated[str, typer.Option(help="Pools of a claim: random, or neighbours on a ring.")] = "random",
    seed: Annotated[int, typer.Option(help="Everything random comes from it.")] = 1,
    processes: Processes = None,
    report: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write scale.html, scale.json and the figure there.")
    ] = None,
    keep: Keep = None,
    json: Json = False,
) -> int:
    """The same load on each of more and more nodes: how messages, waits and memory grow."""
    from holdall.lab.scale.command import Asked, run_scale

    return run_scale(
        Asked(
            protocols=protocols,
            nodes=nodes,
            claims=claims,
            regions=regions,
            shape=shape,
            seed=seed,
            processes=processes,
            report=report,
            keep=keep,
            json=json,
        )
    )
