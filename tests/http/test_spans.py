"""Spans of claims and leases, made of lines of the history; told to a collector of the test."""

from typing import Any

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdall.http.spans import ENDPOINT, Spans, spans_of
from holdall.model import frames

S = 1_000_000_000


def told(*rows: frames.LogRow) -> list[tuple[str, float, float, Any, Any]]:
    """Name, begin and end in seconds, outcome and id of each span that is over."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    spans = Spans(provider.get_tracer("test"))
    for row in rows:
        spans.row(row)
    return [
        (
            one.name,
            (one.start_time or 0) / S,
            (one.end_time or 0) / S,
            (one.attributes or {}).get("holdall.outcome"),
            (one.attributes or {}).get("holdall.claim.id"),
        )
        for one in exporter.get_finished_spans()
    ]


def row(
    at_s: int, kind: str, lease: str = "L1", text: str = "", waited_ms: int | None = None
) -> frames.LogRow:
    return frames.LogRow(
        at_s, at_s * 1000, kind, lease, "ci@lab-1", ("psu/psu-1#5",), text, "lab-1", waited_ms
    )


def test_a_claim_until_its_grant_and_a_lease_until_its_end() -> None:
    assert told(row(10, "granted", waited_ms=4_000), row(25, "expired")) == [
        ("holdall.claim", 6.0, 10.0, "granted", "L1"),
        ("holdall.lease", 10.0, 25.0, "expired", "L1"),
    ]


def test_a_claim_that_was_not_granted_has_no_lease() -> None:
    assert told(row(10, "timed-out"), row(11, "restarted", lease="")) == [
        ("holdall.claim", 10.0, 10.0, "timed-out", "L1")
    ]


def test_a_part_given_back_and_an_exchange_end_no_lease() -> None:
    rows = (
        row(10, "granted", waited_ms=0),
        row(11, "released", text="a part: psu/psu-1"),
        row(12, "granted", text="exchanged"),
        row(13, "released"),
    )
    assert [(name, end) for name, _, end, _, _ in told(*rows)] == [
        ("holdall.claim", 10.0),
        ("holdall.lease", 13.0),
    ]


def test_the_end_of_a_lease_whose_grant_was_not_heard_is_no_span() -> None:
    assert told(row(10, "released")) == []


def test_without_a_collector_there_are_no_spans() -> None:
    assert spans_of("lab-1", {}) is None
    assert isinstance(spans_of("lab-1", {ENDPOINT: "http://127.0.0.1:1"}), Spans)
