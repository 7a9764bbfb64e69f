"""Every order of events of small jobs, with deaths of the runner and a cancel at any moment; and broken machines."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from jobs import scripts
from jobs.small_world import explore

from holdall.jobs.entries import Cancelled, Decided, Entry, Finished, Launched, Outcome
from holdall.jobs.machine import JobMachine
from holdall.jobs.moves import Effect, Happening, Launch, Over, Pausing, Record, Running
from holdall.jobs.spec import GroupSpec, JobSpec, TaskSpec

WORLDS: dict[str, tuple[JobSpec, dict[str, Any], tuple[int, int, int]]] = {
    "one": (scripts.ONE, {"crashes": 2, "cancel": True}, (285, 485, 31)),
    "retry": (
        scripts.RETRY,
        {"crashes": 1, "cancel": True, "kinds": ("ok", "failed", "interrupted")},
        (827, 1262, 90),
    ),
    "unstarted": (scripts.ONE, {"crashes": 1, "kinds": ("ok", "unstarted")}, (294, 355, 32)),
    "sequence": (scripts.SEQUENCE, {"crashes": 2, "cancel": True}, (728, 1287, 68)),
    "chain": (scripts.CHAIN, {"crashes": 0}, (38, 37, 4)),
    "join": (scripts.JOIN, {"crashes": 1, "cancel": True}, (4445, 8027, 318)),
    "choice": (scripts.CHOICE, {"crashes": 1, "cancel": True}, (1334, 2100, 107)),
    "loop": (
        scripts.LOOP,
        {"crashes": 1, "cancel": True, "kinds": ("ok", "failed", "lost")},
        (2078, 3078, 225),
    ),
    "rounds": (scripts.ROUNDS, {"crashes": 1, "cancel": True}, (1343, 1969, 137)),
    "group": (scripts.GROUP, {"crashes": 1, "cancel": True}, (3996, 5948, 347)),
    "items": (scripts.ITEMS, {"crashes": 1, "cancel": True}, (3415, 6507, 218)),
}
"""Job, what may happen, and its states, transitions and ends."""


@pytest.mark.parametrize("name", WORLDS)
def test_no_order_of_events_breaks_a_rule_and_each_comes_to_an_end(name: str) -> None:
    job, faults, counts = WORLDS[name]
    found = explore(job, **faults)
    assert found.wrong == []
    assert (found.states, found.transitions, found.endings) == counts


# ---------------------------------------------------------------- broken machines


class BeginsBeforeItIsKept(JobMachine):
    """Attempts begin before the log says so."""

    def handle(self, happening: Happening) -> Sequence[Effect]:
        effects = super().handle(happening)
        return sorted(effects, key=lambda effect: isinstance(effect, Record))


class ForgetsWhatRuns(JobMachine):
    """After a restart, attempts that are under way are begun anew."""

    def resume(self) -> Sequence[Effect]:
        effects: list[Effect] = []
        for name, phase in list(self.phases.items()):
            if isinstance(phase, Running):
                self.phases[name] = Running(phase.attempt + 1, phase.round)
                effects += [
                    Record(Launched(name, phase.attempt + 1, phase.round)),
                    Launch(name, phase.attempt + 1, phase.round),
                ]
        return [*effects, *super().resume()]


class ForgetsToWatch(JobMachine):
    """After a restart, attempts that are under way are left alone."""

    def resume(self) -> Sequence[Effect]:
        return [effect for effect in super().resume() if not isinstance(effect, Launch)]


class ForgetsToJudge(JobMachine):
    """After a restart, an end whose meaning was not kept means nothing."""

    def resume(self) -> Sequence[Effect]:
        if any(isinstance(phase, Pausing) for phase in self.phases.values()):
            return []
        return super().resume()


class OneRetryMore(JobMachine):
    def _after(self, instance: str, phase: Running, outcome: Outcome) -> Pausing:
        if outcome.kind == "failed" and phase.attempt == 2:
            return Pausing(phase.attempt, phase.round, phase.charged + 1, 0, 0)
        return super()._after(instance, phase, outcome)


class RetriesWhatWentWell(JobMachine):
    def _judge(self, instance: str, outcome: Outcome, effects: list[Effect]) -> None:
        phase = self.phases[instance]
        if outcome.kind == "ok" and isinstance(phase, Pausing) and phase.attempt == 1:
            self.phases[instance] = Pausing(1, 1, 1, 0, 0)
            self._launch(instance, 2, 1, effects)
            return
        super()._judge(instance, outcome, effects)


class NoCondition(JobMachine):
    def _why_not(self, task: TaskSpec) -> str:
        return ""


class JoinsTheFirst(JobMachine):
    """A task begins when one of those before it is over."""

    def waits_for(self, task: str) -> tuple[str, ...]:
        waits = super().waits_for(task)
        return () if len(waits) < len(self.tasks[task].after) else waits


class JoinsTheFirstItem(JobMachine):
    """A task begins when one item of the one before it is over."""

    def waits_for(self, task: str) -> tuple[str, ...]:
        overs = [phase for phase in self.phases.values() if isinstance(phase, Over)]
        return () if overs else super().waits_for(task)

    def _why_not(self, task: TaskSpec) -> str:
        return ""


class LeavesAGroupTooSoon(JobMachine):
    """What comes after a task of a group does not wait for the group."""

    def waits_for(self, task: str) -> tuple[str, ...]:
        return tuple(name for name in super().waits_for(task) if self._open[name])


class NeverComesToItsEnd(JobMachine):
    """A group goes on when what it goes on until is true."""

    def __init__(self, job: JobSpec) -> None:
        super().__init__(msgspec.structs.replace(job, groups=tuple(map(_never, job.groups))))


class RoundsWithoutBound(JobMachine):
    def __init__(self, job: JobSpec) -> None:
        more = tuple(msgspec.structs.replace(group, times=group.times + 1) for group in job.groups)
        super().__init__(msgspec.structs.replace(job, groups=more))


class RepeatsHalfOfIt(JobMachine):
    """Of a group only the first task begins anew."""

    def _repeat(self, name: str, round_: int) -> None:
        kept = self.phases["b"]
        super()._repeat(name, round_)
        self.phases["b"], self._open["b"] = kept, 0


class UnmetIsSuccess(JobMachine):
    """A group that never came to its end is none of the job's business."""

    def _finish(self) -> Finished:
        found = super()._finish()
        return Finished("succeeded") if " rounds)" in found.text else found


