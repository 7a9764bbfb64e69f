"""`holdall why` in words: the same structure that exceptions and JSON carry."""

from holdall.cli.tables import ago, clock_time, plain
from holdall.model.names import short_id, unit_text
from holdall.model.why import Blocker, NeedWhy, Why


def why_lines(why: Why) -> list[str]:
    """The whole answer, a line each: place, needs, who blocks, how many can still get ahead."""
    lines = [
        f"claim {short_id(why.claim)} of {plain(why.holder)}"
        + (f' "{plain(why.reason)}"' if why.reason else "")
        + f" waits since {clock_time(why.since_ms)} ({ago(why.since_ms)})",
        f"place     {ordinal(why.position)} of {why.waiting}",
    ]
    lines += [f"need      {need_text(need)}" for need in why.needs]
    lines += [f"blocked   by {blocker_text(blocker)}" for blocker in why.blockers]
    if why.blockers_more:
        lines.append(f"          and {why.blockers_more} more")
    lines.append(f"fairness  {bound_text(why)}")
    if why.note:
        lines.append(f"note      {plain(why.note)}")
    return lines


def bound_text(why: Why) -> str:
    """How often it was passed, and the most that can still happen."""
    claims = "claim waited" if why.ahead == 1 else "claims waited"
    return (
        f"{why.ahead} {claims} before you when you came; at most {why.passes_bound} younger ones can get ahead of you at this node; "
        f"{why.overtaken} did, {why.passes_left} still can"
    )


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
    facts = [", ".join(plain(unit_text(blocker.pool, unit)) for unit in blocker.units) or plain(blocker.pool)]
    if blocker.waiting:
        facts.append("waiting, older")
    elif blocker.until_ms is not None:
        facts.append(f"until {clock_time(blocker.until_ms)}")
    if not blocker.waiting:
        facts.append("renewing" if blocker.renewing else "not renewing")
    reason = f' "{plain(blocker.reason)}"' if blocker.reason else ""
    return f"{plain(blocker.holder)}{reason} ({', '.join(facts)}) [{short_id(blocker.claim)}]"


def ordinal(number: int) -> str:
    """How people count places: 1st, 2nd, 3rd, 4th, 11th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
