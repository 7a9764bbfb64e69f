"""Every order of events of small worlds with two managers of one location, of which each is told that it leads."""

from collections.abc import Callable
from functools import partial

import pytest
from leases.negotiation.every_order import Budget, World, begun, search
from leases.negotiation.town import DURATION, LM, NET, at

from holdall.leases.negotiation import agent_messages as a
from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.agent import Agent, AgentSettings
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import AllowAll
from holdall.leases.negotiation.location import LocationManager, LocationSettings
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.shares import Shares
from holdall.leases.templates import template_of
from holdall.machine.contract import Address, Machine
from holdall.model.terms import LeaseRequest, RequestedTerm

OTHER = Address("lm2", "location")
ELECTION = Address("lm", "election")
H1, X, Y = at("h1"), Address("x", "agent"), Address("y", "agent")
STATES_MOST = 20_000
OF_Y = {"Offer", "Declined"}
"""What y hears, where nobody acts for it."""


def host() -> HostManager:
    template = template_of({"net.tx": NET}, DURATION)
    settings = HostSettings("h1", "loc1", (LM, OTHER), template, fence_block=1)
    return HostManager(settings, sharings=lambda: {"net.tx": Shares(100)}, policy=AllowAll())


def manager(address: Address) -> Machine:
    return LocationManager(LocationSettings("loc1", address), policy=AllowAll())


def world(budget: Budget, epoch: int, crashing: tuple[Address, ...] = (), *, takes: bool = False) -> World:
    """The first manager leads with epoch 2; then the other one is told that it does, with `epoch`, at any moment.

    Agent x asks the first one for 60 of 100 and takes what it is offered. Agent y asks the other one for as much; with
    `takes` it takes it, too.
    """
    make: dict[Address, Callable[[], Machine]] = {LM: partial(manager, LM), OTHER: partial(manager, OTHER)}
    make[H1] = host
    make[X] = partial(Agent, AgentSettings(Address("x", "owner"), (LM, OTHER)))
    if takes:
        make[Y] = partial(Agent, AgentSettings(Address("y", "owner"), (OTHER, LM)))
    start = begun(World(make, {"net.tx": 100}, crashing, budget))
    start = start.delivered((ELECTION, LM, m.Lead(2)), ())
    while start.mail:
        start = start.delivered(start.mail[0], start.mail[1:])
    request = LeaseRequest("r1", {"net.tx": RequestedTerm(60)}, duration=2000)
    start.mail = (
        (Address("x", "owner"), X, a.Want(request, take=True)),
        (Address("y", "owner"), Y, a.Want(request, take=True))
        if takes
        else (Y, OTHER, m.RequestLease(request)),
        (ELECTION, OTHER, m.Lead(epoch)),
    )
    start.in_order = True
    return start


@pytest.mark.parametrize(
    ("first", "states", "outcomes"),
    [
        pytest.param(world(Budget(0, 0, 0), 2), 1476, {"Got"} | OF_Y, id="one-epoch"),
        pytest.param(world(Budget(0, 0, 0), 3), 1891, {"Got", "NotOffered"} | OF_Y, id="two-epochs"),
        pytest.param(world(Budget(0, 0, 0), 3, takes=True), 4468, {"Got", "NotOffered"}, id="both-take"),
        pytest.param(world(Budget(0, 0, 1), 3, (LM,)), 5009, {"Got", "NotOffered"} | OF_Y, id="a-crash"),
    ],
)
def test_in_no_order_do_two_leaders_give_too_much(first: World, states: int, outcomes: set[str]) -> None:
    found, seen, ends = search(first, STATES_MOST)
    assert (found, seen) == (states, frozenset(outcomes))
    assert ends
