"""Commands that clients of this node run elsewhere: frames are passed on, and nothing of them is kept here.

What keeps pieces until they are used up are the two ends, the client and the node of the command. A node between them
that is started anew has forgotten the run, whose connection has ended with it, too.
"""

from difflib import get_close_matches

import msgspec

from holdall.machine.contract import Address, Send
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec, LeaseLost, NotGranted, NotHolder, Unreachable
from holdall.model.run_frames import (
    COMMAND_BYTES_MAX,
    WISHES_BYTES_MAX,
    FromCaller,
    RunOn,
    command_bytes,
)
from holdall.parties.listings.asking import why_not
from holdall.parties.messages import SESSION, Asked
from holdall.parties.neighbours import Neighbour
from holdall.parties.runs.messages import RUNS, RunPassed, RunQuit, RunRefused, RunStart, RunTold
from holdall.parties.runs.state import Runs

CALLED_MAX = 64
"""Runs elsewhere of all clients of a node."""


class Called(msgspec.Struct, frozen=True):
    """One of them."""

    connection: str
    n: int
    peer: str


class Calling:
    """The side of the calling node."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.called: dict[int, Called] = {}
        self._numbers: dict[tuple[str, int], int] = {}
        self._last = 0

    # ------------------------------------------------------------ the client

    def start(self, connection: str, frame: RunOn, asked: Asked) -> None:
        """Pass it on to the node that it names, if that can be reached."""
        refusal = self._refusal(connection, frame)
        if isinstance(refusal, frames.Denied):
            self._runs.tell(connection, refusal)
            return
        runs, peer = self._runs, refusal.node
        self._last += 1
        self.called[self._last] = Called(connection, frame.n, peer)
        self._numbers[connection, frame.n] = self._last
        start = RunStart(
            runs.incarnation,
            self._last,
            user=asked.user[:512],
            is_keeper=asked.uid in {0, runs.settings.uid},
            ttl_ms=frame.ttl_ms,
            wishes=frame.wishes,
        )
        runs.out.append(Send(Address(peer, RUNS), start))

    def frame(self, connection: str, frame: FromCaller) -> None:
        """Input, or a sign of life: passed on."""
        number = self._numbers.get((connection, frame.n))
        if number is None:
            text = "no run of this connection has this number, or it is over."
            self._runs.tell(connection, frames.Denied(frame.n, NotHolder.code, text))
            return
        called = self.called[number]
        known = self._runs.neighbours.node(called.peer)
        if known is None or known.state == "stopped":
            what = "is no node of this system any more" if known is None else "has been stopped"
            name = self._runs.neighbours.name_of(called.peer)
            text = f"{name} {what}. The command there is ended with it (TERM, grace, KILL)."
            self._over(number)
            self._runs.tell(connection, frames.Denied(frame.n, LeaseLost.code, text))
            return
        told = RunTold(self._runs.incarnation, number, frame)
        self._runs.out.append(Send(Address(called.peer, RUNS), told))

    def closed(self, connection: str) -> None:
        """The client is gone: so are its runs."""
        for number, called in tuple(self.called.items()):
            if called.connection == connection:
                self._over(number)
                quit_ = RunQuit(self._runs.incarnation, number)
                self._runs.out.append(Send(Address(called.peer, RUNS), quit_))

    # ------------------------------------------------------------ the node of the command

    def passed(self, peer: str, message: RunPassed) -> None:
        """Pass it to the client. Of a run that is over here it is late."""
        called = self._of(peer, message.incarnation, message.run)
        if called is not None:
            self._runs.tell(called.connection, msgspec.structs.replace(message.frame, n=called.n))

    def refused(self, peer: str, message: RunRefused) -> None:
        """It does not run there, or not any more."""
        called = self._of(peer, message.incarnation, message.run)
        if called is not None:
            self._over(message.run)
            self._runs.tell(called.connection, frames.Denied(called.n, message.code, message.text))

    # ------------------------------------------------------------ inside

    def _of(self, peer: str, incarnation: int, number: int) -> Called | None:
        called = self.called.get(number)
        if called is None or called.peer != peer or incarnation != self._runs.incarnation:
            return None
        return called

    def _over(self, number: int) -> None:
        called = self.called.pop(number)
        del self._numbers[called.connection, called.n]

    def _refusal(self, connection: str, frame: RunOn) -> frames.Denied | Neighbour:
        """The node to ask, or why nobody is."""

        def denied(code: str, text: str) -> frames.Denied:
            return frames.Denied(frame.n, code, text)

        if (connection, frame.n) in self._numbers:
            return denied(BadSpec.code, "a run of this connection has this number already.")
        if command_bytes(frame.wishes.command) > COMMAND_BYTES_MAX:
            size = command_bytes(frame.wishes.command)
            return denied(
                BadSpec.code,
                f"the command has {size:,} bytes; at most {COMMAND_BYTES_MAX:,} go to another node. "
                "Put what is long into a file there, or on standard input.",
            )
        if len(msgspec.msgpack.encode(frame.wishes)) > WISHES_BYTES_MAX:
            text = f"the command and its needs take more than {WISHES_BYTES_MAX:,} bytes. Ask for less in one run."
            return denied(BadSpec.code, text)
        if frame.node in {self._runs.name, self._runs.settings.node}:
            return denied(
                BadSpec.code, f"{frame.node} is this node: ask it for a lease and run the command here."
            )
        found = self._named(frame.node)
        if found is None:
            return denied(Unreachable.code, self._unknown(frame.node))
        if reason := why_not(found):
            text = f"{found.name} can't be asked: {reason}. See: holdall doctor"
            return denied(Unreachable.code, text)
        if len(self.called) >= CALLED_MAX:
            text = f"clients of {self._runs.name} have {CALLED_MAX} commands on other nodes already. Try again later."
            return denied(NotGranted.code, text)
        return found

    def _named(self, name: str) -> Neighbour | None:
        neighbours = self._runs.neighbours
        return neighbours.node(neighbours.node_named(name) or name)

    def _unknown(self, name: str) -> str:
        others = [one.name for one in self._runs.neighbours.nodes()]
        near = get_close_matches(name, others, n=1)
        guess = f' Did you mean "{near[0]}"?' if near else ""
        return (
            f"{self._runs.name} knows no node {name!r}.{guess} Leave --on out to run here; which nodes there are: "
            "holdall doctor"
        )


def connection_of(part: str) -> str:
    """The connection's id in the name of the part that its frames come from."""
    return part.removeprefix(SESSION)


def silence_text(name: str, ttl_ms: int) -> str:
    """Why a run ends whose caller is silent."""
    return f"nothing was heard of {name} for {show_duration(ttl_ms)}"
