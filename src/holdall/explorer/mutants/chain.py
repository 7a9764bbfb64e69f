"""The chain with one rule taken away, and the world in which the search must see it.

Each mutant is the shipped manager with one method changed. Source: chain specification, section 9 (rules that are
necessary) and section 7 (what must be saved before which message).
"""

from collections.abc import Callable

import msgspec

from holdall.explorer.moves import Timers
from holdall.explorer.mutants.mutant import Mutant
from holdall.machine.contract import Address, Forget, Message, Save, Send
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.messages import MANAGER, Allowed, EndAck, Kill, Killed, Promote, ToManager, Tried
from holdall.protocols.chain.rows import Killing, Mem, Row
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Vector
from holdall.world.chain import ChainSystem
from holdall.world.named import named, plan, world
from holdall.world.plan import World


class NoWound(Manager):
    """Nobody is called back."""

    def in_the_way(self, row: Row) -> bool:
        return False


class HoldersWound(Manager):
    """Only rows that hold something at an earlier node call others back."""

    def in_the_way(self, row: Row) -> bool:
        return any(
            self.counts.blocked(other, pool)
            for other in self.rows.values()
            if not other.active and other.index > 0 and other.age < row.age
            for pool, _ in row.vector
            if pool in dict(other.most)
        )


class KillsGranted(Manager):
    """A Kill reaches a claim that is granted."""

    def on_kill(self, sender: Address, message: Kill, out: Effects) -> None:
        row = self.row_of(message.claim, message.attempt)
        if row is not None and row.active and row.last and row.pn == message.pn and row.index > 0:
            self.remember(row, out)
            self.remove(row, out)
            out.append(Send(sender, Killed(message.claim, message.attempt, message.pn)))
            self.settle(out)
        else:
            super().on_kill(sender, message, out)


class EarlyKillIsDropped(Manager):
    """A Kill that has overtaken its Promote is forgotten."""

    def on_kill_before_promote(self, sender: Address, message: Kill, out: Effects) -> None:
        del sender, message, out


class KilledKeepsTheMiddle(Manager):
    """A node that a kill passes on its way back keeps what it has set aside."""

    def on_killed_further_on(self, row: Row, out: Effects) -> None:
        self.rows[row.claim] = msgspec.structs.replace(row, kill=Killing.NO)
        before = Address(row.need[row.index - 1].node, MANAGER)
        out.append(Send(before, Killed(row.claim, row.attempt, row.pn)))


class CountsFromNought(Manager):
    """The number of activations is not remembered over a kill."""

    def remember(self, row: Row, out: Effects) -> None:
        self.keep_mem(row.claim, Mem(row.attempt, row.pn, 0, row.left, row.ahead, row.bound), out)


class PassesUnbounded(Manager):
    """A waiting row may be passed for ever."""

    def is_spent(self, row: Row) -> bool:
        return False


class FirstPays(Manager):
    """A pass costs only the oldest of the rows passed."""

    def charged(self, passed: list[Row]) -> list[Row]:
        return passed[:1]


class PassesComeBackFull(Manager):
    """A claim that was killed away comes back with all its passes."""

    def counts_at_start(
        self, mem: Mem | None, most: Vector, age: tuple[object, object]
    ) -> tuple[int, int, int, int]:
        forgotten = None if mem is None else msgspec.structs.replace(mem, left=None)
        return super().counts_at_start(forgotten, most, age)  # type: ignore[arg-type]


class PassesAnywhere(Manager):
    """Rows pass at any node, and a row calls others back only when it arrives."""

    def may_pass_here(self, row: Row) -> bool:
        del row
        return True

    def settle(self, out: Effects) -> None:
        arrived = {age[1] for age in self._fresh}
        self.scan(out)
        waiting = [self.rows[claim] for claim in sorted(arrived) if claim in self.rows]
        pressed = self.counts.movable_at(self._pressed)
        self._pressed.clear()
        for claim in pressed:
            row = self.rows[claim]
            if row.kill is Killing.NO and any(self._stands_before(row, other) for other in waiting):
                self.rows[claim] = msgspec.structs.replace(row, kill=Killing.HERE)
                self.send_kill(row, out)

    def _stands_before(self, row: Row, other: Row) -> bool:
        pools = {pool for pool, _ in other.most} & {pool for pool, _ in row.vector}
        return (
            not other.active
            and other.age < row.age
            and any(self.counts.blocked(other, pool) for pool in sorted(pools))
        )


class TryPasses(Manager):
    """A claim without waiting takes what fits, whoever waits for it."""

    def try_choice(self, wants: tuple[Vector, ...]) -> tuple[int, Vector] | None:
        for place, wanted in enumerate(wants):
            vector = self.counts.resolved(wanted)
            if self.counts.fits(vector):
                return place, vector
        return None


class ShrinkBuriesNot(Manager):
    """A claim that gives everything here back leaves no tombstone."""

    def on_shrunk_to_nothing(self, row: Row, out: Effects) -> None:
        del row, out


class KillOfAnyEpoch(Manager):
    """A Kill for an earlier epoch is answered."""

    def is_foreign(self, message: Kill) -> bool:
        del message
        return False


class EpochUnasked(Manager):
    """A newcomer that knows another epoch stands in line all the same."""

    def turns_away(self, epoch: int) -> bool:
        return super().turns_away(self.epoch)


class AnyAttempt(Manager):
    """A message about an earlier attempt is taken for one about the present one."""

    def row_of(self, claim: ClaimId, attempt: int) -> Row | None:
        del attempt
        return self.rows.get(claim)


class OverIsBefore(Manager):
    """Only attempts before the one that was buried last are over: less than, in place of at most."""

    def is_over(self, claim: ClaimId, attempt: int) -> bool:
        return super().is_over(claim, attempt) and attempt != self.buried.get(claim, 0)


