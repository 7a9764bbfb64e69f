"""The policies that a node obeys: read at its start, and again as a whole when the node reads its configuration again.

A file that can't be used keeps a node from starting, and changes nothing when it is read again: both files are taken, or
neither is.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from holdall.leases.negotiation.host_messages import DivideAmong
from holdall.leases.negotiation.interfaces import Allowed, Holding, TermAsk
from holdall.leases.sorted_sums import Exact
from holdall.node.location.configured import PolicySettings
from holdall.node.policies import Moment, load_policy
from holdall.parties.location.parts import Policies
from holdall.parties.policies import PolicyOfFile
from holdall.policy.rules import Deny, Fair, Limit, Policy, Scope


class Obeyed:
    """One node's. `name_of` is set when the node's machines are there: a file calls hosts by their names."""

    def __init__(self, settings: PolicySettings) -> None:
        """Reads both files. Raises BadConfig."""
        self.name_of: Callable[[str], str] = str
        self._host = self._obey(settings.file, "host")
        self._location = self._obey(settings.location, "location")

    def policies(self) -> Policies:
        """For the machines. Where no file was named, everything is allowed."""
        made = Policies()
        if self._host is not None:
            made.host = self._host
            made.groups = _weights(self._host.file)
        if self._location is not None:
            made.location = self._location
        return made

    @property
    def may_revoke(self) -> bool:
        """Whether a rule of either file may end live leases."""
        files = (one.file for one in (self._host, self._location) if one is not None)
        return any(isinstance(rule, Deny | Limit) and rule.revoke for file in files for rule in file.rules)

    @property
    def divided(self) -> tuple[Fair, ...]:
        """The rules by which this host divides its capacities."""
        rules = () if self._host is None else self._host.file.rules
        return tuple(
            msgspec.structs.replace(rule, line=0)
            for rule in rules
            if isinstance(rule, Fair) and rule.scope == "host"
        )

    def divide_among(self) -> DivideAmong:
        """For the host's manager, after `divided` has changed."""
        weights = {} if self._host is None else _weights(self._host.file)
        return DivideAmong(
            {term: {group: str(one) for group, one in of.items()} for term, of in weights.items()}
        )

    async def reload(self, settings: PolicySettings) -> str:
        """Obey what the files say now. Raises BadConfig; nothing is changed then. Returns what needs a new start, or "".

        The files are tried in a thread, as conditions are tried in a process of their own.
        """
        wanted = ((self._host, settings.file), (self._location, settings.location))
        fresh = [
            (policy, None if path is None else await asyncio.to_thread(load_policy, path))
            for policy, path in wanted
        ]
        for policy, loaded in fresh:
            if policy is not None and loaded is not None:
                policy.obey(loaded)
        if any((policy is None) != (loaded is None) for policy, loaded in fresh):
            return "a [policy] file that was added or left out takes effect at the next start"
        return ""

    def _obey(self, path: Path | None, scope: Scope) -> "_InForce | None":
        return None if path is None else _InForce(load_policy(path), scope, self._name)

    def _name(self, node: str) -> str:
        return self.name_of(node)


class _InForce:
    """As `PolicyOfFile`, and knows hosts by their names."""

    def __init__(self, policy: Policy, scope: Scope, name_of: Callable[[str], str]) -> None:
        self.file = policy
        self._inner = PolicyOfFile(policy, Moment(), scope=scope)
        self._name_of = name_of

    def obey(self, policy: Policy) -> None:
        self.file = policy
        self._inner.replace(policy)

    def may_have(self, ask: TermAsk, holdings: Sequence[Holding]) -> Allowed:
        return self._inner.may_have(ask, holdings)

    def revoked_by(self, ask: TermAsk, holdings: Sequence[Holding]) -> str:
        return self._inner.revoked_by(ask, holdings)

    def rank(self, host: str) -> int:
        return self._inner.rank(self._name_of(host))


def _weights(policy: Policy) -> dict[str, dict[str, Exact]]:
    """Term -> weights of the groups among which a host divides it."""
    return {
        rule.term: dict(rule.weights)
        for rule in policy.rules
        if isinstance(rule, Fair) and rule.group and rule.scope == "host"
    }
