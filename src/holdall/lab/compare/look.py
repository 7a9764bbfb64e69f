"""How a protocol looks in every figure: one colour, one marker and one line for each, told apart also without colour.

Colours of the main protocols are those of Okabe and Ito, which people with every usual kind of colour blindness tell apart.
Relatives share a hue or stand near each other, and differ in marker and line.
"""

from typing import NamedTuple, TypeAlias

from holdall.lab.compare.contestants import in_order

Marker: TypeAlias = str | tuple[int, int, int]
"""A letter, or (corners, 1 for a star and 0 for a polygon, degrees)."""


class Look(NamedTuple):
    """Colour (hex), marker and line of matplotlib."""

    colour: str
    marker: Marker
    line: str


LOOKS: dict[str, Look] = {
    "central": Look("#000000", "X", ":"),
    "ordered": Look("#7f7f7f", "s", "--"),
    "chain": Look("#0072b2", "o", "-"),
    "chain-try": Look("#7fb8d8", (8, 1, 0), "--"),
    "strong-weak": Look("#e69f00", "^", "-"),
    "strong-weak-named": Look("#8a5f00", (3, 1, 0), "-."),
    "strong-weak-probe": Look("#f0e442", "v", "--"),
    "strong-weak-probe-aged": Look("#b3a600", (3, 1, 180), ":"),
    "strong-weak-probe-token": Look("#5e5700", (4, 1, 0), "-."),
    "token": Look("#009e73", "D", "-"),
    "token-tickets": Look("#80cfb9", "d", "--"),
    "lanes": Look("#cc79a7", "P", "-"),
    "lanes-lending": Look("#8e3d6b", "p", "--"),
    "game": Look("#d55e00", "*", "-"),
    "game-complete": Look("#7a2600", (6, 1, 0), "--"),
    "skeen": Look("#56b4e9", "<", "-."),
    "ballot": Look("#5b4fa3", ">", "-."),
}
SPARE = (
    Look("#332288", "1", "-"), Look("#117733", "2", "-"), Look("#882255", "3", "-"), Look("#44aa99", "4", "-"),
    Look("#999933", "+", "-"), Look("#aa4499", "x", "-"),
)  # fmt: skip
"""For protocols without an entry, in the order of their names."""


def looks(names: list[str]) -> dict[str, Look]:
    """The look of each; the same whoever else is compared, where it has an entry."""
    unknown = [name for name in in_order(names) if name not in LOOKS]
    return {
        name: LOOKS[name] if name in LOOKS else SPARE[unknown.index(name) % len(SPARE)]
        for name in in_order(names)
    }
