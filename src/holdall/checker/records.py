"""The lines of a history: what each says, and which values make no sense (format: "Input", history format).

Times are nanoseconds of one clock. Durations (`eps`, `max_wait`, `ttl`, …) are nanoseconds too, or text with a
unit such as `"2ms"`.
"""

import re
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

FOREVER: Final = 2**63
"""Later than every stamp: the end of what has no end."""

Stamp = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
Duration: TypeAlias = (
    Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | Annotated[str, msgspec.Meta(max_length=64)]
)
Need: TypeAlias = dict[Name, Count | Literal["all"]]

_UNIT_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
}
_DURATION: Final = re.compile(
    r"(?P<whole>[0-9]{1,15})(?:\.(?P<part>[0-9]{1,9}))?(?P<unit>ns|us|ms|s|m|h|d)", re.ASCII
)


def nanoseconds(duration: Duration) -> int:
    """A duration in nanoseconds. ValueError when a text is no number with a unit."""
    if isinstance(duration, int):
        return duration
    match = _DURATION.fullmatch(duration)
    if match is None:
        raise ValueError(
            f"{duration!r} is no duration; write nanoseconds, or a number with ns, us, ms, s, m, h or d"
        )
    part = match["part"] or ""
    unit = _UNIT_NS[match["unit"]]
    fraction_ns: int = int(part or "0") * unit // 10 ** len(part)
    return int(match["whole"]) * unit + fraction_ns


def _in_order(first: int | None, second: int | None, text: str) -> None:
    if first is not None and second is not None and second < first:
        raise ValueError(text)


class Record(msgspec.Struct, frozen=True, tag_field="t", forbid_unknown_fields=True):
    """One line. Unknown fields are refused: a misspelt optional field would weaken a rule without a word."""


