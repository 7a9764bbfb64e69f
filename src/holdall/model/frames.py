"""The conversation of a client (SDK, command line, guardian) with its node over `holdall.sock`.

Each frame: 4 bytes length (big endian), then msgpack. A request carries a number `n`, unique in its
connection; every answer to it carries the same `n`. Identity is the connection's (peer credentials).
Durations travel, never instants; `*_ms` wall times are for display only.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec

from holdall.model.decoding import decoded
from holdall.model.job_frames import FromJobs, ToJobs
from holdall.model.listings import KnownNode as KnownNode  # noqa: PLC0414 - part of this conversation
from holdall.model.listings import LogRow as LogRow  # noqa: PLC0414 - part of this conversation
from holdall.model.listings import NodeRow as NodeRow  # noqa: PLC0414 - part of this conversation
from holdall.model.listings import NotAsked as NotAsked  # noqa: PLC0414 - part of this conversation
from holdall.model.listings import PoolRow as PoolRow  # noqa: PLC0414 - part of this conversation
from holdall.model.listings import UnitRow as UnitRow  # noqa: PLC0414 - part of this conversation
from holdall.model.run_frames import FromRuns, ToRuns
from holdall.model.wanted import Need as Need  # noqa: PLC0414 - part of this conversation
from holdall.model.wanted import Number, Text
from holdall.model.wanted import Selector as Selector  # noqa: PLC0414 - part of this conversation
from holdall.model.why import Why

VERSION = 1
LENGTH_BYTES = 4
BYTES_LATE_MS = 20
"""Bytes that a node's gate has let go leave within this time, or are put back."""

Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class HeldUnit(msgspec.Struct, frozen=True, order=True):
    """One unit of a lease. `pool` is the pool's name, `need` the index of the need it serves."""

    pool: str
    name: str
    node: str
    fence: int
    need: int = 0


class ExitRecord(msgspec.Struct, frozen=True):
    """How a guarded command ended: code, or signal; `reason` when the guardian stopped it."""

    code: int | None = None
    signal: int | None = None
    reason: Text = ""


TakenBack: TypeAlias = Literal["", "expired", "kicked"]
"""How a lease of units is over that its holder does not just give back."""

# Client -> node


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First frame. With `session` and `secret` an earlier session goes on (its leases stay attached)."""

    v: int
    role: Literal["client", "guardian", "cli"] = "client"
    agent: Text = ""
    """Who this is for people, e.g. `ci@runner-4`; the node puts the peer's user in front when empty."""
    pid: Number = 0
    session: Text = ""
    secret: Text = ""
    for_uid: Number | None = None
    """Only from the HTTP server that the node has started: the user for whom it asks. From anybody else: refused.

    With `pid` 0: for a client on another host, which runs its commands there.
    """


class Claim(msgspec.Struct, frozen=True, tag="claim"):
    """Ask for all needs or none. Answers: Queued (any number), then Granted or Denied.

    `n` is unique in the *session*, also over reconnects: a Claim repeated with the number of a claim of this session
    that waits or is held is that claim, and is answered again. So repeat it after a reconnect, if it was open.
    """

    n: Number
    needs: tuple[Need, ...]
    wait_ms: Milliseconds | None = None
    """None: without limit."""
    asked_wait_ms: Milliseconds | None = None
    """For texts: the wait as it was asked for, when `wait_ms` is only what is left of it. None: `wait_ms` is all."""
    now: bool = False
    """No waiting: granted at once if that delays no waiting claim, else Denied not-granted."""
    ttl_ms: Milliseconds = 30_000
    for_ms: Milliseconds | None = None
    """None: the pool's max_for."""
    reason: Text = ""
    site: Text = ""
    """Call site for texts about nested claims."""
    under: Text = ""
    """Key of the lease in whose scope this claim is made."""
    independent: bool = False
    allow_future: bool = False
    detached: bool = False
    """The node renews until the hard end; `for_ms` is then required."""
    guarded: bool = False
    """A guardian will take the lease over: it is then never freed because its process died."""


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """Renew all leases of this session."""

    n: Number


