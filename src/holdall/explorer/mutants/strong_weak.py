"""Strong/weak and its probe variants with one rule taken away each.

Source: strong/weak specification, section 9 (mutations), and common specification, section 2 (what must be saved before
which message, what a restart without state needs).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from holdall.explorer.moves import Timers
from holdall.explorer.mutants.mutant import Mutant
from holdall.explorer.strong_weak import StrongWeakSystem
from holdall.machine.contract import Address, Forget, Message, Save, Send
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.registry import Tuning
from holdall.protocols.strong_weak.claimant import Claimant
from holdall.protocols.strong_weak.manager import Manager
from holdall.protocols.strong_weak.messages import (
    Aged,
    Allowed,
    Kill,
    Killed,
    PoolEntry,
    Promote,
    StrongWeakClaim,
)
from holdall.protocols.strong_weak.probes import AgedProbes, Probes
from holdall.protocols.strong_weak.ring_token import TokenProbes
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.plan import World
from holdall.world.system import System


class NoWound(Manager):
    """Who waits lets younger holders be."""

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """Nothing."""


class WoundsElders(Manager):
    """The comparison is turned round: the younger wounds the older."""

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """Kill the older ones."""
        for key in sorted(self.active.get(entry.pool, ())):
            holder = self.entries[key]
            if self.rank(holder) < self.rank(entry):
                kill = Kill(holder.claim, holder.attempt, holder.other, holder.n)
                out.append(Send(Address(holder.other_node, "manager"), kill))


class KillsGranted(Manager):
    """A Kill takes from a claim what it has been granted."""

    def _on_kill(self, told: Kill, out: Effects) -> None:
        entry = self._part(told.claim, told.attempt, told.place, "weak")
        if entry is None or not entry.held or entry.n != told.n:
            super()._on_kill(told, out)
            return
        entry = self.unhold(msgspec.structs.replace(entry, promoted=False), out)
        self._killed(entry, out)
        self.settle(entry.pool, out)


class EarlyKillDropped(Manager):
    """A Kill that comes before its Promote does nothing."""

    def _on_kill(self, told: Kill, out: Effects) -> None:
        entry = self._part(told.claim, told.attempt, told.place, "weak")
        if entry is not None and entry.promoted:
            super()._on_kill(told, out)


class KilledOfAny(Manager):
    """A Killed counts for whatever promotion there is."""

    def _on_killed(self, sender: Address, told: Killed, out: Effects) -> None:
        entry = self._part(told.claim, told.attempt, told.place, "strong")
        if entry is not None:
            told = msgspec.structs.replace(told, n=entry.n)
        super()._on_killed(sender, told, out)


class KillsAndKeeps(Manager):
    """The strong pool keeps its units after a Killed."""

    def _on_killed(self, sender: Address, told: Killed, out: Effects) -> None:
        """Nothing."""


class EpochUnasked(Manager):
    """Whatever epoch a first message names is taken for this one."""

    def admits(
        self, sender: Address, key: Key, attempt: int, epoch: int, out: Effects, *, held_again: bool = True
    ) -> bool:
        """As if the epoch were right."""
        del epoch
        return super().admits(sender, key, attempt, self.epoch, out, held_again=held_again)


class NoTombstones(Manager):
    """What is over is forgotten at once."""

    def bury(self, key: Key, attempt: int, out: Effects) -> None:
        """Nothing."""


class TryPasses(Manager):
    """A claim without waiting takes its units for good, whoever else answers."""

    def end(self, key: Key, attempt: int, out: Effects) -> None:
        """Not for those."""
        entry = self.entries.get(key)
        if entry is None or entry.kind != "tried":
            super().end(key, attempt, out)


class NoProbe(Probes):
    """Nobody looks for cycles."""

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """Nothing."""


class NoAgedProbe(AgedProbes):
    """Nobody looks for cycles."""

    def presses(self, entry: PoolEntry, out: Effects) -> None:
        """Nothing."""


class KillsGrantedProbes(KillsGranted, Probes):
    """As KillsGranted, where probes find whom to kill."""


class ByIdOnly(TokenProbes):
    """The token means nothing: the lower pool's edge is always the least."""

    def is_first(self, entry: PoolEntry) -> bool:
        """Never."""
        del entry
        return False


class AnyAttempt(Claimant):
    """Allowed counts for any attempt."""

    def answered(
        self, record: StrongWeakClaim, sender: Address, message: Allowed | Aged, out: Effects
    ) -> None:
        """As if it were for this one."""
        super().answered(record, sender, msgspec.structs.replace(message, attempt=record.attempt), out)


