"""Nodes of one process in a location, and clients that ask them."""

from typing import Self

from node.together import Together
from node.waiting import until

from holdall.client.conversation import Conversation
from holdall.client.location_talk import LocationTalk
from holdall.model import location_frames as f
from holdall.model.terms import LeaseRequest, RequestedTerm
from holdall.node.location.leadership import Leadership, Told
from holdall.node.membership import GivenSeat

NET = """
[[capacity]]
name = "net.tx"
amount = "{amount}"
sharing = "{sharing}"
"""


def net(amount: str, sharing: str = "fair") -> str:
    """The configuration of so much bandwidth."""
    return NET.replace("{amount}", amount).replace("{sharing}", sharing)


class Chosen:
    """A leadership that the test decides: the first of its nodes that has not died leads."""

    def __init__(self) -> None:
        self.candidates: dict[str, Candidacy] = {}
        self.epoch = 1000

    def of(self, node: str) -> "Candidacy":
        return Candidacy(self, node)

    def tell(self) -> None:
        self.epoch += 1
        leader = next(iter(self.candidates), "")
        for node, one in self.candidates.items():
            one.told(leader, self.epoch if node == leader else 0)


class Candidacy:
    """One node's."""

    def __init__(self, chosen: Chosen, node: str) -> None:
        self._chosen, self._node = chosen, node
        self.told: Told = _nobody
        self.seen_epochs: list[int] = []

    async def open(self, told: Told) -> None:
        self.told = told
        self._chosen.candidates[self._node] = self
        self._chosen.tell()

    def seen(self, epoch: int) -> None:
        self.seen_epochs.append(epoch)

    async def close(self) -> None:
        self._chosen.candidates.pop(self._node, None)
        self._chosen.tell()


def _nobody(node: str, epoch: int) -> None:
    del node, epoch


class ChosenSeat(GivenSeat):
    """As another seat, with a leadership of the test's."""

    def __init__(self, seat: GivenSeat, chosen: Chosen, node: str) -> None:
        super().__init__(seat.bus, seat.members)  # type: ignore[arg-type]
        self._chosen, self._node = chosen, node

    def leadership(self, location: str) -> Leadership:  # type: ignore[override]
        del location
        return self._chosen.of(self._node)


def choose(nodes: Together) -> Chosen:
    """From now on nodes that start have leaders by the test's choice: the one that started first."""
    chosen, seat = Chosen(), nodes._seat
    nodes._seat = lambda name, key: ChosenSeat(seat(name, key), chosen, key.id)  # type: ignore[method-assign]
    return chosen


def start(nodes: Together, name: str, config: str, *, location: str = "prague") -> None:
    """A node of a location."""
    nodes.start(name, config, node=f'location = "{location}"')


def die(nodes: Together, name: str) -> None:
    """The node ends without a word to anybody; what its journal has stays."""
    service = nodes.nodes.pop(name)
    nodes.run(service.close())


class Client:
    """One connection."""

    def __init__(self, nodes: Together, name: str) -> None:
        self._conversation = Conversation(str(nodes.nodes[name].settings.socket))
        self.talk = LocationTalk(self._conversation)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._conversation.close()

    def ask(self, question: f.FromClient) -> f.ToClient:
        return self.talk.ask(question)

    def offer(self, request: LeaseRequest, *, take: bool = False, location: str = "prague") -> f.ToClient:
        return self.ask(f.AskOffer(location, request, take))

    def row(self, location: str = "prague") -> f.LocationRow | None:
        rows = self.talk.expect(f.ListLocations(), f.Locations).rows
        return next((one for one in rows if one.location == location), None)


def wants(name: str, amount: int, *, duration: int = 20_000, floor: int | None = None) -> LeaseRequest:
    """So many bytes a second."""
    return LeaseRequest(name, {"net.tx": RequestedTerm(amount, floor)}, duration=duration)


def settled(nodes: Together, *names: str, hosts: int, location: str = "prague") -> str:
    """Wait until each of these nodes sees the same manager of the location, with so many hosts; its name."""
    managers: dict[str, str] = {}

    def agree() -> bool:
        managers.clear()
        for name in names:
            with Client(nodes, name) as client:
                row = client.row(location)
                found = client.ask(f.AskTemplates(location)) if row is not None and row.manager else None
                there = sum(one.hosts for one in found.templates) if isinstance(found, f.TemplatesAre) else 0
                if row is None or not row.manager or there != hosts:
                    return False
                managers[name] = row.manager
        return len(set(managers.values())) == 1

    until(agree, f"{location} has a manager and {hosts} hosts")
    return next(iter(managers.values()))
