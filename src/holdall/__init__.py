"""holdall gives a job all the resources it needs, or none: leases with fencing numbers, waiting that is bounded and explained.

The public names are loaded when they are used first, so that commands which need none of them start fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdall.client.lease import Lease as Lease
    from holdall.client.units import Unit as Unit
    from holdall.client.wishes import any_of as any_of
    from holdall.jobs import sync as sync
    from holdall.jobs.hub import Hub as Hub
    from holdall.jobs.hub import Job as Job
    from holdall.jobs.hub import connect as connect
    from holdall.jobs.problems import BadJob as BadJob
    from holdall.model.errors import BadConfig as BadConfig
    from holdall.model.errors import BadSpec as BadSpec
    from holdall.model.errors import HoldallError as HoldallError
    from holdall.model.errors import LeaseLost as LeaseLost
    from holdall.model.errors import NeverSatisfiable as NeverSatisfiable
    from holdall.model.errors import NotGranted as NotGranted
    from holdall.model.errors import NotHolder as NotHolder
    from holdall.model.errors import Refused as Refused
    from holdall.model.errors import Unreachable as Unreachable
    from holdall.model.errors import WouldDeadlock as WouldDeadlock
    from holdall.model.why import Why as Why

_ERRORS = (
    "BadConfig",
    "BadSpec",
    "HoldallError",
    "LeaseLost",
    "NeverSatisfiable",
    "NotGranted",
    "NotHolder",
    "Refused",
    "Unreachable",
    "WouldDeadlock",
)
_HOMES = {
    "BadJob": "holdall.jobs.problems",
    "Hub": "holdall.jobs.hub",
    "Job": "holdall.jobs.hub",
    "Lease": "holdall.client.lease",
    "Unit": "holdall.client.units",
    "Why": "holdall.model.why",
    "any_of": "holdall.client.wishes",
    "connect": "holdall.jobs.hub",
    **dict.fromkeys(_ERRORS, "holdall.model.errors"),
}

__all__ = [
    "BadConfig",
    "BadJob",
    "BadSpec",
    "HoldallError",
    "Hub",
    "Job",
    "Lease",
    "LeaseLost",
    "NeverSatisfiable",
    "NotGranted",
    "NotHolder",
    "Refused",
    "Unit",
    "Unreachable",
    "Why",
    "WouldDeadlock",
    "any_of",
    "connect",
    "sync",
]


def __getattr__(name: str) -> object:
    if name == "sync":
        return import_module("holdall.jobs.sync")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'holdall' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
