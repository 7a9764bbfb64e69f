"""A node's trace file: every turn as it was, so that a run of a real node replays without clock and sockets.

The file holds what clients said and the secrets that the node drew, so only its owner may read it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import Boot, Record
from holdall.machine.host import Arrival, Turn
from holdall.machine.trace import Header, Step, write_header, write_step
from holdall.model.errors import BadConfig
from holdall.node import families
from holdall.node.configured import Settings
from holdall.node.process import Process

__all__ = ["Recorder", "families", "records_of", "settings_of", "world_of"]


class Recorder:
    """Appends one line a turn to a new file. Raises BadConfig when the file can't be made."""

    def __init__(self, path: Path, settings: Settings, *, node: str, process: Process, version: str) -> None:
        """`node`: its id."""
        self._settings = settings
        self._node = node
        self._process = process
        self._version = version
        self._count = 0
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise BadConfig(f"can't write the trace {path}: {error.strerror}. Choose another file.") from None
        self._file = os.fdopen(descriptor, "wb")

    def began(
        self, boot: Boot, records: Mapping[str, Record], turn: Turn, *, at_ms: int, is_first: bool
    ) -> None:
        """The start of the machines, with what the journal had for them: the head of the file."""
        world = world_of(self._settings, records, boot, node=self._node, process=self._process)
        header = Header(
            holdall=self._version,
            driver="node",
            node=self._node,
            world=world,
            note="a run of a node",
        )
        self._file.write(write_header(header))
        step = Step(n=self._next(), at_ms=at_ms, host=self._node, turn=turn)
        step.kind = "start" if is_first else "recover"
        step.boot = None if is_first else boot
        self._write(step)

    def turned(self, arrivals: Sequence[Arrival], turn: Turn, *, at_ms: int) -> None:
        """One turn."""
        self._write(Step(n=self._next(), at_ms=at_ms, host=self._node, arrivals=tuple(arrivals), turn=turn))

    def close(self) -> None:
        """Write what is left."""
        self._file.close()

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _write(self, step: Step) -> None:
        self._file.write(write_step(step))
        self._file.flush()


def world_of(
    settings: Settings, records: Mapping[str, Record], boot: Boot, *, node: str, process: Process
) -> dict[str, Any]:
    """Settings, journal and start as plain values, from which `assembly.host_of_world` builds the host again."""
    kept = {key: CODEC.plain(record) for key, record in records.items()}
    plain: dict[str, Any] = {
        "settings": settings,
        "node": node,
        "records": kept,
        "epoch": boot.epoch,
        "incarnation": boot.incarnation,
        "process": process,
    }
    built: dict[str, Any] = msgspec.to_builtins(plain, enc_hook=str)
    return built


def settings_of(world: Mapping[str, Any]) -> Settings:
    """The settings that `world_of` was given."""

    def path(wanted: type, value: object) -> object:
        return Path(str(value)) if wanted is Path else value

    return msgspec.convert(world["settings"], Settings, dec_hook=path)


def records_of(world: Mapping[str, Any]) -> dict[str, Record]:
    """The records that `world_of` was given. Raises CodecError."""
    return {
        key: CODEC.from_plain(
            {family: msgspec.Raw(msgspec.json.encode(value)) for family, value in plain.items()}
        )
        for key, plain in world["records"].items()
    }
