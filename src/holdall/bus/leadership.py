"""Who of several candidates leads a location: the decisions of an election over a common table.

Leadership is only an optimisation: it spares hosts the questions of several managers. Two leaders at once, or none, harm
nothing: hosts alone give what is theirs, and obey the highest epoch that they have heard of. So all that an election
must keep is that epochs grow. Source: lease negotiation, section 10.4.

A leader's word is believed for as long as it changes, by each candidate's own clock. No clock of the table and no
time-to-live of its keys is trusted: a key whose time runs out on a server that was away, or whose update forgets the
time, would be one more thing to go wrong.
"""

from collections.abc import Callable
from typing import Annotated, TypeAlias

import msgspec

BEAT_MS = 1000
TAKEOVER_MS = 3000
"""A leader whose entry has not changed for so long is succeeded."""
EPOCH_SHIFT = 20
"""A first epoch is a time in seconds with room for so many bits of successors in each."""
EPOCH_MAX = 2**60
"""Nobody gets there; what says so is no leader's word."""


class Leading(msgspec.Struct, frozen=True):
    """Who leads, as one candidate knows it."""

    leader: str | None
    """Id of a candidate; None: nobody that is known."""
    epoch: int
    """Of its leadership; 0 where nobody is known."""


Told: TypeAlias = Callable[[str, int], None]
"""(id of the leader, its epoch), called on the event loop whenever either has changed."""


class Word(msgspec.Struct, frozen=True):
    """What a leader writes into the table. `beat` differs each time."""

    leader: str
    process: str
    """Of this leader; another one for each start, so that a candidate knows the words of its own earlier life."""
    epoch: Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
    beat: int = 0
    over: bool = False
    """It has stepped down: whoever reads this may follow at once."""


class Entry(msgspec.Struct, frozen=True):
    """What stands in the table. `word` None: something that no leader writes."""

    word: Word | None
    revision: int


class Write(msgspec.Struct, frozen=True):
    """To be written if the table still stands at `revision`; None: if there is no entry."""

    word: Word
    revision: int | None


class Election:
    """One candidate's view and its next step. Times are ms of one clock of this process."""

    def __init__(self, me: str, process: str, *, first_epoch: int, takeover_ms: int = TAKEOVER_MS) -> None:
        """`first_epoch`: where the table says nothing, e.g. because it was lost; above all earlier ones if possible."""
        self._me, self._process = me, process
        self._first_epoch = first_epoch
        self._takeover_ms = takeover_ms
        self._seen: Entry | None = None
        self._since_ms = 0
        self._known = 0
        """The highest epoch of which this candidate has heard."""
        self._beat = 0
        self.now = Leading(None, 0)

    @property
    def leads(self) -> bool:
        """Whether this candidate does, as far as it knows."""
        return self.now.leader == self._me

    def must_rise(self) -> bool:
        """Whether its own epoch is no good any more."""
        return self.leads and self._known > self.now.epoch

    def heard(self, epoch: int) -> None:
        """Somebody knows this epoch."""
        self._known = max(self._known, epoch)

    def step(self, entry: Entry | None, now_ms: int) -> Write | None:
        """After a look at the table: what to write, or None to go on looking."""
        if entry is None or entry.word is None:
            return self._after_nobody(entry, now_ms)
        word = entry.word
        self.heard(word.epoch)
        if word.process == self._process and not word.over:
            # Also where a write was made whose answer was lost.
            self._is_seen(entry, now_ms)
            self.now = Leading(self._me, word.epoch)
            epoch = self._known + 1 if self._known > word.epoch else word.epoch
            return self._write(epoch, entry.revision)
        if self._seen is None or self._seen.revision != entry.revision:
            self._is_seen(entry, now_ms)
        self.now = Leading(None if word.over else word.leader, 0 if word.over else word.epoch)
        is_over = word.over or word.leader == self._me
        if is_over or now_ms - self._since_ms >= self._takeover_ms:
            return self._write(self._known + 1, entry.revision)
        return None

    def wrote(self, written: Write, revision: int, now_ms: int) -> None:
        """The table took it. A refused write needs no call: the next look shows who was first."""
        word = written.word
        self._is_seen(Entry(word, revision), now_ms)
        self.heard(word.epoch)
        self.now = Leading(None, 0) if word.over else Leading(word.leader, word.epoch)

    def farewell(self) -> Write | None:
        """A leader's last word."""
        if not self.leads or self._seen is None:
            return None
        written = self._write(self.now.epoch, self._seen.revision)
        return msgspec.structs.replace(written, word=msgspec.structs.replace(written.word, over=True))

    def _after_nobody(self, entry: Entry | None, now_ms: int) -> Write | None:
        """No entry, or none that can be read. Who leads goes on with it; others wait a moment for a leader to say so."""
        if entry is None:
            was_lost = self._seen is not None and not self.leads
            if was_lost and now_ms - self._since_ms < self._takeover_ms:
                return None
        elif self._seen is None or self._seen.revision != entry.revision:
            self._is_seen(entry, now_ms)
        if entry is not None and not self.leads and now_ms - self._since_ms < self._takeover_ms:
            return None
        epoch = max(self._known + 1, self._first_epoch)
        return self._write(epoch, None if entry is None else entry.revision)

    def _is_seen(self, entry: Entry, now_ms: int) -> None:
        self._seen, self._since_ms = entry, now_ms

    def _write(self, epoch: int, revision: int | None) -> Write:
        self._beat += 1
        return Write(Word(self._me, self._process, epoch, self._beat), revision)


def first_epoch(unix_s: int) -> int:
    """For a table that says nothing, at this time by a wall clock: larger than all before, unless clocks went back."""
    return unix_s << EPOCH_SHIFT
