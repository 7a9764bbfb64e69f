"""Anti-entropy: each round one other node is told what this one knows, and the two make up the difference.

So what one node says reaches all within a few rounds, each round costs a system of n nodes n exchanges whatever
is claimed in it, and lost messages are made good by the next exchange.
"""

from collections.abc import Iterable, Sequence

import msgspec

from holdall.machine.contract import SetTimer
from holdall.parties.directory.messages import Difference, Page, Row, Summary, Tell, Tombstones
from holdall.parties.directory.state import DirectoryState

ROUND_TIMER = "round"
TELL_BYTES = 24 * 1024
"""About so much is in one Tell: with the longest line on top it still fits into a frame."""
PAGE_BYTES = 80
"""What a page takes apart from its header and its lines, at most."""

_encode = msgspec.msgpack.Encoder().encode


class Gossip:
    """The rounds and exchanges of one directory."""

    def __init__(self, state: DirectoryState) -> None:
        self._state = state

    # ------------------------------------------------------------ rounds

    def arm(self) -> None:
        """Rounds pass while somebody else is known."""
        state = self._state
        if not state.round_armed and not state.is_mute:
            state.round_armed = True
            state.out.append(SetTimer(ROUND_TIMER, state.settings.round_ms, state.settings.spread_ms))

    def round(self) -> None:
        """One round: read what is new here, see who has fallen silent, begin one exchange."""
        state = self._state
        state.round_armed = False
        state.known.round += 1
        self.begin_if_due()
        if state.own.refresh(state.ms_of(state.round)):
            self.announce(state.own.log.have)
        state.known.look_for_silence()
        peer = state.next_peer()
        if peer is not None:
            self.open(peer)

    def begin_if_due(self) -> None:
        """Say all of this node, once it serves."""
        state = self._state
        if state.phase == "serving" and state.own.header is None:
            state.own.begin(state.ms_of(state.round))

    def announce(self, after: int) -> None:
        """Tell a few at once what this node says of itself, and the first of its pools after a line of its log."""
        page, _ = self._page(self._state.settings.node, after=after, room=TELL_BYTES)
        for peer in self._state.a_few():
            self._state.tell(peer, Tell((page,)))

    # ------------------------------------------------------------ exchanges

    def open(self, peer: str) -> None:
        """Ask for what is new there, and offer what is new here."""
        state = self._state
        state.tell(peer, Summary(tuple(state.rows()), state.forgotten_digest))

    def summary(self, peer: str, message: Summary) -> None:
        """Answer with what the peer lacks, and ask for what is lacking here."""
        state = self._state
        self.begin_if_due()
        self._rebut(message.rows)
        behind: list[Row] = []
        newer: list[Row] = []
        wanted: list[Row] = []
        for row in message.rows:
            mine = state.row_of(row.node)
            if row.node in state.tombstones or (mine is None and row.node == state.settings.node):
                continue
            mine = mine or Row(row.node)
            if row.beat > mine.beat:
                self._take_beat(row)
            if lacks(row, mine):
                behind.append(row)
            elif lacks(mine, row):
                wanted.append(mine)
            elif mine.beat > row.beat:
                newer.append(mine)
        told = {row.node for row in message.rows}
        behind += [Row(mine.node) for mine in state.rows() if mine.node not in told and mine.node != peer]
        self._tell(peer, behind)
        state.tell(peer, Difference(tuple(newer), tuple(wanted)))
        if message.forgotten != state.forgotten_digest:
            self.tell_forgotten(peer, whole=True)

    def difference(self, peer: str, message: Difference) -> None:
        """The peer is ahead in some beats, and wants more of some nodes."""
        self.begin_if_due()
        self._rebut(message.newer)
        for row in message.newer:
            self._take_beat(row)
        self._tell(peer, message.wanted)

    def told(self, peer: str, message: Tell) -> None:
        """Pages of nodes; who has more of one that was long is asked to go on."""
        state = self._state
        going_on: list[Row] = []
        for page in message.pages:
            header = page.header
            if header.node == state.settings.node:
                self._rebut(
                    [Row(header.node, header.rebuttal, header.incarnation, page.beat, header.said, page.upto)]
                )
                continue
            known = state.meet(header.member)
            if known is None:
                continue
            moved = state.known.take_page(known, page, state.rounds_in(page.quiet_ms), state.out)
            if header.node == peer:
                known.note_spoken(header.incarnation, header.instance)
            if moved and page.more:
                going_on.append(known.row())
        if going_on:
            state.tell(peer, Difference(wanted=tuple(going_on)))

    def tell_forgotten(self, peer: str, *, whole: bool) -> None:
        """Who was forgotten, as far as it is known here."""
        stones = self._state.tombstones
        self._state.tell(peer, Tombstones(tuple(stones[node] for node in sorted(stones)), whole=whole))

    # ------------------------------------------------------------ inside

    def _take_beat(self, row: Row) -> None:
        known = self._state.known.by_id.get(row.node)
        if known is not None and known.life == row.life:
            self._state.known.take_beat(known, row.beat)

    def _rebut(self, rows: Sequence[Row]) -> None:
        """Others tell more of this node than it has said: from an earlier start, by mistake or malice, or of a copy."""
        state = self._state
        for row in rows:
            if row.node == state.settings.node and state.own.is_foretold(row):
                if state.own.header is not None and state.rebutted_in == state.round:
                    # Whoever goes on telling it is contradicted in the next round: each time costs a whole new log.
                    return
                if state.rebutted_in < 0 and state.phase == "serving":
                    state.warn("others have been told of this node what it has not said; it has contradicted")
                state.rebutted_in = state.round
                state.own.rebut(row, state.ms_of(state.round))
                state.show_presence()

    def _tell(self, peer: str, behind: Iterable[Row]) -> None:
        """Pages of these nodes from where the peer's knowledge ends, in a bounded number of messages."""
        state = self._state
        pages: list[Page] = []
        room, messages = TELL_BYTES, 0
        for row in behind:
            mine = state.row_of(row.node)
            if mine is None or not lacks(row, mine):
                continue
            after, more = (row.have if row.life == mine.life else 0), True
            while more and messages < state.settings.tells_max:
                page, used = self._page(row.node, after=min(after, mine.have), room=room)
                after, more, room = page.upto, page.more, room - used
                is_last = messages + 1 == state.settings.tells_max
                pages.append(msgspec.structs.replace(page, more=more and is_last))
                if more or room <= 0:
                    state.tell(peer, Tell(tuple(pages)))
                    pages, room, messages = [], TELL_BYTES, messages + 1
        if pages:
            state.tell(peer, Tell(tuple(pages)))

    def _page(self, node: str, *, after: int, room: int) -> tuple[Page, int]:
        """What is known here of a node that is known, and about how many bytes that takes."""
        state = self._state
        if node == state.settings.node:
            header, log, beat, quiet_ms = state.own.header, state.own.log, state.own.beat, 0
        else:
            known = state.known.by_id[node]
            header, log, beat, quiet_ms = known.header, known.log, known.beat, state.quiet_ms(known)
        if header is None:
            raise ValueError(f"nothing is told of {node}")
        upto, lines, more, used = log.page(after, room)
        return Page(header, beat, after, upto, lines, more, quiet_ms), used + len(
            _encode(header)
        ) + PAGE_BYTES


def lacks(row: Row, mine: Row) -> bool:
    """Whether who knows `row` of a node can learn from who knows `mine`, its beat apart."""
    if row.incarnation != mine.incarnation or row.rebuttal != mine.rebuttal:
        return mine.life > row.life
    return mine.said > row.said or mine.have > row.have
