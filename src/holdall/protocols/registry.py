"""The protocols by name: what makes their managers and claimants, and which messages a manager takes."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Protocol, Self, TypeAlias, cast, get_args

import msgspec

from holdall.machine.contract import Address, Boot, Machine, Record
from holdall.protocols.by_pool.messages import EndAck
from holdall.protocols.by_pool.messages import ToManager as ByPoolToManager
from holdall.protocols.chain.claimant import Claimant as ChainClaimant
from holdall.protocols.chain.manager import Manager as ChainManager
from holdall.protocols.chain.messages import EndAck as ChainEndAck
from holdall.protocols.chain.messages import Request as ChainRequest
from holdall.protocols.chain.messages import ToManager as ChainToManager
from holdall.protocols.chain.settling import Settings as ChainSettings
from holdall.protocols.game.claimant import Claimant as GameClaimant
from holdall.protocols.game.manager import Manager as GameManager
from holdall.protocols.game.messages import Rules as GameRules
from holdall.protocols.game.messages import ToManager as GameToManager
from holdall.protocols.game.messages import supersedes as game_supersedes
from holdall.protocols.game.properties import wrong_here as game_wrong
from holdall.protocols.hooks import Book, Effects
from holdall.protocols.lanes.claimant import Claimant as LanesClaimant
from holdall.protocols.lanes.lending_claimant import LendingClaimant
from holdall.protocols.lanes.lending_manager import LendingManager
from holdall.protocols.lanes.manager import Manager as LanesManager
from holdall.protocols.lanes.messages import ToManager as LanesToManager
from holdall.protocols.lanes.properties import wrong_between as lanes_wrong_between
from holdall.protocols.lanes.properties import wrong_here as lanes_wrong
from holdall.protocols.ordered.claimant import Claimant as OrderedClaimant
from holdall.protocols.ordered.manager import Manager as OrderedManager
from holdall.protocols.ordered.messages import ToManager as OrderedToManager
from holdall.protocols.ordered.properties import wrong_here as ordered_wrong
from holdall.protocols.strong_weak.claimant import Claimant as StrongWeakClaimant
from holdall.protocols.strong_weak.manager import Manager as StrongWeakManager
from holdall.protocols.strong_weak.messages import Between as StrongWeakBetween
from holdall.protocols.strong_weak.messages import BetweenProbes as StrongWeakBetweenProbes
from holdall.protocols.strong_weak.messages import BetweenToken as StrongWeakBetweenToken
from holdall.protocols.strong_weak.messages import Request as StrongWeakRequest
from holdall.protocols.strong_weak.messages import RingCall, RingToken
from holdall.protocols.strong_weak.messages import ToManager as StrongWeakToManager
from holdall.protocols.strong_weak.probes import AgedProbes, Probes
from holdall.protocols.strong_weak.properties import wrong_between as strong_weak_wrong_between
from holdall.protocols.strong_weak.properties import wrong_here as strong_weak_wrong
from holdall.protocols.strong_weak.ring_token import TokenProbes
from holdall.protocols.token.claimant import Claimant as TokenClaimant
from holdall.protocols.token.manager import Manager as TokenManager
from holdall.protocols.token.messages import Between as TokenBetween
from holdall.protocols.token.messages import MoveAck, Token, TokenAck
from holdall.protocols.token.messages import ToManager as TokenToManager
from holdall.protocols.token.properties import wrong_between as token_wrong_between
from holdall.protocols.token.properties import wrong_here as token_wrong
from holdall.protocols.token.ring import RingSettings
from holdall.protocols.token.tickets import Tickets
from holdall.protocols.vocabulary import ClaimId


class PoolManager(Protocol):
    """A manager as whoever composes a pool's side sees it: a `PoolGuard` that takes messages and timers."""

    def receive(self, sender: Address, message: Any, out: Effects) -> None:
        """One message (of `ProtocolEntry.messages`) and its whole turn."""
        ...

    def fired(self, timer: str, out: Effects) -> bool:
        """A timer has run out. False: it is none of the manager's."""
        ...

    def clock_read(self, wall_ms: int) -> None:
        """What the wall clock shows."""
        ...

    def capacity_changed(self, out: Effects, pools: Collection[str] = ()) -> None:
        """As in `hooks.PoolGuard`."""
        ...

    def departed(self, claim: ClaimId, out: Effects, reason: str = "expired") -> None:
        """As in `hooks.PoolGuard`."""
        ...

    def recover(self, records: Mapping[str, Record], boot: Boot, out: Effects) -> None:
        """Come up from the records of earlier turns, after the book."""
        ...

    def key(self) -> Hashable:
        """Equal keys behave alike over equal books."""
        ...

    def copy_with(self, book: Book) -> Self:
        """An independent twin over a copied book."""
        ...


