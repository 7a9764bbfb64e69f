import re

import msgspec
import pytest
from parties.directory_net import Net, Pools, Site, agree, system

from holdall.machine.contract import (
    Address,
    Boot,
    ProtocolViolation,
    Received,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    BUS,
    DIRECTORY,
    Cloned,
    DirectorySettings,
    Hello,
    Leaving,
    MayServe,
    Member,
    MustStop,
    NameTaken,
    OwnName,
    Presence,
    Row,
    StartRefused,
    Summary,
    Tombstone,
    Tombstones,
    Warned,
    Welcome,
)
from holdall.parties.directory.view import DirectoryView
from holdall.parties.messages import NODE

PEER = Address("lab-2", DIRECTORY)
SETTINGS = DirectorySettings(
    node="id1", name="lab-1", instance="i1", address="10.0.0.7:7420", started_wall_ms=1_700_000_000_000
)


def directory(**fields: object) -> Directory:
    return Directory(msgspec.structs.replace(SETTINGS, **fields), Pools(), incarnation=5)


def to_node(message: msgspec.Struct) -> Send:
    return Send(Address("id1", NODE), message)


def texts(site: Site, kind: type[StartRefused | Warned | MustStop]) -> list[str]:
    return [message.text for message in site.to_node if isinstance(message, kind)]


# One event and its effects


def test_a_node_that_knows_nobody_serves_at_once_and_keeps_no_rounds() -> None:
    effects = directory().start()
    assert effects == [Save("own", OwnName("lab-1", 1_700_000_000_000)), to_node(MayServe())]


def test_a_node_that_knows_others_says_hello_first_and_listens_for_its_own_identity() -> None:
    start = directory(members=(Member("lab-2", "b"), Member("lab-3", "c"))).start()
    hello = Hello("lab-1", "i1", 5, 0, "10.0.0.7:7420")
    assert start == [
        Save("member/lab-2", Member("lab-2", "b")),
        Save("member/lab-3", Member("lab-3", "c")),
        Send(Address("id1", BUS), Presence("i1", 5, serving=False)),
        Send(PEER, hello),
        Send(Address("lab-3", DIRECTORY), hello),
        SetTimer("hello", 500),
        SetTimer("round", 1000, 200),
        Send(Address("id1", "agent"), start[-1].message),  # type: ignore[union-attr]
    ]


def test_nobody_answers_so_the_node_serves_after_the_last_pause() -> None:
    made = directory(members=(Member("lab-2", "b"),))
    made.start()
    for _ in range(3):
        effects = made.handle(TimerFired("hello"))
        assert Send(PEER, Hello("lab-1", "i1", 5, 0, "10.0.0.7:7420")) in effects
        assert to_node(MayServe()) not in effects
    assert to_node(MayServe()) in made.handle(TimerFired("hello"))
    assert made.handle(TimerFired("hello")) == []


def test_a_start_goes_on_when_the_node_that_it_reads_from_is_forgotten() -> None:
    made = directory(members=(Member("lab-2", "b"), Member("lab-3", "c")))
    made.start()
    made.handle(Received(PEER, Welcome("i1", Row("id1"))))
    made.handle(Received(Address("lab-3", DIRECTORY), Tombstones((Tombstone("lab-2", "b", "c"),))))
    effects = made.handle(TimerFired("hello"))
    assert [effect.to.node for effect in effects if isinstance(effect, Send)] == ["id1", "lab-3"]
    made.handle(Received(Address("lab-3", DIRECTORY), Welcome("i1", Row("id1"))))
    assert Send(Address("lab-3", DIRECTORY), Summary((), made.state.forgotten_digest)) in made.handle(
        TimerFired("hello")
    )


def test_an_answer_to_an_earlier_process_counts_for_nothing() -> None:
    made = directory(members=(Member("lab-2", "b"),))
    made.start()
    before = made.key()
    assert made.handle(Received(PEER, NameTaken("i0", "id9", "10.0.0.9:1"))) == []
    assert made.handle(Received(PEER, Welcome("i0", Row("id1")))) == []
    assert made.handle(Received(PEER, Cloned("i0", 9))) == []
    assert made.key() == before


