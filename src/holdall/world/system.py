"""A protocol as a closed system: what the explorer must know about its machines, and nothing more."""

from collections.abc import Hashable
from typing import Literal, Protocol, TypeAlias

from holdall.machine.contract import Boot, Message
from holdall.machine.host import Arrival, Host
from holdall.protocols.vocabulary import ClaimId, ToClaimant
from holdall.world.clients import Lease, Notice
from holdall.world.plan import World

TimerKind: TypeAlias = Literal["repair", "retry", "quarantine", "never"]
"""repair: repeats what may have been lost. quarantine: fires when no lease of before can live. retry: a pause as long
as a quarantine, so it is over when no quarantine lasts. never: stands for a lease's end or another thing that the
explorer plays itself."""


class System(Protocol):
    """The hosts of a world and how to speak to them."""

    world: World

    def hosts(self) -> tuple[str, ...]:
        """Names of all hosts: nodes that own pools first, in the order of `world.nodes()`, then claimants."""
        ...

    def build(self, host: str) -> Host:
        """A host that has not been started."""
        ...

    def boot(self, kind: str, epoch: int) -> Boot:
        """How a host comes up again: `kind` is same, reboot or lost."""
        ...

    def facts(self, host: Host) -> Hashable:
        """What properties are judged by; None for a claimant's host."""
        ...

    def wrong_here(self, host: Host, facts: Hashable) -> str:
        """A property of one host that is violated, as `name: text`; empty when all hold."""
        ...

    def wrong_between(self, facts: tuple[Hashable, ...]) -> str:
        """The same over the facts of all nodes, in the order of `world.nodes()`."""
        ...

    def idle(self, facts: Hashable) -> bool:
        """No claim is left here."""
        ...

    def metered(self, before: Hashable, after: Hashable) -> tuple[Notice, ...]:
        """What a turn means for the meter of overtaking (Waits, Overtaken)."""
        ...

    def command(self, host: str, command: ToClaimant) -> Arrival:
        """The arrival of what a client's agent tells the claimant."""
        ...

    def timer_kind(self, host: str, timer: str) -> TimerKind:
        """What a timer (named as in `Turn.timers`) stands for."""
        ...

    def placed(self, claim: ClaimId, number: int) -> ClaimId:
        """The id under which nodes know a placement of a claim; number 0 is the claim itself."""
        ...

    def attempt_of(self, host: Host, claim: ClaimId) -> int:
        """The attempt that a claimant is at; 0 when it does not know the claim, or ends it."""
        ...

    def has(self, facts: Hashable, lease: Lease) -> bool:
        """Whether a node has something of this attempt or an earlier one (of any, for attempt 0)."""
        ...

    def is_past(self, facts: Hashable, lease: Lease) -> bool:
        """Whether nothing of this attempt can come to the node any more, so that its end there has no effect."""
        ...

    def confluent(self, host: Host, sender: str, message: Message) -> bool:
        """Whether this message, delivered now, is seen by nobody and makes no difference to anything before or after.

        Nothing is sent or told, and whatever else may happen leads to the same state before or after it.
        """
        ...

    def lapse_for_claimant(self, lease: Lease) -> Arrival:
        """A lease's deadline by the claimant's own clock."""
        ...

    def lapse_at_node(self, lease: Lease) -> Arrival:
        """The end of all that the claim has at this node."""
        ...

    def told_of_gone(self, host: str, node: str) -> Arrival | None:
        """How this host is told that a node has left the system for good; None: it need not know."""
        ...
