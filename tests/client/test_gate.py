"""Sending through the gate of the node from Python: what leaves is what all under the lease may send, and nothing after its end."""

import asyncio

import pytest
from client.gate_scene import DEPTH, PIECE, Talk, Town, Writer, until

from holdall.client.gate import Gate
from holdall.guardian.clock import boottime_ms
from holdall.model.errors import BadSpec, LeaseLost, NotGranted, NotHolder, Unreachable


async def test_two_tasks_are_let_through_in_turn_a_piece_each_at_the_rate() -> None:
    town = Town()
    log: list[tuple[str, int]] = []
    one, two = Writer(log, "one"), Writer(log, "two")
    async with town.gate(Gate) as gate:
        assert (gate.rate, gate.piece) == (100_000, PIECE)
        sending = [asyncio.create_task(gate.send(writer.as_stream(), bytes(4_000))) for writer in (one, two)]
        await town.quiet(1)
        assert log == [("one", 1_500), ("two", 1_500)], "the depth leaves at once"
        town.passes(14)
        await town.quiet(1)
        assert len(log) == 2, "1,400 bytes of credit are no piece"
        for ms, who, size in ((1, "one", 1_500), (15, "two", 1_500), (10, "one", 1_000), (10, "two", 1_000)):
            town.passes(ms)
            await until(lambda: log[-1] == (who, size))  # noqa: B023
        await asyncio.gather(*sending)
    assert town.sent() == 8_000
    town.node.close()


async def test_messages_to_one_writer_are_whole_and_in_order() -> None:
    town = Town()
    writer = Writer([], "w")
    async with town.gate(Gate) as gate:
        messages = [bytes([number]) * 2_000 for number in range(4)]
        sending = [asyncio.create_task(gate.send(writer.as_stream(), message)) for message in messages]
        while not all(task.done() for task in sending):
            town.passes(1)
            await asyncio.sleep(0)
    assert writer.data == b"".join(messages)
    town.node.close()


async def test_all_gates_of_a_lease_have_one_bucket() -> None:
    town = Town()
    log: list[tuple[str, int]] = []
    async with town.gate(Gate) as here, town.gate(Gate) as elsewhere:
        sending = [
            asyncio.create_task(gate.send(Writer(log, name).as_stream(), bytes(9_000)))
            for name, gate in (("here", here), ("elsewhere", elsewhere))
        ]
        await town.quiet(2)
        for pieces in (2, 4, 6):
            town.passes(30)
            await until(lambda: sum(size for _, size in log) == DEPTH + pieces * PIECE)  # noqa: B023
            await town.quiet(2)
        assert sum(size for _, size in log) == DEPTH + 9_000
        assert {name for name, _ in log} == {"here", "elsewhere"}
        for task in sending:
            task.cancel()
        await asyncio.gather(*sending, return_exceptions=True)
    town.node.close()


async def test_who_is_cancelled_has_taken_nothing_and_the_next_one_has_it() -> None:
    town = Town()
    async with town.gate(Gate) as gate:
        await gate.take(PIECE)
        await gate.take(PIECE)
        given_up = asyncio.create_task(gate.take(PIECE))
        await town.quiet(1)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        next_one = asyncio.create_task(gate.take(500))
        await asyncio.sleep(0)
        town.passes(15)
        await next_one
        # The question of the first is answered with a piece; the second takes 500 of it, and the rest is put back.
        assert [question.size for question in town.asked] == [PIECE, PIECE, PIECE]
        await gate.take(1_000)
        assert (town.asked[-1].size, town.asked[-1].unused) == (1_000, 1_000)
        assert town.sent() == DEPTH + 1_500
    town.node.close()