def test_a_hello_is_welcomed_and_the_name_kept_for_a_while() -> None:
    made = directory()
    made.start()
    effects = made.handle(Received(PEER, Hello("b", "x", 1)))
    assert effects == [Send(PEER, Welcome("x", Row("lab-2"))), SetTimer("round", 1000, 200)]
    rival = Address("lab-3", DIRECTORY)
    assert made.handle(Received(rival, Hello("b", "y", 1))) == [Send(rival, NameTaken("y", "lab-2", ""))]
    for _ in range(5):
        made.handle(TimerFired("round"))
    assert made.handle(Received(rival, Hello("b", "y", 1)))[0] == Send(rival, Welcome("y", Row("lab-3")))


def test_the_own_name_is_refused_to_others_with_the_own_address() -> None:
    made = directory()
    made.start()
    effects = made.handle(Received(PEER, Hello("lab-1", "x", 1)))
    assert effects == [Send(PEER, NameTaken("x", "id1", "10.0.0.7:7420"))]


def test_of_two_that_start_with_one_name_exactly_one_is_refused_by_the_other() -> None:
    low = directory(members=(Member("id2", "lab-1"),))
    high = directory(node="id2", instance="i2", address="", members=(Member("id1", "lab-1"),))
    low.start()
    high.start()
    to_low = low.handle(Received(Address("id2", DIRECTORY), Hello("lab-1", "i2", 5)))
    to_high = high.handle(Received(Address("id1", DIRECTORY), Hello("lab-1", "i1", 5)))
    assert to_low[0] == Send(Address("id2", DIRECTORY), NameTaken("i2", "id1", "10.0.0.7:7420"))
    assert to_high[0] == Send(Address("id1", DIRECTORY), Welcome("i1", Row("id1")))


def test_a_presence_of_a_later_start_is_answered_and_that_of_this_process_is_not() -> None:
    made = directory()
    made.start()
    bus = Address("id1", BUS)
    assert made.handle(Received(bus, Presence("i1", 5, serving=True))) == []
    effects = made.handle(Received(bus, Presence("other", 6, serving=False)))
    assert effects[0] == Send(bus, Presence("i1", 5, serving=True, to="other"))
    assert len(effects) == 2  # and a warning


def test_a_presence_that_was_late_on_the_bus_ends_nobody() -> None:
    """The process before this one said it, and has ended since: it can't answer this one."""
    bus = Address("id1", BUS)
    late = Presence("before", 4, serving=True)
    for made in (directory(), directory(members=(Member("lab-2", "b"),))):
        made.start()
        (effect,) = made.handle(Received(bus, late))
        assert isinstance(effect, Send)
        assert isinstance(effect.message, Presence)
        assert effect.message.to == "before"


def test_a_serving_process_that_started_later_ends_when_the_earlier_one_answers_it() -> None:
    made = directory()
    made.start()
    bus = Address("id1", BUS)
    (effect,) = made.handle(Received(bus, Presence("other", 4, serving=True, to="i1")))
    assert isinstance(effect, Send)
    assert isinstance(effect.message, MustStop)


def test_a_start_that_finds_its_identity_serving_is_refused_whatever_its_number() -> None:
    for incarnation in (4, 5, 6):
        made = directory(members=(Member("lab-2", "b"),))
        made.start()
        answer = Presence("other", incarnation, serving=True, to="i1")
        effects = made.handle(Received(Address("id1", BUS), answer))
        assert [type(effect.message) for effect in effects if isinstance(effect, Send)] == [StartRefused]
        assert made.handle(TimerFired("hello")) == []
        assert made.handle(Received(PEER, Summary(()))) == []


def test_only_the_bus_tells_of_presences_and_only_the_own_node_gives_orders() -> None:
    made = directory()
    made.start()
    for sender, message in (
        (PEER, Presence("x", 9, serving=True)),
        (PEER, Leaving()),
        (PEER, MayServe()),
        (Address("lab-2", "agent"), Summary(())),
        (Address("id1", "agent"), Presence("x", 9, serving=True)),
        (Address("id1", DIRECTORY), Summary(())),
    ):
        before = made.key()
        with pytest.raises(ProtocolViolation):
            made.handle(Received(sender, message))
        assert made.key() == before


