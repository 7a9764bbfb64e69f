"""Seeded runs: claims of all shapes while nodes stop and come back; at the end all are served and nothing is left over."""

from random import Random

import pytest
from parties.many_nodes import System, granted
from parties.party_node import Client, pool

from holdall.model import frames

LABS = ("lab-1", "lab-2", "lab-3", "lab-4")
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
    system.add("desk-1")
    system.add("desk-2")
    system.run(100)
    return system


class Crowd:
    """Clients that claim, hold for a while and release."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.random: Random = system.random
        self.waiting: list[Client] = []
        self.held: list[tuple[int, Client, frames.Granted]] = []
        self.granted = 0
        self.refused: list[frames.Denied] = []
        self.lost = 0
        self._number = 0

    def come(self) -> None:
        self._number += 1
        client = self.system.client(f"c{self._number}", self.random.choice(("desk-1", "desk-2")))
        now = self.random.random() < 0.2
        client.say(client.claim(*self.random.choice(SPECS), now=now))
        client.node.inboxes.setdefault(client.name, [])
        self.waiting.append(client)

    def step(self) -> None:
        for client in tuple(self.waiting):
            answers = client.inbox()
            self.refused += [one for one in answers if isinstance(one, frames.Denied)]
            for lease in granted(answers):
                self.granted += 1
                self.held.append((self.system.now_ms + self.random.randint(100, 4000), client, lease))
            if granted(answers) or any(isinstance(one, frames.Denied) for one in answers):
                self.waiting.remove(client)
        for entry in tuple(self.held):
            until, client, lease = entry
            answers = client.inbox()
            lost = any(isinstance(one, frames.Lost) for one in answers)
            self.lost += lost
            if lost or until <= self.system.now_ms:
                self.held.remove(entry)
                if not lost:
                    client.releases(lease)
                client.close(gone=True)
                self.system.clients.remove(client)


@pytest.mark.parametrize("seed", range(6))
def test_all_are_served_and_nothing_is_left_while_nodes_stop_and_come_back(seed: int) -> None:
    system = laboratory(seed)
    crowd = Crowd(system)
    down: dict[str, int] = {}
    for _ in range(300):
        if system.random.random() < 0.25:
            crowd.come()
        if system.random.random() < 0.02 and len(down) < 2:
            name = system.random.choice([name for name in LABS if name not in down])
            system.stop(name)
            down[name] = system.now_ms + system.random.randint(1000, 20_000)
        for name, back in tuple(down.items()):
            if back <= system.now_ms:
                del down[name]
                system.start(name)
        system.run(200)
        crowd.step()
        system.check()
    for name in down:
        system.start(name)

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
