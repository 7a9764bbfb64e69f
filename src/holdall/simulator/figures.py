"""The figures of a run: claims, grants, waits, overtaking and messages, counted as the common specification does.

Waits and times are in mean message delays. The first tenth of a run is dropped from waits and rates.
"""

from array import array
from collections import Counter
from functools import lru_cache

import msgspec

WARM_UP = 0.1
"""Share of a run that is not measured."""


class Figures(msgspec.Struct, kw_only=True):
    """What a run showed. Rates and waits are of the measured part, counts are of the whole run."""

    claims: int = 0
    grants: int = 0
    not_now: int = 0
    cancelled: int = 0
    lost: int = 0
    """Leases that ended before their holder gave them back."""
    given_up: int = 0
    """Claims that ended by a fault while they waited and were made anew."""
    throughput: float = 0.0
    """Grants per mean message delay."""
    mean: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    jain: float = 0.0
    """Jain's index over single waits: 1 when all waited alike."""
    percentiles: list[float] = []
    """The wait that 0, 1, … 100 % of the measured grants did not exceed."""
    overtaken: int = 0
    """Most claims that asked later, share a pool, and were granted earlier (request times of the clients)."""
    messages: dict[str, int] = {}
    """By kind."""
    messages_per_claim: float = 0.0
    """Protocol messages per grant, acknowledgements of an end not counted."""
    faults: dict[str, int] = {}
    """Faults that struck, by kind."""
    walled: int = 0
    """Messages that were lost since one group of hosts did not hear another; no faults of their own."""
    wide_mean: float | None = None
    wide_longest: float | None = None
    wide_overtaken: int | None = None
    wide_served: int | None = None


class _Waiting:
    __slots__ = ("overtaken", "passed_by", "pools", "since")

    def __init__(self, since: float, pools: tuple[int, ...]) -> None:
        self.since = since
        self.pools = pools
        self.overtaken = 0
        self.passed_by = 0
        """Number of the latest grant that overtook it: one that shares two pools counts once."""


@lru_cache(maxsize=1024)
def _bits(pools: int) -> tuple[int, ...]:
    found: list[int] = []
    while pools:  # by bits that are set: of 10,000 pools a claim has two
        low = pools & -pools
        found.append(low.bit_length())
        pools ^= low
    return tuple(found)


class Meter:
    """Follows claims from asking to the grant. All times in mean message delays."""

    def __init__(self, *, duration: float, wide_client: int | None) -> None:
        self.start = duration * WARM_UP
        self.end = duration
        self.wide_client = wide_client
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.walled = 0
        """Messages that were lost since the sender was not heard (split, oneway)."""
        self.measured_messages = 0
        self._waiting: dict[int, _Waiting] = {}
        self._at: dict[int, dict[int, _Waiting]] = {}
        """Waiting claims by pool and client, so that a grant looks at those only that share a pool with it."""
        self._waits = array("d")
        self._overtaken = 0
        self._wide: list[tuple[float, int]] = []

    def measured(self, now: float) -> bool:
        """Whether `now` is in the part of the run that counts."""
        return self.start <= now <= self.end

    def asked(self, client: int, now: float, pools: int) -> None:
        """A client claims; `pools` has one bit a pool."""
        self.counts["claims"] += 1
        mine = self._waiting[client] = _Waiting(now, _bits(pools))
        for pool in mine.pools:
            self._at.setdefault(pool, {})[client] = mine

    def granted(self, client: int, now: float) -> None:
        """All units of the claim are there."""
        self.counts["grants"] += 1
        number = self.counts["grants"]
        mine = self._waiting[client]
        self._forget(client)
        for pool in mine.pools:
            for other in self._at[pool].values():
                if other.since < mine.since and other.passed_by != number:
                    other.passed_by = number
                    other.overtaken += 1
        if self.measured(now):
            wait = now - mine.since
            self._waits.append(wait)
            self._overtaken = max(self._overtaken, mine.overtaken)
            if client == self.wide_client:
                self._wide.append((wait, mine.overtaken))

    def ended(self, client: int, how: str) -> None:
        """The claim is over without a grant, or its lease was lost: `how` is a field of Figures."""
        self.counts[how] += 1
        self._forget(client)

    def _forget(self, client: int) -> None:
        mine = self._waiting.pop(client, None)
        if mine is not None:
            for pool in mine.pools:
                del self._at[pool][client]

    def figures(self, messages: dict[str, int]) -> Figures:
        """The end of the run."""
        waits = sorted(self._waits)
        result = Figures(
            claims=self.counts["claims"],
            grants=self.counts["grants"],
            not_now=self.counts["not_now"],
            cancelled=self.counts["cancelled"],
            lost=self.counts["lost"],
            given_up=self.counts["given_up"],
            messages=dict(sorted(messages.items())),
            faults=dict(sorted(self.faults.items())),
            walled=self.walled,
            overtaken=self._overtaken,
        )
        if waits:
            total = sum(waits)
            result.throughput = len(waits) / max(self.end - self.start, 1e-9)
            result.mean = total / len(waits)
            result.p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
            result.longest = waits[-1]
            result.jain = total * total / (len(waits) * sum(wait * wait for wait in waits))
            result.percentiles = [
                waits[min(len(waits) - 1, len(waits) * share // 100)] for share in range(101)
            ]
            result.messages_per_claim = self.measured_messages / len(waits)
        if self.wide_client is not None:
            result.wide_served = len(self._wide)
            result.wide_mean = sum(wait for wait, _ in self._wide) / max(1, len(self._wide))
            result.wide_longest = max((wait for wait, _ in self._wide), default=0.0)
            result.wide_overtaken = max((over for _, over in self._wide), default=0)
        return result