def unsaved(*kinds: type[Message]) -> type[Manager]:
    """A manager that lets messages of these kinds leave without saving their turn."""

    class Unsaved(Manager):
        """As `unsaved` says."""

        def receive(self, sender: Address, message: Any, out: Effects) -> None:
            begun = len(out)
            super().receive(sender, message, out)
            if any(isinstance(effect, Send) and isinstance(effect.message, kinds) for effect in out[begun:]):
                out[begun:] = [effect for effect in out[begun:] if not isinstance(effect, Save | Forget)]

    return Unsaved


def _system(
    make: type[Manager], name: str, claimant: type[Claimant], *, quarantine: bool
) -> Callable[[World], System]:
    """The pool that a claim names first is its strong one: without kills there is little to be found."""

    def manager(node: str, epoch: int, book: Book, tuning: Tuning) -> Manager:
        if issubclass(make, TokenProbes):
            return make(node, epoch, book, nodes=tuning.nodes, again_ms=tuning.repeat_ms)
        return make(node, epoch, book)

    def claims(node: str, agent: Address, tuning: Tuning) -> Claimant:
        return claimant(node, agent, again_ms=tuning.repeat_ms, strong="named")

    return lambda made: StrongWeakSystem(made, name, manager=manager, claimant=claims, quarantine=quarantine)


def _mutant(
    name: str,
    rule: str,
    make: type[Manager],
    where: str,
    found_as: str | tuple[str, ...],
    faults: str = "",
    *,
    claimant: type[Claimant] = Claimant,
    quarantine: bool = True,
    timers: Timers | None = None,
) -> Mutant:
    """`quarantine` False: a node that has lost everything grants at once."""
    protocol = "strong-weak-named"
    if issubclass(make, AgedProbes):
        protocol = "strong-weak-probe"
    if issubclass(make, TokenProbes):
        protocol = "strong-weak-probe-token"
    return Mutant(
        name=name,
        protocol=protocol,
        rule=rule,
        found_as=(found_as,) if isinstance(found_as, str) else found_as,
        system=_system(make, protocol, claimant, quarantine=quarantine),
        world=lambda: by_pool_worlds()[where],
        faults=faults,
        timers=timers,
    )


STRONG_WEAK_MUTANTS = (
    _mutant("wound", "an older part that waits has younger holders killed", NoWound, "opposite", "deadlock"),
    _mutant("wound-younger", "only younger holders are killed", WoundsElders, "opposite", "deadlock"),
    _mutant("kill-granted", "a kill never hits a granted claim", KillsGranted, "chain3pairs", "exclusion"),
    _mutant("early-kill", "a kill before its promotion voids it", EarlyKillDropped, "opposite", "deadlock"),
    _mutant("killed-n", "Killed names its promotion", KilledOfAny, "opposite", "I1", "duplicate=1"),
    _mutant("killed-frees", "a kill frees the strong pool", KillsAndKeeps, "opposite", "deadlock"),
    _mutant("tombstones", "what has ended is remembered", NoTombstones, "same", "deadlock", "cancel=1"),
    _mutant("try-ends", "a claim without waiting gives back what it got", TryPasses, "nows", "row stays"),
    _mutant(
        "epoch-asked",
        "who knows another epoch is refused",
        EpochUnasked,
        "one",
        "row stays",
        "wipe=1,duplicate=1",
        timers="any",
    ),
    _mutant(
        "quarantine",
        "who has lost everything waits",
        Manager,
        "pair",
        "exclusion",
        "wipe=1",
        quarantine=False,
    ),
    _mutant(
        "attempt", "Allowed names its attempt", Manager, "pair", "exclusion", "expiry=1", claimant=AnyAttempt
    ),
    _mutant("promote-unsaved", "active before Promote", unsaved(Promote), "same", "I1", "crash=1"),
    _mutant("killed-unsaved", "given up before Killed", unsaved(Killed), "opposite", "I1", "crash=1"),
    _mutant("allowed-unsaved", "granted before Allowed", unsaved(Allowed), "pair", "exclusion", "crash=1"),
    _mutant("probe", "a part that waits seeks a cycle", NoProbe, "opposite", "deadlock"),
    _mutant(
        "probe-kill-granted",
        "a kill never hits a granted claim",
        KillsGrantedProbes,
        "opposite+1",
        "exclusion",
        "cancel=1",
    ),
    _mutant("by-id-only", "who has the token is killed by nobody else", ByIdOnly, "opp3-ever", "starved"),
)
"""The probe variants share the manager, so that what is shown there is not repeated."""
