"""The SPEC grammar: `POOL[+POOL…][,KEY=VALUE…][,@NODE][:COUNT|:all]`. No character needs quoting in a shell."""

import re
from collections.abc import Iterable

from holdall.model.errors import BadSpec
from holdall.model.frames import Need, Selector
from holdall.model.names import NEEDS_MAX, UNITS_PER_NEED_MAX, is_name

ALL_COUNT = 0
"""`Selector.count` for `:all`."""

_EXAMPLES = "gpu:2, board,arch=arm64, bench,@lab-3, bench-1+bench-2+bench-3:2, gpu:all"
_LABEL_RE = re.compile(r"([a-z0-9][a-z0-9._-]{0,62})=([A-Za-z0-9._+/-]{1,128})\Z")
_COUNT_RE = re.compile(r"-?[0-9]+\Z")
_SHOWN_MAX = 80


def parse_spec(text: str) -> Selector:
    """One SPEC. Raises BadSpec that says which part is wrong and how it is written."""
    shown = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    body, colon, count_text = text.partition(":")
    count = _count(count_text, shown) if colon else 1
    head, *parts = body.split(",")
    pools = tuple(head.split("+"))
    for pool in pools:
        if not is_name(pool):
            raise BadSpec(
                f"bad SPEC {shown!r}: {pool[:_SHOWN_MAX]!r} is not a pool name (a-z, 0-9, '.', '_', '-'; "
                f"at most 63; begins with a letter or digit). Examples: {_EXAMPLES}"
            )
    if len(set(pools)) != len(pools):
        raise BadSpec(f"bad SPEC {shown!r}: a pool is named twice. Ask for more units with :COUNT.")
    labels: dict[str, str] = {}
    node = ""
    for part in parts:
        if part.startswith("@"):
            if node or not is_name(part[1:]):
                raise BadSpec(
                    f"bad SPEC {shown!r}: {part[:_SHOWN_MAX]!r} must be one @NODE, e.g. bench,@lab-3"
                )
            node = part[1:]
            continue
        label = _LABEL_RE.match(part)
        if label is None or label[1] in labels:
            raise BadSpec(
                f"bad SPEC {shown!r}: {part[:_SHOWN_MAX]!r} must be KEY=VALUE, each key once, e.g. board,arch=arm64"
            )
        labels[label[1]] = label[2]
    return Selector(pools=pools, labels=tuple(sorted(labels.items())), node=node, count=count)


def parse_need(value: "str | Need | Iterable[str]") -> Need:
    """A SPEC, or several as alternatives (preferred first)."""
    if isinstance(value, Need):
        return value
    options = (value,) if isinstance(value, str) else tuple(value)
    if not options:
        raise BadSpec(f"an empty need. Examples: {_EXAMPLES}")
    return Need(options=tuple(parse_spec(option) for option in options))


def parse_needs(values: "Iterable[str | Need | Iterable[str]]") -> tuple[Need, ...]:
    """All needs of a claim: at least one, at most 32."""
    needs = tuple(parse_need(value) for value in values)
    if not needs:
        raise BadSpec(
            f"nothing is asked for. Name at least one need, e.g. --need gpu:1. Examples: {_EXAMPLES}"
        )
    if len(needs) > NEEDS_MAX:
        raise BadSpec(
            f"{len(needs)} needs in one claim; at most {NEEDS_MAX}. Units of one pool go in one need: gpu:{len(needs)}"
        )
    return needs


def show_spec(selector: Selector) -> str:
    """The SPEC that `parse_spec` reads back to an equal selector."""
    parts = ["+".join(selector.pools), *(f"{key}={value}" for key, value in selector.labels)]
    if selector.node:
        parts.append(f"@{selector.node}")
    count = "all" if selector.count == ALL_COUNT else str(selector.count)
    return ",".join(parts) + f":{count}"


def show_need(need: Need) -> str:
    """All alternatives, `gpu,model=h100:1 or gpu,model=a100:2`."""
    return " or ".join(show_spec(option) for option in need.options)


def _count(text: str, shown: str) -> int:
    if text == "all":
        return ALL_COUNT
    if not _COUNT_RE.match(text) or not text.isascii():
        raise BadSpec(
            f"bad SPEC {shown!r}: the count must be a whole number from 1, or all, e.g. gpu:2 or gpu:all"
        )
    if len(text) > len(str(UNITS_PER_NEED_MAX)) + 1 or not 1 <= int(text) <= UNITS_PER_NEED_MAX:
        raise BadSpec(
            f"bad SPEC {shown!r}: the count must lie between 1 and {UNITS_PER_NEED_MAX:,}, or be all. "
            "See what exists: holdall pools"
        )
    return int(text)
