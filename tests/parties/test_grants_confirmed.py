"""A grant counts only on what each of its nodes is known to keep: late ones, ones after a restart, ones with a hard end."""

import pytest
from parties.party_node import pool
from parties.renewal_net import CLAIM, EXPIRES_MS, TTL_MS, VALID_MS, Net, cut

from holdall.leases.listing import AliveOk
from holdall.machine.contract import Address, CancelTimer, Event, Message, Received, SetTimer, TimerFired
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.messages import Allowed, Kill, Promote
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Exchange,
    Exchanged,
    Extend,
    Extended,
    Gone,
    Granted,
    Release,
    Stamp,
    Terms,
    Visit,
)

OTHER = ClaimId("c", 1, 2)


def beliefs(net: Net, claim: ClaimId = CLAIM) -> list[tuple[int, int | None]]:
    """(granted, told that it is over) of the claim, in order; None: it goes on."""
    found: list[tuple[int, int | None]] = []
    for at, message in net.told:
        if isinstance(message, Granted) and message.claim == claim:
            found.append((at, None))
        elif isinstance(message, Gone) and message.claim == claim:
            found[-1] = (found[-1][0], at)
    return found


def waits_at_n1() -> Net:
    """CLAIM has its unit of n0, and waits at n1 for OTHER."""
    net = Net()
    net.claim("n1", claim=OTHER)
    net.run_until(1_000)
    net.claim("n0", "n1")
    net.run_until(2_000)
    assert net.side("n0").manager.rows[CLAIM].active
    assert not net.side("n1").manager.rows[CLAIM].active
    return net


def test_a_claim_that_waited_over_a_restart_is_granted_when_its_nodes_have_confirmed_its_units() -> None:
    """n0 counts from what it has heard last, before the restart; the holder must not count from its own return."""
    net = waits_at_n1()
    net.lost = cut("c", "n0")
    net.run_until(20_000)
    net.crash("c")
    net.run_until(20_500)
    net.tell(Release(OTHER))
    net.run_until(20_000 + 2 * EXPIRES_MS)
    assert beliefs(net) == []
    assert net.freed["n0"] < 20_000 + EXPIRES_MS
    net.lost = lambda _sender, _to, _message: False
    net.run_until(20_000 + 4 * EXPIRES_MS)
    assert [over for _, over in beliefs(net)] == [None]


def test_a_claim_that_waited_over_a_restart_is_granted_at_once_by_nodes_that_answer() -> None:
    net = waits_at_n1()
    net.crash("c")
    net.run_until(3_000)
    net.tell(Release(OTHER))
    net.run_until(3_100)
    assert [over for _, over in beliefs(net)] == [None]


def test_a_claim_that_comes_again_has_its_time_counted_anew_by_a_node_that_knew_it() -> None:
    """n1 hears of the next attempt by n0 alone: what the one before had waited there in silence does not count."""
    net = Net()
    visit = Visit("n1", ((("gpu", 1),),), epoch=1)
    net.tell(Acquire(OTHER, (visit,), wait=True, terms=Terms(ttl_ms=TTL_MS - 500)))
    net.run_until(1_000)
    net.claim("n0", "n1", "c")
    net.run_until(2_000)
    net.lost = lambda sender, to, _message: (sender, to) == ("c", "n1")
    # the claim's time at n1 runs out for its holder, it comes again, and only then OTHER's unit is free there
    net.run_until(30_500)
    row = net.side("n1").manager.rows[CLAIM]
    assert (row.attempt, row.active) == (2, True)
    came_ms = 1_000 + VALID_MS
    net.run_until(came_ms + VALID_MS - 100)
    assert net.side("n1").manager.rows[CLAIM] == row
    assert beliefs(net) == []


