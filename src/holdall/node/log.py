"""The node's log: readable on a terminal, one JSON object a line otherwise. Always on standard error."""

import sys
from typing import Any, TextIO, cast

import structlog
from structlog.typing import FilteringBoundLogger, Processor


def make_log(stream: TextIO | None = None) -> FilteringBoundLogger:
    """A logger that writes to `stream` (standard error when None) and shares nothing with other loggers."""
    target = stream or sys.stderr
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if target.isatty():
        last: list[Processor] = [
            structlog.dev.ConsoleRenderer(colors=True, exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(default=str)]
    wrapped: Any = structlog.wrap_logger(
        structlog.WriteLogger(target),
        processors=[*shared, *last],
        wrapper_class=structlog.make_filtering_bound_logger(20),
        cache_logger_on_first_use=True,
    )
    return cast("FilteringBoundLogger", wrapped.bind())
