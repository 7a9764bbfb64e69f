"""Claims of one node at the pools of others: renewed, lost in time, repaired. Three hosts and a network of a test."""

from parties.renewal_net import CLAIM, EXPIRES_MS, TTL_MS, VALID_MS, Net, cut

from holdall.leases.listing import Alive, AliveOk, Compared, Entry, Standing
from holdall.leases.renewal import COUNTS_MAX, Renewals
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Send
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Gone, Granted, Release, UnitGrant


def test_a_claim_over_two_nodes_is_renewed_for_ever_with_one_pair_of_messages_a_node() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(1_000)
    # both nodes know by now that it is granted: nothing else is said any more, no list and no Promote
    before = net.kinds.copy()
    net.run_until(600_000)
    assert net.kinds - before == {"Alive": 2 * 59, "AliveOk": 2 * 59}
    assert len(net.heard(Granted)) == 1
    assert net.heard(Gone) == []
    assert net.freed == {}
    net.tell(Release(CLAIM))
    net.run_until(601_000)
    assert sorted(net.freed) == ["n0", "n1"]
    assert [key for key in net.timers if "renew" in key[1] or "silent" in key[1]] == []


def test_a_claim_that_waits_at_the_first_of_its_nodes_is_listed_at_the_second_once() -> None:
    """There it has nothing yet, so digests differ; once the lists were compared that is agreed."""
    net = Net()
    net.claim("n0", claim=ClaimId("c", 1, 2))
    net.run_until(1_000)
    net.claim("n0", "n1")
    net.run_until(30_000)
    before = net.kinds.copy()
    net.run_until(90_000)
    assert "Standing" not in net.kinds - before
    net.tell(Release(ClaimId("c", 1, 2)))
    net.run_until(100_000)
    assert [message.claim for _, message in net.told if isinstance(message, Granted)][-1:] == [CLAIM]


def test_the_holder_stops_before_a_silent_node_can_give_the_units_away() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(65_000)
    net.lost = cut("c", "n1")
    net.run_until(65_000 + 2 * EXPIRES_MS)
    (stopped,) = net.heard(Gone)
    # the last renewal that n1 answered was sent at 60.3 s at the latest
    assert stopped <= 60_300 + VALID_MS
    assert stopped + 1_000 < net.freed["n1"]
    # all other nodes are told at once, n1 finds out by itself
    assert net.freed["n0"] == stopped + 10


def test_a_waiting_claim_of_a_node_that_is_gone_leaves_the_line() -> None:
    net = Net()
    net.claim("n0")
    net.claim("n0", claim=ClaimId("c", 1, 2))
    net.run_until(10_000)
    assert len(net.side("n0").manager.rows) == 2
    net.lost = cut("c", "n0")
    net.run_until(10_000 + EXPIRES_MS + 100)
    assert net.side("n0").manager.rows == {}
    assert net.side("n0").peers.nodes() == ()


def test_an_end_that_was_lost_is_repaired_by_the_list() -> None:
    net = Net()
    net.claim("n0")
    net.claim("n1", claim=ClaimId("c", 1, 2))
    net.run_until(5_000)
    assert net.freed == {}
    # n0 has missed an end: the claim is over for its own node, but not there
    claimant = net.claimant()
    del claimant.claimant.claims[CLAIM]
    claimant.renewals.over(CLAIM, [])
    net.claim("n0", claim=ClaimId("c", 1, 3))
    net.run_until(30_000)
    assert CLAIM not in net.side("n0").manager.rows
    assert [message.claim for _, message in net.told if isinstance(message, Granted)] == [
        CLAIM,
        ClaimId("c", 1, 2),
        ClaimId("c", 1, 3),
    ]


def test_a_node_that_lost_its_journal_says_that_it_does_not_know_the_lease() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(5_000)
    net.crash("n1", kind="lost", epoch=2)
    net.run_until(20_000)
    gone = [message for _, message in net.told if isinstance(message, Gone)]
    assert gone == [Gone(CLAIM, "restarted")]
    # the holder may stand still, and has been told that it has so much time
    ((at, _),) = [one for one in net.told if isinstance(one[1], Gone)]
    net.run_until(at + VALID_MS)
    assert sorted(net.freed) == ["n1"]
    net.run_until(at + EXPIRES_MS + 100)
    assert sorted(net.freed) == ["n0", "n1"]
    assert [message for _, message in net.told if isinstance(message, Gone)] == gone


