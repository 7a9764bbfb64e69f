"""The page, the dashboard for Grafana and the code name the same metrics; labels are bounded."""

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client.exposition import generate_latest

from holdall.http import metrics
from holdall.http.meters import OTHER, POOLS_MAX, Meters
from holdall.http.reading import Reading
from holdall.http.words import PoolSummary
from holdall.model import frames
from holdall.model.why import NeedWhy, Why
from holdall.node.figures import BOUNDS_S, Figures

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
NODE = frames.NodeRow("lab-1", 1, "0.1.0", 5_000, "serving", 0, 1, 2, 1, 0)


def meters() -> Meters:
    return Meters(Reading(""))


def row(pool: str, kind: str = "granted", waited_ms: int | None = 2_000) -> frames.LogRow:
    return frames.LogRow(1, 5, kind, "L1", "ci@lab-1", (f"{pool}/1#5",), "", "lab-1", waited_ms)


def wait(spec: str, overtaken: int) -> Why:
    return Why("W1", "ci@lab-1", 1_000, 1, 1, 0, overtaken, 8, 8, needs=(NeedWhy(spec, 0, 1, "busy"),))


def summary(pool: str) -> PoolSummary:
    return PoolSummary(f"{pool}@lab-1", pool, "lab-1", {}, "system", "serving", 3, 1, 1, 1, 2)


def everything() -> str:
    """All metrics that there can be, with something in each."""
    made = meters()
    made.row(row("psu"))
    made.renewal(0.001)
    made.asked.labels("pools").observe(0.01)
    made.requests.labels("GET /v1/pools", "200").inc()
    figures = Figures(bus_s=0.002, overtakes={"psu": 2}, location_waiting={"prague": 3})
    figures.commits.add(0.003)
    shown = [
        *metrics.of_overtakes(made, figures),
        *metrics.of_locations(figures),
        *metrics.alive(1),
        *metrics.of_pools(made, [summary("psu")], [wait("psu+bench,arch=x:2 or gpu", 3)]),
        *metrics.of_node([frames.Listing(1, nodes=(NODE,))], figures),
        *metrics.of_server(streams=1, claims=2, leases=3),
    ]
    return (generate_latest(metrics.Fixed(shown)) + generate_latest(made.registry)).decode()


def names(text: str) -> set[str]:
    """Names as in queries; a histogram by its own name."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    return {name for name in kinds if not name.endswith("_created")}


def test_the_page_names_every_metric_and_no_other() -> None:
    page = (REFERENCE / "metrics.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`holdall_.*?) \|", page, re.MULTILINE)
    assert {name for cell in cells for name in re.findall(r"`(holdall_[a-z_]+)`", cell)} == names(
        everything()
    )


def test_the_dashboard_for_grafana_asks_for_metrics_and_labels_that_there_are() -> None:
    board: dict[str, Any] = json.loads((REFERENCE / "grafana.json").read_text(encoding="utf-8"))
    text = everything()
    samples = set(re.findall(r"^(holdall_[a-z_]+)", text, re.MULTILINE))
    labels = set(re.findall(r'[{,]([a-z]+)="', text)) | {"instance"}
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked) > 15
    for expression in asked:
        assert set(re.findall(r"holdall_[a-z_]+", expression)) <= samples, expression
        by = {name for group in re.findall(r"by \(([^)]*)\)", expression) for name in group.split(", ")}
        assert by | set(re.findall(r"[{ ]([a-z]+)=", expression)) <= labels, expression
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_a_grant_is_counted_with_its_wait_and_other_lines_without() -> None:
    made = meters()
    made.row(row("psu"))
    made.row(row("psu", "released", None))
    made.row(frames.LogRow(1, 5, "restarted", "", "", (), ""))
    value = made.registry.get_sample_value
    assert value("holdall_events_total", {"pool": "psu", "kind": "granted"}) == 1
    assert value("holdall_events_total", {"pool": "", "kind": "restarted"}) == 1
    assert value("holdall_wait_seconds_sum", {"pool": "psu"}) == 2.0
    assert value("holdall_wait_seconds_bucket", {"pool": "psu", "le": "1.0"}) == 0
    assert value("holdall_wait_seconds_bucket", {"pool": "psu", "le": "5.0"}) == 1


def test_pools_beyond_the_bound_are_told_together() -> None:
    made = meters()
    for number in range(POOLS_MAX + 100):
        made.row(row(f"p{number}"))
    assert (
        made.registry.get_sample_value("holdall_events_total", {"pool": OTHER, "kind": "granted"})
        == 100 - 1 + 1
    )
    shown = list(metrics.of_pools(made, [summary(f"q{number}") for number in range(50)], []))
    assert {sample.labels["pool"] for sample in shown[1].samples} == {OTHER}
    assert [sample.value for sample in shown[1].samples] == [100.0]


def test_a_wait_counts_for_each_pool_that_it_names_once() -> None:
    made = meters()
    shown = {
        one.name: one
        for one in metrics.of_pools(made, [summary("psu"), summary("gpu")], [wait("psu+gpu:2 or gpu", 3)])
    }
    found = {sample.labels["pool"]: sample.value for sample in shown["holdall_pool_overtaken"].samples}
    assert found == {"psu": 3, "gpu": 3}


def test_overtakes_beyond_the_bound_are_summed_up() -> None:
    made = meters()
    many = {f"p{number:03}": 1 for number in range(POOLS_MAX + 7)}
    (shown,) = metrics.of_overtakes(made, Figures(overtakes=many))
    found = {sample.labels["pool"]: sample.value for sample in shown.samples}
    assert (len(found), found["p000"], found[OTHER]) == (POOLS_MAX + 1, 1, 7)
    assert {sample.name for sample in shown.samples} == {"holdall_pool_overtakes_total"}


def test_the_spread_of_the_journal_adds_up() -> None:
    figures = Figures()
    for seconds in (0.0001, BOUNDS_S[0], 0.3, 99.0):
        figures.commits.add(seconds)
    assert figures.commits.counts[0] == 2
    assert figures.commits.counts[-1] == 1
    assert sum(figures.commits.counts) == 4
