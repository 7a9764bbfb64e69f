"""What the experiment found: per agent, without and with leases, beside what arithmetic says; and the link's bound."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import msgspec

from holdall.lab.bandwidth.expected import CAPACITY, SENDERS, grants, means_ms, together_ms
from holdall.lab.bandwidth.runs import Run
from holdall.leases.divisions import Rule


class Agent(msgspec.Struct, frozen=True):
    """One agent's response times; all times in ms of the experiment."""

    agent: str
    payload: int
    """Bytes of a message, and bytes a second that it asks for."""
    mean_ms: float
    """Over the repetitions' means."""
    sd_ms: float
    """Of the repetitions' means; 0 for one repetition."""
    message_sd_ms: float
    """Of single messages, within repetitions, averaged."""
    expected_ms: float
    """By arithmetic, over all its messages, with each sender leaving when it is done."""
    denied: float
    """Messages that found no lease, per repetition."""


class Link(msgspec.Struct, frozen=True):
    """What went over the link, in real bytes and seconds, by the gate's count."""

    capacity: int
    """Bytes a second: the experiment's times the speed."""
    depth: int
    """Of the root bucket."""
    busiest_1s: int
    """The most bytes in any window of one second, over all repetitions."""
    allowed_1s: int
    """capacity x 1 s + depth."""
    sent_per_s: float
    """On average over a repetition, from its first message until its last, scaled back to the experiment."""

    @property
    def obeyed(self) -> bool:
        """Whether no second had more than was allowed."""
        return self.busiest_1s <= self.allowed_1s


class Granted(msgspec.Struct, frozen=True):
    """From an instant of the experiment on."""

    at_ms: float
    agent: str
    granted: int
    """Bytes a second; 0: nothing."""


class Bandwidth(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `lab bandwidth --json`."""

    v: int = 1
    version: str
    rule: Rule
    speed: int
    reps: int
    messages: int
    without: list[Agent]
    with_: list[Agent] = msgspec.field(name="with")
    grants: dict[str, int]
    """Bytes a second while all are there, by the rule."""
    link_without: Link
    link_with: Link
    changes: list[Granted]
    """Of the first repetition with leases."""
    seconds: float
    """That everything took."""


def agents_of(
    runs: Sequence[Run], rule: Rule | None, *, messages: int, senders: Mapping[str, int] = SENDERS
) -> list[Agent]:
    """One row for each agent. `rule` None: without leases."""
    expected = means_ms(senders, rule, messages=messages)
    found: list[Agent] = []
    for agent, payload in senders.items():
        means = [run.means_ms()[agent] for run in runs]
        found.append(
            Agent(
                agent=agent,
                payload=payload,
                mean_ms=round(fmean(means), 1),
                sd_ms=round(_sd(means), 1),
                message_sd_ms=round(fmean(_sd(run.times_ms[agent]) for run in runs), 1),
                expected_ms=round(float(expected[agent]), 1),
                denied=round(fmean(run.did.denied.get(agent, 0) for run in runs), 1),
            )
        )
    return found


def link_of(runs: Sequence[Run]) -> Link:
    """Over all repetitions."""
    first = runs[0].did
    return Link(
        capacity=first.capacity,
        depth=first.depth,
        busiest_1s=max(run.did.busiest_1s for run in runs),
        allowed_1s=first.capacity + first.depth,
        sent_per_s=round(
            fmean(1_000 * run.did.sent / max(map(sum, run.times_ms.values())) for run in runs), 0
        ),
    )


def changes_of(run: Run, speed: int) -> list[Granted]:
    """What agents had, on the clock and in the rates of the experiment."""
    return [
        Granted(change.at_ms * speed, change.holder, round(change.granted / speed))
        for change in run.did.changes
    ]


def shares_while_all_are_there(rule: Rule) -> dict[str, int]:
    """Bytes a second of each agent."""
    return grants(SENDERS, rule, CAPACITY)


def steady_ms(rule: Rule | None) -> dict[str, float]:
    """Response times while all are there, by arithmetic."""
    return {agent: float(time_ms) for agent, time_ms in together_ms(SENDERS, rule).items()}


def _sd(values: Sequence[float]) -> float:
    return stdev(values) if len(values) > 1 else 0.0
