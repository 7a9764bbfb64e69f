"""The lease book of a node: which units a claim has, with which fences, and when the book itself ends a lease.

The protocol counts, the book names units. A lease is booked (set aside) -> active (granted) -> draining (its command
is being stopped, known to the agent only) -> ended. Every unit's fence comes from one counter of the node, saved in
blocks before a fence of the block is given. Source: leases chapter of the specification of the chain, section 7.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Self

import msgspec

from holdall.leases.ends import HARD_END_TIMER, HardEnds
from holdall.leases.fences import Fences
from holdall.leases.messages import (
    AGENT,
    END_REACHED,
    EXPIRED,
    AskPrepared,
    ClearUnit,
    DrainUnits,
    EndsAs,
    HookDone,
    PoolSpec,
    Prepared,
    RaiseFence,
    Reload,
    UnitsBack,
)
from holdall.leases.records import (
    FENCE_KEY,
    LEASE_PREFIX,
    PREFIX,
    QUARANTINE_KEY,
    LeaseRecord,
    QuarantineRecord,
)
from holdall.leases.service import COOLDOWN_TIMER, Service
from holdall.leases.silence import SILENCE_TIMER, Silence
from holdall.leases.table import Leases
from holdall.leases.units import PoolUnits, Unit
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    ClockRead,
    Message,
    ProtocolViolation,
    Record,
    Save,
    Send,
    SetTimer,
)
from holdall.protocols.hooks import Effects, PoolGuard
from holdall.protocols.vocabulary import ClaimId, Terms, UnitGrant

QUARANTINE_TIMER = PREFIX + "quarantine"
OWN_MESSAGES = (
    ClockRead,
    HookDone,
    EndsAs,
    RaiseFence,
    AskPrepared,
    DrainUnits,
    ClearUnit,
    Reload,
)
"""What a pool's side gives to its book instead of to its protocol."""


def the_same(attempt: int) -> int:
    """Of protocols that keep one lease a claim."""
    return attempt


