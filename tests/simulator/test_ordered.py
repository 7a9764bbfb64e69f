"""Conversations of ordered locking: two claimants, two nodes with two pools each, messages in order."""

from collections import deque
from collections.abc import Iterator

import pytest

from holdall.leases.messages import PoolSpec
from holdall.machine.contract import Address, Message, Received
from holdall.machine.host import Arrival, Host
from holdall.protocols.by_pool.messages import End, EndAck, Held
from holdall.protocols.by_pool.properties import wrong_here as wrong_by_pool
from holdall.protocols.ordered.claimant import Claimant
from holdall.protocols.ordered.messages import Lock
from holdall.protocols.registry import protocol
from holdall.protocols.vocabulary import (
    ALL,
    Acquire,
    ClaimId,
    Ended,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extend,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    LeaseLost,
    NotNow,
    Release,
    Shrink,
    UnitGrant,
    Vector,
    Visit,
)
from holdall.simulator.sides import pools_side

A, B = ClaimId("c1", 1, 1), ClaimId("c2", 1, 1)


class Room:
    """Hosts that hear each other at once and in order; what agents are told is kept."""

    def __init__(self) -> None:
        self.sides = {
            name: pools_side("ordered", name, {"gpu": 2, "psu": 1}, watch_peers=False)
            for name in ("n1", "n2")
        }
        self.hosts = {name: Host(name, {"manager": side}) for name, side in self.sides.items()}
        self.claimants = {name: Claimant(name, Address(name, "agent")) for name in ("c1", "c2")}
        self.hosts |= {name: Host(name, {"claimant": one}) for name, one in self.claimants.items()}
        self.sent: list[Message] = []
        self.told: list[Message] = []

    def say(self, command: Message) -> list[Message]:
        """A command of the claim's agent, and all that follows. Returns what agents are told."""
        claim: ClaimId = getattr(command, "claim")  # noqa: B009
        self.told, self.sent = [], []
        waiting: deque[tuple[Address, Address, Message]] = deque()
        waiting.append((Address(claim.node, "agent"), Address(claim.node, "claimant"), command))
        while waiting:
            sender, to, message = waiting.popleft()
            if to.part == "agent":
                self.told.append(message)
                continue
            turn = self.hosts[to.node].turn((Arrival(to.part, Received(sender, message)),))
            self.sent += [message for _, to, message in turn.sends if to.part != "agent"]
            waiting += turn.sends
            assert [
                text
                for side in self.sides.values()
                for text in (*wrong_by_pool(side.manager), *protocol("ordered").wrong_here(side.manager))
            ] == []
        return self.told

    def empty(self) -> bool:
        return not any(side.manager.entries for side in self.sides.values()) and not any(
            claimant.claims for claimant in self.claimants.values()
        )


@pytest.fixture
def room() -> Iterator[Room]:
    made = Room()
    yield made
    for claim in (A, B):
        made.say(Release(claim))
    assert made.empty()


def visit(node: str, **units: int) -> Visit:
    return Visit(node, (tuple(sorted(units.items())),), 1)


def vector(**units: int) -> Vector:
    return tuple(sorted(units.items()))


def counts(message: Message) -> dict[str, int]:
    """node/pool -> units of a message that carries some."""
    found: dict[str, int] = {}
    units: tuple[UnitGrant, ...] = getattr(message, "units")  # noqa: B009
    for unit in units:
        found[f"{unit.node}/{unit.pool}"] = found.get(f"{unit.node}/{unit.pool}", 0) + 1
    return found


def test_locks_are_taken_one_after_the_other_in_the_order_of_nodes_and_pools(room: Room) -> None:
    (granted,) = room.say(Acquire(A, (visit("n2", gpu=1), visit("n1", psu=1, gpu=2))))
    assert isinstance(granted, Granted)
    assert counts(granted) == {"n1/gpu": 2, "n1/psu": 1, "n2/gpu": 1}
    assert [type(message) for message in room.sent] == [Lock, Held] * 3
    assert [message.pool for message in room.sent if isinstance(message, Lock)] == ["gpu", "psu", "gpu"]
    assert room.say(Release(A)) == [Ended(A)]
    assert [type(message) for message in room.sent] == [End, End, End, EndAck, EndAck, EndAck]


def test_first_come_first_served_whatever_would_fit(room: Room) -> None:
    room.say(Acquire(A, (visit("n1", gpu=1),)))
    assert room.say(Acquire(B, (visit("n1", gpu=2),))) == []
    third = ClaimId("c1", 1, 2)
    assert room.say(Acquire(third, (visit("n1", gpu=1),))) == []  # one is free, but B is first
    told = room.say(Release(A))
    assert [type(message) for message in told] == [Granted, Ended]
    told = room.say(Release(B))
    assert any(isinstance(message, Granted) and message.claim == third for message in told)
    room.say(Release(third))


