"""The part that takes turns for requests which are several: a client of the node's own agent, like any other.

Each node of a location has a pool `location.turn` of one unit. Whoever asks a location for several leases at once claims
that unit first, at the first node of each location that it asks: one claim by the protocol of the system, which waits. So
such requests come one after the other, in an order in which none waits for ever, and none that has parts held waits
for anything. The turn keeps nobody from granting anything wrong: should two nodes pass for the first one for a moment,
two such requests can refuse each other, no more.
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from typing import Self

import msgspec

from holdall.leases.messages import PoolSpec
from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    Address,
    ClockRead,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Record,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model import frames
from holdall.model.wanted import Need, Selector
from holdall.parties.location.messages import NEGOTIATOR
from holdall.parties.location.own_session import OwnSession
from holdall.parties.messages import AGENT, SESSION

TURN = "location.turn"
"""The pool's name."""
TURN_MS = 60_000
"""The longest that a turn is kept; all parts are asked for, and accepted, in much less."""
TURNS = f"{SESSION}turns"
"""The part's name: a connection of the agent's that is no socket."""
BEAT_TIMER = "beat"


class TakeTurn(msgspec.Struct, frozen=True, tag="take_turn"):
    """From the negotiator: a turn at all of these nodes, by their names. Answered by TurnIs or NoTurn."""

    key: str
    nodes: tuple[str, ...]
    wait_ms: int
    holder: str


class EndTurn(msgspec.Struct, frozen=True, tag="end_turn"):
    """From the negotiator: it is over, or not wanted any more. Not answered."""

    key: str


class TurnIs(msgspec.Struct, frozen=True, tag="turn_is"):
    """It has begun."""

    key: str


class NoTurn(msgspec.Struct, frozen=True, tag="no_turn"):
    """None came within the time, or none can be had there; `text` says why."""

    key: str
    text: str


CODEC.register("turns", TakeTurn | EndTurn | TurnIs | NoTurn)


def turn_pool() -> PoolSpec:
    """Of a node that is in a location."""
    return PoolSpec(pool=TURN, name=TURN, labels=(), units=("turn",), reach="system", max_for_ms=TURN_MS)


class Turns:
    """The machine. Nothing but its session is saved: what an earlier process of the node had is given back."""

    def __init__(self, node: str, uid: int, *, ttl_ms: int, seed: int) -> None:
        self._node, self._ttl_ms = node, ttl_ms
        self._session = OwnSession(node, uid, connection="turns", holder="requests for several", seed=seed)
        # A number that an earlier process has used would be its claim, not a new one.
        self._session.n = seed % 2**31
        self._is_open = False
        self._claims: dict[int, str] = {}
        """Number of a claim -> whose it is, while it waits or is held."""
        self._printed: dict[int, str] = {}
        """Of those that are held."""
        self._found = 0
        """Number of the Beat that tells what an earlier process had."""

    def start(self) -> Sequence[Effect]:
        """Nothing is asked for; the session begins with the first turn."""
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Go on with a session that there was, and ask what it has."""
        out: list[Effect] = []
        if self._session.is_in(records):
            self._open(records, out)
            self._found = self._session.number()
            self._session.ask(frames.Beat(self._found), out)
        return out

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event of the negotiator or of the agent. Raises ProtocolViolation for others'."""
        out: list[Effect] = []
        if isinstance(event, TimerFired):
            if self._claims:
                self._session.ask(frames.Beat(self._session.number()), out)
                self._beat_later(out)
            return out
        sender, message = event.sender, event.message
        if isinstance(message, ClockRead):
            return out
        if sender == Address(self._node, NEGOTIATOR):
            self._of_negotiator(message, out)
        elif sender == Address(self._node, AGENT):
            self._of_agent(message, out)
        else:
            raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for who takes turns")
        return out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return tuple(sorted(self._claims.items())), tuple(sorted(self._printed.items()))

    def copy(self) -> Self:
        """An independent twin."""
        return deepcopy(self)

    # ------------------------------------------------------------ inside

    def _open(self, records: Mapping[str, Record], out: list[Effect]) -> None:
        self._is_open = True
        self._session.open(records, out)

    def _beat_later(self, out: list[Effect]) -> None:
        out.append(SetTimer(BEAT_TIMER, max(1, self._ttl_ms // 3)))

    def _of_negotiator(self, message: Message, out: list[Effect]) -> None:
        match message:
            case TakeTurn():
                if not self._is_open:
                    self._open({}, out)
                if not self._claims:
                    self._beat_later(out)
                n = self._session.number()
                self._claims[n] = message.key
                needs = tuple(Need((Selector((TURN,), node=name),)) for name in message.nodes)
                claim = frames.Claim(
                    n,
                    needs,
                    wait_ms=message.wait_ms,
                    ttl_ms=self._ttl_ms,
                    reason=f"several leases at once for {message.holder}",
                )
                self._session.ask(claim, out)
            case EndTurn(key):
                for n in [n for n, known in self._claims.items() if known == key]:
                    self._end(n, out)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is not for who takes turns")

    def _of_agent(self, message: Message, out: list[Effect]) -> None:
        match message:
            case frames.Granted(n):
                if n in self._claims:
                    self._printed[n] = message.lease.lease
                    self._tell(TurnIs(self._claims[n]), out)
                else:
                    self._give_back(message.lease.lease, out)
            case frames.Denied(n):
                key = self._claims.pop(n, None)
                if key is not None:
                    self._tell(NoTurn(key, message.text), out)
            case frames.BeatOk(n, valid) if n == self._found:
                for printed, _ in valid:
                    self._give_back(printed, out)
            case frames.Lost(lease):
                for n in [n for n, printed in self._printed.items() if printed == lease]:
                    self._end(n, out)
            case _:
                pass  # Welcome, Queued, Released

    def _end(self, n: int, out: list[Effect]) -> None:
        del self._claims[n]
        printed = self._printed.pop(n, "")
        if printed:
            self._session.ask(frames.Release(self._session.number(), printed), out)
        else:
            self._session.ask(frames.Cancel(self._session.number(), f"#{n}"), out)

    def _give_back(self, printed: str, out: list[Effect]) -> None:
        """Whether it is held or waits still."""
        self._session.ask(frames.Cancel(self._session.number(), printed), out)
        self._session.ask(frames.Release(self._session.number(), printed), out)

    def _tell(self, message: Message, out: list[Effect]) -> None:
        out.append(Send(Address(self._node, NEGOTIATOR), message))
