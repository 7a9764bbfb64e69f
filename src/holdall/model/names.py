"""Names and how they are written: nodes, pools, units, holders, printed ids, environment variables."""

import hashlib
import re

NAME_RE = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
"""Nodes, pools and terms."""
UNIT_RE = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")

UNITS_PER_NEED_MAX = 1_000_000
NEEDS_MAX = 32
POOLS_MAX = 64
FRAME_BYTES_MAX = 64 * 1024

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def is_name(text: str) -> bool:
    """Whether `text` can name a node, pool or term."""
    return NAME_RE.match(text) is not None


def is_unit_name(text: str) -> bool:
    """Whether `text` can name a unit."""
    return UNIT_RE.match(text) is not None


def printed_id(claim: str) -> str:
    """The 128-bit id people see for a claim and its lease: 26 letters of base 32. Never authority."""
    number = int.from_bytes(hashlib.blake2b(claim.encode(), digest_size=16).digest(), "big")
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -5, -5))


def short_id(printed: str) -> str:
    """The first six letters, as `7K4M-Q2`."""
    return f"{printed[:4]}-{printed[4:6]}"


def matches_id(printed: str, typed: str) -> bool:
    """Whether what somebody typed (short or whole, any case) names this printed id."""
    letters = typed.upper().replace("-", "").replace("O", "0").replace("I", "1").replace("L", "1")
    return len(letters) >= 4 and printed.startswith(letters)


def variable_part(pool: str) -> str:
    """A pool's name inside `HOLDALL_UNITS_<POOL>`: letters and digits upper case, all else `_`."""
    return re.sub(r"[^A-Z0-9]", "_", pool.upper())


def pool_id(name: str, labels: dict[str, str]) -> str:
    """One pool of a node: the name, and its labels when it has some: `board{arch=arm64}`."""
    if not labels:
        return name
    return name + "{" + ",".join(f"{key}={labels[key]}" for key in sorted(labels)) + "}"


def pool_name(pool: str) -> str:
    """The name in a pool id."""
    return pool.partition("{")[0]


def pool_labels(pool: str) -> dict[str, str]:
    """The labels in a pool id."""
    _, _, text = pool.rstrip("}").partition("{")
    return dict(pair.split("=", 1) for pair in text.split(",") if pair)


def unit_text(pool: str, unit: str) -> str:
    """A unit as people read it beside others: `psu-1`, but `gpu/0` where its own name is a mere number."""
    return f"{pool_name(pool)}/{unit}" if unit.isdigit() else unit
