"""Writes what a client, a guarded resource or a test driver saw, as JSON lines that `holdall check` judges.

Every line goes out in one write to a file opened for appending, at once and without a buffer: many processes
may share a file, and a `kill -9` loses nothing that was said before it. Times are nanoseconds of
CLOCK_MONOTONIC. The order of saying and doing matters: `claim` and `release` are said *before* the message is
sent, `grant`, `renew` and `lost` when their news has arrived, so that what the file shows a client to believe
is never more than what it did believe.
"""

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

import msgspec

Need: TypeAlias = Mapping[str, int | str]
"""Pool name -> number of units; `"all"` for every unit that the pool has when the claim is granted."""


class Unit(msgspec.Struct, frozen=True):
    """One granted unit; `unit` is unique in its pool, also where the pool is on many nodes: `psu-1@lab-1`."""

    pool: str
    unit: str
    fence: int | None


class Amount(msgspec.Struct, frozen=True):
    """So many units of a pool whose units have no names."""

    pool: str
    count: int


Granted: TypeAlias = Unit | Amount


class UnitNames(msgspec.Struct, frozen=True):
    """A pool whose units have names."""

    units: Sequence[str]


class Capacity(msgspec.Struct, frozen=True):
    """A pool that is counted."""

    capacity: int


Pool: TypeAlias = UnitNames | Capacity


READS_APART_NS_MAX = 50_000
READS_MAX = 100


def _boottime_to_monotonic_ns() -> int:
    """What to add to CLOCK_BOOTTIME. Read again if this process was stopped between its looks at the two clocks."""
    closest = (1 << 62, 0)
    for _ in range(READS_MAX):
        before = time.monotonic_ns()
        boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        apart = time.monotonic_ns() - before
        closest = min(closest, (apart, before - boottime))
        if apart <= READS_APART_NS_MAX:
            break
    return closest[1]


