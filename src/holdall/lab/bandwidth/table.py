"""The experiment's tables for people, as text."""

from collections.abc import Sequence

from holdall.lab.bandwidth.found import Agent, Bandwidth, Link

HEADINGS = ("agent", "payload", "grant B/s", "mean ms", "sd ms", "expected ms", "to without", "denied")


def print_found(found: Bandwidth) -> None:
    """Both series, the link's bound, and what the comparison says."""
    at = f"{found.reps} x {found.messages} messages each, speed {found.speed}; times are of speed 1"
    print(f"Without leases: whole messages in order of arrival ({at})")
    _print_rows([_row(one, None, None) for one in found.without])
    _print_link(found.link_without)
    before = {one.agent: one.mean_ms for one in found.without}
    print(f"\nWith leases of 2 s, rule {found.rule}")
    _print_rows([_row(one, found.grants[one.agent], before[one.agent]) for one in found.with_])
    _print_link(found.link_with)
    print(f"\n{verdict(found)}")


def verdict(found: Bandwidth) -> str:
    """One sentence for each series."""
    means = [one.mean_ms for one in found.without]
    spread = max(means) / min(means) - 1
    ratios = ", ".join(
        f"{after.agent} {after.mean_ms / before.mean_ms - 1:+.0%}"
        for before, after in zip(found.without, found.with_, strict=True)
    )
    return f"Without leases response times differ by {spread:.1%}. With leases they change by: {ratios}."


def _row(one: Agent, granted: int | None, before_ms: float | None) -> tuple[str, ...]:
    return (
        one.agent,
        f"{one.payload:,}",
        "-" if granted is None else f"{granted:,}",
        f"{one.mean_ms:,.1f}",
        f"{one.sd_ms:,.1f}",
        f"{one.expected_ms:,.1f}",
        "-" if before_ms is None else f"{one.mean_ms / before_ms:.2f}",
        f"{one.denied:,.1f}",
    )


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[place]) for row in (HEADINGS, *rows)) for place in range(len(HEADINGS))]
    for row in (HEADINGS, *rows):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        print("  ".join((row[0].ljust(widths[0]), *cells[1:])))


def _print_link(link: Link) -> None:
    print(
        f"Link: {link.sent_per_s:,.0f} B/s on average. Busiest second: {link.busiest_1s:,} of at most {link.allowed_1s:,} bytes "
        f"({link.capacity:,} B/s x 1 s + depth {link.depth:,}): {'held' if link.obeyed else 'EXCEEDED'}"
    )
