"""The hosts of a location as its manager sees them: heard of lately, suspect, gone; their templates and what is free.

Source: lease negotiation, section 4.4.
"""

from collections.abc import Hashable, Iterable
from fractions import Fraction

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.looking import Hosts, part_of
from holdall.leases.templates import aggregate
from holdall.machine.contract import Address, SetTimer
from holdall.model.location_rows import HostRow, Presence
from holdall.model.terms import LeaseRequest, Template
from holdall.protocols.hooks import Effects

SUSPECT_BEATS, GONE_BEATS = 3, 10
"""Heartbeats that are missing."""
HOSTS_MOST = 50
"""Asked in one round."""


class Member(msgspec.Struct, frozen=True):
    """One host."""

    host: str
    address: Address
    incarnation: int
    template: Template
    presence: Presence = "live"
    draining: bool = False
    free: dict[str, int] = {}


class Members:
    """By host name. Only a host's own word makes it live again."""

    def __init__(self, heartbeat_ms: int) -> None:
        self._heartbeat_ms = heartbeat_ms
        self.known: dict[str, Member] = {}

    def hello(self, sender: Address, message: m.HostHello, out: Effects) -> Member | None:
        """What was known of the host before this, which replaces it. The caller has looked at the incarnation."""
        before = self.known.get(message.host)
        self.known[message.host] = Member(
            message.host, sender, message.incarnation, message.template, draining=message.draining
        )
        self._heard(message.host, out)
        return before

    def heartbeat(self, message: m.Heartbeat, out: Effects) -> bool:
        """False: the host must say hello first."""
        member = self.known.get(message.host)
        if member is None or member.incarnation != message.incarnation:
            return False
        if member.template.template != message.template:
            return False
        self.known[message.host] = msgspec.structs.replace(member, presence="live", free=message.free)
        self._heard(message.host, out)
        return True

    def leaves(self, message: m.HostLeave) -> bool:
        """False for an earlier process of it."""
        member = self.known.get(message.host)
        if member is None or message.incarnation < member.incarnation:
            return False
        self.known[message.host] = msgspec.structs.replace(member, draining=True)
        return True

    def missing(self, host: str, presence: Presence) -> None:
        """Its heartbeats have not come for so long."""
        member = self.known.get(host)
        if member is not None:
            self.known[host] = msgspec.structs.replace(member, presence=presence)

    def is_outdated(self, host: str, incarnation: int) -> bool:
        """Whether a later process of the host has spoken."""
        member = self.known.get(host)
        return member is not None and incarnation < member.incarnation

    def is_live(self, host: str) -> bool:
        """Heard of lately."""
        member = self.known.get(host)
        return member is not None and member.presence == "live"

    def may_be_asked(self) -> dict[str, Template]:
        """The templates of hosts that take new leases."""
        return {
            host: member.template
            for host, member in self.known.items()
            if member.presence == "live" and not member.draining
        }

    def capacity(self, term: str) -> int | None:
        """Of all hosts together that are not gone, for a location's limits; None: it is no capacity of theirs."""
        return _together(term, (one for one in self.known.values() if one.presence != "gone"))

    def capacity_ever(self, term: str) -> int | None:
        """The same with those that are gone: what was granted within a limit does not end because a host is away."""
        return _together(term, self.known.values())

    def templates(self) -> m.Templates:
        """As agents see them: those of suspect hosts stay, and are flagged; those of hosts that are gone are not shown."""
        there = [one for one in self.known.values() if one.presence != "gone" and not one.draining]
        live = {one.template.template for one in there if one.presence == "live"}
        shown = aggregate(one.template for one in there)
        return m.Templates(shown, tuple(one.template for one in shown if one.template not in live))

    def part(self, after: str) -> Hosts:
        """Hosts for whoever looks, those that are gone too, by name."""
        shown, more = part_of(((host,) for host in self.known), lambda name: self._row(name[0]), after)
        return Hosts(after, shown, more)

    def foremost(self, hosts: tuple[str, ...], request: LeaseRequest, turn: int) -> tuple[str, ...]:
        """At most `HOSTS_MOST`, those with most free for the request; equals take turns."""
        if len(hosts) <= HOSTS_MOST:
            return hosts
        ranked = sorted(
            range(len(hosts)),
            key=lambda place: (-self._fit(hosts[place], request), (place + turn) % len(hosts)),
        )
        return tuple(sorted(hosts[place] for place in ranked[:HOSTS_MOST]))

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(repr(self.known[host]) for host in sorted(self.known))

    def copy(self) -> "Members":
        """An independent twin."""
        twin = Members(self._heartbeat_ms)
        twin.known = dict(self.known)
        return twin

    def _row(self, host: str) -> HostRow:
        one = self.known[host]
        return HostRow(
            host, one.presence, one.draining, one.incarnation, one.template.template, dict(one.free)
        )

    def _fit(self, host: str, request: LeaseRequest) -> Fraction:
        free = self.known[host].free
        parts = [
            Fraction(free[name], asked.amount)
            for name, asked in request.terms.items()
            if name in free and isinstance(asked.amount, int) and asked.amount
        ]
        return min(Fraction(1), min(parts, default=Fraction(1)))

    def _heard(self, host: str, out: Effects) -> None:
        out.append(SetTimer(f"suspect/{host}", SUSPECT_BEATS * self._heartbeat_ms))
        out.append(SetTimer(f"gone/{host}", GONE_BEATS * self._heartbeat_ms))


def _together(term: str, members: Iterable[Member]) -> int | None:
    terms = [found for one in members if (found := one.template.terms.get(term)) is not None]
    amounts = [one.max for one in terms if one.kind == "capacity" and one.max is not None]
    return sum(amounts) if amounts else None
