"""The blocking gate: threads are let through in turn, at the rate that all under the lease have together."""

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from client.gate_scene import DEPTH, PIECE, Town, until

from holdall.client.gate_sync import Gate, Turns
from holdall.model.errors import BadSpec, LeaseLost, NotGranted, NotHolder


def test_threads_have_their_turn_in_the_order_in_which_they_came() -> None:
    turns, order = Turns(), list[int]()

    def wait(number: int) -> None:
        with turns.held() as is_mine:
            assert is_mine
            order.append(number)

    with ThreadPoolExecutor(20) as pool, turns.held():
        for number in range(20):
            pool.submit(wait, number)
            while len(turns) < number + 2:
                time.sleep(0.001)
        with turns.held(time.monotonic() + 0.01) as is_mine:
            assert not is_mine
        assert order == []
    assert order == list(range(20))
    assert not turns


async def test_two_threads_send_whole_messages_at_the_rate_of_the_lease() -> None:
    town = Town()
    near, far = socket.socketpair()
    messages = [b"a" * 4_000, b"b" * 4_000]
    with near, far, town.gate(Gate) as gate:
        sending = [asyncio.create_task(asyncio.to_thread(gate.send, near, message)) for message in messages]
        await town.quiet(1)
        assert town.sent() == DEPTH
        town.passes(15)
        await until(lambda: town.sent() == 4_000)
        while not all(task.done() for task in sending):
            town.passes(1)
            await asyncio.sleep(0)
        await asyncio.gather(*sending)
        assert town.sent() == 8_000
        came = far.recv(10_000)
    assert sorted((came[:4_000], came[4_000:])) == messages
    town.node.close()


async def test_after_the_end_nothing_is_let_through_and_the_reason_is_said() -> None:
    town = Town()
    tenure = town.tenure()
    with town.gate(Gate, tenure) as gate:
        await asyncio.to_thread(gate.take, PIECE)
        await asyncio.to_thread(gate.take, PIECE)
        waiting = asyncio.create_task(asyncio.to_thread(gate.take, PIECE))
        await town.quiet(1)
        tenure.lose("revoked: maintenance")
        town.rate = None
        town.node.look()
        with pytest.raises(LeaseLost, match="revoked: maintenance"):
            await waiting
        with pytest.raises(LeaseLost, match="revoked: maintenance"):
            gate.take()
        await asyncio.to_thread(gate.close)
    assert (town.sent(), town.denied()) == (DEPTH, 1)
    town.node.close()


async def test_a_wait_is_bounded_and_a_closed_gate_lets_nobody_through() -> None:
    town = Town()
    gate = town.gate(Gate)
    with pytest.raises(BadSpec, match="take 1 to 1,500"):
        gate.take(PIECE + 1)
    for _ in range(2):
        await asyncio.to_thread(gate.take, PIECE)
    with pytest.raises(NotGranted, match="within 10 ms"):
        await asyncio.to_thread(lambda: gate.take(PIECE, wait=0.01))
    waiting = asyncio.create_task(asyncio.to_thread(gate.take, PIECE))
    await town.quiet(1)
    await asyncio.to_thread(gate.close)
    with pytest.raises(NotHolder, match="closed"):
        await waiting
    await until(lambda: not town.node._taking)
    assert town.sent() == DEPTH
    town.node.close()


async def test_what_comes_too_late_is_put_back() -> None:
    town = Town()

    def late() -> None:
        town.after_answer = lambda: None
        town.now_ns += 20_000_000

    town.after_answer = late
    with town.gate(Gate) as gate:
        await asyncio.to_thread(gate.take, 100)
        assert [(question.size, question.unused) for question in town.asked] == [(100, 0), (100, 100)]
        assert town.sent() == 100
    town.node.close()
