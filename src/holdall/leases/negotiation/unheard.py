"""Strict limits: a manager that has begun grants nothing new before it knows what each host of its location has given.

What a host that can't be heard has given counts in a limit of the location, too. Without strict limits a manager goes on
with what was reported (`settling` beside this), and a limit may be exceeded for as long as the longest lease lasts. With
them it waits for these hosts, for as long as that and no longer: then what they gave is over. A host that has been silent
for so long, or that an operator has removed, is not waited for. Leases and their renewals go on meanwhile.
Source: lease negotiation, section 10.4.
"""

from collections.abc import Hashable, Mapping
from typing import Protocol

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.members import GONE_BEATS
from holdall.machine.contract import SetTimer
from holdall.model.durations import show_duration
from holdall.protocols.hooks import Effects

UNHEARD_TIMER = "unheard"
LIMITS_UNSURE = "limits_unsure"
NAMED_MOST = 5


class Expected(Protocol):
    """Which hosts the location has, whether or not they are heard; read within a turn."""

    def silent_ms(self) -> Mapping[str, int]:
        """Host -> for how long nothing has been heard of it."""
        ...

    def name_of(self, host: str) -> str:
        """What people call it."""
        ...


class NobodyExpected:
    """Where no directory tells of hosts: those that report themselves are all there are."""

    def silent_ms(self) -> Mapping[str, int]:
        """None."""
        return {}

    def name_of(self, host: str) -> str:
        """As `Expected.name_of`."""
        return host


class Unheard:
    """Of one manager. `longest_ms`: how long the longest lease may live; None: limits are not strict."""

    def __init__(self, longest_ms: int | None, expected: Expected) -> None:
        self._longest_ms, self._expected = longest_ms, expected
        self._is_young = False
        """It has led for less than that."""
        self._reported: set[str] = set()

    def begins(self, out: Effects) -> None:
        """The manager leads from now on."""
        self._reported.clear()
        self._is_young = self._longest_ms is not None
        if self._longest_ms is not None:
            out.append(SetTimer(UNHEARD_TIMER, self._longest_ms))

    def reported(self, host: str) -> None:
        """What it has given is known."""
        self._reported.add(host)

    def is_over(self) -> None:
        """What anybody had given before the manager began has ended."""
        self._is_young = False

    def hosts(self) -> tuple[str, ...]:
        """Those that are waited for, ascending."""
        if not self._is_young or self._longest_ms is None:
            return ()
        return tuple(
            host
            for host, silent_ms in sorted(self._expected.silent_ms().items())
            if host not in self._reported and silent_ms < self._longest_ms
        )

    def declined(self, request: str, heartbeat_ms: int) -> m.Declined | None:
        """The answer to a request for something new; None: nobody is waited for."""
        hosts = self.hosts()
        if not hosts:
            return None
        names = [self._expected.name_of(host) for host in hosts]
        named = ", ".join(names[:NAMED_MOST])
        if len(names) > NAMED_MOST:
            named += f" and {len(names) - NAMED_MOST} more"
        text = (
            "limits of the location are strict, and its manager has begun anew: it waits for what "
            f"{named} may have given, until that is heard again, or for about {show_duration(self._longest_ms or 0)} since "
            f"it began. Leases go on. If it is gone for good: holdall forget {names[0]}"
        )
        return m.Declined(request, LIMITS_UNSURE, text=text, retry_after_ms=GONE_BEATS * heartbeat_ms)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return self._is_young, tuple(sorted(self._reported))

    def copy(self) -> "Unheard":
        """An independent twin, which reads the same directory."""
        twin = Unheard(self._longest_ms, self._expected)
        twin._is_young, twin._reported = self._is_young, set(self._reported)
        return twin
