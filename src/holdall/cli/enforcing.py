"""`--limit`, `--stay` and `--before-end` of `holdall run`, read; and what is said of how limits are kept."""

import signal
from collections.abc import Mapping, Sequence
from typing import get_args

from holdall.guardian.enforcement.figures import CPU, MEMORY, PROCESSES, Kept, Limits
from holdall.guardian.orders import BeforeEnd
from holdall.model import terms
from holdall.model.durations import finite_duration
from holdall.model.errors import BadSpec
from holdall.model.quantities import BaseUnit, parse_quantity
from holdall.model.refusals import Refusal

PROCESSES_MAX = 1 << 22
"""More there can't be on Linux."""
MEM_MIN = 1 << 20
_UNITS: Mapping[str, BaseUnit] = {CPU: "mcpu", MEMORY: "B"}
_HINT = "write e.g. --limit cpu=2cpu, --limit mem=4GiB or --limit processes=100"


def read_limits(texts: Sequence[str]) -> Limits:
    """`--limit NAME=AMOUNT`, each name once. Raises BadSpec."""
    found: dict[str, int] = {}
    for text in texts:
        name, equals, amount = text.partition("=")
        if not equals or name not in {CPU, MEMORY, PROCESSES}:
            raise BadSpec(f"--limit {text[:80]!r}: {_HINT}")
        if name in found:
            raise BadSpec(f"--limit {name} is given twice. Leave one of them out.")
        found[name] = _processes(amount) if name == PROCESSES else _quantity(name, amount)
    return Limits(found.get(CPU), found.get(MEMORY), found.get(PROCESSES))


def _quantity(name: str, amount: str) -> int:
    try:
        found = parse_quantity(amount, _UNITS[name], what=f"--limit {name}")
    except Refusal as refusal:
        raise BadSpec(f"--limit {name}: {refusal.text}") from None
    if name == MEMORY and found < MEM_MIN:
        raise BadSpec(f"--limit {name}={amount}: no command starts in less than {MEM_MIN} bytes; {_HINT}")
    return found


def _processes(amount: str) -> int:
    if not (
        amount.isascii() and amount.isdecimal() and len(amount) < 10 and 1 <= int(amount) <= PROCESSES_MAX
    ):
        raise BadSpec(f"--limit processes={amount[:40]}: a number from 1 to {PROCESSES_MAX}")
    return int(amount)


def read_before_end(text: str) -> BeforeEnd | None:
    """`--before-end LEAD:SIGNAL` or `LEAD:COMMAND`; empty: nothing. Raises BadSpec."""
    if not text:
        return None
    lead, colon, what = text.partition(":")
    what = what.strip()
    if not colon or not what:
        raise BadSpec(f"--before-end {text[:80]!r}: write e.g. 30s:USR1 or '1m:./save.sh'")
    lead_ms = finite_duration(lead, what="--before-end")
    number = _signal_named(what)
    if number:
        return BeforeEnd(lead_ms, signal=number)
    return BeforeEnd(lead_ms, command=("/bin/sh", "-c", what))


def read_signal_before_end(text: str) -> terms.BeforeEnd | None:
    """`--before-end LEAD:SIGNAL` of a negotiated lease; empty: nothing. Raises BadSpec."""
    before = read_before_end(text)
    if before is None:
        return None
    name = signal.Signals(before.signal).name.removeprefix("SIG") if before.signal else ""
    if before.lead_ms < 1 or name not in get_args(terms.EndSignal):
        known = ", ".join(get_args(terms.EndSignal))
        raise BadSpec(f"--before-end {text[:80]!r}: write e.g. 10s:USR1, with one of {known}")
    return terms.BeforeEnd(before.lead_ms, name)  # type: ignore[arg-type]  # it is one of them


def _signal_named(text: str) -> int:
    """0: it is no signal's name."""
    name = text.upper()
    try:
        number = signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except KeyError:
        return 0
    if number in {signal.SIGKILL, signal.SIGSTOP}:
        raise BadSpec(f"--before-end {text}: a command can't do anything about {number.name}; take e.g. USR1")
    return number


def kept_text(enforced: Mapping[str, Kept]) -> str:
    """What a person should know of limits that the kernel does not keep here; empty: nothing."""
    texts: list[str] = []
    if watched := [name for name, kept in sorted(enforced.items()) if kept == "process"]:
        texts.append(
            f"{' and '.join(watched)}: the kernel does not keep it here; the command is ended when it is over"
        )
    if observed := [name for name, kept in sorted(enforced.items()) if kept in {"observed", "none"}]:
        texts.append(f"{' and '.join(observed)}: only measured here, nothing keeps the command from more")
    return "; ".join(texts) + (". See: holdall doctor" if texts else "")
