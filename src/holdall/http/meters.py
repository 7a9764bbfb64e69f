"""What is counted as it happens, for `/metrics`: lines of the history, waits, renewals, questions, requests."""

import asyncio
import contextlib
import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Histogram

from holdall.http.reading import Reading
from holdall.model import frames
from holdall.model.errors import HoldallError

POOLS_MAX = 500
OTHER = "other"
WAITS_S = (0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14_400.0)
SHORT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)


class Meters:
    """What is counted as it happens, since this process began."""

    def __init__(self, reading: Reading) -> None:
        self.registry = CollectorRegistry()
        self._reading = reading
        self._known: set[str] = set()
        self.happened = Counter(
            "holdall_events", "Lines of the node's history", ["pool", "kind"], registry=self.registry
        )
        self.waited = Histogram(
            "holdall_wait_seconds",
            "How long granted claims waited",
            ["pool"],
            buckets=WAITS_S,
            registry=self.registry,
        )
        self.renewed = Histogram(
            "holdall_renewal_seconds",
            "A renewal, from its sending to the node's answer",
            buckets=SHORT_S,
            registry=self.registry,
        )
        self.asked = Histogram(
            "holdall_question_seconds",
            "A question to the node about the system, from its sending to the last of the answer",
            ["what"],
            buckets=SHORT_S,
            registry=self.registry,
        )
        self.requests = Counter(
            "holdall_http_requests",
            "Requests by route and status",
            ["route", "status"],
            registry=self.registry,
        )
        reading.asked = lambda what, seconds: self.asked.labels(what).observe(seconds)

    def pool(self, name: str) -> str:
        """The label for a pool."""
        if name not in self._known and len(self._known) >= POOLS_MAX:
            return OTHER
        self._known.add(name)
        return name

    def row(self, row: frames.LogRow) -> None:
        """One line of the history."""
        pools = sorted({unit.partition("/")[0] for unit in row.units if "/" in unit}) or [""]
        for pool in pools:
            label = self.pool(pool)
            self.happened.labels(label, row.kind).inc()
            if row.kind == "granted" and row.waited_ms is not None:
                self.waited.labels(label).observe(row.waited_ms / 1000)

    async def watch(self, also: Callable[[frames.LogRow], None]) -> None:
        """Count the lines of this node as it tells them, without end; `also` gets each."""
        while True:
            with contextlib.suppress(HoldallError):
                talk = await self._reading.talk()
                async for answer in talk.answers(frames.Watch(n=talk.number(), local=True), within_s=None):
                    if isinstance(answer, frames.Happened):
                        self.row(answer.row)
                        also(answer.row)
            await asyncio.sleep(1)

    async def probe(self) -> None:
        """One renewal of nothing: what it takes is what every holder's takes."""
        talk = await self._reading.talk()
        began_s = time.perf_counter()
        await talk.ask(frames.Beat(n=talk.number()))
        self.renewal(time.perf_counter() - began_s)

    def renewal(self, seconds: float) -> None:
        """One renewal took so long."""
        self.renewed.observe(seconds)
