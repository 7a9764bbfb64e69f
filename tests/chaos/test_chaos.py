"""Real nodes in network namespaces under kills, pauses, cuts and loss: nothing is held twice, nobody starves, nothing leaks.

Each protocol goes through the same faults. Those that differ most from the chain on the wire run in short each time, all
of them in the night's run.
"""

import os
import tempfile
from pathlib import Path

import pytest
from chaos.judge import judge
from chaos.network import network
from chaos.plan import OFTEN, Floors, Plan, pools_of_hosts
from chaos.storm import Storm

from holdall.protocols.registry import PROTOCOLS

SEED = int(os.environ.get("HOLDALL_CHAOS_SEED", "20261128"))
EACH_TIME = ("game", "lanes")
OTHERS = tuple(name for name in PROTOCOLS if name != "chain")

pytestmark = [pytest.mark.system, pytest.mark.alone, pytest.mark.requires("netns", "nft")]


def stormed(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """A run in namespaces that held; its figures are printed."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    with network(len(plan.pools)) as made:
        outcome = Storm(plan, folder, made).run()
    assert made.left() == []
    figures = judge(plan, outcome, folder)
    with capsys.disabled():
        print(f"\n{plan.protocol}, {figures}")


def on_four_hosts(protocol: str, *, seconds: float, floors: Floors) -> Plan:
    """Faults come twice as often as in a long run."""
    return Plan(
        seed=SEED,
        protocol=protocol,
        two_pools=PROTOCOLS[protocol].pools_max is not None,
        pools=pools_of_hosts(4),
        seconds=seconds,
        floors=floors,
        processes=12,
        often={kind: (least / 2, most / 2) for kind, (least, most) in OFTEN.items()},
        first_after=0.5,
    )


def test_four_hosts_under_faults(capsys: pytest.CaptureFixture[str]) -> None:
    floors = Floors(kills=8, pauses=3, cuts=3, grants=80, contended=25)
    stormed(on_four_hosts("chain", seconds=30, floors=floors), capsys)


@pytest.mark.parametrize("protocol", EACH_TIME)
def test_each_time_a_protocol_by_pool_on_four_hosts_under_faults(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    floors = Floors(kills=4, pauses=2, cuts=2, grants=25, contended=5)
    stormed(on_four_hosts(protocol, seconds=10, floors=floors), capsys)


@pytest.mark.long
@pytest.mark.parametrize("protocol", OTHERS)
def test_every_protocol_on_four_hosts_under_faults(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    floors = Floors(kills=8, pauses=3, cuts=3, grants=60, contended=6)
    stormed(on_four_hosts(protocol, seconds=30, floors=floors), capsys)


@pytest.mark.long
def test_five_hosts_under_faults_for_three_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    floors = Floors(kills=40, pauses=20, cuts=15, grants=2_000, contended=700, reclaims=4)
    stormed(Plan(seed=SEED + 1, pools=pools_of_hosts(5), seconds=180, floors=floors, processes=20), capsys)