# Conversations


def test_c14_a_second_node_of_one_name_is_refused_with_the_address_of_the_first() -> None:
    net = Net()
    first, *_ = system(net, 3)
    second = net.add("n00", node="zz-other", members=(net.member(net.sites[2]),))
    second.start()
    net.run(5000)
    assert second.told(MayServe) == []
    assert texts(second, StartRefused) == [
        (
            f'node name "n00" is in use by {first.settings.address} (key n00…). '
            "Choose [node].name, or run: holdall forget n00"
        )
    ]
    assert all(site.view.node("zz-other") is None for site in net.sites[:3])
    assert agree(net.sites[:3])


def test_c14_the_same_node_with_another_address_takes_over() -> None:
    net = Net()
    sites = system(net, 3)
    net.kill(sites[0])
    sites[0] = net.again(sites[0], address="10.9.9.9:4222")
    net.run(1000)
    assert sites[0].told(MayServe) == [MayServe()]
    net.rounds_until(lambda: agree(sites), 8)
    for other in sites[1:]:
        neighbour = other.view.node("n00")
        assert neighbour is not None
        assert (neighbour.address, neighbour.incarnation, neighbour.state) == ("10.9.9.9:4222", 2, "serving")


def test_a_restart_among_living_nodes_takes_a_listening_pause_not_the_whole_wait() -> None:
    net = Net()
    sites = system(net, 3)
    net.kill(sites[1])
    sites[1] = net.again(sites[1])
    began = net.now_ms
    while not sites[1].told(MayServe):
        net.run(10)
    assert net.now_ms - began < 400
    # The exchange with one of them has told it of both.
    assert [one.state for one in sites[1].view.nodes()] == ["serving", "serving"]


def test_a_restart_does_not_wait_for_those_that_are_known_to_be_off() -> None:
    net = Net()
    sites = system(net, 4)
    sites[3].own(Leaving())
    net.kill(sites[3])
    net.kill(sites[2])
    net.run(15_000)
    net.kill(sites[1])
    again = net.again(sites[1])
    began = net.now_ms
    while not again.told(MayServe):
        net.run(10)
    assert net.now_ms - began < 400


def test_a_name_is_free_when_its_node_has_been_silent_for_longer_than_any_lease_lives() -> None:
    net = Net()
    sites = [
        net.add("lab-1", ttl_max_ms=30_000),
        net.add("lab-2", ttl_max_ms=30_000),
    ]
    sites[0].start()
    sites[1].settings = msgspec.structs.replace(sites[1].settings, members=(net.member(sites[0]),))
    sites[1].directory = Directory(sites[1].settings, sites[1].pools)
    sites[1].start()
    net.rounds_until(lambda: agree(sites), 5)
    net.kill(sites[0])
    net.run(20_000)
    early = net.add("lab-1", node="new-1", members=(net.member(sites[1]),))
    early.start()
    net.run(3000)
    (text,) = texts(early, StartRefused)
    assert re.search(r"silent for (19|20) s\)", text)
    net.run(20_000)
    late = net.add("lab-1", node="new-2", members=(net.member(sites[1]),))
    late.start()
    net.run(3000)
    assert late.told(MayServe) == [MayServe()]


def test_a_copied_state_folder_does_not_start_while_its_node_serves() -> None:
    net = Net()
    sites = system(net, 3)
    copy = net.again(sites[1])
    net.run(5000)
    assert copy.told(MayServe) == []
    assert "another process with the identity of this node" in texts(copy, StartRefused)[0]
    assert texts(sites[1], MustStop) == []
    assert agree(sites)


def test_a_copy_of_an_older_state_is_refused_by_others_where_the_bus_does_not_tell() -> None:
    net = Net()
    sites = system(net, 3)
    net.kill(sites[1])
    later = net.again(sites[1])
    net.rounds_until(lambda: agree([sites[0], later, sites[2]]), 8)
    net.run(60_000)
    net.kill(later)
    old = net.again(sites[1])
    old.directory = Directory(old.settings, old.pools)
    old.incarnation, old.to_node = 1, []
    old.start(sites[1].records)
    net.run(3000)
    assert old.told(MayServe) == []
    assert len(texts(old, StartRefused)) == 1


