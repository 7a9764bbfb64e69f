"""Texts for people: what happened, the facts, the next step."""

from collections.abc import Sequence
from difflib import get_close_matches

from holdall.model.durations import show_duration
from holdall.model.frames import Selector
from holdall.model.names import short_id
from holdall.model.spec import ALL_COUNT, show_spec
from holdall.model.why import Why
from holdall.parties.planning.ways import PoolFacts, Unplaceable
from holdall.parties.records import ClaimRecord

_DAY_S = 86_400
WHERE_MAX = 8
"""Nodes or pools that a text names."""


def clock_text(wall_ms: int, utc_offset_s: int, *, seconds: bool = True) -> str:
    """The time of day in the node's time zone: `14:02:10`, or `14:02`."""
    of_day = (wall_ms // 1000 + utc_offset_s) % _DAY_S
    hours, rest = divmod(of_day, 3600)
    text = f"{hours:02}:{rest // 60:02}"
    return f"{text}:{rest % 60:02}" if seconds else text


def never(found: Unplaceable, pools: Sequence[PoolFacts], node: str, others: Sequence[str]) -> str:
    """Why a claim can never be granted: have and ask of the need in question.

    `node` is the name of this node, `others` are those of the other nodes of the system.
    """
    begin = f"cannot ever be granted: {show_spec(found.selector)}"
    exist = sum(facts.total for facts in found.matching)
    where = _where(found.matching, node)
    relax = "".join(f"relax {key}=, " for key, _ in found.selector.labels[:1])
    if found.overlap:
        return (
            f"{begin} beside the claim's other needs — {_units_exist(exist, 'such unit')} "
            f"({where}), and needs that overlap get distinct units. "
            "Ask for fewer units, relax a label, or add --allow-future."
        )
    if found.apart or (found.elsewhere and not exist):
        return f"{begin} — {_out_of_reach(found, node)}"
    if exist:
        text = f"{begin} — {_units_exist(exist, 'such unit')} ({where})."
        if found.elsewhere:
            text += f" {_only_there(found.elsewhere, 'More', node)}"
        return f"{text} Ask for ≤ {exist}, {relax}or add --allow-future."
    nothing = _nothing_matches(found.selector, pools, node, others)
    return f"{begin} — {nothing} See: holdall pools. Or add --allow-future."


def _where(pools: Sequence[PoolFacts], node: str) -> str:
    """`lab-1: 2, lab-3: 1`: units that exist, node by node; the own one first, then by name."""
    sums: dict[str, int] = {}
    for facts in pools:
        name = facts.at or node
        sums[name] = sums.get(name, 0) + facts.total
    names = sorted(sums, key=lambda name: (name != node, name))
    shown = ", ".join(f"{name}: {sums[name]}" for name in names[:WHERE_MAX])
    return shown + (f", … {len(names) - WHERE_MAX} more nodes" if len(names) > WHERE_MAX else "")


def _out_of_reach(found: Unplaceable, node: str) -> str:
    """The rule of `reach`, with the nodes where the command could run."""
    if found.apart:
        exist = sum(facts.total for facts in found.matching)
        name = next(facts.name for facts in found.matching if facts.host_only)
        here = [facts.at for facts in found.matching if facts.host_only][:1]
        return (
            f"{_units_exist(exist, 'such unit')} ({_where(found.matching, node)}), but pool {name} has "
            f'reach = "host": one need on it stays on the node where the command runs ({here[0]}). '
            "Ask for fewer units, or write the needs one by one."
        )
    return _only_there(found.elsewhere, "such units", node) + " Or add --allow-future."


def _only_there(elsewhere: Sequence[PoolFacts], what: str, node: str) -> str:
    exist = sum(facts.total for facts in elsewhere)
    best = max(elsewhere, key=lambda facts: (facts.total, facts.free))
    are = f"{_units_exist(exist, 'such unit')}" if what == "such units" else f"{what} exist"
    place = "elsewhere" if best.at != node else "there"
    how = f"--on {best.at}." if best.at != node else "log in there, or let a job do it: holdall job run."
    return (
        f'{are} {place} ({_where(elsewhere, "")}), but pool {best.name} has reach = "host": it is used only '
        f"where the command runs. Run it there: {how}"
    )


def _units_exist(count: int, what: str) -> str:
    return f"{count} {what} exists" if count == 1 else f"{count} {what}s exist"


def _nothing_matches(selector: Selector, pools: Sequence[PoolFacts], node: str, others: Sequence[str]) -> str:
    at = selector.node
    if at and at != node and at not in others:
        near = get_close_matches(at, others, n=1)
        guess = f' Did you mean "{near[0]}"?' if near else ""
        return f'no node "{at}" is known here (this is {node}). Check @NODE, or leave it out.{guess}'
    there = [facts for facts in pools if not at or facts.at == at]
    names = sorted({facts.name for facts in there})
    missing = [pool for pool in selector.pools if pool not in names]
    if len(missing) == len(selector.pools):
        near = get_close_matches(missing[0], names, n=1)
        guess = f' Did you mean "{near[0]}"?' if near else ""
        shown = ", ".join(names[:WHERE_MAX]) + (", …" if len(names) > WHERE_MAX else "")
        number = len(others)
        place = at or (f"{node} and {number} other node{'s' * (number > 1)}" if others else node)
        return f'no pool "{missing[0]}" on {place} (pools: {shown or "none"}).{guess}'
    if selector.labels:
        labels = ",".join(f"{key}={value}" for key, value in selector.labels)
        return f"pool {'+'.join(selector.pools)} exists, but none with {labels}. Relax a label."
    asked = "all" if selector.count == ALL_COUNT else str(selector.count)
    return f"the pool exists, but has no units ({asked} asked)."


def not_granted(why: Why, *, waited_ms: int | None, utc_offset_s: int) -> str:
    """`waited_ms` None: the claim did not want to wait."""
    begin = "not free now" if waited_ms is None else f"not granted within {_plain_duration(waited_ms)}"
    busy = [need for need in why.needs if need.state != "ok"]
    needs = ", ".join(f"{need.spec} {need.state}" for need in busy) or "waiting for older claims"
    text = f"{begin}: {needs}."
    holders = [one for one in why.blockers if not one.waiting]
    if holders:
        first = holders[0]
        reason = f' "{first.reason}"' if first.reason else ""
        until = f" until {clock_text(first.until_ms, utc_offset_s, seconds=False)}" if first.until_ms else ""
        renewing = " (renewing)" if first.renewing else ""
        text += f" Held by {first.holder}{reason}{until}{renewing}."
    elif why.blockers:
        text += f" {why.blockers[0].holder} waits in front."
    if why.note:
        text += f" {why.note[0].upper()}{why.note[1:]}."
    if any(need.state == "unusable" for need in busy):
        next_step = "holdall pools"  # nobody's end frees what is out of service
    else:
        next_step = "holdall who" if waited_ms is None else f"holdall why {short_id(why.claim)}"
    return f"{text} See: {next_step}"


def would_deadlock(held: ClaimRecord, unit_names: Sequence[str], site: str) -> str:
    """A waiting claim inside the scope of a lease; names both call sites."""
    taken = f", taken at {held.site}" if held.site else ""
    here = f" The claim at {site} asks for more than it covers." if site else ""
    return (
        f"you already hold {', '.join(unit_names[:4])} (lease {short_id(held.printed)}{taken}).{here} "
        "Waiting for it would never end. Use that lease, or lease.exchange(…), or ask without waiting (--now)."
    )


def lost_by_silence(printed: str, ttl_ms: int, at_ms: int, fences: Sequence[int], utc_offset_s: int) -> str:
    """Told to a holder that comes back too late."""
    since = clock_text(at_ms, utc_offset_s)
    return (
        f"lease {short_id(printed)} lost: no renewal came for {show_duration(ttl_ms)} "
        f"(holder silent since {since}). {void(fences)}"
    )


def left_by_silence(printed: str, ttl_ms: int, at_ms: int, utc_offset_s: int) -> str:
    """Told to a client that comes back too late for its place in the queue."""
    since = clock_text(at_ms, utc_offset_s)
    return (
        f"claim {short_id(printed)} lost its place: nothing was heard for {show_duration(ttl_ms)} "
        f"(client silent since {since}). Ask again."
    )


def void(fences: Sequence[int]) -> str:
    """Which fences nothing should accept any more: `Fence 118 is void`."""
    if not fences:
        return ""
    numbers = ", ".join(str(fence) for fence in sorted(fences)[:8])
    return f"Fence {numbers} is void." if len(fences) == 1 else f"Fences {numbers} are void."


def _plain_duration(milliseconds: int) -> str:
    """As one writes it on the command line: `10m`, `1h30m`, `42.75s`, `300ms`."""
    if 0 < milliseconds < 1000:
        return f"{milliseconds}ms"
    text, left = "", milliseconds
    for letter, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000)):
        if left >= size:
            text += f"{left // size}{letter}"
            left %= size
    return f"{text}{left / 1000:g}s" if left or not text else text
