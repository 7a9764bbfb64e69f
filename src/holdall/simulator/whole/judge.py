"""The judge of whole nodes: what clients believe against each other, and every node's books after each of its turns."""

from collections.abc import Iterable, Sequence

from holdall.machine.host import Host
from holdall.model.frames import HeldUnit, Need
from holdall.parties.agent import Agent
from holdall.parties.by_pool.claims import ClaimsByPool
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER
from holdall.parties.pool_side import PoolSide
from holdall.parties.reading import AnySide
from holdall.protocols.vocabulary import UnitGrant
from holdall.simulator.judge import Judge
from holdall.simulator.overtaking import Overtaking
from holdall.simulator.whole.setup import WholeSetup, node_name

LEFT_OVER_MAX = 5


class WholeJudge:
    """Clients are known by the numbers of their seats, nodes by their names: a unit is the same for ever."""

    def __init__(self, setup: WholeSetup) -> None:
        capacity = {
            (node_name(number), spec.name): len(spec.units)
            for number in range(setup.nodes)
            for spec in setup.pools_on(number)
        }
        self.beliefs = Judge(capacity)
        self._setup = setup
        self._meters: dict[str, Overtaking] = {}

    @property
    def violations(self) -> list[str]:
        """Texts; the first ends a run."""
        return self.beliefs.violations

    def granted(self, client: int, needs: Iterable[Need], units: Iterable[HeldUnit]) -> None:
        """A client was told that it has these units for its needs."""
        had = tuple(units)
        for index, need in enumerate(needs):
            got = [unit for unit in had if unit.need == index]
            if not any(_serves(option.pools, option.node, option.count, got) for option in need.options):
                self.violations.append(
                    f"all or nothing: client {client} wanted {need} and was told {got}, of {had}"
                )
        grants = _grants(had)
        wanted: dict[tuple[str, str], int] = {}
        for grant in grants:
            wanted[grant.node, grant.pool] = wanted.get((grant.node, grant.pool), 0) + 1
        self.beliefs.granted(client, grants, wanted)

    def stopped(self, client: int, units: Iterable[HeldUnit]) -> None:
        """It uses them no longer."""
        self.beliefs.stopped(client, _grants(units))

    def books(self, name: str, host: Host) -> None:
        """Units conserved, sums right, the protocol's counts and the book's equal."""
        side = host.parts[MANAGER]
        if not isinstance(side, AnySide):
            return
        for pool, units in side.book.service.pools.items():
            held = sum(1 for unit in units.units.values() if unit.claim is not None)
            used = (
                side.manager.counts.use(pool)
                if isinstance(side, PoolSide)
                else side.manager.used.get(pool, 0)
            )
            free = units.free_count()
            if units.held != held or used != held or units.capacity != held + free:
                self.violations.append(
                    f"books: {pool} of {name} has {held} units given, its book says {units.held}, its protocol {used}; "
                    f"{free} free, capacity {units.capacity}"
                )
            self.beliefs.used(name, {units.spec.name: held})
        for (claim, _), record in side.book.leases.items():
            for grant in record.units:
                if grant.node != host.node:
                    self.violations.append(f"books: {name} keeps {grant} of {claim}, which is not its own")

        # the bound of overtaking is the chain's
        if isinstance(side, PoolSide) and self._setup.wants.units == 1 and self._setup.wants.common <= 1:
            self.violations.extend(self._meter(name).turn(side.manager.rows))

    def restarted(self, name: str) -> None:
        """A node that comes up counts passes anew."""
        self._meter(name).restarted()

    def most_passed(self) -> int:
        """How often one row was passed at most, where pools have one unit."""
        return max((meter.most for meter in self._meters.values()), default=0)

    def _meter(self, name: str) -> Overtaking:
        if name not in self._meters:
            setup = self._setup
            self._meters[name] = Overtaking(
                name, passes=setup.passes, passes_per_ahead=setup.passes_per_ahead
            )
        return self._meters[name]

    def refused(self, name: str, text: str) -> None:
        """All machines here are correct neighbours, so nothing that they send may be refused."""
        self.violations.append(f"{name}: refused: {text}")

    def at_the_end(self, name: str, left: Sequence[str]) -> None:
        """What a node still has (`left_over`) when nobody holds or wants anything."""
        if left:
            self.violations.append(
                f"left over: {name} has {len(left)} entries at the end: {list(left[:LEFT_OVER_MAX])}"
            )

    def unserved(self, clients: Iterable[str]) -> None:
        """Who still waits when nobody may wait any more."""
        names = sorted(clients)
        if names:
            self.violations.append(f"starvation: {names} still wait at the end")


KEPT_NEVER = (
    "agent!claim/", "agent!session/", "claimant!claim/", "manager!row/", "manager!book/lease/", "manager!mem/",
    "manager!entry/",
)  # fmt: skip
"""Records that are gone when nothing is under way."""


def left_over(host: Host, records: Iterable[str]) -> list[str]:
    """What a node remembers of claims, in its machines and in its journal, and units that are not free."""
    left: list[str] = []
    side, agent, claims = host.parts[MANAGER], host.parts[AGENT], host.parts[CLAIMANT]
    if isinstance(side, AnySide):
        rows = side.manager.rows if isinstance(side, PoolSide) else side.manager.entries
        left += [f"row {claim}" for claim in rows]
        left += [f"lease {claim} {attempt}" for claim, attempt in side.book.leases]
        left += [
            f"unit {pool}/{unit.name} {unit.state(draining=False)}"
            for pool, units in side.book.service.pools.items()
            for unit in units.units.values()
            if unit.state(draining=False) != "free"
        ]
    if isinstance(agent, Agent):
        left += [f"claim {claim} of the agent" for claim in agent.state.claims]
        left += [f"session {session}" for session in agent.state.sessions]
    if isinstance(claims, ClaimantSide | ClaimsByPool):
        left += [f"claim {claim} of the claimant" for claim in claims.claimant.claims]
    left += [key for key in records if key.startswith(KEPT_NEVER)]
    return left


def _serves(pools: tuple[str, ...], node: str, count: int, got: list[HeldUnit]) -> bool:
    return (
        len(got) == count
        and all(unit.pool in pools for unit in got)
        and (not node or all(unit.node == node for unit in got))
    )


def _grants(units: Iterable[HeldUnit]) -> tuple[UnitGrant, ...]:
    return tuple(UnitGrant(unit.node, unit.pool, unit.name, unit.fence) for unit in units)
