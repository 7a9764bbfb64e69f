"""`holdall why` in words: the same structure that exceptions and JSON carry."""

from holdall.cli.tables import ago, clock_time, plain
from holdall.model.names import short_id, unit_text
from holdall.model.why import Blocker, NeedWhy, NodeLine, Why

UNITS_MAX = 8
"""Units of one blocker that are named."""


def why_lines(why: Why) -> list[str]:
    """The whole answer, a line each: place, needs, nodes, who blocks, how many can still get ahead."""
    lines = [
        f"claim {short_id(why.claim)} of {plain(why.holder)}"
        + (f' "{plain(why.reason)}"' if why.reason else "")
        + (f" waits since {clock_time(why.since_ms)} ({ago(why.since_ms)})" if why.since_ms else " waits"),
        f"place     {place_text(why)}",
    ]
    lines += [f"need      {need_text(need)}" for need in why.needs]
    lines += node_lines(why)
    lines += [f"blocked   by {blocker_text(blocker)}" for blocker in why.blockers]
    if why.blockers_more:
        lines.append(f"          and {why.blockers_more} more")
    lines.append(f"fairness  {bound_text(why)}")
    if why.note:
        lines.append(f"note      {plain(why.note)}")
    return lines


def place_text(why: Why) -> str:
    """`2nd of 3`, with the node where that is when the claim is in line at several."""
    current = current_line(why)
    if current is None:
        return f"{ordinal(why.position)} of {why.waiting}"
    if current.state in IN_LINE:
        return f"{ordinal(why.position)} of {why.waiting} at {plain(current.node)}"
    if current.state == "not asked":
        return f"at {plain(current.node)}, which could not be asked"
    return f"{current.state} at {plain(current.node)}"


IN_LINE = ("waits", "your limit")


def current_line(why: Why) -> NodeLine | None:
    """The node whose place `Why` tells; None: it is in line at the node where it was made, and nowhere else."""
    standing = [line for line in why.lines if line.state in IN_LINE]
    here = [line for line in standing if (line.position, line.waiting) == (why.position, why.waiting)]
    first = [line for line in why.lines if line.state != "has its units"]
    return next(iter([*here, *standing, *first, *why.lines]), None)


def node_lines(why: Why) -> list[str]:
    """A line for each node: `node` and `and` of one placement, `or` where another placement begins."""
    lines: list[str] = []
    before = 0
    for line in why.lines:
        word = "node" if not before else "and" if line.placement == before else "or"
        before = line.placement
        lines.append(f"{word:<9} {node_text(line, bounded=why.bounded)}")
    return lines


def node_text(line: NodeLine, *, bounded: bool = True) -> str:
    """`lab-2: 2nd of 3 for gpu; 0 passed it, 8 still can`; without bound `lab-2: 2nd of 3 for gpu`."""
    pools = ", ".join(plain(pool) for pool in line.pools)
    match line.state:
        case "has its units":
            text = f"has its units of {pools}"
        case "waits" | "your limit":
            text = f"{ordinal(line.position)} of {line.waiting} for {pools}"
            if bounded:
                text += f"; {line.overtaken} passed it, {line.passes_left} still can"
            if line.state == "your limit":
                text += "; your limit at this node keeps it back"
        case "not asked":
            text = f"{pools}, not known" if pools else "not known"
        case _ if not line.waiting:
            text = f"{plain(line.state)}, for {pools}"
        case _:
            wait = "waits" if line.ahead == 1 else "wait"
            text = f"{plain(line.state)}, for {pools}: as of now {line.ahead} {wait} before it"
            if bounded:
                text += f" and {line.passes_left} can pass it"
    return f"{plain(line.node)}: {text}" + (f" ({plain(line.note)})" if line.note else "")


def bound_text(why: Why) -> str:
    """How often it was passed, and the most that can still happen."""
    if not why.bounded:
        return "the protocol of this system states no bound of younger claims that get ahead"
    claims = "claim waited" if why.ahead == 1 else "claims waited"
    if not why.in_line and not why.lines:
        return "it stands in no line now, so others can get ahead of it; it keeps its age"
    best = _bounding_lines(why)
    unknown = [line.node for line in best if line.state == "not asked"]
    if unknown:
        where = f"without what is at {', '.join(plain(node) for node in unknown)}"
    elif len(best) > 1:
        sums = " + ".join(str(line.passes_bound) for line in best)
        where = f"at its {len(best)} nodes ({sums})"
    else:
        where = f"at {plain(best[0].node)}" if best else "at this node"
    # A claim that waits at two nodes stands before you twice: sums over nodes count passes, not claims.
    ahead = "" if len(best) > 1 else f"{why.ahead} {claims} before you when you came; "
    return (
        f"{ahead}at most {why.passes_bound} younger ones can get ahead of you {where}; "
        f"{why.overtaken} did, {why.passes_left} still can"
    )


def _bounding_lines(why: Why) -> list[NodeLine]:
    """The lines of the placement whose sums `Why` tells."""
    for number in dict.fromkeys(line.placement for line in why.lines):
        lines = [line for line in why.lines if line.placement == number]
        sums = (sum(line.passes_left for line in lines), sum(line.passes_bound for line in lines))
        if sums == (why.passes_left, why.passes_bound):
            return lines
    return []


def need_text(need: NeedWhy) -> str:
    """`gpu:2 busy (0 of 4 free)`, with what is set aside or unusable."""
    parts = [f"{need.free} of {need.total} free"]
    if need.set_aside:
        parts.append(f"{need.set_aside} set aside for older claims")
    if need.unusable:
        parts.append(f"{need.unusable} out of service")
    return f"{plain(need.spec)} {need.state} ({', '.join(parts)})"


def blocker_text(blocker: Blocker) -> str:
    """`ci@runner-4 "soak test" (psu-2, until 14:02:10, renewing)`."""
    units = [plain(unit_text(blocker.pool, unit)) for unit in blocker.units[:UNITS_MAX]]
    if len(blocker.units) > UNITS_MAX:
        units.append(f"{len(blocker.units) - UNITS_MAX} more")
    facts = [
        (", ".join(units) or plain(blocker.pool)) + (f" on {plain(blocker.node)}" if blocker.node else "")
    ]
    if blocker.waiting:
        facts.append("waiting, older")
    elif blocker.until_ms is not None:
        facts.append(f"until {clock_time(blocker.until_ms)}")
    if not blocker.waiting and blocker.claim:
        facts.append("renewing" if blocker.renewing else "not renewing")
    reason = f' "{plain(blocker.reason)}"' if blocker.reason else ""
    claim = f" [{short_id(blocker.claim)}]" if blocker.claim else ""
    return f"{plain(blocker.holder)}{reason} ({', '.join(facts)}){claim}"


def ordinal(number: int) -> str:
    """How people count places: 1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
