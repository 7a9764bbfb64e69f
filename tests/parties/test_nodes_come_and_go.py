"""Seeded runs: claims of all shapes while nodes stop and come back; at the end all are served and nothing is left over."""

from random import Random

import pytest
from parties.many_nodes import System, granted
from parties.party_node import Client, pool

from holdall.model import frames

LABS = ("lab-1", "lab-2", "lab-3", "lab-4")
DESKS = ("desk-1", "desk-2")
SPECS = (
    ("gpu",),
    ("gpu:2",),
    ("gpu:5",),
    ("gpu", "psu"),
    ("gpu,model=a or gpu:2",),
    ("gpu+psu:3",),
    ("psu:all",),
    ("gpu,@lab-2", "psu,@lab-4"),
)


def laboratory(seed: int) -> System:
    system = System(seed=seed, delay=lambda random: random.randint(1, 60))
    for number, name in enumerate(LABS):
        labels = {"model": "a" if number % 2 else "b"}
        system.add(name, pool("gpu", "0", "1", labels=labels), pool("psu", "0"))
    for name in DESKS:
        system.add(name)
    system.run(100)
    return system


class Crowd:
    """Clients that claim, hold for a while and release; they come back to a node that was away."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.random: Random = system.random
        self.waiting: list[tuple[Client, frames.Claim]] = []
        self.held: list[tuple[int, Client, frames.Granted]] = []
        self.granted = 0
        self.refused: list[frames.Denied] = []
        self._number = 0

    def come(self) -> None:
        """One more client, if a desk is there."""
        there = [name for name in DESKS if not self._is_down(name)]
        if not there:
            return
        self._number += 1
        client = self.system.client(f"c{self._number}", self.random.choice(there))
        now = self.random.random() < 0.2
        frame = client.claim(*self.random.choice(SPECS), now=now)
        client.say(frame)
        client.node.inboxes.setdefault(client.name, [])
        self.waiting.append((client, frame))

    def come_back(self, name: str) -> None:
        """Its clients are there again, with their sessions, and repeat what was not answered."""
        for place, (client, frame) in enumerate(self.waiting):
            if client.node.settings.name == name:
                again = self._again(client)
                again.node.turn([again.asks(frame)])
                self.waiting[place] = (again, frame)
        for place, (until, client, lease) in enumerate(self.held):
            if client.node.settings.name == name:
                self.held[place] = (until, self._again(client), lease)

    def step(self) -> None:
        """Answers, releases."""
        for entry in tuple(self.waiting):
            client, _ = entry
            if self._is_down(client.node.settings.name):
                continue
            answers = client.inbox()
            denied = [one for one in answers if isinstance(one, frames.Denied)]
            leases = granted(answers)
            self.refused += denied
            if leases:
                self.granted += 1
                self.held.append((self.system.now_ms + self.random.randint(100, 4000), client, leases[0]))
            if leases or denied:
                self.waiting.remove(entry)
        for holding in tuple(self.held):
            until, client, lease = holding
            if until <= self.system.now_ms and not self._is_down(client.node.settings.name):
                self.held.remove(holding)
                client.releases(lease)
                client.close(gone=True)
                self.system.clients.remove(client)

    def _is_down(self, name: str) -> bool:
        return self.system.nodes[name].id in self.system.down

    def _again(self, client: Client) -> Client:
        again = client.returns(f"{client.name}+")
        assert again.welcome.resumed
        self.system.clients[self.system.clients.index(client)] = again
        return again


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("stopping", [LABS, LABS + DESKS], ids=["pools", "pools and clients"])
def test_all_are_served_and_nothing_is_left_while_nodes_stop_and_come_back(
    stopping: tuple[str, ...], seed: int
) -> None:
    system = laboratory(seed)
    crowd = Crowd(system)
    down: dict[str, int] = {}

    def start(name: str) -> None:
        del down[name]
        system.start(name)
        crowd.come_back(name)

    for _ in range(300):
        if system.random.random() < 0.25:
            crowd.come()
        if system.random.random() < 0.02 and len(down) < 2:
            name = system.random.choice([name for name in stopping if name not in down])
            system.stop(name)
            # A desk is back before its clients' leases are over.
            down[name] = system.now_ms + system.random.randint(1000, 20_000)
        for name, back in tuple(down.items()):
            if back <= system.now_ms:
                start(name)
        system.run(200)
        crowd.step()
        system.check()
    for name in tuple(down):
        start(name)

    def all_over() -> bool:
        crowd.step()
        return not crowd.waiting and not crowd.held

    system.until(all_over, most_ms=900_000)
    assert crowd.granted > 30
    assert {one.code for one in crowd.refused} <= {"not-granted"}
    system.until(lambda: not system.holders(), most_ms=200_000)
    system.run(60_000)
    for place in system.nodes.values():
        assert not place.side.manager.rows
        assert not place.agent.state.claims
        assert not place.agent.state.open_claims
        assert not place.agent.state.parked
        assert not place.agent.state.narrow
    system.check()
