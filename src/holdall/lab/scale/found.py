"""What `lab scale` found, as values and as one table."""

import msgspec

from holdall.lab.compare.sheet import Sheet
from holdall.lab.scale.measure import Scale

JSON_VERSION = 1


class Scales(msgspec.Struct, kw_only=True):
    """The JSON document."""

    v: int = JSON_VERSION
    version: str
    runs: list[Scale]
    seconds: float


def sheet(found: Scales) -> Sheet:
    """All runs as one table."""
    return Sheet(
        "The same load on each node, more and more nodes",
        (
            "protocol", "nodes", "regions", "grants", "messages/claim", "mean wait", "p99", "longest", "KiB/node",
            "more B/claim", "messages/s",
        ),
        [
            (
                one.protocol, f"{one.nodes:,}", "-" if one.regions is None else f"{one.regions}", f"{one.grants:,}",
                f"{one.messages:.2f}", f"{one.mean:.1f}", f"{one.p99:.0f}", f"{one.longest:.0f}",
                f"{one.kib_per_node:.1f}", f"{one.bytes_per_claim:.1f}", f"{one.delivered / max(one.seconds, 1e-9):,.0f}",
            )
            for one in found.runs
        ],
        "Waits in mean message delays (with regions 1 is 50 ms). KiB/node: memory of a node with its pool and a client. More B/claim: "
        "memory that the second half needed beyond the first, by its claims; 8 are the wait itself.",
    )  # fmt: skip
