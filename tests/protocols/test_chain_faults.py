"""Random systems with losses, doubles and restarts: safe at every step, and when faults end everybody is served."""

from __future__ import annotations

import random

import pytest
from protocols.conversation import AGENT, Net, claim_id

from holdall.machine.contract import Address, Boot
from holdall.protocols.chain import properties
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Inside
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import ClaimId, Ended, Shrink, Vector, Visit

NODES = ("n0", "n1", "n2")
CAPACITY = 2


def repeating(node: str) -> Claimant:
    return Claimant(node, Address(node, AGENT), try_from=3, repeat_ms=100)


def some_need(lot: random.Random) -> tuple[Visit, ...]:
    nodes = lot.sample(NODES, lot.randint(1, 3))
    return tuple(
        Visit(node, tuple({some_vector(lot) for _ in range(lot.randint(1, 2))}), 1) for node in nodes
    )


def some_vector(lot: random.Random) -> Vector:
    return tuple((pool, lot.choice((1, 1, 2))) for pool in sorted(lot.sample("ab", lot.randint(1, 2))))


class Run:
    """One system under one seed."""

    def __init__(self, seed: int) -> None:
        self.lot = random.Random(seed)
        count = self.lot.randint(2, 5)
        self.claims = [claim_id(f"c{place}") for place in range(count)]
        self.net = Net(
            {node: {"a": CAPACITY, "b": CAPACITY} for node in NODES},
            tuple(claim.node for claim in self.claims),
            settings=Settings(passes=1, repeat_ms=100),
            make_claimant=repeating,
        )
        self.epochs = dict.fromkeys(NODES, 1)
        self.faults = self.lot.randint(1, 6)

    def inside(self) -> list[tuple[ClaimId, Inside]]:
        found: list[tuple[ClaimId, Inside]] = []
        for claim in self.claims:
            phase = self.net.claimant(claim.node).claims.get(claim)
            if isinstance(phase, Inside):
                found.append((claim, phase))
        return found

    def check(self) -> None:
        managers = [self.net.manager(node) for node in NODES]
        assert properties.all_wrong(managers) == []
        for manager in managers:
            assert properties.miscounted(manager) == []
        use: dict[tuple[str, str], int] = {}
        for _, phase in self.inside():
            for unit in phase.units:
                use[unit.node, unit.pool] = use.get((unit.node, unit.pool), 0) + 1
        assert all(units <= CAPACITY for units in use.values()), use

    def fault(self) -> None:
        net, lot = self.net, self.lot
        match lot.choice(("lose", "double", "claimant", "same", "reboot", "lost messages")):
            case "lose" if net.wire:
                del net.wire[lot.randrange(len(net.wire))]
            case "double" if net.wire:
                net.wire.append(lot.choice(net.wire))
            case "claimant":
                net.restart(lot.choice(self.claims).node, Boot("same", 1, 2))
            case "same":
                node = lot.choice(NODES)
                net.restart(node, Boot("same", self.epochs[node], 2))
            case "reboot":
                node = lot.choice(NODES)
                self.epochs[node] += 1
                net.restart(node, Boot("reboot", self.epochs[node], 2))
            case "lost messages":
                node = lot.choice(NODES)
                net.wire = [letter for letter in net.wire if letter[1].node != node or lot.random() < 0.5]
                net.restart(node, Boot("same", self.epochs[node], 2))
            case _:
                pass

    def step(self) -> None:
        net, lot = self.net, self.lot
        inside = self.inside()
        if self.faults and lot.random() < 0.05:
            self.faults -= 1
            self.fault()
        elif inside and lot.random() < 0.2:
            claim, phase = lot.choice(inside)
            if lot.random() < 0.3:
                net.verb(claim.node, Shrink(claim, ((phase.units[0].node, ((phase.units[0].pool, 1),)),)))
            else:
                net.release(claim)
        elif net.wire and lot.random() < 0.9:
            net.arrive(lot.randrange(len(net.wire)))
        else:
            timers = [(node, name) for node in sorted(net.timers) for name in sorted(net.timers[node])]
            if timers:
                net.fire(*lot.choice(timers))

    def everybody_is_done(self) -> bool:
        return all(Ended(claim) in self.net.heard[claim.node] for claim in self.claims)


@pytest.mark.parametrize("block", range(10))
def test_whatever_is_lost_doubled_or_restarted_all_is_safe_and_all_are_served(block: int) -> None:
    for seed in range(block * 12, block * 12 + 12):
        run = Run(seed)
        for claim in run.claims:
            run.net.acquire(claim, some_need(run.lot))
        for _ in range(6_000):
            run.step()
            run.check()
            if run.everybody_is_done() and not run.faults:
                break
        assert run.everybody_is_done(), f"seed {seed}"
        for claim in run.claims:
            assert run.net.is_granted(claim), f"seed {seed}"
        run.net.run()
        for node in NODES:
            assert run.net.manager(node).rows == {}, f"seed {seed}"
            assert run.net.manager(node).mem == {}, f"seed {seed}"
