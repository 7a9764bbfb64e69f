"""Runs of whole nodes for tests: scripts for clients, and what is counted on their bus."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import get_args

import msgspec

from holdall.checker.records import AnyRecord, Claim, Grant
from holdall.machine.codec import CODEC
from holdall.machine.contract import Message
from holdall.machine.link_frames import LinkFrame
from holdall.model.spec import parse_needs
from holdall.protocols.chain.messages import ChainMessage
from holdall.simulator.whole.run import WholeReport, WholeRun
from holdall.simulator.whole.setup import Wants, WholeSetup
from holdall.simulator.whole.wishes import Script, Series, Wish, Wishes

CHAIN = get_args(ChainMessage)
SOCKET_MS = 0.1
DELAY_MS = 5.0
TTL_MS = 6_000


class Traffic:
    """What left the nodes of a run, frame by frame; parcels that were sent again count once."""

    def __init__(self) -> None:
        self.now: Callable[[], float] = lambda: 0.0
        self.frames: list[tuple[float, int, int, Message]] = []
        self.parcels: list[tuple[float, int, int, Message]] = []
        self._seen: set[tuple[int, int, int]] = set()

    def __call__(self, sender: int, receiver: int, message: Message) -> None:
        self.frames.append((self.now(), sender, receiver, message))
        if not isinstance(message, LinkFrame) or (sender, receiver, message.seq) in self._seen:
            return
        self._seen.add((sender, receiver, message.seq))
        self.parcels += [
            (self.now(), sender, receiver, CODEC.decode(parcel.body)) for parcel in message.parcels
        ]

    def of_chain(self) -> list[tuple[float, int, int, str]]:
        """(time, sender, receiver, kind) of each message of the protocol."""
        return [
            (round(at, 3), sender, receiver, type(message).__name__)
            for at, sender, receiver, message in self.parcels
            if isinstance(message, CHAIN)
        ]

    def between(self, start: float, end: float) -> int:
        """Frames of all kinds that left in this time."""
        return sum(1 for at, *_ in self.frames if start <= at < end)


def counted(
    setup: WholeSetup, scripts: Mapping[int, Sequence[Series]]
) -> tuple[WholeReport, Traffic, list[AnyRecord]]:
    """One run without violation: its report, its traffic, its history."""
    traffic, history = Traffic(), list[AnyRecord]()
    run = WholeRun(setup, on_record=history.append, on_frame=traffic, scripts=scripts)
    traffic.now = lambda: run.now
    report = run.run()
    assert report.violations == []
    return report, traffic, history


def exact(
    nodes: int, *, pools: int = 1, units: int = 1, duration_ms: int = 20_000, passes: int = 8
) -> WholeSetup:
    """Nodes without clients of their own, where every frame takes 5 ms and nothing else takes time."""
    return WholeSetup(
        nodes=nodes,
        wants=Wants(clients=0, pools=pools, units=units, common=0),
        jitter=False,
        drift=0.0,
        delay_ms=DELAY_MS,
        duration_ms=duration_ms,
        ttl_ms=TTL_MS,
        passes=passes,
    )


def script(*specs: str, think_ms: float = 2_000, hold_ms: float = 500, times: int = 1) -> Script:
    """A client that wants these needs together, `times` times."""
    return Script([Wish(think_ms, parse_needs(list(specs)), hold_ms)] * times, ttl_ms=TTL_MS)


def waits(history: Sequence[AnyRecord], prefix: str = "") -> dict[str, float]:
    """Claim -> ms from its asking to its grant."""
    asked = {one.claim: one.at for one in history if isinstance(one, Claim)}
    return {
        one.claim: round((one.at - asked[one.claim]) / 1e6, 3)
        for one in history
        if isinstance(one, Grant) and one.claim.startswith(prefix)
    }


class Later:
    """A series that begins after a pause, when all nodes know of each other."""

    def __init__(self, series: Wishes, *, pause_ms: float) -> None:
        self.ttl_ms = series.ttl_ms
        self._series = series
        self._pause_ms = pause_ms

    def next(self) -> Wish:
        wish = self._series.next()
        pause_ms, self._pause_ms = self._pause_ms, 0.0
        return msgspec.structs.replace(wish, think_ms=wish.think_ms + pause_ms)


def kinds(parcels: Sequence[tuple[float, int, int, str]]) -> Counter[str]:
    """How many of each kind."""
    return Counter(kind for *_, kind in parcels)
