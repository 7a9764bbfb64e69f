"""The page of a node with 10,000 units and 2,000 waiting claims, in a real Chromium.

Measures the first useful paint, the time from a grant to its showing, and the page's heap over ten minutes of
steady grants while its pages are turned. Prints a table and, as the last line, JSON; fails when a bound is broken.
Run: `python bench/dashboard.py [--minutes 10] [--rate 5]`, after `scripts/dashboard`.
"""

import argparse
import contextlib
import json
import statistics
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from node.lab import Client, Lab, lab
from node_load import CONFIG, POOLS, UNITS, WAITING, fill, pool_of
from playwright.sync_api import Page, TimeoutError  # noqa: A004 - of the page
from system.dashboard import Site, chromium
from system.many_nodes import free_ports

PAINTS = 5
SHOWINGS = 30
PAINT_MS_MAX = 2000
SHOWING_S_MAX = 1.0
"""Median, from the grant to the row or number on the screen."""
WAITED_S_MAX = 20.0
"""What is not shown within this counts as shown then."""
GROWTH_KIB_MAX = 1024
"""Of the heap after a forced collection, from a fifth of the time to its end."""
BEAT_S = 60.0
SAMPLE_S = 30.0
TURN_S = 4.0
TURNED = ("pools", "waits", "leases", "nodes", "log", "now")

USEFUL = """() => [...document.querySelectorAll('.tile')].some(
  (tile) => tile.textContent.includes('10\\u202f000')) && performance.now()"""
HELD = """(leases) => [...document.querySelectorAll('.tile')].some(
  (tile) => tile.textContent.includes(`by ${leases} leases`)) && Date.now()"""
TOLD = """(agent) => [...document.querySelectorAll('tbody tr')].some(
  (row) => row.textContent.includes('granted') && row.textContent.includes(agent)) && Date.now()"""


class Grants(threading.Thread):
    """Keeps everybody's claims alive, and makes grants at a steady rate, each held for half of its turn."""

    def __init__(self, node: Lab, others: list[Client], rate: float) -> None:
        super().__init__(daemon=True)
        self._client = node.client(agent="steady")
        self._others = others
        self._turn_s = 1 / rate
        self._over = threading.Event()
        self.made = 0

    def run(self) -> None:
        """Until `end`."""
        beat_s = due_s = time.monotonic()
        while not self._over.is_set():
            if time.monotonic() >= beat_s:
                beat_s += BEAT_S
                for other in self._others:
                    other.beat()
            key, _ = granted(self._client, self.made)
            self.made += 1
            due_s = max(due_s + self._turn_s, time.monotonic())
            self._over.wait(max(0.0, due_s - time.monotonic()) / 2)
            self._client.release(key)
            self._over.wait(max(0.0, due_s - time.monotonic()))

    def end(self) -> None:
        """Stop, and wait for it."""
        self._over.set()
        self.join()
        self._client.close()


def granted(client: Client, number: int) -> tuple[str, float]:
    """A grant of one of the free pools, each in its turn: its key, and when that was."""
    lease = client.lease(f"pool-{POOLS // 2 + number % (POOLS // 2):03}:1")
    return lease.key, time.time()


