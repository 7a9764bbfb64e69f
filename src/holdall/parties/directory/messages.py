"""What directories tell each other and their own node, what they save, and what one is told at construction.

Between nodes, part `directory` to part `directory`:

- at a start: `Hello`, answered by `Welcome`, `NameTaken`, `Cloned` or `YouAreForgotten`;
- each round: `Summary`, answered by `Tell`s of what the asker lacks and one `Difference`, which may be answered by `Tell`s;
- at once, to a few: `Tell` (joined, draining, stopped), `Tombstones` (a node was forgotten).

Inside a node: to part `node` `MayServe`, `StartRefused`, `Warned`, `MustStop`, `Shunned`, `ForgetDone`; from it
`Leaving` and `Met`, and from it or the agent `ForgetNode`. To the agent `NeighboursChanged`. To part `bus`, which the driver
plays, `Presence`: post it to the node's own id, and give what comes from the own id as of part `bus`. So two
processes with one identity hear each other.
"""

from typing import Literal, TypeAlias

import msgspec

from holdall.machine.codec import CODEC

DIRECTORY = "directory"
BUS = "bus"
"""The driver's part that posts a `Presence` to the node's own id."""

NODES_MAX = 800
"""Nodes of a system; a summary of so many fits into a frame, however long their ids and numbers are."""
NODE_ID_MAX = 32
TEXT_MAX = 200
"""Letters of an address, a location or an instance."""
POOLS_PER_NODE_MAX = 200_000
POOLS_KNOWN_MAX = 1_000_000
"""Pools of all other nodes together."""
TOMBSTONES_MAX = 250
NUMBER_MAX = (1 << 53) - 1
REBUTTALS_MAX = 1 << 31

AnnouncedState: TypeAlias = Literal["serving", "quarantine", "draining", "stopped"]


class Member(msgspec.Struct, frozen=True, tag="member"):
    """A node of the system, as it is saved and given to who joins."""

    node: str
    name: str
    address: str = ""
    location: str = ""
    offers: bool = False
    """It has something to lease at its location."""


class DirectorySettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory is told at construction; none of it changes at run time."""

    node: str
    """The node's id."""
    name: str
    instance: str
    """Random text of this process start: tells two processes with one identity apart."""
    address: str = ""
    """Where people reach the node."""
    location: str = ""
    offers: bool = False
    """As in `Member`."""
    version: str = ""
    """The release that it runs."""
    started_wall_ms: int = 0
    """The wall clock at the start: which of two nodes of one name was first is told by it, nothing else."""
    members: tuple[Member, ...] = ()
    """Nodes known from joining, beside those that were saved."""
    round_ms: int = 1000
    spread_ms: int = 200
    hello_ms: int = 500
    """Pause before who has not answered a Hello is asked again."""
    hello_times: int = 4
    """A start waits so many of these pauses for answers, at most."""
    listen_ms: int = 300
    """How long a start still listens for a second process of its identity when all others have answered."""
    silent_rounds: int = 0
    """Rounds without news of a node until it counts as silent; 0: by the number of nodes."""
    ttl_max_ms: int = 300_000
    rho_ppm: int = 20_000
    tells_max: int = 8
    """Messages with pools that answer one question."""


# Between nodes


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a node says of itself, its pools apart."""

    node: str
    name: str
    instance: str
    incarnation: int
    said: int
    """Its beat when it said so: a later header of one life has a greater one."""
    rebuttal: int = 0
    """How often it has had to contradict what others told of it. (rebuttal, incarnation) is a *life*."""
    epoch: int = 0
    state: AnnouncedState = "serving"
    quarantine_ms: int = 0
    since_ms: int = 0
    """When it served under this name first, by its own wall clock."""
    address: str = ""
    location: str = ""
    version: str = ""
    initial: int = 0
    """Lines that its log of pools had when the life began: who has so many knows all pools."""
    offers: bool = False
    """As in `Member`."""

    @property
    def member(self) -> Member:
        """What of it is saved."""
        return Member(self.node, self.name, self.address, self.location, self.offers)


class Row(msgspec.Struct, frozen=True, array_like=True):
    """How much the sender knows of a node. All zero: nothing."""

    node: str
    rebuttal: int = 0
    incarnation: int = 0
    beat: int = 0
    """Grows each round: the node lives."""
    said: int = 0
    have: int = 0
    """Lines of its log of pools: all up to this number, or what has replaced them."""

    @property
    def life(self) -> tuple[int, int]:
        """What is told of different lives can't be compared line by line."""
        return (self.rebuttal, self.incarnation)


class Line(msgspec.Struct, frozen=True, array_like=True):
    """One line of a node's log of pools: the pool as of then."""

    seq: int
    name: str
    labels: tuple[tuple[str, str], ...] = ()
    total: int = 0
    free: int = 0
    waiting: int = 0
    host: bool = False
    """Reach "host"."""
    prepares: bool = False
    gone: bool = False
    max_for_ms: int | None = None
    pool: str = ""
    """Its id where name and labels do not make it."""