class Attach(msgspec.Struct, frozen=True, tag="attach"):
    """The lease with this key belongs to this session from now on. Answer: Granted or Denied."""

    n: Number
    key: Text


class Release(msgspec.Struct, frozen=True, tag="release"):
    """End a lease by its key (or printed id, if it is this session's or this user's). Answer: Released."""

    n: Number
    key: Text
    wait: bool = False
    exit: ExitRecord | None = None
    """From a guardian: the command's group is empty."""
    why: TakenBack = ""
    """From who holds units for negotiated leases: that lease came to its end so, and its holder gave nothing back."""


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """End a waiting claim (printed id, or `#n` = request n of this connection). Answer: Released."""

    n: Number
    claim: Text


class Extend(msgspec.Struct, frozen=True, tag="extend"):
    """A later hard end, counted from now. Answer: Granted (with the new end) or Denied."""

    n: Number
    key: Text
    for_ms: Milliseconds


class Drop(msgspec.Struct, frozen=True, tag="drop"):
    """Give a part back: the units named (`pool/unit`). Answer: Granted (what is left) or Released."""

    n: Number
    key: Text
    units: tuple[Text, ...]


class Exchange(msgspec.Struct, frozen=True, tag="exchange"):
    """Swap in one step if possible now. Answer: Granted or Denied (nothing changed)."""

    n: Number
    key: Text
    add: tuple[Need, ...]
    drop: tuple[Text, ...]


class Ask(msgspec.Struct, frozen=True, tag="ask"):
    """A question about the system: the node that is asked asks all others. Answer: Listing or Denied.

    `node` and `usage` are always about the node that is asked.
    """

    n: Number
    what: Literal["pools", "who", "queue", "why", "log", "show", "node", "usage"]
    arg: Text = ""
    since_ms: Milliseconds | None = None
    """For `log`: how far back."""
    local: bool = False
    """Only what the node that is asked knows by itself."""
    node: Text = ""
    """Only this node, by its name; empty: all."""


class Watch(msgspec.Struct, frozen=True, tag="watch"):
    """Tell log entries of all nodes as they happen. Answers: Happened, without end."""

    n: Number
    local: bool = False
    """Only those of the node that is asked."""
    node: Text = ""
    """Only those of this node, by its name; empty: all."""


class Kick(msgspec.Struct, frozen=True, tag="kick"):
    """Revoke a lease. Answer when its holder has confirmed or it has expired: Released."""

    n: Number
    lease: Text
    reason: Text
    unsafe: bool = False


class Drain(msgspec.Struct, frozen=True, tag="drain"):
    """No new grants on this node (or end that); waiting claims keep their place."""

    n: Number
    on: bool = True


class Clear(msgspec.Struct, frozen=True, tag="clear"):
    """Take a unit (`pool/unit`) out of quarantine after a person has looked at it."""

    n: Number
    unit: Text


class Forget(msgspec.Struct, frozen=True, tag="forget"):
    """Remove another node from the system for good; its name is free then. Answer: Drained or Denied."""

    n: Number
    node: Text
    """Its name or id."""
    heard: bool = False
    """Also when it is heard."""


class Invite(msgspec.Struct, frozen=True, tag="invite"):
    """A code with which one more node can join the system. Answer: Invited or Denied."""

    n: Number


class Negotiate(msgspec.Struct, frozen=True, tag="negotiate"):
    """About leases on negotiated terms; `body` is one of `model.location_frames`. Answer: Negotiated or Denied."""

    n: Number
    body: bytes


