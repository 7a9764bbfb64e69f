"""Strong/weak as conversations: one event and its exact effects, and every row of its scenarios (SW2, SW4 to SW8)."""

from typing import cast

import msgspec
import pytest
from protocols.strong_weak_room import Room, need

from holdall.machine.contract import Address, ProtocolViolation, Received
from holdall.machine.host import SEPARATOR
from holdall.protocols.by_pool.messages import PlaceGone
from holdall.protocols.strong_weak.claimant import TOO_MANY, Claimant
from holdall.protocols.strong_weak.messages import RingCall
from holdall.protocols.vocabulary import (
    Acquire,
    Ended,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Shrink,
    Stamp,
)

WOUND, PROBE, TOKEN = "strong-weak", "strong-weak-probe", "strong-weak-probe-token"
VARIANTS = [WOUND, PROBE, "strong-weak-probe-aged", TOKEN]


@pytest.mark.parametrize("name", VARIANTS)
def test_sw7_one_pool_is_one_round_trip_in_and_one_out(name: str) -> None:
    room = Room(name, "0")
    room.acquire("c1")
    room.run()
    assert room.kinds == ["Request", "Allowed"]
    room.release("c1")
    room.run()
    assert room.kinds[2:] == ["End", "EndAck"]
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
def test_sw6_two_pools_are_four_messages_one_after_the_other(name: str) -> None:
    room = Room(name, "0->1")
    room.acquire("c1")
    for kind in ("Request", "StrongRequest", "Promote", "Allowed"):
        assert len(room.wire) == 1
        room.deliver(kind)
    assert room.inside() == ["c1"]
    room.release("c1")
    room.run()
    assert sorted(room.kinds[4:]) == ["End", "End", "EndAck", "EndAck"]
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
def test_sw2_l6_two_claims_that_are_ready_at_once_for_one_pool(name: str) -> None:
    room = Room(name, "0->2", "1->2")
    room.acquire()
    for kind in ("Request", "StrongRequest"):
        room.deliver(kind, "c1")
        room.deliver(kind, "c2")
    room.deliver("Promote", "c1")
    room.deliver("Promote", "c2")
    assert room.serve_all() == ["c1", "c2"]
    assert room.empty()


def both_hold(name: str) -> Room:
    """Two claims of two pools in opposite order, each active at its strong pool."""
    room = Room(name, "0->1", "1->0")
    room.acquire()
    for kind in ("Request", "StrongRequest"):
        room.deliver(kind, "c1")
        room.deliver(kind, "c2")
    return room


@pytest.mark.parametrize("name", VARIANTS)
def test_sw2_l7_after_a_kill_everybody_is_served(name: str) -> None:
    room = both_hold(name)
    room.run()
    assert room.kinds.count("Killed") == 1
    assert sorted(room.serve_all()) == ["c1", "c2"]
    assert room.empty()


def test_sw2_the_older_has_the_younger_killed() -> None:
    room = both_hold(WOUND)  # stamps of the same clock: that of n0, which is c2's, is the older
    room.deliver("Promote", "c1")
    assert "Kill" not in room.kinds, "the younger waits for the older"
    room.deliver("Promote", "c2")
    room.deliver("Kill", "c1")
    room.deliver("Killed", "c1")
    room.deliver("Allowed", "c2")
    assert room.inside() == ["c2"]


def test_sw2_l8_a_kill_that_overtakes_its_promotion_voids_it() -> None:
    room = both_hold(WOUND)
    room.deliver("Promote", "c2")
    room.deliver("Kill", "c1")
    room.deliver("Promote", "c1")
    assert room.kinds.count("Killed") == 2, "a promotion that is void is answered so"
    room.run()
    assert room.inside() == ["c2"]
    assert room.serve_all() == ["c2", "c1"]


@pytest.mark.parametrize("name", [PROBE, TOKEN])
def test_sw2_l10_one_cycle_found_twice_rotates_one_claim_once(name: str) -> None:
    room = both_hold(name)
    room.deliver("Promote", "c1")
    room.deliver("Promote", "c2")
    assert room.kinds.count("Seek") == 2
    room.deliver("Seek")
    assert room.kinds.count("Kill") == 1
    room.deliver("Seek")
    assert room.kinds.count("Killed") == 1, "the second one has it killed within its turn, on its own node"
    room.run()
    assert room.kinds.count("Killed") == 1
    assert sorted(room.serve_all()) == ["c1", "c2"]


