"""Nodes in a ring and claimants on a wire whose order the script decides; every property is judged after every turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, Message, Received, Record, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.protocols.by_pool.alone import ManagerAlone
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.by_pool.properties import wrong_here as wrong_by_pool
from holdall.protocols.hooks import Book
from holdall.protocols.registry import Tuning, protocol
from holdall.protocols.token.messages import Stage
from holdall.protocols.token.recovery import Recovering
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, Release, ToClaimant, Visit
from holdall.world.by_pool import Seen

Letter = tuple[Address, Address, Message]
"""Sender, receiver, message."""


def claim(node: str, counter: int = 1) -> ClaimId:
    return ClaimId(node, 1, counter)


def need(*texts: str, epoch: int = 1) -> tuple[Visit, ...]:
    """`need("n0:a2", "n1:a1,b1")`."""
    visits: list[Visit] = []
    for text in texts:
        node, _, pools = text.partition(":")
        vector = tuple((pool[0], int(pool[1:] or "1")) for pool in (pools or "a1").split(","))
        visits.append(Visit(node, (vector,), epoch))
    return tuple(visits)


class Room:
    """`pools`: node -> pool -> units. `ring`: who is in it at the start; None: all nodes."""

    def __init__(
        self,
        name: str,
        pools: Mapping[str, Mapping[str, int]],
        claimants: tuple[str, ...] = ("c1", "c2", "c3"),
        *,
        ring: tuple[str, ...] | None = None,
        parks: bool = True,
    ) -> None:
        self.entry = protocol(name)
        self.pools = pools
        self.tuning = Tuning(
            repeat_ms=1000, repeat_most_ms=1000, nodes=tuple(pools) if ring is None else ring, parks=parks
        )
        self.wire: list[Letter] = []
        self.sent: list[str] = []
        """Kinds of all messages between hosts, in order."""
        self.told: list[Message] = []
        self.records: dict[str, dict[str, Record]] = {}
        self.timers: dict[str, set[str]] = {}
        self.down: set[str] = set()
        self.hosts: dict[str, Host] = {}
        for host in (*pools, *claimants):
            self.hosts[host] = self._build(host)
            self._carry(host, self.hosts[host].start())

    def _build(self, host: str, epoch: int = 1) -> Host:
        self.records.setdefault(host, {})
        self.timers[host] = set()
        if host not in self.pools:
            return Host(host, {"claimant": self.entry.claimant(host, Address(host, "agent"), self.tuning)})

        def make(book: Book) -> Manager[Any]:
            return cast("Manager[Any]", self.entry.manager(host, epoch, book, self.tuning))

        return Host(host, {"manager": ManagerAlone(host, self.pools[host], make, self.entry.messages)})

    def _carry(self, host: str, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.records[host].pop(key, None)
            else:
                assert CODEC.decode(CODEC.encode(record)) == record
                self.records[host][key] = record
        for name, timer in turn.timers.items():
            (self.timers[host].add if isinstance(timer, SetTimer) else self.timers[host].discard)(name)
        for sender, to, message in turn.sends:
            assert CODEC.decode(CODEC.encode(message)) == message
            if to.part == "agent":
                self.told.append(message)
            else:
                self.sent.append(type(message).__name__)
                self.wire.append((sender, to, message))
        self.judge()

    def judge(self) -> None:
        up = {node: self.manager(node) for node in self.pools if node in self.hosts and node not in self.down}
        for manager in up.values():
            assert [*wrong_by_pool(manager), *self.entry.wrong_here(manager)] == []
        assert [*self.entry.wrong_between({node: Seen.of(manager) for node, manager in up.items()})] == []

    def manager(self, node: str) -> Recovering:
        return cast("Recovering", cast("ManagerAlone", self.hosts[node].parts["manager"]).manager)

    # Moves

    def tell(self, host: str, part: str, message: Message, sender: Address | None = None) -> Turn:
        """One message, whose answers stay on the wire."""
        turn = self.hosts[host].turn((Arrival(part, Received(sender or Address(host, "agent"), message)),))
        self._carry(host, turn)
        return turn

    def say(self, command: ToClaimant) -> None:
        """A command of the claim's agent."""
        owner: ClaimId = getattr(command, "claim")  # noqa: B009
        self.tell(owner.node, "claimant", command)

    def take(self, kind: str, to: str = "") -> Letter:
        """The first letter of this kind, off the wire."""
        for letter in self.wire:
            if type(letter[2]).__name__ == kind and to in {"", letter[1].node}:
                self.wire.remove(letter)
                return letter
        raise AssertionError(f"no {kind} to {to or 'anybody'} on the wire: {self.kinds()}")

    def deliver(self, kind: str, to: str = "") -> Turn:
        return self.hand(self.take(kind, to))

    def hand(self, letter: Letter) -> Turn:
        """Deliver a letter, also one that was delivered before."""
        sender, to, message = letter
        turn = self.hosts[to.node].turn((Arrival(to.part, Received(sender, message)),))
        self._carry(to.node, turn)
        return turn

    def kinds(self) -> list[str]:
        return [type(message).__name__ for _, _, message in self.wire]

    def run(self, rounds: int = 2000) -> None:
        """Deliver in order until nothing is on the wire; what goes to a host that is down is lost."""
        for _ in range(rounds):
            if not self.wire:
                return
            letter = self.wire.pop(0)
            if letter[1].node not in self.down:
                self.hand(letter)
        raise AssertionError("it never gets quiet")

    def fire(self, *hosts: str) -> None:
        """All timers of these hosts (of all), then everything that follows."""
        for host in hosts or tuple(self.hosts):
            if host in self.down:
                continue
            for timer in sorted(self.timers[host]):
                self.timers[host].discard(timer)
                self._carry(host, self.hosts[host].turn((self.hosts[host].fire(timer),)))
        self.run()

    def restart(self, host: str, kind: str = "same", epoch: int = 1, quarantine_ms: int = 0) -> None:
        """The host comes up again; what is on the wire to it stays there."""
        self.down.discard(host)
        if kind == "lost":
            self.records[host] = {}
        self.hosts[host] = self._build(host, epoch)
        kept = dict(self.records[host])
        self._carry(host, self.hosts[host].recover(kept, Boot(kind, epoch, 2, quarantine_ms=quarantine_ms)))

    # What came of it

    def claims(self, who: ClaimId, *texts: str, wait: bool = True, epoch: int = 1) -> None:
        self.say(Acquire(who, need(*texts, epoch=epoch), wait=wait))

    def granted(self) -> list[ClaimId]:
        """Claims in the order of their grants."""
        return [message.claim for message in self.told if isinstance(message, Granted)]

    def tokens(self) -> list[str]:
        """Nodes where a token of the newest epoch rests."""
        newest = max(self.manager(node).ring.epoch for node in self.pools)
        rings = {node: self.manager(node).ring for node in self.pools}
        return [node for node, ring in rings.items() if ring.stage is Stage.HERE and ring.epoch == newest]

    def release_all(self) -> None:
        """Everybody ends, in the order of the grants, until nothing is left."""
        over: set[ClaimId] = set()
        for _ in range(1000):
            self.run()
            left = [who for who in self.granted() if who not in over]
            if not left:
                break
            over.add(left[0])
            self.say(Release(left[0]))
        assert [node for node in self.pools if node not in self.down and self.manager(node).entries] == []


def bytes_of(message: msgspec.Struct) -> int:
    """How long it is on the wire."""
    return len(CODEC.encode(message))
