"""A whole node as one host: which machines it has and how they read of each other, from plain values.

Both drivers of whole nodes, the service and the simulator, build their hosts here, so they run the same node.
"""

from typing import Any, NamedTuple, cast

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.machine.host import Host
from holdall.machine.link import Link
from holdall.machine.link_peer import LinkSettings
from holdall.parties.agent import Agent
from holdall.parties.by_pool.claims import ClaimsByPool
from holdall.parties.by_pool.pools import PoolsByPool
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import DIRECTORY, DirectorySettings
from holdall.parties.directory.view import DirectoryView
from holdall.parties.jobs.machine import Jobs, JobSettings
from holdall.parties.jobs.messages import JOBS
from holdall.parties.location.parts import LocationParts, Policies, location_parts
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER, AgentSettings, PoolSpec
from holdall.parties.neighbours import Neighbours, NoNeighbours
from holdall.parties.pool_side import PoolSide
from holdall.parties.reading import AnySide
from holdall.parties.ring import RING, RingKeeper
from holdall.parties.runs.machine import RemoteRuns
from holdall.parties.runs.messages import RUNS
from holdall.parties.runs.state import RunSettings
from holdall.parties.views import AgesView
from holdall.protocols.by_pool.claimant import Claimant as ByPoolClaimant
from holdall.protocols.by_pool.manager import Manager as ByPoolManager
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.settling import Settings
from holdall.protocols.hooks import Book
from holdall.protocols.registry import Tuning, protocol

REPEAT_MS = 1000
"""First pause before a message to another node is repeated, and before a claim that was put off asks again."""
REPEAT_MOST_MS = 10_000


