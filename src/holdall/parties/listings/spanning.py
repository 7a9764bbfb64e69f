"""One answer out of what several nodes tell: the places of a claim on all its nodes, and what people call its blockers."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from holdall.model.names import pool_name
from holdall.model.why import Blocker, NodeLine, Why
from holdall.parties.explaining import BLOCKERS_MAX
from holdall.parties.listings.questions import LineOf, NamedOf, Places, WaitOf

NameOf = Callable[[str], str]

BEGUN = frozenset({"waits", "your limit", "has its units"})
STATES = {"waits": "waits", "parked": "your limit", "active": "has its units", "absent": "comes later"}


class Placed(msgspec.Struct, frozen=True):
    """One placement of a claim: its place at each of its nodes."""

    lines: tuple[NodeLine, ...]
    blockers: tuple[Blocker, ...]
    more: int

    @property
    def unknown(self) -> int:
        """Nodes that could not be asked."""
        return sum(1 for line in self.lines if line.state == "not asked")

    @property
    def begun(self) -> bool:
        """Whether it stands in line anywhere."""
        return any(line.state in BEGUN for line in self.lines)

    def in_reserve(self) -> "Placed":
        """It is asked for when another one takes long."""
        lines = tuple(
            msgspec.structs.replace(line, state="in reserve") if line.state == "comes later" else line
            for line in self.lines
        )
        return msgspec.structs.replace(self, lines=lines)

    @property
    def passes_left(self) -> int:
        return sum(line.passes_left for line in self.lines)

    @property
    def current(self) -> NodeLine:
        """Where it stands in line now: it has its units at all nodes before that one."""
        order = ("waits", "your limit", "comes later", "in reserve", "not asked", "has its units")
        return min(self.lines, key=lambda line: order.index(line.state))


def merged(
    wait: WaitOf, lines: Mapping[str, Sequence[LineOf]], not_asked: Mapping[str, str], name_of: NameOf
) -> Why:
    """The whole answer about a claim. `lines`: node id -> what that node told about this claim.

    The bound of one placement is the sum over its nodes (chain specification, section 3); of several placements the
    first that is granted wins, so the claim's bound is the smallest of theirs.
    """
    placed = [
        _placed(number, places, lines, not_asked, name_of)
        for number, places in enumerate(wait.placements, start=1)
        if places
    ]
    if not placed:
        return wait.why
    if any(one.begun for one in placed):
        placed = [one if one.begun else one.in_reserve() for one in placed]
    best = min(placed, key=lambda one: (not one.begun, one.unknown, one.passes_left))
    current = best.current
    ordered = [best, *(one for one in placed if one is not best)]
    blockers = tuple(dict.fromkeys(blocker for one in ordered for blocker in one.blockers))
    more = sum(one.more for one in placed) + max(0, len(blockers) - BLOCKERS_MAX)
    return msgspec.structs.replace(
        wait.why,
        position=current.position,
        waiting=current.waiting,
        ahead=sum(line.ahead for line in best.lines),
        overtaken=sum(line.overtaken for line in best.lines),
        passes_left=best.passes_left,
        passes_bound=sum(line.passes_bound for line in best.lines),
        blockers=blockers[:BLOCKERS_MAX],
        blockers_more=more,
        lines=tuple(line for one in sorted(placed, key=lambda one: not one.begun) for line in one.lines),
    )


def _placed(
    number: int,
    places: Places,
    lines: Mapping[str, Sequence[LineOf]],
    not_asked: Mapping[str, str],
    name_of: NameOf,
) -> Placed:
    nodes = tuple(sorted(node for node, _ in places))
    found: list[NodeLine] = []
    blockers: list[Blocker] = []
    more = 0
    for node, pools in places:
        line = _line_at(lines.get(node, ()), nodes)
        if line is not None:
            blockers += [msgspec.structs.replace(blocker, node=name_of(node)) for blocker in line.blockers]
            more += line.more
        found.append(_node_line(number, name_of(node), pools, line, not_asked.get(node, "")))
    return Placed(tuple(found), tuple(blockers), more)


def _line_at(lines: Iterable[LineOf], nodes: tuple[str, ...]) -> LineOf | None:
    absent: LineOf | None = None
    for line in lines:
        if tuple(sorted(line.nodes)) == nodes:
            return line
        if line.state == "absent":
            absent = line
    return absent


def _node_line(number: int, name: str, pools: Sequence[str], line: LineOf | None, trouble: str) -> NodeLine:
    names = tuple(sorted({pool_name(pool) for pool in pools}))
    if line is None:
        state = "not asked" if trouble else "comes later"
        return NodeLine(node=name, placement=number, state=state, pools=names, note=trouble)
    return NodeLine(
        node=name,
        placement=number,
        state=STATES[line.state],
        position=line.position,
        waiting=line.waiting,
        ahead=line.ahead,
        overtaken=line.overtaken,
        passes_left=line.passes_left,
        passes_bound=line.passes_bound,
        pools=names,
        note=line.note,
    )


def named(why: Why, names: Mapping[str, NamedOf]) -> Why:
    """With what people call its blockers, where their own nodes have told."""
    if not any(blocker.party for blocker in why.blockers):
        return why
    return msgspec.structs.replace(
        why, blockers=tuple(_named(blocker, names.get(blocker.party)) for blocker in why.blockers)
    )


def _named(blocker: Blocker, told: NamedOf | None) -> Blocker:
    if told is None:
        return blocker
    return msgspec.structs.replace(
        blocker,
        claim=told.printed,
        holder=told.holder,
        reason=told.reason,
        until_ms=told.until_ms,
        renewing=told.renewing,
        party="",
    )
