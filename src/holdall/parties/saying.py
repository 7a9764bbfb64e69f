"""Who may say what: a message that no correct node could send from there is refused before it changes anything.

The sender's node is the bus's word, its part and the message are the peer's. A node speaks only for its own claims,
and for the places before and after it in a claim's need. What is left to a member that lies: it may kill, delay or
forget claims that visit it, and grant units of its own twice. Source: chain specification, 2.5 (senders).
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from holdall.machine.contract import Address, ProtocolViolation
from holdall.protocols.chain.claims import AnyPhase, Plan
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    Entered,
    ExtendRow,
    Kill,
    Killed,
    Promote,
    Request,
    ShrinkRow,
    ToClaimantOnWire,
    ToManager,
    Tried,
    Try,
)
from holdall.protocols.chain.rows import Row, is_limit_pool
from holdall.protocols.vocabulary import ALL, Stamp, Terms, UnitGrant, Vector, Visit

ALTERNATIVES_MAX = 4
NODES_MAX = 1000
POOLS_MAX = 1000
"""Nodes in a need and pools in a vector: far above what anybody can ask for."""
AHEAD_MAX_MS = 10 * 365 * 86_400_000
"""How far a stamp may be ahead of the node's own clock, once that follows a wall clock."""
_WALL_CLOCK = 1_000_000_000_000
FOR_MAX_MS = 1 << 50


_NEIGHBOURS = frozenset({Promote, Kill, Killed})
"""What managers say to each other; all else comes from the claim's node."""
_SHORT = frozenset({Done, Kill, Killed, Entered})
"""They say nothing but which attempt they are about. Types are compared since this runs for each message of a node."""


def _refuse(sender: Address, message: object, why: str) -> ProtocolViolation:
    return ProtocolViolation(f"{type(message).__name__} from {sender}: {why}")


# ------------------------------------------------------------ to a manager


def check_to_manager(
    node: str, sender: Address, message: ToManager, row: Row | None, *, clock: int, ttl_max_ms: int | None
) -> None:
    """`row`: what is here of the claim. Raises ProtocolViolation."""
    kind = type(message)
    if kind in _NEIGHBOURS:
        _check_neighbour(node, sender, cast("Promote | Kill | Killed", message), row)
    elif sender.node != message.claim.node:
        raise _refuse(sender, message, f"only {message.claim.node} speaks for {message.claim}")
    if not message.attempt >= 1:
        raise _refuse(sender, message, "attempts count from 1")
    if kind in _SHORT:
        return
    match message:
        case Request() | Promote():
            _check_need(sender, message, message.need)
            _check_terms(sender, message, message.terms, ttl_max_ms)
            _check_stamp(sender, message, message.stamp, clock)
        case Try():
            _check_alternatives(sender, message, message.alternatives)
            _check_terms(sender, message, message.terms, ttl_max_ms)
        case ExtendRow(_, _, for_ms):
            if not 1 <= for_ms <= FOR_MAX_MS:
                raise _refuse(sender, message, f"a hard end after {for_ms} ms")
        case ShrinkRow(_, _, keep):
            if any(units < 0 for _, units in keep):
                raise _refuse(sender, message, "less than nothing can't be kept")
        case _:
            pass


def _check_neighbour(node: str, sender: Address, message: Promote | Kill | Killed, row: Row | None) -> None:
    mine = row is not None and row.attempt == message.attempt
    match message:
        case Promote(need=need, position=position):
            if not 1 <= position < len(need) or len(message.got) != position or message.pn < 1:
                raise _refuse(sender, message, f"position {position} of {len(need)}")
            if need[position].node != node or need[position - 1].node != sender.node:
                raise _refuse(sender, message, f"{node} does not follow {sender.node} in its need")
            before = {visit.node for visit in need[:position]}
            if any(unit.node not in before for unit in message.units):
                raise _refuse(sender, message, "units of nodes that it has not been to")
        case Kill() if message.pn < 1:
            raise _refuse(sender, message, "nobody is sent here before the first time")
        case Kill() if row is not None and message.attempt >= row.attempt:
            # A later attempt than the row's ends it, so that may not come from just anybody either. From its first node
            # after another placement it may overtake its Promote; then it is said again.
            if row.index == 0 or row.need[row.index - 1].node != sender.node:
                raise _refuse(sender, message, f"{sender.node} does not come before {node} in its need")
        case Killed() if mine and row is not None:
            if row.last or row.need[row.index + 1].node != sender.node:
                raise _refuse(sender, message, f"{sender.node} does not follow {node} in its need")
        case _:
            # Nothing here to hold it against: it concerns a claim that is over, or that it has overtaken.
            pass


