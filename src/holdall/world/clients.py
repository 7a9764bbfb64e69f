"""The clients of a closed world: what each does next, what each believes to have, and which faults are left.

All of it is one immutable value, the scene, so that the explorer can number scenes. What clients believe is what
exclusion is judged by: a unit is in use when a client thinks that it holds it, whatever the books say.
"""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    Exchange,
    Exchanged,
    ExchangeRefused,
    Extended,
    ExtendRefused,
    Gone,
    Granted,
    NotNow,
    Release,
    Retrying,
    Shrink,
    Stamp,
    Terms,
    ToClaimant,
    UnitGrant,
    Visit,
)
from holdall.world.faults import KINDS, Budget, spend
from holdall.world.plan import ClaimPlan, GiveBack, Place, Swap, World

COMPANION = 100
"""Added to the counter of a claim for the companion claim of an exchange."""
ROUNDS = 1000
"""Added to the counter of a claim for each further round."""


class Phase(IntEnum):
    """Where a client is with its present claim."""

    IDLE = 0
    ASKED = 1
    INSIDE = 2
    SWAPPING = 3
    """Inside, and an exchange is under way."""
    ENDING = 4
    OVER = 5
    """All rounds are done."""
    SILENT = 6
    """Its host is gone for ever."""
    RESTING = 7
    """Its claim is over; it comes again when nothing of that one is left anywhere."""


OVER = frozenset({Phase.OVER, Phase.SILENT, Phase.RESTING})


class Client(msgspec.Struct, frozen=True):
    """One client: which round and step of its plan, and the units it believes to have (fences left out)."""

    phase: Phase = Phase.IDLE
    round: int = 0
    step: int = 0
    holds: tuple[UnitGrant, ...] = ()


Lease: TypeAlias = tuple[str, ClaimId, int]
"""(node, claim, attempt): what the claim has at that node; attempt 0 means all of them."""

Placed: TypeAlias = Callable[[ClaimId, int], ClaimId]
"""(claim, number of a placement) -> the id under which nodes know that placement; 0 is the claim itself."""


class Scene(msgspec.Struct, frozen=True):
    """Everything of a world's state that is neither in a host nor in flight."""

    clients: tuple[Client, ...]
    left: Budget
    epochs: tuple[int, ...]
    """Per node that owns pools: how often it came up with another epoch."""
    silent: tuple[str, ...] = ()
    """Hosts that are gone for ever."""
    untold: tuple[tuple[str, str], ...] = ()
    """(host, node): the node is gone for ever, and the host has not been told yet."""
    lapsed: tuple[Lease, ...] = ()
    """Over by the claimant's clock, not yet at the node."""
    ghosts: tuple[Lease, ...] = ()
    """Given before the node lost everything or was gone, and not yet over by the claimant's clock."""
    meter: tuple[tuple[str, ClaimId, int, int], ...] = ()
    """(node, claim, attempt, how many may still get ahead of it there)."""
    wrong: str = ""
    """A property that this scene violates; such a scene has no successors."""


class Waits(msgspec.Struct, frozen=True, tag="waits"):
    """Meter: a claim has come to a node, `ahead` older ones that want one of its pools wait there."""

    node: str
    claim: ClaimId
    attempt: int
    ahead: int


class Overtaken(msgspec.Struct, frozen=True, tag="overtaken"):
    """Meter: a younger claim became active with a pool that this waiting one wants."""

    node: str
    claim: ClaimId
    attempt: int


Notice: TypeAlias = msgspec.Struct
"""What a turn tells the scene: a claimant's message to its agent, Waits or Overtaken."""


class Act(msgspec.Struct, frozen=True):
    """One thing that may happen next outside the machines, as seen by the scene.

    `command` goes to the claimant on `host`; `lapse` is the end of that lease by the clock of `host`, which is the
    claimant's host or the node itself; `left` is a node that has left the system, as `host` is told; none of them:
    nothing is delivered. `fault`: it need not happen. `timed`: it takes
    as long as a lease, so by the rule for timers it comes when nothing is in flight.
    """

    text: str
    host: str
    then: Scene
    command: ToClaimant | None = None
    lapse: Lease | None = None
    left: str = ""
    fault: bool = False
    timed: bool = False


