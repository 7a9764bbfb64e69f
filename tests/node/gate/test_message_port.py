"""The gate on real loopback sockets: whole messages in order, leases that admit, drain and are cut."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from node.gate.scene import CAPACITY, Clock, gate_of, run
from node.waiting import until_async

from holdall.leases.buckets import depth_for, quantum_for
from holdall.leases.capacity import CapacityBook, Declined, Leased
from holdall.leases.shares import Shares, Wanted
from holdall.model.frames import LENGTH_BYTES
from holdall.node.gate import messages
from holdall.node.gate.gate import Denied, Gate
from holdall.node.gate.messages import (
    _DECODER,
    ACK,
    MESSAGE_BYTES_MAX,
    Answer,
    Arrived,
    Ask,
    MessagePort,
    Post,
    Posted,
    Refused,
    Release,
    Released,
    packed,
)


class Counterpart:
    """Takes messages, in the order in which they have arrived whole, and says so."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.bytes = 0
        self.broken = 0
        self.quiet = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.read(LENGTH_BYTES):
                head += await reader.readexactly(LENGTH_BYTES - len(head))
                self.messages.append(await reader.readexactly(int.from_bytes(head, "big")))
                if not self.quiet:
                    writer.write(ACK)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.broken += 1
        finally:
            writer.close()


