"""One client of the stress run: claims, uses, holds and releases, again and again, through `holdall.sync`.

A process of its own, so that it can be killed and paused. It goes on using what it lost until it looks: the guarded
units must refuse that. SIGTERM ends it after the claim that it has just made.
"""

import contextlib
import random
import signal
import socket
import sys
import threading
import time
from types import FrameType

import msgspec

import holdall


class Orders(msgspec.Struct, frozen=True):
    """What one client has to do; its only argument, as JSON."""

    name: str
    url: str
    history: str
    guard: str
    """Socket of the guarded units."""
    claims: int
    seed: str
    pools: dict[str, int]
    """Size of each pool."""
    ttl: str
    wait: str
    hold_ms: int
    two_pools: bool = False


class Use(msgspec.Struct, frozen=True):
    """One use of a unit, named `UNIT@NODE`: what the guarded units are sent."""

    pool: str
    unit: str
    fence: int


def needs_of(chance: random.Random, pools: dict[str, int], *, two_pools: bool = False) -> list[str]:
    """1 to 3 pools, 1 to 2 units of each, as SPECs; `two_pools`: two units in all, which lie in two pools at most."""
    if two_pools:
        return [f"{pool}:1" for pool in chance.sample(sorted(pools), chance.randrange(1, 3))]
    chosen = chance.sample(sorted(pools), chance.randrange(1, 4))
    return [f"{pool}:{chance.randrange(1, min(2, pools[pool]) + 1)}" for pool in chosen]


def use(guard: socket.socket, uses: list[Use]) -> None:
    for one in uses:
        guard.send(msgspec.json.encode(one))


def connected(orders: Orders, ended: threading.Event) -> holdall.sync.Hub:
    """A new session needs a node that answers: told that there is none, a client tries again."""
    while not ended.is_set():
        try:
            return holdall.sync.connect(orders.url, agent=orders.name, history=orders.history).open()
        except holdall.Unreachable:
            time.sleep(0.1)
    sys.exit(0)


def work(orders: Orders) -> None:
    chance = random.Random(orders.seed)
    guard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    guard.connect(orders.guard)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        ended.set()

    signal.signal(signal.SIGTERM, end)
    with guard, contextlib.closing(connected(orders, ended)) as hub:
        for number in range(orders.claims):
            if ended.is_set():
                return
            needs = needs_of(chance, orders.pools, two_pools=orders.two_pools)
            lease = hub.lease(
                *needs, wait=orders.wait, ttl=orders.ttl, on_loss="event", reason=f"stress {number}"
            )
            # Lost already, if the process was paused just now.
            with contextlib.suppress(holdall.LeaseLost), lease:
                uses = [
                    Use(pool, str(unit), unit.fence) for pool, units in lease.units.items() for unit in units
                ]
                # One in eight holds long enough to be renewed, and to be paused while it holds.
                long = 20 if chance.randrange(8) == 0 else 1
                for _ in range(chance.randrange(1, 4)):
                    use(guard, uses)
                    time.sleep(long * chance.randrange(orders.hold_ms) / 1000)
                use(guard, uses)


if __name__ == "__main__":
    work(msgspec.json.decode(sys.argv[1], type=Orders))
