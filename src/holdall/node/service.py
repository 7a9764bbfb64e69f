"""One node as a service: started in order, reloaded, stopped."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from holdall.bus.identity import NodeKey
from holdall.leases.negotiation.host_messages import Offers
from holdall.machine.contract import Address
from holdall.machine.link import LINK
from holdall.machine.link_orders import AllParts
from holdall.model.errors import BadConfig, HoldallError
from holdall.node import boot, paths
from holdall.node.accounting.account import Account
from holdall.node.accounting.keeping import Keeping
from holdall.node.accounting.machines import affiliations, uses
from holdall.node.admission import Admission
from holdall.node.bus_end import BusEnd
from holdall.node.clock import boottime_ms, wall_ms
from holdall.node.command_line import Surroundings, user_problem
from holdall.node.configured import Settings
from holdall.node.failpoint import ENV, Failpoint
from holdall.node.figures import Figures
from holdall.node.front import Front
from holdall.node.health import Health
from holdall.node.host_lock import HostLocks, Owner
from holdall.node.identity import identity_of
from holdall.node.location.configured import PolicySettings
from holdall.node.location.driver import LocationDriver, names_of, rates
from holdall.node.location.obeyed import Obeyed
from holdall.node.location.offering import offered_now, shape
from holdall.node.location.reviewing import Reviewing
from holdall.node.log import make_log
from holdall.node.loop import Loop
from holdall.node.membership import Seat, join, seat_of
from holdall.node.ports import NodePorts
from holdall.node.process import this_process
from holdall.node.recorder import Recorder
from holdall.node.release import version
from holdall.node.settings import read_settings
from holdall.node.sockets import bind
from holdall.node.store import BootRecord, JournalBroken, JournalFull, Store
from holdall.parties.directory.messages import DIRECTORY, Leaving
from holdall.parties.location.candidate import Candidate
from holdall.parties.location.messages import HOST, LOCATION
from holdall.parties.messages import AGENT, MANAGER, NODE, Reload
from holdall.parties.side import Side

USER_SOCKET_MODE = 0o600
SYSTEM_SOCKET_MODE = 0o666
"""Everybody on the host may ask the system node; it knows each peer's user from the kernel."""
CLOCK_RETRY_S = 1.0
BUS_WITHIN_S = 3.0
"""A node that knows others waits so long for its bus before it asks them whether it may serve."""
_STARTING = "starting"


class NodeFailed(HoldallError):
    """The node ended by itself; its journal has everything that it told anybody."""


