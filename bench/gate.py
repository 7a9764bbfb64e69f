"""How much a stream port forwards at a leased rate, and what that costs: `python bench/gate.py [BYTES_PER_SECOND …]`.

A sender, the gate and a receiver, each a process of its own, over loopback. Each rate runs for 3 s.
"""

import asyncio
import multiprocessing
import socket
import sys
import time
from multiprocessing import Queue

from holdall.leases.capacity import CapacityBook
from holdall.leases.shares import Shares, Wanted
from holdall.node.gate.gate import Gate
from holdall.node.gate.stream import StreamPort

RATES = (1_000_000, 10_000_000, 50_000_000)
SECONDS = 3
PIECE = 1 << 20


def receive(ports: "Queue[int]") -> None:
    """Takes all of each connection, then says so."""
    server = socket.create_server(("127.0.0.1", 0))
    ports.put(server.getsockname()[1])
    while True:
        connection, _ = server.accept()
        while connection.recv(PIECE):
            pass
        connection.sendall(b"x")
        connection.close()


def send(at: tuple[str, int], size: int, took: "Queue[float]") -> None:
    """As fast as it is taken."""
    began = time.monotonic()
    with socket.create_connection(at) as connection:
        for start in range(0, size, PIECE):
            connection.sendall(bytes(min(PIECE, size - start)))
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
    took.put(time.monotonic() - began)


async def measure(rate: int, to: tuple[str, int]) -> str:
    """One line of the table."""
    gate = Gate(CapacityBook(Shares(rate)))
    gate.ask("a", Wanted(rate), duration_ms=600_000)
    port = StreamPort(gate, holder="a", to=to)
    at = await port.open()
    answer: Queue[float] = Queue()
    cpu = time.process_time()
    multiprocessing.Process(target=send, args=(at, SECONDS * rate, answer), daemon=True).start()
    took = await asyncio.get_running_loop().run_in_executor(None, answer.get)
    share = (time.process_time() - cpu) / took
    await port.close()
    gate.close()
    assert gate.busiest.most <= rate + gate.root.depth
    return (
        f"{rate:>12,} B/s  forwarded {SECONDS * rate / took / rate:6.1%}  processor {share:4.0%}  "
        f"busiest second {gate.busiest.most:,} of {rate + gate.root.depth:,} bytes"
    )


async def main(rates: tuple[int, ...]) -> None:
    """The table."""
    ports: Queue[int] = Queue()
    multiprocessing.Process(target=receive, args=(ports,), daemon=True).start()
    to = ("127.0.0.1", ports.get())
    for rate in rates:
        print(await measure(rate, to))


if __name__ == "__main__":
    asyncio.run(main(tuple(map(int, sys.argv[1:])) or RATES))
