"""Loops over several tasks: a group's rounds, and when what comes after it may begin."""

from collections.abc import Callable, Hashable, Sequence

from holdall.jobs.conditions import Fate, holds, parse_condition
from holdall.jobs.spec import GroupSpec, JobSpec


class Groups:
    """All of one job. `fate` tells what became of a task; None while anything of it is to come."""

    def __init__(self, job: JobSpec, fate: Callable[[str], Fate | None]) -> None:
        self.rounds = {group.name: 1 for group in job.groups}
        """The one that each is in."""
        self._groups = {group.name: group for group in job.groups}
        self._of = {task: group for group in job.groups for task in group.tasks}
        self._conditions = {group.name: parse_condition(group.until) for group in job.groups}
        self._fate = fate

    def group_of(self, task: str) -> GroupSpec | None:
        """The group that a task is of."""
        return self._of.get(task)

    def round_of(self, task: str) -> int:
        """Of its group; 1 where it has none."""
        group = self._of.get(task)
        return 1 if group is None else self.rounds[group.name]

    def with_task(self, task: str) -> Sequence[str]:
        """All of its group, or itself alone."""
        group = self._of.get(task)
        return (task,) if group is None else group.tasks

    def holds_back(self, task: str, follower: str, *, cancelled: bool) -> bool:
        """Whether `follower`, which comes after `task`, waits for the end of that one's group."""
        group = self._of.get(task)
        if group is None or self._of.get(follower) is group or cancelled:
            return False
        return not self._is_over(group) or self._goes_on(group)

    def to_repeat(self) -> tuple[GroupSpec, ...]:
        """Those whose round is over, without what they go on until, and rounds are left."""
        return tuple(
            group for group in self._groups.values() if self._is_over(group) and self._goes_on(group)
        )

    def begin_round(self, name: str, round_: int) -> Sequence[str]:
        """The group is in this round now; its tasks."""
        self.rounds[name] = round_
        return self._groups[name].tasks

    def unmet(self) -> tuple[GroupSpec, ...]:
        """Of a job whose tasks are all over: those that never came to what they went on until."""
        return tuple(group for group in self._groups.values() if not self._is_met(group))

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(self.rounds.items())

    def copy(self, fate: Callable[[str], Fate | None]) -> "Groups":
        """A twin, for another machine."""
        twin = object.__new__(Groups)
        twin.__dict__.update(self.__dict__)
        twin.rounds = dict(self.rounds)
        twin._fate = fate
        return twin

    def _is_over(self, group: GroupSpec) -> bool:
        return all(self._fate(task) is not None for task in group.tasks)

    def _goes_on(self, group: GroupSpec) -> bool:
        return self.rounds[group.name] < group.times and not self._is_met(group)

    def _is_met(self, group: GroupSpec) -> bool:
        fates = {task: self._fate(task) or Fate("skipped") for task in group.tasks}
        return holds(self._conditions[group.name], fates)
