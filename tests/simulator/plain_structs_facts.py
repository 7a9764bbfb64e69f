"""Prints how structs behave, a line for each thing. Run by itself, over msgspec or over what takes its place under PyPy."""

import copy
from collections.abc import Callable
from typing import ClassVar

import msgspec


class Point(msgspec.Struct, frozen=True, order=True):
    """Plain values, one with a default."""

    x: int
    y: int = 2


class Named(Point, frozen=True, tag="named", cache_hash=True):
    """One field more than its base."""

    name: str = "n"


class Kept(msgspec.Struct, kw_only=True):
    """Values that are made anew, all by name."""

    kinds: ClassVar[tuple[str, ...]] = ("a", "b")
    found: list[int] = []
    seen: dict[str, int] = {}
    more: set[int] = msgspec.field(default_factory=set)
    must: int


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One that looks at itself."""

    share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"a share is 0 to 1, not {self.share}")


class Empty(msgspec.Struct, frozen=True):
    """No field at all."""


def tried(what: Callable[[], object]) -> str:
    """What comes of it, or the kind of error."""
    try:
        return repr(what())
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        return type(error).__name__


def placed(value: object) -> str:
    """By class patterns."""
    match value:
        case Named(1, y, name="n"):
            return f"named {y}"
        case Point(x, y):
            return f"point {x} {y}"
        case _:
            return "none"


def main() -> None:
    """All of them."""
    first, again = Kept(must=1), Kept(must=1)
    first.found.append(3)
    first.seen["a"] = 1
    first.more.add(4)
    facts: list[Callable[[], object]] = [
        lambda: Point(1),
        lambda: Point(1, y=5),
        lambda: Named(1, name="m"),
        Empty,
        lambda: first,
        lambda: again,
        Kept,  # type: ignore[list-item]
        Point,  # type: ignore[list-item]
        lambda: Point(1, 2, 3),  # type: ignore[call-arg]
        lambda: Point(1, z=3),  # type: ignore[call-arg]
        lambda: Checked(share=0.5),
        lambda: Checked(share=2.0),
        lambda: Checked(0.5),  # type: ignore[call-arg]
        lambda: (Point(1) == Point(1, 2), Point(1) != Point(1, 2), Point(1) == Point(2), Point(1) != Point(2)),
        lambda: (Point(1) == Named(1), Point(1) != Named(1), Empty() == Empty()),
        lambda: (first == again, first != again, again == Kept(must=1)),
        lambda: (Point(1) < Point(1, 3), Point(2) < Point(1), Point(1) <= Point(1), Point(2) > Point(1)),
        lambda: sorted([Point(2), Point(1, 9), Point(1)]),
        lambda: Point(1) < Named(1),
        lambda: Point(1) < 1,  # type: ignore[operator]
        lambda: (hash(Point(1)) == hash(Point(1, 2)), len({Point(1), Point(1, 2), Point(2)}), len({Empty(), Empty()})),
        lambda: hash(first),
        lambda: msgspec.structs.replace(Point(1), y=7),
        lambda: msgspec.structs.replace(Named(1, name="m"), x=7, y=8),
        lambda: msgspec.structs.replace(Point(1), z=7),
        lambda: msgspec.structs.replace(Checked(share=0.5), share=3.0),
        lambda: msgspec.structs.replace(Point(1), x=1) == Point(1),
        lambda: hash(msgspec.structs.replace(Named(1), x=2)) == hash(Named(2)),
        lambda: msgspec.structs.asdict(Named(1)),
        lambda: (copy.copy(first), copy.copy(first) == first, copy.copy(first) is first),
        lambda: [placed(one) for one in (Named(1, 3), Named(2, 3), Point(1), Empty(), 1)],
        lambda: (Point.__match_args__, Named.__struct_fields__, Kept.__struct_fields__, Kept.kinds),
        lambda: (Named.__struct_config__.tag, Point.__struct_config__.tag),
        lambda: msgspec.convert({"x": 3}, Point),
    ]  # fmt: skip
    for what in facts:
        print(tried(what))


if __name__ == "__main__":
    main()
