"""`holdall proxy` at a real node: bytes go out at the leased rate, and what was used is in the status and in the account."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator

import pytest
from node.location.town import Client, die, net, settled, start, wants
from node.together import Together, together
from node.waiting import until

import holdall
from holdall.cli.proxy import read_address, show_address
from holdall.client.conversation import Conversation
from holdall.client.taking import rate_of
from holdall.leases.buckets import depth_for, quantum_for
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import BadSpec, LeaseLost, NotHolder
from holdall.model.terms import LeaseDocument, TermStatus

CAPACITY = 1_000_000
MEMORY = '[[capacity]]\nname = "mem"\namount = "1GiB"\n'
RATE = 200_000
DEPTH = RATE // 20
"""What the gate lets out at once: the rate's 50 ms."""


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        start(made, "lab1", net("1MB/s"))
        settled(made, "lab1", hosts=1)
        yield made


class Sink:
    """A server that counts what comes, answers with a letter at the end, and remembers when each byte was there."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.came: list[tuple[float, int]] = []
        self.broken = 0
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def count(self) -> int:
        return sum(size for _, size in list(self.came))

    def busiest_second(self) -> int:
        came = list(self.came)
        return max(
            (sum(size for at, size in came if begun <= at < begun + 1) for begun, _ in came), default=0
        )

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        with connection:
            try:
                while data := connection.recv(65_536):
                    self.came.append((time.monotonic(), len(data)))
                connection.sendall(b"!")
            except OSError:
                self.broken += 1


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


def used_of(nodes: Together, lease: str) -> int:
    with Client(nodes, "lab1") as client:
        status = client.ask(f.AskStatus(lease))
        return status.document.term("net.tx").used.total if isinstance(status, f.LeaseIs) else -1


@contextlib.contextmanager
def proxying(nodes: Together, lease: str, sink: Sink, *more: str) -> "Generator[subprocess.Popen[str]]":
    """The command, which has printed where it listens."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdall.cli", "proxy", "--lease", lease),
            *("--listen", "0", "--to", f"127.0.0.1:{sink.port}", *more),
        ],
        env={**os.environ, "HOLDALL_URL": f"unix://{nodes.nodes['lab1'].settings.socket}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def connected(process: "subprocess.Popen[str]") -> socket.socket:
    assert process.stdout is not None
    host, _, port = process.stdout.readline().strip().rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def lease_of(client: Client, name: str = "r1", *, duration: int = 4_000) -> str:
    taken = client.offer(wants(name, RATE, duration=duration), take=True)
    assert isinstance(taken, f.LeaseIs), taken
    return taken.document.lease


def test_e1_bytes_go_out_at_the_leased_rate_and_what_was_used_is_told(nodes: Together, sink: Sink) -> None:
    size = 300_000
    with Client(nodes, "lab1") as client:
        lease = lease_of(client)
        with proxying(nodes, lease, sink) as process, connected(process) as sender:
            begun = time.monotonic()
            sender.sendall(b"x" * size)
            sender.shutdown(socket.SHUT_WR)
            assert sender.recv(10) == b"!"
            passed = time.monotonic() - begun
            assert sink.count == size
            assert size <= RATE * passed + DEPTH + 1
            assert sink.busiest_second() <= RATE + DEPTH + 1

            def used() -> bool:
                status = client.ask(f.AskStatus(lease))
                assert isinstance(status, f.LeaseIs)
                term = status.document.term("net.tx")
                return (term.used.total, term.enforced) == (size, "process") and status.document.revision > 1

            until(used, "the host knows what was used, and the lease was renewed meanwhile")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
            assert process.stderr is not None
            assert f"rate      {RATE:,} B/s, granted by lab1" in process.stderr.read()
        # Nobody uses it any more, so the node has given it back.

        def over() -> bool:
            status = client.ask(f.AskStatus(lease))
            return isinstance(status, f.LeaseIs) and status.document.state in {"released", "expired"}

        until(over, "the lease is over")
    with Conversation(str(nodes.nodes["lab1"].settings.socket)) as node:
        rows = node.listing(frames.Ask(n=node.number(), what="usage", arg="lease")).usage
        mine = node.listing(frames.Ask(n=node.number(), what="usage", arg="affiliation")).usage
        assert [(one.group, one.term, one.used) for one in mine] == [("prague", "net.tx", size)]
    (row,) = rows
    assert (row.group, row.term, row.kind, row.used, row.now, row.leases) == (
        *(lease, "net.tx", "capacity", size, 0, 1),
    )
    assert row.stretches >= 2
    assert int(row.amount_ms) == RATE * row.held_ms
    assert row.used <= int(row.amount_ms) // 1000 + DEPTH


def test_e2_when_the_lease_is_over_not_a_byte_more_goes_out(nodes: Together, sink: Sink) -> None:
    with Client(nodes, "lab1") as client:
        lease = lease_of(client)
        with proxying(nodes, lease, sink) as process, connected(process) as sender:
            sender.sendall(b"x" * 1000)
            until(lambda: sink.count == 1000, "the first bytes are there")
            assert client.ask(f.EndLease(lease)) == f.Over(lease, "released")
            assert process.wait(60) == 79
            assert process.stderr is not None
            assert f"lease {lease} is over: released" in process.stderr.read()
            with contextlib.suppress(OSError):
                sender.sendall(b"y" * 1000)
                assert sender.recv(10) == b""
        assert sink.count == 1000
        until(lambda: sink.broken == 1, "the other side has seen a reset, not an end")


@pytest.mark.system
def test_proxies_of_one_lease_and_leases_of_one_capacity_keep_to_it_together(nodes: Together) -> None:
    """E1 over several processes: two proxies of a lease share its rate, and all leases the root bucket."""
    rates, sizes = {"r1": 600_000, "r2": 400_000}, {"r1": 450_000, "r2": 600_000}
    with Client(nodes, "lab1") as client, contextlib.ExitStack() as ends:
        leases: dict[str, str] = {}
        for name, rate in rates.items():
            taken = client.offer(wants(name, rate), take=True)
            assert isinstance(taken, f.LeaseIs)
            leases[name] = taken.document.lease
        senders: list[tuple[str, Sink, socket.socket]] = []
        for name in ("r1", "r1", "r2"):
            sink = Sink()
            ends.callback(sink.close)
            process = ends.enter_context(proxying(nodes, leases[name], sink))
            senders.append((name, sink, ends.enter_context(connected(process))))
        begun = time.monotonic()
        ended: dict[str, float] = {}

        def send(name: str, sender: socket.socket) -> None:
            sender.sendall(bytes(sizes[name]))
            sender.shutdown(socket.SHUT_WR)
            assert sender.recv(10) == b"!"
            ended[name] = max(time.monotonic(), ended.get(name, 0))

        threads = [threading.Thread(target=send, args=(name, sender)) for name, _, sender in senders]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        # The account's clock can't be too short, whatever the load of the machine: the rate is an upper bound.
        for name, rate in rates.items():
            sent = sum(sink.count for one, sink, _ in senders if one == name)
            assert sent == sizes[name] * (2 if name == "r1" else 1)
            assert sent <= rate * (ended[name] - begun) + depth_for(rate, quantum_for(rate))
        service = nodes.nodes["lab1"]
        assert service.key is not None
        assert service._ports is not None
        most = service._ports.gate.busiest(service.key.id, "net.tx")
        assert 0 < most <= CAPACITY + depth_for(CAPACITY, quantum_for(CAPACITY))

        def used() -> bool:
            status = client.ask(f.AskStatus(leases["r1"]))
            return isinstance(status, f.LeaseIs) and status.document.term("net.tx").used.total == 900_000

        until(used, "the lease's host knows the sum of both proxies")


def test_a_program_and_a_proxy_keep_to_one_lease_together_and_the_program_is_told_of_its_end(
    nodes: Together, sink: Sink
) -> None:
    size, own = 100_000, Sink()
    url = f"unix://{nodes.nodes['lab1'].settings.socket}"

    async def body() -> None:
        async with (
            holdall.connect(url) as hub,
            hub.location("prague").lease({"net.tx": RATE}, duration="4s", on_loss="event") as lease,
            lease.gate() as gate,
        ):
            with proxying(nodes, lease.id, sink) as process:
                sender = await asyncio.to_thread(connected, process)
                _, writer = await asyncio.open_connection("127.0.0.1", own.port)
                begun = time.monotonic()
                sending = asyncio.create_task(asyncio.to_thread(sender.sendall, bytes(size)))
                await asyncio.gather(*(gate.send(writer, bytes(size // 4)) for _ in range(4)), sending)
                await asyncio.to_thread(
                    until, lambda: (own.count, sink.count) == (size, size), "all is there"
                )
                assert 2 * size <= RATE * (time.monotonic() - begun) + DEPTH
                sender.close()
                writer.close()
            await asyncio.to_thread(
                until, lambda: used_of(nodes, lease.id) == 2 * size, "the host knows the sum"
            )
            with Client(nodes, "lab1") as client:
                assert client.ask(f.EndLease(lease.id)) == f.Over(lease.id, "released")
            with pytest.raises(LeaseLost, match="released"):
                await gate.take()

    with pytest.raises(LeaseLost, match="released"):
        asyncio.run(body())
    own.close()


def test_of_a_lease_of_memory_and_a_rate_only_the_rate_has_a_gate() -> None:
    with together() as nodes:
        start(nodes, "lab1", net("1MB/s") + MEMORY)
        settled(nodes, "lab1", hosts=1)
        with (
            holdall.sync.connect(f"unix://{nodes.nodes['lab1'].settings.socket}") as hub,
            hub.location("prague").lease({"net.tx": RATE, "mem": "1MiB"}) as lease,
        ):
            units = {one.name: one.unit for one in lease.document.terms}
            assert units == {"net.tx": "B/s", "mem": "B"}
            with pytest.raises(
                BadSpec, match=r"mem is no rate: .*, in bytes per second. Rates of .*: net\.tx"
            ):
                lease.gate("mem")
            with lease.gate() as gate:
                assert gate.rate == RATE


def test_a_blocking_program_sends_at_the_leased_rate(nodes: Together, sink: Sink) -> None:
    url, size = f"unix://{nodes.nodes['lab1'].settings.socket}", 50_000
    with (
        holdall.sync.connect(url) as hub,
        hub.location("prague").lease({"net.tx": RATE}, duration="4s") as lease,
    ):
        with (
            lease.gate("net.tx") as gate,
            socket.create_connection(("127.0.0.1", sink.port)) as sender,
        ):
            begun = time.monotonic()
            gate.send(sender, bytes(size))
            until(lambda: sink.count == size, "all is there")
            assert size <= RATE * (time.monotonic() - begun) + DEPTH
        until(lambda: used_of(nodes, lease.id) == size, "the host knows it")
        with pytest.raises(BadSpec, match=r"has no term 'mem'. Rates of it: net\.tx"):
            lease.gate("mem")
    with pytest.raises(NotHolder, match="given back"):
        gate.take()


@pytest.mark.system
def test_a_proxy_goes_on_when_its_node_is_killed_and_starts_again(nodes: Together, sink: Sink) -> None:
    with Client(nodes, "lab1") as client:
        lease = lease_of(client, duration=20_000)
    with proxying(nodes, lease, sink) as process, connected(process) as sender:
        sender.sendall(b"x" * 1000)
        until(lambda: used_of(nodes, lease) == 1000, "the first bytes are told")
        die(nodes, "lab1")
        # Nobody else knows what others send under the lease, so nothing leaves while the node is away.
        sender.sendall(b"x" * 1000)
        start(nodes, "lab1", net("1MB/s"))
        settled(nodes, "lab1", hosts=1)
        with Client(nodes, "lab1") as client:

            def renewed() -> bool:
                status = client.ask(f.AskStatus(lease))
                assert isinstance(status, f.LeaseIs)
                return status.document.state == "active" and status.document.revision > 1

            until(renewed, "the lease was renewed after the start")
        until(lambda: sink.count == 2000, "what waited goes out")
        sender.sendall(b"x" * 1000)
        until(lambda: sink.count == 3000, "and bytes go on")
        until(lambda: used_of(nodes, lease) == 3000, "what was used before the start counts, too")
        assert process.poll() is None
        with Conversation(str(nodes.nodes["lab1"].settings.socket)) as node:
            rows = node.listing(frames.Ask(n=node.number(), what="usage", arg="lease")).usage
        assert [row.used for row in rows] == [3000]


def test_a_lease_of_somebody_else_or_without_such_a_rate_forwards_nothing(
    nodes: Together, sink: Sink
) -> None:
    with proxying(nodes, "L-prague-nobody-1", sink) as process:
        assert process.wait(60) == 79
    with Client(nodes, "lab1") as client:
        lease = lease_of(client)
        with proxying(nodes, lease, sink, "--term", "cpu") as process:
            assert process.wait(60) == 64
            assert process.stderr is not None
            assert "has no term 'cpu'. Rates of it: net.tx" in process.stderr.read()
    assert sink.count == 0


@pytest.mark.parametrize(
    "text", ["", ":", "host", "host:", "host:x", "host:70000", "a:b:1", "host:\u0663", "1:-2"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadSpec):
        read_address(text, "--to")


def test_addresses() -> None:
    assert read_address("4000", "--listen", host="127.0.0.1") == ("127.0.0.1", 4000)
    assert read_address("files.lab:873", "--to") == ("files.lab", 873)
    assert read_address("[fd00::1]:873", "--to") == ("fd00::1", 873)
    assert show_address(("fd00::1", 873)) == "[fd00::1]:873"


def document_of(*terms: TermStatus) -> LeaseDocument:
    return LeaseDocument("L-1", "p", "h", 1, "ann", "active", 1, 1000, "r", terms)


def test_which_capacity_of_a_lease_is_the_rate() -> None:
    document = document_of(
        TermStatus("a", "capacity", 1, 1, unit="B/s"),
        TermStatus("b", "capacity", 2, 2),
        TermStatus("c", "pool", 1, 1),
        TermStatus("mem", "capacity", 3, 3, unit="B"),
        TermStatus("scratch", "capacity", 4, 4, unit="B"),
        TermStatus("stay", "time", 5, 5),
    )
    assert rate_of(document, "b").granted == 2
    for term, why in {
        "": r"has several rates, or none \(a, b\). Say which",
        "c": "c is no rate: a gate, as a proxy, paces what is sent, in bytes per second. Rates of lease L-1: a, b$",
        "mem": "mem is no rate: .*: a, b; to hold a command to mem: holdall location request … -- COMMAND",
        "scratch": "scratch is no rate",
        "stay": "stay is no rate",
        "d": "has no term 'd'. Rates of it: a, b",
    }.items():
        with pytest.raises(BadSpec, match=why):
            rate_of(document, term)


def test_the_only_rate_of_a_lease_need_not_be_named() -> None:
    # Of a host that tells no units yet: the names of what commands are held to are known.
    held = TermStatus("cpu", "capacity", 1, 1), TermStatus("mem", "capacity", 2, 2)
    assert rate_of(document_of(*held, TermStatus("net.tx", "capacity", 3, 3)), "").granted == 3
    with pytest.raises(BadSpec, match=r"or none \(none\)"):
        rate_of(document_of(*held), "")
