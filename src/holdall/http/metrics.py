"""`/metrics` for Prometheus: what this node has, what happened on it, and how long things take.

Each node tells of itself only, so sums over all nodes count everything once. Labels are bounded: pools beyond
the first `meters.POOLS_MAX` are told together as `other`.
"""

from collections.abc import Iterable, Iterator

import msgspec
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.responses import Response

from holdall.http.api import Asking
from holdall.http.healthy import ask_health
from holdall.http.meters import Meters
from holdall.http.rows import nodes_of, pools_of
from holdall.http.words import PoolSummary
from holdall.model import frames
from holdall.model.errors import HoldallError
from holdall.model.why import Why
from holdall.node.clock import wall_ms
from holdall.node.figures import BOUNDS_S, Figures
from holdall.node.release import version


class Told(msgspec.Struct, frozen=True):
    """What `/healthz` has for us."""

    figures: Figures = msgspec.field(default_factory=Figures)


async def metrics(asking: Asking) -> Response:
    """All of them, as text; when the node does not answer, `holdall_up` is 0."""
    place = asking.place
    meters = place.meters
    shown: list[Metric] = []
    try:
        await meters.probe()
        pools = await place.reading.get("pools", local=True)
        who = await place.reading.get("who", local=True)
        queue = await place.reading.get("queue", local=True)
        nodes = await place.reading.get("node")
        _, body = await ask_health(place.orders.health)
    except (HoldallError, OSError, EOFError, TimeoutError):
        shown += alive(0)
        shown += of_server(streams=place.mirror.listeners, claims=len(place.claims))
    else:
        shown += alive(1)
        shown += of_pools(meters, pools_of(pools).values(), [why for part in queue for why in part.waits])
        figures = msgspec.json.decode(body, type=Told).figures
        shown += of_overtakes(meters, figures)
        shown += of_locations(figures)
        shown += of_node(nodes, figures)
        leases = sum(len(part.leases) for part in who)
        shown += of_server(streams=place.mirror.listeners, claims=len(place.claims), leases=leases)
    text = generate_latest(Fixed(shown)) + generate_latest(meters.registry)
    return Response(text, 200, {"Cache-Control": "no-store"}, CONTENT_TYPE_PLAIN_0_0_4)


def alive(value: int) -> Iterator[Metric]:
    """Whether the node answers: 1 or 0."""
    yield _gauge("holdall_up", "Whether the node answers", value)


def of_server(*, streams: int, claims: int, leases: int | None = None) -> Iterator[Metric]:
    """What the HTTP server has open, and how many leases there are, if the node has told."""
    yield _gauge("holdall_http_streams", "Open live streams", streams)
    yield _gauge("holdall_http_claims", "Open claims that were made over HTTP", claims)
    if leases is not None:
        yield _gauge("holdall_leases", "Leases with a part on this node", leases)


def of_pools(meters: Meters, pools: Iterable[PoolSummary], waits: list[Why]) -> Iterator[Metric]:
    """Units and queue of each pool of this node."""
    units = GaugeMetricFamily("holdall_pool_units", "Units by what they are doing", labels=["pool", "state"])
    waiting = GaugeMetricFamily("holdall_pool_waiting", "Claims that wait for some of it", labels=["pool"])
    longest = GaugeMetricFamily(
        "holdall_pool_longest_wait_seconds",
        "Age of the oldest claim that waits for some of it",
        labels=["pool"],
    )
    overtaken = GaugeMetricFamily(
        "holdall_pool_overtaken", "Younger claims that got ahead of claims that wait now", labels=["pool"]
    )
    counts: dict[tuple[str, str], int] = {}
    queues: dict[str, int] = {}
    for pool in pools:
        label = meters.pool(pool.pool)
        for state, count in (("free", pool.free), ("held", pool.held), ("unusable", pool.unusable)):
            counts[label, state] = counts.get((label, state), 0) + count
        queues[label] = queues.get(label, 0) + pool.waiting
    ages, passed = _waits_by_pool(meters, waits)
    for (label, state), count in sorted(counts.items()):
        units.add_metric([label, state], count)
    for label, count in sorted(queues.items()):
        waiting.add_metric([label], count)
        longest.add_metric([label], ages.get(label, 0.0))
        overtaken.add_metric([label], passed.get(label, 0))
    yield from (units, waiting, longest, overtaken)


