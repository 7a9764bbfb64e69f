"""What a claim costs that nobody stands in the way of: messages and delays for 1 to 16 pools, one on each node.

Every message takes exactly one delay, so both are counts. Beside them stands what the specifications say (common
specification, 4.2; game, 5; history of the lanes, 3.3; strong and weak resources, 6 and scenarios SW6, SW7).
"""

from collections.abc import Callable

import msgspec

from holdall.lab.compare.contestants import Contestant
from holdall.simulator.run import Run
from holdall.simulator.workload import Workload

SIZES = tuple(range(1, 17))
"""Pools of a claim, and nodes."""
DURATION = 2000.0
EXACT = 1e-9

Count = Callable[[int], int]


class Cost(msgspec.Struct, frozen=True):
    """What a specification says, for k pools on k nodes; acknowledgements of an end are not counted."""

    messages: Count
    delays: Count | None
    """To the grant; None where it waits for a token that goes round."""
    formula: str


GAME = Cost(lambda k: 5 * k, lambda _: 2, "5k messages, 2 delays")
"""The game's specification counts 6k: with the k acknowledgements of the end, which are not counted for anybody."""

SPECIFIED: dict[str, Cost] = {
    "central": Cost(lambda _: 3, lambda _: 2, "3 messages, 2 delays"),
    "ordered": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays"),
    "chain": Cost(lambda k: 2 * k + 1, lambda k: k + 1, "2k + 1 messages, k + 1 delays"),
    "chain-try": Cost(lambda k: 3 * k, lambda _: 2, "3k messages, 2 delays"),
    "lanes": Cost(lambda k: 3 * k, lambda _: 2, "3k messages, 2 delays"),
    "lanes-lending": Cost(lambda k: 3 * k, lambda _: 2, "3k messages, 2 delays"),
    "skeen": Cost(lambda k: 5 * k, lambda _: 4, "5k messages, 4 delays"),
    "ballot": Cost(lambda k: 7 * k, lambda _: 6, "7k messages, 6 delays"),
    "game": GAME,
    "game-complete": GAME,
    "strong-weak": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays (k ≤ 2)"),
    "strong-weak-named": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays (k ≤ 2)"),
    "strong-weak-probe": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays (k ≤ 2)"),
    "strong-weak-probe-aged": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays (k ≤ 2)"),
    "strong-weak-probe-token": Cost(lambda k: 3 * k, lambda k: 2 * k, "3k messages, 2k delays (k ≤ 2)"),
    "token": Cost(lambda k: 2 * k + 1, None, "2k + 1 messages, and the token's hops"),
    # the specification counts 3k + 1: with the ticket that the claim's first pool gives to itself, which is no message here
    "token-tickets": Cost(lambda k: 3 * k, None, "3k messages, and the token's hops"),
}
"""By contestant. One without an entry is measured and compared with nothing."""


class AloneCase(msgspec.Struct, frozen=True):
    """One client that claims `k` pools on `k` nodes again and again."""

    contestant: Contestant
    k: int

    @property
    def title(self) -> str:
        """For the line of progress."""
        return f"{self.contestant.name} alone, k={self.k}"


class Alone(msgspec.Struct, frozen=True, kw_only=True):
    """What it cost, and what it should."""

    name: str
    k: int
    grants: int
    messages: float
    """Per claim, without acknowledgements of an end, and without the hops of a token."""
    hops: float
    """Of a token, per claim."""
    acknowledgements: float
    delays: float
    """Mean time to the grant, in message delays."""
    kinds: dict[str, float]
    """Messages per claim by kind, all of them."""
    specified_messages: int | None
    specified_delays: int | None
    violations: list[str]

    @property
    def same(self) -> bool | None:
        """Whether it is what the specification says; None where that says nothing."""
        if self.specified_messages is None:
            return None
        wrong = abs(self.messages - self.specified_messages) > EXACT
        return not wrong and (
            self.specified_delays is None or abs(self.delays - self.specified_delays) <= EXACT
        )


def alone(case: AloneCase) -> Alone:
    """Count it."""
    k = case.k
    workload = Workload(pools=k, k=k, nodes=k, clients=1, load="low")
    run = Run(case.contestant.setup(workload, seed=1, duration=DURATION, jitter=False))
    report = run.run()
    figures = report.figures
    grants = max(1, figures.grants)
    # by type, not by name: two families may have a message of the same name
    spent = {kind: count / grants for kind, count in run.messages.items()}
    hops = sum(count for kind, count in spent.items() if kind.__name__ in HOPS)
    ends = sum(
        count for kind, count in spent.items() if kind in run.system.uncounted and kind.__name__ not in HOPS
    )
    cost = SPECIFIED.get(case.contestant.name)
    return Alone(
        name=case.contestant.name,
        k=k,
        grants=figures.grants,
        messages=sum(figures.messages.values()) / grants - hops - ends,
        hops=hops,
        acknowledgements=ends,
        delays=figures.mean,
        kinds={kind: count / grants for kind, count in figures.messages.items()},
        specified_messages=None if cost is None else cost.messages(k),
        specified_delays=None if cost is None or cost.delays is None else cost.delays(k),
        violations=report.violations,
    )


HOPS = frozenset({"Token"})
"""Kinds of message that carry a token around, whether anybody claims or not."""
