"""The clients of a run: each thinks, claims, holds and gives back, for ever, and believes only what it was told."""

from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache

from holdall.machine.contract import Message
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Gone,
    Granted,
    NotNow,
    Release,
    Terms,
    UnitGrant,
    Visit,
)
from holdall.simulator.figures import Meter
from holdall.simulator.history import History
from holdall.simulator.judge import Judge
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.workload import Client, Wish


class Phase(IntEnum):
    """Where a client is in its loop."""

    THINKING = 0
    WAITING = 1
    HOLDING = 2
    STOPPED = 3
    """The run is over for it."""


class Action(IntEnum):
    """What a client does when its time comes."""

    CLAIM = 0
    GIVE_BACK = 1
    GIVE_UP = 2


class Seat:
    """One client, and the host from which it claims now."""

    __slots__ = (
        "claim", "client", "counter", "host", "number", "phase", "pools", "replaced", "suspended", "units", "wanted",
        "wish",
    )  # fmt: skip

    def __init__(self, client: Client, host: str) -> None:
        self.client = client
        self.number = client.number
        self.host = host
        self.counter = 0
        self.replaced = 0
        self.phase = Phase.THINKING
        self.suspended = False
        self.wish: Wish = client.next()
        self.claim: ClaimId | None = None
        self.units: tuple[UnitGrant, ...] = ()
        self.wanted: Mapping[tuple[str, str], int] = {}
        self.pools = 0


class Driver:
    """What a client asks of the run: an alarm after so many ms, and a command to its claimant.

    `claimed` is told how many claims there have been, each time one more has begun.
    """

    def __init__(
        self,
        now: Callable[[], float],
        alarm: Callable[[Seat, Action, ClaimId | None, float], None],
        command: Callable[[str, Message], None],
        claimed: Callable[[int], None],
    ) -> None:
        self.now = now
        self.alarm = alarm
        self.command = command
        self.claimed = claimed


