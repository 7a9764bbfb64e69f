"""A claim that nobody stands in the way of: its messages and delays (chain specification, sections 1 and 11; CH1, CH2)."""

import pytest

from holdall.machine.contract import Address, Received
from holdall.machine.host import Arrival, Host
from holdall.machine.trace import Step
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, Release, Visit
from holdall.simulator.run import Report, Run
from holdall.simulator.setup import Setup
from holdall.simulator.sides import specs_of
from holdall.simulator.workload import Workload


def alone(
    *, pools: int, nodes: int, protocol: str = "chain", try_from: int = 1000
) -> tuple[Report, list[Step]]:
    """One client that claims one unit of every pool again and again; every message takes exactly one delay."""
    workload = Workload(pools=pools, k=pools, nodes=nodes, clients=1, load="low")
    setup = Setup(
        protocol=protocol, workload=workload, duration=1000, jitter=False, try_from=try_from, strict=True
    )
    steps: list[Step] = []
    report = Run(setup, on_step=steps.append).run()
    assert report.violations == []
    assert report.figures.grants > 10
    return report, steps


def kinds_of_first_claim(steps: list[Step]) -> list[str]:
    """What is sent over the network until the first claim is over."""
    sent: list[str] = []
    for step in steps:
        sent += [type(message).__name__ for _, to, message in step.turn.sends if to.node != step.host]
        if any(isinstance(message, Ended) for _, _, message in step.turn.sends):
            break
    return sent


@pytest.mark.parametrize("pools", [1, 3, 10])
def test_ch1_one_node_is_one_round_trip_whatever_the_number_of_pools(pools: int) -> None:
    report, steps = alone(pools=pools, nodes=1)
    assert kinds_of_first_claim(steps) == ["Request", "Allowed", "Done", "EndAck"]
    assert report.figures.mean == pytest.approx(2)
    assert report.figures.longest == pytest.approx(2)
    assert report.figures.messages_per_claim == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize("nodes", range(1, 9))
def test_ch2_n_nodes_alone_are_2n_plus_1_messages_and_n_plus_1_delays(nodes: int) -> None:
    report, steps = alone(pools=2 * nodes, nodes=nodes)
    assert kinds_of_first_claim(steps) == [
        "Request", *["Promote"] * (nodes - 1), "Allowed", *["Done"] * nodes, *["EndAck"] * nodes,
    ]  # fmt: skip
    assert report.figures.mean == pytest.approx(nodes + 1)
    grants = report.figures.grants
    messages = report.figures.messages
    assert messages["EndAck"] == nodes * grants
    assert sum(messages.values()) == (2 * nodes + 1) * grants + nodes * grants


@pytest.mark.parametrize("nodes", range(1, 9))
def test_ch2_trying_all_nodes_at_once_is_3n_messages_and_2_delays(nodes: int) -> None:
    report, steps = alone(pools=2 * nodes, nodes=nodes, try_from=1)
    assert kinds_of_first_claim(steps) == [
        *["Try"] * nodes, *["Tried"] * nodes, *["Done"] * nodes, *["EndAck"] * nodes,
    ]  # fmt: skip
    assert report.figures.mean == pytest.approx(2)
    grants = report.figures.grants
    assert sum(report.figures.messages.values()) == 3 * nodes * grants + nodes * grants


@pytest.mark.parametrize("k", [1, 2, 5])
def test_ordered_alone_is_3k_messages_and_2k_delays(k: int) -> None:
    report, _ = alone(pools=k, nodes=k, protocol="ordered")
    assert report.figures.mean == pytest.approx(2 * k)
    assert sum(report.figures.messages.values()) == 4 * k * report.figures.grants


@pytest.mark.parametrize("pools", [1, 3, 10])
def test_ch1_a_claim_of_the_nodes_own_clients_sends_nothing_and_saves_twice(pools: int) -> None:
    names = {f"p{number}": 1 for number in range(pools)}
    host = Host(
        "n1",
        {"claimant": Claimant("n1", Address("n1", "agent")), "manager": PoolSide("n1", specs_of(names))},
    )
    host.start()
    agent, claim = Address("n1", "agent"), ClaimId("n1", 1, 1)
    need = (Visit("n1", (tuple((pool, 1) for pool in sorted(names)),), 1),)
    granting = host.turn((Arrival("claimant", Received(agent, Acquire(claim, need))),))
    assert [type(message) for _, _, message in granting.sends] == [Granted]
    assert [to for _, to, _ in granting.sends] == [agent]
    assert granting.saves
    ending = host.turn((Arrival("claimant", Received(agent, Release(claim))),))
    assert [message for _, _, message in ending.sends] == [Ended(claim)]
    assert ending.saves
