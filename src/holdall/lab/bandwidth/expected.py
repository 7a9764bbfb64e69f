"""What the senders must see by arithmetic, exactly: bytes flow like water, and nothing takes time but the link.

Without leases, whole messages in order of arrival: a sender that posts its next message when the last has arrived waits for
one message of each other sender, so all have the same response time, (sum of the payloads) / capacity. With leases a message
takes payload / grant, and grants change when a sender has finished and leaves.
"""

from collections.abc import Mapping
from fractions import Fraction

from holdall.leases.divisions import DIVIDERS, Rule
from holdall.leases.filling import Demand

SENDERS: Mapping[str, int] = {"a10": 10_000, "a25": 25_000, "a40": 40_000, "a50": 50_000}
"""Payloads, bytes; each sender asks for its payload per second."""
CAPACITY = 100_000
LEASE_MS = 2_000


def grants(senders: Mapping[str, int], rule: Rule, capacity: int = CAPACITY) -> dict[str, int]:
    """What each has while these are there. `none`: what is left for each when they come in this order."""
    if rule == "none":
        found: dict[str, int] = {}
        for agent, amount in senders.items():
            found[agent] = min(amount, capacity - sum(found.values()))
        return found
    demands = {(agent, ""): Demand(amount) for agent, amount in senders.items()}
    return {agent: share for (agent, _), share in DIVIDERS[rule](demands, capacity, 1).items()}


def together_ms(
    senders: Mapping[str, int], rule: Rule | None, capacity: int = CAPACITY
) -> dict[str, Fraction]:
    """Response times while all are there; None: without leases. A sender that is granted nothing has none."""
    if rule is None:
        return dict.fromkeys(senders, Fraction(1_000 * sum(senders.values()), capacity))
    return {
        agent: Fraction(1_000 * senders[agent], granted)
        for agent, granted in grants(senders, rule, capacity).items()
        if granted
    }


def means_ms(
    senders: Mapping[str, int], rule: Rule | None, *, messages: int, capacity: int = CAPACITY
) -> dict[str, Fraction]:
    """Mean response times over `messages` each, where a sender that has sent its last one leaves.

    A message that is under way when grants change goes on at the new rate, as if leases were renewed at once.
    """
    left = {agent: Fraction(messages) for agent in senders}
    now, ends = Fraction(0), dict[str, Fraction]()
    while left:
        pace = together_ms({agent: senders[agent] for agent in left}, rule, capacity)
        step = min(left[agent] * pace[agent] for agent in pace)
        now += step
        for agent in pace:
            left[agent] -= step / pace[agent]
            if not left[agent]:
                ends[agent] = now
        left = {agent: rest for agent, rest in left.items() if rest}
    return {agent: ends[agent] / messages for agent in senders}
