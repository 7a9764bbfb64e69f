"""A host of a run, with what a node's driver keeps for it: records, timers, and its boot record."""

import random
from collections.abc import Mapping
from enum import IntEnum

from holdall.leases.records import FENCE_KEY
from holdall.machine.contract import Boot, Record
from holdall.machine.host import SEPARATOR, Host
from holdall.simulator.faults import Strike
from holdall.simulator.systems import MANAGER

FENCE = f"{MANAGER}{SEPARATOR}{FENCE_KEY}"
SETTLED_MS = 0.002
"""A host that goes on first hears its timers, then what arrived meanwhile; then its client acts."""
UNDO_TURNS = 20
"""How many turns an unsynced journal may lack."""


class State(IntEnum):
    """Of a host."""

    UP = 0
    PAUSED = 1
    """Stands still; what arrives waits for it."""
    DOWN = 2
    """What arrives is lost."""


class Site:
    """A host, with what a driver keeps for it."""

    __slots__ = (
        "cut", "epoch", "fence_base", "host", "incarnation", "looks", "name", "quarantine_until", "rate", "records",
        "resume_at", "settling", "state", "timers", "undo", "undone",
    )  # fmt: skip

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.records: dict[str, Record] = {}
        self.timers: dict[str, float] = {}
        """When each is due, in true time."""
        self.looks: dict[str, float] = {}
        """When each is looked at next: not after it is due."""
        self.state = State.UP
        self.resume_at = 0.0
        self.settling = False
        """It has just gone on after a pause, and not heard yet what was due meanwhile."""
        self.cut: Strike | None = None
        self.rate = 1.0
        """Its clock shows so much time while one unit of true time goes by."""
        self.epoch = 1
        self.incarnation = 1
        # what a node keeps in its boot record, beside the journal
        self.fence_base = 0
        self.quarantine_until = 0.0
        self.undo: list[dict[str, Record | None]] = []
        self.undone: dict[str, Record | None] = {}
        """What the latest boot found otherwise than its turns had saved it."""

    def save(self, saves: Mapping[str, Record | None], *, undo: bool) -> None:
        """One turn's records, None where one goes; with `undo` the turn may be taken back by a fault."""
        if not undo:
            for key, record in saves.items():
                self._put(key, record)
            return
        before: dict[str, Record | None] = {}
        for key, record in saves.items():
            before[key] = self.records.get(key)
            self._put(key, record)
        if before:
            self.undo.append(before)
            del self.undo[:-UNDO_TURNS]

    def boot(self, kind: str, *, now: float, ttl_ms: int, chance: random.Random) -> Boot:
        """Up again after a fault of this kind, at `now` (ms), with the records that it left."""
        self.state = State.UP
        self.incarnation += 1
        self.undone = {}
        if kind in {"reboot", "unsynced", "wipe"}:
            self.epoch += 1
            self.fence_base = self.epoch << 20 if kind == "wipe" else self.fence_base
        if kind in {"unsynced", "wipe"}:
            self.quarantine_until = now + int(ttl_ms * 1.02) + 1
        if kind == "wipe":
            self.records.clear()
            self.undo.clear()
        elif kind == "unsynced":
            self._unsync(chance)
        return Boot(
            {"reboot": "reboot", "unsynced": "reboot", "wipe": "lost"}.get(kind, "same"),
            self.epoch,
            self.incarnation,
            max(0, int(self.quarantine_until - now)),
            self.fence_base,
        )

    def _unsync(self, chance: random.Random) -> None:
        """The journal's last turns were never on the disk; blocks of fences always are."""
        for before in reversed(self.undo[chance.randint(0, len(self.undo)) :]):
            for key, record in before.items():
                if key != FENCE:
                    self._put(key, record)
                    self.undone[key] = record
        self.undo.clear()

    def _put(self, key: str, record: Record | None) -> None:
        if record is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record