def test_a_waiting_claim_holds_what_comes_before(room: Room) -> None:
    room.say(Acquire(A, (visit("n2", psu=1),)))
    room.say(Acquire(B, (visit("n1", psu=1), visit("n2", psu=1))))
    assert room.sides["n1"].manager.used["psu"] == 1
    assert room.say(Release(B)) == [Ended(B)]
    assert room.sides["n1"].manager.used["psu"] == 0


def test_now_or_not_at_all(room: Room) -> None:
    room.say(Acquire(A, (visit("n2", psu=1),)))
    assert room.say(Acquire(B, (visit("n1", gpu=1), visit("n2", psu=1)), wait=False)) == [NotNow(B), Ended(B)]
    assert room.sides["n1"].manager.used["gpu"] == 0
    other = ClaimId("c2", 1, 2)
    told = room.say(Acquire(other, (visit("n1", gpu=1), visit("n2", gpu=1)), wait=False))
    assert [type(message) for message in told] == [Granted]
    room.say(Release(other))


def test_all_units_of_a_pool(room: Room) -> None:
    (granted,) = room.say(Acquire(A, (visit("n1", gpu=ALL),)))
    assert counts(granted) == {"n1/gpu": 2}


def test_a_part_given_back_serves_the_next(room: Room) -> None:
    (granted,) = room.say(Acquire(A, (visit("n1", gpu=2, psu=1),)))
    assert isinstance(granted, Granted)
    room.say(Acquire(B, (visit("n1", gpu=1),)))
    second = granted.units[1]
    told = room.say(Shrink(A, (("n1", vector(gpu=1)),), (second,)))
    assert [message.claim for message in told if isinstance(message, Granted)] == [B]
    assert room.claimants["c1"].claims[A].units == (second,)
    assert room.sides["n1"].manager.used == {"gpu": 2, "psu": 0}
    assert room.claimants["c1"].claims[A].lessening == ()


def test_an_exchange_adds_before_it_drops_or_changes_nothing(room: Room) -> None:
    room.say(Acquire(A, (visit("n1", gpu=1),)))
    room.say(Acquire(B, (visit("n2", psu=1),)))
    refused = Exchange(A, ClaimId("c1", 1, 9), (visit("n2", psu=1),), (("n1", vector(gpu=1)),))
    assert room.say(refused) == [ExchangeRefused(A)]
    assert room.sides["n1"].manager.used["gpu"] == 1
    done = Exchange(A, ClaimId("c1", 1, 10), (visit("n2", gpu=2),), (("n1", vector(gpu=1)),))
    (exchanged,) = room.say(done)
    assert isinstance(exchanged, Exchanged)
    assert counts(exchanged) == {"n2/gpu": 2}
    assert room.sides["n1"].manager.used["gpu"] == 0
    assert room.say(Release(A)) == [Ended(A)]
    assert room.sides["n2"].manager.used["gpu"] == 0


def test_a_later_end_is_asked_of_every_lock(room: Room) -> None:
    room.say(Acquire(A, (visit("n1", gpu=1, psu=1), visit("n2", gpu=1))))
    assert room.say(Extend(A, 90_000)) == [Extended(A, 90_000)]
    limited = room.sides["n2"]
    limited.book.service.pools["gpu"].spec = PoolSpec("gpu", "gpu", units=("u0", "u1"), max_for_ms=100_000)
    assert room.say(Extend(A, 120_000)) == [ExtendRefused(A, 120_000)]
    assert room.say(Extend(B, 1000)) == [ExtendRefused(B, 1000)]


def test_a_lost_lease_ends_a_granted_claim_and_lets_a_waiting_one_come_again(room: Room) -> None:
    room.say(Acquire(A, (visit("n1", psu=1),)))
    room.say(Acquire(B, (visit("n1", psu=1),)))
    assert room.say(LeaseLost(B, "expired")) == []
    assert room.claimants["c2"].claims[B].attempt == 2
    told = room.say(LeaseLost(A, "expired"))
    assert told[0] == Gone(A, "expired")
    assert any(isinstance(message, Granted) and message.claim == B for message in told)


def test_an_unlock_that_overtakes_its_lock(room: Room) -> None:
    host, sender = room.hosts["n1"], Address("c1", "claimant")
    (ack,) = host.turn((Arrival("manager", Received(sender, End(A, 1, 0))),)).sends
    assert ack[2] == EndAck(A, 1, 0)
    terms = Acquire(A, ()).terms
    host.turn((Arrival("manager", Received(sender, Lock(A, 1, 0, 1, "gpu", 1, terms))),))
    assert room.sides["n1"].manager.entries == {}
