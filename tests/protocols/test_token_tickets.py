"""The tickets: one of each pool at once, served without gaps; Moves that get lost, come twice or belong to the past."""

from protocols.token_room import Room, claim

from holdall.protocols.token.messages import LIMBO, Move, MoveAck, Ticket
from holdall.protocols.token.tickets import Tickets
from holdall.protocols.vocabulary import Release

A, B, C = claim("c1"), claim("c2"), claim("c3")
TWO = {"n0": {"a": 1, "b": 1}, "n1": {"a": 1, "b": 1}}
THREE = {"n0": {"a": 1}, "n1": {"a": 1}, "n2": {"a": 1}}


def tickets(room: Room, node: str) -> Tickets:
    manager = room.manager(node)
    assert isinstance(manager, Tickets)
    return manager


def test_one_ticket_of_each_pool_at_once() -> None:
    room = Room("token-tickets", TWO)
    room.claims(A, "n0:a1,b1", "n1:a1,b1")
    room.claims(B, "n0:b1", "n1:b1")
    room.deliver("Request")
    room.deliver("Request")
    moves = [message for _, _, message in room.wire if isinstance(message, Move)]
    assert [move.tickets for move in moves] == [(Ticket(2, 1), Ticket(3, 1)), (Ticket(1, 2),)]
    token = room.manager("n0").token
    assert dict(token.counters) == {"n0": (("a", 1), ("b", 2)), "n1": (("a", 1), ("b", 2))}
    room.run()
    room.release_all()
    assert room.granted() == [A, B]


def test_a_ticket_that_comes_early_is_held_back() -> None:
    room = Room("token-tickets", THREE)
    for who in (A, B):
        room.claims(who, "n0", "n1")
        room.deliver("Request")
    first = room.take("Move", "n1")
    room.deliver("Move", "n1")
    manager = tickets(room, "n1")
    assert manager.early == {"a": {2: (B, 1)}}
    assert [entry.held for entry in manager.entries.values()] == [False]
    room.restart("n1")
    assert tickets(room, "n1").early == {"a": {2: (B, 1)}}
    room.hand(first)
    assert [entry.claim for entry in tickets(room, "n1").entries.values() if entry.held] == [A]
    room.release_all()
    assert room.granted() == [A, B]


def test_a_move_is_repeated_over_a_restart_until_it_is_acknowledged() -> None:
    room = Room("token-tickets", TWO)
    room.claims(A, "n0:a1", "n1:a1")
    room.deliver("Request")
    room.take("Move")  # lost
    room.restart("n0")
    room.run()
    assert tickets(room, "n0").owes()
    room.fire("n0")
    assert room.granted() == [A]
    assert not tickets(room, "n0").owes()
    room.release_all()


def test_a_move_that_comes_twice_is_acknowledged_twice() -> None:
    room = Room("token-tickets", TWO)
    room.claims(A, "n0:a1", "n1:a1")
    room.deliver("Request")
    copy = room.take("Move")
    room.hand(copy)
    before = room.manager("n1").key()
    turn = room.hand(copy)
    assert room.manager("n1").key() == before
    assert [message for _, _, message in turn.sends] == [MoveAck((1, "n0", 0), A, 1)]
    room.release_all()


def test_the_ticket_of_a_claim_that_is_over_is_used_up() -> None:
    room = Room("token-tickets", TWO)
    room.claims(A, "n0:a1", "n1:a1")
    room.claims(B, "n0:a1", "n1:a1")
    room.deliver("Request")
    room.deliver("Request")
    first = room.take("Move", "n1")
    room.deliver("Move", "n1")
    room.say(Release(A))
    room.run()  # also at n1, before its Move
    assert room.granted() == []
    room.hand(first)
    room.run()
    assert room.granted() == [B]
    room.release_all()


def test_a_claim_that_ends_while_it_is_held_back_leaves_no_gap() -> None:
    room = Room("token-tickets", TWO)
    for who in (A, B, C):
        room.claims(who, "n0:a1", "n1:a1")
        room.deliver("Request")
    first = room.take("Move", "n1")
    room.deliver("Move", "n1")
    room.deliver("Move", "n1")
    room.say(Release(B))
    room.deliver("End", "n1")
    assert tickets(room, "n1").early == {"a": {2: None, 3: (C, 1)}}
    room.restart("n1")
    assert tickets(room, "n1").early == {"a": {2: None, 3: (C, 1)}}
    room.hand(first)
    room.release_all()
    assert room.granted() == [A, C]


def test_what_was_held_back_gets_another_ticket_in_another_epoch() -> None:
    room = Room("token-tickets", THREE)
    for who in (A, B):
        room.claims(who, "n0", "n2")
        room.deliver("Request")
    late = room.take("Move", "n2")
    room.deliver("Move", "n2")
    room.restart("n1", "lost", epoch=2)
    room.deliver("Recover", "n2")
    assert [entry.ticket for entry in room.manager("n2").entries.values()] == [LIMBO]
    room.hand(late)  # of the past: A gets another one as well
    assert len(room.manager("n2").entries) == 1
    room.run()
    room.fire()
    assert [entry.claim for entry in room.manager("n2").line("a")] == [B]
    assert room.granted() == [A]
    room.release_all()
    assert room.granted() == [A, B]