def _check_need(sender: Address, message: object, need: Sequence[Visit]) -> None:
    if not 1 <= len(need) <= NODES_MAX or len({visit.node for visit in need}) != len(need):
        raise _refuse(sender, message, "a need names 1 to 1000 nodes, each once")
    for visit in need:
        _check_alternatives(sender, message, visit.alternatives)


def _check_alternatives(sender: Address, message: object, alternatives: tuple[Vector, ...]) -> None:
    why = _wrong_with(alternatives)
    if why:
        raise _refuse(sender, message, why)


@lru_cache(maxsize=1 << 8)
def _wrong_with(alternatives: tuple[Vector, ...]) -> str:
    """Empty when all is well. A claim says the same again at every node, and a client the same in most of its claims."""
    if not 1 <= len(alternatives) <= ALTERNATIVES_MAX:
        return "1 to 4 alternatives on a node"
    for vector in alternatives:
        pools = [pool for pool, _ in vector]
        if not 1 <= len(pools) <= POOLS_MAX or len(set(pools)) != len(pools):
            return "a vector names 1 to 1000 pools, each once"
        if any(is_limit_pool(pool) for pool in pools):
            return "limit pools are added by the node itself"
        if any(units < 1 and units != ALL for _, units in vector):
            return "at least one unit of each pool"
    return ""


def _check_terms(sender: Address, message: object, terms: Terms, ttl_max_ms: int | None) -> None:
    most = FOR_MAX_MS if ttl_max_ms is None else ttl_max_ms
    if not 1 <= terms.ttl_ms <= most:
        # A longer one could outlive the quarantine after a loss of the journal.
        raise _refuse(sender, message, f"ttl {terms.ttl_ms} ms; at most {most} ms here")
    if terms.for_ms is not None and not 1 <= terms.for_ms <= FOR_MAX_MS:
        raise _refuse(sender, message, f"a hard end after {terms.for_ms} ms")


def _check_stamp(sender: Address, message: object, stamp: Stamp | None, clock: int) -> None:
    if stamp is not None and clock > _WALL_CLOCK and stamp.clock > clock + AHEAD_MAX_MS:
        raise _refuse(sender, message, "a stamp more than ten years ahead")


# ------------------------------------------------------------ to a claimant


def check_to_claimant(node: str, sender: Address, message: ToClaimantOnWire, phase: AnyPhase | None) -> None:
    """`phase`: the claim as it is known here; an answer about one that is over is late, not wrong. Raises ProtocolViolation."""
    if message.claim.node != node:
        raise _refuse(sender, message, f"{message.claim} is another node's claim")
    if phase is None:
        return
    plan = phase.plan
    asked = {*plan.nodes, *(owing for owing, _ in phase.owed)}
    asked.update(visit.node for place in plan.spares for visit in place)
    if sender.node not in asked:
        raise _refuse(sender, message, f"{message.claim} was never asked for there")
    if message.attempt != phase.attempt:
        # Late, or this node's journal lacks its last turns: either way nobody listens.
        return
    match message:
        case Allowed():
            _check_allowed(sender, message, plan)
        case Tried(_, _, True, units):
            here = [visit for visit in plan.need if visit.node == sender.node]
            if not here or not _is_one_of(here[0], units):
                raise _refuse(sender, message, "units that were not asked for")
        case _:
            pass


def _check_allowed(sender: Address, message: Allowed, plan: Plan) -> None:
    if plan.nodes[-1] != sender.node:
        raise _refuse(sender, message, f"only {plan.nodes[-1]}, its last node, grants it")
    if len({unit.node for unit in message.units} | set(plan.nodes)) != len(plan.nodes):
        raise _refuse(sender, message, "units of nodes that it was not sent to")
    for visit in plan.need:
        if not _is_one_of(visit, [unit for unit in message.units if unit.node == visit.node]):
            raise _refuse(sender, message, f"other units at {visit.node} than were asked for")


def _is_one_of(visit: Visit, units: Sequence[UnitGrant]) -> bool:
    """Whether the units are one of the alternatives, whole."""
    have = Counter(unit.pool for unit in units)
    return all(unit.node == visit.node for unit in units) and any(
        {pool for pool, _ in vector} == set(have)
        and all(count in (ALL, have[pool]) for pool, count in vector)
        for vector in visit.alternatives
    )