class PoolSize(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a pool has: units with names, or so many that are only counted."""

    units: tuple[Name, ...] | None = None
    capacity: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None

    def __post_init__(self) -> None:
        if (self.units is None) == (self.capacity is None):
            raise ValueError("a pool has either units or a capacity")
        if self.units is not None and len(set(self.units)) != len(self.units):
            raise ValueError("a pool lists one unit twice")

    @property
    def size(self) -> int:
        """How many units there are."""
        return len(self.units) if self.units is not None else (self.capacity or 0)


class Setup(Record, frozen=True, tag="meta"):
    """What exists and what is promised; the driver says it once."""

    pools: dict[Name, PoolSize]
    eps: Duration = 0
    """Error of the clocks: two stamps of different parties are in a certain order from twice this on."""
    max_wait: Duration | None = None
    max_overtakes: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    max_reclaim: Duration | None = None

    def __post_init__(self) -> None:
        for duration in (self.eps, self.max_wait, self.max_reclaim):
            if duration is not None:
                nanoseconds(duration)


class Claim(Record, frozen=True, tag="claim"):
    """A client is about to ask."""

    claim: Name
    client: Name
    need: Need
    at: Stamp
    alternatives: tuple[Need, ...] = msgspec.field(default=(), name="or")
    """Other needs, each of which would do as well."""
    group: str = ""
    """Claims of one group have equal right."""


class Queued(Record, frozen=True, tag="queued"):
    """The client learned that it waits."""

    claim: Name
    at: Stamp
    bound: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None
    """So many younger claims may still pass, as the product said."""


class GrantedUnit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A unit with its fencing number, or a count of a pool whose units have no names."""

    pool: Name
    unit: Name | None = None
    fence: Count | None = None
    count: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None

    def __post_init__(self) -> None:
        if (self.unit is None) == (self.count is None):
            raise ValueError("an entry of units names either a unit or a count")
        if self.count is not None and self.fence is not None:
            raise ValueError("a count has no fence")


class Grant(Record, frozen=True, tag="grant"):
    """The client holds a lease from now on."""

    claim: Name
    units: tuple[GrantedUnit, ...]
    at: Stamp
    valid_until: Stamp | None
    lease: Name | None = None
    call: Stamp | None = None
    """When the message was sent after which the lease began."""
    ttl: Duration | None = None
    delegates: tuple[Name, ...] = ()
    """Clients that may renew or release it too."""

    def __post_init__(self) -> None:
        _in_order(self.call, self.at, "the answer came before its call")
        if self.ttl is not None:
            nanoseconds(self.ttl)

    @property
    def told(self) -> int:
        """Until when the lease is valid, as this answer says."""
        return FOREVER if self.valid_until is None else self.valid_until

    @property
    def lease_id(self) -> str:
        """The lease's id; the claim's where none is said."""
        return self.claim if self.lease is None else self.lease


class Fail(Record, frozen=True, tag="fail"):
    """The client got nothing; `definite` False: it gave up, and may yet have been granted."""

    claim: Name
    at: Stamp
    definite: bool = True


class Renew(Record, frozen=True, tag="renew"):
    """The answer to a renewal; one that was accepted says until when."""

    lease: Name
    ok: bool
    at: Stamp
    valid_until: Stamp | msgspec.UnsetType | None = msgspec.UNSET
    call: Stamp | None = None
    ttl: Duration | None = None
    by: Name | None = None

    def __post_init__(self) -> None:
        _in_order(self.call, self.at, "the answer came before its call")
        if self.ok and self.valid_until is msgspec.UNSET:
            raise ValueError("an accepted renewal needs valid_until (null: no end)")
        if self.ttl is not None:
            nanoseconds(self.ttl)

    @property
    def told(self) -> int:
        """Until when the lease is valid, as this answer says."""
        return self.valid_until if isinstance(self.valid_until, int) else FOREVER


class Resume(Record, frozen=True, tag="resume"):
    """A client that came back after a crash still holds the lease."""

    lease: Name
    at: Stamp
    valid_until: Stamp | None

    @property
    def told(self) -> int:
        """Until when the lease is valid, as the client knows."""
        return FOREVER if self.valid_until is None else self.valid_until


class Release(Record, frozen=True, tag="release"):
    """The client stopped using the lease at `call`; a second line may tell the answer."""

    lease: Name
    call: Stamp
    at: Stamp | None = None
    ok: bool | None = None
    by: Name | None = None

    def __post_init__(self) -> None:
        _in_order(self.call, self.at, "the answer came before its call")


class Lost(Record, frozen=True, tag="lost"):
    """The client knows that it lost the lease."""

    lease: Name
    at: Stamp


class Crash(Record, frozen=True, tag="crash"):
    """The driver is about to kill a client."""

    client: Name
    at: Stamp


class Use(Record, frozen=True, tag="use"):
    """A guarded unit was used with this number; the unit itself says so."""

    pool: Name
    unit: Name
    fence: Count
    start: Stamp
    end: Stamp | None = None
    accepted: bool = True

    def __post_init__(self) -> None:
        _in_order(self.start, self.end, "the use ends before it starts")


class Audit(Record, frozen=True, tag="audit"):
    """The product's own books of one pool."""

    pool: Name
    at: Stamp
    call: Stamp | None = None
    total: Count | None = None
    free: Count | None = None
    held: Count | None = None
    fences: dict[Name, Count] = msgspec.field(default_factory=dict[str, int])
    quiesced: bool = False

    def __post_init__(self) -> None:
        _in_order(self.call, self.at, "the answer came before its call")

    @property
    def asked(self) -> int:
        """When it was asked: what was certain before is in the books."""
        return self.at if self.call is None else self.call


class Fault(Record, frozen=True, tag="fault"):
    """Something was broken on purpose; `excuse`: no wait and no reclaim counts that time."""

    kind: Name
    start: Stamp
    end: Stamp | None = None
    excuse: bool = False
    client: Name | None = None
    """It hit this client alone (a pause, say): only its own waits are excused."""

    def __post_init__(self) -> None:
        _in_order(self.start, self.end, "the fault ends before it starts")


class End(Record, frozen=True, tag="end"):
    """Every claim has had its time."""

    at: Stamp


AnyRecord: TypeAlias = (
    Setup
    | Claim
    | Queued
    | Grant
    | Fail
    | Renew
    | Resume
    | Release
    | Lost
    | Crash
    | Use
    | Audit
    | Fault
    | End
)
