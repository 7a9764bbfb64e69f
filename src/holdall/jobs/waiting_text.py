"""Why a task's claim waits, in one line: its place, what is busy, who has it."""

from holdall.model.names import short_id
from holdall.model.why import Blocker, Why


def waiting_text(why: Why) -> str:
    """`2nd of 3 · psu:1 busy 3/3 · blocked by ci@runner-4 "soak test" (psu-2)`."""
    parts: list[str] = []
    if why.position:
        parts.append(f"{_ordinal(why.position)} of {why.waiting}")
    parts += [
        f"{need.spec} {need.state} {need.total - need.free}/{need.total}"
        for need in why.needs
        if need.state != "ok"
    ]
    if why.blockers:
        more = len(why.blockers) - 1 + why.blockers_more
        parts.append(f"blocked by {_blocker(why.blockers[0])}" + (f" and {more} more" if more else ""))
    if why.note:
        parts.append(why.note)
    return " · ".join(parts)


def _blocker(blocker: Blocker) -> str:
    name = blocker.holder or short_id(blocker.claim)
    reason = f' "{blocker.reason}"' if blocker.reason else ""
    units = (
        f" ({', '.join(blocker.units[:3])})" if blocker.units else " (waits, too)" if blocker.waiting else ""
    )
    return f"{name}{reason}{units}"


def _ordinal(number: int) -> str:
    teens = 10 <= number % 100 <= 20
    return f"{number}{'th' if teens else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