class TakeBytes(msgspec.Struct, frozen=True, tag="take_bytes"):
    """Bytes that shall leave under a negotiated lease of this user; one question of a connection at a time. Answer: BytesTaken."""

    n: Number
    lease: Annotated[str, msgspec.Meta(max_length=256)]
    term: Annotated[str, msgspec.Meta(max_length=64)]
    size: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)]
    """0: nothing; only to say the rest."""
    unused: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    """Of what was taken before, what came too late to be sent."""
    denied: Annotated[int, msgspec.Meta(ge=0, le=1 << 20)] = 0
    """Uses that were refused since the last question, as there was no lease."""


ToNode: TypeAlias = (
    Hello
    | Claim
    | Beat
    | Attach
    | Release
    | Cancel
    | Extend
    | Drop
    | Exchange
    | Ask
    | Watch
    | Kick
    | Drain
    | Clear
    | Forget
    | Invite
    | Negotiate
    | TakeBytes
    | ToRuns
    | ToJobs
)

# Node -> client


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Answer to Hello. Margins and rates for the client's own deadline."""

    v: int
    node: str
    session: str
    secret: str
    """The session's, to come back with; not a lease key."""
    resumed: bool
    ttl_ms: int
    """Default ttl."""
    ttl_max_ms: int
    margin_ms: int
    rho_ppm: int
    quarantine_ms: int = 0
    wait_ms: int | None = None
    """Default wait; None: without limit."""


class Queued(msgspec.Struct, frozen=True, tag="queued"):
    """The claim waits; told first, and again when something changed."""

    n: int
    claim: str
    """Printed id."""
    why: Why


class LeaseView(msgspec.Struct, frozen=True):
    """A lease as people and programs see it."""

    lease: str
    """Printed id."""
    holder: str
    """e.g. `ci@runner-4`"""
    user: str
    pid: int
    reason: str
    state: str
    """waiting, booked, active, draining or ended"""
    units: tuple[HeldUnit, ...]
    needs: tuple[str, ...]
    """The needs as SPECs."""
    since_ms: int
    """Wall time of the grant."""
    waited_ms: int
    ttl_ms: int
    until_ms: int | None
    """Wall time of the hard end; None: no end."""
    expires_ms: int
    """Wall time of the end if no renewal comes any more."""
    renewing: bool
    detached: bool = False
    ended: str = ""
    """Why it ended, when it has."""
    node: str = ""
    """The node that keeps the lease alive for its holder: where it is released, extended and kicked."""
    silent: tuple[str, ...] = ()
    """Nodes with a part in it that don't answer any more, with since when: `lab-1 (since 13:58:04)`."""


class Granted(msgspec.Struct, frozen=True, tag="granted"):
    """The lease.

    `valid_for_ms` counts from before the client *sent* the request that this answers; for a claim that
    waited, from before it sent its latest Beat that was answered (or the Claim itself).
    """

    n: int
    key: str
    lease: LeaseView
    valid_for_ms: int
    for_left_ms: int | None
    """Time to the hard end, counted from the same moment as `valid_for_ms`; rate and margin are taken off already."""
    view: bool = False
    """True: covered by the lease named in `under`; releasing it does nothing."""


class Denied(msgspec.Struct, frozen=True, tag="denied"):
    """An error; `code` as in `holdall.model.errors.BY_CODE`."""

    n: int
    code: str
    text: str
    why: Why | None = None
    definite: bool = True
    retry_after_ms: int | None = None


class BeatOk(msgspec.Struct, frozen=True, tag="beat_ok"):
    """What the session still has, each with its time from the *sending* of the Beat.

    Pairs of printed id and milliseconds, leases and waiting claims alike; what is not named here is not
    the session's any more. -1: the node has come up again, and other nodes of the lease have yet to say that they
    still have it: what was told before counts on, and the Beat is to be repeated soon.
    """

    n: int
    valid_for_ms: tuple[tuple[str, int], ...]


class Lost(msgspec.Struct, frozen=True, tag="lost"):
    """Not an answer: a lease of this session is over.

    With `stop` it is revoked, not over yet: stop using it and Release.
    """

    lease: str
    text: str
    stop: bool = False


