"""Bytes of messages and records: families of closed unions, each with a version.

On the wire and on disk a value is the msgpack array `[family, version, value]`, at most 64 KiB. A family is one
closed union of tagged structs, e.g. all messages of a protocol. Unknown families, kinds and newer versions are
refused; unknown fields are ignored, so a later release may add fields that have a default. A family's version
grows only when the meaning of what is there changes.

In JSON (traces) the same value is written `{"family": {"type": kind, …}}`.
"""

from collections.abc import Mapping
from typing import Any, get_args

import msgspec

from holdall.machine.contract import Boot, ClockRead

BYTES_MAX = 64 * 1024
"""Longest value that is written or read."""

_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError, OverflowError, TypeError)
"""What the decoders raise on bytes that nobody of ours has written."""


class CodecError(ValueError):
    """Bytes that are no value of a registered family, or a value that has none. Nothing was taken over."""


class _Family:
    """One closed union; its decoders are made at the first use, so that registering costs nothing at start."""

    __slots__ = ("_json", "_msgpack", "members", "name", "version")

    def __init__(self, name: str, members: tuple[type[msgspec.Struct], ...], version: int) -> None:
        self.name = name
        self.members = members
        self.version = version
        self._msgpack: msgspec.msgpack.Decoder[Any] | None = None
        self._json: msgspec.json.Decoder[Any] | None = None

    def union(self) -> Any:
        whole: Any = self.members[0]
        for member in self.members[1:]:
            whole = whole | member
        return whole

    def from_msgpack(self, body: msgspec.Raw) -> Any:
        if self._msgpack is None:
            self._msgpack = msgspec.msgpack.Decoder(self.union())
        return self._msgpack.decode(body)

    def from_json(self, body: msgspec.Raw) -> Any:
        if self._json is None:
            self._json = msgspec.json.Decoder(self.union())
        return self._json.decode(body)


class Codec:
    """A set of families. Most callers use `CODEC`, which the packages fill when they are imported."""

    def __init__(self) -> None:
        self._families: dict[str, _Family] = {}
        self._family_of: dict[type, _Family] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._envelope = msgspec.msgpack.Decoder(tuple[str, int, msgspec.Raw])

    def register(self, family: str, union: object, *, version: int = 1) -> None:
        """Add a closed union (`A | B | …`, or one struct). The same again has no effect.

        Raises ValueError when a member has no tag, two members share one, or a member or the name is taken;
        TypeError when a member is no struct.
        """
        members: tuple[Any, ...] = get_args(union) or (union,)
        known = self._families.get(family)
        if known is not None:
            if set(known.members) == set(members) and known.version == version:
                return
            raise ValueError(f"family {family!r} is registered with other members; choose another name")
        tags: set[object] = set()
        for member in members:
            if not (isinstance(member, type) and issubclass(member, msgspec.Struct)):
                raise TypeError(f"family {family!r}: {member!r} is no struct")
            tag = member.__struct_config__.tag
            if tag is None or tag in tags:
                raise ValueError(f"family {family!r}: {member.__name__} needs a tag of its own")
            if member in self._family_of:
                taken = self._family_of[member].name
                raise ValueError(f"family {family!r}: {member.__name__} belongs to family {taken!r}")
            tags.add(tag)
        made = _Family(family, members, version)
        self._families[family] = made
        for member in members:
            self._family_of[member] = made

    def versions(self) -> dict[str, int]:
        """Family -> version, by name: what a header of a file says about its writer."""
        return {name: self._families[name].version for name in sorted(self._families)}

    def families(self) -> dict[str, tuple[type[msgspec.Struct], ...]]:
        """Family -> its members, by name."""
        return {name: self._families[name].members for name in sorted(self._families)}

    def family_of(self, value: msgspec.Struct) -> str:
        """The family's name. Raises CodecError when the value belongs to none."""
        family = self._family_of.get(type(value))
        if family is None:
            raise CodecError(
                f"{type(value).__name__} belongs to no registered family; register its union first"
            )
        return family.name

    def encode(self, value: msgspec.Struct) -> bytes:
        """`[family, version, value]`. Raises CodecError: no family, or longer than `BYTES_MAX`."""
        name = self.family_of(value)
        data = self._encoder.encode((name, self._families[name].version, value))
        if len(data) > BYTES_MAX:
            raise CodecError(
                f"{type(value).__name__} takes {len(data)} bytes; at most {BYTES_MAX} are allowed"
            )
        return data

    def decode(self, data: bytes) -> Any:
        """The value. Raises CodecError on everything that `encode` of this or an older release can't have written."""
        if len(data) > BYTES_MAX:
            raise CodecError(f"{len(data)} bytes; at most {BYTES_MAX} are allowed")
        try:
            name, version, body = self._envelope.decode(data)
            return self._known(name, version).from_msgpack(body)
        except CodecError:
            raise
        except _ERRORS as error:
            raise CodecError(f"not a message or record: {error}") from error

    def plain(self, value: msgspec.Struct) -> dict[str, msgspec.Struct]:
        """`{family: value}`, ready for a JSON encoder."""
        return {self.family_of(value): value}

    def from_plain(self, body: Mapping[str, msgspec.Raw]) -> Any:
        """The value of `{family: JSON}`. Raises CodecError."""
        if len(body) != 1:
            raise CodecError("a value is an object with one key, its family")
        ((name, raw),) = body.items()
        try:
            return self._known(name, 1).from_json(raw)
        except CodecError:
            raise
        except _ERRORS as error:
            raise CodecError(f"not a value of family {name!r}: {error}") from error

    def _known(self, name: str, version: int) -> _Family:
        family = self._families.get(name)
        if family is None:
            known = ", ".join(sorted(self._families)) or "none"
            raise CodecError(f"unknown family {name[:40]!r} (known: {known})")
        if not 1 <= version <= family.version:
            raise CodecError(
                f"family {name!r} version {version} is not known here (up to {family.version}); "
                "use the release that wrote it, or a newer one"
            )
        return family


CODEC = Codec()
"""The families of this program. A package registers its unions where they are defined."""

CODEC.register("machine", ClockRead | Boot)