class Clients:
    """The clients of one world."""

    def __init__(self, world: World, left: Budget, placed: Placed) -> None:
        self.world = world
        self._placed = placed
        self.first = Scene(tuple(Client() for _ in world.claims), left, (0,) * len(world.nodes()))
        self._capacity = world.capacity()
        self._slots: dict[ClaimId, int] = {}

    # Names

    def claim(self, slot: int, round_: int) -> ClaimId:
        """The claim of client `slot` in its round `round_`."""
        plan = self.world.claims[slot]
        claim = ClaimId(plan.host, 1, slot + 1 + ROUNDS * round_)
        self._slots[claim] = slot
        return claim

    def companion(self, claim: ClaimId) -> ClaimId:
        """The companion of an exchange."""
        return ClaimId(claim.node, claim.incarnation, claim.counter + COMPANION)

    # What may happen

    def acts(self, scene: Scene) -> list[Act]:
        """Moves of clients, in a fixed order. Silent clients do nothing."""
        found: list[Act] = []
        for slot, client in enumerate(scene.clients):
            plan = self.world.claims[slot]
            claim = self.claim(slot, client.round)
            match client.phase:
                case Phase.IDLE:
                    then = self._with(scene, slot, Client(Phase.ASKED, client.round))
                    found.append(Act("claims", plan.host, then, self._acquire(slot, claim)))
                case Phase.ASKED:
                    if scene.left[KINDS.index("cancel")]:
                        spent = msgspec.structs.replace(scene, left=spend(scene.left, "cancel"))
                        then = self._with(spent, slot, Client(Phase.ENDING, client.round))
                        found.append(Act("cancels", plan.host, then, Release(claim), fault=True))
                    if self._hopeless(scene, plan):
                        then = self._with(scene, slot, Client(Phase.ENDING, client.round))
                        found.append(Act("gives up", plan.host, then, Release(claim), timed=True))
                case Phase.INSIDE:
                    if client.step < len(plan.steps):
                        found.append(self._next_step(scene, slot, client, plan, claim))
                    elif plan.ends:
                        found.append(self._release(scene, slot, claim))
                case Phase.SWAPPING:
                    found.append(self._release(scene, slot, claim))
                case Phase.ENDING | Phase.OVER | Phase.SILENT | Phase.RESTING:
                    pass
        found += self._lapses(scene)
        for host, node in scene.untold:
            if host not in scene.silent:
                rest = tuple(pair for pair in scene.untold if pair != (host, node))
                then = msgspec.structs.replace(scene, untold=rest)
                found.append(Act("is told who has left", host, then, left=node, timed=True))
        if scene.left[KINDS.index("departure")]:
            found += [
                Act("falls silent", host, self.without_host(scene, host), fault=True)
                for host in self.world.claimants()
                if host not in scene.silent and self._present(scene, host)
            ]
        return found

    def _lapses(self, scene: Scene) -> list[Act]:
        """Leases that end: at nodes after their claimant's deadline; for claimants as a fault, or after a wipe."""
        found: list[Act] = []
        for lease in scene.lapsed:
            if lease[0] in scene.silent:
                continue
            silent = lease[1].node in scene.silent
            rest = scene.lapsed if silent else tuple(other for other in scene.lapsed if other != lease)
            then = msgspec.structs.replace(scene, lapsed=rest)
            found.append(Act("lets a lease end", lease[0], then, lapse=lease))
        for lease in scene.ghosts:
            rest = tuple(other for other in scene.ghosts if other != lease)
            then = msgspec.structs.replace(scene, ghosts=rest)
            found.append(Act("reaches a deadline", lease[1].node, then, lapse=lease, timed=True))
        if scene.left[KINDS.index("expiry")]:
            spent = spend(scene.left, "expiry")
            for slot in range(len(scene.clients)):
                if scene.clients[slot].phase is not Phase.ENDING:
                    own = self.claim(slot, scene.clients[slot].round)
                    for lease in sorted(self.leases_of(scene, slot)):
                        if lease[1] == own and self.world.expiring in {None, (own.node, lease[0])}:
                            then = msgspec.structs.replace(scene, left=spent)
                            found.append(Act("loses a lease", own.node, then, lapse=lease, fault=True))
        return found

    def lapsing(self, scene: Scene, lease: Lease, attempt: int) -> Scene:
        """The claimant has given this attempt up; from now on the node may end it, too."""
        lapsed = tuple(sorted({*scene.lapsed, (lease[0], lease[1], attempt)}))
        return msgspec.structs.replace(scene, lapsed=lapsed)

    def came_up(self, scene: Scene, node: str, kind: str) -> Scene:
        """A node that owns pools has come up with another epoch (`kind` reboot or wipe)."""
        place = self.world.nodes().index(node)
        epochs = (*scene.epochs[:place], scene.epochs[place] + 1, *scene.epochs[place + 1 :])
        here = self._leases_at(scene, node)
        ghosts = here if kind == "wipe" else set[Lease]()
        return msgspec.structs.replace(
            scene,
            left=spend(scene.left, kind),
            epochs=epochs,
            lapsed=tuple(lease for lease in scene.lapsed if kind != "wipe" or lease[0] != node),
            ghosts=tuple(sorted({*scene.ghosts, *ghosts})),
        )

    def gone(self, scene: Scene, node: str, hearers: Iterable[str]) -> Scene:
        """A node that owns pools never comes back; `hearers` must be told that it has left the system."""
        return msgspec.structs.replace(
            scene,
            left=spend(scene.left, "gone"),
            silent=tuple(sorted({*scene.silent, node})),
            untold=tuple(sorted({*scene.untold, *((host, node) for host in hearers)})),
            lapsed=tuple(lease for lease in scene.lapsed if lease[0] != node),
            ghosts=tuple(sorted({*scene.ghosts, *self._leases_at(scene, node)})),
        )

    def _leases_at(self, scene: Scene, node: str) -> set[Lease]:
        """What claims that are not being ended may have at a node."""
        return {
            lease
            for slot in range(len(scene.clients))
            for lease in self.leases_of(scene, slot)
            if lease[0] == node and scene.clients[slot].phase is not Phase.ENDING
        }

    def _hopeless(self, scene: Scene, plan: ClaimPlan) -> bool:
        """Every placement of the claim needs a node that is gone."""
        silent = scene.silent
        return bool(silent) and all(
            any(place.node in silent for place in placement) for placement in (plan.need, *plan.siblings)
        )

    def _present(self, scene: Scene, host: str) -> bool:
        """A host that claims nothing now is not worth losing."""
        return any(
            plan.host == host and client.phase not in {Phase.IDLE, Phase.OVER, Phase.RESTING}
            for plan, client in zip(self.world.claims, scene.clients, strict=True)
        )

    def _release(self, scene: Scene, slot: int, claim: ClaimId) -> Act:
        then = self._with(scene, slot, Client(Phase.ENDING, scene.clients[slot].round))
        return Act("releases", self.world.claims[slot].host, then, Release(claim))

    def _acquire(self, slot: int, claim: ClaimId) -> Acquire:
        plan = self.world.claims[slot]
        stamp = None if plan.clock is None else Stamp(plan.clock, plan.host, claim, 1)
        return Acquire(
            claim,
            _visits(plan.need),
            plan.wait,
            Terms(holder=plan.holder),
            stamp,
            tuple(_visits(sibling) for sibling in plan.siblings),
        )

    def _next_step(self, scene: Scene, slot: int, client: Client, plan: ClaimPlan, claim: ClaimId) -> Act:
        step = plan.steps[client.step]
        match step:
            case GiveBack(keep):
                kept = _kept(client.holds, {node: dict(vector) for node, vector in keep})
                then = Client(Phase.INSIDE, client.round, client.step + 1, kept)
                return Act("gives back", plan.host, self._with(scene, slot, then), Shrink(claim, keep))
            case Swap(add, drop):
                then = msgspec.structs.replace(client, phase=Phase.SWAPPING, step=client.step + 1)
                command = Exchange(claim, self.companion(claim), _visits(add), drop)
                return Act("exchanges", plan.host, self._with(scene, slot, then), command)

    def again(self, scene: Scene, slot: int) -> Scene:
        """A client that rests may claim again; of its earlier claim nothing is left."""
        return self._with(scene, slot, Client())

    def without_host(self, scene: Scene, host: str) -> Scene:
        """Its clients stop; whatever they had will run out at every node."""
        clients = list(scene.clients)
        lapsed = set(scene.lapsed)
        for slot, plan in enumerate(self.world.claims):
            if plan.host == host:
                lapsed |= self.leases_of(scene, slot)
                clients[slot] = Client(Phase.SILENT, clients[slot].round)
        return msgspec.structs.replace(
            scene,
            clients=tuple(clients),
            left=spend(scene.left, "departure"),
            silent=tuple(sorted({*scene.silent, host})),
            lapsed=tuple(sorted(lapsed)),
            ghosts=tuple(lease for lease in scene.ghosts if lease[1].node != host),
        )

    def leases_of(self, scene: Scene, slot: int) -> set[Lease]:
        """What the client's present claim may have, at every node that it may have reached."""
        plan, client = self.world.claims[slot], scene.clients[slot]
        if client.phase in {Phase.IDLE, Phase.OVER, Phase.SILENT, Phase.RESTING}:
            return set()
        claim = self.claim(slot, client.round)
        found: set[Lease] = set()
        for number, placement in enumerate((plan.need, *plan.siblings)):
            found |= {(place.node, self._placed(claim, number), 0) for place in placement}
        for step in plan.steps:
            if isinstance(step, Swap):
                found |= {(place.node, self.companion(claim), 0) for place in step.add}
        return found

    # What clients are told

    def told(self, scene: Scene, notices: Iterable[Notice]) -> Scene:
        """The scene after a turn that told this."""
        for notice in notices:
            if scene.wrong:
                return scene
            scene = self._told(scene, notice)
        return self._judged(scene)

    def _told(self, scene: Scene, notice: Notice) -> Scene:
        if isinstance(notice, Waits | Overtaken):
            return self._metered(scene, notice)
        claim: ClaimId = getattr(notice, "claim")  # noqa: B009
        slot = self._slots.get(claim)
        if slot is None:
            return scene
        client = scene.clients[slot]
        if client.phase in {Phase.OVER, Phase.SILENT, Phase.IDLE, Phase.RESTING} or claim != self.claim(
            slot, client.round
        ):
            return scene
        match notice:
            case Granted(_, _, units):
                return self._granted(scene, slot, client, units)
            case Exchanged(_, units):
                if client.phase is Phase.SWAPPING:
                    then = Client(Phase.INSIDE, client.round, client.step, _bare(units))
                    return self._with(scene, slot, then)
                return scene
            case ExchangeRefused():
                if client.phase is Phase.SWAPPING:
                    return self._with(scene, slot, msgspec.structs.replace(client, phase=Phase.INSIDE))
                return scene
            case NotNow() | Gone():
                return self._with(scene, slot, Client(Phase.ENDING, client.round))
            case Retrying():
                gone = tuple(lease for lease in scene.ghosts if lease[1] != claim)
                return msgspec.structs.replace(scene, ghosts=gone)
            case Ended():
                return self._ended(scene, slot, client, claim)
            case Extended() | ExtendRefused():
                return scene
            case _:
                raise AssertionError(f"unknown notice {notice!r}")

    def _granted(self, scene: Scene, slot: int, client: Client, units: tuple[UnitGrant, ...]) -> Scene:
        if client.phase is Phase.ASKED:
            plan = self.world.claims[slot]
            if not any(_is_whole(units, placement) for placement in (plan.need, *plan.siblings)):
                text = f"whole grant: claim {slot + 1} was granted {_listed(units)}"
                return msgspec.structs.replace(scene, wrong=text)
            then = Client(Phase.INSIDE, client.round, 0, _bare(units))
            return self._with(scene, slot, then)
        if client.phase is Phase.INSIDE and client.step == 0 and client.holds != _bare(units):
            return msgspec.structs.replace(scene, wrong=f"one grant: claim {slot + 1} was granted twice")
        return scene

    def _ended(self, scene: Scene, slot: int, client: Client, claim: ClaimId) -> Scene:
        last = client.round + 1 >= self.world.claims[slot].repeat
        then = Client(Phase.OVER, client.round) if last else Client(Phase.IDLE, client.round + 1)
        if self.world.claims[slot].endless:
            then = Client(Phase.RESTING)
        if client.phase is not Phase.ENDING:
            text = f"ended by its client: claim {slot + 1} ended while its client was {client.phase.name}"
            return msgspec.structs.replace(scene, wrong=text)
        scene = self._with(scene, slot, then)
        return msgspec.structs.replace(
            scene,
            lapsed=tuple(lease for lease in scene.lapsed if lease[1] != claim),
            ghosts=tuple(lease for lease in scene.ghosts if lease[1] != claim),
            meter=tuple(entry for entry in scene.meter if entry[1] != claim),
        )

    def _metered(self, scene: Scene, notice: "Waits | Overtaken") -> Scene:
        counts = {(node, claim, attempt): left for node, claim, attempt, left in scene.meter}
        entry = (notice.node, notice.claim, notice.attempt)
        if isinstance(notice, Waits):
            bound = self.world.passes + self.world.passes_per_ahead * notice.ahead
            counts.setdefault(entry, bound)
        else:
            counts[entry] = counts.get(entry, 0) - 1
        meter = tuple((*where, left) for where, left in sorted(counts.items()))
        wrong = ""
        if counts[entry] < 0:
            wrong = f"bound: more got ahead of {notice.claim} at {notice.node} than its bound"
        return msgspec.structs.replace(scene, meter=meter, wrong=wrong)

    # Judging

    def over(self, scene: Scene) -> bool:
        """Every client has been served (or has cancelled, was refused at once, or fell silent)."""
        return all(client.phase in OVER for client in scene.clients)

    def _judged(self, scene: Scene) -> Scene:
        if scene.wrong:
            return scene
        held: list[tuple[str, str, str]] = [
            (unit.node, unit.pool, unit.unit) for client in scene.clients for unit in client.holds
        ]
        named = [unit for unit in held if unit[2]]  # units of a book that only counts have no names
        if len(set(named)) != len(named):
            twice = min(unit for unit in set(named) if named.count(unit) > 1)
            text = f"exclusion: {twice[1]}/{twice[2]}@{twice[0]} is held by two clients"
            return msgspec.structs.replace(scene, wrong=text)
        for (node, pool), units in self._capacity.items():
            count = sum(1 for at, name, _ in held if (at, name) == (node, pool))
            if count > units:
                text = f"exclusion: {count} units of {pool}@{node} in use, it has {units}"
                return msgspec.structs.replace(scene, wrong=text)
        return scene

    def _with(self, scene: Scene, slot: int, client: Client) -> Scene:
        clients = (*scene.clients[:slot], client, *scene.clients[slot + 1 :])
        return msgspec.structs.replace(scene, clients=clients)


