"""Every protocol on real nodes: three that are joined over the loopback, under kills and pauses, with `protocol` set to it."""

import os
import tempfile
from pathlib import Path

import pytest
from chaos.judge import judge
from chaos.plan import OFTEN, Floors, Plan, pools_of_hosts
from chaos.storm import Storm

from holdall.protocols.registry import PROTOCOLS

SEED = int(os.environ.get("HOLDALL_CHAOS_SEED", "20261128"))

pytestmark = [pytest.mark.system, pytest.mark.alone]


@pytest.mark.parametrize("protocol", [name for name in PROTOCOLS if name != "chain"])
def test_claims_over_three_nodes_under_kills_and_pauses(
    protocol: str, capsys: pytest.CaptureFixture[str]
) -> None:
    floors = Floors(kills=2, pauses=1, grants=25, contended=4)
    # A ring stands still after each loss of a node until that is known: struck as often as the others, it would hardly turn.
    often, claims = (1.0, 120) if PROTOCOLS[protocol].ring else (0.5, 80)
    plan = Plan(
        seed=SEED,
        protocol=protocol,
        two_pools=PROTOCOLS[protocol].pools_max is not None,
        pools=pools_of_hosts(3),
        claims=claims,
        floors=floors,
        processes=10,
        commands=1,
        claims_of_command=2,
        often={kind: (least * often, most * often) for kind, (least, most) in OFTEN.items()},
        first_after=0.5,
        seconds_most=300,
    )
    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    outcome = Storm(plan, folder, None).run()
    figures = judge(plan, outcome, folder)
    with capsys.disabled():
        print(f"\n{protocol}: {figures}")
