"""What goes over the join port: one frame each way, after the server has shown the authority's certificate.

A frame is 4 bytes of length and msgpack. All of it is checked for shape and size before anything is done with it.
"""

import asyncio
import hashlib
from typing import Annotated

import msgspec

from holdall.bus.identity import is_user_key
from holdall.bus.members import Notice, ServerEntry
from holdall.bus.system import Facts, Secrets
from holdall.model.decoding import decoded
from holdall.model.names import is_name

VERSION = 1
REQUEST_BYTES_MAX = 16 * 1024
ANSWER_BYTES_MAX = 256 * 1024
STEP_S = 10.0
"""Each side waits so long for the other's next frame."""


class BadJoin(ValueError):
    """Bytes that are no message of the join port."""


class JoinRequest(msgspec.Struct, frozen=True, tag="join", forbid_unknown_fields=True):
    """A node that wants in."""

    version: int
    secret: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    public: Annotated[str, msgspec.Meta(max_length=56)]
    name: Annotated[str, msgspec.Meta(max_length=63)]
    facts: Facts
    wish: Annotated[bytes, msgspec.Meta(max_length=4096)]
    """Request for a certificate (PKCS 10, DER)."""
    server: ServerEntry | None
    """Where it could run a server."""
    proof: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
    """Its key's signature over all of the above, and over the system that it means."""

    def __repr__(self) -> str:
        return f"JoinRequest({self.name}, {self.public})"

    def signed(self, fingerprint: bytes) -> bytes:
        """What `proof` signs."""
        blank = msgspec.structs.replace(self, proof=bytes(64))
        return b"holdall join\0" + fingerprint + hashlib.sha256(msgspec.msgpack.encode(blank)).digest()


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """All that a new member needs."""

    system: str
    rights: str
    certificate: str
    """PEM."""
    servers: tuple[ServerEntry, ...]
    secrets: Secrets | None
    """For one that runs a server."""
    members: Notice


class Sorry(msgspec.Struct, frozen=True, tag="sorry"):
    """Why not, for people."""

    text: str


_request = msgspec.msgpack.Decoder(JoinRequest)
_answer: msgspec.msgpack.Decoder[Welcome | Sorry] = msgspec.msgpack.Decoder(Welcome | Sorry)


def decode_request(body: bytes) -> JoinRequest:
    """Raises BadJoin for anything but a sound request."""
    try:
        request = decoded(_request.decode, body)
    except msgspec.DecodeError as problem:
        raise BadJoin(str(problem)) from None
    if not is_user_key(request.public):
        raise BadJoin("its key is no key of a node")
    if not is_name(request.name):
        raise BadJoin("its name is no name of a node")
    if request.server is not None and not request.server.is_sound():
        raise BadJoin("its server has no sound address")
    return request


def decode_answer(body: bytes) -> Welcome | Sorry:
    """Raises BadJoin."""
    try:
        answer = decoded(_answer.decode, body)
    except msgspec.DecodeError as problem:
        raise BadJoin(str(problem)) from None
    if isinstance(answer, Welcome) and not all(entry.is_sound() for entry in answer.servers):
        raise BadJoin("a server without a sound address")
    return answer


async def read_frame(reader: asyncio.StreamReader, bytes_max: int) -> bytes:
    """Raises BadJoin for a frame that is too long or cut off, TimeoutError."""
    async with asyncio.timeout(STEP_S):
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            if size > bytes_max:
                raise BadJoin(f"a message of {size} bytes")
            return await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise BadJoin("the other side went away") from None


async def write_frame(writer: asyncio.StreamWriter, body: bytes) -> None:
    """Raises OSError, TimeoutError."""
    async with asyncio.timeout(STEP_S):
        writer.write(len(body).to_bytes(4, "big") + body)
        await writer.drain()
