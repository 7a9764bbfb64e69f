"""A node whose journal lacks its last turns keeps what was so before: a claim never counts on what the node has not.

Chain specification, section 7: renewals carry the units that a claim holds, by their fences, and its end.
"""

import pytest
from parties.renewal_net import CLAIM, EXPIRES_MS, TTL_MS, Net

from holdall.leases.listing import Standing
from holdall.machine.contract import Record
from holdall.protocols.chain.messages import Allowed, ShrinkRow, Tried
from holdall.protocols.vocabulary import (
    ClaimId,
    Extend,
    Extended,
    Gone,
    Granted,
    Release,
    Retrying,
    Shrink,
    Stamp,
    UnitGrant,
)

OTHER, OLDER = ClaimId("c", 1, 2), ClaimId("c", 1, 3)
QUARANTINE_MS = EXPIRES_MS


def grants(net: Net, claim: ClaimId = CLAIM) -> list[Granted]:
    return [message for _, message in net.told if isinstance(message, Granted) and message.claim == claim]


def set_aside(net: Net, node: str) -> list[UnitGrant]:
    return [unit for lease in net.side(node).book.leases.values() for unit in lease.units]


def activated_again(first: str = "n0") -> tuple[Net, dict[str, Record]]:
    """CLAIM waits at n1 for OTHER; an older one calls it back from its first node, and it becomes active there once more.

    Returns what the first node's journal had at its first activation.
    """
    net = Net()
    net.claim("n1", claim=OTHER)
    net.run_until(1_000)
    net.claim(first, "n1")
    net.run_until(2_000)
    early = dict(net.records[first])
    net.claim(first, claim=OLDER, stamp=Stamp(0, first, OLDER, 1))
    net.run_until(3_000)
    assert [message.claim for message in grants(net, OLDER)] == [OLDER]
    net.tell(Release(OLDER))
    net.run_until(4_000)
    (before,) = [row for row in net.side(first).manager.rows.values() if row.claim == CLAIM]
    assert (before.active, before.n) == (True, 2)
    return net, early


def test_a_granted_claim_ends_when_the_node_kept_units_of_an_earlier_activation() -> None:
    net, early = activated_again()
    net.tell(Release(OTHER))
    net.run_until(5_000)
    (granted,) = grants(net)
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    assert not set(granted.units) & set(set_aside(net, "n0"))
    net.run_until(5_000 + QUARANTINE_MS)
    (gone,) = [(at, message) for at, message in net.told if isinstance(message, Gone)]
    assert gone[1] == Gone(CLAIM, "restarted")
    assert gone[0] < 5_000 + TTL_MS // 3 + 100
    net.run_until(200_000)
    assert sorted(net.freed) == ["n0", "n1"]


@pytest.mark.parametrize("lost", [False, True])
def test_a_grant_by_units_of_an_earlier_activation_is_no_grant_however_late_it_comes(lost: bool) -> None:
    """n0's quarantine is long over, and its unit may be anybody's, when n1 grants what n0 had set aside before."""
    net, early = activated_again()
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    if lost:
        # the list is lost each time while the quarantine lasts, so the claim's time at n0 runs out
        net.lost = lambda _sender, to, message: to == "n0" and isinstance(message, Standing)
    net.run_until(5_000 + QUARANTINE_MS)
    net.lost = lambda _sender, _to, _message: False
    assert grants(net) == []
    net.tell(Release(OTHER))
    net.run_until(60_000)
    (granted,) = grants(net)
    assert granted.attempt >= 2
    assert set(granted.units) == {*set_aside(net, "n0"), *set_aside(net, "n1")}
    if not lost:
        assert granted.stamp is not None
        assert granted.stamp.attempt == 1  # it has kept its age


def test_a_row_kept_over_a_reboot_goes_on_when_its_node_has_confirmed_it() -> None:
    net, _ = activated_again()
    net.crash("n0", kind="reboot", epoch=2)
    net.tell(Release(OTHER))
    net.run_until(6_000)
    (granted,) = grants(net)
    assert granted.attempt == 1
    assert set(granted.units) == {*set_aside(net, "n0"), *set_aside(net, "n1")}
    assert not [message for _, message in net.told if isinstance(message, Retrying)]


def test_a_grant_in_doubt_counts_only_when_the_node_in_doubt_has_spoken() -> None:
    net, _ = activated_again()
    net.crash("n0", kind="reboot", epoch=2)
    net.run_until(15_000)  # a renewal has told the new epoch
    net.lost = lambda sender, _to, _message: sender == "n0"
    net.tell(Release(OTHER))
    net.run_until(20_000)
    assert any(isinstance(event.message, Allowed) for event in net.claimant()._held_back.values())
    assert grants(net) == []
    net.lost = lambda _sender, _to, _message: False
    net.run_until(40_000)
    assert len(grants(net)) == 1


