"""Pools where lanes lend: what a waiting claim was granted elsewhere serves others who can go in at once.

A lane that is lent keeps its place: whoever is behind it is granted nothing in order, but its units may be set aside for
those that need no more than that to go in. Source: the history of the lanes specification, section 3.7 (`defer`,
`resume`, `hint`, `try`, `untry`), in the forms of the lanes specification.
"""

import msgspec

from holdall.protocols.hooks import Effects
from holdall.protocols.lanes.manager import Manager
from holdall.protocols.lanes.messages import LaneEntry, Standing, Status, Wish


class LendingManager(Manager):
    """All pools of one node."""

    def wished(self, entry: LaneEntry, final: Standing, out: Effects) -> LaneEntry:
        """Follow a wish that is newer than the last one."""
        if final.turn <= entry.turn:
            return entry
        entry = msgspec.structs.replace(entry, turn=final.turn)
        match final.wish:
            case Wish.KEEP if entry.status in {Status.LENT, Status.TRIED}:
                return self.become(entry, Status.QUEUED, out)
            case Wish.LEND if entry.status is not Status.LENT:
                return self.become(msgspec.structs.replace(entry, hint=False), Status.LENT, out)
            case Wish.TRY if not entry.held and self.passes(entry):
                return self.become(msgspec.structs.replace(entry, hint=True), Status.TRIED, out)
            case Wish.TRY if not entry.held:
                return self.become(msgspec.structs.replace(entry, hint=False), entry.status, out)
            case _:
                return self.become(entry, entry.status, out)

    def settle(self, pool: str, out: Effects) -> None:
        """Grant in order; then tell those who could be served if lanes that are lent were passed."""
        super().settle(pool, out)
        if not self.book.may_grant():
            return
        before, free = 0, self.free(pool)
        hinted: list[LaneEntry] = []
        for key in self.lines.get(pool, ()):
            if before >= free:
                break
            entry = self.entries[key]
            wanted = self.wanted(entry)
            in_line = entry.status in {Status.QUEUED, Status.LENT}
            if in_line and not entry.hint and before + wanted <= free:
                hinted.append(entry)
            if entry.status is not Status.LENT:
                before += wanted
        for entry in hinted:
            self.tell_held(self.become(msgspec.structs.replace(entry, hint=True), entry.status, out), out)

    def passes(self, entry: LaneEntry) -> bool:
        """Whether its units are free when all before it that do not lend have theirs kept."""
        if not self.book.may_grant():
            return False
        left = self.free(entry.pool) - self.wanted(entry)
        for key in self.lines.get(entry.pool, ()):
            other = self.entries[key]
            if left < 0 or (other.claim, other.place) == (entry.claim, entry.place):
                break
            if other.status is not Status.LENT:
                left -= self.wanted(other)
        return left >= 0
