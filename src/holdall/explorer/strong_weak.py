"""Strong/weak as a closed system: which pool is strong, and worlds of claims that come for ever."""

from collections.abc import Mapping

import msgspec

from holdall.explorer.endless import EndlessByPool
from holdall.machine.contract import Address
from holdall.machine.host import Host
from holdall.protocols.registry import Tuning
from holdall.protocols.strong_weak.claimant import Claimant
from holdall.protocols.vocabulary import ClaimId
from holdall.world.by_pool import managers_of


def named_strong(node: str, agent: Address, tuning: Tuning) -> Claimant:
    """The pool that a claim of the world names first is its strong one."""
    return Claimant(node, agent, again_ms=tuning.repeat_ms, strong="named")


class StrongWeakSystem(EndlessByPool):
    """As for all protocols by pool; numbers of promotions count only against each other."""

    def renewed(self, hosts: Mapping[str, Host], claim: ClaimId) -> bool:
        """With nothing in flight, what both parts of a claim have behind them is forgotten."""
        if not super().renewed(hosts, claim):
            return False
        managers = managers_of(hosts).values()
        least: dict[ClaimId, int] = {}
        for manager in managers:
            for entry in manager.entries.values():
                least[entry.claim] = min(entry.n, least.get(entry.claim, entry.n))
        for manager in managers:
            for key, entry in list(manager.entries.items()):
                # Two are left: killed once and active again is not the same as active for the first time.
                if least[entry.claim] > 2:
                    manager.entries[key] = msgspec.structs.replace(entry, n=entry.n - least[entry.claim] + 2)
        return True
