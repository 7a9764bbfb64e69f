"""The game of tasks with one rule taken away, and the world in which the search must see it.

Source: game specification, section 3 (repairs G1 to G10), common specification, section 3 (what must be saved).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdall.explorer.endless import EndlessByPool
from holdall.explorer.mutants.mutant import Mutant
from holdall.machine.contract import Address, Effect, Forget, Machine, Record, Save
from holdall.protocols.by_pool.manager import Key
from holdall.protocols.game.board import Board
from holdall.protocols.game.claimant import Claimant
from holdall.protocols.game.manager import Manager
from holdall.protocols.game.messages import Form, GameClaim, GameEntry, Rules, Stage, View
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.registry import Tuning
from holdall.world.by_pool_worlds import by_pool_worlds
from holdall.world.named import stamped
from holdall.world.plan import World

AS_FREE = Rules(keeps_place=False)
"""Units in use are a reason to withdraw: then who stands at the doorway, or passes it, decides who starves."""
ASKS_FIRST = Rules(claims=False)
"""Without tentative requests."""
RULES = {"game": Rules(), "game-complete": Rules(complete=True)}

# Claims


class TicketsAlone(Claimant):
    """Lower priorities that are ahead are no reason to wait (G1: win with p2 only)."""

    def has_won(self, record: GameClaim, views: Sequence[View]) -> bool:
        return record.stage is Stage.REQUESTED and all(view.fits for view in views)


class WinsUnmarked(Claimant):
    """The own order marks are not awaited (G2)."""

    def has_won(self, record: GameClaim, views: Sequence[View]) -> bool:
        return self.may_order(views)


class AnyRound(Claimant):
    """What was set aside for a request that is withdrawn counts (G4)."""

    def counts(self, record: GameClaim, view: View) -> bool:
        present = msgspec.structs.replace(record, round=view.round) if view.units else record
        return super().counts(present, view)

    def ignores_own(self, record: GameClaim, message: Any) -> bool:
        set_aside = isinstance(message, View) and message.stage is Stage.REQUESTED and message.units
        return not set_aside and super().ignores_own(record, message)


class AnyView(Claimant):
    """A view that is older than another is taken (G6)."""

    def counts(self, record: GameClaim, view: View) -> bool:
        unseen = (None,) * len(record.places)
        return super().counts(msgspec.structs.replace(record, views=unseen), view)


class NoDoor(Claimant):
    """Who registers competes at once."""

    def is_let_in(self, views: Sequence[View]) -> bool:
        return True


class Stubborn(Claimant):
    """Requests stay where they are, whoever comes before them (p2)."""

    def _withdraw(self, record: GameClaim, out: Effects) -> None:
        del record, out


class SameAttempt(Claimant):
    """What waits over a restart of its node goes on in its attempt."""

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        return super(Claimant, self).recover(records)


# Pools


class AnyForm(Manager):
    """A form that is older than another of the claim is taken (G5)."""

    def ignores(self, message: Any) -> bool:
        return False

    def _next(self, sender: Address, entry: GameEntry, form: Form, out: Effects) -> None:
        if (form.round, form.stage) < (entry.round, entry.stage) < (entry.round, Stage.WON):
            entry = self._moved(msgspec.structs.replace(entry, round=form.round - 1), form, out)
            self.replace(entry, out)
            self._place(entry)
            self.settle(entry.pool, out)
            return
        super()._next(sender, entry, form, out)


class PastAdmitted(Manager):
    """A tentative request is taken though somebody else is admitted."""

    def _is_alone(self, board: Board, entry: GameEntry) -> bool:
        return not board.queue and self.book.may_grant() and self.wanted(entry) <= self.free(entry.pool)


class NoRepair(Manager):
    """A form that is known already is not answered: who has missed a view never sees it."""

    def _show_again(self, entry: GameEntry, out: Effects) -> None:
        if entry.stage >= Stage.WON:
            super()._show_again(entry, out)


class RequestUnsaved(Manager):
    """A request, and what is set aside for it, is not saved before the view that shows it."""

    def _keep(self, entry: GameEntry, turn: Effects, out: Effects) -> None:
        skip = entry.stage < Stage.WON and entry.stage is not Stage.REGISTERED
        out.extend(one for one in turn if not (skip and isinstance(one, Save)))

    def put(self, entry: GameEntry, out: Effects) -> None:
        turn: Effects = []
        super().put(entry, turn)
        self._keep(entry, turn, out)

    def replace(self, entry: GameEntry, out: Effects) -> None:
        turn: Effects = []
        super().replace(entry, turn)
        self._keep(entry, turn, out)


class ReleaseUnsaved(Manager):
    """An end is not saved before it is acknowledged."""

    def end(self, key: Key, attempt: int, out: Effects) -> None:
        turn: Effects = []
        super().end(key, attempt, turn)
        out.extend(one for one in turn if not isinstance(one, Forget))

    def bury(self, key: Key, attempt: int, out: Effects) -> None:
        super().bury(key, attempt, [])


def _system(
    protocol: str,
    *,
    manager: type[Manager] = Manager,
    claimant: type[Claimant] = Claimant,
    quarantine: bool = True,
    rules: Rules | None = None,
) -> Callable[[World], EndlessByPool]:
    rules = rules or RULES[protocol]

    def make_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> Manager:
        return manager(node, epoch, book, rules=rules, sweep_ms=tuning.sweep_ms)

    def make_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
        return claimant(node, agent, rules=rules, alarm_ms=tuning.patience_ms, again_ms=tuning.repeat_ms)

    def make(world: World) -> EndlessByPool:
        return EndlessByPool(
            world,
            protocol,
            manager=make_manager,
            claimant=make_claimant,
            quarantine=quarantine,
            patience_ms=0,
        )

    return make


def _mutant(
    name: str,
    rule: str,
    world: str,
    found_as: tuple[str, ...],
    faults: str = "",
    *,
    protocol: str = "game",
    manager: type[Manager] = Manager,
    claimant: type[Claimant] = Claimant,
    quarantine: bool = True,
    rules: Rules | None = None,
    oldest: bool = False,
    reduce: str = "",
) -> Mutant:
    def make_world() -> World:
        made = by_pool_worlds()[world]
        return stamped(made, "oldest") if oldest else made

    return Mutant(
        name=name,
        protocol=protocol,
        rule=rule,
        found_as=found_as,
        system=_system(protocol, manager=manager, claimant=claimant, quarantine=quarantine, rules=rules),
        world=make_world,
        faults=faults,
        reduce=reduce,
        states_max=150_000,
    )


GAME_MUTANTS = (
    _mutant(
        "tickets-alone",
        "a claim waits for lower priorities ahead of it, too",
        "pair",
        ("whole grant",),
        claimant=TicketsAlone,
    ),
    _mutant(
        "marks-seen",
        "a claim wins when its order marks are seen",
        "pair",
        ("whole grant",),
        protocol="game-complete",
        claimant=WinsUnmarked,
    ),
    _mutant(
        "round",
        "only requests of the present round count",
        "same",
        ("refused",),
        claimant=AnyRound,
        reduce="ignored",
    ),
    _mutant(
        "old-view",
        "a view that is older than another is ignored",
        "sub",
        ("deadlock",),
        claimant=AnyView,
        reduce="ignored",
    ),
    _mutant(
        "old-form",
        "a form that is older than another is ignored",
        "same",
        ("refused",),
        manager=AnyForm,
        reduce="ignored",
    ),
    _mutant(
        "repair",
        "a form that comes again is answered with the newest view",
        "pair",
        ("unserved",),
        "loss=1",
        manager=NoRepair,
    ),
    _mutant(
        "save-request",
        "a request is saved before a view shows it",
        "pair",
        ("exclusion",),
        "crash=1",
        manager=RequestUnsaved,
    ),
    _mutant(
        "save-release",
        "an end is saved before it is acknowledged",
        "pair",
        ("books",),
        "crash=1",
        manager=ReleaseUnsaved,
    ),
    _mutant(
        "quarantine",
        "a pool that has lost everything grants nothing for a while",
        "pair",
        ("exclusion",),
        "wipe=1",
        quarantine=False,
    ),
    _mutant(
        "doorway",
        "who registers waits for those that were admitted then",
        "stream",
        ("starved",),
        claimant=NoDoor,
        rules=AS_FREE,
        oldest=True,
        reduce="late,ignored",
    ),
    _mutant(
        "alone",
        "a tentative request is taken only while nobody is admitted",
        "stream",
        ("starved",),
        manager=PastAdmitted,
        rules=AS_FREE,
        oldest=True,
        reduce="late,ignored",
    ),
    _mutant(
        "withdraw",
        "who stands behind a higher priority takes its requests back",
        "same",
        ("deadlock",),
        claimant=Stubborn,
        rules=ASKS_FIRST,
        reduce="ignored",
    ),
    _mutant(
        "same-attempt",
        "what waits over a restart of its node comes as another attempt",
        "pair",
        ("deadlock",),
        "crash=1",
        claimant=SameAttempt,
        reduce="ignored",
    ),
)
