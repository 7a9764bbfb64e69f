"""What a driver tells its own host's link; it comes from the own node, so no peer can say it."""

from typing import TypeAlias

import msgspec

from holdall.machine.codec import CODEC


class AllParts(msgspec.Struct, frozen=True, tag="all_parts"):
    """From now on all parts speak with other nodes; until then only those that the link was told at construction.

    What the others sent and were to get until then has waited.
    """


class Shun(msgspec.Struct, frozen=True, tag="shun"):
    """Of what comes from this node, only the parts that spoke first are to hear anything."""

    node: str


LinkOrder: TypeAlias = AllParts | Shun

CODEC.register("link order", LinkOrder)
