"""One run: nodes on their hosts, clients on all of them, faults; then the faults stop and everything must drain."""

import contextlib
import time
from pathlib import Path

from chaos.books import Books, audit, own_rows
from chaos.crowd import Crowd, Manners, Place, commands_left
from chaos.faults import Faults
from chaos.hosts import Host, make_hosts, start_together
from chaos.network import Network
from chaos.plan import RUN_TTL_S, TTL_MAX_S, TTL_S, Outcome, Plan
from chaos.processes import is_alive
from chaos.reclaim import leases_of, measure
from node.lab import Client
from node.waiting import until
from system.guarded_units import GuardedUnits

import holdall
from holdall.client.history import HistoryWriter, UnitNames
from holdall.model import frames
from holdall.model.errors import HoldallError

ENDLESS = 1_000_000
BACK_AFTER_CLIENT_HOST = 1.5
BACK_AFTER_POOL_HOST = 2.5
"""In parts of the ttl: when units must be back at the latest."""


class Storm:
    """In one folder (with a short name: there are sockets in it)."""

    def __init__(self, plan: Plan, folder: Path, network: Network | None) -> None:
        self.plan = plan
        self.network = network
        self.histories = folder / "histories"
        self.histories.mkdir()
        self.history = HistoryWriter(self.histories / "driver.jsonl", "driver")
        self.hosts = make_hosts(
            folder,
            plan.pools,
            network,
            ttl=f"{TTL_S:g}s",
            ttl_max=f"{TTL_MAX_S:g}s",
            protocol=plan.protocol,
        )
        manners = Manners(TTL_S, RUN_TTL_S, plan.hold_ms, plan.sizes(), two_pools=plan.two_pools)
        self.crowd = Crowd(self._places(), manners, folder, self.history, plan.seed)
        self.faults = Faults(plan, self.hosts, self.crowd, network, self.history)
        self.books = [Books(host, plan.shared(), self.history) for host in self.hosts]
        self.units = GuardedUnits(self.crowd.guard, self.histories / "units.jsonl")
        self.outcome = Outcome(counts=self.faults.counts, of_host=self.crowd.of_host)

    def _places(self) -> list[Place]:
        plan = self.plan
        workers = plan.processes - plan.commands
        of_workers = 0 if plan.claims is None else plan.claims - plan.commands * plan.claims_of_command
        made: list[Place] = []
        for number in range(plan.processes):
            is_command = number < plan.commands
            left = ENDLESS
            if plan.claims is not None:
                share, rest = divmod(of_workers, workers)
                left = plan.claims_of_command if is_command else share + (number - plan.commands < rest)
            made.append(Place(number, self.hosts[number % len(self.hosts)], is_command, left))
        return made

    def run(self) -> Outcome:
        self.history.meta({pool: UnitNames(units) for pool, units in self.plan.units().items()})
        self.units.start()
        try:
            start_together(self.hosts)
            until(self._all_known, "every node knows every pool")
            for books in self.books:
                books.start()
            self._disturb()
            self._settle()
            for books in self.books:
                books.stop()
            self._stop_nodes()
        finally:
            self.crowd.close()
            for host in self.hosts:
                host.close()
            self.units.stop()
            self.history.close()
        return self._judged()

    def _all_known(self) -> bool:
        return all(
            sum(row.total for row in rows_of(host)) == sum(self.plan.sizes().values()) for host in self.hosts
        )

    # ------------------------------------------------------------ while it lasts

    def _disturb(self) -> None:
        begun = time.monotonic()
        while not self._done(begun):
            for place in self.crowd.places:
                self.crowd.take_note(place)
                if place.process is None and place.left > 0 and place.host.number not in self.faults.down:
                    self.crowd.begin(place)
            self.faults.keep()
            time.sleep(0.02)

    def _done(self, begun: float) -> bool:
        plan, lasted = self.plan, time.monotonic() - begun
        self.outcome.lasted_s = lasted
        if lasted > plan.seconds_most:
            self.outcome.problems.append(f"not done within {plan.seconds_most:g} s")
            return True
        if plan.claims is not None:
            return not any(place.left > 0 or place.process is not None for place in self.crowd.places)
        floors, counted = plan.floors, self.outcome
        return (
            lasted > plan.seconds
            and counted.kills >= floors.kills
            and counted.pauses >= floors.pauses
            and counted.cuts >= floors.cuts
            and self.crowd.grants() >= floors.grants
        )

    # ------------------------------------------------------------ afterwards

    def _settle(self) -> None:
        """No fault any more: whoever has claimed is served, and then every unit is free, whichever node is asked."""
        self.faults.end()
        begun = time.monotonic()
        self.crowd.ask_to_end()
        if not self.crowd.ended_within(self.plan.ended_within_s):
            waiting = [place.name for place in self.crowd.busy()]
            self.outcome.problems.append(f"still not served or not ended: {waiting}; {self._queues()}")
        end = begun + self.plan.ended_within_s
        left = self._left()
        while left and time.monotonic() < end:
            time.sleep(0.1)
            left = self._left()
        self.outcome.drained_s = time.monotonic() - begun
        if left:
            self.outcome.problems.append("not free at the end: " + "; ".join(left))
        else:
            self._last_audit()
        self.history.end()

    def _left(self) -> list[str]:
        """What any node still shows as taken, held or waiting, or does not show at all."""
        found: list[str] = []
        for host in self.hosts:
            try:
                with holdall.sync.connect(host.url, agent="driver") as hub:
                    rows, leases, waits = hub.pools(), hub.who(), hub.queue()
            except HoldallError as problem:
                found.append(f"{host.name} does not answer: {problem}")
                continue
            total: dict[str, int] = {}
            for row in rows:
                total[row.pool] = total.get(row.pool, 0) + row.free
            if total != self.plan.sizes():
                found.append(f"{host.name} shows as free: {total}")
            found += [f"{host.name} shows a lease {lease}" for lease in leases]
            found += [f"{host.name} shows a claim that waits {wait}" for wait in waits]
        return found

    def _queues(self) -> str:
        said: list[str] = []
        for host in self.hosts:
            with contextlib.suppress(HoldallError), holdall.sync.connect(host.url, agent="driver") as hub:
                said += [f"{host.name}: {wait}" for wait in hub.queue()]
                said += [f"{host.name}: {lease}" for lease in hub.who()]
        return "; ".join(said)

    def _last_audit(self) -> None:
        call = self.history.now()
        rows: dict[str, list[frames.PoolRow]] = {}
        for host in self.hosts:
            with Client(host.socket, agent="driver") as client:
                for row in own_rows(client):
                    rows.setdefault(row.pool, []).append(row)
        for of_pool in rows.values():
            audit(self.history, of_pool, call, self.history.now(), quiesced=True)

    def _stop_nodes(self) -> None:
        servers = [pid for host in self.hosts if (pid := host.server_pid()) is not None]
        for host in self.hosts:
            status = None if host.process is None else host.stop()
            if status != 0:
                self.outcome.problems.append(f"{host.name} ended with {status}: {host.said()[-2000:]}")
        still = [f"nats-server {pid}" for pid in servers if is_alive(pid)]
        if self.network is not None:
            for host in self.hosts:
                still += commands_left(host, self.network.processes(host.number))
        if still:
            self.outcome.problems.append(f"still running at the end: {still}")

    def _judged(self) -> Outcome:
        outcome, faults = self.outcome, self.faults
        outcome.problems += faults.problems + self.crowd.problems
        outcome.histories = sorted(self.histories.iterdir())
        outcome.readings = sum(books.readings for books in self.books)
        entries = {unit: found for books in self.books for unit, found in books.entries.items()}
        outcome.reclaims = measure(
            leases_of(outcome.histories, self.crowd.of_host),
            entries,
            faults.deaths,
            faults.troubles,
            most_client=BACK_AFTER_CLIENT_HOST,
            most_pool=BACK_AFTER_POOL_HOST,
        )
        outcome.problems += outcome.reclaims.late
        return outcome


def rows_of(host: Host) -> tuple[frames.PoolRow, ...]:
    """The pools that a node shows."""
    with Client(host.socket, agent="driver") as client:
        return client.listing("pools").pools
