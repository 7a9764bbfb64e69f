"""The course of a job as a machine: what happened goes in, what is to be done comes out. No clock, no processes.

Every change is an `Entry`: `Record` it, and only when it is kept do what comes after it. `apply` alone changes the
state, so the entries of a log lead to the same state again; `resume` then says what is to be done in it.
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import Self

import msgspec

from holdall.jobs.conditions import Condition, Fate, holds, parse_condition
from holdall.jobs.entries import (
    Cancelled,
    Decided,
    Ended,
    Entry,
    Finished,
    Granted,
    JobVerdict,
    Launched,
    Outcome,
    Repeated,
)
from holdall.jobs.groups import Groups
from holdall.jobs.moves import (
    AttemptEnded,
    AttemptGranted,
    Cancel,
    Effect,
    Happening,
    Launch,
    Over,
    Pause,
    PauseOver,
    Pausing,
    Phase,
    Record,
    Running,
    Stop,
    Waiting,
)
from holdall.jobs.rounds import end_of_round, is_last, is_well
from holdall.jobs.spec import Instance, JobSpec, TaskSpec, Verdict, instances_of

UNSTARTED_MAX = 5
"""Attempts of one round whose command certainly never ran; more mean that none will."""


class NotOfThisJob(ValueError):
    """An entry or happening that can't be in this state: a log of another job, or a driver with a bug."""


