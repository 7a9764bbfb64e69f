"""What must hold between the tasks of a job: names that exist, no circle, conditions that can come true, bounds."""

from collections.abc import Sequence

from holdall.jobs.conditions import BadCondition, can_hold, parse_condition
from holdall.jobs.group_table import check_groups
from holdall.jobs.problems import nearest
from holdall.jobs.reading import Reader
from holdall.jobs.spec import ATTEMPTS_MAX, INSTANCES_MAX, TASKS_MAX, JobSpec, TaskSpec, encode_job

ENCODED_BYTES_MAX = 48 * 1024
"""It must fit into one frame, and into one record of its node's journal."""


def check(job: JobSpec, top: Reader) -> None:
    """Note what is wrong in the reader's problems."""
    _sizes(job, top)
    if len(job.tasks) > TASKS_MAX:
        return  # how so many hang together is not looked at
    names = [task.name for task in job.tasks]
    for task in job.tasks:
        _references(task, names, top)
        _condition(task, top)
    _circle(job.tasks, top)
    check_groups(job.groups, job.tasks, top)


def _references(task: TaskSpec, names: Sequence[str], top: Reader) -> None:
    for name in task.after:
        if name == task.name:
            top.problem(f'task "{task.name}" waits for itself', "task", task.name, _key(task, name, top))
        elif name not in names:
            key = _key(task, name, top)
            top.problem(
                f'task "{task.name}" waits for "{name[:64]}", which is no task.{nearest(name, names)}',
                "task",
                task.name,
                key,
                *_element(task, name, key, top),
            )


def _key(task: TaskSpec, name: str, top: Reader) -> str:
    """The key in which a task names another one."""
    below = _table(task, top)
    listed = below.texts("after", "") if below is not None and below.has("after") else ()
    return "after" if name in listed else "when"


def _element(task: TaskSpec, name: str, key: str, top: Reader) -> tuple[int, ...]:
    below = _table(task, top)
    if key != "after" or below is None:
        return ()
    listed = below.texts("after", "")
    return (listed.index(name),) if name in listed else ()


def _table(task: TaskSpec, top: Reader) -> Reader | None:
    before = len(top.problems)
    found = dict(top.tables("task")).get(task.name)
    del top.problems[before:]  # they have been told
    return found


def _condition(task: TaskSpec, top: Reader) -> None:
    if not task.when:
        return
    try:
        condition = parse_condition(task.when)
    except BadCondition:
        return  # told when the table was read
    if not can_hold(condition):
        top.problem(
            f'task "{task.name}" can never run: nothing that can become of the others makes its when true',
            "task",
            task.name,
            "when",
        )


def _circle(tasks: Sequence[TaskSpec], top: Reader) -> None:
    """Each circle once: tasks that are left when all that wait for nothing have been taken away, again and again."""
    names = {task.name for task in tasks}
    waits = {
        task.name: [name for name in task.after if name in names and name != task.name] for task in tasks
    }
    left = dict(waits)
    while True:
        free = [name for name, others in left.items() if not any(other in left for other in others)]
        if not free:
            break
        for name in free:
            del left[name]
    seen: set[str] = set()
    for task in tasks:
        path: list[str] = []
        name = task.name
        while name in left and name not in seen:
            seen.add(name)
            path.append(name)
            name = next(other for other in left[name] if other in left)
        if name in path:
            circle = [*path[path.index(name) :], name]
            first = next(one for one in tasks if one.name == name)
            key = _key(first, circle[1], top)
            text = f"tasks wait for each other in a circle: {' -> '.join(circle)}. Take one of these out of its after"
            top.problem(text, "task", name, key, *_element(first, circle[1], key, top))


def _sizes(job: JobSpec, top: Reader) -> None:
    if len(job.tasks) > TASKS_MAX:
        top.problem(
            f"{len(job.tasks)} tasks; a job has at most {TASKS_MAX}", "task", job.tasks[TASKS_MAX].name
        )
    instances = sum(len(task.foreach or ("",)) for task in job.tasks)
    if instances > INSTANCES_MAX:
        top.problem(f"{instances} tasks with all items of foreach; a job has at most {INSTANCES_MAX}", "task")
    rounds = {task: group.times for group in job.groups for task in group.tasks}
    attempts = sum(
        len(task.foreach or ("",))
        * (1 + task.retry.times)
        * (1 if task.repeat is None else task.repeat.times)
        * rounds.get(task.name, 1)
        for task in job.tasks
    )
    if attempts > ATTEMPTS_MAX:
        top.problem(f"up to {attempts} attempts with all retries and rounds; at most {ATTEMPTS_MAX}", "task")
    size = len(encode_job(job))
    if size > ENCODED_BYTES_MAX:
        top.problem(
            f"the whole job takes {size // 1024} KiB; at most {ENCODED_BYTES_MAX // 1024} KiB", "task"
        )
