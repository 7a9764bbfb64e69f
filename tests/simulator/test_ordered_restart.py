"""Ordered locking when a node starts anew: what it has lost ends at its claimants before others can be given it."""

from collections import deque

from holdall.leases.book import QUARANTINE_TIMER
from holdall.leases.messages import LostAt
from holdall.machine.contract import Address, Boot, Message, Received, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.parties.by_pool.claims import DOOM_TIMER, ClaimsByPool
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.by_pool.claimant import RETRY
from holdall.protocols.by_pool.messages import AskHeld, End, Held, Lessen, PlaceGone
from holdall.protocols.by_pool.properties import wrong_here as wrong_by_pool
from holdall.protocols.ordered.claimant import Claimant
from holdall.protocols.ordered.messages import Lock
from holdall.protocols.registry import protocol
from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Gone,
    Granted,
    Release,
    Retrying,
    Shrink,
    UnitGrant,
    Visit,
)
from holdall.simulator.sides import pools_side

A, B, C = ClaimId("c1", 1, 1), ClaimId("c2", 1, 1), ClaimId("c3", 1, 1)
QUARANTINE_MS = 61_201
NEW_FENCES = 1 << 20


class Room:
    """Hosts that hear each other at once and in order. Records are kept as a driver does; timers fire when asked to."""

    def __init__(self) -> None:
        self.pools = {
            name: pools_side("ordered", name, {"gpu": 2, "psu": 1}, watch_peers=True) for name in ("n1", "n2")
        }
        self.claims = {
            name: ClaimsByPool(Claimant(name, Address(name, "agent"), again_ms=20_000))
            for name in ("c1", "c2", "c3")
        }
        self.hosts = {name: Host(name, {"manager": side}) for name, side in self.pools.items()}
        self.hosts |= {name: Host(name, {"claimant": side}) for name, side in self.claims.items()}
        self.records: dict[str, dict[str, Record]] = {name: {} for name in self.hosts}
        self.armed: dict[str, list[str]] = {name: [] for name in self.hosts}
        self.sent: list[Message] = []
        self.told: list[Message] = []
        self._mail: deque[tuple[Address, Address, Message]] = deque()

    def say(self, command: Acquire | Release | Shrink) -> list[Message]:
        """A command of the claim's agent, and all that follows. Returns what agents are told."""
        node = command.claim.node
        self._mail.append((Address(node, "agent"), Address(node, "claimant"), command))
        return self._all_that_follows()

    def fire(self, node: str, timer: str) -> list[Message]:
        """A timer, and all that follows."""
        self._carry(node, self.hosts[node].turn((self.hosts[node].fire(timer),)))
        return self._all_that_follows()

    def renew(self, claimant: str, node: str) -> list[Message]:
        """The claimant's host renews at the node."""
        return self.fire(claimant, f"claimant!renew/{node}")

    def fall(self, node: str, kept: dict[str, Record], kind: str) -> None:
        """The node starts anew, with what its journal has kept."""
        self.records[node] = dict(kept)
        side = self.pools[node] = pools_side("ordered", node, {"gpu": 2, "psu": 1}, watch_peers=True)
        self.hosts[node] = Host(node, {"manager": side})
        boot = Boot("lost" if kind == "wipe" else "reboot", 2, 2, QUARANTINE_MS, NEW_FENCES)
        self._carry(node, self.hosts[node].recover(dict(kept), boot))
        assert self._all_that_follows() == []

    def sent_of(self, kind: type) -> list[Message]:
        return [message for message in self.sent if isinstance(message, kind)]

    def _all_that_follows(self) -> list[Message]:
        self.told, self.sent = [], []
        while self._mail:
            sender, to, message = self._mail.popleft()
            if to.part == "agent":
                self.told.append(message)
                continue
            self.sent += [] if sender.part == "agent" else [message]
            self._carry(to.node, self.hosts[to.node].turn((Arrival(to.part, Received(sender, message)),)))
        assert [
            text
            for side in self.pools.values()
            for text in (*wrong_by_pool(side.manager), *protocol("ordered").wrong_here(side.manager))
        ] == []
        return self.told

    def _carry(self, node: str, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.records[node].pop(key, None)
            else:
                self.records[node][key] = record
        self.armed[node] += [name for name, timer in turn.timers.items() if isinstance(timer, SetTimer)]
        self._mail += turn.sends


def visit(node: str, **units: int) -> Visit:
    return Visit(node, (tuple(sorted(units.items())),), 1)


def units_of(told: list[Message], claim: ClaimId) -> tuple[UnitGrant, ...]:
    """What the claim was told to have."""
    (granted,) = (message for message in told if isinstance(message, Granted) and message.claim == claim)
    return granted.units


def deadlines(room: Room, claimant: str, node: str) -> list[str]:
    """Its timers for the end of all it has at the node, oldest first."""
    return [timer for timer in room.armed[claimant] if timer.startswith(f"claimant!holder/{node}/")]


def test_a_waiting_claim_takes_a_lock_that_its_node_has_lost_once_more() -> None:
    room = Room()
    room.say(Acquire(B, (visit("n2", psu=1),)))
    assert room.say(Acquire(A, (visit("n1", gpu=2), visit("n2", psu=1)))) == []
    assert room.claims["c1"].claimant.claims[A].got[0] == (
        UnitGrant("n1", "gpu", "u0", 1),
        UnitGrant("n1", "gpu", "u1", 2),
    )
    room.fall("n1", {}, "wipe")
    assert room.renew("c1", "n1") == [Retrying(A, "n1", QUARANTINE_MS)]
    assert room.say(Release(B)) == [Ended(B)]  # A is not granted with what it had at n1
    assert room.claims["c1"].claimant.claims[A].phase is Phase.WAITING

    # meanwhile another is given the units, and gives them back
    room.fire("n1", f"manager!{QUARANTINE_TIMER}")
    other = Acquire(C, (Visit("n1", ((("gpu", 2),),), 2),))
    assert [unit.fence for unit in units_of(room.say(other), C)] == [NEW_FENCES + 1, NEW_FENCES + 2]
    room.say(Release(C))
    units = units_of(room.fire("c1", f"claimant!{RETRY}/{A}"), A)
    assert [(unit.node, unit.fence) for unit in units] == [
        ("n1", NEW_FENCES + 3),
        ("n1", NEW_FENCES + 4),
        ("n2", 2),
    ]


def test_a_holder_loses_what_one_of_its_locks_at_a_node_was_about() -> None:
    """The node still knows the claim by its other lock, so renewal by claims would not tell."""
    room = Room()
    room.say(Acquire(B, (visit("n1", psu=1),)))
    room.say(Acquire(A, (visit("n1", gpu=2, psu=1),)))
    before = dict(room.records["n1"])
    units_of(room.say(Release(B)), A)
    room.fall("n1", before, "unsynced")
    assert set(room.pools["n1"].manager.entries) == {(A, 0), (B, 0)}
    told = room.renew("c1", "n1")
    assert told == [LostAt(A, "n1", 0), Gone(A, "restarted")]
    assert room.sent_of(PlaceGone) == [PlaceGone(A, 1, "restarted")]
    # The holder may stand still, so what it has at other places is kept until its time is certainly over.
    assert room.sent_of(End) == []
    assert room.fire("c1", f"claimant!{DOOM_TIMER}{A}") == [Ended(A)]
    assert len(room.sent_of(End)) == 2
    assert set(room.pools["n1"].manager.entries) == {(B, 0)}


def test_a_holder_goes_on_when_its_node_has_kept_every_lock() -> None:
    room = Room()
    had = units_of(room.say(Acquire(A, (visit("n1", gpu=2, psu=1),))), A)
    room.renew("c1", "n1")
    room.fall("n1", room.records["n1"], "reboot")
    assert room.renew("c1", "n1") == []
    assert room.sent_of(AskHeld) == [AskHeld(A, 1, 0), AskHeld(A, 1, 1)]
    assert [message.epoch for message in room.sent_of(Held) if isinstance(message, Held)] == [2, 2]
    record = room.claims["c1"].claimant.claims[A]
    assert (record.phase, record.units) == (Phase.INSIDE, had)
    assert [lock.epoch for lock in record.places] == [2, 2]
    assert room.renew("c1", "n1") == []
    assert room.sent_of(Lock) == []
    assert room.fire("c1", deadlines(room, "c1", "n1")[-2]) == []


def test_a_renewal_does_not_count_before_the_locks_are_confirmed() -> None:
    room = Room()
    room.say(Acquire(A, (visit("n1", gpu=2),)))
    room.renew("c1", "n1")
    room.fall("n1", room.records["n1"], "reboot")
    last = deadlines(room, "c1", "n1")[-1]
    room.renew("c1", "n1")
    assert room.fire("c1", last)[:2] == [LostAt(A, "n1", 0), Gone(A, "expired")]


def test_what_was_given_back_is_given_back_again_when_the_node_has_lost_that() -> None:
    room = Room()
    had = units_of(room.say(Acquire(A, (visit("n1", gpu=2),))), A)
    before = dict(room.records["n1"])
    room.say(Shrink(A, (("n1", (("gpu", 1),)),), (had[1],)))
    assert room.pools["n1"].manager.used["gpu"] == 1
    room.fall("n1", before, "unsynced")
    assert room.pools["n1"].manager.used["gpu"] == 2
    assert room.renew("c1", "n1") == []
    assert len(room.sent_of(Lessen)) == 1
    assert room.pools["n1"].manager.used["gpu"] == 1
    record = room.claims["c1"].claimant.claims[A]
    assert (record.units, record.lessening) == ((had[1],), ())


def test_an_answer_from_before_the_restart_confirms_nothing() -> None:
    room = Room()
    room.say(Acquire(B, (visit("n1", psu=1),)))
    room.say(Acquire(A, (visit("n1", gpu=2, psu=1),)))
    before = dict(room.records["n1"])
    had = units_of(room.say(Release(B)), A)
    room.fall("n1", before, "unsynced")
    late = Held(A, 1, 1, had[2:], 1)
    room.hosts["c1"].turn((Arrival("claimant", Received(Address("n1", "manager"), late)),))
    assert room.renew("c1", "n1")[1] == Gone(A, "restarted")
