"""Who is in the way of a claim, in one line for people and programs that have no terminal."""

import time
import unicodedata

from holdall.model.names import short_id
from holdall.model.why import Blocker, Why

NAMED_MAX = 3
UNITS_MAX = 4


def blocked_by(why: Why) -> str:
    """`ci@runner-4 "soak test" (psu-2, until 14:02:10, renewing)`; empty when nobody is known."""
    named = [blocker_text(blocker) for blocker in why.blockers[:NAMED_MAX]]
    more = len(why.blockers) - len(named) + why.blockers_more
    if more:
        named.append(f"{more} more")
    return ", ".join(named)


def blocker_text(blocker: Blocker) -> str:
    """One of them; the id with which `holdall why` and `show` tell more stands at the end."""
    text = one_line(blocker.holder) or one_line(blocker.party) or "somebody"
    if blocker.reason:
        text += f' "{one_line(blocker.reason)}"'
    if blocker.waiting:
        facts = [f"waits for {one_line(blocker.pool)}, older"]
    else:
        units = [one_line(unit) for unit in blocker.units[:UNITS_MAX]]
        facts = [", ".join(units) + (" …" if len(blocker.units) > UNITS_MAX else "")]
        if blocker.until_ms is not None:
            facts.append(f"until {time.strftime('%H:%M:%S', time.localtime(blocker.until_ms / 1000))}")
        if blocker.renewing:
            facts.append("renewing")
    if blocker.claim:
        facts.append(short_id(blocker.claim))
    return f"{text} ({', '.join(facts)})"


def one_line(text: str) -> str:
    """What somebody else wrote, without what would move a cursor or begin a line."""
    return "".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text)
