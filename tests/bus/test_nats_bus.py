import asyncio
import contextlib

import pytest
from bus.nodes import FACTS, HOST, Lines, Node, all_hear_all, free_port, no_frames, no_state, system_of, until

from holdall.bus.connection import CannotConnect, Connection, Login
from holdall.bus.identity import NodeKey
from holdall.bus.keys import new_seed
from holdall.bus.nats import QUEUE_BYTES_MAX, NatsBus
from holdall.bus.subjects import FRAME_BYTES_MAX

pytestmark = pytest.mark.system


def test_three_nodes_exchange_frames_in_order_each_knowing_who_spoke() -> None:
    async def run() -> None:
        async with system_of(3) as (one, two, three):
            for node in (one, two, three):
                node.heard.clear()
            for number in range(500):
                one.bus.post(three.id, b"%d" % number)
                two.bus.post(three.id, b"%d" % number)
            await until(lambda: len(three.heard) == 1000, "all frames have come")
            for sender in (one, two):
                frames = [frame for who, frame in three.heard if who == sender.id]
                assert frames == [b"%d" % number for number in range(500)]
            assert one.heard == []
            assert two.heard == []

    asyncio.run(run())


def test_a_fourth_node_runs_no_server_and_knows_all_three() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            fourth = nodes[3].bus
            assert fourth.server is None
            assert not (nodes[3].home / "secrets.json").exists()
            wanted = {node.bus.status().listen for node in nodes[:3]}
            assert {url.removeprefix("tls://") for url in fourth.status().servers} == wanted
            # The first two learnt of later servers from notices.
            await until(lambda: all(len(one.bus.status().servers) == 3 for one in nodes[:3]), "all are known")

    asyncio.run(run())


def test_the_largest_frame_passes_and_a_larger_one_is_refused_and_logged() -> None:
    async def run() -> None:
        async with system_of(2) as (one, two):
            one.bus.post(two.id, bytes(FRAME_BYTES_MAX + 1))
            one.bus.post(two.id, bytes(FRAME_BYTES_MAX))
            await until(lambda: any(len(frame) == FRAME_BYTES_MAX for _, frame in two.heard), "it came")
            assert max(len(frame) for _, frame in two.heard) == FRAME_BYTES_MAX
            assert one.bus.status().dropped == 1
            assert "a frame was not sent" in one.log.text()

    asyncio.run(run())


def test_what_is_posted_before_close_is_written() -> None:
    async def run() -> None:
        async with system_of(2) as (one, two):
            two.heard.clear()
            for number in range(200):
                one.bus.post(two.id, b"%d" % number)
            await one.bus.nats.close()
            one.bus.post(two.id, b"after the end")
            await until(lambda: len(two.heard) == 200, "all of it came")
            assert two.heard[-1] == (one.id, b"199")

    asyncio.run(run())


def test_without_a_server_post_neither_blocks_nor_raises_and_keeps_a_bounded_rest() -> None:
    async def run() -> None:
        states: list[tuple[bool, str]] = []
        nobody = f"nats://{HOST}:{free_port()}"
        bus = NatsBus("lab", NodeKey(new_seed()).id, servers=lambda: [nobody], login=Login, log=Lines())
        await bus.open(no_frames, lambda connected, text: states.append((connected, text)))
        await until(lambda: states, "it was told that nothing can be reached")
        frame, other = bytes(FRAME_BYTES_MAX), NodeKey(new_seed()).id
        for _ in range(100):
            bus.post(other, frame)
        kept = QUEUE_BYTES_MAX // FRAME_BYTES_MAX
        assert bus.dropped == 100 - kept
        assert states[0][0] is False
        assert nobody in states[0][1]
        await bus.close()
        await bus.close()

    asyncio.run(run())


class Deaf(Connection):
    """Swallows the cancellation that comes while it connects, as nats-py does while it flushes."""

    succeeds = False

    async def open(self, login: Login) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        if not self.succeeds:
            raise CannotConnect("cancelled, but does not say so")


class DeafButOpen(Deaf):
    """Gets its connection nevertheless."""

    succeeds = True


@pytest.mark.parametrize("kind", [Deaf, DeafButOpen])
def test_closing_ends_the_bus_even_where_the_client_swallows_that(
    kind: type[Deaf], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        nobody = f"nats://{HOST}:{free_port()}"
        bus = NatsBus("lab", NodeKey(new_seed()).id, servers=lambda: [nobody], login=Login, log=Lines())
        await bus.open(no_frames, no_state)
        await asyncio.sleep(0)  # it connects
        await bus.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left

    monkeypatch.setattr("holdall.bus.nats.Connection", kind)
    asyncio.run(run())


def test_a_restarted_node_finds_its_system_without_any_settings() -> None:
    async def run() -> None:
        async with system_of(2) as (one, two):
            await two.close()
            two.heard.clear()
            await two.open()
            await all_hear_all([one, two])
            listen = two.bus.system.membership.listen
            await one.close()
            await one.open()
            await all_hear_all([one, two])
            assert two.bus.system.membership.listen == listen

    asyncio.run(run())


def test_other_facts_than_the_systems_are_a_start_error(tmp_path: object) -> None:
    import msgspec

    from holdall.bus.entry import make_bus
    from holdall.model.errors import BadConfig

    async def run() -> None:
        async with system_of(1) as (one,):
            other = msgspec.structs.replace(FACTS, ttl_max_ms=60_000)
            with pytest.raises(BadConfig, match=r"ttl_max \(ms\) is 60000 here and 300000 in the system"):
                make_bus(one.folder, one.key, name=one.name, facts=other, log=Lines())
            stranger = Node(one.folder, "lab-9")
            with pytest.raises(BadConfig, match="belongs to the node"):
                make_bus(one.folder, stranger.key, name="lab-9", facts=FACTS, log=Lines())

    asyncio.run(run())
