"""What links say to each other: openings, and numbered frames of parcels, each below 64 KiB."""

from collections.abc import Iterable
from typing import Annotated, TypeAlias

import msgspec

from holdall.machine.codec import BYTES_MAX, CODEC

NUMBER_MAX = (1 << 53) - 1
"""Largest number in a frame: what JSON readers everywhere keep exactly."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
PartName: TypeAlias = Annotated[str, msgspec.Meta(max_length=32)]

FRAME_ROOM = 512
"""Bytes of a frame that are not parcels, at most."""
PARCEL_ROOM = 80
"""Bytes of a parcel that are not its body, at most."""
BODY_MAX = BYTES_MAX - FRAME_ROOM - PARCEL_ROOM
"""Longest encoded message that fits into a frame."""


class LinkEnd(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One side of a pair, never used twice by one node: a later one is greater.

    `incarnation` is the process start's number, `session` grows when this side has given up on the peer, `instance`
    is the process's own random number, by which two processes with one journal differ.
    """

    incarnation: Number
    session: Number = 0
    instance: Number = 0

    def __str__(self) -> str:
        session = f".{self.session}" if self.session else ""
        return f"{self.incarnation}{session}" + (f"~{self.instance}" if self.instance else "")


class Parcel(msgspec.Struct, frozen=True, array_like=True):
    """A message on its way: the part that sends it, the part that it is for, and `CODEC.encode` of it."""

    sender: PartName
    to: PartName
    body: bytes

    @property
    def size(self) -> int:
        """Bytes in a frame, at most."""
        return len(self.body) + PARCEL_ROOM


class LinkOpen(msgspec.Struct, frozen=True, tag="open"):
    """My end of the pair, and yours as far as I know it. Carries nothing else: it may come twice, or late."""

    mine: LinkEnd
    yours: LinkEnd | None = None


class LinkFrame(msgspec.Struct, frozen=True, tag="frame", omit_defaults=True):
    """Parcels within one pair of ends. `seq` counts from 1; 0: only an acknowledgement.

    `ack`: every frame of the receiver up to this number has been delivered.
    """

    mine: LinkEnd
    yours: LinkEnd
    seq: Number = 0
    ack: Number = 0
    parcels: tuple[Parcel, ...] = ()


LinkMessage: TypeAlias = LinkFrame | LinkOpen

CODEC.register("link", LinkMessage)


def fits(parcels: Iterable[Parcel]) -> int:
    """How many of these, from the first on, go into one frame; at least one, when there is one."""
    count, room = 0, BYTES_MAX - FRAME_ROOM
    for parcel in parcels:
        room -= parcel.size
        if room < 0:
            break
        count += 1
    return count
