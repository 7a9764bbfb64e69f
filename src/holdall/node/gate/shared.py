"""The node's own gate: from it everybody on this host takes what may leave under a lease, so that all together keep to it.

Several proxies of one lease share its bucket, and all leases of a host's capacity the root bucket, whose rate is what they
have together, which is never more than the capacity. What was taken must leave within `BYTES_LATE_MS`, or is put back; the
buckets are smaller by as much, so over any window no more leaves than rate x time and the usual depth. What is taken counts as
used, and is told to the lease's host. Source: lease negotiation, section 8.1.
"""

import asyncio
import secrets
from collections.abc import Callable

from holdall.leases.buckets import NS, Bucket, quantum_for
from holdall.leases.windows import BusiestWindow
from holdall.model.frames import BYTES_LATE_MS, BytesTaken, TakeBytes
from holdall.model.terms import TermUse
from holdall.node.clock import boottime_ns
from holdall.node.gate.way import Cut, Way, depth_within
from holdall.parties.location.messages import BytesUsed, Rate

HOLD_S = 1.0
"""Who finds nothing to take is answered after so long, and asks again."""
TELL_S = 1.0
FORGET_NS = 60 * NS
PUT_BACK_NS = NS // 10
"""Later the bucket may have been full again without it: to give it back would be credit beyond the depth."""
"""A lease that is over for so long is forgotten."""
MS_NS = 1_000_000

RateOf = Callable[[str, str, str], Rate | None]
"""(user, lease, term) -> what the user has of the term now; None: no such lease of his is held at this node."""
Tell = Callable[[BytesUsed], None]


