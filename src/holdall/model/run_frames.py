"""The part of the conversation of client and node that is about commands on other nodes (`holdall run --on`).

A run is named by the number `n` of its RunOn, in its connection, and lives no longer than that connection. Its output
comes as pieces numbered from 1, its end included; its input goes the same way. At most `WINDOW` pieces either way are
under way: the next one leaves when an earlier one has been used up (written out, or given to the command). Nodes pass
pieces on and keep none of other nodes, so what was lost on the way is asked for again from where it came from.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdall.model.wanted import Need, Number, Text

PIECE_BYTES_MAX = 16 * 1024
WINDOW = 4
"""Pieces of one direction of one run: with 16 runs both ways it stays below half of what a link keeps for a peer."""
COMMAND_BYTES_MAX = 32 * 1024
"""All words of a command, each counted with one byte more."""
WISHES_BYTES_MAX = 48 * 1024
"""All that a run asks for, encoded: it must fit into one frame."""
SIGNALS_MAX = 64
"""Signals that are under way."""

GRANT_ENV = "HOLDALL_RUN_GRANT"
"""The number of a pipe to the node that has started a `holdall run` for another node: there it writes its lease."""
LEASE_BYTES_MAX = 4096
"""What a `holdall run` tells of its lease."""
UNITS_MAX = 512

Piece: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=PIECE_BYTES_MAX)]
Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=2**40)]
Status = Annotated[int, msgspec.Meta(ge=0, le=255)]
SignalNumber = Annotated[int, msgspec.Meta(ge=1, le=64)]
Stream: TypeAlias = Literal[1, 2]


class RunWishes(msgspec.Struct, frozen=True):
    """What the `holdall run` over there is started with; durations as on the command line, empty: not given."""

    command: Annotated[tuple[bytes, ...], msgspec.Meta(min_length=1, max_length=4096)]
    needs: Annotated[tuple[Need, ...], msgspec.Meta(max_length=32)]
    wait: Text = ""
    now: bool = False
    ttl: Text = ""
    hold_for: Text = ""
    reason: Text = ""
    settings: Annotated[tuple[tuple[Text, Text], ...], msgspec.Meta(max_length=64)] = ()
    """`--set VAR=POOL` as pairs."""
    not_granted_status: Status = 75
    independent: bool = False
    allow_future: bool = False
    json: bool = False
    agent: Text = ""
    """Who holds what it gets, for people; empty: the user at the calling node."""
    term: Text = ""
    """TERM of whoever reads the output."""


# Client -> node


class RunWhere(msgspec.Struct, frozen=True, tag="run_where"):
    """On which node should a command with these needs run? Answer: RunPlace, or Denied."""

    n: Number
    needs: Annotated[tuple[Need, ...], msgspec.Meta(max_length=32)]


class RunOn(msgspec.Struct, frozen=True, tag="run_on"):
    """Run a command on another node. Answers: RunWord when it has begun there, RunSaid, RunOver last; or Denied.

    `ttl_ms`: when nothing is heard of this client for so long, the command is ended.
    """

    n: Number
    node: Text
    """Its name or id."""
    ttl_ms: Milliseconds
    wishes: RunWishes


class RunFed(msgspec.Struct, frozen=True, tag="run_fed"):
    """A piece of its standard input; an empty one is the end."""

    n: Number
    piece: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    data: Piece


class RunBeat(msgspec.Struct, frozen=True, tag="run_beat"):
    """The client lives; and how far it is."""

    n: Number
    heard: Number = 0
    """Every piece of output up to this one has been used up."""
    fed: Number = 0
    """Pieces of input sent so far."""
    again: bool = False
    """Pieces after `heard` were lost: send them again."""
    ask: bool = False
    """Answer with a RunWord."""
    signals: Annotated[tuple[tuple[Number, SignalNumber], ...], msgspec.Meta(max_length=SIGNALS_MAX)] = ()
    """(number from 1, signal) of those that no RunWord has confirmed."""
    deaf: Annotated[tuple[Stream, ...], msgspec.Meta(max_length=2)] = ()
    """Streams that nobody reads any more: whoever writes there is to be told, as by a closed pipe."""


FromCaller: TypeAlias = RunFed | RunBeat
ToRuns: TypeAlias = RunWhere | RunOn | RunFed | RunBeat


# Node -> client


class RunPlace(msgspec.Struct, frozen=True, tag="run_place"):
    """Answer to RunWhere: the node's name."""

    n: Number
    node: Text


class RunLease(msgspec.Struct, frozen=True):
    """The lease that a run's command has over there."""

    lease: Text
    """Printed id."""
    units: Annotated[tuple[Text, ...], msgspec.Meta(max_length=UNITS_MAX)] = ()
    """`pool/unit@node#fence`, for people."""


class RunWord(msgspec.Struct, frozen=True, tag="run_word"):
    """The run lives; and how far it is. The first one says that it has begun."""

    n: Number
    taken: Number = 0
    """Every piece of input up to this one has been used up."""
    said: Number = 0
    """Pieces of output sent so far."""
    again: bool = False
    """Pieces of input after those that came were lost: send what is not taken again."""
    signals: Number = 0
    """Every signal up to this number was passed on."""
    lease: RunLease | None = None
    """When the command has it."""


class RunSaid(msgspec.Struct, frozen=True, tag="run_said"):
    """A piece of its output: `stream` 1 or 2."""

    n: Number
    piece: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    stream: Stream
    data: Piece


class RunOver(msgspec.Struct, frozen=True, tag="run_over"):
    """The last piece: its exit status, as a shell would tell it."""

    n: Number
    piece: Annotated[int, msgspec.Meta(ge=1, le=2**53)]
    status: Status
    lease: RunLease | None = None
    """What its command had: the words before may have been lost, and this one is said until it is heard."""


FromRun: TypeAlias = RunWord | RunSaid | RunOver
FromRuns: TypeAlias = RunPlace | RunWord | RunSaid | RunOver


def command_bytes(command: tuple[bytes, ...]) -> int:
    """How much a command counts against `COMMAND_BYTES_MAX`."""
    return sum(len(word) + 1 for word in command)
