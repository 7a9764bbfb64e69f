"""What all literal systems have in common: one pool of one unit a node, no crash, no lease, no timer."""

from abc import ABC, abstractmethod
from collections.abc import Hashable

from holdall.machine.contract import Address, Boot, Machine, Message, Received
from holdall.machine.host import Arrival, Host
from holdall.protocols.vocabulary import ClaimId, LeaseLost, ToClaimant
from holdall.world.clients import Lease, Notice
from holdall.world.plan import BadWorld, Place, World
from holdall.world.system import TimerKind

MANAGER = "manager"
CLAIMANT = "claimant"
AGENT = "agent"


class LiteralSystem(ABC):
    """Pools on the nodes of a world, one host for each claimant; what the algorithm is, subclasses say."""

    def __init__(self, world: World, *, units: bool = False) -> None:
        """`units`: pools may have several. Raises BadWorld for what the printed algorithms can't express."""
        nodes = [pool.node for pool in world.pools]
        if len(set(nodes)) != len(nodes):
            raise BadWorld("the printed algorithms have one pool a node; give each pool a node of its own")
        if not units and any(pool.units > 1 for pool in world.pools):
            raise BadWorld("the printed algorithm's pools are single units; write POOL@NODE=1")
        for number, claim in enumerate(world.claims, start=1):
            if claim.steps or claim.siblings or not claim.wait:
                raise BadWorld(f"claim {number}: the printed algorithms only claim, hold and release")
            if not all(_is_one_unit(place) for place in claim.need):
                raise BadWorld(f"claim {number}: one unit of a pool is all that the printed algorithms give")
        self.world = world

    @property
    def names_decide(self) -> bool:
        """The printed algorithms break ties by names."""
        return True

    @abstractmethod
    def manager(self, node: str) -> Machine:
        """The machine of a pool."""

    @abstractmethod
    def claimant(self, host: str, agent: Address) -> Machine:
        """The machine of a claimant's host."""

    # The contract of world.system.System

    def hosts(self) -> tuple[str, ...]:
        """Nodes, then claimants."""
        return (*self.world.nodes(), *self.world.claimants())

    def build(self, host: str) -> Host:
        """A host that has not been started."""
        if host in self.world.nodes():
            return Host(host, {MANAGER: self.manager(host)})
        return Host(host, {CLAIMANT: self.claimant(host, Address(host, AGENT))})

    def boot(self, kind: str, epoch: int) -> Boot:
        """A crash is no part of the printed model; whoever asks for one gets a host that knows nothing."""
        return Boot(kind, epoch, 2)

    def facts(self, host: Host) -> Hashable:
        """The state of a pool's machine; None for a claimant's host."""
        machine = host.parts.get(MANAGER)
        return None if machine is None else machine.key()

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """A property of one host that is violated."""
        return ""

    def wrong_between(self, facts: tuple[Hashable, ...]) -> str:
        """Exclusion is judged by the clients; the printed algorithms have no other joint property."""
        return ""

    @abstractmethod
    def idle(self, facts: Hashable) -> bool:
        """No claim is left here."""

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]:
        """Nothing is measured."""
        return ()

    def command(self, host: str, command: ToClaimant) -> Arrival:
        """What the agent tells its claimant."""
        return Arrival(CLAIMANT, Received(Address(host, AGENT), command))

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """There are no timers but alarms, which ring when nothing else happens."""
        return "repair"

    def placed(self, claim: ClaimId, number: int) -> ClaimId:
        """There are no siblings."""
        return claim

    def attempt_of(self, host: Host, claim: ClaimId) -> int:
        """No leases: nothing expires."""
        return 0

    def has(self, facts: Hashable, lease: Lease) -> bool:
        """No leases."""
        return False

    def is_past(self, facts: Hashable, lease: Lease) -> bool:
        """No leases."""
        return True

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        """Every order is looked at."""
        return False

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        """Never asked for, as no attempt can expire."""
        return self.command(lease[1].node, LeaseLost(lease[1], "expired"))

    def lapse_at_node(self, lease: Lease) -> Arrival:
        """Never asked for, as nothing is kept by lease."""
        return Arrival(MANAGER, Received(Address(lease[0], "world"), LeaseLost(lease[1], "expired")))

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        """The printed algorithms know no leases, and nobody who leaves."""
        return None


def _is_one_unit(place: Place) -> bool:
    """No choice, one pool, one unit of it."""
    return len(place.alternatives) == 1 and [count for _, count in place.alternatives[0]] == [1]
