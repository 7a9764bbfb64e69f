"""How a unit leaves service and comes back: commands after a lease, cooldown, quarantine, draining, reload.

A unit goes through `on_release`, `check` and (after an unclean end) a cooldown, in this order, each only if its pool
has it, and is free again after that. A command that fails puts it in quarantine, from which only a person clears it.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import TypeAlias

from holdall.leases.messages import AGENT, HOOKS, Hook, HookDone, PoolSpec, RunHook, UnitTrouble
from holdall.leases.records import DRAIN_KEY, PREFIX, UNIT_PREFIX, DrainRecord, UnitRecord
from holdall.leases.units import PoolUnits, Stage, Unit
from holdall.machine.contract import Address, CancelTimer, Forget, Record, Save, Send, SetTimer
from holdall.model.names import pool_name, printed_id
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId

COOLDOWN_TIMER = PREFIX + "cooldown/"

Device: TypeAlias = tuple[str, str]
"""Name of a pool without its labels, and of a unit: what people change the labels of is still the same thing."""


class Service:
    """The pools of one node and what keeps their units out of service."""

    def __init__(self, node: str, specs: Iterable[PoolSpec], fence: int) -> None:
        self.node = node
        self.pools: dict[str, PoolUnits] = {spec.pool: PoolUnits(spec, fence) for spec in specs}
        self.draining = False
        self.changed: set[str] = set()
        """Pools where units have left or come back since the protocol evaluated last."""
        self.configured = frozenset(self.pools)
        """Pools that the configuration has now; others leave."""
        self._moving: dict[Device, str] = {}
        """Devices that are not free yet in a pool that has lost them, and that pool: none else may give them."""
        self._runs: dict[int, tuple[str, str, Hook]] = {}
        self._last_run = 0

    # ------------------------------------------------------------ after a lease

    def run_before_grant(self, pool: PoolUnits, unit: Unit, claim: ClaimId, out: Effects) -> bool:
        """Start on_grant for a unit of a claim that is granted. False: there is nothing to run."""
        if not pool.spec.on_grant:
            return False
        self._run("on_grant", pool, unit, claim, out)
        return True

    def returned(self, pool: PoolUnits, unit: Unit, *, unclean: bool, out: Effects) -> None:
        """The lease of this unit is over: clean it, check it, let it rest, or give it back at once."""
        claim = None if unit.claim is None else unit.claim[0]
        pool.leave(unit)
        self.changed.add(pool.spec.pool)
        unit.unclean = unit.unclean or unclean
        if unit.stage == "quarantined":
            self._save(pool, unit, out)
        elif unit.run:
            # on_grant has not ended: what comes after a lease waits for it, see `_after_grant_hook`
            self._set_stage(pool, unit, "on_release", out)
        else:
            self._clean(pool, unit, claim, out)

    def hook_done(self, done: HookDone, out: Effects) -> tuple[PoolUnits, Unit, bool] | None:
        """A command has ended. Returns (pool, unit, ok) when it was the on_grant of a unit that is still held.

        An unknown run is normal: the order was given before a restart and has been given again.
        """
        known = self._runs.pop(done.run, None)
        if known is None:
            return None
        pool = self.pools[known[0]]
        unit = pool.units[known[1]]
        unit.run = 0
        if not done.ok:
            self.quarantine(pool, unit, f"{known[2]} failed: {done.text}", out)
        if known[2] == "on_grant":
            if unit.claim is not None:
                return pool, unit, done.ok
            if done.ok:
                self._clean(pool, unit, None, out)
        elif done.ok and known[2] == "on_release":
            self._check(pool, unit, None, out)
        elif done.ok:
            self._rest(pool, unit, out)
        return None

    def cooldown_over(self, timer: str, out: Effects) -> None:
        """A unit has rested long enough."""
        pool_id, _, name = timer.removeprefix(COOLDOWN_TIMER).rpartition("/")
        pool = self.pools.get(pool_id)
        unit = None if pool is None else pool.units.get(name)
        if pool is not None and unit is not None and unit.stage == "cooldown":
            self._in_service(pool, unit, out)

    # ------------------------------------------------------------ by hand

    def quarantine(self, pool: PoolUnits, unit: Unit, text: str, out: Effects) -> None:
        """Out of service until a person clears it. A held unit stays its holder's and follows when it comes back."""
        if unit.claim is None and pool.withdraw(unit):
            self.changed.add(pool.spec.pool)
        unit.note = text
        self._set_stage(pool, unit, "quarantined", out)
        out.append(
            Send(Address(self.node, AGENT), UnitTrouble(pool.spec.pool, unit.name, "quarantined", text))
        )

    def clear(self, pool_id: str, name: str, out: Effects) -> None:
        """Out of quarantine. No effect on a unit that is not in quarantine."""
        pool = self.pools.get(pool_id)
        unit = None if pool is None else pool.units.get(name)
        if pool is None or unit is None or unit.stage != "quarantined":
            return
        unit.note = ""
        out.append(Send(Address(self.node, AGENT), UnitTrouble(pool_id, name, "cleared", "cleared by hand")))
        if unit.claim is not None:
            self._set_stage(pool, unit, "", out)
        else:
            self._in_service(pool, unit, out)

    def drain(self, *, on: bool, out: Effects) -> None:
        """Give no unit any more, or give them again."""
        if on == self.draining:
            return
        self.draining = on
        out.append(Save(DRAIN_KEY, DrainRecord()) if on else Forget(DRAIN_KEY))
        for pool in self.pools.values():
            for unit in pool.in_order():
                if on:
                    pool.withdraw(unit)
                elif unit.claim is None and not unit.stage and not unit.run:
                    pool.enter(unit)
        self.changed.update(self.pools)

    def reload(self, specs: Iterable[PoolSpec], out: Effects) -> None:
        """The pools as configured now. Held units are left alone and go when they come back.

        A unit that only gets other labels becomes one of another pool; it is free there when it is here.
        """
        wanted = {spec.pool: spec for spec in specs}
        self.configured = frozenset(wanted)
        devices = {(spec.name, unit) for spec in wanted.values() for unit in spec.units}
        fence = max((unit.fence for pool in self.pools.values() for unit in pool.units.values()), default=0)
        self.changed.update(self.pools, wanted)
        for pool_id in sorted(self.pools):
            spec = wanted.get(pool_id)
            self._let_go(self.pools[pool_id], frozenset(() if spec is None else spec.units), devices, out)
        for pool_id in [name for name, pool in self.pools.items() if not pool.units and name not in wanted]:
            del self.pools[pool_id]
        for pool_id, spec in sorted(wanted.items()):
            pool = self.pools.get(pool_id)
            if pool is None:
                pool = self.pools[pool_id] = PoolUnits(PoolSpec(pool_id, spec.name), fence)
            pool.spec = spec
            for name in spec.units:
                if name not in pool.units:
                    self._in_service(pool, pool.add(name, fence), out)
                elif pool.units[name].leaving:
                    pool.units[name].leaving = False
                    self._moving.pop((spec.name, name), None)

    # ------------------------------------------------------------ after a restart

    def recover(self, records: Mapping[str, Record], out: Effects) -> None:
        """Units that were out of service go on where they were; what was under way starts again.

        Held units are known already (`hold_again`).
        """
        self.draining = DRAIN_KEY in records
        if self.draining:
            for pool in self.pools.values():
                for unit in pool.in_order():
                    pool.withdraw(unit)
        for key in sorted(key for key in records if key.startswith(UNIT_PREFIX)):
            record = records[key]
            if not isinstance(record, UnitRecord):
                continue
            pool = self.pools.get(record.pool) or PoolUnits(PoolSpec(record.pool, record.pool), 0)
            kept = pool.units.get(record.unit)
            if kept is None:
                out.append(Forget(key))
                now = self._same_device((pool_name(record.pool), record.unit))
                if now is None:
                    continue
                pool, kept = now
            pool.withdraw(kept)
            kept.fence = max(kept.fence, record.fence)
            kept.note, kept.unclean = record.note, record.unclean
            self._resume(pool, kept, record.stage, out)
            if pool.spec.pool != record.pool and kept.stage:
                self._save(pool, kept, out)

    def hold_again(
        self, pool_id: str, name: str, claim: tuple[ClaimId, int], fence: int
    ) -> tuple[PoolUnits, Unit]:
        """After a restart: the unit is this claim's, also when it has left the configuration meanwhile."""
        pool = self.pools.get(pool_id)
        if pool is None:
            pool = self.pools[pool_id] = PoolUnits(PoolSpec(pool_id, pool_name(pool_id)), 0)
        unit = pool.units.get(name)
        if unit is None:
            now = self._same_device((pool.spec.name, name))
            unit = pool.add(name, fence)
            unit.leaving = True
            pool.capacity += 1
            self._moving[pool.spec.name, name] = pool_id
            if now is not None:
                now[0].withdraw(now[1])
                self._wait_for_device(now[1])
        pool.hold(unit, claim, fence)
        return pool, unit

    def copy(self) -> "Service":
        """An independent twin."""
        twin = object.__new__(Service)
        twin.node, twin.draining, twin.changed = self.node, self.draining, set(self.changed)
        twin.pools = {name: pool.copy() for name, pool in self.pools.items()}
        twin.configured = self.configured
        twin._moving = dict(self._moving)
        twin._runs, twin._last_run = dict(self._runs), self._last_run
        return twin

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.draining,
            tuple((name, self.pools[name].key()) for name in self.pools),
            tuple(sorted(self._runs.items())),
        )

    # ------------------------------------------------------------ stages

    def _resume(self, pool: PoolUnits, unit: Unit, stage: str, out: Effects) -> None:
        match stage:
            case "quarantined":
                unit.stage = "quarantined"
            case "cooldown":
                self._rest(pool, unit, out)
            case "check":
                self._check(pool, unit, None, out)
            case _:
                self._clean(pool, unit, None, out)

    def _clean(self, pool: PoolUnits, unit: Unit, claim: ClaimId | None, out: Effects) -> None:
        if pool.spec.on_release:
            self._set_stage(pool, unit, "on_release", out)
            self._run("on_release", pool, unit, claim, out)
        else:
            self._check(pool, unit, claim, out)

    def _check(self, pool: PoolUnits, unit: Unit, claim: ClaimId | None, out: Effects) -> None:
        if pool.spec.check:
            self._set_stage(pool, unit, "check", out)
            self._run("check", pool, unit, claim, out)
        else:
            self._rest(pool, unit, out)

    def _rest(self, pool: PoolUnits, unit: Unit, out: Effects) -> None:
        if unit.unclean and pool.spec.cooldown_ms:
            self._set_stage(pool, unit, "cooldown", out)
            out.append(SetTimer(f"{COOLDOWN_TIMER}{pool.spec.pool}/{unit.name}", pool.spec.cooldown_ms))
        else:
            self._in_service(pool, unit, out)

    def _in_service(self, pool: PoolUnits, unit: Unit, out: Effects) -> None:
        unit.unclean = False
        self._set_stage(pool, unit, "", out)
        device = (pool.spec.name, unit.name)
        if unit.leaving:
            pool.drop(unit)
            if not pool.units and pool.spec.pool not in self.configured:
                del self.pools[pool.spec.pool]
            if self._moving.get(device) == pool.spec.pool:
                del self._moving[device]
                self._arrived(device, out)
        elif device in self._moving:
            self._wait_for_device(unit)
        elif not self.draining:
            pool.enter(unit)
            self.changed.add(pool.spec.pool)

    def _let_go(
        self, pool: PoolUnits, wanted: frozenset[str], devices: Collection[Device], out: Effects
    ) -> None:
        for unit in tuple(pool.in_order()):
            if unit.name in wanted:
                continue
            unit.leaving = True
            device = (pool.spec.name, unit.name)
            if unit.stage == "moving":
                unit.stage = ""  # not yet here
            elif unit.claim is not None or unit.run or (unit.stage and device in devices):
                self._moving[device] = pool.spec.pool
            if unit.claim is None and not unit.run and self._moving.get(device) != pool.spec.pool:
                pool.withdraw(unit)
                out.append(CancelTimer(f"{COOLDOWN_TIMER}{pool.spec.pool}/{unit.name}"))
                self._in_service(pool, unit, out)

    def _same_device(self, device: Device) -> tuple[PoolUnits, Unit] | None:
        """The device's unit in the configuration as it is now; None when it has left."""
        name, unit = device
        for pool in self.pools.values():
            if pool.spec.name == name and unit in pool.units and not pool.units[unit].leaving:
                return pool, pool.units[unit]
        return None

    def _wait_for_device(self, unit: Unit) -> None:
        """Not kept: after a restart the units that are held tell it again."""
        unit.stage = "moving"
        unit.note = "still in use under the labels that its pool had before"

    def _arrived(self, device: Device, out: Effects) -> None:
        """The pool that has lost the device is done with it."""
        now = self._same_device(device)
        if now is not None and now[1].stage == "moving":
            now[1].stage, now[1].note = "", ""
            self._in_service(*now, out)

    def _run(self, hook: Hook, pool: PoolUnits, unit: Unit, claim: ClaimId | None, out: Effects) -> None:
        self._last_run += 1
        unit.run = self._last_run
        self._runs[unit.run] = (pool.spec.pool, unit.name, hook)
        command = {
            "on_grant": pool.spec.on_grant,
            "on_release": pool.spec.on_release,
            "check": pool.spec.check,
        }[hook]
        order = RunHook(
            run=unit.run,
            hook=hook,
            pool=pool.spec.pool,
            unit=unit.name,
            fence=unit.fence,
            command=command,
            limit_ms=pool.spec.hook_limit_ms,
            claim="" if claim is None else printed_id(str(claim)),
        )
        out.append(Send(Address(self.node, HOOKS), order))

    def _set_stage(self, pool: PoolUnits, unit: Unit, stage: Stage, out: Effects) -> None:
        had = unit.stage
        unit.stage = stage
        if stage:
            self._save(pool, unit, out)
        elif had:
            out.append(Forget(f"{UNIT_PREFIX}{pool.spec.pool}/{unit.name}"))

    def _save(self, pool: PoolUnits, unit: Unit, out: Effects) -> None:
        record = UnitRecord(
            pool=pool.spec.pool,
            unit=unit.name,
            fence=unit.fence,
            stage=unit.stage,
            note=unit.note,
            unclean=unit.unclean,
        )
        out.append(Save(f"{UNIT_PREFIX}{record.pool}/{record.unit}", record))