class Seats:
    """All clients of a run."""

    def __init__(
        self, setup: Setup, driver: Driver, meter: Meter, judge: Judge, history: History | None = None
    ) -> None:
        self._setup = setup
        self._history = history
        self._claims_left = setup.claims
        self._claims = 0
        self._driver = driver
        self._meter = meter
        self._judge = judge
        self.end_ms = setup.duration * DELAY_MS
        """No claim begins later."""
        self._terms = Terms(ttl_ms=setup.ttl_ms)
        workload = setup.workload
        self._bit = {
            (workload.node_name(workload.node_of(pool)), workload.pool_name(pool)): 1 << pool
            for pool in range(workload.pools)
        }
        self._wanted = lru_cache(maxsize=1024)(self._count_wanted)
        self.seats = [
            Seat(Client(workload, number, setup.seed), f"c{number:04d}")
            for number in range(workload.client_count)
        ]
        self.by_host = {seat.host: seat for seat in self.seats}
        self.standing_still: set[int] = set()
        """Numbers of the clients that hold units without using them (`Seat.suspended`)."""

    def begin(self) -> None:
        """Everybody thinks first."""
        for seat in self.seats:
            self._think(seat)

    def act(self, seat: Seat, action: Action, claim: ClaimId | None) -> None:
        """The client's time has come; an alarm of an earlier claim has no effect."""
        if claim != seat.claim:
            return
        match action:
            case Action.CLAIM:
                self._ask(seat)
            case Action.GIVE_BACK if seat.phase is Phase.HOLDING:
                self._give_back(seat)
            case Action.GIVE_UP if seat.phase is Phase.WAITING and claim is not None:
                self._meter.ended(seat.number, "cancelled")
                if self._history is not None:
                    self._history.fail(claim, self._driver.now(), definite=False)
                self._over(seat)
                self._driver.command(seat.host, Release(claim))
            case _:
                pass

    def told(self, host: str, message: Message) -> bool:
        """The claimant says something to its client; True when units were granted to it just now."""
        seat = self.by_host.get(host)
        if seat is None or seat.claim is None or getattr(message, "claim", None) != seat.claim:
            return False
        match message:
            case Granted(_, _, units):
                return self._granted(seat, units)
            case NotNow() if seat.phase is Phase.WAITING:
                self._meter.ended(seat.number, "not_now")
                if self._history is not None:
                    self._history.fail(seat.claim, self._driver.now(), definite=True)
                self._over(seat)
            case Gone():
                self._meter.ended(seat.number, "lost" if seat.phase is Phase.HOLDING else "given_up")
                self._judge.stopped(seat.number, seat.units)
                if self._history is not None:
                    self._gone(self._history, seat, seat.claim)
                self._over(seat)
            case _:
                pass
        return False

    def replace(self, seat: Seat) -> str:
        """The client's host has fallen silent for ever: nobody uses its units, and it claims from a new host."""
        if seat.phase is Phase.WAITING:
            self._meter.ended(seat.number, "given_up")
        self._judge.stopped(seat.number, seat.units)
        if self._history is not None:
            self._history.stopped(seat.host, self._driver.now())
        del self.by_host[seat.host]
        seat.replaced += 1
        seat.host = f"c{seat.number:04d}-{seat.replaced}"
        seat.counter = 0
        self.by_host[seat.host] = seat
        self._over(seat)
        return seat.host

    def suspend(self, host: str) -> None:
        """The host is down or stands still: its client uses nothing meanwhile."""
        seat = self.by_host.get(host)
        if seat is not None and seat.phase is Phase.HOLDING:
            seat.suspended = True
            self.standing_still.add(seat.number)
            self._judge.stopped(seat.number, seat.units)
            if self._history is not None:
                self._history.stopped(seat.host, self._driver.now())

    def suspended(self, host: str) -> ClaimId | None:
        """The claim whose units the client of this host holds without using them."""
        seat = self.by_host.get(host)
        return seat.claim if seat is not None and seat.suspended else None

    def resume(self, host: str) -> None:
        """The host goes on, and the lease has not ended meanwhile: the client uses its units again."""
        seat = self.by_host.get(host)
        if seat is not None and seat.suspended:
            seat.suspended = False
            self.standing_still.discard(seat.number)
            self._judge.used_again(seat.number, seat.units)
            if self._history is not None and seat.claim is not None:
                self._history.resumed(seat.claim, self._driver.now())

    def waiting(self) -> list[int]:
        """Clients that have claimed and have no answer."""
        return [seat.number for seat in self.seats if seat.phase is Phase.WAITING]

    def _think(self, seat: Seat) -> None:
        pause = seat.wish.think * DELAY_MS
        if self._driver.now() + pause > self.end_ms or self._claims_left == 0:
            seat.phase = Phase.STOPPED
        else:
            seat.phase = Phase.THINKING
            self._driver.alarm(seat, Action.CLAIM, None, pause)

    def _over(self, seat: Seat) -> None:
        seat.claim = None
        seat.units = ()
        seat.suspended = False
        self.standing_still.discard(seat.number)
        seat.wish = seat.client.next()
        self._think(seat)

    def _gone(self, history: History, seat: Seat, claim: ClaimId) -> None:
        if seat.phase is Phase.HOLDING:
            history.lost(claim, self._driver.now())
        else:
            history.fail(claim, self._driver.now(), definite=False)

    def _count_wanted(self, need: tuple[Visit, ...]) -> tuple[Mapping[tuple[str, str], int], int]:
        """(node, pool) -> units, and the pools, one bit each."""
        wanted = {(visit.node, pool): units for visit in need for pool, units in visit.alternatives[0]}
        return wanted, sum(self._bit[pool] for pool in wanted)

    def _ask(self, seat: Seat) -> None:
        if self._claims_left == 0:
            seat.phase = Phase.STOPPED
            return
        wish = seat.wish
        seat.counter += 1
        seat.claim = ClaimId(seat.host, 1, seat.counter)
        seat.phase = Phase.WAITING
        seat.wanted, seat.pools = self._wanted(wish.need)
        self._meter.asked(seat.number, self._driver.now() / DELAY_MS, seat.pools)
        if self._history is not None:
            self._history.claim(seat.claim, seat.wanted, self._driver.now())
        if self._claims_left is not None:
            self._claims_left -= 1
        self._claims += 1
        self._driver.claimed(self._claims)
        if wish.patience is not None:
            self._driver.alarm(seat, Action.GIVE_UP, seat.claim, wish.patience * DELAY_MS)
        self._driver.command(seat.host, Acquire(seat.claim, wish.need, wish.wait, self._terms))

    def _granted(self, seat: Seat, units: tuple[UnitGrant, ...]) -> bool:
        if seat.phase is Phase.HOLDING and seat.units == units:
            self.resume(seat.host)  # told again after a restart of its host
            return False
        if seat.phase is not Phase.WAITING:
            self._judge.property(seat.host, [f"one grant: {seat.claim} was granted other units later"])
            return False
        seat.phase = Phase.HOLDING
        seat.units = units
        self._judge.granted(seat.number, units, seat.wanted)
        self._meter.granted(seat.number, self._driver.now() / DELAY_MS)
        if self._history is not None and seat.claim is not None:
            self._history.grant(seat.claim, units, self._driver.now())
        self._driver.alarm(seat, Action.GIVE_BACK, seat.claim, seat.wish.hold * DELAY_MS)
        return True

    def _give_back(self, seat: Seat) -> None:
        claim = seat.claim
        if claim is not None:
            self._judge.stopped(seat.number, seat.units)
            if self._history is not None:
                self._history.release(claim, self._driver.now())
            self._over(seat)
            self._driver.command(seat.host, Release(claim))