def main() -> int:
    """Run it all; 0 when every bound holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--rate", type=float, default=5)
    chosen = parser.parse_args()
    with filled() as (place, clients):
        found: dict[str, Any] = {"units": POOLS * UNITS, "waiting": WAITING, "rate": chosen.rate}
        found["paint_ms"] = paints(place)
        with place.page() as watched:
            found["now_s"] = showings(place, watched.page)
            print(f"first useful paints {found['paint_ms']} ms; grants to Now {found['now_s']} s", flush=True)
            steady(place, watched.page, clients, chosen.minutes * 60, chosen.rate, found)
            complaints = watched.complaints
        for client in clients:
            client.close()
    failures = told(found) + [f"the console says: {one}" for one in complaints[:5]]
    print(json.dumps(found))
    for failure in failures:
        print(f"FAILED  {failure}", file=sys.stderr)
    return 1 if failures else 0


@contextlib.contextmanager
def filled() -> Generator[tuple[Site, list[Client]]]:
    """A node with everything in it, and a browser."""
    port = free_ports()
    with lab() as node, chromium() as browser:
        config = CONFIG.replace('listen = "off"', f'listen = "127.0.0.1:{port}"')
        node.configure(config + "".join(pool_of(number) for number in range(POOLS)))
        node.start("--new")
        yield Site(node, f"http://127.0.0.1:{port}", browser), fill(node)


def paints(place: Site) -> list[float]:
    """Each in a browser of its own, from the navigation until the numbers stand there, milliseconds."""
    times = []
    for _ in range(PAINTS):
        with place.page() as watched:
            watched.page.goto("about:blank")
            watched.page.goto(place.base, wait_until="commit")
            times.append(float(watched.page.wait_for_function(USEFUL, polling="raf").json_value()))
    return times


def showings(place: Site, page: Page) -> list[float]:
    """Seconds from a grant until the first page counts it, one grant at a time."""
    times = []
    leases = POOLS // 2
    with place.lab.client(agent="shown") as client:
        page.goto(f"{place.base}/#now")
        page.wait_for_function(HELD, arg=str(leases), polling="raf")
        for number in range(SHOWINGS):
            key, at_s = granted(client, number)
            times.append(_seen(page, HELD, str(leases + 1)) - at_s)
            client.release(key)
            _seen(page, HELD, str(leases))
    return times


def steady(
    place: Site, page: Page, clients: list[Client], seconds: float, rate: float, found: dict[str, Any]
) -> None:
    """Pages are turned while grants come; the heap is measured now and then, always on the same page."""
    grants = Grants(place.lab, clients, rate)
    began = time.monotonic()
    heap: list[tuple[float, float, int]] = []
    history: list[float] = []
    debugger = page.context.new_cdp_session(page)
    grants.start()
    print(f"{'s':>6} {'heap KiB':>10} {'nodes':>7} {'listeners':>10} {'grant to history s':>19}")
    while (now := time.monotonic() - began) < seconds:
        turns = 0
        while time.monotonic() - began < now + SAMPLE_S - TURN_S:
            page.goto(f"{place.base}/#{TURNED[turns % len(TURNED)]}")
            page.wait_for_timeout(TURN_S * 1000)
            turns += 1
        page.goto(f"{place.base}/#log")
        page.wait_for_timeout(1000)
        agent = f"sample-{len(history)}"
        with place.lab.client(agent=agent) as client:
            key, at_s = granted(client, len(history))
            try:
                history.append(_seen(page, TOLD, agent) - at_s)
            except TimeoutError:
                history.append(WAITED_S_MAX)
            client.release(key)
        page.goto(f"{place.base}/#now")
        page.wait_for_timeout(1000)
        debugger.send("HeapProfiler.collectGarbage")
        used = debugger.send("Runtime.getHeapUsage")["usedSize"] / 1024
        counts = debugger.send("Memory.getDOMCounters")
        at = time.monotonic() - began
        heap.append((round(at, 1), round(used, 1), counts["nodes"]))
        print(
            f"{at:6.0f} {used:10.0f} {counts['nodes']:7} {counts['jsEventListeners']:10} {history[-1]:19.2f}",
            flush=True,
        )
    grants.end()
    found |= {"history_s": history, "heap": heap, "grants": grants.made, "seconds": time.monotonic() - began}


def told(found: dict[str, Any]) -> list[str]:
    """The table; what is beyond its bound."""
    failures = []
    for name, text, unit, most in (
        ("paint_ms", "first useful paint", "ms", PAINT_MS_MAX),
        ("now_s", "grant to Now", "s", SHOWING_S_MAX),
        ("history_s", "grant to History, under load", "s", SHOWING_S_MAX),
    ):
        times = found[name]
        middle = statistics.median(times)
        print(f"{text:<30} median {middle:8.2f} {unit}   max {max(times):8.2f} {unit}")
        if middle > most:
            failures.append(f"{text}: median {middle:.2f} {unit}; at most {most} {unit}")
    heap = [used for _, used, _ in found["heap"]]
    growth = heap[-1] - heap[len(heap) // 5]
    print(f"{'heap':<30} {heap[0]:.0f} to {heap[-1]:.0f} KiB, {growth:+.0f} KiB after the first fifth")
    print(f"{'grants':<30} {found['grants']}, {found['grants'] / found['seconds']:.1f} a second")
    if growth > GROWTH_KIB_MAX:
        failures.append(f"the heap grew by {growth:.0f} KiB; at most {GROWTH_KIB_MAX}")
    return failures


def _seen(page: Page, what: str, argument: str) -> float:
    """When it stood there: seconds since 1970."""
    handle = page.wait_for_function(what, arg=argument, polling="raf", timeout=WAITED_S_MAX * 1000)
    return float(handle.json_value()) / 1000


if __name__ == "__main__":
    sys.exit(main())
