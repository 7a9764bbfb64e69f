"""Methods of one struct, written out for its fields."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

MISSING: Any = object()
FACTORIES = (list, dict, set)
"""A default that is empty and of these is made anew for each struct."""


class Field:
    """What `field` says."""

    def __init__(self, default: Any, factory: Any) -> None:
        self.default = default
        self.factory = factory


def initial(
    fields: Collection[str],
    defaults: Mapping[str, Any],
    named: Collection[str],
    *,
    post_init: bool,
    is_frozen: bool,
) -> Callable[..., None]:
    """`__init__`: positions for all that are not `named`."""
    scope: dict[str, Any] = {"MISSING": MISSING}
    body: list[str] = []
    positional, keywords = [], []
    for one in fields:
        default, factory = _default(defaults.get(one, MISSING), has_one=one in defaults)
        text, value = one, one
        if factory is not None:
            scope[f"make_{one}"] = factory
            text, value = f"{one}=MISSING", f"make_{one}() if {one} is MISSING else {one}"
        elif default is not MISSING:
            scope[f"default_{one}"] = default
            text = f"{one}=default_{one}"
        (keywords if one in named else positional).append(text)
        body.append(f"self.{one} = {value}")
    if is_frozen:
        body.append("self.hash_kept = -1")
    if post_init:
        body.append("self.__post_init__()")
    taken = ["self", *positional, *(["*", *keywords] if keywords else [])]
    return _method("__init__", ", ".join(taken), body or ["pass"], scope)


def _default(value: Any, *, has_one: bool) -> tuple[Any, Callable[[], Any] | None]:
    if isinstance(value, Field):
        return (value.default, None) if value.factory is MISSING else (MISSING, value.factory)
    if has_one and type(value) in FACTORIES:
        return MISSING, type(value)
    return value, None


def equal(fields: Collection[str]) -> dict[str, Callable[..., Any]]:
    """`__eq__` and `__ne__`: of the same class, field by field."""
    same = " and ".join(f"self.{one} == other.{one}" for one in fields) or "True"
    made = {}
    for name, alike, value in (("__eq__", True, same), ("__ne__", False, f"not ({same})")):
        body = [
            "if self is other:",
            f"    return {alike}",
            "if type(self) is not type(other):",
            "    return NotImplemented",
            f"return {value}",
        ]
        made[name] = _method(name, "self, other", body)
    return made


def hashed(fields: Collection[str]) -> Callable[..., Any]:
    """`__hash__`, kept."""
    values = _values("self", fields)
    return _method(
        "__hash__",
        "self",
        ["if self.hash_kept == -1:", f"    self.hash_kept = hash({values})", "return self.hash_kept"],
    )


def ordered(fields: Collection[str]) -> dict[str, Callable[..., Any]]:
    """Comparisons, field by field."""
    signs = {"__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">="}
    return {
        name: _method(
            name,
            "self, other",
            [
                "if type(self) is not type(other):",
                "    return NotImplemented",
                f"return {_values('self', fields)} {sign} {_values('other', fields)}",
            ],
        )
        for name, sign in signs.items()
    }


def replacing(kind: Any, names: Collection[str]) -> Callable[..., Any]:
    """`replace` for one class and these fields of it."""
    unknown = [one for one in names if one not in kind.__struct_fields__]
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {unknown[0]!r}")
    body = ["new = made(kind)"]
    body += [f"new.{one} = {one if one in names else f'old.{one}'}" for one in kind.__struct_fields__]
    body += ["new.hash_kept = -1"] if kind.is_frozen else []
    body += ["new.__post_init__()"] if hasattr(kind, "__post_init__") else []
    return _method(
        "replacing", ", ".join(["old", *names]), [*body, "return new"], {"kind": kind, "made": object.__new__}
    )


def _values(whose: str, fields: Collection[str]) -> str:
    return "(" + "".join(f"{whose}.{one}, " for one in fields) + ")"


def _method(
    name: str, taken: str, body: list[str], scope: dict[str, Any] | None = None
) -> Callable[..., Any]:
    space = {} if scope is None else scope
    lines = "".join(f"    {line}\n" for line in body)
    exec(f"def {name}({taken}):\n{lines}", space)  # noqa: S102 - names of fields, all of ours
    made: Callable[..., Any] = space[name]
    return made
