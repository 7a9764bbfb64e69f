"""One `[group.NAME]` of a job file: a loop over several tasks."""

from collections.abc import Iterable, Sequence

from holdall.jobs.conditions import BadCondition, can_hold, names_in, parse_condition
from holdall.jobs.problems import nearest
from holdall.jobs.reading import Reader
from holdall.jobs.spec import GroupSpec, TaskSpec
from holdall.jobs.task_table import NAME_RE, ROUNDS_MAX


def read_group(name: str, table: Reader) -> GroupSpec:
    """The group, as far as it can be read; what is wrong with it is noted in the table's problems."""
    table.only(("tasks", "until", "times"))
    if NAME_RE.match(name) is None:
        table.problem(f"{name[:64]!r} can't name a group: a-z, 0-9, '_' and '-', at most 63 letters")
    for key, example in (
        ("tasks", 'tasks = ["flash", "check"]'),
        ("until", 'until = "check.ok"'),
        ("times", "times = 5"),
    ):
        if not table.has(key):
            table.problem(f"a group without {key}; e.g. {example}")
    return GroupSpec(
        name=name,
        tasks=tuple(dict.fromkeys(table.texts("tasks", 'names of tasks, e.g. ["flash", "check"]'))),
        until=table.text("until", "always"),
        times=table.number("times", 1, least=1, most=ROUNDS_MAX),
    )


def check_groups(groups: Sequence[GroupSpec], tasks: Sequence[TaskSpec], top: Reader) -> None:
    """Note what is wrong between groups and tasks."""
    known = {task.name: task for task in tasks}
    taken: dict[str, str] = {}
    for group in groups:
        for number, name in enumerate(group.tasks):
            where = ("group", group.name, "tasks", number)
            if name not in known:
                top.problem(
                    f'group "{group.name}": "{name[:64]}" is no task.{nearest(name, list(known))}', *where
                )
            elif name in taken:
                top.problem(f'task "{name}" is in two groups: {taken[name]} and {group.name}', *where)
            elif known[name].repeat is not None:
                top.problem(
                    f'task "{name}" has a repeat of its own; in a group it is done again with the others',
                    *where,
                )
            taken.setdefault(name, group.name)
        _until(group, top)
        way = _way_around(group, known)
        if way:
            text = f'tasks outside of group "{group.name}" stand between its tasks: {" -> ".join(way)}. Take them into it'
            top.problem(text, "group", group.name, "tasks")


def _until(group: GroupSpec, top: Reader) -> None:
    where = ("group", group.name, "until")
    try:
        condition = parse_condition(group.until)
    except BadCondition as error:
        top.problem(f"until: {error.text} (letter {error.at + 1} of {group.until[:80]!r})", *where)
        return
    for name, _ in names_in(condition):
        if name not in group.tasks:
            top.problem(
                f'until names "{name}", which is not of the group.{nearest(name, group.tasks)}', *where
            )
    if not can_hold(condition):
        top.problem("until can never come true", *where)


def _way_around(group: GroupSpec, known: dict[str, TaskSpec]) -> list[str]:
    """From a task of the group over others back into it, against the order; empty: there is none."""
    seen: set[str] = set()
    ways: list[list[str]] = [[name] for name in group.tasks if name in known]
    while ways:
        way = ways.pop()
        for name in _before(known, way[-1]):
            if name in group.tasks:
                if len(way) > 1:
                    return [*way, name]
            elif name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _before(known: dict[str, TaskSpec], name: str) -> Iterable[str]:
    return (other for other in known[name].after if other in known)
