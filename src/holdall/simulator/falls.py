"""Faults strike hosts: which host a blow hits, how it falls or stands still, and how it goes on or comes up again."""

import random
from collections.abc import Callable

from holdall.machine.contract import Boot
from holdall.machine.host import Turn
from holdall.simulator.clients import Seats
from holdall.simulator.faults import Strike
from holdall.simulator.figures import Meter
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.sites import SETTLED_MS, Site, State
from holdall.simulator.systems import System


class FallDriver:
    """What a fall asks of the run; times in ms."""

    def __init__(
        self,
        now: Callable[[], float],
        begin: Callable[[str], None],
        rises: Callable[[Site, str, float], None],
        lose: Callable[[Site], None],
        note_crash: Callable[[Site], None],
        recovered: Callable[[Site, Turn, Boot], None],
    ) -> None:
        self.now = now
        self.begin = begin
        """A host of this name joins."""
        self.rises = rises
        """`Falls.rise` is called for the site and kind when this time has come."""
        self.lose = lose
        """Any part of the messages in flight to the host is lost."""
        self.note_crash = note_crash
        """The host is down: a step of the trace."""
        self.recovered = recovered
        """Carry out what the host's machines want after a boot."""


class Falls:
    """All falls of a run's hosts."""

    def __init__(
        self,
        setup: Setup,
        system: System,
        sites: dict[str, Site],
        seats: Seats,
        driver: FallDriver,
        *,
        meter: Meter,
        chance: random.Random,
    ) -> None:
        self._setup = setup
        self._system = system
        self._sites = sites
        self._seats = seats
        self._driver = driver
        self._meter = meter
        self._chance = chance
        self._owners = sorted(system.nodes())

    def strike(self, strike: Strike) -> None:
        """The blow's time has come; a host that is not up, or marked already, is not hit."""
        owners = [self._sites[name] for name in self._owners]
        claimants = [self._sites[seat.host] for seat in self._seats.seats]
        match strike.kind:
            case "crash" | "restart":
                # nodes with pools and claimants' hosts have the same chance, however many there are
                half = strike.victim * 2
                victims, place = (owners, half) if half < 1 else (claimants, half - 1)
            case "pause":
                victims, place = claimants, strike.victim
            case _:  # reboot, unsynced, wipe, stall
                victims, place = owners, strike.victim
        site = victims[int(place * len(victims))]
        if site.state is not State.UP or site.cut is not None:
            return
        self._meter.faults[strike.kind] += 1
        if strike.kind == "crash":
            site.cut = strike
        else:
            self.fall(site, strike)

    def fall(self, site: Site, strike: Strike) -> None:
        """The host stands still, or is down: timers are gone, and any part of the messages in flight to it."""
        now = self._driver.now()
        site.resume_at = now + strike.down * DELAY_MS
        self._seats.suspend(site.name)
        kind = strike.kind
        if kind in {"pause", "stall"}:
            kind = "pause"
            site.state = State.PAUSED
            site.resume_at = now + self._chance.random() * 2 * self._setup.ttl * DELAY_MS
        else:
            self._down(site)
            self._driver.lose(site)
        self._driver.rises(site, kind, site.resume_at)

    def rise(self, site: Site, kind: str) -> None:
        """The host goes on, comes up again, or has fallen silent for ever."""
        match kind:
            case "departure":
                self._depart(site)
            case "pause":
                # what is due has a later place in the heap at this same time; then the client goes on
                site.state = State.UP
                site.settling = True
                self._driver.rises(site, "settled", self._driver.now() + SETTLED_MS / 2)
            case "settled":
                site.settling = False
                claim = self._seats.suspended(site.name)
                if claim is not None and self._system.may_go_on(site.host, claim):
                    self._seats.resume(site.name)
            case _:
                self._recover(site, kind)

    def _recover(self, site: Site, kind: str) -> None:
        boot = site.boot(kind, now=self._driver.now(), ttl_ms=self._setup.ttl_ms, chance=self._chance)
        site.host = self._system.host(site.name)
        self._system.restarted(site.name)
        self._driver.recovered(site, site.host.recover(dict(site.records), boot), boot)

    def _depart(self, site: Site) -> None:
        seat = self._seats.by_host.get(site.name)
        if seat is None or site.state is not State.UP:
            return
        self._down(site)
        del self._sites[site.name]
        self._driver.begin(self._seats.replace(seat))

    def _down(self, site: Site) -> None:
        site.state = State.DOWN
        site.timers.clear()
        self._driver.note_crash(site)
