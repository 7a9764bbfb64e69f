"""Two or more linked hosts with parts that say and hear words, driven by hand."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    Address,
    Boot,
    Effect,
    Event,
    ProtocolViolation,
    Received,
    Record,
    Send,
    SetTimer,
)
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link import LINK, Link
from holdall.machine.link_frames import LinkFrame, LinkMessage, LinkOpen
from holdall.machine.link_peer import LinkSettings


class Say(msgspec.Struct, frozen=True, tag="say"):
    """From outside: send these words to a node's claimant."""

    to: str
    words: tuple[str, ...]
    part: str = "claimant"


class Word(msgspec.Struct, frozen=True, tag="word"):
    text: str
    size: int = 0
    filling: bytes = b""


CODEC.register("words of tests", Say | Word)


class Talker:
    """Says what it is told to say, keeps what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def start(self) -> Sequence[Effect]:
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        return []

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(_, Say(to, words, part)):
                return [Send(Address(to, part), Word(word)) for word in words]
            case Received(sender, Word("echo")):
                return [Send(sender, Word("echoed"))]
            case Received(_, Word("bad")):
                raise ProtocolViolation("a bad word")
            case Received(sender, Word(text)):
                self.heard.append(f"{sender}: {text}")
                return []
            case _:
                raise ProtocolViolation("not understood")

    def key(self) -> Hashable:
        return tuple(self.heard)

    def copy(self) -> Self:
        twin = type(self)()
        twin.heard = list(self.heard)
        return twin


class Node:
    """A linked host; what it sends lies in `out` until a test delivers it."""

    def __init__(self, name: str, settings: LinkSettings | None = None, instance: int = 0) -> None:
        self.name = name
        self.talker, self.desk = Talker(), Talker()
        self.host = Host(
            name,
            {"claimant": self.talker, "manager": self.desk, "hooks": Talker()},
            Link(name, settings or LinkSettings(), instance=instance),
        )
        self.out: list[tuple[str, LinkMessage]] = []
        """(peer, message), oldest first."""
        self.armed: dict[str, int] = {}
        self.refused: list[str] = []
        self.did(self.host.start())

    def recovered(self, incarnation: int) -> "Node":
        """The same node after a restart."""
        fresh = Node(self.name, self.host.link.settings if self.host.link else None)
        fresh.did(fresh.host.recover({}, Boot("same", 1, incarnation)))
        return fresh

    @property
    def link(self) -> Link:
        assert self.host.link is not None
        return self.host.link

    def did(self, turn: Turn) -> None:
        for sender, to, message in turn.sends:
            assert sender == Address(self.name, LINK)
            assert to.part == LINK
            assert isinstance(message, LinkOpen | LinkFrame)
            self.out.append((to.node, message))
        for name, timer in turn.timers.items():
            part, _, inner = name.partition("!")
            assert part == LINK
            self.armed.pop(inner, None)
            if isinstance(timer, SetTimer):
                self.armed[inner] = timer.after_ms

    def turn(self, *arrivals: Arrival) -> None:
        self.did(self.host.turn(arrivals, lambda _, error: self.refused.append(str(error))))

    def say(self, to: str, *words: str, part: str = "claimant") -> None:
        self.turn(saying(self.name, to, *words, part=part))

    def get(self, sender: str, *messages: msgspec.Struct) -> None:
        """Messages arrive in one turn."""
        self.turn(*(Arrival(LINK, Received(Address(sender, LINK), message)) for message in messages))

    def fire(self, timer: str) -> None:
        del self.armed[timer]
        self.turn(self.host.fire(f"{LINK}!{timer}"))

    def taken(self) -> list[LinkMessage]:
        """What it has sent since it was last asked."""
        sent = [message for _, message in self.out]
        self.out.clear()
        return sent


def saying(name: str, to: str, *words: str, part: str = "claimant") -> Arrival:
    return Arrival("claimant", Received(Address(name, "node"), Say(to, words, part)))


def settle(*nodes: Node) -> None:
    """Deliver everything until nobody sends any more; no timer fires."""
    by_name = {node.name: node for node in nodes}
    while any(node.out for node in nodes):
        for node in nodes:
            for to, message in [*node.out]:
                node.out.pop(0)
                by_name[to].get(node.name, message)


def opened() -> tuple[Node, Node]:
    """Two nodes that know each other; nothing is under way."""
    a, b = Node("a"), Node("b")
    a.say("b", "hello")
    settle(a, b)
    for timer in [*b.armed]:
        b.fire(timer)
    settle(a, b)
    assert not a.armed
    assert not b.armed
    b.talker.heard.clear()
    return a, b
