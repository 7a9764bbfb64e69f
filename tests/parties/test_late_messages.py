"""Messages that are under way for longer than what they speak of: at a slow node, behind a cut, after a pause."""

from parties.party_node import pool
from parties.renewal_net import CLAIM, Net

from holdall.machine.contract import Address, Received
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.messages import Allowed, Kill, Promote
from holdall.protocols.vocabulary import ClaimId, Granted, Stamp, Terms, UnitGrant, Visit


def test_a_hard_end_counts_from_the_holders_grant_also_at_the_last_node() -> None:
    """The node gave its unit long before the holder heard of it, and keeps it until the holder has stopped."""
    net = Net()
    net.lost = lambda _sender, to, message: to == "c" and isinstance(message, Allowed) and net.now_ms < 1_500
    net.claim("n0", "n1", for_ms=5_000)
    net.run_until(60_000)
    (granted,) = net.heard(Granted)
    assert granted > 1_500, "asked again until the answer came"
    assert sorted(net.freed) == ["n0", "n1"]
    assert min(net.freed.values()) >= granted + 5_000


def own_claim(attempt: int = 1) -> Promote:
    """The claim of node `b`, as node `a` sends it on."""
    claim = ClaimId("b", 1, 1)
    need = (Visit("a", ((("gpu", 1),),), 1), Visit("b", ((("gpu", 1),),), 1))
    units = (UnitGrant("a", "gpu", "0", 1),)
    return Promote(claim, attempt, 1, need, Terms(), 1, 1, Stamp(1, "a", claim, attempt), (0,), units)


def test_a_claim_that_is_over_for_its_own_node_gets_no_row_there_however_late_it_is_sent_on() -> None:
    side = PoolSide("b", [pool("gpu", "0")])
    peer = Address("a", "manager")
    side.stands = lambda _, attempt: attempt == 2
    assert side.handle(Received(peer, own_claim())) == []
    assert side.handle(Received(peer, Kill(own_claim().claim, 1, 1, 1))) == []
    assert side.manager.rows == {}
    assert side.manager.mem == {}
    side.handle(Received(peer, own_claim(2)))
    assert list(side.manager.rows) == [own_claim().claim]


def test_a_kill_that_is_remembered_for_a_claim_that_is_over_goes_with_the_list_of_its_node() -> None:
    net = Net()
    net.claim("n0")
    net.run_until(1_000)
    side = net.side("n0")
    gone = ClaimId("c", 1, 0)
    side.handle(Received(Address("n1", "manager"), Kill(gone, 1, 1, 1)))
    assert list(side.manager.mem) == [gone]
    net.run_until(30_000)
    assert side.manager.mem == {}
    assert list(side.manager.rows) == [CLAIM]
