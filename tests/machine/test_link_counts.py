"""How many frames leave: one a peer and turn, acknowledgements apart, and none when nothing is to be said."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.linked import Node, opened, saying, settle

from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Received, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link import LINK, Link
from holdall.machine.link_frames import LinkFrame, LinkMessage, LinkOpen
from holdall.parties.pool_side import PoolSide
from holdall.protocols.chain.claimant import Claimant
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, Release, Visit
from holdall.simulator.sides import specs_of


@given(says=st.lists(st.tuples(st.sampled_from("bcd"), st.integers(1, 20)), min_size=1, max_size=30))
def test_a_turn_is_at_most_one_frame_for_each_peer(says: list[tuple[str, int]]) -> None:
    a = Node("a")
    others = [Node(name) for name in "bcd"]
    for other in others:
        a.say(other.name, "hello")
    settle(a, *others)
    a.turn(*(saying("a", to, *("x" * count)) for to, count in says))
    assert all(isinstance(message, LinkFrame) for _, message in a.out)
    assert Counter(to for to, _ in a.out) == Counter({to for to, _ in says})
    words = Counter[str]()
    for to, count in says:
        words[to] += count
    assert {to: len(frame.parcels) for to, frame in a.out if isinstance(frame, LinkFrame)} == words


def test_a_conversation_acknowledges_itself() -> None:
    a, b = opened()
    for _ in range(50):
        a.say("b", "echo")
        settle(a, b)
    assert (a.link.counts.acks, b.link.counts.acks) == (0, 1)  # one from getting to know each other
    assert (a.link.counts.frames, b.link.counts.frames) == (51, 50)


def test_many_frames_of_one_side_are_acknowledged_together() -> None:
    a, b = opened()
    before = b.link.counts.acks
    for _ in range(50):
        a.say("b", "x")
    settle(a, b)
    b.fire("ack/a")
    settle(a, b)
    assert b.link.counts.acks - before == 1
    assert not a.armed
    assert not b.armed


def test_a_link_at_rest_has_no_timer_and_says_nothing() -> None:
    a, b = opened()
    assert not a.armed
    assert not b.armed
    assert a.host.turn([]) == Turn({}, {}, [])
    assert a.host.turn([a.host.fire(f"{LINK}!resend/b"), a.host.fire(f"{LINK}!ack/b")]).sends == []


def test_a_peer_that_was_given_up_costs_nothing_until_somebody_speaks_to_it() -> None:
    a = Node("a")
    a.say("b", "x")
    while a.armed:
        a.fire("resend/b")
    opens = a.link.counts.opens
    assert opens == 11
    assert a.host.turn([]) == Turn({}, {}, [])


class Net:
    """Linked hosts whose frames arrive in the order in which they leave."""

    def __init__(self, hosts: list[Host]) -> None:
        self.hosts = {host.node: host for host in hosts}
        self.flying: list[tuple[str, str, LinkMessage]] = []
        self.told: list[object] = []
        self.acks: set[tuple[str, str]] = set()
        for host in hosts:
            self.did(host, host.start())

    def did(self, host: Host, turn: Turn) -> None:
        for name, timer in turn.timers.items():
            if name.startswith(f"{LINK}!ack/"):
                (self.acks.add if isinstance(timer, SetTimer) else self.acks.discard)((host.node, name))
        for _, to, message in turn.sends:
            if isinstance(message, LinkOpen | LinkFrame):
                self.flying.append((host.node, to.node, message))
            else:
                self.told.append(message)

    def turn(self, node: str, *arrivals: Arrival) -> None:
        host = self.hosts[node]
        self.did(host, host.turn(arrivals))

    def settle(self) -> list[str]:
        """Deliver all, then let the acknowledgements go; the kinds of messages in frames, in order."""
        kinds: list[str] = []
        while self.flying or self.acks:
            if not self.flying:
                node, name = min(self.acks)
                self.acks.discard((node, name))
                self.turn(node, self.hosts[node].fire(name))
                continue
            sender, to, message = self.flying.pop(0)
            if isinstance(message, LinkFrame):
                kinds += [type(CODEC.decode(parcel.body)).__name__ for parcel in message.parcels]
            self.turn(to, Arrival(LINK, Received(Address(sender, LINK), message)))
        return kinds

    def counted(self) -> tuple[int, int, int]:
        """Frames with messages, acknowledgements alone, frames sent again, of all hosts."""
        counts = [host.link.counts for host in self.hosts.values() if host.link is not None]
        return (
            sum(count.frames for count in counts),
            sum(count.acks for count in counts),
            sum(count.resent for count in counts),
        )


@pytest.mark.parametrize("nodes", [1, 3, 10])
def test_ch1_an_uncontended_claim_is_2n_plus_1_frames_each_with_one_message_and_n_for_its_end(
    nodes: int,
) -> None:
    names = [f"n{number:02}" for number in range(nodes)]
    client, agent = "c", Address("c", "agent")
    net = Net(
        [
            Host(client, {"claimant": Claimant(client, agent, try_from=1000)}, Link(client)),
            *(Host(name, {"manager": PoolSide(name, specs_of({"gpu": 1}))}, Link(name)) for name in names),
        ]
    )
    need = tuple(Visit(name, ((("gpu", 1),),), 1) for name in names)
    before, alone = (0, 0), 0
    for count in (1, 2):  # the first one also opens the links
        claim = ClaimId(client, 1, count)
        frames_before, acks_before, _ = net.counted()
        net.turn(client, Arrival("claimant", Received(agent, Acquire(claim, need))))
        asked = net.settle()
        assert asked == ["Request", *["Promote"] * (nodes - 1), "Allowed"]
        assert isinstance(net.told[-1], Granted)
        net.turn(client, Arrival("claimant", Received(agent, Release(claim))))
        assert sorted(net.settle()) == sorted([*["Done"] * nodes, *["EndAck"] * nodes])
        frames, acks, resent = net.counted()
        before, alone = (frames - frames_before, resent), acks - acks_before
    assert before == ((2 * nodes + 1) + nodes, 0)
    # A lease that lasts longer than an acknowledgement waits: n + 1 for its grant, where the node that answers the
    # claimant is the one that it asked, one of them rides along; n for the answers to its end.
    assert alone == (nodes + 1 - (nodes == 1)) + nodes
