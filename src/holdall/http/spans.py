"""Spans of OpenTelemetry, made of the node's history: `holdall.claim` until its grant or end, `holdall.lease` from there on.

Only with the extra `otel`, and where the environment names a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`). The history is
what happened, so a span is told when it is over; one whose node ends before is not told.
"""

import os
from collections.abc import Mapping
from typing import Any, Protocol

from holdall.model import frames

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OPEN_MAX = 100_000
UNGRANTED = frozenset({"timed-out", "cancelled", "refused"})
ENDS = frozenset({"released", "expired", "lost", "kicked"})
PART = "a part:"
"""How the text of a `released` begins that gave back a part only."""
NS = 1_000_000


class Tracer(Protocol):
    """What this file needs of OpenTelemetry's."""

    def start_span(self, name: str, *, attributes: Any = None, start_time: int | None = None) -> Any:
        """A span that begins at `start_time` nanoseconds."""
        ...


class Spans:
    """Takes the lines of a node's history in their order."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._open: dict[str, tuple[Any, int]] = {}
        """By lease: its span, and when it began."""

    def row(self, row: frames.LogRow) -> None:
        """One line."""
        if not row.lease:
            return
        if row.kind == "granted":
            self._granted(row)
        elif row.kind in UNGRANTED and row.lease not in self._open:
            self._claim(row, started_ms=row.at_ms)
        elif row.kind in ENDS and not row.text.startswith(PART):
            self._ended(row)

    def _granted(self, row: frames.LogRow) -> None:
        if row.lease in self._open:
            return  # exchanged: the lease goes on with other units
        started_ms = row.at_ms - (row.waited_ms or 0)
        self._claim(row, started_ms=started_ms)
        while len(self._open) >= OPEN_MAX:
            self._open.pop(next(iter(self._open)))
        span = self._tracer.start_span("holdall.lease", start_time=row.at_ms * NS, attributes=_facts(row))
        self._open[row.lease] = (span, row.at_ms)

    def _claim(self, row: frames.LogRow, *, started_ms: int) -> None:
        facts = {**_facts(row), "holdall.outcome": row.kind, "holdall.text": row.text}
        span = self._tracer.start_span("holdall.claim", start_time=started_ms * NS, attributes=facts)
        span.end(end_time=row.at_ms * NS)

    def _ended(self, row: frames.LogRow) -> None:
        found = self._open.pop(row.lease, None)
        if found is None:
            return
        span, began_ms = found
        span.set_attribute("holdall.outcome", row.kind)
        span.set_attribute("holdall.text", row.text)
        span.end(end_time=max(row.at_ms, began_ms) * NS)


def _facts(row: frames.LogRow) -> dict[str, Any]:
    return {
        "holdall.claim.id": row.lease,
        "holdall.holder": row.holder,
        "holdall.node": row.node,
        "holdall.units": list(row.units),
    }


def spans_of(node: str, environment: Mapping[str, str] = os.environ) -> "Spans | str | None":
    """Spans that go to the collector that the environment names; None: it names none; a text: why they can't."""
    if not environment.get(ENDPOINT):
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        return f"{ENDPOINT} is set, but OpenTelemetry is not installed: pip install 'holdall[otel]'"
    provider = TracerProvider(
        resource=Resource.create({"service.name": "holdall", "service.instance.id": node})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(provider.get_tracer("holdall"))
