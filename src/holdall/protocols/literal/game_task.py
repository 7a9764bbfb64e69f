"""A task of the game, section 3 as printed, wrong on purpose. Lab only.

Tasks are eager: what the paper lets a task do it does at once, in the order of the paper's actions. PLAYING and
TRYING are one status, as everybody reads it; ADVANCING is an effect of the alarm, not a status.
"""

from enum import Enum
from typing import cast

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.protocols.literal.game_messages import (
    MANAGER,
    Admission,
    Advance,
    Ask,
    Form,
    Order,
    Registration,
    Releasing,
    View,
    Winning,
    Withdrawal,
)
from holdall.protocols.literal.game_rules import GameRules
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, Release, UnitGrant, Visit

GAMMA_MS = 1000
ALARM = "alarm"


class Status(Enum):
    """The paper's statuses."""

    REGISTERING = "registering"
    TRYING = "trying"
    ORDERING = "ordering"
    WINNING = "winning"
    ACCESSING = "accessing"
    RELEASING = "releasing"
    """ADMITTED is passed through within one step: admission forms leave, then the ticket is there."""


class About(msgspec.Struct, frozen=True):
    """What a task knows of one pool of its interest."""

    node: str
    pool: str
    units: int
    view: View = View()
    """AboutRegistered, AboutRequests, AboutOrders and AboutUse are its fields."""
    predecessors: tuple[ClaimId, ...] = ()
    """AboutPredecessors: absolute predecessors that are still admitted."""
    pending: bool = True
    """The pool is among Destinations: the form of the present status has not been sent to it."""
    sent: int = 0
    """Forms sent to it."""


class TaskState(msgspec.Struct, frozen=True):
    """One task."""

    claim: ClaimId
    status: Status
    about: tuple[About, ...]
    attempt: int = 0
    alarm: bool = False


class Tasks(msgspec.Struct, frozen=True):
    """The present task of a host; None between claims."""

    task: TaskState | None = None


