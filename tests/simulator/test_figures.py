"""What the specifications promise about throughput, waits and messages, measured on the shipped machines.

Each test prints its figures (`pytest -rP`). Sources: chain specification, section 10 and scenarios CH23, CH24;
common specification, section 4 and scenario PC17.
"""

import pytest
from simulator.figures_of import SEEDS, figures, mean, row

from holdall.simulator.workload import Load

ONE_NODE: list[tuple[int, int, int, Load]] = [
    (8, 2, 1, "low"),
    (8, 2, 1, "medium"),
    (8, 2, 1, "saturated"),
    (8, 2, 2, "saturated"),
    (8, 3, 1, "medium"),
    (8, 3, 1, "saturated"),
    (8, 3, 2, "saturated"),
]
ONE_NODE_LARGE: list[tuple[int, int, int, Load]] = [
    (40, 2, 1, "medium"),
    (40, 2, 1, "saturated"),
    (40, 3, 1, "medium"),
    (40, 3, 1, "saturated"),
]
CROWDED: list[tuple[int, int, int, Load]] = [
    (8, 2, 1, "medium"),
    (8, 2, 1, "saturated"),
    (8, 3, 1, "medium"),
    (8, 3, 1, "saturated"),
]
FIRST_FIT = {  # throughput of the yardstick as the specification has it
    (8, 2, 1, "low"): 0.189,
    (8, 2, 1, "medium"): 0.380,
    (8, 2, 1, "saturated"): 0.457,
    (8, 2, 2, "saturated"): 0.565,
    (8, 3, 1, "medium"): 0.253,
    (8, 3, 1, "saturated"): 0.273,
    (8, 3, 2, "saturated"): 0.342,
}


def name_of(scenario: tuple[int, int, int, Load]) -> str:
    pools, k, units, load = scenario
    return f"m={pools} k={k} u{units} {load}"


def against_first_fit(
    scenario: tuple[int, int, int, Load], *, duration: float, seeds: tuple[int, ...]
) -> float:
    """Throughput of the chain on one node as a share of the yardstick's; prints both."""
    pools, k, units, load = scenario
    shares: list[float] = []
    for seed in seeds:
        chain, central = (
            figures(name, nodes=1, pools=pools, k=k, units=units, load=load, seed=seed, duration=duration)
            for name in ("chain", "central")
        )
        print(row(f"{name_of(scenario)} seed {seed} chain, one node", chain))
        print(row(f"{name_of(scenario)} seed {seed} first fit", central))
        shares.append(chain.throughput / central.throughput)
    print(f"{name_of(scenario)}: {mean(shares):.3f} of first fit")
    return mean(shares)


@pytest.mark.parametrize("scenario", ONE_NODE, ids=name_of)
def test_ch24_one_node_reaches_nine_tenths_of_first_fit(scenario: tuple[int, int, int, Load]) -> None:
    assert against_first_fit(scenario, duration=4000, seeds=SEEDS) >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("scenario", ONE_NODE_LARGE, ids=name_of)
def test_one_node_with_forty_pools_reaches_nine_tenths_of_first_fit(
    scenario: tuple[int, int, int, Load],
) -> None:
    assert against_first_fit(scenario, duration=1500, seeds=(1,)) >= 0.9


@pytest.mark.parametrize("scenario", ONE_NODE, ids=name_of)
def test_the_yardstick_is_the_one_of_the_specification(scenario: tuple[int, int, int, Load]) -> None:
    pools, k, units, load = scenario
    found = mean(
        [
            figures("central", nodes=1, pools=pools, k=k, units=units, load=load, seed=seed).throughput
            for seed in SEEDS
        ]
    )
    print(f"{name_of(scenario)}: {found:.3f}, in the specification {FIRST_FIT[scenario]}")
    assert found == pytest.approx(FIRST_FIT[scenario], rel=0.07)


def test_ch23_a_claim_for_all_pools_among_small_ones() -> None:
    waits: list[float] = []
    for seed in SEEDS:
        chain = figures("chain", nodes=1, wide=True, seed=seed)
        central = figures("central", nodes=1, wide=True, seed=seed)
        for name, found in (("chain", chain), ("first fit", central)):
            print(
                f"seed {seed} {name}: wide claim waits {found.wide_mean:.0f} on average, {found.wide_longest:.0f} "
                f"at most, overtaken {found.wide_overtaken}, served {found.wide_served}; all {found.throughput:.3f}"
            )
        assert chain.wide_mean is not None
        assert chain.wide_longest is not None
        assert chain.wide_longest <= 110
        assert chain.wide_served is not None
        assert central.wide_served is not None
        assert chain.wide_served > 3 * central.wide_served
        waits.append(chain.wide_mean)
    assert sum(waits) / len(waits) <= 60


@pytest.mark.parametrize("nodes", [8, 4])
def test_pc17_chain_against_ordered_over_many_nodes(nodes: int) -> None:
    """At least 1.15 times the throughput of ordered locking at medium and at saturated load."""
    by_load: dict[str, list[float]] = {"medium": [], "saturated": []}
    for pools, k, units, load in CROWDED:
        for seed in SEEDS:
            chain, ordered = (
                figures(name, nodes=nodes, pools=pools, k=k, units=units, load=load, seed=seed)
                for name in ("chain", "ordered")
            )
            title = f"{name_of((pools, k, units, load))} seed {seed}"
            print(row(f"{title} chain, {nodes} nodes", chain))
            print(row(f"{title} ordered, {nodes} nodes", ordered))
            by_load[load].append(chain.throughput / ordered.throughput)
    for crowd, ratios in by_load.items():
        print(
            f"{nodes} nodes, {crowd}: {mean(ratios):.3f} times ordered ({min(ratios):.3f} to {max(ratios):.3f})"
        )
        assert mean(ratios) >= 1.15


@pytest.mark.parametrize("load", ["medium", "saturated"])
def test_pc17_messages_per_claim(load: Load) -> None:
    for seed in SEEDS:
        found = figures("chain", nodes=8, load=load, seed=seed)
        print(f"{load} seed {seed}: {found.messages_per_claim:.2f} messages a claim; {found.messages}")
        assert found.messages_per_claim <= 6.5


@pytest.mark.long
@pytest.mark.parametrize("nodes", [40, 4])
@pytest.mark.parametrize("scenario", ONE_NODE_LARGE, ids=name_of)
def test_forty_pools_over_many_nodes(nodes: int, scenario: tuple[int, int, int, Load]) -> None:
    pools, k, units, load = scenario
    chain, ordered = (
        figures(name, nodes=nodes, pools=pools, k=k, units=units, load=load, duration=1500)
        for name in ("chain", "ordered")
    )
    print(row(f"{name_of(scenario)} chain, {nodes} nodes", chain))
    print(row(f"{name_of(scenario)} ordered, {nodes} nodes", ordered))
    assert chain.throughput >= 1.15 * ordered.throughput
