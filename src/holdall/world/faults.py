"""Which faults a world allows, and how many of each.

restart
    A host ends between two turns and comes up with what it saved. Any part of the messages in flight to it is lost.
crash
    As restart, and also within a turn: its records are saved, only its first messages have left.
reboot
    A manager's host comes up under another kernel boot: rows that hold units are kept, its queue is not, new epoch.
wipe
    A manager's host comes up with nothing kept: new epoch, quarantine until every lease of before has ended. A
    deadline is far longer than a message is under way: as timers, it comes when nothing is in flight.
loss, duplicate
    One message in flight vanishes, or arrives and is still in flight.
expiry
    A live claimant's lease at one node runs out: first by the claimant's clock, then, any time later, at the node.
cancel
    A client ends a claim that waits.
departure
    A claimant's host falls silent for ever; its leases run out at every node, in any order.
gone
    A node with pools never comes back. What it sent last may be lost, too. Its leases run out by their claimants'
    clocks; a claim that needs it is given up sooner or later; and all who deal with it are told, in any order, that it
    has left the system. All that takes far longer than a message is under way: it comes when nothing is in flight.
"""

from collections.abc import Iterable

from holdall.world.plan import BadWorld

KINDS = ("crash", "restart", "reboot", "wipe", "loss", "duplicate", "expiry", "cancel", "departure", "gone")
BUDGET_MAX = 9

Budget = tuple[int, ...]
"""How many of each kind are left, in the order of KINDS."""

NONE: Budget = (0,) * len(KINDS)


def budget(**counts: int) -> Budget:
    """`budget(crash=1, loss=1)`."""
    unknown = set(counts) - set(KINDS)
    if unknown:
        raise BadWorld(f"no fault {min(unknown)!r}; the faults are {', '.join(KINDS)}")
    return tuple(counts.get(kind, 0) for kind in KINDS)


def read_faults(text: str) -> Budget:
    """`crash=1,loss=1`; a kind alone means 1; empty means none. Raises BadWorld."""
    counts: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        kind, _, number = part.partition("=")
        if kind not in KINDS:
            raise BadWorld(f"no fault {kind!r}; the faults are {', '.join(KINDS)}")
        if kind in counts:
            raise BadWorld(f"{kind} is named twice; give one number")
        if not (number or "1").isascii() or not (number or "1").isdigit() or len(number) > 3:
            raise BadWorld(f"can't read {part!r}; write {kind}=NUMBER")
        counts[kind] = int(number or "1")
        if counts[kind] > BUDGET_MAX:
            raise BadWorld(f"{part!r}: at most {BUDGET_MAX}; exhaustive search needs a smaller world")
    return budget(**counts)


def text_of(left: Budget) -> str:
    """`crash=1,loss=1`, empty for none."""
    return ",".join(f"{kind}={count}" for kind, count in zip(KINDS, left, strict=True) if count)


def spend(left: Budget, kind: str) -> Budget:
    """One less of `kind`."""
    place = KINDS.index(kind)
    return (*left[:place], left[place] - 1, *left[place + 1 :])


def repairs_needed(kinds: Iterable[int]) -> bool:
    """Whether messages may be lost, so that repair timers have work (a departure or cancel loses none)."""
    counts = dict(zip(KINDS, kinds, strict=True))
    return any(counts[kind] for kind in ("crash", "restart", "reboot", "wipe", "loss", "duplicate", "gone"))
