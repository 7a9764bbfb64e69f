"""One node under load: 10,000 units in 200 pools, 2,000 waiting claims, listings, and a minute of grants.

Prints a table and fails when a listing takes a second or more, when the node can't keep up with the rate, or
when its memory grows while it does. Run: `python bench/node_load.py [--seconds 60] [--rate 50]`.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from node.lab import Client, Lab, lab

from holdall.model import frames

POOLS = 200
UNITS = 50
WAITING = 2000
CLAIMS_PER_CLIENT = 20
LISTING_S_MAX = 1.0
GROWTH_KIB_MAX = 5 * 1024
LOG_ROWS = 10_000
"""The node keeps so many lines of history; before they are full, memory has to grow."""

CONFIG = """
[node]
name = "lab-1"
listen = "off"

[defaults]
ttl = "5m"
"""


def main() -> int:
    """Run it all; 0 when every bound holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50)
    chosen = parser.parse_args()
    with lab() as node:
        node.configure(CONFIG + "".join(pool_of(number) for number in range(POOLS)))
        began = time.monotonic()
        node.start("--new")
        print(f"start                      {time.monotonic() - began:8.2f} s    {POOLS * UNITS} units")
        clients = fill(node)
        failures = _listings(node)
        failures += _grants(node, rate=chosen.rate, seconds=chosen.seconds)
        for client in clients:
            client.close()
        failures += _restart(node)
    for failure in failures:
        print(f"FAILED  {failure}")
    return 1 if failures else 0


def pool_of(number: int) -> str:
    """One pool of the configuration."""
    return f'\n[[pool]]\nname = "pool-{number:03}"\ncount = {UNITS}\n'


def fill(node: Lab) -> list[Client]:
    """Half of the pools are held whole; all waiting claims wait for those."""
    holder = node.client(agent="holder")
    half = POOLS // 2
    for number in range(half):
        holder.lease(f"pool-{number:03}:{UNITS}", ttl_ms=300_000)
    clients = [holder]
    began = time.monotonic()
    for start in range(0, WAITING, CLAIMS_PER_CLIENT):
        client = node.client(agent=f"waiting-{start}")
        for number in range(CLAIMS_PER_CLIENT):
            client.claim(f"pool-{(start + number) % half:03}:{1 + number % 3}", ttl_ms=300_000)
        for _ in range(CLAIMS_PER_CLIENT):
            client.wait(frames.Queued)
        clients.append(client)
    took = time.monotonic() - began
    print(f"waiting claims             {took:8.2f} s    {WAITING}, {took / WAITING * 1000:.2f} ms each")
    return clients


def _listings(node: Lab) -> list[str]:
    failures: list[str] = []
    with node.client(agent="looking") as client:
        expected: tuple[tuple[str, Callable[[frames.Listing], int], int], ...] = (
            ("who", lambda listing: len(listing.leases), POOLS // 2),
            ("queue", lambda listing: len(listing.waits), WAITING),
            ("pools", lambda listing: sum(len(row.units) for row in listing.pools), POOLS * UNITS),
        )
        for what, count, wanted in expected:
            times: list[float] = []
            got = 0
            for _ in range(5):
                began = time.monotonic()
                got = count(client.listing(what))
                times.append(time.monotonic() - began)
            # The best of five is the node's own time; what others do on this machine makes the rest.
            print(f"{what:<26} {min(times):8.3f} s    {got} rows, median {statistics.median(times):.3f} s")
            if got != wanted:
                failures.append(f"{what} has {got} rows instead of {wanted}")
            if min(times) >= LISTING_S_MAX:
                failures.append(f"{what} took {min(times):.2f} s; at most {LISTING_S_MAX} s")
    return failures


def _grants(node: Lab, *, rate: float, seconds: float) -> list[str]:
    assert node.process is not None
    pid = node.process.pid
    free = [f"pool-{number:03}:2" for number in range(POOLS // 2, POOLS)]
    with node.client(agent="working") as client:
        began = time.monotonic()
        warm = LOG_ROWS // 2 + 500
        for number in range(warm):
            client.release(client.lease(free[number % len(free)], free[(number + 1) % len(free)]).key)
        took = time.monotonic() - began
        print(f"as fast as one can         {warm / took:8.0f} grants/s, one client, two pools each")
        before = _rss_kib(pid)
        cpu = _cpu_s(pid)
        began = time.monotonic()
        grants = 0
        latencies: list[float] = []
        while (now := time.monotonic()) < began + seconds:
            due = began + grants / rate
            if now < due:
                time.sleep(due - now)
            asked = time.monotonic()
            lease = client.lease(free[grants % len(free)], free[(grants + 1) % len(free)])
            latencies.append(time.monotonic() - asked)
            client.release(lease.key)
            grants += 1
        took = time.monotonic() - began
        growth = _rss_kib(pid) - before
        latencies.sort()
        print(
            f"{rate:g} grants/s              {grants / took:8.1f} grants/s, p50 {latencies[len(latencies) // 2] * 1000:.2f} ms, "
            f"p99 {latencies[len(latencies) * 99 // 100] * 1000:.2f} ms, {(_cpu_s(pid) - cpu) / took * 100:.0f} % of a core"
        )
        print(
            f"memory                     {before / 1024:8.1f} MiB, {growth / 1024:+.2f} MiB in {took:.0f} s"
        )
        failures = []
        if grants < 0.95 * rate * seconds:
            failures.append(f"{grants} grants in {took:.0f} s; {rate:g} a second were asked for")
        if growth > GROWTH_KIB_MAX:
            failures.append(f"memory grew by {growth} KiB; at most {GROWTH_KIB_MAX}")
        return failures


def _restart(node: Lab) -> list[str]:
    node.kill()
    began = time.monotonic()
    node.start()
    took = time.monotonic() - began
    print(f"restart after kill -9      {took:8.2f} s")
    return [f"the restart took {took:.1f} s; at most 5 s"] if took > 5 else []


def _rss_kib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
