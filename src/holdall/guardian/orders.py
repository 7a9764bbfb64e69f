"""The conversation of a guardian with the process that started it (the wrapper), over a pair of sockets.

One msgpack value a packet (SOCK_SEQPACKET keeps them apart). The command and its environment are not in it: they are the
guardian's own arguments and environment, so that they may hold any bytes.
"""

import errno
from typing import TypeAlias

import msgspec

from holdall.guardian.enforcement.figures import Figures, Kept, Limits
from holdall.model.frames import ExitRecord, LeaseView, Need
from holdall.model.terms import COMMAND_TERMS, LeaseDocument

# Wrapper -> guardian


class BeforeEnd(msgspec.Struct, frozen=True):
    """What is done so long before TERM: a signal to the command's process group, or a command beside it."""

    lead_ms: int
    signal: int = 0
    command: tuple[str, ...] = ()


class Start(msgspec.Struct, frozen=True, tag="start"):
    """Take the lease over, then start the command. Moments are CLOCK_BOOTTIME in milliseconds."""

    key: str
    lease: LeaseView
    node: str
    """Where it is: the path of its socket, or https://HOST:PORT; the access token is in the environment."""
    ttl_ms: int
    deadline_ms: int | None
    """When the lease runs out by what the wrapper knows; None: not known (a view of an inherited lease)."""
    hard_end_ms: int | None = None
    grace_ms: int = 5_000
    view: tuple[Need, ...] = ()
    """Not empty: the lease is inherited and covers these needs; it is neither attached nor renewed nor released."""
    agent: str = ""
    wrapper_group: int = 0
    terminal: bool = False
    """Standard input is the controlling terminal: pass it to the command, and its stops to the wrapper."""
    foreground: bool = False
    """Give the terminal to the command from the beginning."""
    ignored_signals: tuple[int, ...] = ()
    """What the wrapper itself was started to ignore (`nohup`); the command inherits that."""
    lease_file: str = ""
    limits: Limits = Limits()
    """Of all of the command's processes together."""
    stay_ms: int | None = None
    """How long the command may run, whatever the lease would allow."""
    before_end: BeforeEnd | None = None
    negotiated: LeaseDocument | None = None
    """The lease is of a location: `limits`, `stay_ms` and `before_end` are as it says, and each renewal may change them."""

    @property
    def has_command_terms(self) -> bool:
        """Whether a negotiated lease has terms to which the command is held."""
        return self.negotiated is not None and any(one.name in COMMAND_TERMS for one in self.negotiated.terms)


class Pulse(msgspec.Struct, frozen=True, tag="pulse"):
    """The wrapper lives and runs."""


class Resume(msgspec.Struct, frozen=True, tag="resume"):
    """After a Halted: let the command go on, with the terminal or in the background."""

    foreground: bool


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """A signal that the wrapper got and that is meant for the command."""

    signal: int


class StopCommand(msgspec.Struct, frozen=True, tag="stop"):
    """End the command (TERM, grace, KILL), then release."""

    text: str


ToGuardian: TypeAlias = Start | Pulse | Resume | Forward | StopCommand

# Guardian -> wrapper


class Attached(msgspec.Struct, frozen=True, tag="attached"):
    """The lease is the guardian's session's now."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """The command runs, as leader of its own process group."""

    pid: int
    enforced: dict[str, Kept] = {}
    """How each of its limits is kept."""


class Renewed(msgspec.Struct, frozen=True, tag="renewed"):
    """A renewal was confirmed. `sent_ms`: when it was asked for, which is what the deadline is counted from."""

    sent_ms: int
    deadline_ms: int
    hard_end_ms: int | None
    is_shorter: bool = False
    """What was confirmed before does not count any more."""


class Regranted(msgspec.Struct, frozen=True, tag="regranted"):
    """A renewal grants other amounts of the command's terms; the command is held to these from now on."""

    limits: Limits
    stay_ms: int | None
    enforced: dict[str, Kept]


class GuardianPulse(msgspec.Struct, frozen=True, tag="guardian_pulse"):
    """The guardian lives and runs."""


class Halted(msgspec.Struct, frozen=True, tag="halted"):
    """The command was stopped by this signal of job control. The guardian expects no pulse until Resume."""

    signal: int


class Stopping(msgspec.Struct, frozen=True, tag="stopping"):
    """The command is being ended; `reason` is one of `vigil.Reason`."""

    reason: str
    text: str


class Empty(msgspec.Struct, frozen=True, tag="empty"):
    """No process of the command is left; the release is about to be sent.

    `at_ms`: since when, on CLOCK_BOOTTIME. The wrapper may read this long after, if it was stopped.
    """

    at_ms: int


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """Last word. `released`: what the node said to the release; empty when it said nothing in time."""

    exit: ExitRecord
    reason: str = ""
    """Why the guardian ended the command (one of `vigil.Reason`); empty: it ended by itself."""
    text: str = ""
    released: str = ""
    leftovers: int = 0
    """Processes that outlived the command and were ended after it."""
    figures: Figures = Figures()
    """What the command has used."""
    before_end: str = ""
    """What became of that which was to be done before the end; empty: it was not done."""


class NotStarted(msgspec.Struct, frozen=True, tag="not_started"):
    """Last word: the command never ran. `errno` when it could not be executed, else `code` as of an error."""

    text: str
    code: str = ""
    errno: int = 0

    def status(self) -> int | None:
        """As shells have it: 127 not found, 126 not executable; None: the command itself was not tried."""
        if not self.errno:
            return None
        return 127 if self.errno == errno.ENOENT else 126


FromGuardian: TypeAlias = (
    Attached | Started | Renewed | Regranted | GuardianPulse | Halted | Stopping | Empty | Ended | NotStarted
)

ORDER_BYTES_MAX = 1 << 17

_encoder = msgspec.msgpack.Encoder()
_to_guardian: msgspec.msgpack.Decoder[ToGuardian] = msgspec.msgpack.Decoder(ToGuardian)
_from_guardian: msgspec.msgpack.Decoder[FromGuardian] = msgspec.msgpack.Decoder(FromGuardian)


def pack(order: ToGuardian | FromGuardian) -> bytes:
    """One packet."""
    return _encoder.encode(order)


def read_order(packet: bytes) -> ToGuardian:
    """What a wrapper said. Raises msgspec.DecodeError."""
    return _to_guardian.decode(packet)


def read_report(packet: bytes) -> FromGuardian:
    """What a guardian said. Raises msgspec.DecodeError."""
    return _from_guardian.decode(packet)
