"""A port for whole messages: a holder posts them, each is admitted or denied as one, and goes to one counterpart.

Between holder and port, frames of four bytes of length and one `Posted` or `Answer`. Between port and counterpart, four bytes
of length and the payload, answered by four bytes when the message has arrived whole.
"""

import asyncio
from contextlib import suppress
from typing import Annotated, TypeAlias

import msgspec

from holdall.leases.capacity import Declined, Leased
from holdall.leases.shares import Wanted
from holdall.model.decoding import decoded
from holdall.model.frames import LENGTH_BYTES
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import WEIGHT_MAX
from holdall.node.gate.gate import Denied, Gate, Passage
from holdall.node.gate.listening import Listener

MESSAGE_BYTES_MAX = 1 << 20
DAY_MS = 86_400_000
ACK = b"ACK\n"


class Ask(msgspec.Struct, frozen=True, tag=True):
    """A lease for so many bytes a second, or the renewal of the one there is."""

    amount: Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)]
    duration_ms: Annotated[int, msgspec.Meta(ge=1, le=DAY_MS)]
    weight: Annotated[int, msgspec.Meta(ge=1, le=WEIGHT_MAX)] = 1
    floor: Annotated[int, msgspec.Meta(ge=1, le=AMOUNT_MAX)] = 1


class Release(msgspec.Struct, frozen=True, tag=True):
    """The lease is given back."""


class Post(msgspec.Struct, frozen=True, tag=True):
    """A message. With `leased` it needs a lease; without, it goes with all others that have none, in order."""

    payload: bytes
    leased: bool


class Arrived(msgspec.Struct, frozen=True, tag=True):
    """The counterpart has the message."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Nothing was sent, or not all of it: `why` says which. The connection can be used on unless `broken`."""

    why: str
    broken: bool = False


class Released(msgspec.Struct, frozen=True, tag=True):
    """There is no lease any more."""


Posted: TypeAlias = Ask | Release | Post
Answer: TypeAlias = Leased | Declined | Released | Arrived | Refused
_DECODER: msgspec.msgpack.Decoder[Posted] = msgspec.msgpack.Decoder(Posted)


def packed(value: Posted | Answer) -> bytes:
    """As one frame."""
    body = msgspec.msgpack.encode(value)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class MessagePort(Listener):
    """Listens for one holder, whose messages go to one counterpart. Whoever may connect is that holder."""

    def __init__(self, gate: Gate, *, holder: str, to: tuple[str, int], stall_s: float = 30.0) -> None:
        super().__init__()
        self.gate, self.holder, self.to = gate, holder, to
        self.stall_s = stall_s
        """A counterpart that takes nothing for so long is given up: others wait behind its message."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Each frame has its answer before the next is read."""
        streams = [writer]
        try:
            back, out = await asyncio.open_connection(*self.to)
            streams.append(out)
            while True:
                body = await _body(reader)
                try:
                    answer = await self._answer(decoded(_DECODER.decode, body), back, out)
                except msgspec.ValidationError as wrong:
                    answer = Refused(f"this is no message of a holder: {wrong}")
                writer.write(packed(answer))
                await writer.drain()
                if isinstance(answer, Refused) and answer.broken:
                    break
        except (OSError, EOFError, msgspec.DecodeError):
            # The other side is gone, or speaks something else; either way there is nobody to tell.
            pass
        except asyncio.CancelledError:
            for stream in streams:
                stream.transport.abort()
            raise
        finally:
            for stream in streams:
                stream.close()

    async def _answer(self, posted: Posted, back: asyncio.StreamReader, out: asyncio.StreamWriter) -> Answer:
        match posted:
            case Ask():
                return self.gate.ask(
                    self.holder,
                    Wanted(posted.amount, posted.weight),
                    duration_ms=posted.duration_ms,
                    floor=posted.floor,
                )
            case Release():
                self.gate.release(self.holder)
                return Released()
            case Post():
                return await self._send(posted, back, out)

    async def _send(self, post: Post, back: asyncio.StreamReader, out: asyncio.StreamWriter) -> Answer:
        try:
            passage = self.gate.admit(self.holder if post.leased else None)
        except Denied as denied:
            return Refused(str(denied))
        try:
            passage.when_cut = out.transport.abort
            message = len(post.payload).to_bytes(LENGTH_BYTES, "big") + post.payload
            await self._paced(message, passage, out)
        except OSError as broken:
            # The counterpart has half a message: no byte on this connection would mean anything to it.
            out.transport.abort()
            why = (
                f"the lease of {self.holder} is over, and its time to finish, too"
                if passage.cut
                else str(broken)
            )
            return Refused(f"the message was broken off: {why}", broken=True)
        finally:
            self.gate.done(passage)
        with suppress(asyncio.IncompleteReadError):
            if await back.readexactly(len(ACK)) == ACK:
                return Arrived()
        return Refused("the counterpart has closed the connection; the message may have arrived", broken=True)

    async def _paced(self, message: bytes, passage: Passage, out: asyncio.StreamWriter) -> None:
        """Piece by piece, as the way lets them go."""
        start = 0
        passage.way.offer(len(message))
        try:
            async with passage.way.turn:
                while start < len(message):
                    size = await passage.leave(len(message) - start)
                    out.write(message[start : start + size])
                    start += size
                    async with asyncio.timeout(self.stall_s):
                        await out.drain()
        except TimeoutError:
            raise ConnectionAbortedError(f"its counterpart took nothing for {self.stall_s:g} s") from None
        finally:
            passage.way.give_up(len(message) - start)


async def _body(reader: asyncio.StreamReader) -> bytes:
    """Of the next frame. Raises EOFError at the end, and for a frame that is longer than any may be."""
    size = int.from_bytes(await reader.readexactly(LENGTH_BYTES), "big")
    if size > MESSAGE_BYTES_MAX:
        raise EOFError(f"a message of {size} bytes; at most {MESSAGE_BYTES_MAX} are taken")
    return await reader.readexactly(size)
