"""A job as programs see it: each task with its state, what it waits for, and its attempts. One form for all faces.

It says what tasks need and how they went, not their commands and environments: those are for the job's user alone.
"""

from collections.abc import Sequence

import msgspec

from holdall.jobs.client import JobView
from holdall.jobs.entries import Ended, Granted, Launched
from holdall.jobs.moves import Pausing, Running
from holdall.jobs.spec import Instance, Kind, TaskSpec, needs_of
from holdall.jobs.tree import phase_text, state_of, task_state

ATTEMPTS_SHOWN_MAX = 50
"""Of one instance, the youngest."""


class AttemptShown(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt. Times are Unix milliseconds."""

    attempt: int
    round: int
    began_ms: int
    granted_ms: int | None = None
    """When it had its needs."""
    ended_ms: int | None = None
    lease: str = ""
    units: tuple[str, ...] = ()
    """`pool/unit@node#fence`"""
    kind: Kind | None = None
    """How it ended; None: it is under way."""
    status: int | None = None
    text: str = ""


class InstanceShown(msgspec.Struct, frozen=True, kw_only=True):
    """A task, or a task for one item of its `foreach`."""

    name: str
    item: str | None
    state: str
    """`waiting`, `running`, `pausing`, `ok`, `failed`, `skipped` or `cancelled`"""
    text: str
    """The same in words."""
    note: str
    """Of one under way: why its claim waits (place, what is busy, who has it), or what it does."""
    attempt: int | None
    """The one that is under way."""
    needs: tuple[tuple[str, ...], ...]
    attempts: tuple[AttemptShown, ...]
    attempts_more: int = 0
    """Earlier ones that are not shown."""


class TaskShown(msgspec.Struct, frozen=True, kw_only=True):
    """One task of the file."""

    task: str
    state: str
    text: str
    on: str
    """The node that it runs on; empty: the job's."""
    group: str
    """The loop that it is part of; empty: none,"""
    round: int
    """and the round that this is in, from 1."""
    after: tuple[str, ...]
    when: str
    waits_for: tuple[str, ...]
    """Of `after`, those that are not over."""
    may_fail: bool
    began_ms: int | None
    """When its first attempt began."""
    ended_ms: int | None
    """When nothing more of it was to come."""
    instances: tuple[InstanceShown, ...]


def tasks_shown(view: JobView) -> tuple[TaskShown, ...]:
    """All tasks, in the order of the file."""
    attempts = _attempts(view)
    return tuple(_task(view, task, attempts) for task in view.spec.tasks)


def _attempts(view: JobView) -> dict[str, list[AttemptShown]]:
    """Of each instance, the oldest first."""
    found: dict[str, list[AttemptShown]] = {}
    for entry in view.log:
        match entry:
            case Launched(instance, attempt, round_, at_ms):
                shown = AttemptShown(attempt=attempt, round=round_, began_ms=at_ms)
                found.setdefault(instance, []).append(shown)
            case Granted(instance, _, lease, units, at_ms):
                found[instance][-1] = msgspec.structs.replace(
                    found[instance][-1], granted_ms=at_ms, lease=lease, units=units
                )
            case Ended(instance, _, outcome, at_ms):
                found[instance][-1] = msgspec.structs.replace(
                    found[instance][-1],
                    ended_ms=at_ms,
                    kind=outcome.kind,
                    status=outcome.status,
                    text=outcome.text,
                )
            case _:
                pass
    return found


def _task(view: JobView, task: TaskSpec, attempts: dict[str, list[AttemptShown]]) -> TaskShown:
    state, text = task_state(view, task)
    group = view.machine.groups.group_of(task.name)
    instances = view.machine.instances[task.name]
    began = [attempts[one.name][0].began_ms for one in instances if one.name in attempts]
    return TaskShown(
        task=task.name,
        state=state,
        text=text,
        on=task.on,
        group="" if group is None else group.name,
        round=view.machine.groups.round_of(task.name),
        after=task.after,
        when=task.when,
        waits_for=view.machine.waits_for(task.name),
        may_fail=task.may_fail,
        began_ms=min(began, default=None),
        ended_ms=view.decided_ms(task.name),
        instances=tuple(_instance(view, task, one, attempts.get(one.name, ())) for one in instances),
    )


def _instance(
    view: JobView, task: TaskSpec, one: Instance, attempts: Sequence[AttemptShown]
) -> InstanceShown:
    phase = view.machine.phases[one.name]
    return InstanceShown(
        name=one.name,
        item=one.item,
        state=state_of(phase),
        text=phase_text(view, one.name, phase),
        note=view.notes.get(one.name, "") if isinstance(phase, Running | Pausing) else "",
        attempt=phase.attempt if isinstance(phase, Running) else None,
        needs=needs_of(task, one),
        attempts=tuple(attempts[-ATTEMPTS_SHOWN_MAX:]),
        attempts_more=max(0, len(attempts) - ATTEMPTS_SHOWN_MAX),
    )
