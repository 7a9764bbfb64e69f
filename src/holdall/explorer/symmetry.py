"""Equal clients are exchanged: of all states that differ only by who is who, one is looked at.

Clients are equal when their plans are, but for the host, and each has a host of its own. An exchange renames hosts and
claims in local states, messages and the scene. Sound where the machines treat names alike; where names decide (a
tie of ages, say), two states that are taken for one go on differently. A system that says so is refused; and every so often a state that is taken for
another one is looked at, too, and the search refuses when its moves are not those of the other one, renamed.
(Ip and Dill, Better verification through symmetry, 1996.) Units of a pool have no names in a book that only counts.
"""

import re
from collections.abc import Iterator
from itertools import permutations, product
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from holdall.explorer.mail import Letter
from holdall.explorer.moves import State
from holdall.explorer.turns import Turns
from holdall.explorer.twins import twin
from holdall.protocols.vocabulary import ClaimId
from holdall.world.clients import COMPANION, Scene
from holdall.world.plan import BadWorld, World

T = TypeVar("T")
EXCHANGES_MAX = 120
LOOKED_AT_FIRST, LOOKED_AT_EVERY = 200, 64
"""Of states that are taken for others, the first 200 are looked at, too, and then one in 64."""
_OWN = (1 << 40) - 1
"""Above these bits of a claim's counter stands which of its placements it is."""
_CLAIM_TEXT = re.compile(r"([a-z0-9._-]+)\.(\d+)\.(\d+)")


NOT_ALIKE = "equal clients are not treated alike in this world (their names decide something); leave --reduce symmetry out"


@runtime_checkable
class Named(Protocol):
    """A system that knows whether its machines treat names alike."""

    @property
    def names_decide(self) -> bool:
        """Whether ids of claims decide ties."""
        ...


class Renaming:
    """One exchange of clients: `to` is client -> the client that it becomes."""

    def __init__(self, world: World, to: tuple[int, ...]) -> None:
        self.to = to
        self.names = {plan.host: world.claims[to[slot]].host for slot, plan in enumerate(world.claims)}
        self.locals: dict[tuple[int, int], int] = {}
        """(host, local state) -> that of the renamed host."""
        self.messages: dict[int, int] = {}
        self.scenes: dict[int, int] = {}

    def claim(self, claim: ClaimId) -> ClaimId:
        """The claim of the client that its client becomes."""
        slot = ((claim.counter & _OWN) - 1) % COMPANION
        counter = claim.counter - slot + self.to[slot]
        return ClaimId(self.names.get(claim.node, claim.node), claim.incarnation, counter)

    def text(self, text: str) -> str:
        """A host's name, or the name of a timer or record with a claim in it."""
        return self.names.get(text) or _CLAIM_TEXT.sub(self._in_text, text)

    def _in_text(self, match: re.Match[str]) -> str:
        if match[1] not in self.names:
            return match[0]
        return str(self.claim(ClaimId(match[1], int(match[2]), int(match[3]))))

    def value(self, value: T) -> T:
        """A twin of any value, machines included, in which all names are exchanged."""
        return twin(value, self._other)

    def _other(self, one: Any) -> Any:
        if isinstance(one, ClaimId):
            return self.claim(one)
        return self.text(one) if isinstance(one, str) else None


class Symmetry:
    """The exchanges of one world, and the state that stands for all that are alike."""

    def __init__(self, space: Turns) -> None:
        """Raises BadWorld when no two clients are equal, or when it is known that their names decide something."""
        if isinstance(space.system, Named) and space.system.names_decide:
            raise BadWorld(NOT_ALIKE)
        self._space = space
        world = space.system.world
        self.renamings = [Renaming(world, to) for to in _exchanges(world)]
        if not self.renamings:
            raise BadWorld("no two clients of this world are equal; leave --reduce symmetry out")
        self.taken = 0
        """So many states were taken for others."""

    def should_look(self) -> bool:
        """Another state was taken for one that is like it: whether it should be looked at all the same."""
        self.taken += 1
        return self.taken <= LOOKED_AT_FIRST or not self.taken % LOOKED_AT_EVERY

    def canonical(self, state: State) -> State:
        """The least of all states that are like this one."""
        return min(state, *(self.exchanged(state, renaming) for renaming in self.renamings))

    def exchanged(self, state: State, renaming: Renaming) -> State:
        """The state in which clients have become others."""
        space, numbers = self._space, self._space.host_numbers
        locals_ = list(state[:-2])
        for host, name in enumerate(space.names):
            to = numbers[renaming.names.get(name, name)]
            local = renaming.locals.get((host, state[host]))
            if local is None:
                local = renaming.locals[host, state[host]] = self._local(host, to, state[host], renaming)
            locals_[to] = local
        scene = renaming.scenes.get(state[-1])
        if scene is None:
            scene = renaming.scenes[state[-1]] = space.scene_number(
                self._scene(space.scenes[state[-1]], renaming)
            )
        messages = tuple(self._message(message, renaming) for message in space.links.in_flight(state[-2]))
        mask = 0
        for message in messages:
            mask |= 1 << message
        return (*locals_, space.links.sent(0, messages, mask), scene)

    def _local(self, host: int, to: int, local: int, renaming: Renaming) -> int:
        table = self._space.tables[host]
        renamed, timers, saved = renaming.value((table.hosts[local], table.timers[local], table.saved[local]))
        return self._space.tables[to].put_all(renamed, tuple(sorted(timers)), saved)

    def _message(self, message: int, renaming: Renaming) -> int:
        known = renaming.messages.get(message)
        if known is None:
            letter: Letter = renaming.value(self._space.mail.letters[message])
            known = self._space.mail.number(letter.sender, letter.to, letter.message)
            renaming.messages[message] = known
        return known

    def _scene(self, scene: Scene, renaming: Renaming) -> Scene:
        clients = list(scene.clients)
        for slot, to in enumerate(renaming.to):
            clients[to] = scene.clients[slot]
        other: Scene = renaming.value(msgspec.structs.replace(scene, clients=()))
        return msgspec.structs.replace(
            other,
            clients=tuple(clients),
            silent=tuple(sorted(other.silent)),
            untold=tuple(sorted(other.untold)),
            lapsed=tuple(sorted(other.lapsed)),
            ghosts=tuple(sorted(other.ghosts)),
            meter=tuple(sorted(other.meter)),
        )


def _exchanges(world: World) -> Iterator[tuple[int, ...]]:
    """All ways to exchange equal clients, the one that exchanges nobody left out."""
    classes: dict[Any, list[int]] = {}
    hosts = [plan.host for plan in world.claims]
    for slot, plan in enumerate(world.claims):
        alone = hosts.count(plan.host) == 1 and plan.clock is None
        key = msgspec.structs.replace(plan, host="") if alone else slot
        classes.setdefault(key, []).append(slot)
    count = 0
    for chosen in product(*(permutations(slots) for slots in classes.values())):
        to = list(range(len(hosts)))
        for slots, others in zip(classes.values(), chosen, strict=True):
            for slot, other in zip(slots, others, strict=True):
                to[slot] = other
        if to == list(range(len(hosts))):
            continue
        count += 1
        if count >= EXCHANGES_MAX:
            raise BadWorld(f"more than {EXCHANGES_MAX} ways to exchange clients; leave --reduce symmetry out")
        yield tuple(to)