class LeaseBook:
    """Units, fences and ends of one node.

    `fence_step` 0: all fences are 0 and nothing is saved about them, for exhaustive worlds. `watch_peers` False: no
    timers for the silence of other nodes, for worlds where a fault plays that part. `attempt_of`: which attempt of its
    claim a lease belongs to, by its own number: some protocols keep several leases of one claim.
    """

    def __init__(
        self,
        node: str,
        pools: Iterable[PoolSpec],
        *,
        rho_ppm: int = 20_000,
        fence_step: int = 1,
        fence_block: int = 1000,
        watch_peers: bool = True,
        epoch: int = 1,
        attempt_of: Callable[[int], int] = the_same,
    ) -> None:
        self.node = node
        self._attempt_of = attempt_of
        self.guard: PoolGuard | None = None
        """The manager; set by the pool's side that joins the two."""
        self.service = Service(node, pools, 0)
        self.quarantined = False
        self._incarnation = 1
        self.leases = Leases()
        self.ends = HardEnds(rho_ppm)
        self.silence = Silence(rho_ppm) if watch_peers else None
        self.fences = Fences(fence_step, fence_block, epoch)

    # ------------------------------------------------------------ what the protocol asks

    def may_grant(self) -> bool:
        """Not while the quarantine after a restart lasts."""
        return not self.quarantined

    def capacity(self, pool: str) -> int:
        """Units that are held or free; 0 for an unknown pool."""
        known = self.service.pools.get(pool)
        return 0 if known is None else known.capacity

    def set_aside(
        self, claim: ClaimId, attempt: int, counts: Mapping[str, int], terms: Terms, out: Effects
    ) -> tuple[UnitGrant, ...]:
        """Units for the claim: each pool's first free ones. Raises ProtocolViolation when there are too few."""
        party = (claim, attempt)
        kept = self.leases.get(party)
        if kept is not None:
            return kept.units
        taken: list[UnitGrant] = []
        for pool_id in sorted(counts):
            pool = self.service.pools.get(pool_id)
            if pool is None or pool.free_count() < counts[pool_id]:
                raise ProtocolViolation(f"{counts[pool_id]} units of {pool_id} are not free for {claim}")
            for _ in range(counts[pool_id]):
                unit = pool.take(party, self.fences.following(out))
                taken.append(UnitGrant(self.node, pool_id, unit.name, unit.fence))
        record = LeaseRecord(claim=claim, attempt=attempt, units=tuple(taken), terms=terms)
        self.leases.keep(record, out)
        if self.silence is not None and claim.node != self.node:
            self.silence.watch(claim, terms.ttl_ms, out)
        return record.units

    def book(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """From booked to active, and each unit's on_grant is started; `Prepared` follows when all have ended.

        The hard end counts from here: a claim over several nodes may wait elsewhere for longer than its `for`.
        """
        record = self.leases.get((claim, attempt))
        if record is None or record.active:
            return
        preparing = [grant for grant in record.units if self._start_on_grant(grant, claim, out)]
        active = msgspec.structs.replace(
            record,
            active=True,
            preparing=tuple(preparing),
            since_wall_ms=self.ends.wall_ms,
            since_boot_ms=self.ends.boot_ms,
        )
        self.leases.keep(active, out)
        self.ends.begin(active, out)

    def give_back(
        self,
        claim: ClaimId,
        attempt: int,
        keep: Mapping[str, int],
        out: Effects,
        named: Collection[UnitGrant] = (),
    ) -> None:
        """Free what is not kept; of each pool the named units are kept first, then those that were given first."""
        record = self.leases.get((claim, attempt))
        if record is None:
            return
        # The protocol evaluates these pools again by itself.
        changed = self.service.changed
        own = {grant.pool for grant in record.units} - changed
        kept: set[UnitGrant] = set()
        left = dict(keep)
        chosen = frozenset(named)
        units = sorted(record.units, key=lambda one: one not in chosen) if chosen else record.units
        for grant in units:
            if left.get(grant.pool, 0) > 0:
                left[grant.pool] -= 1
                kept.add(grant)
            else:
                pool, unit = self._find(grant)
                self.service.returned(pool, unit, unclean=record.unclean, out=out)
        changed -= own
        if not kept:
            self._end(record, out)
        elif len(kept) < len(record.units):
            units = tuple(grant for grant in record.units if grant in kept)
            preparing = tuple(grant for grant in record.preparing if grant in kept)
            self.leases.keep(msgspec.structs.replace(record, units=units, preparing=preparing), out)
            self._tell_prepared(self.leases[claim, attempt], record, out)

    def extend(self, claim: ClaimId, attempt: int, for_ms: int, out: Effects) -> bool:
        """A new hard end, unless a pool of the lease allows none that late (`max_for_ms` from the grant)."""
        record = self.leases.get((claim, attempt))
        if record is None:
            return False
        for pool_id in sorted({grant.pool for grant in record.units}):
            max_for_ms = self.service.pools[pool_id].spec.max_for_ms
            if max_for_ms is not None and for_ms > max_for_ms:
                return False
        if record.terms.for_ms != for_ms:
            terms = msgspec.structs.replace(record.terms, for_ms=for_ms)
            self.leases.keep(msgspec.structs.replace(record, terms=terms), out)
            if record.active:
                self.ends.begin(self.leases[claim, attempt], out)
        return True

    def units(self, claim: ClaimId, attempt: int) -> tuple[UnitGrant, ...]:
        """What this attempt of the claim has here, in the order in which it was given."""
        record = self.leases.get((claim, attempt))
        return () if record is None else record.units

    # ------------------------------------------------------------ what the agent and the driver tell

    def told(self, message: Message, out: Effects) -> None:
        """One of `OWN_MESSAGES`."""
        match message:
            case ClockRead():
                self.ends.clock(message, self.leases, out)
                if self.silence is not None:
                    self.silence.clock(message.boot_ms, out)
            case HookDone():
                self._hook_done(message, out)
            case EndsAs():
                self._ends_as(message, out)
            case RaiseFence(claim):
                self._raise_fence(claim, out)
            case AskPrepared():
                self._asked_prepared(message, out)
            case DrainUnits(on):
                self.service.drain(on=on, out=out)
            case ClearUnit(pool, unit):
                self.service.clear(pool, unit, out)
            case Reload(pools):
                self.service.reload(pools, out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is not for a lease book")
        self.tell_changes(out)

    def heard(self, peer: str, out: Effects) -> None:
        """A frame of another node has come: its claims here live on for their ttl."""
        if self.silence is not None:
            self.silence.heard(peer, out)

    def watch(self, claim: ClaimId, ttl_ms: int, out: Effects, *, anew: bool = False) -> None:
        """A claim of another node waits or holds here (`anew`: in another attempt): it lives as long as its node is heard."""
        if self.silence is not None:
            self.silence.watch(claim, ttl_ms, out, anew=anew)

    def unwatch(self, claim: ClaimId, out: Effects) -> None:
        """Nothing of the claim is here any more."""
        if self.silence is not None and not self.leases.has(claim):
            self.silence.forget(claim, out)

    def fired(self, timer: str, out: Effects) -> None:
        """One of this book's timers (names begin with `book/`)."""
        if timer == QUARANTINE_TIMER:
            self.quarantined = False
            out.append(Save(QUARANTINE_KEY, QuarantineRecord(self._incarnation)))
            if self.guard is not None:
                self.guard.capacity_changed(out)
        elif timer.startswith(COOLDOWN_TIMER):
            self.service.cooldown_over(timer, out)
        elif timer.startswith(HARD_END_TIMER):
            self._hard_end(timer, out)
        elif timer.startswith(SILENCE_TIMER) and self.silence is not None:
            for claim in self.silence.fired(timer):
                self._over(claim, EXPIRED, out)
        self.tell_changes(out)

    def recover(self, records: Mapping[str, Record], out: Effects) -> None:
        """Leases with their units, units out of service, the next block of fences, the quarantine."""
        boot = records[BOOT_KEY]
        if not isinstance(boot, Boot):
            raise TypeError(f"records[{BOOT_KEY!r}] is no Boot")
        self._incarnation = boot.incarnation
        self.fences.recover(records.get(FENCE_KEY), boot)
        for pool in self.service.pools.values():
            for unit in pool.in_order():
                unit.fence = self.fences.last
        for key in sorted(key for key in records if key.startswith(LEASE_PREFIX)):
            record = records[key]
            if isinstance(record, LeaseRecord):
                self._hold_again(record, out)
        self.service.recover(records, out)
        if self.silence is not None:
            self.silence.recover(records, same=boot.kind == "same", out=out)
        if boot.quarantine_ms:
            self.quarantined = True
            out.append(SetTimer(QUARANTINE_TIMER, boot.quarantine_ms))
        self.service.changed.clear()

    # ------------------------------------------------------------ views

    def of_claim(self, claim: ClaimId) -> tuple[LeaseRecord, ...]:
        """The leases of all attempts of a claim here, oldest first."""
        return self.leases.of_claim(claim)

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.guard = None
        twin.service = self.service.copy()
        twin.leases = self.leases.twin()
        twin.ends = self.ends.copy()
        twin.fences = self.fences.copy()
        twin.silence = None if self.silence is None else self.silence.copy()
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.quarantined,
            self.fences.last,
            self.leases.key(),
            self.service.key(),
            None if self.silence is None else self.silence.key(),
        )

    # ------------------------------------------------------------ inside

    def _find(self, grant: UnitGrant) -> tuple[PoolUnits, Unit]:
        pool = self.service.pools[grant.pool]
        return pool, pool.units[grant.unit]

    def _end(self, record: LeaseRecord, out: Effects) -> None:
        self.leases.end(record, out)
        self.ends.finish(record, out)
        if self.silence is not None and not self.leases.has(record.claim):
            self.silence.forget(record.claim, out)

    def _start_on_grant(self, grant: UnitGrant, claim: ClaimId, out: Effects) -> bool:
        pool, unit = self._find(grant)
        return self.service.run_before_grant(pool, unit, claim, out)

    def _hook_done(self, done: HookDone, out: Effects) -> None:
        prepared = self.service.hook_done(done, out)
        if prepared is None:
            return
        pool, unit, ok = prepared
        record = self.leases.get(unit.claim) if unit.claim is not None else None
        if record is None:
            return
        waiting = tuple(
            one for one in record.preparing if (one.pool, one.unit) != (pool.spec.pool, unit.name)
        )
        failed = record.failed
        if not ok:
            failed += tuple(one for one in record.preparing if one not in waiting)
        self.leases.keep(msgspec.structs.replace(record, preparing=waiting, failed=failed), out)
        self._tell_prepared(self.leases[record.claim, record.attempt], record, out)

    def _asked_prepared(self, ask: AskPrepared, out: Effects) -> None:
        """The holder waits for it, so the lease is active. Of what is not here renewal tells the end."""
        together = self._together(ask.claim, ask.attempt)
        for record in together:
            self.book(record.claim, record.attempt, out)
        self._send_prepared(ask.claim, ask.attempt, out)

    def _tell_prepared(self, record: LeaseRecord, before: LeaseRecord, out: Effects) -> None:
        if before.preparing and not record.preparing:
            self._send_prepared(record.claim, self._attempt_of(record.attempt), out)

    def _together(self, claim: ClaimId, attempt: int) -> list[LeaseRecord]:
        """All leases here of one attempt of a claim."""
        return [record for record in self.of_claim(claim) if self._attempt_of(record.attempt) == attempt]

    def _send_prepared(self, claim: ClaimId, attempt: int, out: Effects) -> None:
        """Tell the claim's agent, once nothing of it is being prepared here any more."""
        together = self._together(claim, attempt)
        if not together or any(record.preparing for record in together):
            return
        failed = tuple(one for record in together for one in record.failed)
        text = "; ".join(self._find(one)[1].note for one in failed)
        out.append(Send(Address(claim.node, AGENT), Prepared(claim, attempt, failed, text)))

    def _raise_fence(self, claim: ClaimId, out: Effects) -> None:
        for record in self.of_claim(claim):
            for grant in record.units:
                _, unit = self._find(grant)
                unit.fence = self.fences.following(out)

    def _hard_end(self, timer: str, out: Effects) -> None:
        claim = self.ends.claim_of(timer)
        if claim is None or not self.of_claim(claim):
            return
        self._over(claim, END_REACHED, out)

    def _ends_as(self, said: EndsAs, out: Effects) -> None:
        for record in self.of_claim(said.claim):
            ending = record.ending or said.why
            unclean = record.unclean or said.unclean
            if (ending, unclean) != (record.ending, record.unclean):
                self.leases.keep(msgspec.structs.replace(record, ending=ending, unclean=unclean), out)

    def _over(self, claim: ClaimId, reason: str, out: Effects) -> None:
        self.told(EndsAs(claim, EXPIRED, unclean=True), out)
        if self.guard is not None:
            self.guard.departed(claim, out, reason)

    def tell_changes(self, out: Effects) -> None:
        """Let the protocol look at pools whose units have come or gone without it."""
        if self.service.changed:
            changed = tuple(sorted(self.service.changed))
            self.service.changed.clear()
            if self.guard is not None:
                self.guard.capacity_changed(out, changed)
            out.append(Send(Address(self.node, AGENT), UnitsBack(changed)))

    def _hold_again(self, record: LeaseRecord, out: Effects) -> None:
        party = (record.claim, record.attempt)
        self.leases.know(record)
        for grant in record.units:
            pool, unit = self.service.hold_again(grant.pool, grant.unit, party, grant.fence)
            if grant in record.preparing:
                self.service.run_before_grant(pool, unit, record.claim, out)
        if record.active:
            self.ends.begin(record, out)
        if self.silence is not None and record.claim.node != self.node:
            self.silence.watch(record.claim, record.terms.ttl_ms, out)
