"""What a tool answers: facts as values, the same in words, and at the end how long it holds and what to do next."""

from dataclasses import asdict, dataclass, field

from holdall.client.blockers import blocked_by, one_line
from holdall.client.tenure import Tenure
from holdall.mcp.agent import GRANT_KEPT_S, PLACE_KEPT_S, Agent, Waiting
from holdall.model.durations import show_duration
from holdall.model.frames import LeaseView
from holdall.model.names import short_id
from holdall.model.why import Why

AGAIN_S = 30
"""How soon a waiting agent should look again."""
SOON_S = 120
"""With less than this left, an agent is asked to extend."""


@dataclass(frozen=True)
class UnitAnswer:
    """A unit that is held. Pass `fence` on to what it protects."""

    pool: str
    unit: str
    node: str
    fence: int


@dataclass(frozen=True)
class LeaseAnswer:
    """A lease of the caller."""

    lease: str
    units: list[UnitAnswer]
    seconds_left: float | None
    key: str
    """HOLDALL_LEASE for a command that is run under this lease."""


@dataclass(frozen=True)
class QueueAnswer:
    """A claim of the caller that waits."""

    claim: str
    position: int
    waiting: int
    blocked_by: str
    passes_left: int | None


@dataclass(frozen=True)
class Party:
    """Somebody who holds or waits, as `who` tells."""

    id: str
    holder: str
    reason: str
    state: str
    what: str
    seconds_left: float | None


@dataclass(frozen=True)
class Answer:
    """Of every tool."""

    state: str
    """granted, queued, released, nothing, error or listed."""
    you: str = ""
    """The secret that the caller passes as `you` from now on."""
    leases: list[LeaseAnswer] = field(default_factory=list)
    queued: QueueAnswer | None = None
    parties: list[Party] = field(default_factory=list)
    news: list[str] = field(default_factory=list)
    """What happened since the last call: a lease that was lost, a claim that has ended."""
    text: str = ""
    seconds_left: float | None = None
    next: str = ""

    def words(self) -> str:
        """For a model that reads text: the news first, the next call last."""
        lines = [f"NOTE: {line}" for line in self.news]
        lines += [self.text] if self.text else []
        lines += [f"lease {lease.lease}: {units_text(lease.units)}" for lease in self.leases]
        if self.queued is not None:
            by = f", blocked by {self.queued.blocked_by}" if self.queued.blocked_by else ""
            lines.append(
                f"claim {self.queued.claim}: {self.queued.position} of {self.queued.waiting} in line{by}"
            )
        lines += [
            f"{party.state} {party.id}: {party.holder}"
            + (f' "{party.reason}"' if party.reason else "")
            + f", {party.what}"
            for party in self.parties
        ]
        if self.you:
            lines.append(f'you: "{self.you}" (pass it as `you` in every call; it is a secret)')
        left = "no limit" if self.seconds_left is None else f"{self.seconds_left:.0f} s"
        lines.append(f"left: {left}. next: {self.next}")
        return "\n".join(lines)

    def values(self) -> dict[str, object]:
        """As JSON has it."""
        return asdict(self)


def units_text(units: list[UnitAnswer]) -> str:
    """`psu-1 (fence 61), board-4 (fence 118)`."""
    return ", ".join(f"{unit.unit} (fence {unit.fence})" for unit in units)


def standing(agent: Agent, *, text: str = "", secret: str = "") -> Answer:
    """Everything the agent has and waits for, the shortest time left, and what to do next."""
    news = agent.take_news()
    leases = [_lease(agent, tenure) for tenure in agent.leases.values()]
    queued = None if agent.waiting is None else _queued(agent.waiting)
    times = [lease.seconds_left for lease in leases if lease.seconds_left is not None]
    if queued is not None:
        times.append(PLACE_KEPT_S)
        state = "queued"
        step = (
            f"call check in {AGAIN_S} s; use nothing yet. A grant is kept for {show_duration(int(GRANT_KEPT_S * 1000))} "
            f"without a call, your place for {show_duration(int(PLACE_KEPT_S * 1000))}"
        )
    elif leases:
        state = "granted"
        soonest = min(times, default=None)
        step = (
            "call extend now if you need it longer, release when you have finished"
            if soonest is not None and soonest < SOON_S
            else "use the units; call release as soon as you have finished, extend before the time is over"
        )
    else:
        state, step = "nothing", "call claim when you need something; you hold nothing"
    return Answer(
        state=state,
        you=secret,
        leases=leases,
        queued=queued,
        news=news,
        text=text,
        seconds_left=min(times, default=None) if leases or queued else 0.0,
        next=step,
    )


def trouble(agent: Agent | None, text: str, step: str) -> Answer:
    """A call that did nothing; what the agent has is told all the same."""
    if agent is None:
        return Answer(state="error", text=text, seconds_left=0.0, next=step)
    now = standing(agent)
    return Answer(
        state="error",
        leases=now.leases,
        queued=now.queued,
        news=now.news,
        text=text,
        seconds_left=now.seconds_left,
        next=step,
    )


def party_of_lease(view: LeaseView, now_ms: int) -> Party:
    """A row of `who`. `now_ms`: wall time, as the view's ends are."""
    return Party(
        id=short_id(view.lease),
        holder=one_line(view.holder),
        reason=one_line(view.reason),
        state="holds",
        what=", ".join(f"{one_line(unit.name)}@{unit.node}" for unit in view.units),
        seconds_left=None if view.until_ms is None else max(view.until_ms - now_ms, 0) / 1000,
    )


def party_of_wait(why: Why) -> Party:
    """A row of the queue."""
    by = blocked_by(why)
    return Party(
        id=short_id(why.claim),
        holder=one_line(why.holder),
        reason=one_line(why.reason),
        state="waits",
        what=", ".join(need.spec for need in why.needs) + (f", blocked by {by}" if by else ""),
        seconds_left=None,
    )


def _lease(agent: Agent, tenure: Tenure) -> LeaseAnswer:
    return LeaseAnswer(
        lease=tenure.name,
        units=[UnitAnswer(unit.pool, unit.name, unit.node, unit.fence) for unit in tenure.lease.units],
        seconds_left=agent.seconds_left(tenure),
        key=tenure.key,
    )


def _queued(waiting: Waiting) -> QueueAnswer:
    why = waiting.why
    if why is None:
        return QueueAnswer(claim="", position=0, waiting=0, blocked_by="", passes_left=None)
    return QueueAnswer(
        claim=short_id(waiting.call.printed),
        position=why.position,
        waiting=why.waiting,
        blocked_by=blocked_by(why),
        passes_left=why.passes_left if why.bounded else None,
    )
