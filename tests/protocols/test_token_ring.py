"""The ring token: who is in line where, how the token goes and rests, claims that do not wait (scenarios SW6, SW7, SW9)."""

import pytest
from protocols.token_room import Room, bytes_of, claim

from holdall.machine.codec import BYTES_MAX
from holdall.protocols.by_pool.messages import Held
from holdall.protocols.token.messages import RingState, Stage, Token, TokenAck, TokenEntry
from holdall.protocols.vocabulary import Exchange, Exchanged, NotNow, Release, Retrying, Visit

A, B, C = claim("c1"), claim("c2"), claim("c3")
TWO = {"n0": {"a": 1}, "n1": {"a": 1}}
THREE = {"n0": {"a": 1}, "n1": {"a": 1}, "n2": {"a": 1}}
BOTH = pytest.mark.parametrize("protocol", ["token", "token-tickets"])


@BOTH
def test_sw7_a_claim_on_the_only_node_needs_no_ring(protocol: str) -> None:
    room = Room(protocol, {"n0": {"a": 1, "b": 2}})
    room.claims(A, "n0:a1,b2")
    room.run()
    assert room.granted() == [A]
    room.release_all()
    assert room.sent == ["Request", "Held", "Held", "End", "End", "EndAck", "EndAck"]


def test_sw6_the_list_alone_is_2k_plus_1_messages_and_one_round() -> None:
    room = Room("token", THREE)
    room.claims(A, "n2", "n0", "n1")
    room.run()
    assert room.sent == ["Request", "Held", "Token", "Held", "Token", "Held", "Token"]
    assert room.tokens() == ["n0"]
    room.release_all()
    assert room.sent[7:] == ["End"] * 3 + ["EndAck"] * 3


def test_sw6_tickets_alone_go_straight_to_the_nodes_and_the_token_stays() -> None:
    room = Room("token-tickets", THREE)
    room.claims(A, "n2", "n0", "n1")
    room.run()
    assert room.sent == ["Request", "Held", "Move", "Move", "Held", "MoveAck", "Held", "MoveAck"]
    assert room.tokens() == ["n0"]
    room.release_all()


def test_what_the_token_does_at_a_node() -> None:
    """Listed claims into line, then the weak queue; saved as passed on, then sent."""
    room = Room("token", THREE)
    room.claims(A, "n0", "n1", "n2")
    room.deliver("Request")
    sent = room.take("Token")[2]
    assert isinstance(sent, Token)
    (listed,) = sent.listed
    assert (listed.number, listed.nodes) == (1, ("n1", "n2"))
    token = Token((1, "n0", 0), 1, ("n0", "n1", "n2"), 2, (listed,))
    room.claims(B, "n1")
    room.deliver("Request", "n1")
    assert room.manager("n1").weak == {B: None}
    turn = room.tell("n1", "manager", token, room.hosts["n0"]._addresses["manager"])
    entries = {str(record.claim): record for record in turn.saves.values() if isinstance(record, TokenEntry)}
    assert [(entries[who].number, entries[who].held) for who in ("c1.1.1", "c2.1.1")] == [
        (1, True),
        (2, False),
    ]
    ring = turn.saves["manager!ring"]
    assert isinstance(ring, RingState)
    passed = ring.token
    assert passed is not None
    assert (ring.stage, ring.hop, passed.next) == (Stage.PASSED, 2, 3)
    assert [one.nodes for one in passed.listed] == [("n2",)]
    assert [(to.node, type(message)) for _, to, message in turn.sends] == [("c1", Held), ("n2", Token)]
    assert turn.sends[-1][2] == passed


def test_sw9_three_claims_over_all_nodes_are_in_one_order_everywhere() -> None:
    room = Room("token", THREE)
    for who, texts in ((A, ("n0", "n1", "n2")), (B, ("n2", "n1", "n0")), (C, ("n1", "n2", "n0"))):
        room.claims(who, *texts)
    room.deliver("Request")
    room.deliver("Request")
    room.run()
    order = [
        [entry.number for entry in sorted(room.manager(node).entries.values(), key=lambda one: one.number)]
        for node in THREE
    ]
    assert order == [[1, 2, 3]] * 3
    for node in THREE:
        held = [entry.claim for entry in room.manager(node).entries.values() if entry.held]
        assert held == [A]
    room.release_all()
    assert room.granted() == [A, B, C]