def test_sw2_l11_the_end_of_one_claim_takes_no_other_along() -> None:
    room = Room(PROBE, "0->1", "1->2", "2->0", "1", "2")
    room.acquire()
    assert sorted(room.serve_all()) == ["c1", "c2", "c3", "c4", "c5"]
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
def test_a_kill_of_a_granted_claim_is_refused(name: str) -> None:
    room = both_hold(name)
    room.deliver("Promote", "c1")
    room.deliver("Promote", "c2")
    while "Kill" not in [type(message).__name__ for _, _, message in room.wire]:
        room.step()
    sender, to, kill = room.find("Kill")
    room.run()
    granted = next(host for host in room.needs if host in room.inside())
    weak = room.needs[granted][1].node
    entry = room.manager(weak).entries[room.claim(granted), 1 if granted == "c1" else 0]
    aimed = msgspec.structs.replace(kill, claim=entry.claim, n=entry.n, place=entry.place)
    before = list(room.kinds)
    room.wire.append((sender, msgspec.structs.replace(to, node=weak), aimed))
    room.run()
    assert room.kinds == before
    assert room.manager(weak).entries[room.claim(granted), entry.place] == entry


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("at", range(14))
def test_sw4_any_message_twice(name: str, at: int) -> None:
    room = Room(name, "0->1", "1->0", "1")
    room.acquire()
    for number in range(at + 1):
        room.step(twice=number == at)
    assert sorted(room.serve_all()) == ["c1", "c2", "c3"]
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("at", range(14))
def test_sw4_any_message_lost(name: str, at: int) -> None:
    room = Room(name, "0->1", "1->0", "1")
    room.acquire()
    for _ in range(at):
        room.step()
    if room.wire:
        room.wire.pop(0)
    assert sorted(room.serve_all()) == ["c1", "c2", "c3"]
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("at", range(14))
def test_sw5_given_up_at_any_step(name: str, at: int) -> None:
    room = Room(name, "0->1", "1->0", "1")
    room.acquire()
    for _ in range(at):
        room.step()
    room.release("c1")
    assert set(room.serve_all()) >= {"c2", "c3"}
    assert room.empty()


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("node", ["n0", "n1"])
@pytest.mark.parametrize("at", range(14))
def test_sw8_a_pool_restarts_between_any_two_messages(name: str, node: str, at: int) -> None:
    room = Room(name, "0->1", "1->0", "1")
    room.acquire()
    for _ in range(at):
        room.step()
    room.restart(node)
    assert sorted(room.serve_all()) == ["c1", "c2", "c3"]
    assert room.empty()


@pytest.mark.parametrize("node", ["n0", "n1"])
@pytest.mark.parametrize("at", range(10))
def test_sw8_a_pool_comes_up_without_its_queues(node: str, at: int) -> None:
    room = Room(WOUND, "0->1", "1->0", "1")
    room.acquire()
    for _ in range(at):
        room.step()
    room.restart(node, "reboot")
    assert sorted(room.serve_all()) == ["c1", "c2", "c3"]
    assert room.empty()


def test_age_is_kept_over_attempts() -> None:
    room = Room(WOUND, "0", "0->1", "1->0")
    room.acquire("c1")
    room.run()
    room.acquire("c2")
    room.run()
    first = room.manager("n1").entries[room.claim("c2"), 1].stamp
    room.again()
    room.run()
    assert room.kinds.count("Aged") == 1
    room.acquire("c3")
    room.run()
    room.say(LeaseLost(room.claim("c2"), "expired"))
    room.run()
    entry = room.manager("n1").entries[room.claim("c2"), 1]
    assert (entry.attempt, entry.stamp) == (2, first)


def test_a_stamp_that_is_brought_counts_and_the_clock_follows() -> None:
    room = Room(WOUND, "0", "0")
    brought = Stamp(50, "n9", room.claim("c1"), 1)
    room.say(Acquire(room.claim("c1"), need("0"), stamp=brought))
    room.run()
    room.acquire("c2")
    room.run()
    assert room.manager("n0").entries[room.claim("c2"), 0].stamp == Stamp(51, "n0", room.claim("c2"), 1)


def test_units_of_both_pools_come_with_one_message_and_nobody_passes_a_large_request() -> None:
    room = Room(WOUND, "0:2->1:1", "0:2->1:2", "0:1", units=2)
    room.acquire("c1")
    room.run()
    assert [len(told.units) for told in room.told if isinstance(told, Granted)] == [3]
    for host in ("c2", "c3"):
        room.acquire(host)
        room.run()
    assert room.inside() == ["c1"]
    assert room.serve_all() == ["c1", "c2", "c3"]


def test_a_claim_of_three_pools_is_refused_before_anything_is_sent() -> None:
    room = Room(WOUND, "0->1->2", "0")
    room.acquire("c1")
    assert room.told == [Gone(room.claim("c1"), TOO_MANY), Ended(room.claim("c1"))]
    room.say(Acquire(room.claim("c2"), need("0->1->2"), wait=False))
    assert room.told[2:] == [NotNow(room.claim("c2")), Ended(room.claim("c2"))]
    assert room.kinds == []
    assert room.empty()


def test_without_waiting_now_or_not_at_all() -> None:
    room = Room(WOUND, "0->1", "1->0", "1")
    room.acquire("c1", wait=False)
    room.run()
    assert room.inside() == ["c1"]
    room.acquire("c2", wait=False)
    room.run()
    assert NotNow(room.claim("c2")) in room.told
    assert room.manager("n1").waiting.get("a", 0) == 0
    assert room.serve_all() == ["c1"]


