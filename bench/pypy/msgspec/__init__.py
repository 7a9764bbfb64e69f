"""As much of msgspec as the simulator uses, in plain Python: PyPy can't load msgspec's own extension.

Structs are made, compared, ordered, hashed, copied and matched as msgspec's are. Nothing is checked (neither types nor that
frozen ones stay as they are) and nothing is encoded. It is for PyPy only, with this folder in PYTHONPATH;
`tests/simulator/test_plain_structs.py` has the same runs over it and over msgspec, which must not differ in anything.
"""

from typing import Any

from . import json, msgpack, structs
from .errors import DecodeError, EncodeError, MsgspecError, ValidationError
from .made import MISSING, Field, equal, hashed, initial, ordered

__all__ = [
    "DecodeError", "EncodeError", "MsgspecError", "Struct", "ValidationError", "convert", "field", "json", "msgpack",
    "structs",
]  # fmt: skip


class UnsetType:
    """Of `UNSET`."""


UNSET = UnsetType()


class Raw(bytes):
    """Encoded already."""


class Meta:
    """Bounds of a type, which are not looked at."""

    def __init__(self, **bounds: object) -> None:
        self.bounds = bounds


def field(*, default: Any = MISSING, default_factory: Any = MISSING, **_: object) -> Any:
    """A default that is made anew for each struct."""
    return Field(default, default_factory)


def _inherited(bases: tuple[type, ...]) -> tuple[list[str], dict[str, Any], set[str]]:
    fields: list[str] = []
    defaults: dict[str, Any] = {}
    named: set[str] = set()
    for base in reversed(bases):
        fields += [one for one in getattr(base, "__struct_fields__", ()) if one not in fields]
        defaults.update(getattr(base, "struct_defaults", {}))
        named |= getattr(base, "struct_named", set())
    return fields, defaults, named


def _is_class_var(kind: object) -> bool:
    return str(kind).startswith(("ClassVar", "typing.ClassVar"))


class StructMeta(type):
    """Makes a class with slots and with methods of its own for exactly its fields, which PyPy compiles well."""

    def __new__(
        mcs,
        name: str,
        bases: tuple[type, ...],
        space: dict[str, Any],
        *,
        frozen: bool = False,
        order: bool = False,
        kw_only: bool = False,
        tag: Any = None,
        **_: object,
    ) -> type:
        """Options that are about encoding only, and what they say of it, are taken and left."""
        fields, defaults, named = _inherited(bases)
        own = [one for one, kind in space.get("__annotations__", {}).items() if not _is_class_var(kind)]
        for one in own:
            if one in fields:
                fields.remove(one)
            fields.append(one)
            defaults.pop(one, None)
            if one in space:
                defaults[one] = space.pop(one)
            if kw_only:
                named.add(one)
        is_frozen = frozen or any(getattr(base, "is_frozen", False) for base in bases)
        has_slot = {
            slot for base in bases for kind in base.__mro__ for slot in getattr(kind, "__slots__", ())
        }
        wanted = [*own, "hash_kept"] if is_frozen else own
        space.setdefault("__slots__", tuple(one for one in wanted if one not in has_slot))
        begins = "__post_init__" in space or any(hasattr(base, "__post_init__") for base in bases)
        space.setdefault("__init__", initial(fields, defaults, named, post_init=begins, is_frozen=is_frozen))
        for method, made in equal(fields).items():
            space.setdefault(method, made)
        space.setdefault("__hash__", hashed(fields) if is_frozen else None)
        for method, made in ordered(fields).items() if order else ():
            space.setdefault(method, made)
        positional = [one for one in fields if one not in named]
        space.update(
            __struct_fields__=tuple(fields), __match_args__=tuple(positional), struct_defaults=defaults,
            struct_named=named, is_frozen=is_frozen, __struct_config__=Config(name if tag is True else tag),
        )  # fmt: skip
        return super().__new__(mcs, name, bases, space)


class Config:
    """What a codec asks a struct for."""

    def __init__(self, tag: Any) -> None:
        self.tag = tag


class Struct(metaclass=StructMeta):
    """The base of all."""

    __slots__ = ()

    def __repr__(self) -> str:
        fields = (f"{one}={getattr(self, one)!r}" for one in self.__struct_fields__)
        return f"{type(self).__name__}({', '.join(fields)})"


def convert(value: Any, kind: Any, **_: object) -> Any:
    """A mapping as a struct; types are not looked at."""
    return kind(**value)