class Sender:
    """One connection to a message port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, posted: Posted) -> Answer:
        self.writer.write(packed(posted))
        size = int.from_bytes(await self.reader.readexactly(LENGTH_BYTES), "big")
        return msgspec.msgpack.decode(await self.reader.readexactly(size), type=Answer)  # type: ignore[no-any-return]


@asynccontextmanager
async def counterparts() -> AsyncGenerator[tuple[Counterpart, tuple[str, int]]]:
    one = Counterpart()
    async with await asyncio.start_server(one.serve, "127.0.0.1") as server:
        yield one, server.sockets[0].getsockname()[:2]


@asynccontextmanager
async def senders(gate: Gate, to: tuple[str, int], *names: str) -> AsyncGenerator[dict[str, Sender]]:
    ports = [MessagePort(gate, holder=name, to=to) for name in names]
    opened = [Sender(*await asyncio.open_connection(*await port.open())) for port in ports]
    try:
        yield dict(zip(names, opened, strict=True))
    finally:
        for sender in opened:
            sender.writer.close()
        for port in ports:
            await port.close()
        gate.close()


def fits(ask: Ask) -> bytes:
    """Its encoding; numbers that no message can carry become 0."""
    numbers = {
        name: value if abs(value) < 1 << 63 else 0 for name, value in msgspec.structs.asdict(ask).items()
    }
    return msgspec.msgpack.encode({"type": "Ask", **numbers})


def test_without_leases_whole_messages_go_in_the_order_in_which_they_came() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        names = ("a", "b", "c")
        async with counterparts() as (there, to), senders(gate, to, *names) as sent:
            posting: list[Awaitable[Answer]] = []
            turn = gate.unleased.turn
            async with turn:
                for name, size in zip(names, (60_000, 10, 30_000), strict=True):
                    posting.append(
                        asyncio.ensure_future(sent[name].says(Post(name.encode() * size, leased=False)))
                    )
                    await until_async(lambda: len(turn._waiters or ()) == len(posting), "it waits in line")
            assert await asyncio.gather(*posting) == [Arrived()] * 3
            assert [(one[:1], len(one)) for one in there.messages] == [
                (b"a", 60_000), (b"b", 10), (b"c", 30_000)
            ]  # fmt: skip
            assert gate.busiest.total == gate.unleased.sent == 90_010 + 3 * LENGTH_BYTES
            assert (gate.figures("").used.total, gate.figures("").waiting) == (gate.unleased.sent, 0)

    run(story)


def test_a_message_needs_a_lease_when_it_says_so_and_an_answer_names_the_next_step() -> None:
    async def story() -> None:
        clock = Clock()
        gate = gate_of(clock)
        async with counterparts() as (there, to), senders(gate, to, "a") as sent:
            denied = await sent["a"].says(Post(b"x" * 100, leased=True))
            assert denied == Refused("a has no lease that is valid now: ask for one, or renew it")
            leased = await sent["a"].says(Ask(400_000, duration_ms=5_000))
            assert isinstance(leased, Leased)
            assert (leased.granted, gate.way("a").rate, gate.unleased.rate) == (400_000, 400_000, 600_000)
            assert await sent["a"].says(Post(b"x" * 100, leased=True)) == Arrived()
            clock.leap(5)
            assert isinstance(await sent["a"].says(Post(b"y", leased=True)), Refused)
            assert await sent["a"].says(Ask(0, duration_ms=5_000)) == Refused(
                "this is no message of a holder: Expected `int` >= 1 - at `$.amount`"
            )
            assert isinstance(await sent["a"].says(Ask(400_000, duration_ms=5_000)), Leased)
            assert await sent["a"].says(Release()) == Released()
            assert isinstance(await sent["a"].says(Post(b"z", leased=True)), Refused)
            figures = gate.figures("a")
            assert (figures.denied, figures.used.total, figures.waiting) == (3, 104, 0)
            assert gate.unleased.rate == CAPACITY
            assert there.messages == [b"x" * 100]
            assert [(change.holder, change.granted) for change in clock.changes] == [
                ("a", 400_000), ("a", 0), ("a", 400_000), ("a", 0)
            ]  # fmt: skip

    run(story)


def test_who_finds_all_taken_is_declined_with_a_time() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        async with counterparts() as (_, to), senders(gate, to, "a", "b") as sent:
            await sent["a"].says(Ask(CAPACITY, duration_ms=5_000))
            declined = await sent["b"].says(Ask(10, duration_ms=5_000))
            assert isinstance(declined, Declined)
            assert 0 < declined.retry_after_ms <= 5_000

    run(story)


def test_e2_a_message_that_is_on_its_way_at_the_end_of_its_lease_is_finished() -> None:
    async def story() -> None:
        clock = Clock()
        gate = gate_of(clock)
        async with counterparts() as (there, to), senders(gate, to, "a") as sent:
            await sent["a"].says(Ask(100_000, duration_ms=5_000))
            posting = asyncio.ensure_future(sent["a"].says(Post(b"m" * 40_000, leased=True)))
            await until_async(lambda: gate.way("a").sent > 6_000, "the first pieces have left")
            clock.leap(5)
            with pytest.raises(Denied):
                gate.admit("a")
            assert gate.book.shares.taken == 100_000, "what was granted counts as used"
            assert gate.unleased.rate == 900_000
            assert await posting == Arrived()
            assert gate.book.shares.taken == 0
            assert there.messages == [b"m" * 40_000]

    run(story)


def test_a_message_that_lingers_too_long_is_cut_and_its_counterpart_learns_it() -> None:
    async def story() -> None:
        clock = Clock()
        gate = gate_of(clock, linger_ms=1_000)
        async with counterparts() as (there, to), senders(gate, to, "a") as sent:
            await sent["a"].says(Ask(5_000, duration_ms=5_000))
            posting = asyncio.ensure_future(sent["a"].says(Post(b"m" * 900_000, leased=True)))
            await until_async(lambda: gate.way("a").sent > 0, "the first piece has left")
            clock.leap(6.001)
            assert not gate.is_open("a")
            gate._settle()
            cut = await posting
            assert cut == Refused(
                "the message was broken off: the lease of a is over, and its time to finish, too", broken=True
            )
            assert gate.book.shares.taken == 0
            await until_async(lambda: there.broken, "the counterpart sees the break")
            assert there.messages == []

    run(story)


def test_a_lease_that_ends_by_itself_wakes_the_gate() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        gate.ask("a", Wanted(CAPACITY), duration_ms=50)
        assert gate.unleased.rate == 0
        await until_async(lambda: gate.unleased.rate == CAPACITY, "the end of the lease")
        assert not gate.is_open("a")
        gate.close()

    run(story)


def test_the_unleased_wait_while_all_is_leased_and_go_on_when_it_is_free() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        async with counterparts() as (_, to), senders(gate, to, "a", "b") as sent:
            await sent["a"].says(Ask(CAPACITY, duration_ms=60_000))
            gate.unleased._bucket.charge(gate.unleased._bucket.depth, gate.clock_ns())
            posting = asyncio.ensure_future(sent["b"].says(Post(b"b" * 9_000, leased=False)))
            await until_async(gate.unleased.turn.locked, "the message has come to the gate")
            assert gate.unleased.sent == 0
            await sent["a"].says(Release())
            assert await posting == Arrived()

    run(story)


def test_senders_that_want_more_than_they_have_are_held_to_it_and_the_link_to_its_own() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        rates = {"a": 500_000, "b": 100_000, "": 400_000}
        async with counterparts() as (there, to), senders(gate, to, "a", "b", "c", "d") as sent:
            for name in "ab":
                await sent[name].says(Ask(rates[name], duration_ms=60_000))

            async def flood(name: str, times: int) -> None:
                for _ in range(times):
                    answer = await sent[name].says(Post(bytes(50_000), leased=name in "ab"))
                    assert answer == Arrived()

            await asyncio.gather(flood("a", 12), flood("b", 3), flood("c", 5), flood("d", 5))
            assert len(there.messages) == 25
            for name, rate in rates.items():
                figures = gate.figures(name)
                depth = depth_for(rate, quantum_for(rate))
                assert figures.used.peak_1s <= rate + depth
            assert gate.busiest.most <= CAPACITY + gate.root.depth
            assert gate.busiest.total == 25 * (50_000 + LENGTH_BYTES)

    run(story)


def test_a_stranger_s_bytes_end_the_connection_and_nothing_else() -> None:
    async def story() -> None:
        gate = gate_of(Clock())
        async with counterparts() as (_, to), senders(gate, to, "a", "b") as sent:
            for rubbish in (
                b"GET / HTTP/1.1\r\n\r\n",
                (MESSAGE_BYTES_MAX + 1).to_bytes(4, "big"),
                b"\0\0\0\1\xc1",
            ):
                port = MessagePort(gate, holder="x", to=to)
                reader, writer = await asyncio.open_connection(*await port.open())
                writer.write(rubbish)
                assert await reader.read() == b""
                writer.close()
                await port.close()
            assert await sent["b"].says(Post(b"b", leased=False)) == Arrived()

    run(story)


@given(
    st.one_of(
        st.binary(max_size=60),
        st.builds(Ask, st.integers(), st.integers(), st.integers(), st.integers()).map(fits),
        st.dictionaries(
            st.sampled_from(["type", "amount", "payload", "leased", "x"]), st.text(max_size=5)
        ).map(msgspec.msgpack.encode),
    )
)
def test_whatever_a_stranger_sends_is_a_message_or_refused(body: bytes) -> None:
    try:
        posted = _DECODER.decode(body)
    except msgspec.DecodeError:
        return
    assert isinstance(posted, Ask | Release | Post)
    if isinstance(posted, Ask):
        assert min(posted.amount, posted.duration_ms, posted.weight, posted.floor) >= 1


def test_a_counterpart_that_closes_before_it_answers_leaves_the_outcome_unknown() -> None:
    async def story() -> None:
        async def takes_and_closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(LENGTH_BYTES + 5)
            writer.close()

        gate = gate_of(Clock())
        async with await asyncio.start_server(takes_and_closes, "127.0.0.1") as server:
            to = server.sockets[0].getsockname()[:2]
            async with senders(gate, to, "a") as sent:
                answer = await sent["a"].says(Post(b"hello", leased=False))
                assert answer == Refused(
                    "the counterpart has closed the connection; the message may have arrived", broken=True
                )

    run(story)


class Deaf:
    """Takes connections and never reads."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        self.writers.append(writer)


