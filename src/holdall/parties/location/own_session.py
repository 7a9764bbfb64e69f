"""A part of the node that is a client of the node's own agent, over a connection that is no socket.

Its session is kept in the journal, so that it goes on after a restart, with all that was claimed in it.
"""

from collections.abc import Mapping
from hashlib import blake2b

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Effect, Record, Save, Send
from holdall.model import frames
from holdall.parties.messages import AGENT, Asked, SessionOpened

_KEY = "session"


class SecretRecord(msgspec.Struct, frozen=True, tag="units_secret"):
    """With which the session goes on after a restart."""

    secret: str


CODEC.register("own-session", SecretRecord)


class OwnSession:
    """The part's side of the conversation. `seed`: a random number of this process."""

    def __init__(self, node: str, uid: int, *, connection: str, holder: str, seed: int) -> None:
        self.n = 0
        """Number of the last frame."""
        self._agent, self._uid = Address(node, AGENT), uid
        self._connection, self._holder = connection, holder
        self._seed, self._lots = seed, 0

    @staticmethod
    def is_in(records: Mapping[str, Record]) -> bool:
        """Whether there was one before."""
        return _KEY in records

    def open(self, records: Mapping[str, Record], out: list[Effect]) -> None:
        """Begin, or go on with what the records tell of."""
        kept = records.get(_KEY)
        secret = kept.secret if isinstance(kept, SecretRecord) else ""
        # The session's secret is the lot of the Hello that begins it; one that goes on keeps its own.
        lot = secret or self._lot()
        out.append(Save(_KEY, SecretRecord(lot)))
        out.append(Send(self._agent, SessionOpened(self._uid, "holdall", 0)))
        session = self._connection if secret else ""
        hello = frames.Hello(frames.VERSION, agent=self._holder, session=session, secret=secret)
        out.append(Send(self._agent, Asked(hello, self._uid, "holdall", lot)))

    def number(self) -> int:
        """Of the next frame."""
        self.n += 1
        return self.n

    def ask(self, frame: frames.ToNode, out: list[Effect]) -> None:
        """One frame to the agent."""
        out.append(Send(self._agent, Asked(frame, self._uid, "holdall", self._lot())))

    def _lot(self) -> str:
        """Becomes a secret or a key, which nobody is told."""
        self._lots += 1
        return blake2b(f"{self._seed}/{self._connection}/{self._lots}".encode(), digest_size=16).hexdigest()
