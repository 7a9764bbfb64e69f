"""What a driver tells its link: who speaks first, when all may, and of whom nothing is heard any more."""

import pytest
from machine.linked import Node, Talker, Word, opened, saying, settle

from holdall.machine.contract import Address, ProtocolViolation, Received
from holdall.machine.host import Arrival, Host
from holdall.machine.link import LINK, Link
from holdall.machine.link_orders import AllParts, Shun


class Starting(Node):
    """A node whose manager alone may speak until the driver says otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.host = Host(
            name,
            {"claimant": self.talker, "manager": self.desk, "hooks": Talker()},
            Link(name, first=frozenset({"manager"})),
        )
        self.did(self.host.start())

    def order(self, *orders: AllParts | Shun) -> None:
        self.turn(*(Arrival(LINK, Received(Address(self.name, "node"), order)) for order in orders))


def from_manager(node: Node, to: str, word: str) -> None:
    node.turn(Arrival("manager", saying(node.name, to, word, part="manager").event))


def test_only_the_first_parts_speak_and_hear_until_all_may_and_then_everything_comes_in_order() -> None:
    a, b = Starting("a"), Node("b")
    a.say("b", "one")
    from_manager(a, "b", "two")
    settle(a, b)
    assert (b.talker.heard, b.desk.heard) == ([], ["a/manager: two"])
    b.say("a", "three")
    b.say("a", "four", part="manager")
    settle(a, b)
    assert (a.talker.heard, a.desk.heard) == ([], ["b/claimant: four"])
    a.order(AllParts())
    assert a.talker.heard == ["b/claimant: three"]
    settle(a, b)
    assert b.talker.heard == ["a/claimant: one"]
    a.say("b", "five")
    b.say("a", "six")
    settle(a, b)
    assert b.talker.heard == ["a/claimant: one", "a/claimant: five"]
    assert a.talker.heard == ["b/claimant: three", "b/claimant: six"]
    assert a.refused == b.refused == []


def test_what_waits_is_part_of_the_state_and_of_a_copy_alone() -> None:
    a = Starting("a")
    before = a.host.key()
    a.say("b", "one")
    assert a.host.key() != before
    twin = a.host.copy()
    a.order(AllParts())
    assert len(a.out) == 1
    assert twin.key() != a.host.key()
    assert twin.turn((Arrival(LINK, Received(Address("a", "node"), AllParts())),)).sends


def test_a_node_that_is_shunned_reaches_the_first_parts_only() -> None:
    a, b = Starting("a"), Node("b")
    a.order(AllParts(), Shun("b"))
    b.say("a", "one")
    b.say("a", "two", part="manager")
    settle(a, b)
    assert (a.talker.heard, a.desk.heard) == ([], ["b/claimant: two"])
    (why,) = a.refused
    assert "'claimant' hears nothing of a node that was forgotten" in why
    c = Node("c")
    c.say("a", "three")
    settle(a, c)
    assert a.talker.heard == ["c/claimant: three"]


def test_a_peer_gives_no_orders() -> None:
    a, b = opened()
    b.get("a", AllParts())
    assert b.refused == ["no message for a link: AllParts"]
    link = Link("b")
    with pytest.raises(ProtocolViolation, match="does not speak to itself"):
        link.arrive(Received(Address("b", "node"), Word("x")))
    del a


def test_a_message_that_no_frame_can_hold_is_refused_and_the_next_one_leaves() -> None:
    a, b = opened()
    assert a.host.link is not None
    with pytest.raises(ProtocolViolation, match="at most"):
        a.host.link.post("claimant", Address("b", "claimant"), Word("x", filling=bytes(1 << 17)))
    a.say("b", "y")
    settle(a, b)
    assert b.talker.heard == ["a/claimant: y"]


def test_what_waits_of_a_peer_is_bounded_and_nothing_of_it_is_lost() -> None:
    a, b = Starting("a"), Node("b")
    b.say("a", "hello", part="manager")
    settle(a, b)
    words = [f"{number}" + "." * 30_000 for number in range(60)]
    for word in words:
        b.say("a", word)
    settle(a, b)
    held = sum(
        len(message.message.text) for _, message in a.link._held_in if isinstance(message.message, Word)
    )
    assert 1024 * 1024 - 40_000 < held < 1024 * 1024 + 40_000
    a.order(AllParts())
    for _ in range(20):
        if "resend/a" in b.armed:
            b.fire("resend/a")
        settle(a, b)
        for timer in [*a.armed]:
            a.fire(timer)
        settle(a, b)
    assert a.talker.heard == [f"b/claimant: {word}" for word in words]
    assert a.refused == b.refused == []