def test_a_grant_waits_for_a_node_that_has_not_answered_of_late() -> None:
    """Else the holder would get a lease that is as good as over."""
    net = waits_at_n1()
    net.run_until(31_000)
    net.lost = cut("c", "n0")
    net.run_until(31_000 + TTL_MS // 2)
    net.tell(Release(OTHER))
    net.run_until(31_000 + TTL_MS // 2 + 5_000)
    assert beliefs(net) == []
    net.lost = lambda _sender, _to, _message: False
    net.run_until(31_000 + TTL_MS // 2 + 15_000)
    assert [over for _, over in beliefs(net)] == [None]
    left_ms = net.claimant().renewals.left_ms(CLAIM)
    assert left_ms is not None
    assert left_ms > VALID_MS - TTL_MS // 3 - 100


def test_a_grant_that_waits_too_long_for_a_node_stands_in_line_again() -> None:
    net = waits_at_n1()
    net.run_until(31_000)
    net.lost = cut("c", "n0")
    net.run_until(31_000 + TTL_MS // 2)
    net.tell(Release(OTHER))
    net.run_until(31_000 + 3 * TTL_MS)
    assert beliefs(net) == []
    assert net.claimant().claimant.claims[CLAIM].attempt > 1
    net.lost = lambda _sender, _to, _message: False
    net.run_until(31_000 + 5 * TTL_MS)
    assert [over for _, over in beliefs(net)] == [None]


def test_a_grant_that_is_told_again_while_it_is_held_back_still_waits_for_its_confirmation() -> None:
    """A renewal of before is answered meanwhile: its node is not late any more, but has said nothing of the units."""
    net = waits_at_n1()
    net.run_until(31_000)
    early: list[tuple[str, str, Message]] = []

    def answers_come_late(sender: str, to: str, message: Message) -> bool:
        if (sender, to) == ("n0", "c") and isinstance(message, AliveOk):
            early.append((sender, to, message))
        return (sender, to) == ("n0", "c")

    net.lost = answers_come_late
    net.run_until(31_000 + TTL_MS // 2)
    net.tell(Release(OTHER))
    net.run_until(31_000 + TTL_MS // 2 + 30)
    net.lost = cut("c", "n0")
    (held,) = net.claimant()._held_back.values()
    assert isinstance(held.message, Allowed)
    # n0's answer to the renewal of before the grant, then the grant once more
    net._deliver(Address("c", "claimant"), Received(Address("n0", "manager"), early[0][2]))
    net._deliver(Address("c", "claimant"), held)
    assert beliefs(net) == []
    net.lost = lambda _sender, _to, _message: False
    net.run_until(31_000 + TTL_MS // 2 + 15_000)
    assert [over for _, over in beliefs(net)] == [None]
    assert net.claimant().renewals.may_go_on(CLAIM)


@pytest.mark.parametrize("need", [("c", "n0", "n1"), ("n0", "n1", "c")])
def test_hard_ends_count_from_when_the_holder_learns_of_its_grant(need: tuple[str, ...]) -> None:
    """What waits for a confirmation is booked, not yet active: its hard end would come before the holder's."""
    net = Net()
    net.claim("n1", claim=OTHER)
    net.run_until(1_000)
    net.claim(*need, for_ms=60_000)
    net.run_until(2_000)
    net.crash("c")
    net.run_until(3_000)

    def only_from_n0(sender: str, to: str, _message: Message) -> bool:
        return (sender, to) == ("n0", "c")

    net.lost = only_from_n0
    net.tell(Release(OTHER))
    net.run_until(20_000)
    assert beliefs(net) == []
    leases = [lease for node in ("c", "n0", "n1") for lease in net.side(node).book.leases.values()]
    assert [lease.active for lease in leases] == [False] * 3
    net.lost = lambda _sender, _to, _message: False
    net.run_until(40_000)
    assert [(20_000 < granted < 30_000, over) for granted, over in beliefs(net)] == [(True, None)]
    leases = [lease for node in ("c", "n0", "n1") for lease in net.side(node).book.leases.values()]
    assert [lease.active for lease in leases] == [True] * 3


def test_what_a_node_says_of_the_claims_of_others_keeps_none_of_its_own_alive() -> None:
    """It may have lost them with its journal, and have nothing there any more that it would renew."""
    net = Net()
    net.claim("n0")
    net.run_until(1_000)
    net.crash("c", kind="lost", epoch=1_000)
    wants = ((("gpu", 1),),)
    for number in range(1, 8):
        theirs = ClaimId("n1", 1, number)
        need = (Visit("c", wants, epoch=1_000), Visit("n0", wants, epoch=1))
        stamp = Stamp(number, "c", theirs, 1)
        message = Promote(theirs, 1, 1, need, Terms(ttl_ms=TTL_MS), 1, 1, stamp, (0,), ())
        net._deliver(Address("n0", "manager"), Received(Address("c", "manager"), message))
        net.run_until(1_000 + number * TTL_MS // 4)
    assert CLAIM not in net.side("n0").manager.rows
    assert net.refused == []


def test_a_later_end_is_that_of_units_that_were_exchanged_for_too() -> None:
    net = Net()
    net.claim("n0", for_ms=60_000)
    net.run_until(1_000)
    visit = Visit("n1", ((("gpu", 1),),), epoch=1)
    net.tell(Exchange(CLAIM, OTHER, (visit,), ()))
    net.run_until(2_000)
    net.tell(Extend(CLAIM, 90_000))
    net.run_until(3_000)
    assert [type(message) for _, message in net.told] == [Granted, Exchanged, Extended]
    listed = net.claimant().renewals._claims
    assert {entry.for_ms for claim in (CLAIM, OTHER) for entry in listed[claim].entries.values()} == {90_000}


def test_a_kill_is_not_remembered_for_ever_of_a_node_that_is_gone() -> None:
    side = PoolSide("n1", [pool("gpu", "0")], ttl_max_ms=10 * TTL_MS)
    wants = ((("gpu", 1),),)
    need = (Visit("n0", wants, epoch=1), Visit("n1", wants, epoch=1))
    before = Address("n0", "manager")
    timers: dict[str, int] = {}

    def turn(event: Event) -> None:
        for effect in side.handle(event):
            if isinstance(effect, SetTimer):
                timers[effect.timer] = effect.after_ms
            elif isinstance(effect, CancelTimer):
                timers.pop(effect.timer, None)

    turn(Received(before, Kill(CLAIM, 1, 1, 1)))
    assert list(side.manager.mem) == [CLAIM]
    ((of_kill, after_ms),) = timers.items()
    assert after_ms == 10 * EXPIRES_MS
    # when it comes, it lives by its own ttl
    stamp = Stamp(1, "n0", CLAIM, 1)
    turn(Received(before, Promote(CLAIM, 1, 1, need, Terms(ttl_ms=TTL_MS), 1, 2, stamp, (0,), ())))
    ((of_row, after_ms),) = timers.items()
    assert (list(side.manager.rows), after_ms) == ([CLAIM], EXPIRES_MS)
    turn(TimerFired(of_row))
    assert (side.manager.rows, side.book.leases) == ({}, {})
    # and one that never comes is forgotten when its node was silent for so long
    turn(Received(before, Kill(OTHER, 1, 1, 1)))
    assert list(side.manager.mem) == [OTHER]
    turn(TimerFired(of_kill))
    assert side.manager.mem == {}
    assert side.peers.nodes() == ()
