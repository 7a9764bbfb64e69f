"""One host's parts in one turn: a timer that another part's event makes void in time is not delivered."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Self

import msgspec

from holdall.machine.contract import (
    Address,
    CancelTimer,
    Effect,
    Event,
    Received,
    Record,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import Arrival, Host


class Poke(msgspec.Struct, frozen=True, tag="poke"):
    """Says what to do about the receiver's timer."""

    what: str


class Part:
    """Notes what it hears; its timer `poke/WHAT` pokes the other part."""

    def __init__(self, other: str) -> None:
        self.other = other
        self.heard: list[str] = []

    def start(self) -> Sequence[Effect]:
        return ()

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        del records
        return ()

    def handle(self, event: Event) -> Sequence[Effect]:
        if isinstance(event, TimerFired):
            self.heard.append(event.timer)
            kind, _, what = event.timer.partition("/")
            return (Send(Address("n", self.other), Poke(what)),) if kind == "poke" else ()
        assert isinstance(event.message, Poke)
        self.heard.append(event.message.what)
        match event.message.what:
            case "set":
                return (SetTimer("end", 500),)
            case "cancel":
                return (CancelTimer("end"),)
            case _:
                return ()

    def key(self) -> Hashable:
        return tuple(self.heard)

    def copy(self) -> Self:
        raise NotImplementedError


def heard_by_b(*timers: str) -> tuple[list[str], Host]:
    b = Part("a")
    host = Host("n", {"a": Part("b"), "b": b})
    host.turn([host.fire(timer) for timer in timers])
    return b.heard, host


def test_a_timer_that_is_set_anew_before_its_part_hears_of_it_is_not_delivered() -> None:
    assert heard_by_b("a!poke/set", "b!end")[0] == ["set"]


def test_a_timer_that_is_cancelled_before_its_part_hears_of_it_is_not_delivered() -> None:
    assert heard_by_b("a!poke/cancel", "b!end")[0] == ["cancel"]


def test_a_timer_that_came_first_is_delivered_and_so_are_others() -> None:
    assert heard_by_b("b!end", "a!poke/set")[0] == ["end", "set"]
    assert heard_by_b("a!poke/set", "b!other")[0] == ["set", "other"]
    assert heard_by_b("a!poke/nothing", "b!end")[0] == ["nothing", "end"]


def test_the_next_turn_delivers_it() -> None:
    heard, host = heard_by_b("a!poke/set", "b!end")
    host.turn([host.fire("b!end"), Arrival("b", Received(Address("n", "a"), Poke("x")))])
    assert heard == ["set", "end", "x"]
