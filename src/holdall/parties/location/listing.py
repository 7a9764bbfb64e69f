"""The directory of locations for a client: who manages each of them, and with which templates."""

import msgspec

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.machine.contract import CancelTimer, Effect, SetTimer
from holdall.model import location_frames as f
from holdall.parties.location.answering import Answering, Wait
from holdall.parties.location.dealings import TIMER, Dealings

AGAIN_MS = 1000
"""After so long without an answer another node of the location is asked."""
LIST_MS = 3500
"""How long a listing waits for the managers."""


class _Listing(msgspec.Struct):
    """Locations that are being asked for their templates."""

    wait: Wait
    asker: Asker
    missing: set[str]
    rows: dict[str, f.LocationRow]


class Listings:
    """Those that are under way."""

    def __init__(self, dealings: Dealings, answering: Answering) -> None:
        self._dealings, self._answering = dealings, answering
        self._listings: dict[int, _Listing] = {}
        self._count = 0

    def is_known(self, location: str, wait: Wait, out: list[Effect]) -> bool:
        """Where it is not, the client is told which are."""
        if self._dealings.agent(location) is not None:
            return True
        known = ", ".join(self._dealings.locations()) or "none"
        named = f"location {location[:64]!r}" if location else "location by that lease"
        text = f"no node of a {named} is known (known: {known}). See: holdall location list"
        self._answering.deny(wait, "never", text, out)
        return False

    def begin(self, wait: Wait, asker: Asker, out: list[Effect]) -> None:
        """Ask each location that the node's directory knows."""
        known, name_of = self._dealings.locations(), self._answering.name_of
        rows = {
            name: f.LocationRow(name, tuple(sorted(name_of(node) for node in nodes)), "", ())
            for name, nodes in known.items()
        }
        self._count += 1
        self._listings[self._count] = _Listing(wait, asker, set(rows), rows)
        self._ask_for_listing(self._count, out)
        out.append(SetTimer(f"{TIMER}list/{self._count}", LIST_MS if rows else 0))

    def _ask_for_listing(self, number: int, out: list[Effect]) -> None:
        listing = self._listings.get(number)
        if listing is None:
            return
        for name in sorted(listing.missing):
            self._dealings.say(self._dealings.manager(name), listing.asker, m.GetTemplates(), out)
        out.append(SetTimer(f"{TIMER}relist/{number}", AGAIN_MS))

    def fired(self, kind: str, number: int, out: list[Effect]) -> None:
        """`relist`: ask others where nobody has answered. `list`: that was long enough."""
        if kind == "list":
            self._end_listing(number, out)
            return
        listing = self._listings.get(number)
        for name in sorted(listing.missing) if listing is not None else ():
            self._dealings.doubt(name)
        self._ask_for_listing(number, out)

    def gone(self, connection: str) -> None:
        """Nobody waits there any more."""
        self._listings = {n: one for n, one in self._listings.items() if one.wait[0] != connection}

    def heard(self, location: str, node: str, message: m.Templates, out: list[Effect]) -> None:
        """A manager has answered."""
        for number, listing in list(self._listings.items()):
            if location not in listing.missing:
                continue
            listing.missing.discard(location)
            listing.rows[location] = msgspec.structs.replace(
                listing.rows[location],
                manager=self._answering.name_of(node),
                templates=tuple(one.template for one in message.templates),
            )
            if not listing.missing:
                self._end_listing(number, out)

    def _end_listing(self, number: int, out: list[Effect]) -> None:
        listing = self._listings.pop(number, None)
        if listing is not None:
            out += [CancelTimer(f"{TIMER}{kind}/{number}") for kind in ("list", "relist")]
            self._answering.answer(listing.wait, f.Locations(tuple(listing.rows.values())), out)
