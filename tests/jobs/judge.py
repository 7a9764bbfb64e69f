"""Judges a job by its log alone, with none of the machine's code: did every task run exactly as its rules say?"""

from collections.abc import Sequence

from holdall.jobs.entries import Cancelled, Decided, Ended, Entry, Finished, Granted, Launched, Repeated
from holdall.jobs.spec import GroupSpec, JobSpec, TaskSpec


class Story:
    """What the log says of one instance."""

    def __init__(self, task: TaskSpec) -> None:
        self.task = task
        self.open: int | None = None
        self.attempts = 0
        self.round = 0
        self.retries = 0
        self.ends: list[tuple[int, int, str, int | None]] = []
        """(attempt, round, kind, status)"""
        self.verdict = ""


def verdict_of(stories: Sequence[Story]) -> str:
    verdicts = [story.verdict for story in stories]
    for one in ("failed", "cancelled", "ok", "skipped"):
        if one in verdicts:
            return one
    return ""


def truth(text: str, tasks: dict[str, str], statuses: dict[str, int | None]) -> bool:
    """A condition, by Python's own parser."""
    names = {
        name.replace("-", "_"): type(
            "Fate",
            (),
            {
                **{quality: verdict == quality for quality in ("ok", "failed", "skipped", "cancelled")},
                "status": statuses.get(name),
            },
        )
        for name, verdict in tasks.items()
    }
    return bool(eval(text.replace("-", "_"), {"__builtins__": {}}, {**names, "always": True}))  # noqa: S307


def met(until: str, kind: str, status: int | None) -> bool:
    if until in {"ok", "failed"}:
        return kind == until
    return kind in {"ok", "failed"} and status == int(until)


def judge(job: JobSpec, log: Sequence[Entry], *, whole: bool) -> list[str]:
    """All that is wrong; `whole`: the job must have come to its end."""
    wrong: list[str] = []
    rows = {
        task.name: [task.name] if task.foreach is None else [f"{task.name}[{item}]" for item in task.foreach]
        for task in job.tasks
    }
    tasks = {task.name: task for task in job.tasks}
    stories = {name: Story(tasks[task]) for task, names in rows.items() for name in names}
    cancelled = finished = ""
    group_of = {task: group for group in job.groups for task in group.tasks}
    rounds = {group.name: 1 for group in job.groups}

    def is_over(names: Sequence[str]) -> bool:
        return all(stories[one].verdict for name in names for one in rows[name])

    def is_met(group: GroupSpec) -> bool:
        return truth(group.until, fates(), statuses())

    def waits(name: str, task: TaskSpec) -> bool:
        """Whether a task waits for the group of another one that is over itself."""
        group = group_of.get(name)
        if group is None or group_of.get(task.name) is group or cancelled:
            return False
        return not is_over(group.tasks) or (not is_met(group) and rounds[group.name] < group.times)

    def fates() -> dict[str, str]:
        return {task: verdict_of([stories[name] for name in names]) for task, names in rows.items()}

    def statuses() -> dict[str, int | None]:
        return {
            name: stories[name].ends[-1][3] if name in stories and stories[name].ends else None
            for name in tasks
        }

    def may_begin(task: TaskSpec) -> bool:
        known = fates()
        if task.when:
            return truth(task.when, known, statuses())
        return all(known[name] == "ok" for name in task.after)

    for place, entry in enumerate(log):
        at = f"entry {place} {entry!r}"
        if finished:
            wrong.append(f"{at}: after the end")
        match entry:
            case Launched(instance, attempt, round_):
                story = stories[instance]
                if story.open is not None:
                    wrong.append(f"{at}: twice at once")
                if story.verdict:
                    wrong.append(f"{at}: after its verdict")
                if cancelled:
                    wrong.append(f"{at}: after the job was cancelled")
                if attempt != story.attempts + 1:
                    wrong.append(f"{at}: attempts count one by one")
                wrong += [
                    f"{at}: before {name} was over"
                    for name in story.task.after
                    if any(not stories[one].verdict for one in rows[name])
                ]
                wrong += [
                    f"{at}: before the group of {name} was"
                    for name in story.task.after
                    if waits(name, story.task)
                ]
                group = group_of.get(story.task.name)
                if not story.ends and not may_begin(story.task):
                    wrong.append(f"{at}: its condition is not true")
                if story.ends:
                    wrong += [f"{at}: {why}" for why in why_not_again(story, round_)]
                elif round_ != (1 if group is None else rounds[group.name]):
                    wrong.append(f"{at}: rounds count from 1, or as the group's")
                story.retries = story.retries + 1 if round_ == story.round else 0
                if story.ends and story.ends[-1][2] == "unstarted":
                    story.retries -= 1
                story.open, story.attempts, story.round = attempt, attempt, round_
            case Granted(instance, attempt):
                if stories[instance].open != attempt:
                    wrong.append(f"{at}: not under way")
            case Ended(instance, attempt, outcome):
                story = stories[instance]
                if story.open != attempt:
                    wrong.append(f"{at}: not under way")
                story.open = None
                story.ends.append((attempt, story.round, outcome.kind, outcome.status))
            case Decided(instance, verdict):
                story = stories[instance]
                if story.open is not None:
                    wrong.append(f"{at}: while it runs")
                if story.verdict:
                    wrong.append(f"{at}: twice")
                wrong += [f"{at}: {why}" for why in why_not_so(story, verdict, cancelled=bool(cancelled))]
                if verdict == "skipped":
                    if any(not is_over([name]) or waits(name, story.task) for name in story.task.after):
                        wrong.append(f"{at}: before all others were over")
                    elif may_begin(story.task):
                        wrong.append(f"{at}: although its condition is true")
                story.verdict = verdict
            case Repeated(name, round_):
                group = next(one for one in job.groups if one.name == name)
                if not is_over(group.tasks):
                    wrong.append(f"{at}: before all of it was over")
                elif is_met(group):
                    wrong.append(f"{at}: although it has come to its end")
                if cancelled:
                    wrong.append(f"{at}: after the job was cancelled")
                if round_ != rounds[name] + 1:
                    wrong.append(f"{at}: rounds count one by one")
                if round_ > group.times:
                    wrong.append(f"{at}: no round of the group is left")
                rounds[name] = round_
                for task in group.tasks:
                    for one in rows[task]:
                        story = stories[one]
                        story.verdict, story.ends, story.retries, story.round = "", [], 0, 0
            case Cancelled():
                if cancelled:
                    wrong.append(f"{at}: twice")
                cancelled = "cancelled"
            case Finished(verdict):
                finished = verdict
                if any(not story.verdict for story in stories.values()):
                    wrong.append(f"{at}: before all tasks were over")
                known = fates()
                bad = [name for name, fate in known.items() if fate == "failed" and not tasks[name].may_fail]
                unmet = [group.name for group in job.groups if not is_met(group)]
                bad += unmet
                right = (
                    "cancelled"
                    if cancelled and ("cancelled" in known.values() or unmet)
                    else "failed"
                    if bad
                    else "succeeded"
                )
                if verdict != right:
                    wrong.append(f"{at}: it {right}")
    if whole and not finished:
        wrong.append("the job has no end")
    return wrong


