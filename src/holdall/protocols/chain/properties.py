"""What must hold in every state of a system that runs the chain. Source: chain specification, section 4.

Each function returns what is wrong, in words; an empty list when all is well.
"""

from collections.abc import Iterable, Mapping

from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.chain.claims import Inside, family_of
from holdall.protocols.chain.manager import Manager
from holdall.protocols.chain.rows import Row
from holdall.protocols.vocabulary import ClaimId


def over_capacity(manager: Manager, *, lowered: Iterable[str] = ()) -> list[str]:
    """S1: active rows use no more than there is. `lowered`: pools that lost units while they were in use."""
    exempt = set(lowered)
    use: dict[str, int] = {}
    for row in manager.rows.values():
        if row.active:
            for pool, units in row.vector:
                use[pool] = use.get(pool, 0) + units
    return [
        f"{manager.node}: {use[pool]} units of {pool} in use, {manager.capacity(pool)} there"
        for pool in sorted(use)
        if pool not in exempt and use[pool] > manager.capacity(pool)
    ]


def without_ground(managers: Mapping[str, Manager]) -> list[str]:
    """I1: a row that was sent on stands on an active row of the node before, made active that often.

    No ground is needed from a node where the claim is buried or has come again (it is over as a whole, or was
    shrunk to nothing there), nor from one that has lost its queue since the claim learned of its epoch. A node whose
    journal lacked its last turns may also have kept the row of an earlier activation, under another epoch. What
    stands on that is let be for as long as it takes: a claim that still waits comes again when its node has listed
    it there, a granted one ends within the quarantine, and a grant that comes later counts only when the units are
    confirmed. So nobody ever uses units that the node has not set aside, which the simulator checks unit by unit.
    """
    wrong: list[str] = []
    for node in sorted(managers):
        for claim in sorted(managers[node].rows):
            row = managers[node].rows[claim]
            if row.index > 0 and row.need[row.index - 1].node in managers:
                before = managers[row.need[row.index - 1].node]
                if not _is_ground(before, row):
                    wrong.append(f"{claim} is at {node} by Promote {row.pn}; {before.node} has not that row")
    return wrong


def _is_ground(before: Manager, row: Row) -> bool:
    ground = before.row_of(row.claim, row.attempt)
    came_anew = before.epoch != row.need[row.index - 1].epoch
    if ground is None:
        return before.is_over(row.claim, row.attempt) or came_anew
    if came_anew and ground.n < row.pn:
        return True
    return ground.active and ground.n == row.pn


def passed_too_often(manager: Manager) -> list[str]:
    """`left` is never below zero: nobody is passed more often than the bound that is shown."""
    return [
        f"{manager.node}: {claim} was passed {row.overtaken} times, the bound is {row.bound}"
        for claim, row in sorted(manager.rows.items())
        if row.left < 0
    ]


def siblings_inside(claimant: Claimant) -> list[str]:
    """At most one placement of a claim is granted."""
    inside: dict[ClaimId, int] = {}
    for phase in claimant.claims.values():
        if isinstance(phase, Inside) and phase.plan.companion_of is None:
            known = family_of(phase.claim)
            inside[known] = inside.get(known, 0) + 1
    return [f"{claim} is granted at {count} places" for claim, count in sorted(inside.items()) if count > 1]


def miscounted(manager: Manager) -> list[str]:
    """What is counted beside the rows is what the rows say."""
    fresh = manager.recounted()
    return [] if fresh == manager.counts else [f"{manager.node}: counts are not those of the rows"]


def all_wrong(managers: Iterable[Manager], claimants: Iterable[Claimant] = ()) -> list[str]:
    """Every property of the chain at once."""
    every = {manager.node: manager for manager in managers}
    wrong = without_ground(every)
    for manager in every.values():
        wrong += over_capacity(manager) + passed_too_often(manager)
    for claimant in claimants:
        wrong += siblings_inside(claimant)
    return wrong
