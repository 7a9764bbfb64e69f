"""The holds and leases of one host, and the only place where their state changes: by the table, saved, with its effects.

Source: lease negotiation, sections 4.5, 8.1 and 10.1.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

import msgspec

from holdall.leases.negotiation import host_messages as h
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.allotment import Allotments
from holdall.leases.negotiation.interfaces import Asker, Holding
from holdall.leases.negotiation.looking import Leases, SharesAre, leases_part
from holdall.leases.negotiation.measured import Measured
from holdall.leases.negotiation.records import LEASE_PREFIX, HeldLease
from holdall.leases.negotiation.reviewing import Live, revoked
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.negotiation.states import OPEN, TERMINAL, Occurrence, following, is_legal
from holdall.machine.contract import Address, CancelTimer, Forget, Message, Save, Send, SetTimer
from holdall.model.terms import LeaseDocument, TermState, TermStatus
from holdall.protocols.hooks import Effects

PPM = 1_000_000
_OCCURS: dict[str, Occurrence] = {"expiry": "expire", "revoke": "revoke", "linger": "finish"}
"""Timer -> what it means for an active or draining lease."""


class Claiming(msgspec.Struct, frozen=True):
    """A hold whose units are being claimed: its capacities are taken, and it has been proposed to nobody."""

    record: HeldLease
    location: Address
    hold_ms: int
    left: tuple[int, int]
    waits: frozenset[str]


class HostBook:
    """`held`: hold -> its record, over until it is forgotten; `claiming`: those that are no holds yet; `now_ms`: CLOCK_BOOTTIME as the driver told it last, or 0."""

    def __init__(self, settings: HostSettings, allotments: Allotments, incarnation: int) -> None:
        self.settings, self.allotments, self.incarnation = settings, allotments, incarnation
        self.now_ms = 0
        self.held: dict[str, HeldLease] = {}
        self.claiming: dict[str, Claiming] = {}
        self._by_lease: dict[str, str] = {}
        self._began_ms: dict[str, int] = {}
        """Hold -> when its duration began to count, for display and for `retry_after_ms`."""
        self.measures = Measured()

    def clock(self, boot_ms: int) -> None:
        """The driver tells it before each turn; leases that began with the process, as it recovered, begin here."""
        if not self.now_ms:
            self._began_ms = dict.fromkeys(self._began_ms, boot_ms)
        self.now_ms = boot_ms

    # ------------------------------------------------------------ looking

    def of(self, lease: str, holder: str | None = None) -> HeldLease | None:
        """The lease, if it is this holder's."""
        record = self.held.get(self._by_lease.get(lease, ""))
        return record if record is not None and holder in {None, record.asker.holder} else None

    def active(self) -> list[str]:
        """The leases that live."""
        return [one.lease for one in self.held.values() if one.state == "active"]

    def holdings(self, without: str = "") -> list[Holding]:
        """What everybody has, but for the hold `without`; for a policy's limits."""
        return [
            Holding(record.asker, status.name, status.granted)
            for hold, record in self.held.items()
            if hold != without and record.state not in TERMINAL
            for status in record.terms
        ]

    def askers(self) -> tuple[Asker, ...]:
        """Whoever has something."""
        found = {one.asker for one in self.held.values() if one.state not in TERMINAL}
        return tuple(sorted(found, key=lambda one: (one.holder, one.attributes)))

    def retry_after_ms(self) -> int:
        """Until the first lease that lives now ends, at least 1."""
        left = [
            self._life_ms(one.duration) - (self.now_ms - self._began_ms.get(one.hold, self.now_ms))
            for one in self.held.values()
            if one.state == "active"
        ]
        return max(1, min(left, default=1))

    def document(self, record: HeldLease) -> LeaseDocument:
        """As it is shown; what the gate measured last is in its terms."""
        passed = self.now_ms - self._began_ms.get(record.hold, self.now_ms)
        counts = record.state == "active"
        return LeaseDocument(
            record.lease or record.hold,
            self.settings.location,
            self.settings.host,
            self.incarnation,
            record.asker.holder,
            record.state,
            record.revision,
            record.duration,
            record.request,
            self._statuses(record),
            remaining_ms=max(0, record.duration - passed) if counts else 0,
            renew_after_ms=max(0, record.duration // 2 - passed) if counts else 0,
            rebind_after_ms=max(0, record.duration * 7 // 8 - passed) if counts else 0,
            template=record.template,
            fence=record.fence,
            why=record.why,
            before_end=record.before_end,
            before_end_outcome=record.before_end_outcome,
        )

    def part(self, after: str) -> Leases:
        """Leases for whoever looks; those that are over too, until they are forgotten."""
        held, by_lease = self.held, self._by_lease
        leases = (lease for lease, hold in by_lease.items() if hold in held)
        return leases_part(leases, lambda lease: self.document(held[by_lease[lease]]), after)

    def shares(self, after: str) -> SharesAre:
        """How the capacities are divided, for whoever looks. A part of a capacity goes by its party, people know leases."""
        told = self.allotments.part(after, now_ms=self.now_ms)
        names = {one.party: one.lease or one.hold for one in self.held.values()}
        rows = tuple(msgspec.structs.replace(row, lease=names.get(row.lease, row.lease)) for row in told.rows)
        return msgspec.structs.replace(told, rows=rows)

    def _statuses(self, record: HeldLease) -> tuple[TermStatus, ...]:
        statuses = self.measures.statuses(record)
        if record.state in OPEN:
            return statuses
        over: TermState = "completed" if record.state in TERMINAL else "ready.idle"
        return tuple(
            one if one.state == "ready.processing" and over != "completed" else _in_state(one, over)
            for one in statuses
        )

    # ------------------------------------------------------------ changes

    def lodge(self, record: HeldLease, out: Effects) -> None:
        """The record is so from now on, in its present state."""
        self.held[record.hold] = record
        if record.lease:
            self._by_lease[record.lease] = record.hold
        out.append(Save(LEASE_PREFIX + record.hold, record))

    def drop(self, record: HeldLease, out: Effects) -> None:
        """Another record stands for the lease now: a replacement has been confirmed."""
        del self.held[record.hold]
        self._began_ms.pop(record.hold, None)
        out += (Forget(LEASE_PREFIX + record.hold), CancelTimer(f"expiry/{record.hold}"))
        if record.revoked_after_ms is not None:
            out.append(CancelTimer(f"revoke/{record.hold}"))

    def save_hold(self, record: HeldLease, out: Effects) -> None:
        """Before its units are claimed, so that a restart can give them back; it is in no state of its own yet."""
        out.append(Save(LEASE_PREFIX + record.hold, record))

    def let_go(self, claiming: Claiming, out: Effects) -> None:
        """It comes to nothing before it was proposed."""
        record = claiming.record
        self.allotments.withdraw(record.party, record.terms)
        out.append(Forget(LEASE_PREFIX + record.hold))
        self._free_units(record, out)

    def begins(self, record: HeldLease, out: Effects) -> None:
        """Its duration counts from this turn's commit on, and its end comes late rather than early by any clock."""
        self._began_ms[record.hold] = self.now_ms
        out.append(SetTimer(f"expiry/{record.hold}", self._life_ms(record.duration)))
        self.gate_begins(record, record.duration, out)

    def gate_begins(self, record: HeldLease, duration: int, out: Effects) -> None:
        """The gate is told what it admits from now on, and for how long."""
        if self.settings.gate is not None:
            begin = h.Begin(record.lease, record.asker.holder, record.fence, duration, record.terms)
            out.append(Send(self.settings.gate, begin))

    def occurs(self, record: HeldLease, what: Occurrence, out: Effects) -> HeldLease:
        """One transition of the table, with all that follows. Raises IllegalTransition."""
        state, ending = following(record.state, record.ending, what)
        changed = msgspec.structs.replace(record, state=state, ending=ending)
        if record.state in OPEN and state in TERMINAL:
            self._withdrawn(changed, out)
        elif state == "draining":
            self._over(changed, out)
        elif record.state == "draining":
            self._finished(changed, out)
        else:
            self.lodge(changed, out)
        return changed

    def withdraw_replacements(self, record: HeldLease, out: Effects) -> None:
        """Holds that were to take the lease's place, also where their units are still being claimed."""
        self._withdraw(lambda other: other.replaces == record.hold, out)

    def withdraw_open(self, out: Effects) -> None:
        """All holds."""
        self._withdraw(lambda _: True, out)

    def _withdraw(self, which: Callable[[HeldLease], bool], out: Effects) -> None:
        for other in list(self.held.values()):
            if other.state in OPEN and which(other):
                self.occurs(other, "withdraw", out)
        for hold in [hold for hold, one in self.claiming.items() if which(one.record)]:
            self.let_go(self.claiming.pop(hold), out)

    def revoke(self, lease: str, grace_ms: int, why: str, out: Effects) -> None:
        """Its holder is told, and it ends after the grace. A second order can only shorten it."""
        record = self.of(lease)
        if record is None or record.state != "active":
            return
        known = record.revoked_after_ms
        if known is not None and known <= grace_ms:
            return
        changed = msgspec.structs.replace(record, revoked_after_ms=grace_ms, why=why)
        self.lodge(changed, out)
        out.append(Send(record.agent, m.Revoking(lease, grace_ms, why)))
        if grace_ms == 0:
            self.occurs(changed, "revoke", out)
        else:
            out.append(SetTimer(f"revoke/{record.hold}", grace_ms))

    def lets(self, limits: Iterable[m.LeaseLimits], out: Effects) -> None:
        """The location's manager says so, and it counts over restarts until he says otherwise; of leases that are over nothing."""
        for one in limits:
            record = self.of(one.lease)
            if record is not None and record.state not in TERMINAL and record.limits != one.most:
                self.lodge(msgspec.structs.replace(record, limits=one.most), out)

    def review(self, policy: object, grace_ms: int, out: Effects) -> None:
        """Live leases that a rule of the policy ends are revoked. One that is to end already is left alone."""
        live = [
            Live(one.lease, one.fence, one.asker, one.duration, one.terms)
            for one in self.held.values()
            if one.state == "active" and one.revoked_after_ms is None
        ]
        for lease, rule in revoked(live, policy, self._capacity):
            self.revoke(lease, grace_ms, f"rule {rule} of the host's policy", out)

    def divide_among(self, groups: Mapping[str, Mapping[str, str]]) -> None:
        """By the policy in force; who has something has it until it is renewed, and its demand counts anew."""
        self.allotments.divide_among(groups)
        for one in self.held.values():
            if one.state not in TERMINAL:
                self.allotments.reweigh(one)

    def units_lost(self, hold: str, pool: str, out: Effects) -> None:
        """Its pool's manager has taken units away: what is held or leased with them is over."""
        record = self.held.get(hold)
        if record is None:
            return
        if record.state in OPEN:
            self.occurs(record, "withdraw", out)
        elif record.state == "active":
            self.revoke(record.lease, 0, f"units of {pool} were taken away", out)

    def release(self, agent: Address, holder: str, lease: str, out: Effects) -> None:
        """Idempotent while the lease is known."""
        record = self.of(lease, holder)
        if record is None:
            out.append(Send(agent, m.UnknownLease(lease)))
            return
        if record.state == "active":
            self.occurs(record, "release", out)
        out.append(Send(agent, m.Done(lease)))

    def drained(self, lease: str, out: Effects) -> None:
        """From the gate."""
        record = self.of(lease)
        if record is not None and record.state == "draining":
            self.occurs(record, "finish", out)

    def measured(self, message: h.Measured) -> None:
        """From the gate; not kept over a restart."""
        if message.lease in self._by_lease:
            self.measures.told(message.lease, message.terms)

    def used(self, message: m.UseIs, holder: str, out: Effects) -> None:
        """From whoever keeps the holder to it; of what is no capacity or time of the lease nothing is taken."""
        record = self.of(message.lease, holder)
        if record is None or record.state in TERMINAL:
            return
        if message.before_end not in {"", record.before_end_outcome}:
            record = msgspec.structs.replace(record, before_end_outcome=message.before_end)
            self.lodge(record, out)
        self.measures.used(record, message.meter, message.uses, self.now_ms, out)

    # ------------------------------------------------------------ timers and restarts

    def fired(self, kind: str, hold: str, out: Effects) -> None:
        """A timer of a hold; one that comes late means nothing."""
        record = self.held.get(hold)
        if record is None:
            return
        if kind == "keep":
            if record.state in TERMINAL:
                self._forget(record, out)
            return
        if kind == "hold":
            what: Occurrence = "hold_lapse" if record.state == "proposed" else "offer_lapse"
        else:
            what = _OCCURS[kind]
        if not is_legal(record.state, what):
            return
        if kind == "linger" and self.settings.gate is not None:
            out.append(Send(self.settings.gate, h.Cut(record.lease)))
        self.occurs(record, what, out)

    def recover(self, record: HeldLease, out: Effects) -> None:
        """One saved record, after a restart."""
        if record.state in OPEN:
            out.append(Forget(LEASE_PREFIX + record.hold))
            self._free_units(record, out)
            return
        self.held[record.hold] = record
        self._by_lease[record.lease] = record.hold
        self.measures.recover(record)
        if record.state in TERMINAL:
            out.append(SetTimer(f"keep/{record.hold}", self.settings.keep_ms))
            return
        self.allotments.restore(record)
        if record.state == "active":
            self.begins(record, out)
            if record.revoked_after_ms is not None:
                out.append(SetTimer(f"revoke/{record.hold}", record.revoked_after_ms))
            return
        self.allotments.over(
            record.party, record.terms, released=True, draining=True, now_ms=0, duration=record.duration
        )
        self._stop(record, out)

    # ------------------------------------------------------------ inside

    def _withdrawn(self, record: HeldLease, out: Effects) -> None:
        """A hold is over: what it held is free at once."""
        self.allotments.withdraw(record.party, record.terms)
        self._free_units(record, out)
        out.append(CancelTimer(f"hold/{record.hold}"))
        self._end(record, out)

    def _over(self, record: HeldLease, out: Effects) -> None:
        """Nothing new is admitted. Holds that were to replace the lease go with it."""
        self.withdraw_replacements(record, out)
        out += (CancelTimer(f"expiry/{record.hold}"),)
        if record.revoked_after_ms is not None:
            out.append(CancelTimer(f"revoke/{record.hold}"))
        self.allotments.over(
            record.party,
            record.terms,
            released=record.ending != "expired",
            draining=True,
            now_ms=self.now_ms,
            duration=record.duration,
        )
        self.lodge(record, out)
        self._stop(record, out)

    def _stop(self, record: HeldLease, out: Effects) -> None:
        """Without a gate nothing can linger."""
        if self.settings.gate is None:
            self.occurs(record, "finish", out)
            return
        out.append(Send(self.settings.gate, h.Stop(record.lease, record.fence)))
        out.append(SetTimer(f"linger/{record.hold}", min(self.settings.linger_ms, record.duration)))

    def _finished(self, record: HeldLease, out: Effects) -> None:
        self.allotments.drained(record.party, record.terms)
        self._free_units(record, out)
        if self.settings.gate is not None:
            out.append(CancelTimer(f"linger/{record.hold}"))
        self._end(record, out)
        self.tell(m.LeaseChanged(self.document(record)), out)

    def _end(self, record: HeldLease, out: Effects) -> None:
        self.lodge(record, out)
        out.append(SetTimer(f"keep/{record.hold}", self.settings.keep_ms))

    def _forget(self, record: HeldLease, out: Effects) -> None:
        del self.held[record.hold]
        self._began_ms.pop(record.hold, None)
        if self._by_lease.get(record.lease) == record.hold:
            del self._by_lease[record.lease]
            self.measures.forget(record.lease, out)
        out.append(Forget(LEASE_PREFIX + record.hold))

    def _free_units(self, record: HeldLease, out: Effects) -> None:
        if record.has_units and self.settings.units is not None:
            ending = record.state if record.state in {"expired", "revoked"} else "released"
            out.append(Send(self.settings.units, h.FreeUnits(record.hold, ending)))

    def _life_ms(self, duration: int) -> int:
        return duration + -(-duration * self.settings.rho_ppm // PPM)

    def _capacity(self, term: str) -> int | None:
        sharing = self.allotments.sharings.get(term)
        return None if sharing is None else sharing.capacity

    def tell(self, message: Message, out: Effects) -> None:
        """To all managers of the location."""
        for manager in self.settings.managers:
            out.append(Send(manager, message))

    # ------------------------------------------------------------ twins

    def copy(self) -> "HostBook":
        """An independent twin."""
        allotments = self.allotments.copy()
        twin = HostBook(self.settings, allotments, self.incarnation)
        twin.now_ms = self.now_ms
        twin.held, twin._by_lease = dict(self.held), dict(self._by_lease)
        twin.claiming = dict(self.claiming)
        twin._began_ms, twin.measures = dict(self._began_ms), self.measures.copy()
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        held = tuple(repr(self.held[hold]) for hold in sorted(self.held))
        return held, repr(sorted(self.claiming.items())), self.allotments.key()


def _in_state(status: TermStatus, state: TermState) -> TermStatus:
    return msgspec.structs.replace(status, state=state)