def _never(group: GroupSpec) -> GroupSpec:
    return msgspec.structs.replace(group, until="a.cancelled")


class ForgetsFollowersOfSkipped(JobMachine):
    """What comes after a skipped task waits for ever."""

    def _turn_of(self, name: str, effects: list[Effect]) -> bool:
        super()._turn_of(name, effects)
        return False


class GoesOnWhenCancelled(JobMachine):
    def apply(self, entry: Entry) -> None:
        if not isinstance(entry, Cancelled):
            super().apply(entry)


class CancelledIsFailed(JobMachine):
    def _record(self, entry: Entry, effects: list[Effect]) -> None:
        if isinstance(entry, Decided) and entry.verdict == "cancelled":
            entry = Decided(entry.instance, "failed", entry.text)
        super()._record(entry, effects)


class EndlessLoop(JobMachine):
    def _judge(self, instance: str, outcome: Outcome, effects: list[Effect]) -> None:
        phase = self.phases[instance]
        if outcome.kind == "failed" and isinstance(phase, Pausing) and phase.round <= 3:
            self._launch(instance, phase.attempt + 1, phase.round, effects)
            return
        super()._judge(instance, outcome, effects)


class EndsTooSoon(JobMachine):
    """The job is over when no task waits."""

    def _advance(self, candidates: Any) -> list[Effect]:
        effects = super()._advance(candidates)
        if self.finished is None and not any(
            not isinstance(phase, (Over, Running)) for phase in self.phases.values()
        ):
            self._record(self._finish(), effects)
        return effects


class FailedIsSuccess(JobMachine):
    def _finish(self) -> Any:
        self.tasks = {name: _may_fail(task) for name, task in self.tasks.items()}
        return super()._finish()


def _may_fail(task: TaskSpec) -> TaskSpec:
    return msgspec.structs.replace(task, may_fail=True)


MUTANTS: dict[type[JobMachine], tuple[str, str]] = {
    BeginsBeforeItIsKept: ("sequence", "without a word in the log"),
    ForgetsWhatRuns: ("one", "twice at once"),
    ForgetsToWatch: ("one", "the job has no end"),
    ForgetsToJudge: ("sequence", "the job has no end"),
    OneRetryMore: ("retry", "no retry is left"),
    RetriesWhatWentWell: ("one", "it was well done"),
    NoCondition: ("sequence", "its condition is not true"),
    JoinsTheFirst: ("join", "before all others were over"),
    JoinsTheFirstItem: ("items", "was over"),
    LeavesAGroupTooSoon: ("group", "before the group of"),
    NeverComesToItsEnd: ("group", "it succeeded"),
    RoundsWithoutBound: ("group", "no round of the group is left"),
    RepeatsHalfOfIt: ("group", "before the group of"),
    UnmetIsSuccess: ("group", "it failed"),
    ForgetsFollowersOfSkipped: ("chain", "the job has no end"),
    GoesOnWhenCancelled: ("sequence", "cancelled"),
    CancelledIsFailed: ("sequence", "without any attempt"),
    EndlessLoop: ("loop", "rounds count one by one"),
    EndsTooSoon: ("one", "before all tasks were over"),
    FailedIsSuccess: ("one", "it failed"),
}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_machine_is_caught(mutant: type[JobMachine]) -> None:
    name, why = MUTANTS[mutant]
    job, faults, _ = WORLDS[name]
    found = explore(job, make=mutant, **faults)
    assert any(why in text for text in found.wrong), found.wrong
