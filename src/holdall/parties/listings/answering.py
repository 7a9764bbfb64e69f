"""What this node tells other agents that ask: the answer in pieces, a few at a time."""

from collections import deque

import msgspec

from holdall.leases.messages import AGENT
from holdall.machine.contract import Address, Message, Send
from holdall.parties.listings.inquiries import SERVED_MAX, Served
from holdall.parties.listings.questions import (
    PIECE_BYTES_MAX,
    PIECES_MAX,
    WINDOW,
    PeerAnswer,
    PeerAsk,
    PeerMore,
)
from holdall.parties.listings.rows import Rows, parts, shortened
from holdall.parties.state import State

SERVED_TIMER = "served/"
SERVED_MS = 20_000
"""How long the rest of an answer is kept for a peer that asks for no more of it."""


class Answering:
    """The other side of `Asking`."""

    def __init__(self, state: State, rows: Rows) -> None:
        self._state = state
        self._rows = rows
        self._encoder = msgspec.msgpack.Encoder()

    def asked(self, peer: str, ask: PeerAsk) -> None:
        """Answer with the first pieces."""
        served = self._state.inquiries.served
        for key in [
            key for key, one in served.items() if key[0] == peer and one.incarnation < ask.incarnation
        ]:
            self._forget(key)
        if sum(1 for node, _ in served if node == peer) >= SERVED_MAX:
            self._send(
                peer,
                PeerAnswer(ask.n, ask.incarnation, 0, last=True, refused="it is busy with other questions"),
            )
            return
        pieces = parts(self._rows.answer(ask.about), PIECE_BYTES_MAX, self._encoder, shortened)
        if len(pieces) > PIECES_MAX:
            text = f"more than {PIECES_MAX} pieces of {PIECE_BYTES_MAX >> 10} KiB; ask for less"
            self._send(peer, PeerAnswer(ask.n, ask.incarnation, 0, last=True, refused=text))
            return
        self._forget((peer, ask.n))
        one = Served(ask.incarnation, deque(pieces), 0)
        for _ in range(min(WINDOW, len(pieces))):
            self._next(peer, ask.n, one)
        if one.rest:
            served[peer, ask.n] = one
            self._state.set_timer(f"{SERVED_TIMER}{peer}/{ask.n}", SERVED_MS)

    def more(self, peer: str, more: PeerMore) -> None:
        """One piece has arrived there."""
        key = (peer, more.n)
        one = self._state.inquiries.served.get(key)
        if one is None or one.incarnation != more.incarnation:
            return
        self._next(peer, more.n, one)
        if one.rest:
            self._state.set_timer(f"{SERVED_TIMER}{peer}/{more.n}", SERVED_MS)
        else:
            self._forget(key)

    def fired(self, rest: str) -> None:
        """The peer has lost interest, or is gone."""
        peer, _, number = rest.rpartition("/")
        self._state.inquiries.served.pop((peer, int(number)), None)

    def _next(self, peer: str, n: int, one: Served) -> None:
        rows = one.rest.popleft()
        self._send(peer, PeerAnswer(n, one.incarnation, one.sent, last=not one.rest, rows=rows))
        one.sent += 1

    def _forget(self, key: tuple[str, int]) -> None:
        if self._state.inquiries.served.pop(key, None) is not None:
            self._state.cancel_timer(f"{SERVED_TIMER}{key[0]}/{key[1]}")

    def _send(self, peer: str, message: Message) -> None:
        self._state.out.append(Send(Address(peer, AGENT), message))
