"""Guided scripts: a long counter-example as moves in words, one a line, replayed with every step checked.

    c1 claims                      an act of the client on host c1
    c2 -> n0 reserve               the message of that kind from c2 to n0 arrives
    c2 -> n0 reserve index=3       as above, where several such messages are in flight
    c1 rings alarm                 a timer of host c1

`# text` says what happens. After a line `again` come the moves of a cycle: at their end the world is as at this line,
but for numbers that only grow (see `Recurring`), so that they can go on for ever. The last line that is no comment is `= property`: the name of the violation that the
moves lead to, as the search gives it.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Literal, Protocol, runtime_checkable

import msgspec

from holdall.machine.host import Host
from holdall.world.plan import BadWorld

_DELIVERY = re.compile(r"(\S+) -> (\S+) (\S+)((?: \S+=\S+)*)")
_ACT = re.compile(r"(\S+) (claims|releases|cancels)")
_TIMER = re.compile(r"(\S+) rings (\S+)")


class Line(msgspec.Struct, frozen=True):
    """One move in words."""

    number: int
    """Its line in the script, from 1."""
    kind: Literal["act", "deliver", "timer"]
    host: str
    """Where it happens."""
    what: str
    """The act's text, the message's kind (its tag), or the timer."""
    sender: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    """What the message must have, as text."""


class Script(msgspec.Struct, frozen=True):
    """Moves, and the property that they violate."""

    lines: tuple[Line, ...]
    ends_in: str
    again: int | None = None
    """From the move of this number (from 0) on they are a cycle."""


@runtime_checkable
class Recurring(Protocol):
    """A system whose states can be alike but for numbers that only grow."""

    def relative(
        self, hosts: Sequence[Host], in_flight: Sequence[tuple[str, str, msgspec.Struct]]
    ) -> Hashable:
        """Equal values: the same moves are possible, for ever. `in_flight`: (sender, receiver, message)."""
        ...


def read_script(text: str) -> Script:
    """A script from its text. Raises BadWorld with the line."""
    lines: list[Line] = []
    ends_in = ""
    again: int | None = None
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        if ends_in:
            raise BadWorld(f"script, line {number}: nothing may follow the property")
        if line == "again" and again is None:
            again = len(lines)
        elif line.startswith("="):
            ends_in = line[1:].strip()
        else:
            lines.append(_line(number, line))
    if not ends_in or not lines:
        raise BadWorld("a script is a list of moves with `= property` as its last line")
    return Script(tuple(lines), ends_in, again)


def _line(number: int, text: str) -> Line:
    if found := _DELIVERY.fullmatch(text):
        sender, host, what, fields = found.groups()
        pairs = tuple((name, value) for name, _, value in (part.partition("=") for part in fields.split()))
        return Line(number, "deliver", host, what, sender, pairs)
    if found := _ACT.fullmatch(text):
        return Line(number, "act", found[1], found[2])
    if found := _TIMER.fullmatch(text):
        return Line(number, "timer", found[1], found[2])
    raise BadWorld(f"script, line {number}: can't read {text!r}; write `c1 claims` or `c1 -> n0 request`")
