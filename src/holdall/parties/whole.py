"""A whole node as one host: which machines it has and how they read of each other, from plain values.

Both drivers of whole nodes, the service and the simulator, build their hosts here, so they run the same node.
"""

import msgspec

from holdall.machine.contract import Address, Machine
from holdall.machine.host import Host
from holdall.machine.link import Link
from holdall.machine.link_peer import LinkSettings
from holdall.parties.agent import Agent
from holdall.parties.claimant_side import ClaimantSide
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import DIRECTORY, DirectorySettings
from holdall.parties.directory.view import DirectoryView
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER, AgentSettings, PoolSpec
from holdall.parties.neighbours import Neighbours
from holdall.parties.pool_side import PoolSide
from holdall.parties.runs.machine import RemoteRuns
from holdall.parties.runs.messages import RUNS
from holdall.parties.runs.state import RunSettings
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.settling import Settings

REPEAT_MS = 1000
"""First pause before a message to another node is repeated, and before a claim that was put off asks again."""
REPEAT_MOST_MS = 10_000


class WholeNode(msgspec.Struct, frozen=True, kw_only=True):
    """All that a node's machines are told at construction; none of it changes at run time."""

    agent: AgentSettings
    """Its id, its name, and the terms of its system."""
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
    gated: bool = False
    """The directory alone speaks with other nodes until the driver says `AllParts`, as it does on `MayServe`."""


def whole_node(node: WholeNode) -> Host:
    """The machines of one node, neither started nor recovered."""
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
    parts: dict[str, Machine] = {CLAIMANT: claims, MANAGER: side}
    neighbours: Neighbours | None = None
    if node.directory is not None:
        directory = Directory(node.directory, side, incarnation=node.incarnation)
        parts[DIRECTORY] = directory
        neighbours = view = DirectoryView(directory)
        claimant.is_gone = view.is_forgotten
    parts[AGENT] = Agent(
        settings, side, incarnation=node.incarnation, neighbours=neighbours, ages=claimant, life=claims
    )
    if node.runs is not None:
        parts[RUNS] = RemoteRuns(node.runs, neighbours, incarnation=node.incarnation)
    first = frozenset({DIRECTORY}) if node.gated else None
    link = Link(settings.node, node.link, incarnation=node.incarnation, instance=node.instance, first=first)
    return Host(settings.node, parts, link)