class Released(msgspec.Struct, frozen=True, tag="released"):
    """The journal has it. The units are free at the latest after `free_by_ms`."""

    n: int
    lease: str
    what: str
    """`released`, `cancelled`, `already ended`, `kicked`, …"""
    free_by_ms: int = 0


class UsageRow(msgspec.Struct, frozen=True):
    """What one group had of one term, on one node. Amounts are in the term's base unit."""

    group: str
    term: str
    kind: str
    """`pool`, `capacity` or `function`"""
    leases: int
    stretches: int
    """Parts of leases that were held on unchanged terms."""
    held_ms: int
    """Of all of them together."""
    amount_ms: str
    """Sum of amount x time, in digits: it can be larger than any number of a frame."""
    used: int
    """What was measured, of stretches that are over."""
    denied: int
    violated_s: int
    """Seconds in which less was to be had than was granted."""
    now: int
    """What is held in this moment."""


class Listing(msgspec.Struct, frozen=True, tag="listing"):
    """Answer to Ask: the field of what was asked is filled."""

    n: int
    pools: tuple[PoolRow, ...] = ()
    leases: tuple[LeaseView, ...] = ()
    """for `who` and `show`"""
    waits: tuple[Why, ...] = ()
    """for `queue` and `why`"""
    log: tuple[LogRow, ...] = ()
    nodes: tuple[NodeRow, ...] = ()
    """for `node`: the one that was asked"""
    known: tuple[KnownNode, ...] = ()
    """for `node`: the others that it knows"""
    usage: tuple[UsageRow, ...] = ()
    """for `usage`: of the node that was asked"""
    not_asked: tuple[NotAsked, ...] = ()
    """Nodes that have no part in this answer, by name; in its last frame."""
    more: bool = False
    """True: another Listing with the same `n` follows (frames are bounded)."""


class Happened(msgspec.Struct, frozen=True, tag="happened"):
    """A new line of the history, for a Watch."""

    n: int
    row: LogRow


class Drained(msgspec.Struct, frozen=True, tag="drained"):
    """Answer to Drain, Clear and Forget."""

    n: int
    text: str


class Invited(msgspec.Struct, frozen=True, tag="invited"):
    """Answer to Invite."""

    n: int
    code: str
    """Secret, for one node."""
    valid_s: int


class Negotiated(msgspec.Struct, frozen=True, tag="negotiated"):
    """Answer to Negotiate; `body` is one of `model.location_frames`."""

    n: int
    body: bytes


class BytesTaken(msgspec.Struct, frozen=True, tag="bytes_taken"):
    """So many bytes may leave within `BYTES_LATE_MS` after the question was sent and `waited_us`; 0: none now."""

    n: int
    size: int = 0
    waited_us: int = 0
    """At the node, in microseconds."""


FromNode: TypeAlias = (
    Welcome
    | Queued
    | Granted
    | Denied
    | BeatOk
    | Lost
    | Released
    | Listing
    | Happened
    | Drained
    | Invited
    | Negotiated
    | BytesTaken
    | FromRuns
    | FromJobs
)

_encoder = msgspec.msgpack.Encoder()
_to_node: msgspec.msgpack.Decoder[ToNode] = msgspec.msgpack.Decoder(ToNode)
_from_node: msgspec.msgpack.Decoder[FromNode] = msgspec.msgpack.Decoder(FromNode)


def pack(frame: ToNode | FromNode) -> bytes:
    """Length and body of one frame."""
    body = _encoder.encode(frame)
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def read_request(body: bytes) -> ToNode:
    """A client's frame. Raises msgspec.DecodeError (incl. ValidationError) when it is none."""
    return decoded(_to_node.decode, body)


def read_answer(body: bytes) -> FromNode:
    """A node's frame. Raises msgspec.DecodeError (incl. ValidationError) when it is none."""
    return decoded(_from_node.decode, body)
