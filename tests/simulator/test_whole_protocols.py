"""Whole nodes under every protocol by pool: all faults at once, with commands before and after grants, all drained."""

import pytest

from holdall.checker.records import AnyRecord, Queued
from holdall.protocols.registry import PROTOCOLS
from holdall.simulator.whole.run import WholeRun
from holdall.simulator.whole.setup import Wants, WholeFaults, WholeSetup

BY_POOL = sorted(name for name, entry in PROTOCOLS.items() if entry.by_pool)
FAULTS = WholeFaults(
    crash=2, restart=1, reboot=1, unsynced=1, wipe=1, pause=2, split=1, oneway=1, bridge=1, bus=1, slow=1,
    kill=2, nap=2, loss=0.02, duplicate=0.02, reorder=0.05,
)  # fmt: skip


def wants_of(protocol: str, *, hooks: bool) -> Wants:
    """What clients want; a need of the pool that several nodes have would be one pool more."""
    most = PROTOCOLS[protocol].pools_max
    return Wants(hooks=hooks) if most is None else Wants(hooks=hooks, k=most, common_share=0.0)


@pytest.mark.parametrize("protocol", BY_POOL)
@pytest.mark.parametrize("seed", range(1, 4))
def test_nothing_is_held_twice_and_everybody_is_served(protocol: str, seed: int) -> None:
    setup = WholeSetup(protocol=protocol, wants=wants_of(protocol, hooks=seed == 1), faults=FAULTS, seed=seed)
    report = WholeRun(setup).run()
    assert report.violations == []
    assert report.figures.grants >= 20
    assert report.figures.faults["crash"] >= 1


@pytest.mark.parametrize("protocol", BY_POOL)
def test_commands_before_grants_without_faults(protocol: str) -> None:
    report = WholeRun(
        WholeSetup(protocol=protocol, wants=wants_of(protocol, hooks=True), duration_ms=60_000)
    ).run()
    assert report.violations == []
    assert report.figures.grants >= 20


@pytest.mark.long
@pytest.mark.parametrize("protocol", BY_POOL)
def test_a_hundred_seeds(protocol: str) -> None:
    for seed in range(100, 200):
        setup = WholeSetup(
            protocol=protocol, wants=wants_of(protocol, hooks=seed % 4 == 0), faults=FAULTS, seed=seed
        )
        assert WholeRun(setup).run().violations == [], seed


@pytest.mark.parametrize("protocol", ["chain", "ordered"])
def test_a_bound_is_told_only_where_the_protocol_states_one(protocol: str) -> None:
    """Clients record what they are told, and the checker holds nodes to it."""
    told: list[AnyRecord] = []
    setup = WholeSetup(protocol=protocol, wants=wants_of(protocol, hooks=False), duration_ms=60_000)
    assert WholeRun(setup, on_record=told.append).run().violations == []
    bounds = {record.bound for record in told if isinstance(record, Queued)}
    assert (bounds == {None}) is (protocol != "chain")
