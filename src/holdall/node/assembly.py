"""Which machines make up a node: agent, claimant and pool's side on one host."""

import os
from collections.abc import Mapping
from typing import Any

from holdall.machine.contract import Address, Boot, Record
from holdall.machine.host import Host, Turn
from holdall.node.configured import RHO_PPM, Settings
from holdall.node.recorder import records_of, settings_of
from holdall.node.release import version
from holdall.parties.agent import Agent
from holdall.parties.messages import AGENT, CLAIMANT, MANAGER, AgentSettings
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant

REPEAT_MS = 1000
"""First pause before a message to another node is repeated, and before a claim that was put off asks again."""
REPEAT_MOST_MS = 10_000


def build_host(settings: Settings, *, epoch: int, incarnation: int, pid: int = 0, uid: int = -1) -> Host:
    """The machines of one node, neither started nor recovered.

    `pid` and `uid` are those of the process that serves; this one's when they are left out.
    """
    defaults = settings.defaults
    manager = PoolSide(
        settings.name,
        settings.pool_specs(),
        epoch=epoch,
        passes=defaults.passes,
        passes_per_ahead=defaults.passes_per_ahead,
        sweep_ms=defaults.quarantine_ms,
        rho_ppm=RHO_PPM,
    )
    claimant = Claimant(
        settings.name,
        Address(settings.name, AGENT),
        repeat_ms=REPEAT_MS,
        repeat_most_ms=REPEAT_MOST_MS,
    )
    agent = Agent(
        _agent_settings(settings, pid or os.getpid(), os.geteuid() if uid < 0 else uid),
        manager,
        incarnation=incarnation,
    )
    return Host(settings.name, {AGENT: agent, CLAIMANT: claimant, MANAGER: manager})


def _agent_settings(settings: Settings, pid: int, uid: int) -> AgentSettings:
    defaults = settings.defaults
    return AgentSettings(
        node=settings.name,
        uid=uid,
        ttl_ms=defaults.ttl_ms,
        ttl_max_ms=defaults.ttl_max_ms,
        wait_ms=defaults.wait_ms,
        margin_ms=defaults.margin_ms,
        rho_ppm=RHO_PPM,
        version=version(),
        pid=pid,
        config=settings.source,
        state_folder=str(settings.state),
    )


class _Seeded(Host):
    """A host that recovers from records of its own, as the node that wrote a trace did from its journal."""

    seed: Mapping[str, Record] = {}

    def recover(self, records: Mapping[str, Record], boot: Boot) -> Turn:
        return super().recover({**self.seed, **records}, boot)


def host_of_world(world: Mapping[str, Any]) -> Host:
    """The host of a node's trace, from its header. Raises CodecError or msgspec.ValidationError."""
    built = build_host(
        settings_of(world),
        epoch=world["epoch"],
        incarnation=world["incarnation"],
        pid=world["pid"],
        uid=world["uid"],
    )
    host = _Seeded(built.node, built.parts)
    host.seed = records_of(world)
    return host