def test_after_a_partition_the_later_of_two_nodes_of_one_name_leaves_planning() -> None:
    net = Net()
    sites = system(net, 4)
    net.cut(sites[:2], sites[2:])
    net.run(30_000)
    third = net.add("same", node="id-b", members=(net.member(sites[0]),))
    net.cut([*sites[:2], third], sites[2:])
    third.start()
    net.run(10_000)
    fourth = net.add("same", node="id-a", members=(net.member(sites[2]),))
    net.cut([*sites[:2], third], [*sites[2:], fourth])
    fourth.start()
    net.run(10_000)
    assert third.told(MayServe)
    assert fourth.told(MayServe)
    net.cut()
    everybody = [*sites, third, fourth]
    net.rounds_until(lambda: agree(everybody) and bool(texts(fourth, Warned)), 20)
    assert len(texts(fourth, Warned)) == 1
    assert len(texts(third, Warned)) == 1
    assert "was in use by" in texts(fourth, Warned)[0]
    assert "a second node named" in texts(third, Warned)[0]
    for site in sites:
        states = {one.node: one.state for one in site.view.nodes() if one.name == "same"}
        assert states == {"id-a": "draining", "id-b": "serving"}
        assert site.view.node_named("same") == "id-b"
    third.own(Leaving())
    net.kill(third)
    net.rounds_until(lambda: all(_state(site, "id-a") == "serving" for site in sites), 12)


def test_after_a_partition_the_later_of_two_processes_of_one_identity_ends() -> None:
    net = Net()
    sites = system(net, 4)
    one = sites[1]
    # A copy that came up where its own original was out of reach.
    copy = net.again(one)
    one.up, copy.up = True, False
    copy.directory.state.phase = "serving"
    copy.directory.state.own.since_ms = 1
    copy.timers["round"] = net.now_ms + 10
    copy.up = True
    net.rounds_until(lambda: bool(texts(copy, MustStop)), 12)
    assert texts(one, MustStop) == []
    net.kill(copy)
    net.rounds_until(lambda: agree(sites), 20)


def test_a_node_that_leaves_is_known_as_stopped_and_comes_back() -> None:
    net = Net()
    sites = system(net, 8)
    sites[3].own(Leaving())
    net.kill(sites[3])
    net.rounds_until(lambda: all(_state(site, "n03") == "stopped" for site in sites if site.up), 8)
    sites[3] = net.again(sites[3])
    net.rounds_until(lambda: agree(sites), 8)


def test_a_restarted_directory_knows_its_members_and_since_when_it_has_its_name() -> None:
    net = Net()
    sites = system(net, 3)
    later = net.again(sites[2])
    kept = {one.node: (one.state, one.name, one.address) for one in later.view.nodes()}
    assert kept == {
        "n00": ("silent", "n00", sites[0].settings.address),
        "n01": ("silent", "n01", sites[1].settings.address),
    }
    assert later.directory.state.own.since_ms == sites[2].directory.state.own.since_ms


def test_the_quarantine_is_announced_with_what_is_left_of_it() -> None:
    net = Net()
    sites = system(net, 3)
    net.kill(sites[2])
    later = net.again(sites[2])
    later.pools.state = "quarantine"
    later.directory = Directory(later.settings, later.pools)
    later.carry_out(later.directory.recover({**sites[2].records, "boot": Boot("lost", 9, 9, 60_000)}))
    net.run(6000)
    neighbour = sites[0].view.node("n02")
    assert neighbour is not None
    assert (neighbour.state, neighbour.incarnation) == ("quarantine", 9)
    assert 50_000 < neighbour.quarantine_ms <= 60_000
    later.pools.state = "serving"
    net.rounds_until(lambda: _state(sites[0], "n02") == "serving", 5)


def _state(site: Site, node: str) -> str:
    neighbour = DirectoryView(site.directory).node(node)
    return "" if neighbour is None else neighbour.state