@BOTH
def test_sw9_the_token_passes_nodes_without_requests_and_rests_at_the_first(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.claims(A, "n2")
    room.run()
    assert room.sent == ["Request", "Call", "Token", "Token", "Held", "Token"]
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_sw9_no_token_is_taken_twice(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n1")
    room.deliver("Request")
    room.deliver("Call")
    copy = room.take("Token")
    room.hand(copy)
    before = room.manager("n1").key()
    turn = room.hand(copy)
    assert room.manager("n1").key() == before
    assert [message for _, _, message in turn.sends] == [TokenAck((1, "n0", 0), 1)]
    room.run()
    assert room.tokens() == ["n0"]
    room.hand(copy)
    room.run()
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_a_call_that_meets_no_token_makes_it_go_round_again(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.claims(A, "n2")
    room.deliver("Request")
    room.deliver("Call")
    room.deliver("Token", "n1")
    room.claims(B, "n1")  # the token has just passed
    room.deliver("Request", "n1")
    room.deliver("Call", "n0")
    room.run()
    assert sorted(room.granted()) == [A, B]
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_a_token_that_never_rests(protocol: str) -> None:
    """From the first call on."""
    room = Room(protocol, TWO, parks=False)
    assert room.kinds() == []
    room.claims(A, "n1")
    for _ in range(12):
        room.hand(room.wire.pop(0))
    assert room.granted() == [A]
    room.claims(B, "n0")
    for _ in range(12):
        room.hand(room.wire.pop(0))
    assert room.granted() == [A, B]
    assert room.sent.count("Call") == 1
    assert room.kinds().count("Token") == 1


@BOTH
def test_a_large_request_in_front_is_never_passed(protocol: str) -> None:
    room = Room(protocol, {"n0": {"a": 3}, "n1": {"a": 1}})
    room.claims(A, "n0:a2")
    room.run()
    room.claims(B, "n0:a3")
    room.run()
    room.claims(C, "n0:a1")  # one is free
    room.run()
    assert room.granted() == [A]
    assert [entry.claim for entry in room.manager("n0").line("a")] == [B, C]
    room.release_all()
    assert room.granted() == [A, B, C]


@BOTH
def test_claims_without_waiting_need_no_token(protocol: str) -> None:
    room = Room(protocol, {"n0": {"a": 1}, "n1": {"a": 2}, "n2": {"a": 1}})
    room.claims(A, "n1", "n2", wait=False)
    room.run()
    assert room.granted() == [A]
    assert room.sent == ["Try", "Try", "Held", "Held"]
    room.claims(B, "n1:a2")
    room.run()
    room.claims(C, "n1", wait=False)  # one is free, but somebody waits
    room.run()
    assert NotNow(C) in room.told
    room.release_all()
    assert room.granted() == [A, B]


@BOTH
def test_an_exchange_over_nodes(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0")
    room.run()
    more = (Visit("n1", ((("a", 1),),), 1),)
    room.say(Exchange(A, claim("c1", 2), more, (("n0", (("a", 1),)),)))
    room.run()
    (exchanged,) = [message for message in room.told if isinstance(message, Exchanged)]
    assert [unit.node for unit in exchanged.units] == ["n1"]
    room.claims(B, "n0")
    room.run()
    assert room.granted() == [A, B]
    room.say(Release(A))
    room.run()
    room.say(Release(B))
    room.run()
    assert not any(room.manager(node).entries for node in TWO)


def test_a_weak_queue_longer_than_a_frame_is_admitted_in_parts() -> None:
    names = {f"node-with-a-long-name-{number:02}": {"a": 1} for number in range(3)}
    room = Room("token", names)
    first, *others = names
    for number in range(1, 401):
        room.claims(claim("c1", number), *names)
    longest = 0
    for _ in range(20000):
        if not room.wire:
            break
        sender, to, message = room.wire.pop(0)
        if isinstance(message, Token):
            longest = max(longest, bytes_of(message))
            assert sum(len(one.need) for one in message.listed) <= 250
        room.hand((sender, to, message))
    assert 10_000 < longest < BYTES_MAX
    for node in (first, *others):
        assert len(room.manager(node).entries) == 400
    order = [[entry.claim for entry in room.manager(node).line("a")] for node in names]
    assert order[0] == order[1] == order[2]


@BOTH
def test_a_request_of_another_epoch_of_its_home_comes_again(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0", "n1", epoch=7)
    room.run()
    assert Retrying(A, "n0", 0) in room.told
    assert Retrying(A, "n1", 0) in room.told
    assert room.granted() == [A]
    room.release_all()
