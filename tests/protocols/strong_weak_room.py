"""Pools on nodes and claimants on a wire whose order the script decides; every property is judged after every turn."""

from __future__ import annotations

from typing import Any, cast

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, Message, Received, Record, SetTimer, TimerFired
from holdall.machine.host import SEPARATOR, Arrival, Host, Turn
from holdall.protocols.by_pool.alone import ManagerAlone
from holdall.protocols.by_pool.properties import wrong_here as wrong_by_pool
from holdall.protocols.hooks import Book
from holdall.protocols.registry import Tuning, protocol
from holdall.protocols.strong_weak.claimant import Claimant
from holdall.protocols.strong_weak.manager import Manager
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, Release, ToClaimant, Visit
from holdall.world.by_pool import Seen

Letter = tuple[Address, Address, Message]
"""Sender, receiver, message."""


def need(text: str) -> tuple[Visit, ...]:
    """`0->1`, the first one strong; `0:2` are two units."""
    visits: list[Visit] = []
    for step in text.split("->"):
        node, _, units = step.partition(":")
        visits.append(Visit(f"n{node}", ((("a", int(units or "1")),),), 1))
    return tuple(visits)


class Room:
    """Nodes n0, n1, ... with a pool `a` of `units`; claims c1, c2, ... of `needs`, the first pool of each strong."""

    def __init__(self, name: str, *needs: str, units: int = 1) -> None:
        self.entry = protocol(name)
        self.units = units
        self.needs = {f"c{number}": need(text) for number, text in enumerate(needs, start=1)}
        self.nodes = tuple(sorted({visit.node for one in self.needs.values() for visit in one}))
        self.wire: list[Letter] = []
        self.kinds: list[str] = []
        """Of all messages between hosts, in order."""
        self.told: list[Message] = []
        self.disks: dict[str, dict[str, Record]] = {}
        self.timers: dict[str, set[str]] = {}
        self.hosts: dict[str, Host] = {}
        for host in (*self.nodes, *self.needs):
            self.hosts[host] = self._build(host)
            self._carry(host, self.hosts[host].start())

    def _build(self, host: str) -> Host:
        self.disks.setdefault(host, {})
        self.timers[host] = set()
        if host in self.needs:
            claimant = Claimant(host, Address(host, "agent"), again_ms=1000, strong="named")
            return Host(host, {"claimant": claimant})

        def make(book: Book) -> Manager:
            tuning = Tuning(repeat_ms=1000, repeat_most_ms=1000, nodes=self.nodes)
            return cast("Manager", self.entry.manager(host, 1, book, tuning))

        return Host(host, {"manager": ManagerAlone(host, {"a": self.units}, make, self.entry.messages)})

    def _carry(self, host: str, turn: Turn) -> None:
        for key, record in turn.saves.items():
            if record is None:
                self.disks[host].pop(key, None)
            else:
                assert CODEC.decode(CODEC.encode(record)) == record
                self.disks[host][key] = record
        for name, timer in turn.timers.items():
            (self.timers[host].add if isinstance(timer, SetTimer) else self.timers[host].discard)(name)
        for sender, to, message in turn.sends:
            assert CODEC.decode(CODEC.encode(message)) == message
            if to.part == "agent":
                self.told.append(message)
            else:
                self.kinds.append(type(message).__name__)
                self.wire.append((sender, to, message))
        self._judge()

    def _judge(self) -> None:
        up = {node: self.manager(node) for node in self.nodes if node in self.hosts}
        for manager in up.values():
            assert [*wrong_by_pool(manager), *self.entry.wrong_here(manager)] == []
        assert [*self.entry.wrong_between({node: Seen.of(manager) for node, manager in up.items()})] == []

    def manager(self, node: str) -> Any:
        return cast("ManagerAlone", self.hosts[node].parts["manager"]).manager

    def claim(self, host: str) -> ClaimId:
        return ClaimId(host, 1, 1)

    # ------------------------------------------------------------ what agents say

    def say(self, command: ToClaimant) -> None:
        owner: ClaimId = getattr(command, "claim")  # noqa: B009
        self._arrive(owner.node, "claimant", Address(owner.node, "agent"), command)

    def acquire(self, *hosts: str, wait: bool = True) -> None:
        for host in hosts or tuple(self.needs):
            self.say(Acquire(self.claim(host), self.needs[host], wait))

    def release(self, host: str) -> None:
        self.say(Release(self.claim(host)))

    # ------------------------------------------------------------ moves

    def _arrive(self, host: str, part: str, sender: Address, message: Message) -> None:
        self._carry(host, self.hosts[host].turn((Arrival(part, Received(sender, message)),)))

    def find(self, kind: str, host: str = "") -> Letter:
        """The first message of this kind that is under way, about the claim of `host`."""
        for letter in self.wire:
            claim = getattr(letter[2], "claim", None)
            if type(letter[2]).__name__ == kind and (not host or (claim and claim.node == host)):
                return letter
        raise AssertionError(f"no {kind} of {host or 'anybody'} among {[m for _, _, m in self.wire]}")

    def deliver(self, kind: str, host: str = "", *, keep: bool = False) -> None:
        """That message arrives; `keep`: and will once more."""
        letter = self.find(kind, host)
        if not keep:
            self.wire.remove(letter)
        sender, to, message = letter
        self._arrive(to.node, to.part, sender, message)

    def lose(self, kind: str, host: str = "") -> None:
        self.wire.remove(self.find(kind, host))

    def step(self, *, twice: bool = False) -> bool:
        """The oldest message arrives."""
        if not self.wire:
            return False
        sender, to, message = self.wire.pop(0)
        for _ in range(1 + twice):
            self._arrive(to.node, to.part, sender, message)
        return True

    def run(self) -> None:
        while self.step():
            pass

    def run_until(self, kind: str) -> None:
        """Until such a message is under way."""
        while not any(type(message).__name__ == kind for _, _, message in self.wire):
            assert self.step()

    def fire(self, host: str, timer: str) -> None:
        """A timer that is set runs out."""
        self.timers[host].remove(timer)
        part, _, name = timer.partition(SEPARATOR)
        self._carry(host, self.hosts[host].turn((Arrival(part, TimerFired(name)),)))

    def again(self) -> None:
        """Whatever is not answered is asked again."""
        for host in self.needs:
            for timer in sorted(self.timers[host]):
                self.fire(host, timer)

    def restart(self, host: str, kind: str = "same") -> None:
        """From what it has saved; what is under way goes on."""
        self.hosts[host] = self._build(host)
        boot = Boot(kind, 1 if kind == "same" else 2, 2, quarantine_ms=0)
        self._carry(host, self.hosts[host].recover(self.disks[host], boot))

    # ------------------------------------------------------------ what has come of it

    def inside(self) -> list[str]:
        return [told.claim.node for told in self.told if isinstance(told, Granted)]

    def serve_all(self) -> list[str]:
        """Everybody who is let in leaves again, until all have been. Returns the order."""
        order: list[str] = []
        for _ in range(50):
            self.run()
            fresh = [host for host in dict.fromkeys(self.inside()) if host not in order]
            for host in fresh:
                order.append(host)
                self.release(host)
            if not fresh:
                self.again()
                if not self.wire:
                    break
        return order

    def empty(self) -> bool:
        return not any(self.manager(node).entries for node in self.nodes) and not any(
            cast("Claimant", self.hosts[host].parts["claimant"]).claims for host in self.needs
        )
