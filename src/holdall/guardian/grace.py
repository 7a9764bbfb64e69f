"""How long a command has between TERM and KILL, and which leases are long enough for that."""

from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec

GRACE_MS = 5_000
NEGOTIATED_SHARE = 12


def grace_ms(hard_end_ms: int | None) -> int:
    """A command with a very near hard end (CLOCK_BOOTTIME) gets at least half of its time before TERM."""
    return GRACE_MS if hard_end_ms is None else max(min(GRACE_MS, (hard_end_ms - boottime_ms()) // 2), 0)


def negotiated_grace_ms(duration_ms: int) -> int:
    """Of a negotiated lease: short enough that after seven eighths of it its host can still be asked for renewal."""
    return min(GRACE_MS, duration_ms // NEGOTIATED_SHARE)


def ttl_of_command(asked_ms: int | None, welcome: frames.Welcome, *, named: str) -> int:
    """The ttl of a command's lease, the node's unless another is asked for. Raises BadSpec, which calls it `named`."""
    ttl_ms = welcome.ttl_ms if asked_ms is None else asked_ms
    least = 2 * (GRACE_MS + welcome.margin_ms)
    if not least <= ttl_ms <= welcome.ttl_max_ms:
        raise BadSpec(
            f"{named} {show_duration(ttl_ms)} does not do for a command: it must lie between {show_duration(least)} "
            f"(time for TERM, {show_duration(GRACE_MS)} grace and KILL) and {show_duration(welcome.ttl_max_ms)}"
        )
    return ttl_ms
