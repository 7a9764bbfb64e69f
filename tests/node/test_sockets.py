"""The clients' socket: who a peer is, and that noise makes no state."""

import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node.waiting import until_async

from holdall.model import frames
from holdall.model.errors import BadConfig
from holdall.node import sockets, unread
from holdall.node.processes import Processes
from holdall.node.sockets import Connections, bind, user_name
from holdall.parties.messages import Asked, SessionClosed, SessionOpened

HELLO = frames.Hello(v=frames.VERSION, agent="ci")
ENDED_UNREAD = "a client does not read its answers; its connection is ended"
Told = list[tuple[str, SessionOpened | Asked | SessionClosed]]


class Door:
    """A socket with nobody behind it, and what was delivered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.told: Told = []
        self.said: list[tuple[str, dict[str, object]]] = []
        self.processes = Processes()
        self.connections = Connections(
            lambda name, message: self.told.append((name, message)),
            self.processes,
            self.say,
        )

    def say(self, event: str, **values: object) -> None:
        self.said.append((event, values))

    def asked(self) -> list[frames.ToNode]:
        return [message.frame for _, message in self.told if isinstance(message, Asked)]

    async def call(self, data: bytes) -> bytes:
        """Send bytes, read until the node closes."""
        reader, writer = await asyncio.open_unix_connection(str(self.path))
        writer.write(data)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        answer = b""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                answer = await reader.read()
        writer.close()
        return answer


@contextlib.asynccontextmanager
async def door() -> AsyncGenerator[Door]:
    folder = tempfile.TemporaryDirectory(dir="/tmp", prefix="hd")
    opened = Door(Path(folder.name) / "s.sock")
    await opened.connections.listen(bind(opened.path, mode=0o600))
    try:
        yield opened
    finally:
        await opened.connections.close()
        opened.processes.close()
        folder.cleanup()


def denied(answer: bytes) -> frames.Denied:
    frame = frames.read_answer(answer[frames.LENGTH_BYTES :])
    assert isinstance(frame, frames.Denied)
    return frame


def test_a_peer_is_who_the_kernel_says_whatever_it_says_itself() -> None:
    async def talk() -> Told:
        async with door() as node:
            _, writer = await asyncio.open_unix_connection(str(node.path))
            lie = frames.Hello(v=frames.VERSION, agent="root", pid=1)
            data = frames.pack(lie) + frames.pack(frames.Beat(n=1))
            for index in range(len(data)):
                writer.write(data[index : index + 1])
            await until_async(lambda: len(node.told) == 3, "two frames are told")
            writer.close()
            await until_async(lambda: len(node.told) == 4, "the end is told")
            return node.told

    told = asyncio.run(talk())
    opened = told[0][1]
    assert isinstance(opened, SessionOpened)
    assert (opened.uid, opened.user, opened.pid) == (os.getuid(), user_name(os.getuid()), os.getpid())
    assert opened.started > 0
    first, second = told[1][1], told[2][1]
    assert isinstance(first, Asked)
    assert isinstance(second, Asked)
    assert second.frame == frames.Beat(n=1)
    assert len(first.lot) >= 26
    assert first.lot != second.lot
    assert told[3][1] == SessionClosed(process_gone=False)
    assert len({name for name, _ in told}) == 1


def test_answers_of_one_turn_leave_in_order_and_those_for_nobody_are_dropped() -> None:
    async def talk() -> list[frames.FromNode]:
        async with door() as node:
            reader, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(frames.pack(HELLO))
            await until_async(lambda: node.told, "the hello is told")
            name = node.told[0][0]
            assert not node.connections.send("nobody", frames.Drained(n=0, text="x"))
            for number in range(5):
                assert node.connections.send(name, frames.Drained(n=number, text="x"))
            node.connections.turn_done()
            got: list[frames.FromNode] = []
            for _ in range(5):
                size = int.from_bytes(await reader.readexactly(4), "big")
                got.append(frames.read_answer(await reader.readexactly(size)))
            writer.close()
            return got

    assert asyncio.run(asyncio.wait_for(talk(), 20)) == [
        frames.Drained(n=number, text="x") for number in range(5)
    ]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff\xff\xff\xff", "at most 65536"),
        (b"GET / HTTP/1.1\r\n\r\n", "at most 65536"),
        (b"\0\0\0\3abc", "not a frame"),
        (b"\0\0\0\0", "not a frame"),
        (b"\0\0\xff\xff" + b"\x91" * 65535, "not a frame"),
        (frames.pack(frames.Beat(n=1)), "first frame must be a Hello"),
        (frames.pack(frames.Hello(v=99)), "speaks frame version 1, the client 99"),
        (
            frames.pack(frames.Claim(n=1, needs=(frames.Need((frames.Selector(pools=()),)),))),
            "not a frame",
        ),
        (frames.pack(HELLO)[:4] + frames.pack(HELLO)[4:].replace(b"hello", b"helmo"), "not a frame"),
    ],
)
def test_nonsense_is_refused_counted_and_makes_no_state(data: bytes, said: str) -> None:
    async def talk() -> tuple[bytes, Door]:
        async with door() as node:
            return await node.call(data), node

    answer, node = asyncio.run(talk())
    assert said in denied(answer).text
    assert node.told == []
    assert node.connections.refused == 1
    assert node.connections.open == {}


def test_nonsense_after_a_good_frame_ends_the_connection_and_the_good_frame_counts() -> None:
    async def talk() -> tuple[bytes, Door]:
        async with door() as node:
            answer = await node.call(frames.pack(HELLO) + b"\0\0\0\1\xc1" + frames.pack(frames.Beat(n=2)))
            await until_async(lambda: len(node.told) == 3, "hello and end are told")
            return answer, node

    answer, node = asyncio.run(talk())
    assert "not a frame" in denied(answer).text
    assert node.asked() == [HELLO]
    assert node.told[-1][1] == SessionClosed(process_gone=False)


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=80), max_size=4))
def test_any_bytes_in_any_frames_are_refused_or_asked(bodies: list[bytes]) -> None:
    async def talk() -> Door:
        async with door() as node:
            data = frames.pack(HELLO) + b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
            reader, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(data)
            writer.write_eof()
            async with asyncio.timeout(20):
                await reader.read()
            writer.close()
            await until_async(lambda: isinstance(node.told[-1][1], SessionClosed), "the end is told")
            return node

    node = asyncio.run(talk())
    assert node.asked()[0] == HELLO
    assert len(node.asked()) + node.connections.refused <= len(bodies) + 1


def test_a_flood_is_taken_in_portions_one_a_turn() -> None:
    async def talk() -> list[int]:
        async with door() as node:
            _, writer = await asyncio.open_unix_connection(str(node.path))
            flood = [frames.pack(HELLO), *(frames.pack(frames.Beat(n=number)) for number in range(199))]
            writer.write(b"".join(flood))
            await until_async(node.asked, "the first portion")
            portions: list[int] = [len(node.asked())]

            def another_turn() -> bool:
                before = len(node.asked())
                node.connections.turn_done()
                portions.append(len(node.asked()) - before)
                return len(node.asked()) == 200

            await until_async(another_turn, "all portions")
            writer.close()
            assert [frame.n for frame in node.asked() if isinstance(frame, frames.Beat)] == list(range(199))
            return portions

    portions = asyncio.run(talk())
    assert max(portions) == sockets.FRAMES_PER_TURN_MAX


WHO = {"user": user_name(os.getuid()), "pid": os.getpid()}


def test_who_leaves_too_much_unread_is_cut_off_and_the_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "UNREAD_BYTES_MAX", 1024 * 1024)

    async def talk() -> tuple[int, Door]:
        async with door() as node:
            _, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(frames.pack(HELLO))
            await until_async(lambda: node.told, "the hello is told")
            name = node.told[0][0]
            sent = 0
            while node.connections.send(name, frames.Drained(n=0, text="x" * 60_000)):
                node.connections.turn_done()
                sent += 1
                assert sent < 200
                await asyncio.sleep(0)
            writer.close()
            return sent, node

    sent, node = asyncio.run(talk())
    assert 10 < sent < 60
    assert node.said == [(ENDED_UNREAD, {"why": "it has left more than 1 MiB", **WHO})]
    assert node.connections.refused == 1


def test_who_takes_nothing_of_a_few_answers_is_cut_off_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "UNREAD_WITHIN_S", 0.05)

    async def talk() -> Door:
        async with door() as node:
            _, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(frames.pack(HELLO))
            await until_async(lambda: node.told, "the hello is told")
            for _ in range(10):
                node.connections.send(node.told[0][0], frames.Drained(n=0, text="x" * 60_000))
            node.connections.turn_done()
            await until_async(lambda: not node.connections.open, "it is cut off")
            writer.close()
            return node

    node = asyncio.run(talk())
    assert node.said == [(ENDED_UNREAD, {"why": "it has taken nothing for 0.05 s", **WHO})]
    assert node.told[-1][1] == SessionClosed(process_gone=False)


def test_who_reads_slowly_gets_all_in_order_however_long_it_takes() -> None:
    async def talk() -> tuple[list[int], Door]:
        async with door() as node:
            reader, writer = await asyncio.open_unix_connection(str(node.path), limit=1 << 12)
            writer.write(frames.pack(HELLO))
            await until_async(lambda: node.told, "the hello is told")
            name = node.told[0][0]
            for number in range(40):
                node.connections.send(name, frames.Drained(n=number, text="x" * 60_000))
                node.connections.turn_done()
            watched = node.connections.open[name]._unread
            assert watched is not None
            assert watched.waits
            got: list[int] = []
            for number in range(40):
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = frames.read_answer(await reader.readexactly(size))
                assert isinstance(frame, frames.Drained)
                got.append(frame.n)
                if number in {9, 19}:
                    watched._look()  # as if 30 s had passed: there is less than at the look before
                    assert watched.waits
            await until_async(lambda: not watched.waits, "nothing waits any more")
            node.connections.send(name, frames.Drained(n=40, text=""))
            node.connections.turn_done()
            await reader.readexactly(4)
            writer.close()
            return got, node

    got, node = asyncio.run(talk())
    assert got == list(range(40))
    assert node.said == []


def test_a_peer_that_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "HELLO_WITHIN_S", 0.05)

    async def talk() -> tuple[bytes, Door]:
        async with door() as node:
            return await node.call(b"\0\0"), node

    answer, node = asyncio.run(talk())
    assert answer == b""
    assert node.told == []


def test_too_many_connections_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "CONNECTIONS_MAX", 1)

    async def talk() -> bytes:
        async with door() as node:
            _, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(frames.pack(HELLO))
            await until_async(lambda: node.told, "the hello is told")
            answer = await node.call(b"")
            writer.close()
            return answer

    refused = denied(asyncio.run(talk()))
    assert "too many connections" in refused.text
    assert refused.retry_after_ms == sockets.RETRY_AFTER_MS


def test_the_end_of_the_process_is_told_with_or_after_the_end_of_its_connection() -> None:
    async def talk() -> Told:
        async with door() as node:
            script = (
                "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
                "s.sendall(bytes.fromhex(sys.argv[2]))\nprint(flush=True)\nsys.stdin.read(1)\ns.close()\n"
                "print(flush=True)\nsys.stdin.read(1)\n"
            )
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                script,
                str(node.path),
                frames.pack(HELLO).hex(),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            assert child.stdin is not None
            assert child.stdout is not None
            await child.stdout.readline()
            await until_async(lambda: len(node.told) == 2, "the hello is told")
            child.stdin.write(b"x")
            await child.stdout.readline()
            await until_async(lambda: len(node.told) == 3, "the end of the connection is told")
            assert node.told[2][1] == SessionClosed(process_gone=False)
            child.kill()
            await child.wait()
            await until_async(lambda: len(node.told) == 4, "the end of the process is told")
            return node.told

    told = asyncio.run(talk())
    assert told[3] == (told[0][0], SessionClosed(process_gone=True))


@pytest.mark.parametrize(("said", "known"), [(0, False), (7, True)], ids=["another-host", "this-host"])
def test_the_end_of_our_own_server_is_not_that_of_a_client_of_another_host(said: int, known: bool) -> None:
    async def talk() -> Told:
        async with door() as node:
            node.connections.fronts.add(os.getpid())
            hello = msgspec.structs.replace(HELLO, for_uid=os.getuid() + 1, pid=said)
            _, writer = await asyncio.open_unix_connection(str(node.path))
            writer.write(frames.pack(hello))
            await until_async(lambda: len(node.told) == 2, "the hello is told")
            writer.close()
            await until_async(lambda: len(node.told) == 3, "the end of the connection is told")
            return node.told

    (_, opened), _, (_, closed) = asyncio.run(talk())
    assert isinstance(opened, SessionOpened)
    assert (opened.uid, opened.pid > 0, opened.started > 0) == (os.getuid() + 1, known, known)
    assert closed == SessionClosed(process_gone=False)


def test_a_socket_of_a_living_node_is_not_taken_over_and_one_of_a_dead_node_is() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hd") as folder:
        path = Path(folder) / "s.sock"
        first = bind(path, mode=0o600)
        assert path.stat().st_mode & 0o777 == 0o600
        first.listen()
        with pytest.raises(BadConfig, match="another node answers"):
            bind(path, mode=0o600)
        first.close()
        bind(path, mode=0o666).close()
        assert path.stat().st_mode & 0o777 == 0o666
        with pytest.raises(BadConfig, match="can't open the socket"):
            bind(Path(folder) / "missing" / "s.sock", mode=0o600)


def test_the_name_of_an_unknown_user_is_its_number() -> None:
    assert user_name(4_000_000_123) == "4000000123"
