"""What an agent reads of the other nodes of its system: who there is, under which names, with which pools.

The directory knows it from announcements, so all of it may be stale: a claim is only ever decided by the nodes
themselves. Inside the machines a node is its id, which never changes; names are for people.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

NodeState: TypeAlias = Literal["serving", "quarantine", "draining", "silent", "stopped"]
"""`silent`: not heard for longer than announcements take. `stopped`: it said that it ends."""


class PoolNews(msgspec.Struct, frozen=True, order=True):
    """One pool as its node announces it. `free` and `waiting` are of the time of the announcement."""

    pool: str
    """Pool id on its node: name and labels."""
    name: str
    labels: tuple[tuple[str, str], ...] = ()
    reach: Literal["system", "host"] = "system"
    total: int = 0
    """Units that exist, those in quarantine, cooling down or draining included."""
    free: int = 0
    waiting: int = 0
    max_for_ms: int | None = None
    prepares: bool = False
    """It has an `on_grant` command: the holder is told when the node says `Prepared`."""


class Neighbour(msgspec.Struct, frozen=True):
    """Another node as the directory knows it now."""

    node: str
    """Its id."""
    name: str
    state: NodeState
    epoch: int
    """Its manager's, for `Visit`."""
    incarnation: int
    address: str = ""
    """For people: where it is reached."""
    location: str = ""
    offers: bool = False
    """It has something to lease at its location, as it said last."""
    silent_ms: int = 0
    """How long nothing has been heard of it, by this node's clock."""
    quarantine_ms: int = 0
    """What was left of its quarantine when it told so."""
    version: str = ""
    """The release that it runs."""
    has_told: bool = True
    """All its pools are known. False: it has not been heard (wholly) since this node's start."""


class RemotePool(msgspec.Struct, frozen=True):
    """A pool of another node."""

    node: str
    news: PoolNews


class Neighbours(Protocol):
    """The directory, for reading; own node left out."""

    def name_of(self, node: str) -> str:
        """The name of a node id, the own one included; the id itself when nothing is known of it."""
        ...

    def node_named(self, name: str) -> str | None:
        """The id of the node that has this name, the own one included."""
        ...

    def node(self, node: str) -> Neighbour | None:
        """What is known of a node."""
        ...

    def nodes(self) -> Sequence[Neighbour]:
        """All known nodes but the own one, by name."""
        ...

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        """Pools of other nodes with these names (None: all), by node id, then pool id. Silent nodes' included."""
        ...


class NeighboursChanged(msgspec.Struct, frozen=True, tag="neighbours_changed"):
    """The directory to its own node's agent, in the turn in which it learns it.

    `pools`: names of pools where units came free, were added or went, or whose node has changed its state;
    `nodes`: ids of nodes whose state or incarnation has changed.
    """

    pools: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class NoNeighbours:
    """A node by itself."""

    def __init__(self, node: str, name: str) -> None:
        self._node, self._name = node, name

    def name_of(self, node: str) -> str:
        """As `Neighbours.name_of`."""
        return self._name if node == self._node else node

    def node_named(self, name: str) -> str | None:
        """As `Neighbours.node_named`."""
        return self._node if name == self._name else None

    def node(self, node: str) -> Neighbour | None:
        """None."""
        del node
        return None

    def nodes(self) -> Sequence[Neighbour]:
        """None."""
        return ()

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        """None."""
        del names
        return ()
