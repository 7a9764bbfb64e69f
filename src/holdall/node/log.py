"""The node's log: readable on a terminal, one JSON object a line otherwise. Always on standard error."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, TextIO, cast

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import Event, Received
from holdall.machine.link_frames import Parcel
from holdall.model.names import printed_id
from holdall.protocols.vocabulary import ClaimId

CLAIMS_TOLD_MAX = 8


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


def claims_in(message: msgspec.Struct) -> list[str]:
    """The printed ids of the claims that a message speaks of, the first few of many: for the line about it."""
    found: dict[str, None] = {}
    for claim in _claims(message):
        found[printed_id(str(claim))] = None
        if len(found) == CLAIMS_TOLD_MAX:
            break
    return list(found)


def kind_of(event: Event) -> str:
    """An event without its contents, which may hold the secret of a lease: its kind, and whose message it is."""
    if isinstance(event, Received):
        return f"{type(event.message).__name__} from {event.sender.node}/{event.sender.part}"
    return type(event).__name__


def _claims(value: object) -> Iterator[ClaimId]:
    if isinstance(value, ClaimId):
        yield value
    elif isinstance(value, Parcel):
        with contextlib.suppress(CodecError):
            yield from _claims(CODEC.decode(value.body))
    elif isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _claims(getattr(value, name))
    elif isinstance(value, (tuple, list)):
        for part in cast("tuple[object, ...]", value):
            yield from _claims(part)
