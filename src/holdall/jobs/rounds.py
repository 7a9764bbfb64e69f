"""What the end of an attempt means for its round, and the end of a round for its task."""

from holdall.jobs.entries import Decided, Outcome
from holdall.jobs.moves import Pausing
from holdall.jobs.spec import Repeat, TaskSpec


def is_well(task: TaskSpec, outcome: Outcome) -> bool:
    """Whether an end is what the task is for."""
    until = "" if task.repeat is None else task.repeat.until
    return meets(until or "ok", outcome)


def is_last(task: TaskSpec, phase: Pausing, outcome: Outcome) -> bool:
    """Whether a good end of the round before `phase` ends the task."""
    if task.repeat is None or (task.repeat.until and meets(task.repeat.until, outcome)):
        return True
    return phase.round > task.repeat.times


def meets(until: str, outcome: Outcome) -> bool:
    """Whether an end is the one that a loop goes on until."""
    if until == "ok":
        return outcome.kind == "ok"
    if until == "failed":
        return outcome.kind == "failed"
    return outcome.status == int(until) and outcome.kind in {"ok", "failed"}


def end_of_round(instance: str, task: TaskSpec, round_: int, outcome: Outcome) -> Decided | None:
    """What a round without further retries means; None: another round."""
    repeat = task.repeat
    if repeat is None or not repeat.until:
        if outcome.kind != "ok":
            return Decided(instance, "failed", outcome.text)
        return Decided(instance, "ok") if repeat is None or round_ >= repeat.times else None
    return _end_of_search(instance, repeat, round_, outcome)


def _end_of_search(instance: str, repeat: Repeat, round_: int, outcome: Outcome) -> Decided | None:
    if meets(repeat.until, outcome):
        return Decided(instance, "ok")
    if outcome.kind not in {"ok", "failed"}:
        return Decided(
            instance, "failed", outcome.text
        )  # its own end is what the loop asks for, and it had none
    if round_ >= repeat.times:
        return Decided(instance, "failed", f"not {repeat.until} in {repeat.times} rounds")
    return None