def why_not_again(story: Story, round_: int) -> list[str]:
    """Whether another attempt may follow on the last one."""
    task = story.task
    if not story.ends:
        return ["the attempt before it has no end"]
    _, before, kind, status = story.ends[-1]
    if kind == "unstarted":
        streak = 0
        for one in reversed(story.ends):
            if one[2] != "unstarted":
                break
            streak += 1
        return (
            ["not begun too often"]
            if streak >= 5
            else []
            if round_ == before
            else ["the round has not begun"]
        )
    until = "" if task.repeat is None else task.repeat.until
    if until and met(until, kind, status):
        return ["the loop has found what it looks for"]
    if not until and task.repeat is None and kind == "ok":
        return ["it was well done"]
    if round_ == before:
        if kind not in task.retry.on:
            return [f"{kind} is not retried"]
        if kind == "ok" or story.retries >= task.retry.times:
            return ["no retry is left"]
        return []
    if task.repeat is None:
        return ["it has one round"]
    if round_ != before + 1 or round_ > task.repeat.times:
        return ["rounds count one by one, up to times"]
    if kind in task.retry.on and kind != "ok" and story.retries < task.retry.times:
        return ["retries come before the next round"]
    if not until and kind != "ok":
        return ["a round that is not ok ends the loop"]
    if until and kind not in {"ok", "failed"}:
        return ["a round without an end of its own ends the loop"]
    return []


def why_not_so(story: Story, verdict: str, *, cancelled: bool) -> list[str]:
    """Whether the verdict follows from the attempts."""
    task = story.task
    if verdict == "cancelled":
        return [] if cancelled else ["nobody has cancelled the job"]
    if not story.ends:
        return [] if verdict == "skipped" else ["without any attempt"]
    if verdict == "skipped":
        return ["it has run"]
    _, round_, kind, status = story.ends[-1]
    until = "" if task.repeat is None else task.repeat.until
    well = met(until or "ok", kind, status) and (
        bool(until) or task.repeat is None or round_ >= task.repeat.times
    )
    if verdict == "ok":
        return [] if well else ["it has not ended well"]
    if well:
        return ["it has ended well"]
    if kind == "unstarted":
        return [] if [one[2] for one in story.ends[-5:]] == ["unstarted"] * 5 else ["attempts are left"]
    if kind in task.retry.on and story.retries < task.retry.times:
        return ["a retry is left"]
    if task.repeat is not None and round_ < task.repeat.times:
        if until and kind in {"ok", "failed"}:
            return ["a round is left"]
        if not until and kind == "ok":
            return ["a round is left"]
    return []
