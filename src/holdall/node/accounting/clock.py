"""The account's clock: the wall's where nothing disturbs it, but it never goes back, over restarts neither.

Within one boot of the kernel it is CLOCK_BOOTTIME and a fixed difference, so stretches last as long as they did,
whatever happens to the wall clock; another boot begins with the wall clock, or with the last instant of the account where
that is later.
"""

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """Between the account's instants and CLOCK_BOOTTIME of one boot, in ms."""

    boot_id: str
    ms: int


def difference(
    earlier: Difference | None, *, boot_id: str, wall_ms: int, boot_ms: int, last_ms: int
) -> Difference:
    """For a start. `last_ms`: the latest instant that the account knows, 0 for a new one."""
    if earlier is not None and earlier.boot_id == boot_id:
        return earlier
    return Difference(boot_id, max(wall_ms, last_ms) - boot_ms)
