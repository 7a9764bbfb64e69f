"""What `holdall run` says on stderr: waiting (live on a terminal), granted, stopped; or JSON lines of the same."""

import contextlib
import os
import sys
import time
from collections.abc import Mapping

import msgspec

from holdall.cli.tables import clock_time, granted_units, plain
from holdall.cli.why import blocker_text, place_text
from holdall.guardian.enforcement.figures import Figures
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.names import short_id
from holdall.model.terms import LeaseDocument
from holdall.model.why import NeedWhy, Why

PLAIN_EVERY_SECONDS = 30.0
"""How often a log gets a line about a claim that waits on and on."""


class RunLines:
    """One run's words to its user."""

    def __init__(self, *, as_json: bool) -> None:
        self._json = as_json
        self._live = sys.stderr.isatty() and not as_json
        self._shown = 0
        """Rows on the terminal that the next lines replace."""
        self._said_at = 0.0
        self._said: Why | None = None
        self._why: Why | None = None

    def note(self, text: str) -> None:
        """One line about this run itself."""
        if self._json:
            self._event("note", text=text)
        else:
            self._clear()
            self._write(f"holdall: {text}\n")

    def used(self, figures: Figures) -> None:
        """What the command has used; people are not told, unless they ask the lease's file."""
        if self._json:
            known = {name: value for name, value in msgspec.structs.asdict(figures).items() if value >= 0}
            self._event("used", **known)

    def queued(self, why: Why) -> None:
        """The claim waits, or why it waits has changed."""
        if self._json:
            self._event("queued", why=why)
            return
        self._why = why
        self.waits_on()

    def waits_on(self) -> None:
        """Time has gone by: a log gets what has changed, at most twice a minute, and who is in the way at once."""
        if self._why is not None:
            self._say(self._why)

    def granted(
        self, granted: frames.LeaseView, *, waited_seconds: float, for_left_ms: int | None, view: bool
    ) -> None:
        """The lease, its units and fences, and how long it lasts."""
        if self._json:
            self._event("granted", lease=granted, waited_ms=round(waited_seconds * 1000), view=view)
            return
        self._clear()
        waited = f"after {waited_seconds:.0f} s, " if waited_seconds >= 1 else ""
        last = "" if for_left_ms is None else f", at most {show_duration(_whole_seconds(for_left_ms))}"
        ttl = "part of the lease you hold" if view else f"ttl {show_duration(granted.ttl_ms)} renewing"
        self._write(
            f"granted   lease {short_id(granted.lease)}  {granted_units(granted)}   {waited}{ttl}{last}\n"
        )

    def leased(self, lease: LeaseDocument, terms: str) -> None:
        """A negotiated lease has begun."""
        if self._json:
            self._event("granted", lease=lease)
            return
        host, duration = plain(lease.host), show_duration(lease.duration)
        self._write(f"granted   lease {plain(lease.lease)}  {terms} on {host}   for {duration}, renewing\n")

    def ended(self, event: str, text: str) -> None:
        """The end, where there is something to say about it."""
        if self._json:
            self._event(event, text=text)
        else:
            self._clear()
            self._write(f"holdall: {text}\n")

    def close(self) -> None:
        """Nothing more waits."""
        self._clear()

    def _say(self, why: Why) -> None:
        if self._said == why:
            return
        now = time.monotonic()
        lines = waiting_lines(why)
        if self._live:
            self._clear()
            self._write("".join(line + "\n" for line in lines))
            self._shown = rows_of(lines, _columns())
        elif self._said is None or now - self._said_at >= PLAIN_EVERY_SECONDS:
            if self._said is None or lines != waiting_lines(self._said):
                self._write("".join(line + "\n" for line in lines))
                self._said_at = now
        elif _names_more(why, self._said):
            self._write(lines[-1] + "\n")
        else:
            return
        self._said = why

    def _clear(self) -> None:
        if self._shown:
            self._write(f"\x1b[{self._shown}A\x1b[J")
            self._shown = 0

    def _event(self, event: str, **fields: object) -> None:
        document: Mapping[str, object] = {"v": 1, "event": event, **fields}
        self._write(msgspec.json.encode(document).decode() + "\n")

    @staticmethod
    def _write(text: str) -> None:
        # Nobody reads any more: no reason to end a command that holds what it needs.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def rows_of(lines: tuple[str, ...], columns: int) -> int:
    """How many rows of a terminal these lines fill; a line that is too long goes on in the next row."""
    from rich.cells import cell_len

    return sum(max(1, -(-cell_len(line) // columns)) for line in lines)


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def waiting_lines(why: Why) -> tuple[str, ...]:
    """`waiting   board:1 ok (2 of 5 free) · psu:1 busy 3/3` and who blocks."""
    needs = " · ".join(_need(need) for need in why.needs)
    parts = [place_text(why)]
    if why.blockers:
        more = len(why.blockers) - 1 + why.blockers_more
        parts.append(f"blocked by {blocker_text(why.blockers[0])}" + (f" and {more} more" if more else ""))
    if any(need.state == "unusable" for need in why.needs):
        parts.append("units are out of service, see: holdall pools")
    if why.note:
        parts.append(plain(why.note))
    lines = (f"waiting   {needs}", f"          {' · '.join(parts)}")
    return tuple(line.rstrip() for line in lines)


def _names_more(why: Why, before: Why) -> bool:
    """Whether it is now known what people call a claim of another node that is in the way."""
    unnamed = [sum(1 for blocker in one.blockers if blocker.party) for one in (why, before)]
    return unnamed[0] < unnamed[1]


def _need(need: NeedWhy) -> str:
    if need.state == "busy":
        return f"{plain(need.spec)} busy {need.total - need.free}/{need.total}"
    return f"{plain(need.spec)} {plain(need.state)} ({need.free} of {need.total} free)"


def lost_text(lease: frames.LeaseView, why: str, *, stopped_at_ms: int | None) -> str:
    """The sentence for a lost lease: why, when the command was stopped, which fences are void."""
    stopped = "" if stopped_at_ms is None else f" The command was stopped at {clock_time(stopped_at_ms)}."
    if why.startswith("lease "):
        return f"{plain(why)}{stopped}"  # a node tells the whole sentence
    fences = ", ".join(str(unit.fence) for unit in lease.units[:8])
    void = (
        f" Fence {fences} is void."
        if len(lease.units) == 1
        else f" Fences {fences} are void."
        if fences
        else ""
    )
    return f"lease {short_id(lease.lease)} lost: {plain(why).rstrip('.')}.{stopped}{void}"


def _whole_seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1000) * 1000
