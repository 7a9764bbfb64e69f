"""Why a claim waits: one structure for the command line, exceptions, JSON and frames."""

import msgspec


class Blocker(msgspec.Struct, frozen=True):
    """Somebody whose units, or whose earlier place, the claim waits for."""

    claim: str
    """Printed id of the claim or lease, e.g. `7K4M-Q2`."""
    holder: str
    """Agent and host, e.g. `ci@runner-4`."""
    reason: str
    pool: str
    units: tuple[str, ...]
    """Unit names held; empty when it waits, too, and is older."""
    waiting: bool = False
    until_ms: int | None = None
    """Wall time in Unix ms of its end as known now; None: no end known."""
    renewing: bool = True
    node: str = ""
    """Where these units are, or where it is in line; empty: where the claim was made."""
    party: str = ""
    """Its id between nodes, as long as its own node has not told what people call it; then `claim` is empty."""


class NodeLine(msgspec.Struct, frozen=True):
    """The claim's place at one node, for a claim that is in line elsewhere, too."""

    node: str
    placement: int
    """Which of its placements this belongs to, from 1; the first that is granted wins."""
    state: str
    """`waits`, `your limit`, `has its units`, `comes later` (numbers as if it came now), `in reserve` (the same, when
    another placement takes long) or `not asked`."""
    position: int = 0
    waiting: int = 0
    ahead: int = 0
    overtaken: int = 0
    passes_left: int = 0
    passes_bound: int = 0
    pools: tuple[str, ...] = ()
    """Names of the pools that it wants there."""
    note: str = ""


class NeedWhy(msgspec.Struct, frozen=True):
    """One need of the claim against what its pools have."""

    spec: str
    free: int
    total: int
    state: str
    """`ok`, `busy`, `kept aside` (free, but kept for an older claim), `your limit`, `unusable`, `too few exist`."""
    set_aside: int = 0
    """Units that are free and kept for older claims that can't be passed any more."""
    unusable: int = 0
    """Units in quarantine, cooldown or draining."""


class Why(msgspec.Struct, frozen=True):
    """The whole answer. Bounds: at most `passes_left` younger claims can still get ahead.

    Without `lines` all numbers are of one node. Else they are of the placement that can be passed least, its
    nodes' passes added up, and its place is the one at the node where it stands in line now.
    """

    claim: str
    """Printed id; of the lease for an exchange; empty when the request was refused before it became a claim."""
    holder: str
    since_ms: int
    """Wall time of the claim in Unix ms."""
    position: int
    """1 = next; 0: refused before it could be in line. Counts the waiting claims that want one of the same pools and are older, plus one."""
    waiting: int
    """Claims that wait for one of the same pools, this one included."""
    ahead: int
    """Older claims that waited here when this one came."""
    overtaken: int
    passes_left: int
    passes_bound: int
    """What `overtaken` can reach at most: passes + passes_per_ahead x ahead."""
    needs: tuple[NeedWhy, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    """The first 8."""
    blockers_more: int = 0
    note: str = ""
    """E.g. quarantine after a restart and its end."""
    reason: str = ""
    node: str = ""
    """The node where it was made: where it is cancelled."""
    lines: tuple[NodeLine, ...] = ()
    """Its places at all nodes, when it has some at another node than that; placements that are in reserve come last."""
    in_line: bool = True
    """False: it stands in no line at that node now (quarantine, kept back, away), so nothing bounds who gets ahead of it."""
    bounded: bool = True
    """False: the protocol of this system states no bound of younger claims that get ahead; `passes_left` and
    `passes_bound`, here and in `lines`, say nothing then."""