@asynccontextmanager
async def deaf() -> AsyncGenerator[tuple[str, int]]:
    one = Deaf()
    async with await asyncio.start_server(one.serve, "127.0.0.1") as server:
        yield server.sockets[0].getsockname()[:2]
        for writer in one.writers:
            writer.transport.abort()


def test_a_counterpart_that_takes_nothing_does_not_hold_up_the_others_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # More than the buffers of both sockets hold.
    monkeypatch.setattr(messages, "MESSAGE_BYTES_MAX", 1 << 26)

    async def story() -> None:
        gate = Gate(CapacityBook(Shares(10**9)), clock_ns=Clock())
        async with counterparts() as (there, to), deaf() as nobody, senders(gate, to, "b") as sent:
            port = MessagePort(gate, holder="a", to=nobody, stall_s=0.05)
            stuck = Sender(*await asyncio.open_connection(*await port.open()))
            posting = asyncio.ensure_future(stuck.says(Post(bytes(1 << 25), leased=False)))
            await until_async(gate.unleased.turn.locked, "it is being sent")
            assert await sent["b"].says(Post(b"b", leased=False)) == Arrived()
            assert await posting == Refused(
                "the message was broken off: its counterpart took nothing for 0.05 s", broken=True
            )
            assert there.messages == [b"b"]
            stuck.writer.close()
            await port.close()

    run(story)


def test_a_cut_reaches_a_message_that_waits_for_its_counterpart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "MESSAGE_BYTES_MAX", 1 << 26)

    async def story() -> None:
        clock = Clock()
        gate = Gate(CapacityBook(Shares(10**9), linger_ms=1_000), clock_ns=clock)
        async with deaf() as nobody, senders(gate, nobody, "a") as sent:
            await sent["a"].says(Ask(10**9, duration_ms=5_000))
            posting = asyncio.ensure_future(sent["a"].says(Post(bytes(1 << 25), leased=True)))
            way = gate.way("a")
            before = -1
            while way.sent != before or not before:
                before = way.sent
                await asyncio.sleep(0.02)
            clock.leap(6.001)
            gate._settle()
            cut = await posting
            assert isinstance(cut, Refused)
            assert (cut.broken, way.turn.locked(), gate.book.shares.taken) == (True, False, 0)
            assert gate.figures("a").waiting == 0

    run(story)