class Page(msgspec.Struct, frozen=True):
    """A node's header and the lines of its log after `after` up to `upto`, as the sender knows them."""

    header: Header
    beat: int
    after: int = 0
    upto: int = 0
    lines: tuple[Line, ...] = ()
    more: bool = False
    """The sender knows later lines and tells them when it is asked to go on."""
    quiet_ms: int = 0
    """How long the sender has heard nothing of the node."""


class Tombstone(msgspec.Struct, frozen=True, tag="tombstone"):
    """A node that an operator has removed. Its id never comes back; its name is free."""

    node: str
    name: str
    by: str
    """Name of the node where it was said."""


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """A node that starts, to all that it knows."""

    name: str
    instance: str
    incarnation: int
    since_ms: int = 0
    """0: it has never served under this name."""
    address: str = ""


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Nothing known speaks against it. `known`: what is told of the node, from an earlier life."""

    instance: str
    """The asker's, as in all answers to a Hello: a late answer to an earlier process is told by it."""
    known: Row


class NameTaken(msgspec.Struct, frozen=True, tag="name_taken"):
    """Another node has the name."""

    instance: str
    node: str
    address: str
    silent_ms: int = 0


class Cloned(msgspec.Struct, frozen=True, tag="cloned"):
    """The identity has been used by a process that started later, or by another of the same start number."""

    instance: str
    incarnation: int
    address: str = ""


class YouAreForgotten(msgspec.Struct, frozen=True, tag="you_are_forgotten"):
    """To a node that an operator has removed, whatever it says."""

    tombstone: Tombstone


class Summary(msgspec.Struct, frozen=True, tag="summary"):
    """Opens an exchange: what the sender knows."""

    rows: tuple[Row, ...]
    forgotten: int = 0
    """Digest of its tombstones."""


class Difference(msgspec.Struct, frozen=True, tag="difference"):
    """Where the sender is ahead in beats, and where it is behind and wants more."""

    newer: tuple[Row, ...] = ()
    wanted: tuple[Row, ...] = ()


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """Pages of nodes' logs; one node's in order."""

    pages: tuple[Page, ...]


class Tombstones(msgspec.Struct, frozen=True, tag="tombstones"):
    """Who has been forgotten. `whole`: all that the sender knows; who knows others answers with those."""

    tombstones: tuple[Tombstone, ...]
    whole: bool = False


class Presence(msgspec.Struct, frozen=True, tag="presence"):
    """To whoever else runs under the own identity."""

    instance: str
    incarnation: int
    serving: bool
    to: str = ""
    """Instance of the process that this answers: proof that both live now. A bus may be slow, so a presence without
    it may be of a process that has ended since.
    """


# Inside a node


class MayServe(msgspec.Struct, frozen=True, tag="may_serve"):
    """To `node`: nobody objects to this start (or nobody has answered in time)."""


class StartRefused(msgspec.Struct, frozen=True, tag="start_refused"):
    """To `node`: this start must end, for the reason given to people. The directory says nothing any more."""

    text: str


class MustStop(msgspec.Struct, frozen=True, tag="must_stop"):
    """To `node`, which serves already: another process has this identity and started before."""

    text: str


class Warned(msgspec.Struct, frozen=True, tag="warned"):
    """To `node`, for its log."""

    text: str


class Shunned(msgspec.Struct, frozen=True, tag="shunned"):
    """To `node`: this node has been forgotten; what comes from it goes to the directory only. Also at each start."""

    node: str
    name: str


class Leaving(msgspec.Struct, frozen=True, tag="leaving"):
    """From `node`: it ends now. A few others are told; the directory does nothing after it."""


class Met(msgspec.Struct, frozen=True, tag="met"):
    """From `node`: the bus knows of a node of the system that may be new to the directory."""

    node: str
    name: str


class ForgetNode(msgspec.Struct, frozen=True, tag="forget_node"):
    """An operator removes a node, by name or id. Answered with `ForgetDone` of the same number."""

    n: int
    name: str


class ForgetDone(msgspec.Struct, frozen=True, tag="forget_done"):
    """Whether it is forgotten; `text` for people either way."""

    n: int
    ok: bool
    text: str


FromPeer: TypeAlias = (
    Hello | Welcome | NameTaken | Cloned | YouAreForgotten | Summary | Difference | Tell | Tombstones
)
ToNode: TypeAlias = MayServe | StartRefused | MustStop | Warned | Shunned | ForgetDone
FromNode: TypeAlias = Leaving | Met | ForgetNode | Presence
DirectoryMessage: TypeAlias = FromPeer | ToNode | FromNode


# Records


class OwnName(msgspec.Struct, frozen=True, tag="own_name"):
    """Since when this node serves under its name."""

    name: str
    since_ms: int


class Outcast(msgspec.Struct, frozen=True, tag="outcast"):
    """This node has learnt that it was forgotten."""

    name: str
    by: str


DirectoryRecord: TypeAlias = Member | Tombstone | OwnName | Outcast

OWN_NAME_KEY = "own"
OUTCAST_KEY = "outcast"
MEMBER_PREFIX = "member/"
TOMBSTONE_PREFIX = "forgotten/"

CODEC.register("directory", DirectoryMessage)
CODEC.register("directory record", DirectoryRecord)