def of_overtakes(meters: Meters, figures: Figures) -> Iterator[Metric]:
    """How often claims were passed at each pool of this node; a pool where nobody was has no sample."""
    counts: dict[str, int] = {}
    for name, times in sorted(figures.overtakes.items()):
        label = meters.pool(name)
        counts[label] = counts.get(label, 0) + times
    overtakes = CounterMetricFamily(
        "holdall_pool_overtakes", "Times that a younger claim got ahead of a waiting one", labels=["pool"]
    )
    for label, times in sorted(counts.items()):
        overtakes.add_metric([label], times)
    yield overtakes


def of_locations(figures: Figures) -> Iterator[Metric]:
    """The line of each location that this node leads."""
    waiting = GaugeMetricFamily(
        "holdall_location_waiting", "Requests that wait for capacity of it", labels=["location"]
    )
    for location, count in sorted(figures.location_waiting.items()):
        waiting.add_metric([location], count)
    yield waiting


def _waits_by_pool(meters: Meters, waits: list[Why]) -> tuple[dict[str, float], dict[str, int]]:
    ages: dict[str, float] = {}
    passed: dict[str, int] = {}
    now = wall_ms()
    for why in waits:
        named = {
            name for need in why.needs for option in need.spec.split(" or ") for name in _pools_named(option)
        }
        for label in {meters.pool(name) for name in named}:
            ages[label] = max(ages.get(label, 0.0), (now - why.since_ms) / 1000 if why.since_ms else 0.0)
            passed[label] = passed.get(label, 0) + why.overtaken
    return ages, passed


def _pools_named(spec: str) -> list[str]:
    return spec.partition(",")[0].partition(":")[0].split("+")


def of_node(nodes: list[frames.Listing], figures: Figures) -> Iterator[Metric]:
    """The node itself, and the others as it knows them."""
    known = nodes_of(nodes)
    here = next((node for node in known.values() if node.here), None)
    states = GaugeMetricFamily("holdall_nodes", "Nodes as this one knows them", labels=["state"])
    for state in ("serving", "quarantine", "draining", "silent", "stopped"):
        states.add_metric([state], sum(1 for node in known.values() if node.state == state))
    yield states
    if here is not None:
        about = GaugeMetricFamily("holdall_info", "Which node and release", labels=["node", "version"])
        about.add_metric([here.node, here.version or version()], 1)
        yield about
        yield _gauge("holdall_waiting", "Claims of this node that wait", here.waiting or 0)
        yield _gauge(
            "holdall_quarantine_seconds", "Nothing is granted for so long", (here.quarantine_ms or 0) / 1000
        )
        yield _gauge("holdall_start_time_seconds", "When the node started", (here.since_ms or 0) / 1000)
    yield _spread("holdall_commit_seconds", "Transactions of the journal", figures)
    for name, text, value in (
        ("holdall_turns", "Turns of the node", figures.turns),
        ("holdall_refused", "Messages that no correct neighbour sends", figures.refused),
        ("holdall_bus_posted", "Frames to other nodes", figures.posted),
        ("holdall_bus_heard", "Frames from other nodes", figures.heard),
    ):
        yield CounterMetricFamily(name, text, value=value)
    if figures.bus_s is not None:
        yield _gauge(
            "holdall_bus_latency_seconds", "The latest question to the bus and its answer", figures.bus_s
        )


def _spread(name: str, text: str, figures: Figures) -> Metric:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip((*BOUNDS_S, float("inf")), figures.commits.counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), total))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=figures.commits.sum_s)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


class Fixed(Collector):
    """A registry, for `generate_latest`, of metrics that are there already."""

    def __init__(self, shown: list[Metric]) -> None:
        self._shown = shown

    def collect(self) -> Iterable[Metric]:
        return self._shown
