"""Every order of events of small worlds of negotiation, with losses and crashes."""

from collections.abc import Callable
from functools import partial

import pytest
from leases.negotiation.every_order import Budget, World, begun, search
from leases.negotiation.town import DURATION, LM, NET, at

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import AllowAll
from holdall.leases.negotiation.location import LocationManager, LocationSettings
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.shares import Shares
from holdall.leases.templates import template_of
from holdall.machine.contract import Address, Machine
from holdall.model.terms import LeaseRequest, RequestedTerm

H1 = at("h1")


def host(name: str) -> HostManager:
    settings = HostSettings(name, "loc1", (LM,), template_of({"net.tx": NET}, DURATION), fence_block=1)
    return HostManager(settings, sharings=lambda: {"net.tx": Shares(100)}, policy=AllowAll())


def location() -> Machine:
    return LocationManager(LocationSettings("loc1", LM), policy=AllowAll())


def world(
    budget: Budget,
    crashing: tuple[Address, ...] = (),
    hosts: tuple[str, ...] = ("h1", "h2"),
    agents: tuple[str, ...] = ("x",),
    judged_by: int = 100,
) -> World:
    make: dict[Address, Callable[[], Machine]] = {LM: location}
    for name in hosts:
        make[at(name)] = partial(host, name)
    for name in agents:
        make[Address(name, "agent")] = partial(Agent, AgentSettings(Address(name, "owner"), (LM,)))
    first = begun(World(make, {"net.tx": judged_by}, crashing, budget))
    want = a.Want(LeaseRequest("r1", {"net.tx": RequestedTerm(60)}, duration=2000), take=True)
    first.mail = tuple((Address(name, "owner"), Address(name, "agent"), want) for name in agents)
    return first


def in_order(first: World) -> World:
    first.in_order = True
    return first


ALL = frozenset({"Got", "NotOffered", "Lost"})
WITHOUT_TIME = frozenset({"Got", "NotOffered"})


@pytest.mark.parametrize(
    ("first", "states", "outcomes"),
    [
        pytest.param(world(Budget(0, 0, 0)), 38, {"Got"}, id="no-fault"),
        pytest.param(world(Budget(1, 0, 0)), 793, ALL, id="a-timer"),
        pytest.param(world(Budget(0, 1, 0)), 104, {"Got"}, id="a-loss"),
        pytest.param(world(Budget(1, 1, 0), (), ("h1",)), 867, ALL, id="a-timer-and-a-loss"),
        pytest.param(world(Budget(0, 0, 1), (LM, H1)), 734, WITHOUT_TIME, id="a-crash"),
        pytest.param(world(Budget(1, 0, 1), (LM, H1), ("h1",)), 5828, ALL, id="a-timer-and-a-crash"),
        pytest.param(world(Budget(0, 1, 1), (LM, H1), ("h1",)), 729, WITHOUT_TIME, id="a-loss-and-a-crash"),
        pytest.param(
            in_order(world(Budget(0, 0, 0), (), ("h1",), ("x", "y"))), 306, {"Got"}, id="two-agents"
        ),
        pytest.param(
            in_order(world(Budget(0, 0, 1), (H1,), ("h1",), ("x", "y"))),
            5550,
            WITHOUT_TIME,
            id="two-agents-and-a-crash",
        ),
    ],
)
def test_no_order_of_events_gives_too_much(first: World, states: int, outcomes: frozenset[str]) -> None:
    found, seen, ends = search(first, 20_000)
    assert (found, seen) == (states, outcomes)
    assert ends


def test_what_is_wrong_is_found() -> None:
    with pytest.raises(AssertionError, match="h1: the books of net"):
        search(world(Budget(0, 0, 0), (), ("h1",), judged_by=101), 20_000)
    later = world(Budget(0, 0, 0), (), ("h1",))
    while later.mail:
        later = next(later.moves())
    assert later.wrong() == ""
    later.capacity = {"net.tx": 59}
    assert later.wrong() == "h1: 60 of 59 of net.tx are given"
    later.capacity = {"net.tx": 100}
    later.lapsed = frozenset({("L-loc1-lm-1.1", 1)})
    assert "is active, and its agent was told" in later.wrong()