def test_a_holder_does_not_outlive_the_quarantine_of_a_node_that_never_hears_its_list() -> None:
    """The node has lost the lease, and answers renewals; that it knows nothing of it is lost each time."""
    net = Net()
    net.claim("n0", "n1")
    net.run_until(25_000)
    net.crash("n1", kind="lost", epoch=2)
    net.lost = lambda _sender, to, message: to == "n1" and isinstance(message, Standing)
    net.run_until(200_000)
    # the renewal of 20.28 s was the last one that the node answered while it knew the lease
    assert [(at, message) for at, message in net.told if isinstance(message, Gone)] == [
        (20_280 + VALID_MS, Gone(CLAIM, "expired"))
    ]
    assert 20_280 + VALID_MS < 25_000 + EXPIRES_MS


def test_a_list_that_was_compared_counts_as_the_renewal_that_it_follows() -> None:
    renewals = Renewals("c", rho_ppm=20_000, margin_ms=500)
    unit = UnitGrant("n1", "gpu", "0", 7)
    renewals.knows(CLAIM, 1, ttl_ms=TTL_MS, nodes=["n1"], units=[unit], out=[])
    first, second = COUNTS_MAX + 1, COUNTS_MAX + 2
    renewals.fired("renew/n1", [])
    out: Effects = []
    assert renewals.heard("n1", AliveOk(second, 1, same=False), out) == []
    listed = Entry(CLAIM, 1, inside=True, fences=((7, 7),))
    assert out == [Send(Address("n1", "manager"), Standing(second, 0, (listed,), CLAIM, last=True))]
    unheard = renewals.copy()
    assert unheard.fired(f"holder/n1/{TTL_MS}/{first}", []) == [(CLAIM, "n1", "expired")]
    assert renewals.heard("n1", Compared(second, 1), []) == []
    assert renewals.fired(f"holder/n1/{TTL_MS}/{first}", []) == []
    assert renewals.fired(f"holder/n1/{TTL_MS}/{second}", []) == [(CLAIM, "n1", "expired")]


def test_a_node_that_died_and_came_back_with_its_journal_changes_nothing() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(5_000)
    net.crash("n1")
    net.run_until(200_000)
    assert net.heard(Gone) == []
    assert net.freed == {}


def test_after_its_own_restart_a_holder_goes_on_only_when_all_nodes_have_confirmed() -> None:
    net = Net()
    net.claim("n0", "n1")
    net.run_until(5_000)
    net.lost = cut("c", "n1")
    net.crash("c")
    net.run_until(6_000)
    assert not net.claimant().renewals.may_go_on(CLAIM)
    net.lost = lambda _sender, _to, _message: False
    net.run_until(40_000)
    assert net.claimant().renewals.may_go_on(CLAIM)
    assert net.freed == {}
    assert net.heard(Gone) == []


def test_after_a_lost_journal_process_starts_have_huge_numbers_and_renewals_still_travel() -> None:
    lost = (1_795_838_509 << 20) + 3  # what a start takes from the wall clock
    before, after = (Renewals("c", rho_ppm=20_000, margin_ms=500, incarnation=lost + more) for more in (0, 1))
    counts: list[int] = []
    for renewals in (before, after):
        renewals.knows(CLAIM, 1, ttl_ms=TTL_MS, nodes=["n1"], out=[])
        out: Effects = []
        renewals.fired("renew/n1", out)
        (alive,) = [effect.message for effect in out if isinstance(effect, Send)]
        assert CODEC.decode(CODEC.encode(alive)) == alive
        assert isinstance(alive, Alive)
        counts.append(alive.count)
    assert after.heard("n1", AliveOk(counts[0], 1, same=False), []) == []
    listed: Effects = []
    after.heard("n1", AliveOk(counts[1], 1, same=False), listed)
    assert [type(effect.message) for effect in listed if isinstance(effect, Send)] == [Standing]