async def test_what_nobody_wants_any_more_is_put_back_at_the_end() -> None:
    town = Town()
    async with town.gate(Gate) as gate:
        await gate.take(PIECE)
        await gate.take(PIECE)
        given_up = asyncio.create_task(gate.take(1_000))
        await town.quiet(1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
    await until(lambda: not town.node._taking)
    assert town.sent() == DEPTH
    town.node.close()


async def test_what_comes_too_late_is_put_back_and_asked_for_again() -> None:
    town = Town()
    writer = Writer([], "w")

    def late() -> None:
        town.after_answer = lambda: None
        town.now_ns += 20_000_000

    town.after_answer = late
    async with town.gate(Gate) as gate:
        await gate.send(writer.as_stream(), bytes(100))
        assert [(question.size, question.unused) for question in town.asked] == [(100, 0), (100, 100)]
        assert town.sent() == 100
    town.node.close()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [("revoked: maintenance", LeaseLost), ("not renewed in time", LeaseLost), ("", NotHolder)],
)
async def test_after_the_end_nothing_is_let_through_and_the_reason_is_said(
    reason: str, kind: type[Exception]
) -> None:
    town = Town()
    tenure = town.tenure()
    writer = Writer([], "w")
    async with town.gate(Gate, tenure) as gate:
        waiting = asyncio.create_task(gate.send(writer.as_stream(), bytes(DEPTH + 1)))
        await town.quiet(1)
        if reason == "not renewed in time":
            # Nobody says a word, and the node knows of no end: the holder's own clock decides.
            tenure.until_ms = boottime_ms() + 1
            gate._way.until_ms = 0
            gate._way.grant(gate.rate, tenure.until_ms)
            await asyncio.sleep(0.01)
        elif reason:
            tenure.lose(reason)
        else:
            tenure.released = True
        town.rate = None if kind is NotHolder or "revoked" in reason else town.rate
        town.node.look()
        for sending in (waiting, gate.take()):
            with pytest.raises(kind, match=reason or "given back"):
                await sending
        assert len(writer.data) == DEPTH
    assert (town.denied(), town.sent()) == (1, DEPTH), (
        "one new use was denied, and its lease's host learns it"
    )
    town.node.close()


async def test_a_node_that_does_not_answer_holds_nobody_longer_than_the_lease() -> None:
    town = Town()
    tenure = town.tenure()
    gate = town.gate(Gate, tenure)
    stopped = asyncio.Event()
    real = town.node.take

    async def stands_still(*asked: object) -> object:
        await stopped.wait()
        return await real(*asked)  # type: ignore[arg-type]

    town.node.take = stands_still  # type: ignore[method-assign,assignment]
    tenure.until_ms = boottime_ms() + 50
    with pytest.raises(LeaseLost, match="not renewed in time"):
        await gate.take()
    stopped.set()
    await gate.close()
    town.node.close()


async def test_a_wait_is_bounded_and_so_is_what_may_be_asked() -> None:
    town = Town()
    gate = town.gate(Gate)
    await gate.take(PIECE)
    await gate.take(PIECE)
    with pytest.raises(NotGranted, match="within 10 ms"):
        await gate.take(PIECE, wait=0.01)
    for size in (0, -1, PIECE + 1):
        with pytest.raises(BadSpec, match="take 1 to 1,500"):
            await gate.take(size)
    waiting = asyncio.create_task(gate.take(PIECE))
    await town.quiet(1)
    await gate.close()
    for taking in (waiting, gate.take()):
        with pytest.raises(NotHolder, match="closed"):
            await taking
    town.node.close()


async def test_a_writer_that_is_closed_is_told_and_its_piece_is_put_back() -> None:
    town = Town()
    writer = Writer([], "w")
    async with town.gate(Gate) as gate:
        writer.closing = True
        with pytest.raises(ConnectionResetError):
            await gate.send(writer.as_stream(), bytes(100))
    assert (town.sent(), writer.data) == (0, b"")
    town.node.close()


async def test_a_connection_that_breaks_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town()
    ask, failures = Talk.ask, [1, 1]

    def fails_twice(self: Talk, question: object) -> object:
        if failures:
            failures.pop()
            raise Unreachable("the node has ended")
        return ask(self, question)  # type: ignore[arg-type]

    monkeypatch.setattr(Talk, "ask", fails_twice)
    async with town.gate(Gate) as gate:
        await gate.take(100)
    assert town.sent() == 100
    town.node.close()
