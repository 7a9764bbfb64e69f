"""Questions of clients that only look at a location: its hosts, everybody's leases, how capacities are divided.

The location's manager knows the hosts and all leases; what a lease has used, and the shares, each host knows of its own.
"""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdall.leases.negotiation import looking
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Address, Effect
from holdall.model import location_frames as f
from holdall.parties.location.answering import Answering, Wait
from holdall.parties.location.dealings import Dealings
from holdall.parties.location.messages import HOST, LOCATION, OfAgent

HOST_WAIT_MS = 3000
"""A host that has not answered for so long is told as silent."""
Question: TypeAlias = f.AskHosts | f.AskLeases | f.AskShares
AskManager: TypeAlias = Callable[[str, str, Asker, OfAgent, Wait, list[Effect]], None]
"""(key, location, for whom, what, who waits, effects)"""


class Looking:
    """Those that are under way. All clients see the same, so one answer is for all who wait for it."""

    def __init__(self, dealings: Dealings, answering: Answering, ask_manager: AskManager) -> None:
        self._dealings, self._answering, self._ask_manager = dealings, answering, ask_manager

    def ask(self, wait: Wait, asker: Asker, question: Question, out: list[Effect]) -> None:
        """One question about a location that is known."""
        after = question.after
        match question:
            case f.AskHosts(location):
                key = f"hosts/{location}/{after}"
                self._ask_manager(key, location, asker, looking.GetHosts(after), wait, out)
            case f.AskLeases(location, host) if not host:
                key = f"leases/{location}/{after}"
                self._ask_manager(key, location, asker, looking.GetLeases(after), wait, out)
            case f.AskLeases(location, host):
                self._ask_host("leases", location, host, asker, looking.GetLeases(after), wait, out)
            case f.AskShares(location, host):
                self._ask_host("shares", location, host, asker, looking.GetShares(after), wait, out)

    def _ask_host(
        self,
        what: str,
        location: str,
        host: str,
        asker: Asker,
        message: looking.GetLeases | looking.GetShares,
        wait: Wait,
        out: list[Effect],
    ) -> None:
        node = self._node(location, host)
        if node is None:
            text = f"location {location!r} has no host {host!r}. See: holdall location list"
            self._answering.deny(wait, "never", text, out)
            return
        key = f"{what}/{location}@{node}/{message.after}"
        self._answering.wait(key, wait, out, within_ms=HOST_WAIT_MS)
        self._dealings.say(Address(node, HOST), asker, message, out)

    def _node(self, location: str, host: str) -> str | None:
        nodes = self._dealings.locations().get(location, ())
        return next((node for node in nodes if self._answering.name_of(node) == host), None)

    def heard(self, sender: Address, message: looking.Looked, out: list[Effect]) -> None:
        """A part of an answer. The dealings have checked who it is."""
        name_of, settle = self._answering.name_of, self._answering.settle
        location = self._dealings.location_at(sender.node)
        of_host, of_all = sender.part == HOST, sender.part == LOCATION
        match message:
            case looking.Hosts(after, rows, more) if of_all:
                shown = tuple(msgspec.structs.replace(row, host=name_of(row.host)) for row in rows)
                settle(f"hosts/{location}/{after}", f.HostsAre(name_of(sender.node), shown, more), out)
            case looking.Leases(after, documents, more):
                where = f"{location}@{sender.node}" if of_host else location
                # A host speaks of its own leases only.
                theirs = (one for one in documents if of_all or one.host == sender.node)
                leases = tuple(self._answering.shown(one) for one in theirs)
                settle(f"leases/{where}/{after}", f.AllLeasesAre(leases, more), out)
            case looking.SharesAre(after, capacities, rows, more) if of_host:
                answer = f.SharesAre(name_of(sender.node), capacities, rows, more)
                settle(f"shares/{location}@{sender.node}/{after}", answer, out)
            case _:
                pass