class GameTask(Stateful[Tasks]):
    """The tasks of one host, one at a time. A ticket is the claim's counter: the lower, the higher its priority."""

    def __init__(self, agent: Address, rules: GameRules, units: dict[str, int], *, present: bool) -> None:
        """`units`: of each node's pool. `present`: the first task is in the competition from the start."""
        self.rules = rules
        self.units = units
        self.present = present
        self.state = Tasks()
        self._agent = agent

    def handle(self, event: Event) -> list[Effect]:
        """A view, a command, or the alarm-clock."""
        if isinstance(event, TimerFired):
            out: list[Effect] = []
            self._rung(out)
            return out
        return list(super().handle(event))

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message and all that the task may do after it."""
        message = event.message
        task = self.state.task
        match message:
            case Acquire(claim, need):
                if task is not None:
                    raise ProtocolViolation("a host of the printed game plays one task at a time")
                self._create(claim, need, out)
            case Release(claim):
                if task is None or task.status is not Status.ACCESSING:
                    # The paper knows no cancelling: the task is forgotten, its forms stay where they are.
                    self.state = Tasks()
                    out.append(Send(self._agent, Ended(claim)))
                else:
                    self._enter(Status.RELEASING)
                    self._send_all(Releasing, out)
            case _:
                if task is not None:
                    self._learn(event.sender.node, cast("View", message), out)

    # What the task is

    @property
    def _task(self) -> TaskState:
        task = self.state.task
        if task is None:
            raise ProtocolViolation("no task is there")
        return task

    def _put(self, **more: object) -> None:
        self.state = Tasks(msgspec.structs.replace(self._task, **more))

    def _put_about(self, about: About) -> None:
        self._put(about=tuple(about if one.node == about.node else one for one in self._task.about))

    def _enter(self, status: Status) -> None:
        """A change of status; all pools of interest become destinations."""
        waiting = tuple(msgspec.structs.replace(one, pending=True) for one in self._task.about)
        self._put(status=status, about=waiting)

    def _send_all(self, form: type[Form], out: list[Effect]) -> None:
        """One form to each destination."""
        for about in self._task.about:
            if about.pending:
                self._send(about, form, out)

    def _send(self, about: About, form: type[Form], out: list[Effect]) -> None:
        task = self._task
        about = msgspec.structs.replace(about, pending=False, sent=about.sent + self.rules.numbered_forms)
        self._put_about(about)
        made = form(task.claim, task.claim.counter, task.attempt, about.sent)
        out.append(Send(Address(about.node, MANAGER), made))

    # Actions of tasks

    def _create(self, claim: ClaimId, need: tuple[Visit, ...], out: list[Effect]) -> None:
        """Creation of a task."""
        pools = tuple(
            About(visit.node, visit.alternatives[0][0][0], self.units[visit.node]) for visit in need
        )
        first = 1 if self.rules.attempts else 0
        self.state = Tasks(TaskState(claim, Status.REGISTERING, pools, first))
        if self.present:
            seen = View(registered=(claim,), admitted=(claim,))
            self._put(about=tuple(msgspec.structs.replace(one, view=seen) for one in pools))
            self._enter(Status.TRYING)
        else:
            self._send_all(Registration, out)
            if self.rules.registering == "printed":
                self._enter(Status.REGISTERING)
        self._play(out)

    def _learn(self, node: str, view: View, out: list[Effect]) -> None:
        """Receiving a message from the resource manager of a pool."""
        task = self._task
        about = next(one for one in task.about if one.node == node)
        if self.rules.numbered_views and view.version <= about.view.version:
            return
        mine = task.claim
        if (
            task.status is Status.REGISTERING
            and mine not in about.view.registered
            and mine in view.registered
        ):
            predecessors = tuple(one for one in view.admitted if one != mine)
        else:
            predecessors = tuple(one for one in about.predecessors if one in view.admitted)
        self._put_about(msgspec.structs.replace(about, view=view, predecessors=predecessors))
        self._play(out)

    def _play(self, out: list[Effect]) -> None:
        """Everything that the guards allow, one action after another."""
        while self._acts(out):
            pass
        self._mind_alarm(out)

    def _acts(self, out: list[Effect]) -> bool:
        """One action; False when none is possible."""
        task = self._task
        match task.status:
            case Status.REGISTERING:
                return self._admitted(out)
            case Status.TRYING | Status.ORDERING if not self._p3():
                return self._withdrawn(out)
            case Status.TRYING:
                if any(about.pending for about in task.about):
                    self._send_all(Ask, out)
                    return True
                if not self._may_win():
                    return False
                self._enter(Status.ORDERING if self.rules.complete else Status.WINNING)
                self._send_all(Order if self.rules.complete else Winning, out)
                return True
            case Status.ORDERING:
                marked = all(task.claim in about.view.ordered for about in task.about)
                if any(about.pending for about in task.about) or not self._may_win():
                    return False
                if self.rules.marks_seen and not marked:
                    return False
                self._enter(Status.WINNING)
                self._send_all(Winning, out)
                return True
            case Status.WINNING:
                if not all(task.claim in about.view.users for about in task.about):
                    return False
                self._enter(Status.ACCESSING)
                units = tuple(UnitGrant(about.node, about.pool, "", 0) for about in task.about)
                out.append(Send(self._agent, Granted(task.claim, 1, units)))
                return True
            case Status.ACCESSING:
                return False
            case Status.RELEASING:
                return self._left(out)

    def _admitted(self, out: list[Effect]) -> bool:
        """REGISTERING to ADMITTED to TRYING."""
        task = self._task
        if any(about.pending or about.predecessors for about in task.about):
            return False
        seen = all(task.claim in about.view.registered for about in task.about)
        if self.rules.registering == "seen" and not seen:
            return False
        self._enter(task.status)
        self._send_all(Admission, out)
        self._enter(Status.TRYING)
        return True

    def _withdrawn(self, out: list[Effect]) -> bool:
        """Sending a withdrawal. The printed guard wants destinations, where nothing was sent: not worth a form."""
        sent = [about for about in self._task.about if not about.pending]
        if not sent or not self.rules.withdraws:
            return False
        for about in sent:
            self._send(about, Withdrawal, out)
        if self.rules.retries:
            self._put(status=Status.TRYING)
        self._enter(self._task.status)
        self._put(attempt=self._task.attempt + self.rules.attempts)
        return False  # the guard that led here does not hold again before another view

    def _left(self, out: list[Effect]) -> bool:
        task = self._task
        if any(task.claim in about.view.registered for about in task.about):
            return False
        self.state = Tasks()
        out.append(Send(self._agent, Ended(task.claim)))
        return False

    # Conditions

    def _ahead(self, about: About) -> list[tuple[ClaimId, int]]:
        """(task, ticket) of requests before the task's own one, or of all when it has none there."""
        task = self._task
        found: list[tuple[ClaimId, int]] = []
        for asked in about.view.requests:
            if asked.claim == task.claim:
                if asked.attempt == task.attempt or not self.rules.attempts:
                    break
                continue
            found.append((asked.claim, asked.ticket))
        return found

    def _p3(self) -> bool:
        """(p3), or (p1) in the restricted variant: fewer strong requests ahead than resources that are not in use."""
        mine = self._task.claim.counter
        for about in self._task.about:
            strong = [
                claim
                for claim, ticket in self._ahead(about)
                if ticket <= mine or (self.rules.complete and claim in about.view.ordered)
            ]
            if len(strong) >= about.units - self._used(about):
                return False
        return True

    def _used(self, about: About) -> int:
        return sum(claim != self._task.claim for claim in about.view.users)

    def _may_win(self) -> bool:
        """All requests are seen; with the repair "prefix" also within the accessible prefix of each queue."""
        task = self._task
        if not all(self._asked(about) for about in task.about):
            return False
        within = all(len(self._ahead(about)) < about.units - self._used(about) for about in task.about)
        # The restricted variant has section 2's condition in its own words.
        return within or (self.rules.complete and not self.rules.prefix)

    def _asked(self, about: About) -> bool:
        task = self._task
        return any(
            asked.claim == task.claim and (not self.rules.attempts or asked.attempt == task.attempt)
            for asked in about.view.requests
        )

    # The alarm-clock

    def _mind_alarm(self, out: list[Effect]) -> None:
        """Set while all requests are seen and some wait behind lower, unmarked ones (condition of G8)."""
        task = self.state.task
        if not self.rules.alarm:
            return
        wanted = (
            task is not None
            and task.status is Status.TRYING
            and self._p3()
            and all(self._asked(about) for about in task.about)
            and not self._may_win()
        )
        if task is not None and wanted != task.alarm:
            self._put(alarm=wanted)
            out.append(SetTimer(ALARM, GAMMA_MS) if wanted else CancelTimer(ALARM))

    def _rung(self, out: list[Effect]) -> None:
        """The alarm-clock rings: an advancing form to each pool where the task waits."""
        if self.state.task is None or not self.state.task.alarm:
            return
        self._put(alarm=False)
        for about in self._task.about:
            if len(self._ahead(about)) >= about.units - self._used(about):
                self._send(about, Advance, out)
