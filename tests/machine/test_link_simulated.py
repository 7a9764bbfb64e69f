"""Long seeded conversations over a bad bus: lost, doubled, overtaking frames, cuts both or one way, restarts.

When the faults have ended, everything that is said arrives, once and in order, and the links come to rest.
"""

import pytest
from machine.link_simulation import Faults, Simulation

from holdall.explorer.mutants.link import (
    AckUnheard,
    AnyOrder,
    Doubles,
    KeepsFrames,
    NoResend,
    NumbersGoOn,
    OldPeer,
)
from holdall.machine.contract import ProtocolViolation
from holdall.machine.link_peer import Peer

SEEDS = range(1, 31)
WORSE = Faults(loss=0.4, double=0.3, delay_ms=300, restart_every_ms=5000)
CUT_OFF = Faults(loss=0, double=0, cut_every_ms=10_000, cut_ms=60_000, restart_every_ms=1e9)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_heard_is_in_order_and_all_of_it_when_the_faults_are_over(seed: int) -> None:
    done = Simulation(seed, Faults()).run()
    assert done.counts.refused == 0
    assert done.counts.resent > 0


def test_the_runs_meet_every_fault() -> None:
    runs = [Simulation(seed, Faults()).run() for seed in SEEDS[:8]]
    assert sum(run.restarts for run in runs) > 10
    assert sum(run.cuts for run in runs) > 20
    assert sum(run.counts.doubles for run in runs) > 100
    assert sum(run.counts.dropped for run in runs) > 100


@pytest.mark.parametrize("seed", SEEDS[:5])
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    once, again = Simulation(seed, Faults()).run(), Simulation(seed, Faults()).run()
    assert once.counts == again.counts
    assert once.now == again.now


@pytest.mark.parametrize("seed", SEEDS[:10])
def test_on_a_good_bus_nothing_is_sent_twice_or_dropped(seed: int) -> None:
    good = Faults(loss=0, double=0, delay_ms=5, cut_every_ms=1e9, restart_every_ms=1e9)
    done = Simulation(seed, good).run()
    assert done.counts.dropped == 0
    assert done.counts.delivered == done.counts.parcels


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 2000, 100))
def test_many_seeds(start: int) -> None:
    for seed in range(start, start + 100):
        Simulation(seed, Faults()).run()
        Simulation(seed, WORSE).run()


class SameSession(Peer):
    """After giving up, numbers go on in the same pair."""

    def give_up(self) -> None:
        self.waiting.clear()
        self.sent.clear()
        self.pending_bytes = 0
        self._progress()


@pytest.mark.parametrize(
    ("broken", "faults"),
    [
        *(
            (broken, WORSE)
            for broken in (AckUnheard, AnyOrder, Doubles, KeepsFrames, NoResend, NumbersGoOn, OldPeer)
        ),
        (SameSession, CUT_OFF),
    ],
)
def test_a_rule_taken_away_is_found(broken: type[Peer], faults: Faults) -> None:
    # By the judge, or by a link that refuses what the other one sends.
    with pytest.raises((AssertionError, ProtocolViolation)):
        run_all(faults, broken)


def run_all(faults: Faults, peer: type[Peer]) -> None:
    for seed in SEEDS:
        Simulation(seed, faults, peer).run()


@pytest.mark.parametrize("faults", [WORSE, CUT_OFF])
@pytest.mark.parametrize("seed", SEEDS[:5])
def test_the_shipped_link_stands_where_the_broken_ones_fall(seed: int, faults: Faults) -> None:
    Simulation(seed, faults).run()
