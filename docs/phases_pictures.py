"""Draws the phases of each protocol's claims from explored transitions, so that pictures can't differ from the code."""

from pathlib import Path

from holdall.explorer.systems import PROTOCOLS
from holdall.lab.phases import run_phases

SMALL = {
    "chain": ("x2low", "cancel=1,expiry=1"),
    "game": ("pair", "cancel=1"),
    "game-complete": ("pair", "cancel=1"),
    "lanes": ("pair", "cancel=1,expiry=1"),
    "lanes-lending": ("sub", "cancel=1"),
}
"""World and faults of those that don't take the usual ones."""
USUAL = ("pair", "cancel=1,expiry=1")


def write_phases(folder: Path, shipped: frozenset[str]) -> None:
    """One picture a protocol that nodes can run."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in sorted(shipped & PROTOCOLS.keys()):
        world, faults = SMALL.get(name, USUAL)
        picture = folder / f"{name}.svg"
        if run_phases(name, world, faults, svg=picture):
            raise RuntimeError(f"the phases of {name} can't be drawn")
