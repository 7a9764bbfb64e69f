"""Who belongs to the system, as the nodes with a server know it, and how they tell each other and all the rest.

Notices go to every node: which servers there are (so that a node that joined early learns of later servers), and which
members and revocations (so that any server can shut out a node that another one let in).
They are believed from nodes with a server only; whom that is, a node knows from its own joining on.
"""

import binascii
import hashlib
from collections.abc import Iterator
from time import time
from typing import Annotated

import msgspec

from holdall.bus.addresses import PORT_MAX, is_address
from holdall.bus.identity import is_user_key
from holdall.bus.keys import node_id
from holdall.bus.subjects import is_node_id
from holdall.model.decoding import decoded
from holdall.model.names import is_name

MEMBERS_MAX = 10_000
SERVERS_MAX = 16
PER_NOTICE = 200

Port = Annotated[int, msgspec.Meta(ge=1, le=PORT_MAX)]
Host = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]


class ServerEntry(msgspec.Struct, frozen=True):
    """A node with a server: where clients reach it; routes are one port above, joining two."""

    node: Annotated[str, msgspec.Meta(max_length=20)]
    hosts: Annotated[tuple[Host, ...], msgspec.Meta(min_length=1, max_length=8)]
    port: Port

    def is_sound(self) -> bool:
        """Whether what came from outside can be used."""
        return is_node_id(self.node) and all(is_address(host) for host in self.hosts)


class Member(msgspec.Struct, frozen=True, order=True):
    """A node that was let in."""

    public: Annotated[str, msgspec.Meta(max_length=56)]
    name: Annotated[str, msgspec.Meta(max_length=63)]
    server: bool
    since_s: Annotated[int, msgspec.Meta(ge=0)]
    """Unix seconds; the later entry of a key is the right one."""

    def is_sound(self) -> bool:
        """Whether what came from outside can be used."""
        return is_user_key(self.public) and is_name(self.name)


class Notice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node with a server tells all. Parts may come in several notices."""

    servers: Annotated[tuple[ServerEntry, ...], msgspec.Meta(max_length=SERVERS_MAX)] = ()
    members: Annotated[tuple[Member, ...], msgspec.Meta(max_length=PER_NOTICE)] = ()
    revoked: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=56)], Annotated[int, msgspec.Meta(ge=0)]],
        msgspec.Meta(max_length=PER_NOTICE),
    ] = {}
    digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    """Of all members and revocations that the sender knows; who knows others tells them. Empty: nothing is said."""


class Members(msgspec.Struct):
    """All members by id, and the keys whose rights of before a time (Unix seconds) are void."""

    known: dict[str, Member] = {}
    revoked: dict[str, int] = {}

    def add(self, *, node: str, public: str, name: str, server: bool) -> Member:
        """One that is let in now; its rights must be dated `since_s`, after what may have been revoked."""
        since_s = max(int(time()), self.revoked.get(public, 0) + 1)
        member = Member(public=public, name=name, server=server, since_s=since_s)
        self.known[node] = member
        return member

    def servers(self) -> set[str]:
        """Ids of the nodes with a server that are still members."""
        return {node for node, one in self.known.items() if one.server and not self.is_revoked(node)}

    def is_revoked(self, node: str) -> bool:
        """Whether this node was shut out after it was let in."""
        member = self.known.get(node)
        return member is not None and self.revoked.get(member.public, -1) >= member.since_s

    def is_shut_out(self, node: str) -> bool:
        """Whether rights of this node were ever made void; such a key never runs a server again."""
        return any(node_id(public) == node for public in self.revoked)

    def revoke(self, node: str) -> bool:
        """Void all rights that the node has got so far; False when it is unknown or revoked already."""
        member = self.known.get(node)
        if member is None or self.is_revoked(node):
            return False
        self.revoked[member.public] = max(int(time()), member.since_s)
        return True

    def merge(self, notice: Notice) -> bool:
        """Take what is newer there; whether anything changed."""
        before = (len(self.known), len(self.revoked))
        changed = False
        for member in notice.members:
            node = node_id(member.public)
            mine = self.known.get(node)
            if (
                member.is_sound()
                and (mine is None or mine.since_s < member.since_s)
                and len(self.known) < MEMBERS_MAX
            ):
                self.known[node] = member
                changed = True
        for public, until in notice.revoked.items():
            if (
                is_user_key(public)
                and until > self.revoked.get(public, -1)
                and len(self.revoked) < MEMBERS_MAX
            ):
                self.revoked[public] = until
                changed = True
        return changed or before != (len(self.known), len(self.revoked))

    def digest(self) -> bytes:
        """The same for the same members and revocations, whatever the order in which they came."""
        whole = (sorted(self.known.items()), sorted(self.revoked.items()))
        return hashlib.sha256(msgspec.msgpack.encode(whole)).digest()[:16]

    def latest(self) -> Notice:
        """What a new server must know at once; the rest comes with the notices."""
        return Notice(
            members=tuple(self.known.values())[-PER_NOTICE:],
            revoked=dict(list(self.revoked.items())[-PER_NOTICE:]),
        )

    def notices(self) -> Iterator[Notice]:
        """All of it, in parts that fit a frame."""
        members = list(self.known.values())
        revoked = list(self.revoked.items())
        for start in range(0, max(len(members), len(revoked), 1), PER_NOTICE):
            end = start + PER_NOTICE
            yield Notice(members=tuple(members[start:end]), revoked=dict(revoked[start:end]))


_notice = msgspec.msgpack.Decoder(Notice)


def pack(notice: Notice) -> bytes:
    """As it travels."""
    return msgspec.msgpack.encode(notice)


def unpack(body: bytes) -> Notice | None:
    """None for bytes that are no notice."""
    try:
        notice = decoded(_notice.decode, body)
    except (msgspec.DecodeError, binascii.Error):
        return None
    return notice if all(entry.is_sound() for entry in notice.servers) else None
