"""What is done to whole structs."""

from collections.abc import Callable
from typing import Any

from .made import replacing

_MADE: dict[tuple[type, tuple[str, ...]], Callable[..., Any]] = {}


def replace(struct: Any, /, **changes: Any) -> Any:
    """A copy with other values of some fields."""
    key = (type(struct), tuple(changes))
    made = _MADE.get(key)
    if made is None:
        made = _MADE[key] = replacing(*key)
    return made(struct, **changes)


def asdict(struct: Any) -> dict[str, Any]:
    """Values by the names of fields, as they are declared."""
    return {one: getattr(struct, one) for one in struct.__struct_fields__}
