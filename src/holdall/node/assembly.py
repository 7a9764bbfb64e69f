"""Which machines make up a node: `parties.whole` with what the configuration and this start say."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from holdall.machine.contract import Boot, Record
from holdall.machine.host import Host, Turn
from holdall.node.configured import RHO_PPM, Settings
from holdall.node.location.offering import location_parts_of
from holdall.node.process import Process
from holdall.node.recorder import records_of, settings_of
from holdall.node.release import version
from holdall.parties.directory.messages import DirectorySettings
from holdall.parties.jobs.machine import JobSettings
from holdall.parties.location.parts import Policies
from holdall.parties.messages import AgentSettings
from holdall.parties.runs.state import RunSettings
from holdall.parties.whole import WholeNode, whole_node


def build_host(
    settings: Settings,
    *,
    epoch: int,
    incarnation: int,
    node: str = "",
    process: Process | None = None,
    policies: Policies | None = None,
) -> Host:
    """The machines of one node, neither started nor recovered. `node`: its id; its name when left out."""
    return whole_node(
        _whole(
            settings,
            process or Process(pid=os.getpid(), uid=os.geteuid()),
            node=node or settings.name,
            epoch=epoch,
            incarnation=incarnation,
        ),
        policies,
    )


def _whole(settings: Settings, process: Process, *, node: str, epoch: int, incarnation: int) -> WholeNode:
    defaults = settings.defaults
    agent = AgentSettings(
        node=node,
        name=settings.name,
        uid=process.uid,
        ttl_ms=defaults.ttl_ms,
        ttl_max_ms=defaults.ttl_max_ms,
        wait_ms=defaults.wait_ms,
        margin_ms=defaults.margin_ms,
        rho_ppm=RHO_PPM,
        version=version(),
        pid=process.pid,
        config=settings.source,
        state_folder=str(settings.state),
        address=process.address,
        location=settings.node.location,
    )
    directory = DirectorySettings(
        node=node,
        name=settings.name,
        instance=process.instance,
        address=process.address,
        location=settings.node.location,
        offers=bool(location_parts_of(settings, process).terms),
        version=version(),
        started_wall_ms=process.started_wall_ms,
        members=process.members,
        ttl_max_ms=defaults.ttl_max_ms,
        rho_ppm=RHO_PPM,
    )
    return WholeNode(
        agent=agent,
        protocol=defaults.protocol,
        pools=settings.pool_specs(),
        epoch=epoch,
        incarnation=incarnation,
        passes=defaults.passes,
        passes_per_ahead=defaults.passes_per_ahead,
        sweep_ms=defaults.quarantine_ms,
        instance=process.number,
        directory=directory,
        runs=RunSettings(
            node=node,
            name=settings.name,
            uid=process.uid,
            run_from=settings.node.run_from,
            config=settings.file,
            ttl_max_ms=defaults.ttl_max_ms,
            rho_ppm=RHO_PPM,
        ),
        jobs=JobSettings(node=node, name=settings.name, uid=process.uid),
        location=location_parts_of(settings, process),
        gated=True,
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
        node=world["node"],
        epoch=world["epoch"],
        incarnation=world["incarnation"],
        process=msgspec.convert(world["process"], Process),
    )
    host = _Seeded(built.node, built.parts, built.link)
    host.seed = records_of(world)
    return host
