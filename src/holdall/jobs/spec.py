"""What a job file says, as values: tasks in an order that is checked already.

A job is kept by its node in this form (JSON), so a file that changes after the start changes nothing.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from holdall.model.decoding import decoded

TASKS_MAX = 500
INSTANCES_MAX = 2_000
"""Tasks of a job, each counted once for every item of its `foreach`."""
ATTEMPTS_MAX = 20_000
"""Of a whole job, if every retry and every round is used."""
AT_ONCE = 32
AT_ONCE_MAX = 200
"""Each attempt has a process that watches it, also while it waits for its needs."""
ITEM = "{item}"
"""In `run`, `needs`, `env` and `reason`: the item of `foreach` that this instance is for."""

Kind: TypeAlias = Literal[
    "ok", "failed", "timeout", "lost", "not-granted", "refused", "interrupted", "unstarted"
]
"""How one attempt ended. `failed`: by its own exit status or a signal; `timeout`: stopped since its time was over;
`lost`: stopped since its lease was lost or its `for` over; `not-granted`: its needs did not come free within `wait`;
`refused`: what it needs can never be granted, or is not for this user, or the command can't be executed;
`interrupted`: it has ended, and nobody knows how (the machine went down, or its watcher was killed);
`unstarted`: it has ended, and its command has certainly not run."""

RETRYABLE: tuple[Kind, ...] = ("failed", "timeout", "lost", "not-granted", "interrupted")
RETRIED_BY_DEFAULT: tuple[Kind, ...] = ("failed", "timeout", "lost", "interrupted")

Verdict: TypeAlias = Literal["ok", "failed", "skipped", "cancelled"]
"""What became of a task, when nothing of it is to come any more."""


class Retry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attempts after the first, of each round: at most `times`, after an end of one of the kinds `on`."""

    times: int = 0
    on: tuple[Kind, ...] = RETRIED_BY_DEFAULT
    wait_ms: int = 0


class Repeat(msgspec.Struct, frozen=True, omit_defaults=True):
    """Rounds of one task: at most `times`; with `until` the first round that ends so is the last."""

    times: int
    until: str = ""
    """`ok`, `failed`, or an exit status as text; empty: all rounds, each of which must end well."""
    wait_ms: int = 0


class TaskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. Its command runs while all its needs are held."""

    name: str
    run: tuple[str, ...]
    """Words of a command."""
    on: str = ""
    """The node that its command runs on; empty: the job's."""
    needs: tuple[tuple[str, ...], ...] = ()
    """Each need as its alternatives (SPECs), the preferred one first."""
    after: tuple[str, ...] = ()
    """Tasks that must be over before, those that `when` names included."""
    when: str = ""
    """Condition on what became of other tasks; empty: all of `after` ended well."""
    retry: Retry = Retry()
    foreach: tuple[str, ...] | None = None
    repeat: Repeat | None = None
    timeout_ms: int | None = None
    """How long the command may run."""
    hold_for_ms: int | None = None
    """Hard end of its lease, counted from the grant (`for`)."""
    wait_ms: int | None = None
    """How long it may wait for its needs; None: without limit."""
    ttl_ms: int | None = None
    env: dict[str, str] = {}
    reason: str = ""
    may_fail: bool = False
    """The job can succeed although this task failed."""


class GroupSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tasks that are done again together, until a condition on what became of them is true."""

    name: str
    tasks: tuple[str, ...]
    until: str
    times: int
    """Rounds at most."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A whole job. `tasks` stand in the order of the file."""

    v: int = 1
    name: str
    tasks: tuple[TaskSpec, ...]
    groups: tuple[GroupSpec, ...] = ()
    env: dict[str, str] = {}
    at_once: int = AT_ONCE
    """Attempts that are under way at most, waiting for their needs or running."""
    folder: str = ""
    """Where commands run; absolute."""


class Instance(msgspec.Struct, frozen=True, order=True):
    """A task, or a task for one item of its `foreach`. `name` is `task` or `task[item]`, unique in its job."""

    name: str
    task: str
    item: str | None = None
    number: int = 0
    """Its place among those of its task, from 0."""


def instances_of(task: TaskSpec) -> tuple[Instance, ...]:
    """What a task is made of, in the order of its items."""
    if task.foreach is None:
        return (Instance(task.name, task.name),)
    return tuple(
        Instance(f"{task.name}[{item}]", task.name, item, number) for number, item in enumerate(task.foreach)
    )


def filled_in(text: str, item: str | None) -> str:
    """`text` with the item in its place."""
    return text if item is None else text.replace(ITEM, item)


def command_of(task: TaskSpec, instance: Instance) -> tuple[str, ...]:
    """The words of an instance's command."""
    return tuple(filled_in(word, instance.item) for word in task.run)


def needs_of(task: TaskSpec, instance: Instance) -> tuple[tuple[str, ...], ...]:
    """The needs of an instance, as SPECs."""
    return tuple(tuple(filled_in(spec, instance.item) for spec in need) for need in task.needs)


def environment_of(
    job: JobSpec, task: TaskSpec, instance: Instance, *, attempt: int, round_: int
) -> Mapping[str, str]:
    """What a command finds in its environment beside what its lease adds."""
    own = {name: filled_in(value, instance.item) for name, value in {**job.env, **task.env}.items()}
    about = {
        "HOLDALL_TASK": task.name,
        "HOLDALL_ATTEMPT": str(attempt),
        "HOLDALL_ROUND": str(round_),
        **({} if instance.item is None else {"HOLDALL_ITEM": instance.item}),
    }
    return {**own, **about}


def encode_job(job: JobSpec) -> bytes:
    """The form in which a node keeps it."""
    return msgspec.json.encode(job)


def decode_job(data: bytes) -> JobSpec:
    """Raises msgspec.DecodeError on everything that `encode_job` can't have written."""
    return decoded(msgspec.json.Decoder(JobSpec).decode, data)