class Service:
    """A node on the running asyncio loop: `start`, then `until_stopped`, always `close`."""

    def __init__(
        self,
        settings: Settings,
        *,
        new: bool = False,
        trace: Path | None = None,
        log_to: TextIO | None = None,
        seat: Callable[[NodeKey], Seat] | None = None,
        code: str = "",
    ) -> None:
        """`seat`: gives a node its place in a system, instead of the one that settings and state folder say.

        `code`: join a system with it before the start.
        """
        self.settings = settings
        self.log = make_log(log_to)
        self.start_kind = ""
        self.quarantine_end_ms = 0
        """CLOCK_BOOTTIME; 0: none."""
        self._new = new
        self._joins = False
        self._trace = trace
        self._state = _STARTING
        self.key: NodeKey | None = None
        """Known once `start` has read it."""
        self._stopped = asyncio.Event()
        self._failure = ""
        self._given_seat = seat
        self._code = code
        self.seat = Seat()
        """Known once `start` has found it."""
        self._bus: BusEnd | None = None
        self._ports: NodePorts | None = None
        self._admission = Admission(self.log, must_stop=self._fail)
        self._health = Health(self.health)
        self._fronts: set[int] = set()
        self.front = Front(settings, self.log, self._fronts)
        self._boot_id = boot.kernel_boot_id()
        self._locks = HostLocks(Owner(settings.name, str(settings.state), self._boot_id))
        self._store: Store | None = None
        self._loop: Loop | None = None
        self._location: LocationDriver | None = None
        self._obeyed = Obeyed(PolicySettings())
        self._reviewing: Reviewing | None = None
        self._keeping: Keeping | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._recorder: Recorder | None = None
        self._listener: socket.socket | None = None

    async def start(self) -> None:
        """Come up as far as serving. Raises BadConfig (nothing was granted, the journal is as it was).

        With a code also what `membership.join` raises.
        """
        settings = self.settings
        failpoint = _failpoint()
        self._obeyed = Obeyed(settings.policy)
        store = self._store = Store(settings.state, durability=settings.defaults.durability)
        if settings.node.system:
            settings.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        self.front.bind(mode=SYSTEM_SOCKET_MODE if settings.node.system else USER_SOCKET_MODE)
        await self._health.listen(settings.state / paths.HEALTH_SOCKET_NAME)
        self.front.open()
        self._listener = self._bind()
        try:
            start = await self._start_record(store, failpoint)
            bus = await self._open_bus(start.record.id)
            ports = self._begin(store, start, bus, failpoint)
        except (JournalFull, JournalBroken) as error:
            raise BadConfig(f"{error} Nothing was granted.") from None
        await self._admission.wait(self._stopped)
        await self._open()
        await ports.connections.listen(self._listener)
        self.start_kind = start.kind
        self.quarantine_end_ms = start.record.quarantine_end_ms
        self._state = "serving"
        self.log.info(
            "serving",
            node=settings.name,
            id=start.record.id,
            start=start.kind,
            incarnation=start.record.incarnation,
            socket=str(settings.socket),
            quarantine_ms=start.boot.quarantine_ms,
        )

    async def _start_record(self, store: Store, failpoint: Failpoint) -> boot.Start:
        """Decide which start this is, and keep that on the disk before anything else."""
        settings = self.settings
        earlier = store.boot_record()
        if earlier is None:
            await self._plausible_clock()
        else:
            store.check_turns(earlier, boot_id=self._boot_id)
        key = self.key = identity_of(settings.state, may_make=earlier is None)
        # Before a code is spent: this node could not serve then.
        others_served = self._take_locks()
        if self._code:
            await join(settings, key, self._code)
            self._joins = earlier is None
        self.seat = self._admission.seat = self._find_seat(key)
        waited_out = boot.waited_out(store.record(boot.WAITED_OUT_KEY))
        start = self._decide(key.id, earlier, others_served=others_served, waited_out=waited_out)
        failpoint.visit("boot-before-commit")
        if earlier is None:
            store.forget_all()
        store.save_boot(start.record)
        failpoint.visit("boot-after-commit")
        boot.use_up_new_mark(settings.state)
        boot.leave_run_mark(settings.name, settings.state, self._boot_id)
        return start

    async def _open_bus(self, node: str) -> BusEnd:
        """Before the machines begin: the first words of the directory should find the bus open."""
        bus = self._bus = BusEnd(node, self.seat.bus, self.log, self.seat.beacons)
        await bus.open()
        if self.seat.members or self.seat.beacons:
            await bus.reached(within_s=BUS_WITHIN_S)
        return bus

    def _begin(self, store: Store, start: boot.Start, bus: BusEnd, failpoint: Failpoint) -> NodePorts:
        """Bring the machines up from the journal; nobody can speak with them yet."""
        from holdall.node.assembly import build_host

        node = start.record.id
        process = this_process(
            self.seat.address or socket.gethostname(), (*self.seat.members, *self._admission.met)
        )
        if self._trace is not None:
            self._recorder = Recorder(
                self._trace, self.settings, node=node, process=process, version=version()
            )
        place = Surroundings(
            self.settings.socket, self.settings.node.run_as, self.settings.file, self.settings.state
        )
        if self.settings.node.run_from and (problem := user_problem(place)):
            self.log.warning("no command of another node can be started", why=problem)
        ports = self._ports = NodePorts(node, bus, self._admission.told, self.log, place)
        host = build_host(
            self.settings,
            node=node,
            epoch=start.record.epoch,
            incarnation=start.record.incarnation,
            process=process,
            policies=self._obeyed.policies(),
        )
        self._obeyed.name_of = names_of(host)
        account = Account(
            store,
            boot_id=self._boot_id,
            affiliation_of=affiliations(host, self.settings.node.location),
            use_of=uses(host),
        )
        loop = self._loop = Loop(
            host,
            store,
            ports,
            self.log,
            failed=self._fail,
            failpoint=failpoint,
            recorder=self._recorder,
            account=account,
        )
        ports.account = account
        ports.gate.rate_of = rates(host)
        ports.connections.fronts = self._fronts
        ports.put = ports.bus.put = loop.put
        self._location = LocationDriver(self.settings.node.location, loop, self.seat.leadership)
        ports.deposed = self._location.deposed
        self._reviewing = Reviewing(host, loop.put, lambda: self._obeyed.may_revoke)
        self._admission.begin(loop)
        loop.begin(start.boot, is_first=start.is_blank)
        self._keeping = Keeping(account, self.settings.node.account_days, self.log, self._fail)
        return ports

    async def _open(self) -> None:
        """The other nodes have nothing against this start: all parts may speak to them, commands may run."""
        if self._loop is not None and self._ports is not None:
            self._loop.put(LINK, Address(self._loop.host.node, NODE), AllParts())
            self._ports.open()
        if self._location is not None:
            await self._location.open()
        if self._reviewing is not None:
            self._reviewing.now(self.settings.policy.revoke_grace_ms)

    async def until_stopped(self) -> None:
        """Serve until `stop`. Raises NodeFailed when the node can't go on."""
        await self._stopped.wait()
        if self._failure:
            raise NodeFailed(self._failure)

    def stop(self, reason: str) -> None:
        """Tell a few other nodes, handle nothing any more and end. Leases and waiting claims stay for the next start.

        Closed connections tell the clients; they come back to the next start, or stop at their own deadlines.
        """
        if self._state == "draining" or self._stopped.is_set():
            return
        self._state = "draining"
        self.log.info("stopping", reason=reason)
        if self._loop is not None:
            self._loop.put(DIRECTORY, Address(self._loop.host.node, NODE), Leaving())
            self._loop.run_turn()
            self._loop.stop()
        self._stopped.set()

    def reload(self) -> None:
        """Read the configuration again. Pools and policies change, held units are not touched; a mistake changes nothing.

        Where there are policies, all of it happens a little later, when they have been tried.
        """
        path = self.settings.path
        if path is None or self._loop is None:
            self.log.warning("no configuration file to read again")
            return
        try:
            fresh = read_settings(path, state=self.settings.state)
            for pool in fresh.pools:
                if pool.reach == "host":
                    self._locks.take(pool.name)
        except BadConfig as error:
            self.log.warning("not reloaded", why=error.text)
            return
        if fresh.policy == PolicySettings() == self.settings.policy:
            self._reloaded(fresh)
        else:
            self._reloading = asyncio.get_running_loop().create_task(self._reload_policies(fresh))

    async def _reload_policies(self, fresh: Settings) -> None:
        divided = self._obeyed.divided
        try:
            more = await self._obeyed.reload(fresh.policy)
        except BadConfig as error:
            self.log.warning("not reloaded", why=error.text)
            return
        if more:
            self.log.warning(more)
        if self._obeyed.divided != divided and self._loop is not None and HOST in self._loop.host.parts:
            self._loop.put(HOST, Address(self._loop.host.node, NODE), self._obeyed.divide_among())
        self._reloaded(fresh)
        if self._reviewing is not None:
            self._reviewing.now(fresh.policy.revoke_grace_ms)

    def _reloaded(self, fresh: Settings) -> None:
        if self._loop is None:
            return
        if _fixed(fresh) != _fixed(self.settings):
            self.log.warning(
                "[node], [bus], [http], [defaults] and other capacities take effect at the next start; only pools, amounts, "
                "functions and policies were reloaded"
            )
        own = Address(self._loop.host.node, NODE)
        self._loop.put(AGENT, own, Reload(fresh.pool_specs()))
        template = offered_now(self.settings, fresh)
        if template is not None and HOST in self._loop.host.parts:
            self._loop.put(HOST, own, Offers(template))
        self.log.info("reloaded", pools=len(fresh.pools))

    async def close(self) -> None:
        """Give everything back. The journal is left whole and on the disk."""
        self._stopped.set()
        if self._reviewing is not None:
            self._reviewing.close()
        if self._keeping is not None:
            self._keeping.close()
        if self._loop is not None:
            self._loop.stop()
        if self._location is not None:
            await self._location.close()
        if self._bus is not None:
            await self._bus.close()
        if self._ports is not None:
            await self._ports.close()
        await self.front.close()
        await self._health.close()
        if self._listener is not None:
            self._listener.close()
            self._unlink()
        if self._recorder is not None:
            self._recorder.close()
        self._locks.close()
        if self._store is not None:
            if not self._failure:
                self._store.sync()
            self._store.close()

    def health(self) -> Mapping[str, object]:
        """What `/healthz` tells."""
        left = max(0, self.quarantine_end_ms - boottime_ms()) if self.quarantine_end_ms else 0
        state = "quarantine" if self._state == "serving" and left else self._state
        return {
            "ok": self._state == "serving",
            "node": self.settings.name,
            "id": "" if self.key is None else self.key.id,
            "state": state,
            "bus": {} if self._bus is None else {**self._bus.shown(), **self.seat.shown()},
            "quarantine_ms": left,
            "version": version(),
            "figures": self._figures(),
        }

    def _figures(self) -> Figures:
        found = Figures() if self._bus is None else self._bus.figures()
        if self._loop is not None:
            found.commits, found.turns, found.refused = (
                self._loop.commits,
                self._loop.turns,
                self._loop.refused,
            )
            side = self._loop.host.parts[MANAGER]
            found.overtakes = dict(side.overtakes()) if isinstance(side, Side) else {}
            candidate = self._loop.host.parts.get(LOCATION)
            found.location_waiting = candidate.waiting() if isinstance(candidate, Candidate) else {}
        return found

    def _find_seat(self, key: NodeKey) -> Seat:
        if self._given_seat is not None:
            return self._given_seat(key)
        return seat_of(self.settings, key, self.log, self._admission.wishes())

    def _bind(self) -> socket.socket:
        settings = self.settings
        if not settings.node.system:
            return bind(settings.socket, mode=USER_SOCKET_MODE)
        listener = bind(settings.socket, mode=SYSTEM_SOCKET_MODE)
        link = settings.state / paths.SOCKET_NAME
        with contextlib.suppress(FileNotFoundError):
            link.unlink()
        link.symlink_to(settings.socket)
        return listener

    def _unlink(self) -> None:
        with contextlib.suppress(OSError):
            self.settings.socket.unlink()

    def _decide(
        self, node: str, earlier: BootRecord | None, *, others_served: bool, waited_out: int
    ) -> boot.Start:
        settings = self.settings
        now = boottime_ms()
        return boot.decide(
            settings,
            earlier,
            node=node,
            boot_id=self._boot_id,
            is_new=self._new or (earlier is None and boot.is_marked_as_new(settings.state)),
            none_alive=boot.none_alive(
                settings.name, quarantine_ms=settings.defaults.quarantine_ms, boottime_ms=now
            ),
            boottime_ms=now,
            wall_ms=wall_ms(),
            others_served=others_served,
            joins=self._joins,
            waited_out=waited_out,
        )

    def _take_locks(self) -> bool:
        """Take the host-wide locks of our `host` pools; True when another node had one of them since the boot."""
        names = {pool.name for pool in self.settings.pools if pool.reach == "host"}
        others = [name for name in sorted(names) if self._locks.take(name)]
        if others:
            self.log.warning(
                "another node of this host gave units of these pools since the boot", pools=others
            )
        return bool(others)

    async def _plausible_clock(self) -> None:
        told = False
        while not boot.clock_is_plausible(wall_ms()):
            if not told:
                self.log.warning("the wall clock is years behind; waiting until it is set, as fences need it")
                told = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOCK_RETRY_S):
                    await self._stopped.wait()
            if self._stopped.is_set():
                raise BadConfig("stopped while waiting for the wall clock to be set.")

    def _fail(self, text: str) -> None:
        self._failure = text
        self._state = "failed"
        self.log.error("the node ends", why=text)
        self._stopped.set()


def _failpoint() -> Failpoint:
    try:
        return Failpoint(os.environ.get(ENV, ""))
    except ValueError as error:
        raise BadConfig(str(error)) from None


def _fixed(settings: Settings) -> tuple[object, ...]:
    """What only a start takes over; the state folder is the one in which the node runs, whatever the file says now."""
    node = settings.node
    return (
        (node.name, node.listen, node.location, node.run_from, node.run_as, node.account_days),
        settings.http,
        settings.bus,
        settings.defaults,
        shape(settings),
        settings.policy.limits,
    )