class Tuning(msgspec.Struct, frozen=True):
    """What protocols can be told; each takes what it knows."""

    passes: int = 8
    passes_per_ahead: int = 1
    try_from: int = 4
    """Claims over so many nodes or more try all of them at once first."""
    repeat_ms: int | None = None
    """Pause before a message is repeated, doubled up to `repeat_most_ms`; None: never."""
    repeat_most_ms: int | None = None
    sweep_ms: int | None = None
    """Ends of claims are remembered for one to two of these spans; None: for ever."""
    nodes: tuple[str, ...] = ()
    """All nodes with pools, for protocols whose managers form a ring."""
    parks: bool = True
    """Whether a ring's token rests while nobody waits for it."""
    patience_ms: int = 6000
    """How long a claim waits before it lends what it has, or asks others to let it pass (lending, alarms)."""


DEFAULT_TUNING = Tuning()

ManagerFactory: TypeAlias = Callable[[str, int, Book, Tuning], PoolManager]
"""(node, epoch, book, tuning)"""
ClaimantFactory: TypeAlias = Callable[[str, Address, Tuning], Machine]
"""(node, agent, tuning) -> the machine for part `claimant`."""


def never_supersedes(older: Any, newer: Any) -> bool:
    """Of a protocol whose messages are not numbered."""
    del older, newer
    return False


def nothing_wrong(seen: Any) -> Iterable[str]:
    """A protocol without properties of its own."""
    del seen
    return ()


class ProtocolEntry(msgspec.Struct, frozen=True):
    """One protocol."""

    name: str
    manager: ManagerFactory
    claimant: ClaimantFactory
    messages: tuple[type, ...]
    """What a manager takes."""
    by_pool: bool = True
    """Its machines are those of `protocols.by_pool`: each pool is asked apart."""
    between: tuple[type, ...] = ()
    """Those of `messages` that managers send each other."""
    ring: bool = False
    """Its managers form a ring, whose members must be told who else there is."""
    bounded: bool = False
    """It states how many younger claims can get ahead of a waiting one at a node."""
    pools_max: int | None = None
    """Pools that one claim may want; None: any number."""
    wrong_here: Callable[[Any], Iterable[str]] = nothing_wrong
    """The protocol's own properties of a manager after a turn, as `name: text`; beside those of all by pool."""
    wrong_between: Callable[[Mapping[str, Any]], Iterable[str]] = nothing_wrong
    """The same over all nodes that are up, by node: values with `epoch`, `entries`, `buried` and `own` (own_facts)."""
    uncounted: frozenset[type] = frozenset({EndAck})
    """Messages that are no work of the protocol: acknowledgements of an end."""
    names_decide: bool = True
    """Ids of claims decide ties, so equal claims are not treated alike."""
    supersedes: Callable[[Any, Any], bool] = never_supersedes
    """(older, newer) of one link: whether who has got the newer one ignores the older one for ever."""
    clocked: frozenset[type] = frozenset()
    """Messages before which a manager is told the time: those that are stamped on arrival."""


class UnknownProtocolError(ValueError):
    """There is no protocol of this name."""


def protocol(name: str) -> ProtocolEntry:
    """The protocol of this name. Raises UnknownProtocolError, which names those that there are."""
    if name not in PROTOCOLS:
        raise UnknownProtocolError(f"no protocol {name!r}; there are: {', '.join(sorted(PROTOCOLS))}")
    return PROTOCOLS[name]


def _chain_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    settings = ChainSettings(
        passes=tuning.passes,
        passes_per_ahead=tuning.passes_per_ahead,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
    )
    return ChainManager(node, epoch, book, settings)


def _chain_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return ChainClaimant(
        node,
        agent,
        try_from=tuning.try_from,
        repeat_ms=tuning.repeat_ms,
        repeat_most_ms=tuning.repeat_most_ms,
    )


def _ordered_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return OrderedManager(node, epoch, book, sweep_ms=tuning.sweep_ms)


def _ordered_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return OrderedClaimant(node, agent, again_ms=tuning.repeat_most_ms or tuning.repeat_ms)


def _ring_settings(tuning: Tuning) -> RingSettings:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return RingSettings(nodes=tuning.nodes, again_ms=again_ms, parks=tuning.parks, sweep_ms=tuning.sweep_ms)


def _token_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return TokenManager(node, epoch, book, **_ring_settings(tuning))


def _tickets_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return Tickets(node, epoch, book, **_ring_settings(tuning))


def _token_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    return TokenClaimant(node, agent, again_ms=tuning.repeat_most_ms or tuning.repeat_ms)


def _lanes_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return LanesManager(node, epoch, book, sweep_ms=tuning.sweep_ms, again_ms=again_ms)


def _lanes_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return LanesClaimant(node, agent, again_ms=again_ms, first_ms=tuning.repeat_ms)


def _strong_weak_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return StrongWeakManager(node, epoch, book, sweep_ms=tuning.sweep_ms)


def _aged_probes_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return AgedProbes(node, epoch, book, sweep_ms=tuning.sweep_ms)


def _probes_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    return Probes(node, epoch, book, sweep_ms=tuning.sweep_ms)


def _token_probes_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return TokenProbes(node, epoch, book, sweep_ms=tuning.sweep_ms, nodes=tuning.nodes, again_ms=again_ms)


