"""Beacons: each node is met once, answered alone, and told apart when its system-wide settings are others."""

import asyncio

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from holdall.machine.codec import CODEC
from holdall.node.beacons import Beacon, Beacons

OWN = Beacon("lab-1", "chain", 300_000, 20_000)


class Air:
    """A bus that remembers what was said."""

    def __init__(self) -> None:
        self.to_all: list[bytes] = []
        self.to_one: list[tuple[str, bytes]] = []

    def announce(self, body: bytes) -> None:
        self.to_all.append(body)

    def post(self, to: str, frame: bytes) -> None:
        self.to_one.append((to, frame))


class Ears:
    """A node's beacons and what it was told by them."""

    def __init__(self) -> None:
        self.air = Air()
        self.met: list[tuple[str, str]] = []
        self.unlike: list[tuple[str, str, str]] = []
        self.beacons = Beacons(
            OWN,
            met=lambda node, name: self.met.append((node, name)),
            differs=lambda node, name, what: self.unlike.append((node, name, what)),
        )
        self.beacons.bus = self.air


def test_a_start_tells_all_and_ends_with_the_node() -> None:
    async def run() -> Ears:
        ears = Ears()
        await ears.beacons.begin()
        ears.beacons.close()
        await asyncio.sleep(0)
        return ears

    ears = asyncio.run(run())
    assert [CODEC.decode(body) for body in ears.air.to_all] == [OWN]


def test_who_is_heard_is_met_once_and_answered_each_time_but_an_answer_never() -> None:
    ears = Ears()
    other = CODEC.encode(Beacon("lab-2", "chain", 300_000, 20_000))
    ears.beacons.announced("id2", other)
    ears.beacons.announced("id2", other)
    ears.beacons.heard("id3", Beacon("lab-3", "chain", 300_000, 20_000, is_answer=True))
    assert ears.met == [("id2", "lab-2"), ("id3", "lab-3")]
    answer = CODEC.encode(msgspec.structs.replace(OWN, is_answer=True))
    assert ears.air.to_one == [("id2", answer), ("id2", answer)]


def test_a_node_of_other_system_wide_settings_is_named_with_them() -> None:
    ears = Ears()
    ears.beacons.heard("id2", Beacon("lab-2", "lanes", 60_000, 20_000))
    assert ears.met == []
    assert ears.unlike == [
        (
            "id2",
            "lab-2",
            "protocol is chain here and lanes there, ttl_max (ms) is 300000 here and 60000 there",
        )
    ]


@given(st.binary(max_size=200))
def test_nonsense_that_is_told_to_all_is_passed_over(body: bytes) -> None:
    ears = Ears()
    ears.beacons.announced("id2", body)
    assert (ears.met, ears.unlike, ears.air.to_one) == ([], [], [])
