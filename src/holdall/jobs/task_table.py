"""One `[task.NAME]` of a job file."""

import re

from holdall.jobs.conditions import BadCondition, names_in, parse_condition
from holdall.jobs.problems import nearest
from holdall.jobs.reading import Reader
from holdall.jobs.spec import ITEM, RETRIED_BY_DEFAULT, RETRYABLE, Kind, Repeat, Retry, TaskSpec
from holdall.model.errors import BadSpec
from holdall.model.names import NEEDS_MAX
from holdall.model.spec import parse_spec

NAME_RE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")
RESERVED = ("and", "or", "not", "always")
ITEM_RE = re.compile(r"[A-Za-z0-9._+/@=-]{1,64}\Z")
RETRIES_MAX = 100
ROUNDS_MAX = 1_000
COMMAND_BYTES_MAX = 16 * 1024
SHELL = ("/bin/sh", "-c")
_KEYS = (
    "run", "on", "needs", "after", "when", "retry", "foreach", "repeat", "timeout", "for", "wait", "ttl", "env", "reason",
    "may_fail",
)  # fmt: skip
_RUN = 'words of a command, e.g. ["make", "all"], or one text for /bin/sh'


def read_task(name: str, table: Reader) -> TaskSpec:
    """The task, as far as it can be read; what is wrong with it is noted in the table's problems."""
    table.only(_KEYS)
    if NAME_RE.match(name) is None or name in RESERVED:
        table.problem(
            f"{name[:64]!r} can't name a task: a-z, 0-9, '_' and '-', at most 63 letters, none of {', '.join(RESERVED)}"
        )
    foreach = _foreach(table)
    when = table.text("when", "") if table.has("when") else ""
    after = (*table.texts("after", 'names of tasks, e.g. ["build"]'), *_named_in(table, when))
    return TaskSpec(
        name=name,
        run=_run(table, has_items=foreach is not None),
        on=_on(table),
        needs=_needs(table, foreach),
        after=tuple(dict.fromkeys(after)),
        when=when,
        retry=_retry(table),
        foreach=foreach,
        repeat=_repeat(table),
        timeout_ms=table.duration_ms("timeout", None, least_ms=1),
        hold_for_ms=table.duration_ms("for", None, least_ms=1),
        wait_ms=table.duration_ms("wait", None),
        ttl_ms=table.duration_ms("ttl", None, least_ms=1),
        env=table.texts_by_name("env"),
        reason=table.text("reason", "")[:400] if table.has("reason") else "",
        may_fail=table.flag("may_fail"),
    )


def _run(table: Reader, *, has_items: bool) -> tuple[str, ...]:
    if not table.has("run"):
        table.problem(f"no run. It is {_RUN}")
        return ("false",)
    if table.is_text("run"):
        text = table.text("run", "false")
        if has_items and ITEM in text:
            table.problem(
                f"{ITEM} in a text for the shell would be read as a part of it; use $HOLDALL_ITEM, or a list of words",
                "run",
            )
        words: tuple[str, ...] = (*SHELL, text)
    else:
        words = table.texts("run", _RUN)
        if not words and not table.problems:
            table.problem(f"run is empty; it is {_RUN}", "run")
    if sum(len(word.encode()) + 1 for word in words) > COMMAND_BYTES_MAX:
        table.problem(f"a command of more than {COMMAND_BYTES_MAX // 1024} KiB; put it into a script", "run")
    return words or ("false",)


def _on(table: Reader) -> str:
    """The name of a node; what a command there can't have is refused."""
    if not table.has("on"):
        return ""
    if not table.has("needs"):
        table.problem(
            "on without needs: what runs on another node runs under a lease. Name at least one", "on"
        )
    if table.has("timeout"):
        table.problem("timeout can't be kept on another node; give its lease a hard end: for", "timeout")
    return table.name("on", "")


def _needs(table: Reader, foreach: tuple[str, ...] | None) -> tuple[tuple[str, ...], ...]:
    needs = table.alternatives("needs", 'SPECs, e.g. ["gpu:2", ["board,arch=arm64", "board,arch=x86:2"]]')
    if len(needs) > NEEDS_MAX:
        table.problem(f"{len(needs)} needs in one task; at most {NEEDS_MAX}", "needs", NEEDS_MAX)
    for number, need in enumerate(needs):
        for spec in need:
            for item in dict.fromkeys(foreach or ("",)):
                try:
                    parse_spec(spec.replace(ITEM, item) if foreach is not None else spec)
                except BadSpec as error:
                    table.problem(str(error), "needs", number)
                    break
    return needs


def _named_in(table: Reader, when: str) -> tuple[str, ...]:
    if not when:
        return ()
    try:
        return tuple(name for name, _ in names_in(parse_condition(when)))
    except BadCondition as error:
        table.problem(f"when: {error.text} (letter {error.at + 1} of {when[:80]!r})", "when")
        return ()


def _retry(table: Reader) -> Retry:
    if table.is_number("retry"):
        return Retry(times=table.number("retry", 0, least=0, most=RETRIES_MAX))
    below = table.table("retry", 'a number of retries or { times = 2, on = ["lost"], wait = "5s" }')
    if below is None:
        return Retry()
    below.only(("times", "on", "wait"))
    on: list[Kind] = []
    for number, text in enumerate(below.texts("on", f"some of {', '.join(RETRYABLE)}")):
        kind: Kind | None = next((kind for kind in RETRYABLE if kind == text), None)
        if kind is None:
            below.problem(
                f"{text[:40]!r} is no end that can be retried.{nearest(text, RETRYABLE)}", "on", number
            )
        else:
            on.append(kind)
    return Retry(
        times=below.number("times", 1, least=0, most=RETRIES_MAX),
        on=tuple(dict.fromkeys(on)) or RETRIED_BY_DEFAULT,
        wait_ms=below.duration_ms("wait", 0) or 0,
    )


def _repeat(table: Reader) -> Repeat | None:
    if table.is_number("repeat"):
        return Repeat(times=table.number("repeat", 1, least=1, most=ROUNDS_MAX))
    below = table.table("repeat", 'a number of rounds or { times = 5, until = "ok", wait = "1s" }')
    if below is None:
        return None
    below.only(("times", "until", "wait"))
    if not below.has("times"):
        below.problem("repeat without times: every loop has a bound, e.g. times = 5")
    until = str(below.number("until", 0, least=0, most=255)) if below.is_number("until") else ""
    if below.has("until") and not until:
        until = below.text("until", "ok")
        if until not in {"ok", "failed"}:
            below.problem(
                f'until: {until[:40]!r} where "ok", "failed" or an exit status is expected', "until"
            )
    return Repeat(
        times=below.number("times", 1, least=1, most=ROUNDS_MAX),
        until=until,
        wait_ms=below.duration_ms("wait", 0) or 0,
    )


def _foreach(table: Reader) -> tuple[str, ...] | None:
    if not table.has("foreach"):
        return None
    items = table.texts("foreach", 'a list of texts, e.g. ["arm64", "x86"]')
    if not items and not table.problems:
        table.problem("foreach has no item; leave the task out, or name at least one", "foreach")
    for number, item in enumerate(items):
        if ITEM_RE.match(item) is None:
            table.problem(
                f"foreach: {item[:70]!r}: an item has 1 to 64 letters of A-Z a-z 0-9 . _ + / @ = -",
                "foreach",
                number,
            )
        elif item in items[:number]:
            table.problem(f"foreach: {item!r} stands here twice", "foreach", number)
    return items or None