def test_a_try_by_units_that_may_be_gone_has_come_to_nothing() -> None:
    net = Net()
    net.lost = lambda sender, _to, message: sender == "n1" and isinstance(message, Tried)
    net.claim("n0", "n1", wait=False)
    net.run_until(1_000)
    net.crash("n0", kind="reboot", epoch=2, records={}, quarantine_ms=QUARANTINE_MS)
    net.run_until(12_000)
    net.lost = lambda _sender, _to, _message: False
    net.run_until(100_000)
    assert grants(net) == []
    assert sorted(net.freed) == ["n0", "n1"]


def test_a_later_end_that_a_journal_lacks_is_asked_for_again() -> None:
    net = Net()
    net.claim("n0", "n1", for_ms=60_000)
    net.run_until(1_000)
    early = dict(net.records["n0"])
    net.tell(Extend(CLAIM, 300_000))
    net.run_until(2_000)
    assert [message for _, message in net.told if isinstance(message, Extended)]
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    net.run_until(280_000)
    assert net.heard(Gone) == []
    net.run_until(400_000)
    assert len(net.heard(Gone)) == 1
    assert 300_000 <= net.heard(Gone)[0] <= 307_000


def test_units_given_back_are_free_though_the_message_of_that_is_lost() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(1_000)
    net.lost = lambda _sender, _to, message: isinstance(message, ShrinkRow)
    net.tell(Shrink(CLAIM, (("n1", (("gpu", 1),)),)))
    net.run_until(11_000)
    assert net.freed.keys() == {"n0"}
    # what becomes of n0 is no matter of this claim any more
    net.lost = lambda sender, to, _message: "n0" in {sender, to}
    net.run_until(200_000)
    assert net.heard(Gone) == []
    assert net.freed.keys() == {"n0"}


def test_units_given_back_come_back_and_go_by_themselves_where_a_journal_lacks_that() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(1_000)
    early = dict(net.records["n0"])
    net.tell(Shrink(CLAIM, (("n1", (("gpu", 1),)),)))
    net.run_until(2_000)
    assert net.freed.keys() == {"n0"}
    net.lost = lambda _sender, _to, message: isinstance(message, ShrinkRow)
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    assert net.freed.keys() == set()
    net.run_until(60_000)
    assert net.freed.keys() == {"n0"}
    assert net.heard(Gone) == []


def test_a_holder_that_lost_its_grant_is_told_it_again() -> None:
    """The claimant's node lacks its last turns, too: the claim waits again, and the way to its grant is repeated."""
    net = Net()
    net.claim("n0", "n1")
    early = dict(net.records["c"])
    net.run_until(5_000)
    (granted,) = grants(net)
    net.records["c"] = early
    net.crash("c")
    net.run_until(20_000)
    assert grants(net) == [granted, granted]


def test_nothing_of_this_is_refused() -> None:
    net, early = activated_again()
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    net.run_until(100_000)
    assert net.refused == []


def test_a_claim_sent_on_by_an_activation_that_is_forgotten_comes_again_with_its_age() -> None:
    """n1 holds it by a Promote that n0 has lost: neither a kill nor the grant, repeated, would belong to n0's row."""
    net, early = activated_again()
    net.lost = lambda _sender, _to, message: isinstance(message, Allowed)
    net.tell(Release(OTHER))
    net.run_until(5_000)
    net.lost = lambda _sender, _to, _message: False
    net.crash("n0", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    net.run_until(60_000)
    (granted,) = grants(net)
    assert granted.attempt >= 2
    assert granted.stamp is not None
    assert granted.stamp.attempt == 1
    assert set(granted.units) == {*set_aside(net, "n0"), *set_aside(net, "n1")}


def test_a_row_that_no_activation_made_any_more_blocks_no_later_promote() -> None:
    """The middle node has forgotten that the claim was killed there, so its row stands for a Promote of then."""
    net = Net()
    net.claim("n1", claim=OTHER)
    net.run_until(1_000)
    net.tell(Release(OTHER))
    net.run_until(2_000)
    net.claim("n0", "n1")
    net.run_until(3_000)
    early = dict(net.records["n1"])
    net.tell(Release(CLAIM))
    net.run_until(4_000)
    net.crash("n1", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    again = ClaimId("c", 1, 5)
    net.claim("n0", "n1", claim=again, epoch=1)
    net.run_until(60_000)
    assert [message.claim for message in grants(net, again)] == [again]
    assert CLAIM not in net.side("n1").manager.rows


@pytest.mark.parametrize("granted_before", [False, True])
def test_claimant_and_first_node_go_back_together_and_the_last_node_does_not(granted_before: bool) -> None:
    net, early = activated_again("c")
    if granted_before:
        net.lost = lambda _sender, _to, message: isinstance(message, Allowed)
        net.tell(Release(OTHER))
        net.run_until(5_000)
        net.lost = lambda _sender, _to, _message: False
    net.crash("c", kind="reboot", epoch=2, records=early, quarantine_ms=QUARANTINE_MS)
    if not granted_before:
        net.run_until(10_000)
        net.tell(Release(OTHER))
    net.run_until(100_000)
    (granted,) = grants(net)
    assert set(granted.units) == {*set_aside(net, "c"), *set_aside(net, "n1")}
    net.tell(Release(CLAIM))
    net.run_until(200_000)
    assert set_aside(net, "c") == set_aside(net, "n1") == []