class HistoryWriter:
    """Appends to `path` in the name of `client`; safe to use from several threads and processes at once.

    Raises OSError when the file cannot be opened or a line cannot be written whole.
    """

    def __init__(self, path: str | Path, client: str) -> None:
        self.path = Path(path)
        self.client = client
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._last_claim = 0
        self._end_torn_line()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent. A line said after it raises ValueError."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    @staticmethod
    def now() -> int:
        """The stamp of this moment, in nanoseconds of CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    @staticmethod
    def stamp_of(boottime_ns: int | None) -> int | None:
        """A deadline kept on CLOCK_BOOTTIME, as a stamp of the history's clock (they differ by time suspended)."""
        if boottime_ns is None:
            return None
        return boottime_ns + _boottime_to_monotonic_ns()

    def new_claim(self) -> str:
        """An id that no other claim of this machine's histories has, for callers without one of their own."""
        self._last_claim += 1
        return f"{self.client}/{os.getpid()}-{time.monotonic_ns():x}-{self._last_claim}"

    # ------------------------------------------------------------ said by clients

    def claim(
        self,
        claim: str,
        need: Need,
        *,
        otherwise: Sequence[Need] = (),
        group: str | None = None,
        at: int | None = None,
    ) -> int:
        """Before the claim is sent. `otherwise`: other whole needs that would do as well (`--or`)."""
        alternatives = list(otherwise) or None
        return self._say(
            "claim",
            at,
            {"claim": claim, "client": self.client, "need": need, "or": alternatives, "group": group},
        )

    def queued(self, claim: str, *, bound: int | None = None, at: int | None = None) -> int:
        """The client learned that it waits; `bound`: how many younger claims may still pass, as it was told."""
        return self._say("queued", at, {"claim": claim, "bound": bound})

    def grant(
        self,
        claim: str,
        units: Sequence[Granted],
        *,
        valid_until: int | None,
        lease: str | None = None,
        call: int | None = None,
        ttl_ns: int | None = None,
        delegates: Sequence[str] = (),
        at: int | None = None,
    ) -> int:
        """On receipt. `call`: stamp taken before sending the message from which `valid_until` is counted."""
        fields: dict[str, object] = {
            "claim": claim,
            "lease": lease,
            "units": list(units),
            "call": call,
            "ttl": ttl_ns,
            "delegates": list(delegates) or None,
        }
        return self._say("grant", at, fields, valid_until=valid_until)

    def fail(self, claim: str, *, definite: bool = True, at: int | None = None) -> int:
        """Not granted. `definite` False: the answer is unknown, it may yet have been granted."""
        return self._say("fail", at, {"claim": claim, "definite": definite})

    def renew(
        self,
        lease: str,
        *,
        ok: bool,
        valid_until: int | None,
        call: int | None = None,
        ttl_ns: int | None = None,
        by: str | None = None,
        at: int | None = None,
    ) -> int:
        """On receipt of the answer to a renewal whose sending was preceded by the stamp `call`."""
        fields: dict[str, object] = {"lease": lease, "ok": ok, "call": call, "ttl": ttl_ns, "by": by}
        return self._say("renew", at, fields, valid_until=valid_until)

    def resume(self, lease: str, *, valid_until: int | None, at: int | None = None) -> int:
        """This client came back after a crash and still holds the lease."""
        return self._say("resume", at, {"lease": lease}, valid_until=valid_until)

    def releasing(self, lease: str, *, by: str | None = None, call: int | None = None) -> int:
        """The client has stopped using the lease and is about to say so: before the message is sent.

        Returns the stamp that `released` is given when the answer comes.
        """
        stamp = self.now() if call is None else call
        self._write({"t": "release", "lease": lease, "call": stamp, "by": by}, {})
        return stamp

    def released(
        self, lease: str, *, call: int, ok: bool | None, by: str | None = None, at: int | None = None
    ) -> int:
        """The answer to a release. `ok` None: no answer came."""
        return self._say("release", at, {"lease": lease, "call": call, "ok": ok, "by": by})

    def lost(self, lease: str, *, at: int | None = None) -> int:
        """The client knows that it lost the lease, and has stopped using it."""
        return self._say("lost", at, {"lease": lease})

    # ------------------------------------------------------------ said by drivers and guarded resources

    def meta(
        self,
        pools: Mapping[str, Pool],
        *,
        eps: str | None = None,
        max_wait: str | None = None,
        max_overtakes: int | None = None,
        max_reclaim: str | None = None,
    ) -> None:
        """Once, by the driver: what exists, and what is promised. Durations with a unit: `2ms`, `30s`."""
        self._write(
            {
                "t": "meta",
                "pools": pools,
                "eps": eps,
                "max_wait": max_wait,
                "max_overtakes": max_overtakes,
                "max_reclaim": max_reclaim,
            },
            {},
        )

    def crash(self, client: str, *, at: int | None = None) -> int:
        """Before `client` is ended with `kill -9` (stop it with SIGSTOP first: it must say nothing later)."""
        return self._say("crash", at, {"client": client})

    def fault(
        self,
        kind: str,
        *,
        start: int,
        end: int | None = None,
        excuse: bool = False,
        client: str | None = None,
    ) -> None:
        """Something was broken from `start` to `end`; `excuse`: that time counts in no wait and no reclaim.

        `client`: it hit this client alone, and excuses only its waits.
        """
        self._write(
            {
                "t": "fault",
                "kind": kind,
                "start": start,
                "end": end,
                "excuse": excuse or None,
                "client": client,
            },
            {},
        )

    def audit(
        self,
        pool: str,
        *,
        call: int | None = None,
        total: int | None = None,
        free: int | None = None,
        held: int | None = None,
        fences: Mapping[str, int] | None = None,
        quiesced: bool = False,
        at: int | None = None,
    ) -> int:
        """The product's own books, asked at `call` and answered at `at`; `quiesced`: nobody holds or asks."""
        fields: dict[str, object] = {
            "pool": pool,
            "call": call,
            "total": total,
            "free": free,
            "held": held,
            "fences": fences,
            "quiesced": quiesced or None,
        }
        return self._say("audit", at, fields)

    def use(
        self,
        pool: str,
        unit: str,
        *,
        fence: int,
        start: int,
        end: int | None = None,
        accepted: bool = True,
    ) -> None:
        """Said by the guarded resource itself, never by the client."""
        self._write(
            {
                "t": "use",
                "pool": pool,
                "unit": unit,
                "fence": fence,
                "start": start,
                "end": end,
                "accepted": accepted,
            },
            {},
        )

    def end(self, *, at: int | None = None) -> int:
        """Once, by the driver, when every claim has had its time."""
        return self._say("end", at, {})

    # ------------------------------------------------------------ one line

    def _end_torn_line(self) -> None:
        """Somebody may have died while writing: the next line must not be glued to half of theirs."""
        with self.path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                os.write(self._file, b"\n")

    def _say(self, kind: str, at: int | None, fields: Mapping[str, object], **kept: int | None) -> int:
        stamp = self.now() if at is None else at
        self._write({"t": kind, **fields, "at": stamp}, kept)
        return stamp

    def _write(self, fields: Mapping[str, object], kept: Mapping[str, int | None]) -> None:
        """Absent values are left out, except those `kept`, where null has a meaning."""
        if self._file < 0:
            raise ValueError(f"the history {self.path} is closed")
        said = {name: value for name, value in fields.items() if value is not None}
        line = msgspec.json.encode({**said, **kept}) + b"\n"
        if os.write(self._file, line) != len(line):
            raise OSError(
                f"the disk took only a part of a line of the history {self.path}: free space and run again"
            )
