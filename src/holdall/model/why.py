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
    """The whole answer. Bounds: at most `passes_left` younger claims can still get ahead at this node."""

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
