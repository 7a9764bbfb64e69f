"""Protocols that ask each pool apart, in worlds of claims that come for ever."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdall.explorer.twins import twin
from holdall.machine.host import Host
from holdall.protocols.by_pool.messages import CLAIMANT
from holdall.protocols.vocabulary import ClaimId, Stamp
from holdall.world.by_pool import ByPoolSystem, managers_of


class EndlessByPool(ByPoolSystem):
    """As the closed system itself, and it can forget a claim that is over."""

    def renewed(self, hosts: Mapping[str, Host], claim: ClaimId) -> bool:
        """Tombstones of the claim go, and all clocks and stamps go back by what the least of them is.

        Machines that count on while somebody waits say themselves how those counters become small (`renumber`).

        A protocol that keeps more of a claim that is over has an endless number of states all the same; its search is cut.
        """
        claimants = [host.parts[CLAIMANT] for host in hosts.values() if CLAIMANT in host.parts]
        if any(claim in getattr(claimant, "claims", {}) for claimant in claimants):
            return False
        managers = managers_of(hosts).values()
        for manager in managers:
            if any(key[0] == claim for key in manager.entries):
                return False
            manager.forget(claim)
        for machine in (*managers, *claimants):
            renumber = getattr(machine, "renumber", None)
            if renumber is not None:
                renumber()
        _set_back(hosts)
        return True


def _set_back(hosts: Mapping[str, Host]) -> None:
    """Clocks that only order things go back by the same number everywhere: by the least that is in use."""
    stamps: list[int] = []

    def seen(one: Any) -> None:
        if isinstance(one, Stamp) and one.clock:
            stamps.append(one.clock)

    twin(dict(hosts), seen)
    clocks = [manager for manager in managers_of(hosts).values() if "clock" in vars(manager)]
    least = min([*stamps, *(vars(manager)["clock"] for manager in clocks)], default=0)
    least -= 1 if stamps else 0  # a stamp of 0 is none
    if least <= 0:
        return

    def earlier(one: Any) -> Any:
        if isinstance(one, Stamp) and one.clock:
            return msgspec.structs.replace(one, clock=one.clock - least)
        return None

    for name, other in twin(dict(hosts), earlier).items():
        vars(hosts[name]).update(vars(other))
    for manager in managers_of(hosts).values():
        if "clock" in vars(manager):
            vars(manager)["clock"] -= least