class _Main:
    """One capacity of one host, as `way.Main`."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.clock_ns, self.late_ms = clock_ns, BYTES_LATE_MS
        self.busiest = BusiestWindow(NS)
        self.quantum = quantum_for(0)
        self.root = Bucket(0, self.quantum)
        self.ways: set[_Leased] = set()

    def divide(self) -> None:
        """The root's rate is the sum of the leases'. Its depth only grows: to take depth away would forgive what it lacks."""
        rate = sum(one.way.rate for one in self.ways if one.until_ms)
        self.quantum = max(self.quantum, quantum_for(rate))
        depth = max(self.root.depth, self.quantum, depth_within(rate, self.late_ms))
        if rate != self.root.rate:
            self.root.change(self.clock_ns(), rate=rate, depth=depth)


class _Leased:
    """One capacity of one lease."""

    def __init__(self, main: _Main, user: str, lease: str, term: str) -> None:
        self.main, self.user, self.lease, self.term = main, user, lease, term
        self.way = Way(main, lease, 0)
        self.meter = secrets.token_hex(8)
        """Another one after each beginning of the gate, or of this part of it."""
        self.host = ""
        self.until_ms = 0
        """CLOCK_BOOTTIME; 0: there is no lease now."""
        self.over_ns = 0
        self.denied = 0
        self.told: TermUse | None = None

    def may(self) -> bool:
        """Whether something may leave in this instant."""
        return self.main.clock_ns() < self.until_ms * MS_NS

    def use(self) -> TermUse:
        """So far."""
        figures = self.way.figures(self.denied)
        return TermUse(
            self.term, figures.used, figures.state, figures.guarantee, self.denied, figures.violated_s
        )


class SharedGate:
    """One node's. `look` whenever leases may have changed; `close` at the end."""

    def __init__(self, rate_of: RateOf, tell: Tell, *, clock_ns: Callable[[], int] = boottime_ns) -> None:
        self.rate_of = rate_of
        self._tell, self._clock_ns = tell, clock_ns
        self._mains: dict[tuple[str, str], _Main] = {}
        """By host and term."""
        self._leased: dict[tuple[str, str, str], _Leased] = {}
        """By user, lease and term."""
        self._last: dict[str, tuple[_Leased, int, int]] = {}
        """Connection -> what it took last, and when."""
        self._taking: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def take(self, connection: str, user: str, ask: TakeBytes) -> BytesTaken:
        """What may leave now, or 0 after a while. A second question of one connection, before the answer, gets 0 at once."""
        began_ns = self._clock_ns()
        if connection in self._taking:
            return BytesTaken(ask.n)
        self._put_back(connection, ask.unused)
        leased = self._known(user, ask.lease, ask.term)
        if leased is None:
            return BytesTaken(ask.n)
        leased.denied += ask.denied
        self._tell_soon()
        if not ask.size:
            return BytesTaken(ask.n)
        self._taking.add(connection)
        try:
            size = await self._take(leased, ask.size)
        finally:
            is_open = connection in self._taking
            self._taking.discard(connection)
        if size and is_open:
            self._last[connection] = leased, size, self._clock_ns()
        elif size:
            leased.way.put_back(size)  # nobody hears of it any more
        return BytesTaken(ask.n, size, (self._clock_ns() - began_ns) // 1_000)

    def closed(self, connection: str) -> None:
        """Nothing more comes from there; what it took has left, for all that is known. Its use is told at once."""
        self._taking.discard(connection)
        last = self._last.pop(connection, None)
        if last is not None:
            self._tell_use(last[0])

    def look(self) -> None:
        """Leases may have come, changed or gone."""
        for leased in self._leased.values():
            self._refresh(leased)

    def busiest(self, host: str, term: str) -> int:
        """The most bytes that were let go in any second, under all leases of this capacity; 0 for one that is not known."""
        main = self._mains.get((host, term))
        return 0 if main is None else main.busiest.most

    def close(self) -> None:
        """No timer goes on."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------ inside

    async def _take(self, leased: _Leased, most: int) -> int:
        way, left = leased.way, 0
        way.offer(most)
        try:
            async with asyncio.timeout(HOLD_S), way.turn:
                left = await way.leave(most, may=leased.may)
        except (Cut, TimeoutError):
            pass
        finally:
            way.give_up(most - left)
        return left

    def _put_back(self, connection: str, unused: int) -> None:
        last = self._last.pop(connection, None)
        if last is None or not 0 < unused <= last[1]:
            return
        leased, _, taken_ns = last
        leased.way.put_back(unused, is_late=self._clock_ns() - taken_ns > PUT_BACK_NS)

    def _known(self, user: str, lease: str, term: str) -> _Leased | None:
        leased = self._leased.get((user, lease, term))
        if leased is None:
            rate = self.rate_of(user, lease, term)
            if rate is None:
                return None
            main = self._mains.setdefault((rate.host, term), _Main(self._clock_ns))
            leased = self._leased[user, lease, term] = _Leased(main, user, lease, term)
            main.ways.add(leased)
        self._refresh(leased)
        return leased

    def _refresh(self, leased: _Leased) -> None:
        rate = self.rate_of(leased.user, leased.lease, leased.term)
        granted = 0 if rate is None else rate.granted
        if rate is not None:
            leased.host = rate.host
        was_open, leased.until_ms = leased.until_ms > 0, 0 if rate is None else rate.until_ms
        if granted and (granted != leased.way.rate or not was_open):
            leased.way.change(granted)
            leased.main.divide()
        elif was_open and not granted:
            leased.over_ns = self._clock_ns()
            leased.way.ended()
            leased.way.stir()
            leased.main.divide()

    def _tell_soon(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TELL_S, self._tell_all)

    def _tell_all(self) -> None:
        self._timer = None
        now_ns = self._clock_ns()
        for key, leased in list(self._leased.items()):
            self._tell_use(leased)
            if not leased.until_ms and now_ns - leased.over_ns >= FORGET_NS:
                del self._leased[key]
                leased.main.ways.discard(leased)
        for name in [name for name, main in self._mains.items() if not main.ways]:
            del self._mains[name]
        if self._leased:
            self._tell_soon()

    def _tell_use(self, leased: _Leased) -> None:
        use = leased.use()
        if use != leased.told:
            leased.told = use
            self._tell(BytesUsed(leased.lease, leased.host, (use,), leased.meter))