class WholeNode(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node's machines are told at construction; none of it changes at run time."""

    agent: AgentSettings
    """Its id, its name, and the terms of its system."""
    protocol: str = "chain"
    """Who is next: a name of the protocols' registry; the same on all nodes of a system."""
    pools: tuple[PoolSpec, ...] = ()
    epoch: int = 1
    """The manager's; a host that recovers takes it, and the incarnation, from its boot."""
    incarnation: int = 1
    passes: int = 8
    """How often a waiting claim may be passed at a node,"""
    passes_per_ahead: int = 1
    """and how often more for each older one that waits there when it comes."""
    try_from: int = 1000
    """A claim over so many nodes or more asks all of them at once first."""
    repeat_ms: int = REPEAT_MS
    repeat_most_ms: int = REPEAT_MOST_MS
    patience_ms: int = 2000
    """How long a claim waits before it lends what it has, or asks others to let it pass, where the protocol does that."""
    sweep_ms: int | None = None
    """Ends of claims are remembered for one to two of these spans; longer than any lease can live."""
    fence_block: int = 1000
    """Fences that are made durable at once."""
    link: LinkSettings = LinkSettings()
    instance: int = 0
    """A random number of this process below 2**53: tells two processes with one journal apart."""
    directory: DirectorySettings | None = None
    """None: a node that never has neighbours, without directory."""
    runs: RunSettings | None = None
    """Who may start commands here; None: a node without the part, which starts none anywhere."""
    jobs: JobSettings | None = None
    """None: a node without the part, which takes no jobs."""
    location: LocationParts | None = None
    """Its part in a location; None: a node whose clients negotiate with nobody."""
    gated: bool = False
    """The directory alone speaks with other nodes until the driver says `AllParts`, as it does on `MayServe`."""


def whole_node(node: WholeNode, policies: Policies | None = None) -> Host:
    """The machines of one node, neither started nor recovered. Raises UnknownProtocolError.

    `policies`: of negotiation; None: everything is allowed.
    """
    served = protocol(node.protocol)
    settings = msgspec.structs.replace(
        node.agent,
        protocol=served.name,
        one_placement=served.by_pool,
        pools_max=served.pools_max,
        bounded=served.bounded,
        offers=node.location is not None and bool(node.location.location and node.location.terms),
    )
    sides = _by_pool_sides(node) if served.by_pool else _chain_sides(node)
    side, claims = sides.side, sides.claims
    parts: dict[str, Machine] = {CLAIMANT: claims, MANAGER: side}
    neighbours: Neighbours | None = None
    if node.directory is not None:
        directory = Directory(node.directory, side, incarnation=node.incarnation)
        parts[DIRECTORY] = directory
        neighbours = view = DirectoryView(directory)
        claims.claimant.is_gone = view.is_forgotten
        if isinstance(side, PoolsByPool) and served.ring:
            absent_ms = settings.ttl_max_ms * (1_000_000 + settings.rho_ppm) // 1_000_000
            parts[RING] = RingKeeper(settings.node, side, view, absent_ms=absent_ms)
    parts[AGENT] = Agent(
        settings, side, incarnation=node.incarnation, neighbours=neighbours, ages=sides.ages, life=claims
    )
    if node.runs is not None:
        parts[RUNS] = RemoteRuns(node.runs, neighbours, incarnation=node.incarnation)
    if node.jobs is not None:
        parts[JOBS] = Jobs(node.jobs)
    if node.location is not None:
        name = settings.name or settings.node
        parts |= location_parts(
            node.location,
            settings.node,
            name,
            neighbours or NoNeighbours(settings.node, name),
            policies=policies or Policies(),
            rho_ppm=settings.rho_ppm,
        )
    first = frozenset({DIRECTORY}) if node.gated else None
    link = Link(settings.node, node.link, incarnation=node.incarnation, instance=node.instance, first=first)
    return Host(settings.node, parts, link)


def _ring_of(node: WholeNode) -> tuple[str, ...]:
    """Who is in the ring at its start: a node that has joined others must be taken in by them."""
    members = () if node.directory is None else node.directory.members
    return tuple(member.node for member in members) or (node.agent.node,)


class _Sides(NamedTuple):
    side: AnySide
    claims: ClaimantSide | ClaimsByPool
    ages: AgesView


def _chain_sides(node: WholeNode) -> _Sides:
    settings = node.agent
    side = PoolSide(
        settings.node,
        node.pools,
        epoch=node.epoch,
        settings=Settings(
            passes=node.passes,
            passes_per_ahead=node.passes_per_ahead,
            repeat_ms=node.repeat_ms,
            repeat_most_ms=node.repeat_most_ms,
            sweep_ms=node.sweep_ms,
        ),
        rho_ppm=settings.rho_ppm,
        fence_block=node.fence_block,
        ttl_max_ms=settings.ttl_max_ms,
    )
    claimant = Claimant(
        settings.node,
        Address(settings.node, AGENT),
        try_from=node.try_from,
        repeat_ms=node.repeat_ms,
        repeat_most_ms=node.repeat_most_ms,
    )
    side.stands = lambda claim, attempt: claimant.current(claim, attempt) is not None
    claims = ClaimantSide(
        claimant, rho_ppm=settings.rho_ppm, margin_ms=settings.margin_ms, incarnation=node.incarnation
    )
    return _Sides(side, claims, claimant)


def _by_pool_sides(node: WholeNode) -> _Sides:
    settings, entry = node.agent, protocol(node.protocol)
    tuning = Tuning(
        passes=node.passes,
        passes_per_ahead=node.passes_per_ahead,
        try_from=node.try_from,
        repeat_ms=node.repeat_ms,
        repeat_most_ms=node.repeat_most_ms,
        sweep_ms=node.sweep_ms,
        patience_ms=node.patience_ms,
        nodes=_ring_of(node),
    )

    def make(book: Book) -> ByPoolManager[Any]:
        return cast("ByPoolManager[Any]", entry.manager(settings.node, node.epoch, book, tuning))

    side = PoolsByPool(
        settings.node,
        node.pools,
        make,
        entry.messages,
        between=entry.between,
        epoch=node.epoch,
        rho_ppm=settings.rho_ppm,
        fence_block=node.fence_block,
        ttl_max_ms=settings.ttl_max_ms,
    )
    claimant = cast(
        "ByPoolClaimant[Any]", entry.claimant(settings.node, Address(settings.node, AGENT), tuning)
    )
    claims = ClaimsByPool(
        claimant, rho_ppm=settings.rho_ppm, margin_ms=settings.margin_ms, incarnation=node.incarnation
    )
    side.stands = claims.stands
    return _Sides(side, claims, claims)
