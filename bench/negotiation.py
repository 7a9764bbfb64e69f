"""How long a negotiation over many hosts computes: `python bench/negotiation.py [HOSTS …]`, 10, 50 and 200 by default.

All machines in one process, each message encoded and decoded as between nodes; no network and no disk. To the time that
is printed, two flights of a message and one journal write of a host come in a real system, as hosts work side by side.
"""

import sys
import time
from collections import deque
from collections.abc import Sequence
from statistics import median

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.host import HostManager
from holdall.leases.negotiation.interfaces import AllowAll
from holdall.leases.negotiation.location import LocationManager, LocationSettings
from holdall.leases.negotiation.settings import HostSettings
from holdall.leases.shares import Shares
from holdall.leases.templates import template_of
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Effect, Machine, Message, Received, Send
from holdall.model.terms import Durations, LeaseRequest, RequestedTerm, TemplateTerm

MANAGER, AGENT = Address("lm", "location"), Address("x", "agent")
NET = TemplateTerm("capacity", "B/s", min=1, max=1_000_000, sharing="fair")
TRIES = 20


class Hall:
    """The machines, and the messages between them."""

    def __init__(self, hosts: int) -> None:
        self.messages = 0
        self.heard: list[Message] = []
        self.machines: dict[Address, Machine] = {
            MANAGER: LocationManager(LocationSettings("here", MANAGER), policy=AllowAll())
        }
        for number in range(hosts):
            settings = HostSettings(
                f"h{number}", "here", (MANAGER,), template_of({"net.tx": NET}, Durations(500, 60_000, 2_000))
            )
            host = HostManager(
                settings,
                sharings=lambda amount=1_000 * (number + 1): {"net.tx": Shares(amount)},  # type: ignore[misc]
                policy=AllowAll(),
            )
            self.machines[Address(f"h{number}", "host")] = host
            self.carry(Address(f"h{number}", "host"), host.start())

    def carry(self, sender: Address, effects: Sequence[Effect]) -> None:
        """Deliver what is sent, and all that follows."""
        mail = deque((sender, one) for one in effects if isinstance(one, Send))
        while mail:
            sender, sent = mail.popleft()
            self.messages += 1
            message = CODEC.decode(CODEC.encode(sent.message))
            machine = self.machines.get(sent.to)
            if machine is None:
                self.heard.append(message)
            else:
                out = machine.handle(Received(sender, message))
                mail.extend((sent.to, one) for one in out if isinstance(one, Send))


def measure(hosts: int) -> str:
    """One line of the table."""
    hall = Hall(hosts)
    took: list[float] = []
    for number in range(TRIES):
        hall.messages = 0
        request = LeaseRequest(f"r{number}", {"net.tx": RequestedTerm(900_000)}, duration=2_000)
        began = time.perf_counter()
        hall.carry(AGENT, [Send(MANAGER, m.RequestLease(request))])
        took.append(time.perf_counter() - began)
        offer = hall.heard.pop()
        assert isinstance(offer, m.Offer)
        hall.carry(AGENT, [Send(MANAGER, m.DeclineLease(offer.document.lease, 1))])
    asked = min(hosts, 50)
    assert hall.messages == 3 * asked + 2 + 3  # with the decline, its cancel and its answer
    return f"{hosts:6} {asked:6} {3 * asked + 2:9} {1000 * median(took):10.2f} {1000 * max(took):10.2f}"


def main() -> None:
    """The table."""
    counts = [int(one) for one in sys.argv[1:]] or [10, 50, 200]
    print(" hosts  asked  messages  median ms     max ms")
    for hosts in counts:
        print(measure(hosts))


if __name__ == "__main__":
    main()
