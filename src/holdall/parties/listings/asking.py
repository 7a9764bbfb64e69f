"""An agent asks other agents and puts together what comes in bounded time: what can't be asked is named, never waited for.

Nobody is asked, and no timer is set, when there are no other nodes: then the answer goes out in the turn of the
question. An answer that comes after its time changes nothing any more.
"""

from collections.abc import Mapping

import msgspec

from holdall.leases.messages import AGENT
from holdall.machine.contract import Address, Send
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.parties.listings.inquiries import PER_PEER_MAX, Inquiry, Pieces
from holdall.parties.listings.questions import PIECE_BYTES_MAX, PeerAnswer, PeerAsk, PeerMore, Question
from holdall.parties.listings.rows import Rows
from holdall.parties.neighbours import Neighbour
from holdall.parties.state import State

ASKED_TIMER = "asked/"
ANSWER_MS = 2000
"""How long a round waits for its answers; counted anew while pieces come, `PATIENCE` times in all rounds together."""


class Asking:
    """Rounds of questions."""

    def __init__(self, state: State, rows: Rows) -> None:
        self._state = state
        self._rows = rows
        self._encoder = msgspec.msgpack.Encoder()

    def put(self, inquiry: Inquiry, questions: Mapping[str, Question]) -> bool:
        """Ask these nodes, in a round of its own. False: there is no other that can be asked, so go on."""
        book, own = self._state.inquiries, self._state.settings.node
        inquiry.waiting = {}
        if own in questions:
            inquiry.rows.setdefault(own, []).extend(self._rows.answer(questions[own]))
        others = sorted(set(questions) - {own})
        able = [peer for peer in others if self._may_ask(inquiry, peer, questions[peer])]
        if not able:
            return False
        book.last_number += 1
        inquiry.number = book.last_number
        for peer in able:
            inquiry.waiting[peer] = Pieces()
            ask = PeerAsk(inquiry.number, self._state.incarnation, questions[peer])
            self._state.out.append(Send(Address(peer, AGENT), ask))
        book.open[inquiry.number] = inquiry
        inquiry.moved = False
        inquiry.naming = all(questions[peer].what == "claims" for peer in able)
        self._state.set_timer(f"{ASKED_TIMER}{inquiry.number}", ANSWER_MS)
        return True

    def heard(self, peer: str, answer: PeerAnswer) -> Inquiry | None:
        """The inquiry whose round is over by this piece; None: nothing is, or it is of no round that is under way."""
        inquiry = self._state.inquiries.open.get(answer.n)
        if inquiry is None or answer.incarnation != self._state.incarnation:
            return None
        pieces = inquiry.waiting.get(peer)
        if pieces is None:
            return None
        if answer.refused:
            self._answered(inquiry, peer, f"refused: {answer.refused}")
        else:
            rows = tuple(row for row in answer.rows if len(self._encoder.encode(row)) <= PIECE_BYTES_MAX)
            if not pieces.add(answer.piece, rows, last=answer.last):
                return None
            if pieces.whole:
                self._answered(inquiry, peer, "")
            else:
                inquiry.moved = True
            if not answer.last:
                more = PeerMore(answer.n, answer.incarnation)
                self._state.out.append(Send(Address(peer, AGENT), more))
        return None if inquiry.waiting else self._over(inquiry)

    def fired(self, number: int) -> Inquiry | None:
        """The time of a round is over, unless pieces are still coming."""
        inquiry = self._state.inquiries.open.get(number)
        if inquiry is None:
            return None
        if inquiry.moved and inquiry.patience:
            inquiry.moved = False
            inquiry.patience -= 1
            self._state.set_timer(f"{ASKED_TIMER}{number}", ANSWER_MS)
            return None
        for peer, pieces in tuple(inquiry.waiting.items()):
            late = "only a part of its answer came" if pieces.begun else "no answer"
            self._answered(inquiry, peer, f"{late} within {show_duration(ANSWER_MS)}")
        return self._over(inquiry)

    def not_asked(self, inquiry: Inquiry) -> tuple[frames.NotAsked, ...]:
        """Who has no part in the answer, by name."""
        named = (frames.NotAsked(self._state.name_of(peer), why) for peer, why in inquiry.not_asked.items())
        return tuple(sorted(named))

    # ------------------------------------------------------------ inside

    def _may_ask(self, inquiry: Inquiry, peer: str, question: Question) -> bool:
        known = self._state.neighbours.node(peer)
        reason = why_not(known)
        if not reason and self._state.inquiries.open_with(peer) >= PER_PEER_MAX:
            reason = f"{PER_PEER_MAX} questions to it are open; ask again"
        if reason and question.what != "claims":
            inquiry.not_asked[peer] = reason
        return not reason

    def _answered(self, inquiry: Inquiry, peer: str, trouble: str) -> None:
        inquiry.rows.setdefault(peer, []).extend(inquiry.waiting.pop(peer).rows())
        if trouble and not inquiry.naming:
            inquiry.not_asked[peer] = trouble

    def _over(self, inquiry: Inquiry) -> Inquiry:
        del self._state.inquiries.open[inquiry.number]
        self._state.cancel_timer(f"{ASKED_TIMER}{inquiry.number}")
        return inquiry


def why_not(known: Neighbour | None) -> str:
    """Why a node can't be asked; empty when it can."""
    if known is None:
        return "not known any more"
    if known.state == "silent":
        return f"silent for {show_duration(known.silent_ms // 1000 * 1000)}"
    if known.state == "stopped":
        return "stopped"
    return ""
