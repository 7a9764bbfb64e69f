"""The reading side of a directory: what an agent plans with and what listings show."""

from collections.abc import Iterable, Sequence

from holdall.parties.directory.known_nodes import Known
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import Member
from holdall.parties.neighbours import Neighbour, PoolNews, RemotePool


class DirectoryView:
    """Implements `neighbours.Neighbours` over a directory. Reads only."""

    def __init__(self, directory: Directory) -> None:
        self._state = directory.state

    def name_of(self, node: str) -> str:
        """As `Neighbours.name_of`."""
        settings = self._state.settings
        if node == settings.node:
            return settings.name
        known = self._state.known.by_id.get(node)
        if known is not None:
            return known.member.name
        tombstone = self._state.tombstones.get(node)
        return node if tombstone is None else tombstone.name

    def node_named(self, name: str) -> str | None:
        """As `Neighbours.node_named`; of several with this name the one that had it first, the own one before all."""
        settings = self._state.settings
        if name == settings.name:
            return settings.node
        named = self._state.known.named(name)
        return named[0].member.node if named else None

    def node(self, node: str) -> Neighbour | None:
        """As `Neighbours.node`."""
        known = self._state.known.by_id.get(node)
        return None if known is None else self._neighbour(known)

    def nodes(self) -> Sequence[Neighbour]:
        """As `Neighbours.nodes`."""
        everybody = sorted(
            self._state.known.by_id.values(), key=lambda known: (known.member.name, known.member.node)
        )
        return [self._neighbour(known) for known in everybody]

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        """As `Neighbours.pools`."""
        known = self._state.known
        listed = known.by_pool_name
        found = sorted(
            place for name in (listed if names is None else set(names)) for place in listed.get(name, ())
        )
        return [RemotePool(node, known.by_id[node].log.news[pool]) for node, pool in found]

    def pool(self, node: str, pool: str) -> PoolNews | None:
        """One pool of another node."""
        known = self._state.known.by_id.get(node)
        return None if known is None else known.log.news.get(pool)

    @property
    def is_complete(self) -> bool:
        """Whether all pools are known of each node that has been heard; False for a short while after a start."""
        return self._state.phase != "starting" and all(
            known.is_complete for known in self._state.known.by_id.values()
        )

    def is_forgotten(self, node: str) -> bool:
        """Whether an operator has removed this node: nothing but its directory's words may be taken from it."""
        return node in self._state.tombstones

    def members(self) -> Sequence[Member]:
        """All nodes that are known, the own one first: what a joining node is given."""
        settings = self._state.settings
        own = Member(settings.node, settings.name, settings.address, settings.location, settings.offers)
        return [own, *(known.member for _, known in sorted(self._state.known.by_id.items()))]

    def _neighbour(self, known: Known) -> Neighbour:
        member, header = known.member, known.header
        quiet_ms = self._state.quiet_ms(known)
        return Neighbour(
            node=member.node,
            name=member.name,
            state=known.state,
            epoch=0 if header is None else header.epoch,
            incarnation=0 if header is None else header.incarnation,
            address=member.address,
            location=member.location,
            offers=member.offers,
            silent_ms=quiet_ms,
            version="" if header is None else header.version,
            has_told=header is not None and known.is_complete,
            quarantine_ms=header.quarantine_ms if header is not None and known.state == "quarantine" else 0,
        )
