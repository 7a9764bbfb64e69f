"""Writes the reference of all messages from the structs that are sent, so that it can't differ from the code."""

import ast
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, get_args

import msgspec

import holdall.bus
import holdall.leases
import holdall.machine
import holdall.node
import holdall.parties
import holdall.protocols
from holdall.bus import join_wire
from holdall.guardian import orders
from holdall.machine.codec import CODEC
from holdall.model import frames

HEAD = """# All messages

Made from the code when this page was built: each message with the name that stands on the wire, and its fields with their
types as the code writes them. A field with a default may be left out by an older release. A number of milliseconds
ends in `_ms`. What a conversation looks like stands in the pages about the [protocols](../protocols/index.md) and the
[internals](../internals/index.md).
"""

Struct = type[msgspec.Struct]


class Chapter(NamedTuple):
    """Messages between the same two sides: families of the codec, or the members of unions that belong to none."""

    title: str
    text: str
    families: tuple[str, ...] = ()
    unions: tuple[tuple[str, object], ...] = ()


CHAPTERS = (
    Chapter(
        "Clients and their node",
        "Frames on `holdall.sock`: four bytes of length (big endian), then one value in msgpack, at most 64 KiB.",
        unions=(("to the node", frames.ToNode), ("from the node", frames.FromNode)),
    ),
    Chapter(
        "`holdall run` and its guardian",
        "One value in msgpack a packet, over a pair of sockets.",
        unions=(("to the guardian", orders.ToGuardian), ("from the guardian", orders.FromGuardian)),
    ),
    Chapter(
        "Joining",
        "Between a machine that joins and the node whose code it has, over TLS to the third port.",
        unions=(("joining", join_wire.JoinRequest | join_wire.Welcome | join_wire.Sorry),),
    ),
    Chapter(
        "Between nodes",
        "Over the bus, `[family, version, value]` in msgpack. Beacons, presences and frames of the link travel as they are, "
        "everything else in the parcels of such a frame: in order, without doubles, resent until it is confirmed.",
        (
            "link", "beacons", "directory", "agents", "invitations", "runs", "leases between nodes",
            "renewal between nodes", "location", "turns",
        ),
    ),
    Chapter(
        "Protocols",
        "Between the claimant of a node and the pools, its own and those of other nodes. A system speaks one protocol; "
        "`claims` is what every claimant and its agent say to each other.",
        ("claims", "chain", "by pool", "lanes", "game", "strong-weak", "token", "ordered"),
    ),
    Chapter(
        "Negotiation",
        "Between clients' nodes, hosts and the manager of a location.",
        ("negotiation", "looking at a location", "negotiation-host", "negotiation-agent"),
    ),
    Chapter(
        "Between a node's machines and its driver",
        "These never leave the process; they are here because traces show them.",
        (
            "machine", "link order", "ports", "jobs.driver", "run jobs", "location order", "leases told to an agent",
        ),
    ),
    Chapter(
        "In the lab alone",
        "Of the published systems as they were published.",
        ("literal game", "literal lanes", "skeen lanes", "literal strong-weak"),
    ),
)  # fmt: skip

KEPT = frozenset(
    {
        "agent", "book", "by pool record", "chain claim", "chain row", "directory record", "game record", "jobs",
        "lanes record", "negotiation-records", "negotiation-units", "ordered record", "own-session",
        "strong-weak record", "token record",
    }
)  # fmt: skip
"""Families of what a journal keeps: nobody sends it."""


def write_messages_page(path: Path) -> None:
    """Write the whole reference as Markdown."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD + "".join(_chapters()), encoding="utf-8")


def families() -> dict[str, tuple[Struct, ...]]:
    """What the packages of a node register."""
    for package in (
        holdall.machine, holdall.leases, holdall.protocols, holdall.parties, holdall.bus, holdall.node,
    ):  # fmt: skip
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                import_module(module.name)
    return CODEC.families()


def _chapters() -> Iterator[str]:
    known = families()
    told: dict[Struct, None] = {}
    for chapter in CHAPTERS:
        yield f"\n## {chapter.title}\n\n{chapter.text}\n"
        sections = [(name, known[name]) for name in chapter.families]
        sections += [(name, get_args(union)) for name, union in chapter.unions]
        for name, members in sections:
            yield f"\n### {name[0].upper()}{name[1:]}\n"
            for member in members:
                told[member] = None
                yield from _message(member)
    yield "\n## Values inside messages\n"
    for value in sorted(_inside(told), key=lambda one: one.__qualname__):
        yield from _message(value)


def _inside(messages: Iterable[Struct]) -> set[Struct]:
    """The structs that fields of these hold, directly or not, and that are no such message themselves."""
    told = set(messages)
    found: set[Struct] = set()
    waiting: list[object] = [msgspec.inspect.type_info(one) for one in told]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, (tuple, list)):
            waiting += one
        elif isinstance(one, msgspec.Struct) and id(one) not in seen:
            seen.add(id(one))
            if isinstance(one, msgspec.inspect.StructType):
                found.add(one.cls)
            waiting += [getattr(one, name) for name in one.__struct_fields__]
    return found - told


def _message(member: Struct) -> Iterator[str]:
    tag = member.__struct_config__.tag
    named = f", `{tag}` on the wire" if tag is not None and tag != member.__name__ else ""
    yield f"\n**{member.__name__}**{named}. {_prose(inspect.cleandoc(member.__doc__ or ''))}\n"
    rows = list(_rows(member))
    if rows:
        yield "\n| field | type | meaning |\n|---|---|---|\n"
        yield from rows


def _rows(member: Struct) -> Iterator[str]:
    written = {name: row for base in reversed(member.__mro__) for name, row in _fields(base)}
    for name, encoded in zip(member.__struct_fields__, member.__struct_encode_fields__, strict=True):
        kind, default, meaning = written[name]
        shown = f"`{_cell(kind)}`" + (f", else `{_cell(default)}`" if default else "")
        yield f"| `{encoded}` | {shown} | {_cell(_prose(meaning))} |\n"


def _fields(base: type) -> Iterator[tuple[str, tuple[str, str, str]]]:
    """Name -> (type, default, the text below it), as they are written in this class."""
    if not issubclass(base, msgspec.Struct) or base is msgspec.Struct:
        return
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
    lines = written.body if isinstance(written, ast.ClassDef) else []
    for line, below in zip(lines, [*lines[1:], None], strict=True):
        if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
            continue
        meaning = ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            meaning = inspect.cleandoc(str(below.value.value))
        default = "" if line.value is None else ast.unparse(line.value)
        yield line.target.id, (ast.unparse(line.annotation), default, meaning)


def _prose(text: str) -> str:
    """Text of the code as Markdown: what looks like HTML or a link outside of `code` is neither."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<\[\]])", r"\\\1", part) for part in parts)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
