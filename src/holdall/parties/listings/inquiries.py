"""What an agent keeps of questions that are under way: its own to other agents, and theirs that take several pieces."""

from collections import deque
from typing import TypeAlias

from holdall.model import frames
from holdall.parties.listings.questions import PIECES_MAX, Row

PER_PEER_MAX = 16
"""Questions to one peer that are open at a time; for a further one that peer is named as not asked."""
PATIENCE = 4
"""How often an inquiry waits longer because pieces are still coming."""
SERVED_MAX = 8
"""Answers to one peer that are open at a time; a further question is refused."""

Request: TypeAlias = frames.Ask | frames.Release | frames.Extend | frames.Cancel | frames.Kick | frames.Clear


class Pieces:
    """What has come of one peer's answer. Pieces may come in any order, and more than once."""

    __slots__ = ("_last", "_pieces")

    def __init__(self) -> None:
        self._pieces: dict[int, tuple[Row, ...]] = {}
        self._last = PIECES_MAX

    def add(self, piece: int, rows: tuple[Row, ...], *, last: bool) -> bool:
        """Whether it is new."""
        if piece in self._pieces or piece > self._last:
            return False
        self._pieces[piece] = rows
        if last:
            self._last = piece
        return True

    @property
    def whole(self) -> bool:
        """Whether nothing is missing."""
        return len(self._pieces) == self._last + 1

    @property
    def begun(self) -> bool:
        return bool(self._pieces)

    def rows(self) -> list[Row]:
        """In the order of the answer."""
        return [row for piece in sorted(self._pieces) for row in self._pieces[piece]]


class Inquiry:
    """A client's request that other nodes are asked about, in one or several rounds."""

    __slots__ = (
        "connection",
        "key_hash",
        "moved",
        "naming",
        "not_asked",
        "number",
        "otherwise",
        "own",
        "patience",
        "peers",
        "request",
        "round",
        "rows",
        "typed",
        "waiting",
    )

    def __init__(
        self,
        connection: str,
        request: Request,
        *,
        peers: tuple[str, ...],
        own: bool = True,
        typed: str = "",
        key_hash: str = "",
        otherwise: frames.Denied | None = None,
    ) -> None:
        self.connection = connection
        self.request = request
        self.peers = peers
        """Nodes that it is about,"""
        self.own = own
        """and whether it is about this one, too."""
        self.typed = typed
        self.key_hash = key_hash
        """Of what was typed, which may be the key of a lease."""
        self.otherwise = otherwise
        """What is answered when no other node knows more."""
        self.round = 0
        self.number = 0
        """Of the questions of the round that is under way."""
        self.waiting: dict[str, Pieces] = {}
        """Peers (ids) whose answers of this round are not whole."""
        self.rows: dict[str, list[Row]] = {}
        """Peer -> what it has answered, in all rounds."""
        self.not_asked: dict[str, str] = {}
        """Peer -> why it has no part, or only some, in the answer."""
        self.naming = False
        """The round only asks what people call claims: who does not answer it has its part in the answer all the same."""
        self.moved = False
        """Whether a part of what is missing has come since the timer was set."""
        self.patience = PATIENCE
        """How often the timer may still be set again for that."""


class Served:
    """A peer's question that is answered piece by piece."""

    __slots__ = ("incarnation", "rest", "sent")

    def __init__(self, incarnation: int, rest: deque[tuple[Row, ...]], sent: int) -> None:
        self.incarnation = incarnation
        self.rest = rest
        self.sent = sent


class Inquiries:
    """All of them."""

    def __init__(self) -> None:
        self.open: dict[int, Inquiry] = {}
        """Number of its questions -> inquiry."""
        self.served: dict[tuple[str, int], Served] = {}
        """(peer, number) -> what is left to be sent."""
        self.explaining: set[str] = set()
        """Claims of this node (printed ids) whose places elsewhere are being asked for, to tell their clients."""
        self.last_number = 0

    def open_with(self, peer: str) -> int:
        """How many questions this peer has not answered."""
        return sum(1 for inquiry in self.open.values() if peer in inquiry.waiting)
