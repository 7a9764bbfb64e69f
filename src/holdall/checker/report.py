"""A verdict as text for people and as JSON for programs."""

from collections import Counter
from typing import Final

import msgspec

from holdall.checker.verdict import Statistics, Verdict

VERSION: Final = 1
_WORDS: Final = {0: "clean", 1: "violations", 3: "unproven"}


def to_json(verdict: Verdict) -> bytes:
    """`{"v": 1, "verdict", "exit", "violations", "damage", "shortfalls", "statistics"}`, times in nanoseconds."""
    return msgspec.json.encode(
        {
            "v": VERSION,
            "verdict": _WORDS[verdict.exit_status],
            "exit": verdict.exit_status,
            "violations": verdict.violations,
            "damage": verdict.damage,
            "shortfalls": verdict.shortfalls,
            "statistics": verdict.statistics,
        }
    )


def render(verdict: Verdict, *, each_rule_at_most: int = 20) -> str:
    """The verdict, what is wrong with the history, the violations, what was counted; ends without a line feed."""
    lines = [_headline(verdict)]
    lines += [f"damaged       {text}" for text in verdict.damage[:each_rule_at_most]]
    if len(verdict.damage) > each_rule_at_most:
        lines.append(f"damaged       … and {len(verdict.damage) - each_rule_at_most} more")
    lines += [f"proves less   {text}" for text in verdict.shortfalls]
    lines += _violations(verdict, each_rule_at_most)
    lines += _statistics(verdict.statistics)
    return "\n".join(_printable(line) for line in lines)


def _headline(verdict: Verdict) -> str:
    found = len(verdict.violations)
    if verdict.damage:
        also = f"; {found} violations found in what could be read" if found else ""
        return f"UNPROVEN: the history is damaged in {len(verdict.damage)} places{also}"
    if found:
        return f"VIOLATED: {found} violations of {len({violation.rule for violation in verdict.violations})} rules"
    return (
        "UNPROVEN: no violation, but the history proves too little"
        if verdict.shortfalls
        else "CLEAN: no violation"
    )


def _violations(verdict: Verdict, each_rule_at_most: int) -> list[str]:
    lines: list[str] = []
    shown: Counter[str] = Counter()
    for violation in verdict.violations:
        shown[violation.rule] += 1
        if shown[violation.rule] <= each_rule_at_most:
            lines.append(f"{violation.rule}   {violation.text}")
            lines.append("    " + " ".join(violation.lines))
    lines += [
        f"{rule}   … and {number - each_rule_at_most} more (--json lists all)"
        for rule, number in sorted(shown.items())
        if number > each_rule_at_most
    ]
    return lines


def _statistics(counted: Statistics) -> list[str]:
    faults = ", ".join(f"{kind} {number}" for kind, number in counted.faults.items())
    peaks = ", ".join(f"{pool} {number}" for pool, number in counted.peak_use.items())
    outcomes = (
        f"{counted.claims}: {counted.grants} grants ({counted.contended} contended), {counted.refused} refused, "
        f"{counted.unknown} of unknown outcome"
    )
    waits = f"p50 {_seconds(counted.wait_p50)}, p99 {_seconds(counted.wait_p99)}, longest {_seconds(counted.wait_max)}"
    rows = [
        ("history", f"{counted.lines} lines of {counted.files} files, {counted.torn_lines} torn"),
        ("claims", outcomes),
        ("faults", f"{counted.crashes} crashes" + (f", {faults}" if faults else "")),
        ("waits", waits),
        ("fairness", f"at most {counted.overtakes} overtakes of one claim by younger ones of the same need"),
        ("idle", f"longest with demand {_seconds(counted.idle_with_demand)}"),
        ("peak use", peaks or "none"),
        ("guarded uses", f"{counted.uses}, {counted.refused_uses} refused"),
        ("deadlines", f"{counted.deadlines_unproven} unproven (no call or no ttl beside them)"),
    ]
    if counted.unrecorded_leases:
        rows.append(("leases", f"{counted.unrecorded_leases} whose grant nobody lived to record"))
    return [f"{name:<13} {text}" for name, text in rows]


def _seconds(duration: int | None) -> str:
    return "none" if duration is None else f"{duration / 1e9:.3f} s"


def _printable(line: str) -> str:
    """Names come from outside: nothing in them may steer a terminal."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
