"""Leases that clients of this node use: who says so, what was used of them, and what became of those that are over."""

from collections.abc import Hashable

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import Address, Effect
from holdall.model import location_frames as f
from holdall.model.terms import COMMAND_TERMS, LeaseDocument
from holdall.parties.location.answering import Answering
from holdall.parties.location.dealings import Dealings, Outcomes
from holdall.parties.location.messages import HOST, BytesUsed, Rate

OVER_MAX = 4096


class Using:
    """`now_ms`: CLOCK_BOOTTIME as the driver told it last; `warned`: lease -> why it will be taken away."""

    def __init__(self, dealings: Dealings, answering: Answering) -> None:
        self._dealings, self._answering = dealings, answering
        self.now_ms = 0
        self.warned: dict[str, str] = {}
        self.commands: set[str] = set()
        """Leases that a command has for itself, or is taking."""
        self._guardians: set[str] = set()
        """Connections of guardians."""
        self._used: dict[str, dict[str, int]] = {}
        """Lease -> connection -> when it said last that it uses it."""
        self._over: dict[str, str] = {}

    # ------------------------------------------------------------ what clients say

    def hold(self, connection: str, asker: Asker, lease: str) -> f.HeldLease:
        """A client says that it uses the lease; how that stands."""
        agent = self._dealings.agents.get(f.location_of(lease))
        known = self._dealings.asker(lease)
        if agent is None or lease not in agent.held or known is None or known.holder != asker.holder:
            return f.HeldLease(lease, reason=self.became_of(lease))
        self._used.setdefault(lease, {})[connection] = self.now_ms
        document = self._answering.shown(agent.held[lease])
        return f.HeldLease(lease, agent.left_ms(lease), document, warned=self.warned.get(lease, ""))

    def command_used(self, connection: str, asker: Asker, told: f.TellUse, out: list[Effect]) -> None:
        """A command's use goes to the lease's host; of rates only the node's own gate tells anything."""
        agent, known = self._dealings.agents.get(f.location_of(told.lease)), self._dealings.asker(told.lease)
        held = None if agent is None else agent.held.get(told.lease)
        if held is None or known is None or known.holder != asker.holder:
            return
        if told.guarded:
            self._guardians.add(connection)
        uses = tuple(one for one in told.uses if one.name in COMMAND_TERMS)
        if uses or told.before_end:
            message = m.UseIs(told.lease, uses, told.meter, told.before_end)
            self._dealings.say(Address(held.host, HOST), known, message, out)

    def bytes_used(self, used: BytesUsed, out: list[Effect]) -> None:
        """What the node's gate has let go, for the lease's host. A lease that is just over has its last word, too."""
        asker = self._dealings.asker(used.lease)
        if asker is not None:
            self._dealings.say(
                Address(used.host, HOST), asker, m.UseIs(used.lease, used.uses, used.meter), out
            )

    # ------------------------------------------------------------ how it stands

    def rate_of(self, holder: str, lease: str, term: str) -> Rate | None:
        """What the holder has of a capacity now, by a lease that this node holds for him; None: nothing."""
        agent, asker = self._dealings.agents.get(f.location_of(lease)), self._dealings.asker(lease)
        document = None if agent is None else agent.held.get(lease)
        if agent is None or document is None or asker is None or asker.holder != holder:
            return None
        for one in document.terms:
            if one.name == term and one.kind == "capacity" and isinstance(one.granted, int):
                return Rate(document.host, one.granted, agent.until_ms(lease))
        return None

    def is_used(self, lease: str) -> bool:
        """Whether a client has said lately that it uses the lease, so that it is renewed."""
        used, agent = self._used.get(lease), self._dealings.agents.get(f.location_of(lease))
        if not used or agent is None or lease not in agent.held:
            return False
        return self.now_ms - max(used.values()) <= agent.held[lease].duration

    def lease_is(self, document: LeaseDocument) -> f.LeaseIs:
        """As its holder is told."""
        return f.LeaseIs(self._answering.shown(document), self._dealings.left_ms(document.lease))

    def became_of(self, lease: str) -> str:
        """Of one that is not held, as far as it is known here."""
        return self._over.get(lease, "unknown")

    def note_over(self, lease: str, reason: str) -> None:
        """It is held no more, or was only offered."""
        self._used.pop(lease, None)
        self.commands.discard(lease)
        self.warned.pop(lease, None)
        self._over[lease] = reason
        while len(self._over) > OVER_MAX:
            del self._over[next(iter(self._over))]

    def closed(self, connection: str, *, process_gone: bool, out: list[Effect]) -> Outcomes:
        """What it used is given back when its process is gone, else it runs out."""
        outcomes: Outcomes = []
        is_guardian = connection in self._guardians
        if process_gone:
            self._guardians.discard(connection)
        for lease in [one for one, used in self._used.items() if connection in used and process_gone]:
            if is_guardian:
                continue  # it is not renewed any more, and runs out: what was guarded may still end
            del self._used[lease][connection]
            if self.is_used(lease):
                continue  # by another one, too
            del self._used[lease]
            location = f.location_of(lease)
            if location in self._dealings.agents:
                self.note_over(lease, "released")
                outcomes += self._dealings.tell(location, a.GiveBack(lease), out)
        return outcomes

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return sorted(self._used), sorted(self._over.items()), sorted(self.commands)
