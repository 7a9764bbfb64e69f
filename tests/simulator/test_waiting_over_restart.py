"""A claim that waits while its client's host comes up again, and whose node has heard nothing of that yet."""

from holdall.simulator.faults import Faults
from holdall.simulator.judged import judged
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

DEAF = Setup(
    protocol="lanes",
    workload=Workload(
        shape="star", pools=1, nodes=1, k=1, units=2, need_most=2, hold=0.5, think=0.0, clients=3
    ),
    faults=Faults(crash=4, restart=5, pause=6, oneway=2, duplicate=0.05, departure=0.01, reorder=0.02),
    seed=36,
    duration=1800.0,
    patience=2.0,
    try_from=1000,
    leases=True,
    ttl=120.0,
)
"""A wall lets the node be heard and not hear; clients' hosts restart behind it. The node grants to a claim in the moment
before that one's silence is over; its client, whose time counts from the restart, once believed that grant."""


def test_a_grant_to_a_claim_of_before_a_restart_counts_when_its_node_has_heard_of_the_restart() -> None:
    report = judged(DEAF)
    assert report.violations == []
    assert report.figures.grants > 0
