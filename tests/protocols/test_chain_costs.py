"""How many messages and delays a claim takes when nobody is in its way."""

import pytest
from protocols.conversation import Net, claim_id, need, vec

from holdall.protocols.vocabulary import Ended, Granted


def test_ch1_a_local_claim_on_three_pools_puts_no_frame_on_the_bus_and_takes_two_commits() -> None:
    net = Net({"n0": {"a": 1, "b": 1, "c": 1}})
    claim = claim_id("n0")
    net.acquire(claim, need(("n0", vec(a=1, b=1, c=1))))
    assert net.is_granted(claim)
    assert net.frames == 0
    assert net.commits["n0"] == 1
    net.release(claim)
    assert net.told("n0", Ended) == [Ended(claim)]
    assert net.frames == 0
    assert net.commits["n0"] == 2
    assert net.disks["n0"] == {}


@pytest.mark.parametrize("count", range(1, 9))
def test_ch2_alone_over_n_nodes_there_are_2n_plus_1_frames_and_the_grant_comes_after_n_plus_1_delays(
    count: int,
) -> None:
    nodes = [f"n{place}" for place in range(count)]
    net = Net({node: {"a": 1} for node in nodes}, "c1")
    net.claimant("c1").try_from = 9
    claim = claim_id("c1")
    net.acquire(claim, need(*((node, vec(a=1)) for node in nodes)))
    assert net.run() == count + 1
    assert [grant.claim for grant in net.told("c1", Granted)] == [claim]
    assert len(net.units(claim)) == count
    net.release(claim)
    net.run()
    # n Done and, apart from these, n acknowledgements
    assert net.frames == 2 * count + 1 + count
    assert net.told("c1", Ended) == [Ended(claim)]


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("wait", [True, False])
def test_a_try_over_n_nodes_takes_3n_frames_and_2_delays(count: int, wait: bool) -> None:
    nodes = [f"n{place}" for place in range(count)]
    net = Net({node: {"a": 1} for node in nodes}, "c1")
    net.claimant("c1").try_from = 1
    claim = claim_id("c1")
    net.acquire(claim, need(*((node, vec(a=1)) for node in nodes)), wait=wait)
    assert net.run() == 2
    assert net.is_granted(claim)
    net.release(claim)
    net.run()
    assert net.frames == 3 * count + count


def test_a_claim_tries_first_from_four_nodes_on() -> None:
    for count, delays in ((3, 4), (4, 2)):
        nodes = [f"n{place}" for place in range(count)]
        net = Net({node: {"a": 1} for node in nodes}, "c1")
        net.acquire(claim_id("c1"), need(*((node, vec(a=1)) for node in nodes)))
        assert net.run() == delays
        assert net.is_granted(claim_id("c1"))
