"""A job as lines of text: each task with what it does or waits for, below what it comes after."""

from collections.abc import Mapping

from holdall.jobs.client import JobView
from holdall.jobs.entries import Cancelled, Decided, Ended, Entry, Finished, Granted, Launched, Repeated
from holdall.jobs.machine import JobMachine
from holdall.jobs.moves import Over, Pausing, Phase, Running
from holdall.jobs.spec import TaskSpec
from holdall.model.durations import show_duration

ITEMS_SHOWN_MAX = 6
DEPTH_SHOWN_MAX = 12
UNITS_SHOWN_MAX = 3
MARKS: Mapping[str, str] = {
    "ok": "+",
    "failed": "x",
    "skipped": "-",
    "cancelled": "-",
    "running": ">",
    "pausing": "~",
    "waiting": ".",
}
"""One letter for each state."""


def depths(machine: JobMachine) -> dict[str, int]:
    """How many tasks stand before each one, on the longest way."""
    found: dict[str, int] = {}
    left = [task.name for task in machine.job.tasks]
    for _ in range(len(left)):
        for name in list(left):
            before = machine.tasks[name].after
            if all(other in found for other in before):
                found[name] = max((found[other] + 1 for other in before), default=0)
                left.remove(name)
    # What no checked job has: tasks in a circle.
    return found | dict.fromkeys(left, 0)


def tree_lines(view: JobView) -> list[str]:
    """One line a task, in an order in which each comes after those that it waits for."""
    machine = view.machine
    depth = depths(machine)
    width = min(
        40, max(len(task.name) + 2 * min(depth[task.name], DEPTH_SHOWN_MAX) for task in view.spec.tasks)
    )
    lines: list[str] = []
    for task in sorted(view.spec.tasks, key=lambda task: depth[task.name]):
        indent = "  " * min(depth[task.name], DEPTH_SHOWN_MAX)
        state, text = task_state(view, task)
        lines.append(f"{MARKS[state]} {(indent + task.name).ljust(width)}  {text}".rstrip())
        if task.foreach is not None:
            lines += [f"    {indent}{line}" for line in _items(view, task)]
    return lines


def task_state(view: JobView, task: TaskSpec) -> tuple[str, str]:
    """State of a whole task, and the words for it."""
    machine = view.machine
    fate = machine.fate(task.name)
    rows = machine.instances[task.name]
    if task.foreach is not None:
        over = [machine.phases[one.name] for one in rows]
        counts: dict[str, int] = {}
        for phase in over:
            counts[state_of(phase)] = counts.get(state_of(phase), 0) + 1
        text = ", ".join(f"{number} {word}" for word, number in counts.items())
        if fate is not None:
            return fate.verdict, text
        for word in ("running", "pausing"):
            if word in counts:
                return word, text
        return "waiting", _waits(machine, task)
    phase = machine.phases[rows[0].name]
    return state_of(phase), phase_text(view, rows[0].name, phase)


def state_of(phase: Phase) -> str:
    """One word: a verdict, `running`, `pausing` or `waiting`."""
    match phase:
        case Over(verdict):
            return verdict
        case Running():
            return "running"
        case Pausing():
            return "pausing"
        case _:
            return "waiting"


def phase_text(view: JobView, instance: str, phase: Phase) -> str:
    """What an instance does, waits for, or has come to."""
    task = view.machine.task_of[instance]
    match phase:
        case Over(verdict, _, text):
            return f"{verdict}: {text}" if text else verdict
        case Running(attempt, round_):
            counted = f"attempt {attempt}" if attempt > 1 else ""
            looped = _round(view.machine, task, round_)
            place = f"on {task.on}" if task.on else ""
            parts = (
                view.notes.get(instance, "begins"),
                place,
                _holds(view, instance, attempt),
                looped,
                counted,
            )
            return ", ".join(part for part in parts if part)
        case Pausing(attempt, _, _, _, ms):
            return f"again in {show_duration(ms)}, after attempt {attempt}"
        case _:
            return _waits(view.machine, task)


def _holds(view: JobView, instance: str, attempt: int) -> str:
    """Empty: nothing of its own, by what is known."""
    grant = view.grants.get(instance)
    if grant is None or grant.attempt != attempt:
        return ""
    more = len(grant.units) - UNITS_SHOWN_MAX
    return f"holds {' '.join(grant.units[:UNITS_SHOWN_MAX])}" + (f" and {more} more" if more > 0 else "")


def _round(machine: JobMachine, task: TaskSpec, round_: int) -> str:
    """Empty: it is in no loop."""
    group = machine.groups.group_of(task.name)
    if group is not None:
        return f"round {round_} of {group.times} of group {group.name}"
    return "" if task.repeat is None else f"round {round_} of {task.repeat.times}"


def _waits(machine: JobMachine, task: TaskSpec) -> str:
    names = machine.waits_for(task.name)
    return f"waits for {', '.join(names)}" if names else "waits"


def _items(view: JobView, task: TaskSpec) -> list[str]:
    """Those that need a look: under way or ended badly."""
    machine = view.machine
    rows = [
        (one, machine.phases[one.name])
        for one in machine.instances[task.name]
        if state_of(machine.phases[one.name]) in {"running", "pausing", "failed"}
    ]
    lines = [
        f"{MARKS[state_of(phase)]} [{one.item}]  {phase_text(view, one.name, phase)}"
        for one, phase in rows[:ITEMS_SHOWN_MAX]
    ]
    if len(rows) > ITEMS_SHOWN_MAX:
        lines.append(f"  and {len(rows) - ITEMS_SHOWN_MAX} more")
    return lines


def entry_line(entry: Entry) -> str:
    """One entry of a log in words."""
    match entry:
        case Launched(instance, attempt, round_):
            return f"{instance}  begins attempt {attempt}" + (f", round {round_}" if round_ > 1 else "")
        case Granted(instance, _, _, units):
            return f"{instance}  granted {' '.join(units)}"
        case Ended(instance, attempt, outcome):
            text = f": {outcome.text}" if outcome.text else ""
            return f"{instance}  attempt {attempt} {outcome.kind}{text}"
        case Decided(instance, verdict, text):
            return f"{instance}  is over: {verdict}" + (f" ({text})" if text else "")
        case Repeated(group, round_):
            return f"group {group}  begins round {round_}"
        case Cancelled(reason):
            return f"cancelled: {reason}"
        case Finished(verdict, text):
            return f"job {verdict}" + (f": {text}" if text else "")
