"""Real nodes in network namespaces under kills, pauses, cuts and loss: nothing is held twice, nobody starves, nothing leaks."""

import os
import tempfile
from pathlib import Path

import pytest
from chaos.judge import judge
from chaos.network import network
from chaos.plan import OFTEN, Floors, Plan, pools_of_hosts
from chaos.storm import Storm

SEED = int(os.environ.get("HOLDALL_CHAOS_SEED", "20261128"))

pytestmark = [pytest.mark.system, pytest.mark.requires("netns", "nft")]


def stormed(plan: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    """A run in namespaces that held; its figures are printed."""
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    with network(len(plan.pools)) as made:
        outcome = Storm(plan, folder, made).run()
    assert made.left() == []
    figures = judge(plan, outcome, folder)
    with capsys.disabled():
        print(f"\n{figures}")


def test_four_hosts_under_faults(capsys: pytest.CaptureFixture[str]) -> None:
    floors = Floors(kills=8, pauses=3, cuts=3, grants=80, contended=25)
    often = {kind: (least / 2, most / 2) for kind, (least, most) in OFTEN.items()}
    plan = Plan(
        seed=SEED,
        pools=pools_of_hosts(4),
        seconds=30,
        floors=floors,
        processes=12,
        often=often,
        first_after=0.5,
    )
    stormed(plan, capsys)


@pytest.mark.long
def test_five_hosts_under_faults_for_three_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    floors = Floors(kills=40, pauses=20, cuts=15, grants=2_000, contended=700, reclaims=4)
    stormed(Plan(seed=SEED + 1, pools=pools_of_hosts(5), seconds=180, floors=floors, processes=20), capsys)
