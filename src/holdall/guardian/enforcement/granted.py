"""What a negotiated lease grants to a command, as limits; and what the command uses, as terms of the lease.

Rates are of the last second or longer. In all, a share of processors is used in thousandths of a processor times seconds, which
is its processor time in ms; memory in bytes times seconds; the time to stay in ms.
"""

from collections.abc import Mapping

import msgspec

from holdall.guardian.enforcement.figures import CPU, MEMORY, Figures, Kept, Limits
from holdall.model.quantities import AMOUNT_MAX
from holdall.model.terms import STAY, LeaseDocument, TermState, TermUse, Usage

RATE_MS = 1_000
"""Over less than that no rate is told."""


def limits_of(document: LeaseDocument) -> Limits:
    """Of its capacities `cpu` and `mem`."""
    found = {
        one.name: one.granted
        for one in document.terms
        if one.kind == "capacity" and isinstance(one.granted, int) and not isinstance(one.granted, bool)
    }
    return Limits(found.get(CPU), found.get(MEMORY))


def stay_of(document: LeaseDocument) -> int | None:
    """How long the command may run; None: nothing is said."""
    granted = next((one.granted for one in document.terms if one.name == STAY and one.kind == "time"), None)
    return granted if isinstance(granted, int) and not isinstance(granted, bool) else None


class _Reading(msgspec.Struct, frozen=True):
    at_ms: int
    cpu_ms: int


class CommandUse:
    """Counts from the command's start on."""

    def __init__(self, began_ms: int) -> None:
        """CLOCK_BOOTTIME, as all times here."""
        self._began_ms = began_ms
        self._seen_ms = began_ms
        self._last = _Reading(began_ms, 0)
        self._cpu_rate = self._cpu_peak = 0
        self._mem_ms = 0
        """Bytes times ms."""
        self._figures = Figures()

    def add(self, figures: Figures, now_ms: int) -> None:
        """It has been measured."""
        self._mem_ms += max(figures.mem, 0) * max(now_ms - self._seen_ms, 0)
        self._seen_ms, self._figures = now_ms, figures
        passed_ms = now_ms - self._last.at_ms
        if passed_ms >= RATE_MS and figures.cpu_ms >= 0:
            # Of processes that nobody has waited for time can be lost, where no cgroup counts it.
            self._cpu_rate = max(figures.cpu_ms - self._last.cpu_ms, 0) * 1000 // passed_ms
            self._cpu_peak = max(self._cpu_peak, self._cpu_rate)
            self._last = _Reading(now_ms, figures.cpu_ms)

    def told(self, limits: Limits, stay_ms: int | None, enforced: Mapping[str, Kept]) -> tuple[TermUse, ...]:
        """Of each term that is granted."""
        seen, uses = self._figures, list[TermUse]()
        if limits.cpu is not None:
            total = max(seen.cpu_ms, self._last.cpu_ms, 0)
            uses.append(_use(CPU, total, self._cpu_rate, self._cpu_peak, enforced))
        if limits.mem is not None:
            used = _use(MEMORY, self._mem_ms // 1000, max(seen.mem, 0), max(seen.mem_peak, 0), enforced)
            uses.append(msgspec.structs.replace(used, denied=_counted(seen.oom_kills)))
        if stay_ms is not None:
            passed_ms = self._seen_ms - self._began_ms
            state: TermState = "ready.processing" if passed_ms < stay_ms else "completed"
            uses.append(TermUse(STAY, Usage(_counted(passed_ms)), state))
        return tuple(uses)


def _use(name: str, total: int, rate: int, peak: int, enforced: Mapping[str, Kept]) -> TermUse:
    return TermUse(
        name,
        Usage(_counted(total), _counted(rate), _counted(peak)),
        "ready.processing" if rate else "ready.idle",
        enforced=enforced.get(name, "none"),
    )


def _counted(number: int) -> int:
    """As much as a record holds; what is not known is 0."""
    return min(max(number, 0), AMOUNT_MAX)
