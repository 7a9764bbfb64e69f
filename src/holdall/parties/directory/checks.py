"""What a directory accepts from other nodes: sizes, ranges and names. All else is refused before anything is changed."""

import re
from typing import assert_never

from holdall.machine.contract import ProtocolViolation
from holdall.model.names import is_name, pool_name
from holdall.parties.directory.messages import (
    NODE_ID_MAX,
    NODES_MAX,
    NUMBER_MAX,
    POOLS_PER_NODE_MAX,
    REBUTTALS_MAX,
    TEXT_MAX,
    TOMBSTONES_MAX,
    Cloned,
    Difference,
    FromPeer,
    Header,
    Hello,
    Line,
    NameTaken,
    Page,
    Presence,
    Row,
    Summary,
    Tell,
    Tombstone,
    Tombstones,
    Welcome,
    YouAreForgotten,
)

UNITS_MAX = 1_000_000
LABELS_MAX = 32
POOL_ID_MAX = 8192
"""A pool's id holds its name and all its labels."""
DIGEST_MAX = (1 << 64) - 1

_LABEL_VALUE_RE = re.compile(r"[A-Za-z0-9._+/-]{1,128}\Z")


def check(sender: str, message: FromPeer) -> None:
    """Raises ProtocolViolation for what no directory of ours can have said."""
    _node(sender)
    match message:
        case Hello():
            _name(message.name)
            _text(message.instance, message.address)
            _numbers(message.incarnation, message.since_ms)
        case Welcome(instance, known):
            _text(instance)
            _row(known)
        case NameTaken():
            _node(message.node)
            _text(message.instance, message.address)
            _numbers(message.silent_ms)
        case Cloned():
            _text(message.instance, message.address)
            _numbers(message.incarnation)
        case YouAreForgotten(tombstone):
            _tombstone(tombstone)
        case Summary(rows, forgotten):
            _rows(rows)
            if not 0 <= forgotten <= DIGEST_MAX:
                raise ProtocolViolation("the digest of a summary is a number of 64 bits")
        case Difference(newer, wanted):
            _rows(newer)
            _rows(wanted)
        case Tell(pages):
            if len(pages) > NODES_MAX:
                raise ProtocolViolation(f"{len(pages)} pages in one message")
            for page in pages:
                _page(sender, page)
        case Tombstones(tombstones):
            if len(tombstones) > TOMBSTONES_MAX:
                raise ProtocolViolation(f"{len(tombstones)} forgotten nodes; at most {TOMBSTONES_MAX}")
            for tombstone in tombstones:
                _tombstone(tombstone)
        case _:
            assert_never(message)


def check_presence(presence: Presence) -> None:
    """Raises ProtocolViolation. Who has this node's keys says it, or this node itself."""
    _text(presence.instance, presence.to)
    _numbers(presence.incarnation)


def _page(sender: str, page: Page) -> None:
    header = page.header
    _header(header)
    _numbers(page.beat, page.after, page.upto, page.quiet_ms)
    if page.beat < header.said:
        raise ProtocolViolation(f"{sender} tells of {header.node} what it has not said yet")
    if page.upto < page.after:
        raise ProtocolViolation(f"a page of {header.node} from {page.after} back to {page.upto}")
    last = page.after
    for line in page.lines:
        if not last < line.seq <= page.upto:
            raise ProtocolViolation(f"line {line.seq} of {header.node} is not between its neighbours")
        last = line.seq
        _line(line)


def _header(header: Header) -> None:
    _node(header.node)
    _name(header.name)
    _text(header.instance, header.address, header.location, header.version)
    _numbers(header.incarnation, header.said, header.epoch, header.quarantine_ms, header.since_ms)
    if not 0 <= header.rebuttal <= REBUTTALS_MAX:
        raise ProtocolViolation(f"{header.node} has contradicted {header.rebuttal} times")
    if not 0 <= header.initial <= POOLS_PER_NODE_MAX:
        raise ProtocolViolation(f"{header.node} begins with {header.initial} pools")


def _line(line: Line) -> None:
    if len(line.pool) > POOL_ID_MAX or (line.pool and not is_name(pool_name(line.pool))):
        raise ProtocolViolation(f"{line.pool[:80]!r} is no pool's id")
    if line.gone:
        if not line.pool:
            raise ProtocolViolation("a pool that is gone has no id")
        return
    _name(line.name)
    if line.pool and pool_name(line.pool) != line.name:
        raise ProtocolViolation(f"pool {line.pool[:80]} is named {line.name}")
    if len(line.labels) > LABELS_MAX or list(line.labels) != sorted(dict(line.labels).items()):
        raise ProtocolViolation(f"the labels of {line.name} are too many or in no order")
    for key, value in line.labels:
        if not is_name(key) or not _LABEL_VALUE_RE.match(value):
            raise ProtocolViolation(f"label {key[:80]} = {value[:80]!r} of {line.name}")
    if not 0 <= line.free <= line.total <= UNITS_MAX:
        raise ProtocolViolation(f"{line.free} of {line.total} units of {line.name} are free")
    _numbers(line.waiting, line.max_for_ms or 0)


def _rows(rows: tuple[Row, ...]) -> None:
    if len(rows) > NODES_MAX + 1:
        raise ProtocolViolation(f"{len(rows)} nodes in one message; at most {NODES_MAX}")
    for row in rows:
        _row(row)
    if len({row.node for row in rows}) < len(rows):
        raise ProtocolViolation("a node twice in one message")


def _row(row: Row) -> None:
    _node(row.node)
    _numbers(row.incarnation, row.beat, row.said, row.have)
    if not 0 <= row.rebuttal <= REBUTTALS_MAX:
        raise ProtocolViolation(f"{row.node} has contradicted {row.rebuttal} times")


def _tombstone(tombstone: Tombstone) -> None:
    _node(tombstone.node)
    _name(tombstone.name)
    _name(tombstone.by)


def _name(text: str) -> None:
    if not is_name(text):
        raise ProtocolViolation(f"{text[:80]!r} is no name")


def _node(text: str) -> None:
    if len(text) > NODE_ID_MAX or not is_name(text):
        raise ProtocolViolation(f"{text[:80]!r} is no node's id")


def _text(*texts: str) -> None:
    for text in texts:
        if len(text) > TEXT_MAX or not text.isprintable():
            raise ProtocolViolation(f"{text[:80]!r} is too long or can't be printed")


def _numbers(*numbers: int) -> None:
    for number in numbers:
        if not 0 <= number <= NUMBER_MAX:
            raise ProtocolViolation(f"{number} is out of range")
