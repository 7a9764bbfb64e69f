"""One message to a request pool or an agent of the printed lanes, and its exact effects."""

import pytest

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.lanes import LaneAgent, LanePool, LaneRules
from holdall.protocols.literal.lanes_messages import (
    Accept,
    Locked,
    Reject,
    Reply,
    Request,
    Reserve,
    ToPool,
    Unlock,
    Withdraw,
    Write,
)
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, Release, UnitGrant, Visit

A, B = ClaimId("a", 1, 1), ClaimId("b", 1, 2)
AGENT = Address("a", "agent")


def tell(pool: LanePool, *messages: ToPool) -> list[object]:
    """What the pool answers to the last one, the messages alone."""
    answers: list[object] = []
    for message in messages:
        sender = Address(message.claim.node, "claimant")
        answers = [
            effect.message for effect in pool.handle(Received(sender, message)) if isinstance(effect, Send)
        ]
    return answers


def test_a_reply_is_the_raised_promise_pointer() -> None:
    pool = LanePool(LaneRules(), 4)
    assert tell(pool, Request(A)) == [Reply(A, 5)]
    assert tell(pool, Request(B)) == [Reply(B, 6)]


def test_an_index_below_the_pointer_is_rejected_with_the_pointer() -> None:
    pool = LanePool(LaneRules(), 0)
    assert tell(pool, Request(A), Request(B), Reserve(A, 1)) == [Reject(A, 2)]
    assert tell(pool, Reserve(B, 2)) == [Accept(B, 2)]


def test_as_printed_an_index_is_accepted_twice_and_a_repair_for_each_reason() -> None:
    printed, raises, takes = (
        LanePool(LaneRules(accept_raises=raises, take=take), 0)
        for raises, take in ((False, False), (True, False), (True, True))
    )
    for pool in (printed, raises, takes):
        assert tell(pool, Request(A), Reserve(A, 3)) == [Accept(A, 3)]
    assert tell(printed, Request(B)) == [Reply(B, 2)]
    assert tell(raises, Request(B)) == [Reply(B, 4)]
    assert tell(raises, Reserve(B, 4)) == [Accept(B, 4)]
    assert tell(printed, Reserve(B, 3)) == [Accept(B, 3)]
    assert tell(takes, Reserve(B, 3)) == [Reject(B, 3)]


def test_a_second_write_at_an_index_is_a_collision() -> None:
    pool = LanePool(LaneRules(), 0)
    assert tell(pool, Write(A, 2)) == [Locked(A)]
    assert tell(pool, Write(B, 2)) == []
    assert pool.state.wrong == "collision: two agents have written index 2"


def test_the_smallest_written_index_locks_a_free_pool() -> None:
    pool = LanePool(LaneRules(), 0)
    assert tell(pool, Write(A, 3)) == [Locked(A)]  # the late write of 2 is what deadlocks
    assert tell(pool, Write(B, 2)) == []
    assert tell(pool, Unlock(A)) == [Locked(B)]


def test_in_order_of_acceptance_the_first_is_waited_for_until_it_is_withdrawn() -> None:
    pool = LanePool(LaneRules(accept_raises=True, take=True, consumption="accepted"), 0)
    assert tell(pool, Request(A), Reserve(A, 1), Request(B), Reserve(B, 2), Write(B, 2)) == []
    assert tell(pool, Withdraw(A, (1,))) == [Locked(B)]


def said(agent: LaneAgent, message: object, sender: str = "") -> list[Effect]:
    return list(agent.handle(Received(Address(sender or "a", "manager"), message)))  # type: ignore[arg-type]


def sends(message: ToPool, *nodes: str) -> list[Effect]:
    return [Send(Address(node, "manager"), message) for node in nodes]


def agent_of(rules: LaneRules) -> LaneAgent:
    agent = LaneAgent("a", AGENT, rules)
    need = tuple(Visit(node, ((("x", 1),),)) for node in ("n0", "n1"))
    assert said(agent, Acquire(A, need)) == sends(Request(A), "n0", "n1")
    return agent


def test_alexei_reserves_the_greatest_writes_when_all_accept_and_is_inside_when_all_lock() -> None:
    agent = agent_of(LaneRules())
    assert said(agent, Reply(A, 1), "n0") == []
    assert said(agent, Reply(A, 3), "n1") == sends(Reserve(A, 3), "n0", "n1")
    assert said(agent, Accept(A, 3)) == []
    assert said(agent, Accept(A, 3)) == sends(Write(A, 3), "n0", "n1")
    assert said(agent, Locked(A), "n1") == []
    units = (UnitGrant("n0", "x", "", 0), UnitGrant("n1", "x", "", 0))
    assert said(agent, Locked(A), "n0") == [Send(AGENT, Granted(A, 1, units))]
    assert said(agent, Release(A)) == [*sends(Unlock(A), "n0", "n1"), Send(AGENT, Ended(A))]


def test_alexei_awaits_all_answers_before_a_restart() -> None:
    agent = agent_of(LaneRules(withdraw=True))
    said(agent, Reply(A, 1))
    said(agent, Reply(A, 3))
    assert said(agent, Reject(A, 4)) == []
    again = [*sends(Withdraw(A, (3,)), "n0", "n1"), *sends(Request(A), "n0", "n1")]
    assert said(agent, Accept(A, 3)) == again


def test_a_hasty_agent_restarts_at_the_first_reject_and_counts_a_stale_accept() -> None:
    agent = agent_of(LaneRules(hasty=True, rounds=None))
    said(agent, Reply(A, 1))
    said(agent, Reply(A, 3))
    assert said(agent, Reject(A, 4)) == sends(Request(A), "n0", "n1")
    said(agent, Reply(A, 5))
    assert said(agent, Reply(A, 5)) == sends(Reserve(A, 5), "n0", "n1")
    assert said(agent, Accept(A, 3)) == []  # of the first round
    assert said(agent, Accept(A, 5)) == sends(Write(A, 5), "n0", "n1")


def test_paulius_writes_at_once_when_all_replies_are_equal_and_restarts_when_not() -> None:
    agent = agent_of(LaneRules(combined=True))
    said(agent, Reply(A, 2))
    assert said(agent, Reply(A, 3)) == sends(Request(A), "n0", "n1")
    said(agent, Reply(A, 4))
    assert said(agent, Reply(A, 4)) == sends(Write(A, 4), "n0", "n1")


def test_a_pool_refuses_what_only_agents_take() -> None:
    with pytest.raises(ProtocolViolation):
        LanePool(LaneRules(), 0).handle(Received(AGENT, Locked(A)))