def test_without_waiting_nobody_who_waits_is_passed_not_even_in_a_weak_queue() -> None:
    room = Room(WOUND, "0", "0->1", "1")
    room.acquire("c1")
    room.run()
    room.acquire("c2")
    room.run()
    assert room.manager("n1").free("a") == 1
    room.acquire("c3", wait=False)
    room.run()
    assert NotNow(room.claim("c3")) in room.told


def test_one_of_two_pools_is_given_back_and_goes_to_the_next() -> None:
    room = Room(WOUND, "0->1", "1")
    room.acquire("c1")
    room.run()
    room.acquire("c2")
    room.say(Shrink(room.claim("c1"), (("n0", (("a", 1),)), ("n1", ()))))
    room.run()
    assert room.inside() == ["c1", "c2"]
    assert room.serve_all() == ["c1", "c2"]
    assert room.empty()


def test_an_exchange_adds_now_or_changes_nothing() -> None:
    room = Room(WOUND, "0", "1")
    room.acquire("c1")
    room.run()
    one = room.claim("c1")
    companion = msgspec.structs.replace(one, counter=2)
    room.say(Exchange(one, companion, need("1"), (("n0", (("a", 1),)),)))
    room.run()
    assert any(isinstance(told, Exchanged) for told in room.told)
    room.acquire("c2")
    room.run()
    room.say(Exchange(one, msgspec.structs.replace(one, counter=3), need("1:1"), ()))
    room.run()
    assert ExchangeRefused(one) in room.told
    room.say(Exchange(one, msgspec.structs.replace(one, counter=4), need("0->1->2"), ()))
    assert room.told[-1] == ExchangeRefused(one)
    assert room.serve_all() == ["c1", "c2"]
    assert room.empty()


def test_an_exchange_whose_new_place_is_gone_changes_nothing_however_late_that_is_told() -> None:
    room = Room(WOUND, "0", "1->2")
    room.acquire("c1")
    room.run()
    one = room.claim("c1")
    companion = msgspec.structs.replace(one, counter=2)
    room.say(Exchange(one, companion, need("1->2"), ()))
    asking = cast("Claimant", room.hosts["c1"].parts["claimant"]).claims[companion]
    gone = PlaceGone(companion, asking.attempt, "expired")
    for _ in range(2):  # while it tries, and when it is given up already
        room.wire.insert(0, (Address("n1", "manager"), Address("c1", "claimant"), gone))
        room.deliver("PlaceGone")
    assert room.told.count(ExchangeRefused(one)) == 1
    room.run()
    assert not any(isinstance(told, Gone) for told in room.told)
    assert room.serve_all() == ["c1"]
    assert room.empty()


def test_token_is_called_by_who_was_killed_and_rests_when_that_is_served() -> None:
    room = both_hold(TOKEN)
    room.run()
    root, other = room.manager("n0"), room.manager("n1")
    assert root.here
    assert not other.here
    assert sorted(room.serve_all()) == ["c1", "c2"]
    assert root.here
    assert not root.first
    assert not other.first


def test_token_that_is_lost_is_made_again_and_one_of_two_is_dropped() -> None:
    room = Room(TOKEN, "1->0", "2->1", "0->2")
    root, middle = room.manager("n0"), room.manager("n1")
    room.acquire("c1")
    room.run()
    assert room.inside() == ["c1"]
    room.wire.append((Address("n2", "manager"), Address("n0", "manager"), RingCall()))
    room.run_until("RingToken")
    room.lose("RingToken")
    assert not root.here
    room.fire("n0", f"manager{SEPARATOR}ring")
    room.fire("n0", f"manager{SEPARATOR}ring")
    assert room.kinds.count("RingToken") == 3
    room.deliver("RingToken")
    assert middle.here
    assert list(middle.first) == [(room.claim("c1"), 1)]
    room.deliver("RingToken")
    assert middle.here
    room.release("c1")
    room.run()
    assert root.here
    assert room.kinds.count("RingToken") == 5


def test_what_no_claimant_sends_is_refused() -> None:
    room = Room(WOUND, "0->1", "1")
    room.acquire("c1")
    sender, to, request = room.find("Request")
    for odd in (
        msgspec.structs.replace(request, places=()),
        msgspec.structs.replace(request, strong=2),
        msgspec.structs.replace(request, strong=1),
    ):
        with pytest.raises(ProtocolViolation):
            room.hosts[to.node].parts[to.part].handle(Received(sender, odd))
    room.deliver("Request")
    sender, to, strong = room.find("StrongRequest")
    with pytest.raises(ProtocolViolation):
        room.hosts["n0"].parts["manager"].handle(Received(msgspec.structs.replace(sender, node="n7"), strong))
    room.say(Release(room.claim("c1")))