def _visits(places: Sequence[Place]) -> tuple[Visit, ...]:
    return tuple(Visit(place.node, place.alternatives, 1) for place in places)


def _bare(units: Iterable[UnitGrant]) -> tuple[UnitGrant, ...]:
    return tuple(sorted(UnitGrant(unit.node, unit.pool, unit.unit, 0) for unit in units))


def _is_whole(units: Iterable[UnitGrant], placement: Sequence[Place]) -> bool:
    """All that the placement wants and no more: at each node one of its alternatives."""
    given: dict[str, dict[str, int]] = {}
    for unit in units:
        pools = given.setdefault(unit.node, {})
        pools[unit.pool] = pools.get(unit.pool, 0) + 1
    wanted = {place.node: [dict(vector) for vector in place.alternatives] for place in placement}
    return given.keys() == wanted.keys() and all(given[node] in wanted[node] for node in given)


def _listed(units: Iterable[UnitGrant]) -> str:
    return ", ".join(f"{unit.pool}@{unit.node}" for unit in units) or "nothing"


def _kept(holds: tuple[UnitGrant, ...], keep: dict[str, dict[str, int]]) -> tuple[UnitGrant, ...]:
    """The first `keep` units of each pool on the nodes named; everything on the others."""
    left = {(node, pool): count for node, pools in keep.items() for pool, count in pools.items()}
    kept: list[UnitGrant] = []
    for unit in holds:
        if unit.node not in keep:
            kept.append(unit)
        elif left.get((unit.node, unit.pool), 0) > 0:
            left[unit.node, unit.pool] -= 1
            kept.append(unit)
    return tuple(kept)