class NoTombstones(Manager):
    """What is over is forgotten at once."""

    def bury(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        del claim, attempt, out


def unsaved(*kinds: type[Message]) -> type[Manager]:
    """A manager that lets messages of these kinds leave without saving their turn."""

    class Unsaved(Manager):
        """As `unsaved` says."""

        def receive(self, sender: Address, message: ToManager, out: Effects) -> None:
            begun = len(out)
            super().receive(sender, message, out)
            if any(isinstance(effect, Send) and isinstance(effect.message, kinds) for effect in out[begun:]):
                out[begun:] = [effect for effect in out[begun:] if not isinstance(effect, Save | Forget)]

    return Unsaved


def _world(name: str, passes: int = 1) -> Callable[[], World]:
    return lambda: named(name, passes=passes)


def _metered(name: str, passes: int = 1) -> Callable[[], World]:
    return lambda: msgspec.structs.replace(named(name, passes=passes), meter=True)


def _two_tries() -> World:
    return world("n1at", "a", [plan("0:a", wait=False), plan("0:a", wait=False)])


_CRASH = "crash=1"
_WIPE = "wipe=1"


def _mutant(
    name: str,
    rule: str,
    make: type[Manager],
    where: Callable[[], World],
    found_as: str,
    faults: str = "",
    *,
    timers: Timers | None = None,
    quarantine: bool = True,
) -> Mutant:
    """`quarantine` False: a node that has lost everything grants at once."""
    return Mutant(
        name=name,
        protocol="chain",
        rule=rule,
        found_as=(found_as,),
        system=lambda world: ChainSystem(world, manager=make, quarantine=quarantine, settled=False),
        world=where,
        faults=faults,
        timers=timers,
    )


CHAIN_MUTANTS = (
    _mutant("wound", "older waiting rows call younger ones back", NoWound, _world("x2"), "deadlock"),
    _mutant(
        "holders-wound",
        "every waiting row calls others back, whether it holds something or not",
        HoldersWound,
        _world("res@oldest", 0),
        "deadlock",
    ),
    _mutant("kill-granted", "a kill never hits a granted claim", KillsGranted, _world("ring3"), "exclusion"),
    _mutant(
        "early-kill", "a kill before its promotion voids it", EarlyKillIsDropped, _world("x2"), "deadlock"
    ),
    _mutant(
        "killed-middle",
        "a kill frees the nodes on its way back",
        KilledKeepsTheMiddle,
        _world("rot3"),
        "invariant",
    ),
    _mutant(
        "count",
        "the count of activations outlives a kill",
        CountsFromNought,
        _world("back3@reversed"),
        "deadlock",
    ),
    _mutant("bounded-passing", "passing is bounded", PassesUnbounded, _metered("e1"), "bound"),
    _mutant(
        "pass-anywhere",
        "only at its last node may a claim pass, and waiting rows call back at any time",
        PassesAnywhere,
        _world("x3u"),
        "deadlock",
    ),
    _mutant("try-passes", "a claim without waiting passes nobody", TryPasses, _metered("t1"), "bound"),
    _mutant(
        "shrink-buries",
        "giving everything back at a node buries",
        ShrinkBuriesNot,
        _world("shk"),
        "exclusion",
    ),
    _mutant(
        "kill-epoch",
        "a kill names the epoch it is meant for",
        KillOfAnyEpoch,
        _world("kb"),
        "exclusion",
        _WIPE,
    ),
    _mutant(
        "epoch-asked",
        "who knows another epoch is refused",
        EpochUnasked,
        _world("n1a"),
        "row stays",
        "wipe=1,duplicate=1",
        timers="any",
    ),
    _mutant(
        "quarantine",
        "a node that lost everything grants nothing while earlier leases may live",
        Manager,
        _world("n1abc"),
        "exclusion",
        _WIPE,
        quarantine=False,
    ),
    _mutant("every-pass-counts", "a pass counts for every row passed", FirstPays, _world("b4"), "bound"),
    _mutant("passes-kept", "passes left outlive a kill", PassesComeBackFull, _world("b3@oldest"), "bound"),
    _mutant(
        "save-promote",
        "a row is saved before its promotion leaves",
        unsaved(Promote),
        _world("x2"),
        "invariant",
        _CRASH,
    ),
    _mutant(
        "save-killed",
        "a removal is saved before Killed leaves",
        unsaved(Killed),
        _world("x2"),
        "invariant",
        _CRASH,
    ),
    _mutant(
        "save-allowed",
        "a grant is saved before Allowed leaves",
        unsaved(Allowed),
        _world("n1aa"),
        "exclusion",
        _CRASH,
    ),
    _mutant(
        "save-tried",
        "a grant is saved before Tried leaves",
        unsaved(Tried),
        _two_tries,
        "exclusion",
        _CRASH,
    ),
    _mutant(
        "save-end",
        "an end is saved before EndAck leaves",
        unsaved(EndAck),
        _world("n1a"),
        "row stays",
        _CRASH,
    ),
    _mutant(
        "any-attempt",
        "what was said of an earlier attempt is no news of the present one",
        AnyAttempt,
        _world("x2low"),
        "deadlock",
        "expiry=1",
    ),
    _mutant(
        "buried-too",
        "the attempt that was buried is over, too",
        OverIsBefore,
        _world("n1a"),
        "row stays",
        "duplicate=1",
    ),
    _mutant(
        "tombstones",
        "what is over stays over while messages of it may come",
        NoTombstones,
        _world("n1a"),
        "row stays",
        "duplicate=1",
    ),
)
"""In the order of the specification."""

HARMLESS = unsaved(Kill)
"""Nothing need be saved before a Kill: with this manager every property still holds."""
