"""The two steps of the history of lanes under the simulator: `ballot` and `skeen`, for the comparison alone.

They are lab machines without fences, leases or repairs: one unit a pool, one pool a node, no faults. Source: history of the
lanes, sections 2 (row L8) and 3.1.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Self

from holdall.machine.contract import Address, Effect, Event, Machine, Record, Send
from holdall.machine.host import Host
from holdall.protocols.literal.lanes import Bids, LaneAgent, LanePool, LaneRules, PoolState
from holdall.protocols.literal.skeen import Lanes, Line, SkeenAgent, SkeenPool
from holdall.protocols.vocabulary import ClaimId, Granted, UnitGrant
from holdall.simulator.setup import Setup
from holdall.simulator.sides import AGENT
from holdall.simulator.workload import Workload

CLAIMANT, MANAGER = "claimant", "manager"
BALLOT = LaneRules(
    accept_raises=True, take=True, consumption="accepted", withdraw=True, rounds=None, stands=False
)
"""The printed lanes with all repairs; a claim that is rejected starts over for ever."""
UNIT = "u0"


class Fenced:
    """A claimant without fences, and numbers in place of them: the judge wants each grant of a unit to have a higher one."""

    def __init__(self, inner: Machine, fences: Counter[str]) -> None:
        self.inner = inner
        self._fences = fences

    def start(self) -> Sequence[Effect]:
        """As the claimant."""
        return self.inner.start()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """As the claimant, which is never crashed."""
        return self.inner.recover(records)

    def handle(self, event: Event) -> Sequence[Effect]:
        """The claimant's answer, with a number for each unit that it was granted."""
        return [self._numbered(effect) for effect in self.inner.handle(event)]

    def key(self) -> Hashable:
        """As the claimant."""
        return self.inner.key()

    def copy(self) -> Self:
        """Numbers are common to all."""
        return type(self)(self.inner.copy(), self._fences)

    def _numbered(self, effect: Effect) -> Effect:
        match effect:
            case Send(to, Granted(claim, attempt, units)):
                numbered: list[UnitGrant] = []
                for unit in units:
                    self._fences[unit.pool] += 1
                    numbered.append(UnitGrant(unit.node, unit.pool, UNIT, self._fences[unit.pool]))
                return Send(to, Granted(claim, attempt, tuple(numbered)))
            case _:
                return effect


class HistoryStep:
    """Pools and agents of a step; each pool on a node of its own."""

    uncounted: frozenset[type] = frozenset()
    clocked: frozenset[type] = frozenset()

    def __init__(
        self, setup: Setup, pool: Callable[[], Machine], agent: Callable[[str, Address], Machine]
    ) -> None:
        self._nodes = setup.workload.node_names()
        self._pool = pool
        self._agent = agent
        self._fences: Counter[str] = Counter()

    def nodes(self) -> tuple[str, ...]:
        """All nodes of the workload."""
        return self._nodes

    def host(self, name: str) -> Host:
        """A pool, or a client's agent."""
        if name in self._nodes:
            return Host(name, {MANAGER: self._pool()})
        return Host(name, {CLAIMANT: Fenced(self._agent(name, Address(name, AGENT)), self._fences)})

    def given(self, host: Host) -> Mapping[str, int]:
        """Judged by what clients believe only."""
        del host
        return {}

    def set_aside(self, host: Host) -> Mapping[tuple[str, str], int] | None:
        """Pools name no units."""
        del host
        return None

    def wrong(self, host: Host, others: Mapping[str, Host]) -> Iterable[str]:
        """A pool of the ballot knows when two have written at one index, or one where it was not accepted."""
        del others
        manager = host.parts.get(MANAGER)
        state = None if manager is None else manager.key()
        return (state.wrong,) if isinstance(state, PoolState) and state.wrong else ()

    def restarted(self, name: str) -> None:
        """Never."""

    def entries(self, host: Host) -> int:
        """Lanes of a pool, or claims of an agent."""
        match next(iter(host.parts.values())).key():
            case PoolState(lanes=lanes):
                return len(lanes)
            case Line(entries=entries):
                return len(entries)
            case Bids(bids=bids):
                return len(bids)
            case Lanes(lanes=lanes):
                return len(lanes)
            case _:
                return 0

    def may_go_on(self, host: Host, claim: ClaimId) -> bool:
        """Hosts never fall."""
        del host, claim
        return True


def one_unit_a_node(workload: Workload) -> bool:
    """Whether the steps can serve these claims."""
    return workload.units == 1 and workload.nodes == workload.pools


def ballot(setup: Setup) -> HistoryStep:
    """The printed lanes, repaired: an index is negotiated, and rejected where another came between."""
    return HistoryStep(setup, lambda: LanePool(BALLOT, 0), lambda name, agent: LaneAgent(name, agent, BALLOT))


def skeen(setup: Setup) -> HistoryStep:
    """Skeen lanes: the greatest proposal is the index, nothing is rejected."""
    return HistoryStep(setup, SkeenPool, lambda _, agent: SkeenAgent(agent))