def _lower_strong(node: str, agent: Address, tuning: Tuning) -> Machine:
    return StrongWeakClaimant(node, agent, again_ms=tuning.repeat_most_ms or tuning.repeat_ms)


def _any_strong(node: str, agent: Address, tuning: Tuning) -> Machine:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return StrongWeakClaimant(node, agent, again_ms=again_ms, strong="drawn")


def _lending_manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return LendingManager(node, epoch, book, sweep_ms=tuning.sweep_ms, again_ms=again_ms)


def _lending_claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
    again_ms = tuning.repeat_most_ms or tuning.repeat_ms
    return LendingClaimant(
        node, agent, again_ms=again_ms, first_ms=tuning.repeat_ms, patience_ms=tuning.patience_ms
    )


def game_played(name: str, rules: GameRules) -> ProtocolEntry:
    """A variant of the game of tasks."""

    def manager(node: str, epoch: int, book: Book, tuning: Tuning) -> PoolManager:
        return GameManager(node, epoch, book, rules=rules, sweep_ms=tuning.sweep_ms)

    def claimant(node: str, agent: Address, tuning: Tuning) -> Machine:
        again_ms = tuning.repeat_most_ms or tuning.repeat_ms
        return GameClaimant(node, agent, rules=rules, alarm_ms=tuning.patience_ms, again_ms=again_ms)

    return ProtocolEntry(
        name, manager, claimant, _by_pool(GameToManager), wrong_here=game_wrong, supersedes=game_supersedes
    )


def _by_pool(*own: object) -> tuple[type, ...]:
    """Messages of a manager by pool: those that are the same for all, and the protocol's own."""
    kinds: list[type] = [*get_args(ByPoolToManager)]
    for one in own:
        members: tuple[Any, ...] = get_args(one)
        if not members and not isinstance(one, type):
            raise TypeError(f"{one!r} is no message of a manager")
        kinds.extend(members or (cast("type", one),))
    return tuple(kinds)


def _strong_weak(
    name: str, manager: ManagerFactory, claimant: ClaimantFactory, between: object
) -> ProtocolEntry:
    """A variant for claims of one or two pools."""
    return ProtocolEntry(
        name,
        manager,
        claimant,
        _by_pool(StrongWeakToManager, between),
        between=get_args(between),
        pools_max=2,
        wrong_here=strong_weak_wrong,
        wrong_between=strong_weak_wrong_between,
        uncounted=frozenset({EndAck, RingCall, RingToken}),
        clocked=frozenset({StrongWeakRequest}),
    )


PROTOCOLS: dict[str, ProtocolEntry] = {
    entry.name: entry
    for entry in (
        ProtocolEntry(
            "chain",
            _chain_manager,
            _chain_claimant,
            get_args(ChainToManager),
            by_pool=False,
            bounded=True,
            names_decide=False,
            uncounted=frozenset({ChainEndAck}),
            clocked=frozenset({ChainRequest}),
        ),
        ProtocolEntry(
            "ordered",
            _ordered_manager,
            _ordered_claimant,
            _by_pool(OrderedToManager),
            wrong_here=ordered_wrong,
            names_decide=False,
        ),
        _strong_weak("strong-weak", _strong_weak_manager, _lower_strong, StrongWeakBetween),
        _strong_weak("strong-weak-named", _strong_weak_manager, _any_strong, StrongWeakBetween),
        _strong_weak("strong-weak-probe", _probes_manager, _any_strong, StrongWeakBetweenProbes),
        _strong_weak("strong-weak-probe-aged", _aged_probes_manager, _lower_strong, StrongWeakBetweenProbes),
        _strong_weak("strong-weak-probe-token", _token_probes_manager, _any_strong, StrongWeakBetweenToken),
        ProtocolEntry(
            "token",
            _token_manager,
            _token_claimant,
            _by_pool(TokenToManager),
            between=get_args(TokenBetween),
            ring=True,
            wrong_here=token_wrong,
            wrong_between=token_wrong_between,
            uncounted=frozenset({EndAck, Token, TokenAck}),
        ),
        ProtocolEntry(
            "token-tickets",
            _tickets_manager,
            _token_claimant,
            _by_pool(TokenToManager),
            between=get_args(TokenBetween),
            ring=True,
            wrong_here=token_wrong,
            wrong_between=token_wrong_between,
            uncounted=frozenset({EndAck, MoveAck, Token, TokenAck}),
        ),
        ProtocolEntry(
            "lanes",
            _lanes_manager,
            _lanes_claimant,
            _by_pool(LanesToManager),
            wrong_here=lanes_wrong,
            wrong_between=lanes_wrong_between,
        ),
        ProtocolEntry(
            "lanes-lending",
            _lending_manager,
            _lending_claimant,
            _by_pool(LanesToManager),
            wrong_here=lanes_wrong,
            wrong_between=lanes_wrong_between,
        ),
        game_played("game", GameRules()),
        game_played("game-complete", GameRules(complete=True)),
    )
}
