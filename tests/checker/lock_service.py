"""A small lock service that is right, on a simulated clock, and the history its clients record.

It grants in strict order of arrival, all or nothing. Its lease runs from its own clock with a surplus, the
holder's from before the activation was sent with a deduction, so a holder always stops first. Clients crash,
stall, renew late, give up, and go on using what they lost; messages take their time, and are lost at times.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from checker import lines
from checker.lines import Said

MS = 1_000_000
TTL = 300 * MS


@dataclass(slots=True)
class Weather:
    """How rough the run is: chances in percent, and clock errors in nanoseconds."""

    clients: int = 5
    claims_each: int = 8
    crash: int = 5
    stall: int = 10
    give_up: int = 10
    lost_message: int = 3
    clock_error: int = 0


@dataclass(slots=True)
class Waiting:
    claim: str
    need: dict[str, int]
    client: "Client"


@dataclass(slots=True)
class Lease:
    claim: str
    units: list[tuple[str, str, int]]
    amounts: dict[str, int]
    client: "Client"
    expires: int
    active: bool = False


@dataclass(slots=True)
class Client:
    name: str
    skew: int
    alive: bool = True
    stalled_until: int = 0
    left: int = 0


@dataclass(slots=True)
class Guard:
    """The guarded unit: refuses every number below the highest it saw."""

    highest: int = 0


@dataclass(slots=True)
class Service:
    """Pools `p0`…`p3` have named units, pool `n` is counted."""

    random: random.Random
    weather: Weather
    history: list[Said] = field(default_factory=list[Said])
    now: int = 1_000 * MS
    moments: list[tuple[int, int, Callable[[], None]]] = field(
        default_factory=list[tuple[int, int, Callable[[], None]]]
    )
    counter: int = 0
    free: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    amount: int = 3
    fences: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    guards: dict[tuple[str, str], Guard] = field(default_factory=dict[tuple[str, str], Guard])
    queue: list[Waiting] = field(default_factory=list[Waiting])
    leases: dict[str, Lease] = field(default_factory=dict[str, Lease])
    sizes: dict[str, int] = field(default_factory=dict[str, int])

    # ---- the clock and the network

    def later(self, after: int, action: Callable[[], None]) -> None:
        self.counter += 1
        heapq.heappush(self.moments, (self.now + after, self.counter, action))

    def percent(self, chance: int) -> bool:
        return self.random.randrange(100) < chance

    def send(self, action: Callable[[], None]) -> None:
        """To the service; may be lost."""
        if not self.percent(self.weather.lost_message):
            self.later(self.random.randrange(1, 20) * MS, action)

    def tell(self, client: Client, action: Callable[[], None]) -> None:
        """To a client, repeated until it has it; a stalled one reads it when it goes on, a dead one never."""
        self.later(self.random.randrange(1, 20) * MS, lambda: self.at_client(client, action))

    def answer(self, client: Client, action: Callable[[], None]) -> None:
        """As `tell`, but may be lost."""
        if not self.percent(self.weather.lost_message):
            self.tell(client, action)

    def at_client(self, client: Client, action: Callable[[], None]) -> None:
        if not client.alive:
            return
        if client.stalled_until > self.now:
            self.later(client.stalled_until - self.now, lambda: self.at_client(client, action))
            return
        action()

    def said(self, client: Client, line: Said) -> None:
        """With the client's own clock."""
        clocked = ("at", "call", "valid_until")
        self.history.append(
            {
                key: value + client.skew if key in clocked and isinstance(value, int) else value
                for key, value in line.items()
            }
        )

    # ---- the service

    def arrives(self, waiting: Waiting) -> None:
        self.queue.append(waiting)
        self.scan()
        if waiting in self.queue:
            self.tell(waiting.client, lambda: self.hears_queued(waiting))

    def hears_queued(self, waiting: Waiting) -> None:
        if any(other is waiting for other in self.queue):
            self.said(waiting.client, lines.queued(waiting.claim, self.now, bound=0))

    def scan(self) -> None:
        while self.queue and self.fits(self.queue[0].need):
            waiting = self.queue.pop(0)
            lease = self.book(waiting)
            self.tell(waiting.client, lambda waiting=waiting, lease=lease: self.hears_booked(waiting, lease))  # type: ignore[misc]

    def fits(self, need: dict[str, int]) -> bool:
        return all(
            (self.amount if pool == "n" else len(self.free[pool])) >= number for pool, number in need.items()
        )

    def book(self, waiting: Waiting) -> Lease:
        lease = Lease(waiting.claim, [], {}, waiting.client, self.now + TTL // 2)
        for pool, number in waiting.need.items():
            if pool == "n":
                self.amount -= number
                lease.amounts["n"] = number
                continue
            for _ in range(number):
                unit = self.free[pool].pop(self.random.randrange(len(self.free[pool])))
                self.fences[pool, unit] = self.fences.get((pool, unit), 0) + 1
                lease.units.append((pool, unit, self.fences[pool, unit]))
        self.leases[waiting.claim] = lease
        self.later(TTL // 2 + 1, lambda: self.expires(lease))
        return lease

    def expires(self, lease: Lease) -> None:
        if self.leases.get(lease.claim) is lease and lease.expires <= self.now:
            self.ends(lease)

    def ends(self, lease: Lease) -> None:
        del self.leases[lease.claim]
        for pool, unit, _ in lease.units:
            self.free[pool].append(unit)
        self.amount += sum(lease.amounts.values())
        self.scan()

    def lives_on(self, lease: Lease) -> bool:
        if self.leases.get(lease.claim) is not lease:
            return False
        lease.active = True
        lease.expires = self.now + TTL * 102 // 100
        self.later(TTL * 102 // 100 + 1, lambda: self.expires(lease))
        return True

    # ---- a client

    def starts(self, client: Client) -> None:
        if not client.alive or client.left == 0:
            return
        client.left -= 1
        pools = self.random.sample(sorted(self.sizes), self.random.randrange(1, 4))
        need = {pool: self.random.randrange(1, min(2, self.sizes[pool]) + 1) for pool in pools}
        name = f"{client.name}/{client.left}"
        waiting = Waiting(name, need, client)
        self.said(client, {**lines.claim(name, need, self.now), "client": client.name})
        self.send_until_answered(lambda: self.arrives_once(waiting))
        if self.percent(self.weather.give_up):
            self.later(
                self.random.randrange(200, 2_000) * MS,
                lambda: self.at_client(client, lambda: self.gives_up(waiting)),
            )

    def send_until_answered(self, action: Callable[[], None]) -> None:
        """Requests are repeated; only the first arrival counts."""
        self.later(self.random.randrange(1, 60) * MS, action)

    def arrives_once(self, waiting: Waiting) -> None:
        if waiting.client.alive:
            self.arrives(waiting)

    def gives_up(self, waiting: Waiting) -> None:
        if any(other is waiting for other in self.queue):
            self.queue[:] = [other for other in self.queue if other is not waiting]
            self.said(waiting.client, lines.fail(waiting.claim, self.now, definite=True))
            self.scan()
            self.later(self.random.randrange(50) * MS, lambda: self.starts(waiting.client))

    def hears_booked(self, waiting: Waiting, lease: Lease) -> None:
        call = self.now

        def arrives() -> None:
            good = self.lives_on(lease)
            self.later(
                self.random.randrange(1, 20) * MS,
                lambda: self.at_client(waiting.client, lambda: self.hears_active(lease, call, good=good)),
            )

        self.later(self.random.randrange(1, 20) * MS, arrives)

    def hears_active(self, lease: Lease, call: int, *, good: bool) -> None:
        client = lease.client
        if not good:
            self.said(client, lines.fail(lease.claim, self.now, definite=True))
            self.starts(client)
            return
        units = [f"{pool}/{unit}#{fence}" for pool, unit, fence in lease.units]
        units += [f"{pool}*{number}" for pool, number in lease.amounts.items()]
        until = call + TTL * 98 // 100
        self.said(client, lines.grant(lease.claim, units, self.now, until, call=call, ttl=TTL))
        self.holds(lease, until)

    def holds(self, lease: Lease, until: int) -> None:
        """One step of a holder: use, renew, release, crash or stall."""
        client = lease.client
        if self.now >= until:
            self.said(client, lines.lost(lease.claim, self.now))
            self.uses(lease, until)
            self.later(MS, lambda: self.at_client(client, lambda: self.starts(client)))
            return
        self.uses(lease, until)
        if self.percent(self.weather.crash):
            self.said(client, lines.crash(client.name, self.now))
            client.alive = False
            return
        if self.percent(self.weather.stall):
            client.stalled_until = self.now + self.random.randrange(50, 900) * MS
            pause = lines.fault("pause", self.now, client.stalled_until, excuse=True, client=client.name)
            self.history.append(pause)
        if self.percent(30):
            self.renews(lease, until)
        elif self.percent(40):
            self.releases(lease)
        else:
            self.later(
                self.random.randrange(1, 120) * MS,
                lambda: self.at_client(client, lambda: self.holds(lease, until)),
            )

    def renews(self, lease: Lease, until: int) -> None:
        client, call = lease.client, self.now
        went_on: list[bool] = []

        def arrives() -> None:
            good = self.lives_on(lease)
            self.answer(client, lambda: answered(good=good))

        def answered(*, good: bool) -> None:
            told = call + TTL * 98 // 100 if good else None
            if not went_on:
                went_on.append(True)
                self.said(client, lines.renew(lease.claim, self.now, told, ok=good, call=call, ttl=TTL))
                self.holds(lease, until if told is None else told)

        def no_answer() -> None:
            if not went_on:
                went_on.append(True)
                self.holds(lease, until)

        self.later(self.random.randrange(1, 200) * MS, arrives)
        self.later(250 * MS, lambda: self.at_client(client, no_answer))

    def releases(self, lease: Lease) -> None:
        client, call = lease.client, self.now
        self.said(client, lines.release(lease.claim, call))

        def arrives() -> None:
            held = self.leases.get(lease.claim) is lease
            if held:
                self.ends(lease)
            self.answer(
                client, lambda: self.said(client, lines.release(lease.claim, call, self.now, ok=held))
            )

        self.send(arrives)
        self.later(
            self.random.randrange(1, 80) * MS, lambda: self.at_client(client, lambda: self.starts(client))
        )

    def uses(self, lease: Lease, until: int) -> None:
        """Also what was lost is used on, at times: the guard must refuse it."""
        for pool, unit, fence in lease.units:
            guard = self.guards.setdefault((pool, unit), Guard())
            accepted = fence >= guard.highest
            guard.highest = max(fence, guard.highest)
            end = (
                min(until, self.now + self.random.randrange(1, 5) * MS)
                if accepted and self.now < until
                else None
            )
            self.history.append(lines.use(f"{pool}/{unit}#{fence}", self.now, end, accepted=accepted))

    # ---- the driver

    def audits(self, *, quiesced: bool) -> None:
        for pool in sorted(self.free):
            fences = {
                unit: self.fences[pool, unit] for unit in self.units_of(pool) if (pool, unit) in self.fences
            }
            free = len(self.free[pool])
            books = {
                "total": self.sizes[pool],
                "free": free,
                "held": self.sizes[pool] - free,
                "fences": fences,
            }
            self.history.append(lines.audit(pool, self.now, quiesced=quiesced, **books))

    def units_of(self, pool: str) -> list[str]:
        return [f"u{number}" for number in range(self.sizes[pool])]


def simulated(seed: int, weather: Weather | None = None) -> list[Said]:
    """The shuffled history of one run."""
    weather = weather or Weather()
    chance = random.Random(seed)
    service = Service(chance, weather)
    service.sizes = {f"p{number}": chance.randrange(1, 4) for number in range(4)} | {"n": service.amount}
    service.free = {pool: service.units_of(pool) for pool in service.sizes if pool != "n"}
    pools: dict[str, object] = {pool: {"units": service.units_of(pool)} for pool in service.free}
    pools["n"] = {"capacity": service.amount}
    service.history.append(lines.meta(pools, eps=weather.clock_error, max_wait="60s"))
    for number in range(weather.clients):
        skew = chance.randrange(-weather.clock_error, weather.clock_error + 1)
        client = Client(f"c{number}", skew, left=weather.claims_each)
        service.later(chance.randrange(100) * MS, lambda client=client: service.starts(client))  # type: ignore[misc]
    for number in range(5):
        service.later(number * 300 * MS, lambda: service.audits(quiesced=False))
    while service.moments:
        service.now, _, action = heapq.heappop(service.moments)
        action()
    service.now += 10 * TTL
    service.audits(quiesced=True)
    service.history.append(lines.end(service.now))
    chance.shuffle(service.history)
    return service.history
