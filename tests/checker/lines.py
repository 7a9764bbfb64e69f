"""Short words for the lines of a history. Times in tests are small whole numbers: nanoseconds, read as seconds."""

from collections.abc import Mapping, Sequence

import msgspec

from holdall.checker.judging import judge_reading
from holdall.checker.reading import Line, Place, Reading, record_in
from holdall.checker.verdict import Floors, Verdict

Said = dict[str, object]

TWO_POOLS: Mapping[str, object] = {"gpu": {"units": ["0", "1"]}, "psu": {"units": ["a"]}}


def meta(pools: Mapping[str, object] = TWO_POOLS, **promises: object) -> Said:
    return {"t": "meta", "pools": dict(pools), **promises}


def claim(name: str, need: Mapping[str, int | str], at: int, **more: object) -> Said:
    """The client is named after the claim's first letter: `a1` and `a2` are claims of client `a`."""
    return {"t": "claim", "claim": name, "client": name[0], "need": dict(need), "at": at, **more}


def queued(name: str, at: int, **more: object) -> Said:
    return {"t": "queued", "claim": name, "at": at, **more}


def grant(name: str, units: Sequence[str], at: int, until: int | None = None, **more: object) -> Said:
    """`units`: `pool/unit#fence`, `pool/unit` without a fence, or `pool*count`."""
    return {
        "t": "grant",
        "claim": name,
        "units": [unit(text) for text in units],
        "at": at,
        "valid_until": until,
        **more,
    }


def unit(text: str) -> Said:
    if "*" in text:
        pool, count = text.split("*")
        return {"pool": pool, "count": int(count)}
    pool, rest = text.split("/")
    name, _, fence = rest.partition("#")
    return {"pool": pool, "unit": name, **({"fence": int(fence)} if fence else {})}


def fail(name: str, at: int, **more: object) -> Said:
    return {"t": "fail", "claim": name, "at": at, **more}


def renew(lease: str, at: int, until: int | None, *, ok: bool = True, **more: object) -> Said:
    return {"t": "renew", "lease": lease, "ok": ok, "at": at, "valid_until": until, **more}


def resume(lease: str, at: int, until: int | None) -> Said:
    return {"t": "resume", "lease": lease, "at": at, "valid_until": until}


def release(lease: str, call: int, at: int | None = None, *, ok: bool | None = None, **more: object) -> Said:
    """With `at` and no word on `ok` the release was acknowledged."""
    answer: Said = {} if at is None else {"at": at, "ok": True if ok is None else ok}
    return {"t": "release", "lease": lease, "call": call, **answer, **more}


def lost(lease: str, at: int) -> Said:
    return {"t": "lost", "lease": lease, "at": at}


def crash(client: str, at: int) -> Said:
    return {"t": "crash", "client": client, "at": at}


def use(where: str, start: int, end: int | None = None, *, accepted: bool = True) -> Said:
    return {"t": "use", **unit(where), "start": start, "end": end, "accepted": accepted}


def audit(pool: str, at: int, **more: object) -> Said:
    return {"t": "audit", "pool": pool, "at": at, **more}


def fault(kind: str, start: int, end: int | None = None, **more: object) -> Said:
    return {"t": "fault", "kind": kind, "start": start, "end": end, **more}


def end(at: int) -> Said:
    return {"t": "end", "at": at}


def reading(lines: Sequence[Mapping[str, object]]) -> Reading:
    """As if the lines stood in one file `h`, each parsed from its JSON."""
    parsed = [
        Line(record_in(msgspec.json.encode(line)), Place("h", number))
        for number, line in enumerate(lines, start=1)
    ]
    return Reading(parsed, [], 0, 1)


def judged(*lines: Said, floors: Floors | None = None, max_wait_ns: int | None = None) -> Verdict:
    return judge_reading(reading(lines), floors, max_wait_ns=max_wait_ns)


def rules_in(verdict: Verdict) -> list[str]:
    """The broken rules, sorted, one entry for each violation. A damaged history fails the test."""
    assert list(verdict.damage) == []
    return sorted(violation.rule for violation in verdict.violations)


def broken(*lines: Said) -> list[str]:
    return rules_in(judged(*lines))
