"""The gate on real loopback sockets: streams that keep their rates and stop with their leases."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from node.gate.scene import Clock, gate_of, run
from node.waiting import until_async

from holdall.leases.capacity import CapacityBook
from holdall.leases.shares import Shares, Wanted
from holdall.node.gate.gate import Gate
from holdall.node.gate.stream import StreamPort


class Sink:
    """Takes bytes of one connection and answers each with another."""

    def __init__(self) -> None:
        self.taken = 0
        self.ended: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(65_536):
                self.taken += len(piece)
            writer.write(str(self.taken).encode())
            self.ended.append("end")
        except ConnectionError:
            self.ended.append("reset")
        finally:
            writer.close()


@asynccontextmanager
async def streams(
    gate: Gate, *, linger_s: float = 30.0
) -> AsyncGenerator[tuple[Sink, StreamPort, tuple[str, int]]]:
    sink = Sink()
    async with await asyncio.start_server(sink.serve, "127.0.0.1") as server:
        port = StreamPort(gate, holder="a", to=server.sockets[0].getsockname()[:2], linger_s=linger_s)
        try:
            yield sink, port, await port.open()
        finally:
            await port.close()
            gate.close()


def test_a_stream_is_forwarded_whole_at_its_rate_and_its_end_too() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        async with streams(gate) as (sink, _, at):
            gate.ask("a", Wanted(400_000), duration_ms=60_000)
            began = time.monotonic()
            reader, writer = await asyncio.open_connection(*at)
            writer.write(b"s" * 200_000)
            writer.write_eof()
            assert await reader.read() == b"200000"
            # A lower bound, which no load of the machine can break: the depth leaves at once, the rest at the rate.
            assert time.monotonic() - began > (200_000 - 20_000) / 400_000 - 0.01
            assert (sink.ended, gate.way("a").sent) == (["end"], 200_000)
            figures = gate.figures("a")
            assert (figures.used.total, figures.waiting) == (200_000, 0)
            assert figures.used.peak_1s <= 400_000 + 20_000
            writer.close()

    run(story)


def test_a_connection_without_a_lease_is_refused() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        async with streams(gate) as (sink, port, at):
            reader, writer = await asyncio.open_connection(*at)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            assert (port.refused, sink.taken, gate.book.denied) == (1, 0, {"a": 1})

    run(story)


def test_after_its_lease_not_one_byte_more_goes_out_and_a_new_lease_lets_it_go_on() -> None:
    async def story() -> None:
        clock = Clock()
        gate = gate_of(clock)
        async with streams(gate) as (sink, port, at):
            gate.ask("a", Wanted(200_000), duration_ms=5_000)
            reader, writer = await asyncio.open_connection(*at)
            writer.write(b"s" * 100_000)
            writer.write_eof()
            await until_async(lambda: sink.taken > 10_000, "some has arrived")
            clock.leap(5)
            gate._settle()
            sent = gate.way("a").sent
            assert sent < 100_000
            # The leap has filled the bucket; were it open, all would leave now.
            await until_async(lambda: sink.taken == sent, "what had left has arrived")
            await asyncio.sleep(0)
            assert gate.way("a").sent == sent
            assert gate.book.shares.taken == 0, "a stream is no work that must be finished"
            gate.ask("a", Wanted(900_000), duration_ms=5_000)
            assert await reader.read() == b"100000"
            assert port.reset == 0
            writer.close()

    run(story)


def test_a_stream_whose_lease_is_over_for_too_long_is_reset_also_when_it_is_idle() -> None:
    async def story() -> None:
        clock = Clock()
        gate = gate_of(clock)
        async with streams(gate, linger_s=0.05) as (sink, port, at):
            gate.ask("a", Wanted(200_000), duration_ms=5_000)
            reader, writer = await asyncio.open_connection(*at)
            writer.write(b"s" * 100)
            await until_async(lambda: sink.taken == 100, "it has arrived")
            clock.leap(5)
            gate._settle()
            with pytest.raises(ConnectionResetError):
                await reader.read()
            await until_async(lambda: sink.ended, "the other side knows it, too")
            assert (sink.ended, port.reset) == (["reset"], 1)
            assert gate.figures("a").state == "completed"
            writer.close()

    run(story)


def test_a_rate_that_falls_in_the_middle_of_a_large_piece_is_obeyed() -> None:
    async def story() -> None:
        gate = Gate(CapacityBook(Shares(10_000_000)), clock_ns=Clock())
        async with streams(gate) as (sink, _, at):
            gate.ask("a", Wanted(10_000_000), duration_ms=60_000)
            reader, writer = await asyncio.open_connection(*at)
            writer.write(b"s" * 2_000_000)
            writer.write_eof()
            await until_async(lambda: sink.taken > 100_000, "some has arrived")
            gate.ask("a", Wanted(50_000), duration_ms=60_000)
            before = gate.way("a").sent
            await until_async(lambda: gate.way("a").sent > before + 4_000, "smaller pieces leave")
            assert gate.way("a").quantum == 1_500
            gate.ask("a", Wanted(10_000_000), duration_ms=60_000)
            assert await reader.read() == b"2000000"
            writer.close()

    run(story)
