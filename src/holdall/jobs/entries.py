"""The log of a job: one entry for each thing that happened, in order. A job's state is what its log says.

Entries are kept by the node before anything is done that follows from them, so the log of a job that was broken off
anywhere tells what may have begun, and what has certainly ended.
"""

from typing import Literal, TypeAlias

import msgspec

from holdall.jobs.spec import Kind, Verdict
from holdall.model.decoding import decoded

TEXT_MAX = 500
JobVerdict: TypeAlias = Literal["succeeded", "failed", "cancelled"]


class Outcome(msgspec.Struct, frozen=True):
    """How an attempt ended. `status`: as a shell has it (128 + signal); None: the command has not ended by itself."""

    kind: Kind
    status: int | None = None
    text: str = ""


class Launched(msgspec.Struct, frozen=True, tag="launched"):
    """An attempt may have begun. `attempt` counts from 1 and is never used again; `round` from 1."""

    instance: str
    attempt: int
    round: int
    at_ms: int = 0
    """Wall clock, for people."""


class Granted(msgspec.Struct, frozen=True, tag="granted"):
    """It has all that it needs; `units` as `pool/unit@node#fence`. Changes nothing but what is shown."""

    instance: str
    attempt: int
    lease: str
    units: tuple[str, ...]
    at_ms: int = 0


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """No process of this attempt is left."""

    instance: str
    attempt: int
    outcome: Outcome
    at_ms: int = 0


class Decided(msgspec.Struct, frozen=True, tag="decided"):
    """Nothing more comes of this instance."""

    instance: str
    verdict: Verdict
    text: str = ""
    at_ms: int = 0


class Repeated(msgspec.Struct, frozen=True, tag="repeated"):
    """All tasks of a group are over, and begin anew: its round number `round`."""

    group: str
    round: int
    at_ms: int = 0


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """Somebody ended the job: nothing begins any more, what runs is stopped."""

    reason: str
    at_ms: int = 0


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """Last entry."""

    verdict: JobVerdict
    text: str = ""
    at_ms: int = 0


Entry: TypeAlias = Launched | Granted | Ended | Decided | Repeated | Cancelled | Finished

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """JSON, one line."""
    return _encoder.encode(entry)


def decode_entry(data: bytes) -> Entry:
    """Raises msgspec.DecodeError on what `encode_entry` can't have written."""
    return decoded(_decoder.decode, data)
