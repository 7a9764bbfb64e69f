"""Draws whole setups from seeds, so that many seeds cover many kinds of run: each leaves out most of what there is.

A run in which everything happens at once often hides what one thing alone would show, so every kind of fault, and
every extra of a workload, is in only some of the setups. Source: "Swarm Testing", Groce and others, ISSTA 2012.
"""

import random
from collections.abc import Sequence

import msgspec

from holdall.simulator.faults import Faults
from holdall.simulator.network import DelayKind, Delays
from holdall.simulator.setup import RHO_MAX, Setup
from holdall.simulator.systems import FAULTLESS, SYSTEMS, pools_max
from holdall.simulator.workload import Shape, Workload

SIMULATED = 1800.0
"""Mean message delays in which clients begin claims: half a simulated hour."""
RICH = 0.35
"""Share of the setups whose claims want several pools; the others are there for their number."""
WEIGHTS = {"game": 0.25, "game-complete": 0.25, "lanes-lending": 0.5}
"""How often a protocol is drawn against the others: those that send many messages for a claim more seldom."""

_DELAYS: tuple[DelayKind, ...] = (
    "exponential", "exponential", "constant", "uniform", "lognormal", "regions",
)  # fmt: skip
_SHAPES: tuple[Shape, ...] = ("random", "random", "random", "ring", "line", "star", "hot")


def simulated() -> tuple[str, ...]:
    """All protocols that a swarm runs: those that survive faults."""
    return tuple(sorted(name for name in SYSTEMS if name not in FAULTLESS))


def swarm_setup(seed: int, protocols: Sequence[str] = (), *, duration: float = SIMULATED) -> Setup:
    """The setup of a seed: protocol (one of these; none named: any), its settings, workload, faults and delays."""
    rng = random.Random(f"holdall swarm {seed}")
    names = tuple(protocols) or simulated()
    name = rng.choices(names, [WEIGHTS.get(one, 1.0) for one in names])[0]
    faults = _faults(rng)
    rich = rng.random() < RICH
    return Setup(
        protocol=name,
        workload=_workload(rng, pools_max(name), rich=rich),
        faults=faults,
        seed=seed,
        duration=duration,
        passes=rng.choice((0, 1, 8)),
        passes_per_ahead=rng.choice((0, 1)),
        try_from=rng.choice((1000, 1000, 2, 1)),
        ttl=rng.choice((20.0, 60.0, 120.0)) if rich else 120.0,
        leases=True,
        patience=rng.choice((2.0, 6.0, 20.0)),
        delays=Delays(kind=rng.choice(_DELAYS)),
        rho=rng.choice((0.0, RHO_MAX / 2, RHO_MAX)),
    )


def _workload(rng: random.Random, most: int | None, *, rich: bool) -> Workload:
    """Few clients on few pools: they meet all the time, and hosts that only wait cost nothing.

    Rich: claims over several pools and nodes, with short leases. Else one pool a claim, and many claims in a short time.
    """
    pools = rng.randint(2, 5) if rich else rng.randint(1, 4)
    k = min(rng.choice((2, 2, 3)), pools, pools if most is None else most) if rich else 1
    units = rng.choice((1, 1, 2, 3))
    shape = rng.choice(_SHAPES)
    return Workload(
        shape=shape,
        pools=pools,
        nodes=rng.randint(min(2, pools), min(pools, 4)) if rich else rng.randint(1, min(pools, 2)),
        k=k,
        k_least=rng.choice((None, 1)) if shape == "random" else None,
        units=units,
        need_most=rng.randint(1, units),
        clients=rng.randint(3, 6),
        hold=rng.choice((0.5, 2.0, 5.0)) if rich else rng.choice((0.5, 1.0)),
        think=rng.choice((0.0, 1.0, 4.0)) if rich else rng.choice((0.0, 0.5)),
        local=rng.choice((None, None, 0.8)) if shape == "random" else None,
        cancel_share=rng.choice((0.0, 0.0, 0.1)),
        try_share=rng.choice((0.0, 0.0, 0.15)),
    )


def _faults(rng: random.Random) -> Faults:
    """Each kind in some of the setups only. Messages are struck in most of them."""
    blows = {kind: rng.randint(1, 6) if rng.random() < 0.4 else 0 for kind in Faults.kinds}
    shares = {
        "loss": rng.choice((0.0, 0.02, 0.05)),
        "duplicate": rng.choice((0.0, 0.02, 0.05)),
        "reorder": rng.choice((0.0, 0.02, 0.05)),
        "departure": rng.choice((0.0, 0.0, 0.01, 0.05)),
    }
    plain: dict[str, object] = {**blows, **shares}
    return msgspec.convert(plain, Faults)