class JobMachine:
    """One job."""

    def __init__(self, job: JobSpec) -> None:
        """`job` must have passed its checks."""
        self.job = job
        self.tasks = {task.name: task for task in job.tasks}
        self.instances: dict[str, tuple[Instance, ...]] = {
            task.name: instances_of(task) for task in job.tasks
        }
        self.task_of = {one.name: self.tasks[one.task] for row in self.instances.values() for one in row}
        self.phases: dict[str, Phase] = dict.fromkeys(self.task_of, Waiting())
        self.cancelled = ""
        self.finished: JobVerdict | None = None
        self._conditions: dict[str, Condition] = {
            task.name: parse_condition(task.when) for task in job.tasks if task.when
        }
        self._last: dict[str, Outcome] = {}
        """How the latest attempt of an instance ended."""
        self._open = {task.name: len(self.instances[task.name]) for task in job.tasks}
        """How many of its instances are not over."""
        self._followers: dict[str, list[str]] = {task.name: [] for task in job.tasks}
        for task in job.tasks:
            for name in task.after:
                self._followers[name].append(task.name)
        self.groups = Groups(job, self.fate)
        self._attempts: dict[str, int] = {}
        """Attempts of an instance, over all rounds."""

    # ------------------------------------------------------------ in and out

    def begin(self) -> Sequence[Effect]:
        """The first steps of a job with an empty log."""
        return self._advance([task.name for task in self.job.tasks])

    def resume(self) -> Sequence[Effect]:
        """After its log was applied: what is under way, then what the log did not come to."""
        effects: list[Effect] = []
        if self.finished is not None:
            return effects
        for name, phase in list(self.phases.items()):
            if isinstance(phase, Running):
                effects.append(Launch(name, phase.attempt, phase.round))
                if self.cancelled:
                    effects.append(Stop(name, phase.attempt, self.cancelled))
            elif isinstance(phase, Pausing) and not self.cancelled:
                # Perhaps its end was kept, and what follows from it was not: judged again, it is the same.
                self._judge(name, self._last[name], effects)
        if self.cancelled:
            self._end_what_waits(effects)
        return [*effects, *self._advance([task.name for task in self.job.tasks])]

    def handle(self, happening: Happening) -> Sequence[Effect]:
        """One thing that happened. What comes too late has no effect; raises NotOfThisJob for what can't be."""
        effects: list[Effect] = []
        match happening:
            case AttemptGranted(instance, attempt, lease, units):
                phase = self._phase(instance)
                if isinstance(phase, Running) and phase.attempt == attempt and phase.lease != lease:
                    self._record(Granted(instance, attempt, lease, units), effects)
            case AttemptEnded(instance, attempt, outcome):
                if self._is_running(instance, attempt):
                    self._record(Ended(instance, attempt, outcome), effects)
                    self._judge(instance, outcome, effects)
            case PauseOver(instance, attempt):
                phase = self._phase(instance)
                if isinstance(phase, Pausing) and phase.attempt == attempt and not self.cancelled:
                    self._launch(instance, attempt + 1, phase.round, effects)
            case Cancel(reason):
                if not self.cancelled and self.finished is None:
                    self._record(Cancelled(reason or "cancelled"), effects)
                    for name, phase in self.phases.items():
                        if isinstance(phase, Running):
                            effects.append(Stop(name, phase.attempt, self.cancelled))
                    self._end_what_waits(effects)
        changed = [
            effect.entry.instance
            for effect in effects
            if isinstance(effect, Record) and isinstance(effect.entry, Decided)
        ]
        tasks = dict.fromkeys(self.task_of[name].name for name in changed)
        ready = [follower for name in tasks for follower in self._behind(name)]
        return [*effects, *self._advance(ready)]

    def apply(self, entry: Entry) -> None:
        """Change the state by one entry. Raises NotOfThisJob, and has changed nothing then."""
        if self.finished is not None:
            raise NotOfThisJob("an entry after the last one")
        match entry:
            case Launched(instance, attempt, round_):
                self.phases[instance] = self._launched(instance, attempt, round_)
                self._attempts[instance] = attempt
            case Granted(instance, attempt, lease):
                phase = self._running(instance, attempt)
                self.phases[instance] = msgspec.structs.replace(phase, lease=lease)
            case Ended(instance, attempt, outcome):
                phase = self._running(instance, attempt)
                self._last[instance] = outcome
                self.phases[instance] = self._after(instance, phase, outcome)
            case Decided(instance, verdict, text):
                if isinstance(self._phase(instance), (Over, Running)):
                    raise NotOfThisJob(f"{instance} is decided while it runs, or twice")
                last = self._last.get(instance)
                self.phases[instance] = Over(verdict, None if last is None else last.status, text)
                self._open[self.task_of[instance].name] -= 1
            case Repeated(group, round_):
                self._repeat(group, round_)
            case Cancelled(reason):
                self.cancelled = reason
            case Finished(verdict):
                self.finished = verdict

    # ------------------------------------------------------------ what is known

    def fate(self, task: str) -> Fate | None:
        """What became of a task; None while anything of it is to come."""
        if self._open[task]:
            return None
        phases = [self.phases[one.name] for one in self.instances[task]]
        overs = [phase for phase in phases if isinstance(phase, Over)]
        verdicts = {over.verdict for over in overs}
        status = overs[0].status if self.tasks[task].foreach is None else None
        for verdict in ("failed", "cancelled", "ok"):
            if verdict in verdicts:
                return Fate(verdict, status)
        return Fate("skipped")

    def waits_for(self, task: str) -> tuple[str, ...]:
        """The tasks before it that are not over."""
        return tuple(
            name
            for name in self.tasks[task].after
            if self._open[name] or self.groups.holds_back(name, task, cancelled=bool(self.cancelled))
        )

    def open_attempts(self) -> tuple[tuple[str, int], ...]:
        """(instance, attempt) of all that are under way."""
        return tuple(
            (name, phase.attempt) for name, phase in self.phases.items() if isinstance(phase, Running)
        )

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            tuple(self.phases.items()),
            tuple(sorted(self._last.items())),
            self.cancelled,
            self.finished,
            self.groups.key(),
            tuple(sorted(self._attempts.items())),
        )

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.phases = dict(self.phases)
        twin._last = dict(self._last)
        twin._open = dict(self._open)
        twin._attempts = dict(self._attempts)
        twin.groups = self.groups.copy(twin.fate)
        return twin

    # ------------------------------------------------------------ one instance

    def _launched(self, instance: str, attempt: int, round_: int) -> Running:
        phase = self._phase(instance)
        match phase:
            case Waiting() if attempt == self._attempts.get(instance, 0) + 1 and round_ == self._round(
                instance
            ):
                return Running(attempt, round_)
            case Pausing(before, in_round, charged, unstarted) if (
                attempt == before + 1 and round_ == in_round
            ):
                return Running(attempt, round_, charged, unstarted)
            case _:
                raise NotOfThisJob(f"{instance} can't begin attempt {attempt}: {phase!r}")

    def _after(self, instance: str, phase: Running, outcome: Outcome) -> Pausing:
        """Where an instance is between an end and what follows from it: at the next attempt, if there is to be one."""
        task = self.task_of[instance]
        if outcome.kind == "unstarted":
            return Pausing(phase.attempt, phase.round, phase.charged, phase.unstarted + 1, 0)
        retried = outcome.kind in task.retry.on and phase.charged < task.retry.times
        if retried and not is_well(task, outcome):
            return Pausing(phase.attempt, phase.round, phase.charged + 1, 0, task.retry.wait_ms)
        wait_ms = 0 if task.repeat is None else task.repeat.wait_ms
        return Pausing(phase.attempt, phase.round + 1, 0, 0, wait_ms)

    def _judge(self, instance: str, outcome: Outcome, effects: list[Effect]) -> None:
        """Its attempt has ended, and it stands before the next one, which comes or does not."""
        phase = self._phase(instance)
        if not isinstance(phase, Pausing):
            raise NotOfThisJob(f"{instance} has no end to be judged")
        task = self.task_of[instance]
        if self.cancelled:
            verdict: Verdict = (
                "ok" if is_last(task, phase, outcome) and is_well(task, outcome) else "cancelled"
            )
            self._record(Decided(instance, verdict, "" if verdict == "ok" else self.cancelled), effects)
            return
        if outcome.kind == "unstarted":
            if phase.unstarted >= UNSTARTED_MAX:
                self._record(
                    Decided(instance, "failed", f"it could not be begun {UNSTARTED_MAX} times"), effects
                )
                return
        elif phase.charged == 0:
            # No retry: the round is over.
            decided = end_of_round(instance, task, phase.round - 1, outcome)
            if decided is not None:
                self._record(decided, effects)
                return
        if phase.ms:
            effects.append(Pause(instance, phase.attempt, phase.ms))
        else:
            self._launch(instance, phase.attempt + 1, phase.round, effects)

    def _launch(self, instance: str, attempt: int, round_: int, effects: list[Effect]) -> None:
        self._record(Launched(instance, attempt, round_), effects)
        effects.append(Launch(instance, attempt, round_))

    # ------------------------------------------------------------ the order of tasks

    def _advance(self, candidates: Iterable[str]) -> list[Effect]:
        """Begin or skip all tasks whose turn has come, then finish if nothing is left."""
        effects: list[Effect] = []
        ready = list(candidates)
        while not self.cancelled:
            later: list[str] = []
            for name in dict.fromkeys(ready):
                if not self.waits_for(name) and self._turn_of(name, effects):
                    later += self._behind(name)
            ready = later or self._next_rounds(effects)
            if not ready:
                break
        if self.finished is None and not any(self._open.values()):
            self._record(self._finish(), effects)
        return effects

    def _behind(self, task: str) -> list[str]:
        """Whose turn may come when a task is over: those after it, and after all of its group."""
        return [follower for name in self.groups.with_task(task) for follower in self._followers[name]]

    def _next_rounds(self, effects: list[Effect]) -> list[str]:
        """Begin another round of each group that is over without its end; the tasks whose turn may have come."""
        ready: list[str] = []
        for group in self.groups.to_repeat():
            self._record(Repeated(group.name, self.groups.rounds[group.name] + 1), effects)
            ready += group.tasks
        return ready

    def _repeat(self, name: str, round_: int) -> None:
        """All of a group waits again. What was known of its tasks is of the round before."""
        due = {(group.name, self.groups.rounds[group.name] + 1) for group in self.groups.to_repeat()}
        if self.cancelled or (name, round_) not in due:
            raise NotOfThisJob(f"group {name} is not to begin anew")
        for task in self.groups.begin_round(name, round_):
            self._open[task] = len(self.instances[task])
            for one in self.instances[task]:
                self.phases[one.name] = Waiting()
                self._last.pop(one.name, None)

    def _round(self, instance: str) -> int:
        """In which a first attempt begins."""
        return self.groups.round_of(self.task_of[instance].name)

    def _turn_of(self, name: str, effects: list[Effect]) -> bool:
        """All tasks before it are over; True when it was skipped, so that its followers' turn may have come."""
        waiting = [one for one in self.instances[name] if isinstance(self.phases[one.name], Waiting)]
        if not waiting:
            return False
        why = self._why_not(self.tasks[name])
        for one in waiting:
            if why:
                self._record(Decided(one.name, "skipped", why), effects)
            else:
                self._launch(one.name, self._attempts.get(one.name, 0) + 1, self._round(one.name), effects)
        return bool(why)

    def _why_not(self, task: TaskSpec) -> str:
        fates = {name: self.fate(name) or Fate("skipped") for name in task.after}
        condition = self._conditions.get(task.name)
        if condition is not None:
            return "" if holds(condition, fates) else f"not: {task.when}"[:200]
        bad = [f"{name} {fate.verdict}" for name, fate in fates.items() if fate.verdict != "ok"]
        return ", ".join(bad)[:200]

    def _end_what_waits(self, effects: list[Effect]) -> None:
        for name, phase in list(self.phases.items()):
            if isinstance(phase, Waiting):
                self._record(Decided(name, "cancelled", self.cancelled), effects)
            elif isinstance(phase, Pausing):
                self._judge(name, self._last[name], effects)

    def _finish(self) -> Finished:
        fates = {name: self.fate(name) or Fate("skipped") for name in self.tasks}
        if self.cancelled and any(fate.verdict == "cancelled" for fate in fates.values()):
            return Finished("cancelled", self.cancelled)
        bad = [
            name for name, fate in fates.items() if fate.verdict == "failed" and not self.tasks[name].may_fail
        ]
        unmet = self.groups.unmet()
        if self.cancelled and unmet:
            return Finished("cancelled", self.cancelled)
        bad += [f"{group.name} (not {group.until} in {group.times} rounds)" for group in unmet]
        return Finished("failed", f"{', '.join(bad)[:400]} failed") if bad else Finished("succeeded")

    # ------------------------------------------------------------ small things

    def _record(self, entry: Entry, effects: list[Effect]) -> None:
        self.apply(entry)
        effects.append(Record(entry))

    def _phase(self, instance: str) -> Phase:
        phase = self.phases.get(instance)
        if phase is None:
            raise NotOfThisJob(f"{instance} is no task of this job")
        return phase

    def _is_running(self, instance: str, attempt: int) -> bool:
        phase = self._phase(instance)
        return isinstance(phase, Running) and phase.attempt == attempt

    def _running(self, instance: str, attempt: int) -> Running:
        phase = self._phase(instance)
        if not isinstance(phase, Running) or phase.attempt != attempt:
            raise NotOfThisJob(f"{instance} has no attempt {attempt} under way: {phase!r}")
        return phase
