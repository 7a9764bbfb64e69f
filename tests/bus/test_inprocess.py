import asyncio

import pytest
from bus.nodes import no_frames, no_state

from holdall.bus.inprocess import Hub
from holdall.bus.subjects import FRAME_BYTES_MAX
from holdall.model.errors import BadConfig

ANN, BEN = "uaaaaaaaaaaaaaaaaaaa", "ubbbbbbbbbbbbbbbbbbb"


def test_frames_come_in_order_and_never_within_the_posting() -> None:
    async def run() -> None:
        hub, heard = Hub(), list[tuple[str, bytes]]()
        ann, ben = hub.bus(ANN), hub.bus(BEN)
        await ann.open(no_frames, no_state)
        await ben.open(lambda sender, frame: heard.append((sender, frame)), no_state)
        for number in range(100):
            ann.post(BEN, b"%d" % number)
        assert heard == []
        await asyncio.sleep(0)
        assert heard == [(ANN, b"%d" % number) for number in range(100)]
        ann.post("ucccccccccccccccccc", b"to nobody")
        ann.post(BEN, bytes(FRAME_BYTES_MAX + 1))
        assert (hub.delivered, hub.dropped) == (100, 2)

    asyncio.run(run())


def test_an_answer_given_within_the_hearing_comes_too() -> None:
    async def run() -> None:
        hub, heard = Hub(), list[bytes]()
        ann, ben = hub.bus(ANN), hub.bus(BEN)
        await ann.open(lambda _, frame: heard.append(frame), no_state)
        await ben.open(lambda sender, frame: ben.post(sender, frame + b"!"), no_state)
        ann.post(BEN, b"one")
        ann.post(BEN, b"two")
        for _ in range(3):
            await asyncio.sleep(0)
        assert heard == [b"one!", b"two!"]

    asyncio.run(run())


def test_a_cut_loses_frames_both_ways_and_is_told_until_it_heals() -> None:
    async def run() -> None:
        hub, heard, told = Hub(), list[bytes](), list[str]()
        ann, ben = hub.bus(ANN), hub.bus(BEN)
        await ann.open(no_frames, no_state)
        await ben.open(lambda _, frame: heard.append(frame), lambda _, text: told.append(text))
        hub.cut(ANN, BEN)
        ann.post(BEN, b"lost")
        hub.heal(ANN, BEN)
        ann.post(BEN, b"heard")
        await asyncio.sleep(0)
        assert heard == [b"heard"]
        assert told == ["in one process", "in one process, cut off from 1 nodes", "in one process"]

    asyncio.run(run())


def test_after_close_nothing_comes_and_another_may_take_the_place() -> None:
    async def run() -> None:
        hub, heard = Hub(), list[bytes]()
        ann, ben = hub.bus(ANN), hub.bus(BEN)
        await ann.open(no_frames, no_state)
        await ben.open(lambda _, frame: heard.append(frame), no_state)
        with pytest.raises(BadConfig, match="two nodes with the id"):
            await hub.bus(BEN).open(no_frames, no_state)
        ann.post(BEN, b"before")
        await ann.close()
        await ann.close()
        ann.post(BEN, b"after")
        await asyncio.sleep(0)
        assert heard == [b"before"]
        await ben.close()
        await hub.bus(BEN).open(no_frames, no_state)

    asyncio.run(run())
