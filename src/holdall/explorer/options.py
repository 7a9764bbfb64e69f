"""How a world is explored: what links do, when timers fire, which reductions are made, and what each of them keeps."""

import msgspec

from holdall.explorer.links import Order
from holdall.explorer.moves import Timers
from holdall.explorer.space import Space
from holdall.world.faults import Budget
from holdall.world.plan import BadWorld
from holdall.world.system import System

REDUCTIONS = {
    "late": "messages that change nothing whenever they come are delivered first: keeps every property",
    "overtaken": "what a newer message of its link has overtaken is gone: keeps every property while receivers "
    "ignore it for ever (that they ignore it at that moment is asserted)",
    "newest": "a newer message of a link takes an older one's place in flight: an assumption about links, runs in "
    "which the older one arrives in between are not looked at",
    "ignored": "what its receiver ignores for ever is gone at once: keeps every property",
    "symmetry": "states that differ by an exchange of equal clients count once: keeps every property but fair cycles, "
    "which are not looked for (that machines treat equal clients alike is asserted in a sample)",
}
"""What `--reduce` takes, and what is true of a result with it."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to explore one world."""

    timers: Timers | None = None
    """None: quiet when the faults can lose something, else off."""
    claimants_crash: bool = True
    falling: str = ""
    """The only host that falls; empty: each may."""
    order: Order = "any"
    reduce: tuple[str, ...] = ()

    def space(self, system: System, left: Budget) -> Space:
        """The moves of a world under these rules. Raises BadWorld where they exclude each other."""
        return Space(
            system,
            left,
            timers=self.timers,
            claimants_crash=self.claimants_crash,
            falling=self.falling,
            reduced="late" in self.reduce,
            order=self.order,
            newest="newest" in self.reduce,
            overtaken="overtaken" in self.reduce,
            symmetry="symmetry" in self.reduce,
            ignored="ignored" in self.reduce,
        )

    def said(self) -> list[str]:
        """What is assumed or left out, for people; nothing when the search is exact over reordering links."""
        order = ["links keep order: nothing overtakes within a link"] if self.order == "fifo" else []
        return [*order, *(f"{name}: {REDUCTIONS[name]}" for name in self.reduce)]


def read_reduce(text: str) -> tuple[str, ...]:
    """`late,newest` -> names in a fixed order. Raises BadWorld."""
    names = {part.strip() for part in text.split(",") if part.strip()}
    if unknown := sorted(names - REDUCTIONS.keys()):
        raise BadWorld(f"no reduction {unknown[0]!r}; there are {', '.join(REDUCTIONS)}")
    return tuple(name for name in REDUCTIONS if name in names)


def read_order(text: str) -> Order:
    """What `--links` takes. Raises BadWorld."""
    match text:
        case "any" | "fifo":
            return text
        case _:
            raise BadWorld(f"no rule for links {text!r}; write any (they reorder) or fifo (they keep order)")
