"""One connection to one real nats-server without any rights."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from bus.nodes import HOST, free_port, until

from holdall.bus.connection import CannotConnect, Connection, Login
from holdall.bus.identity import NodeKey
from holdall.bus.keys import new_seed

pytestmark = pytest.mark.system

NODE = NodeKey(new_seed()).id


def test_who_asks_whether_it_lives_may_be_cancelled_at_any_step_and_frames_still_come() -> None:
    heard: list[bytes] = []

    async def run(port: int) -> None:
        connection = await opened(port, heard)
        for steps in range(1, 12):
            asking = asyncio.create_task(connection.alive())
            for _ in range(steps):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait((asking,))
            await connection.publish(NODE, b"%d" % steps)
        await connection.alive()
        await until(lambda: len(heard) == 11, "all frames have come")
        assert not connection.lost.done()
        await connection.close()

    port = free_port()
    server = subprocess.Popen(
        [Path(sys.executable).with_name("nats-server"), "--addr", HOST, "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(run(port))
    finally:
        server.kill()
        server.wait()
    assert heard == [b"%d" % steps for steps in range(1, 12)]


async def opened(port: int, heard: list[bytes]) -> Connection:
    """Once the server listens."""
    for _ in range(100):
        connection = Connection(
            f"nats://{HOST}:{port}",
            "lab",
            NODE,
            on_frame=lambda _, body: heard.append(body),
            on_notice=None,
            refused=pytest.fail,
        )
        try:
            await connection.open(Login())
        except CannotConnect:
            await asyncio.sleep(0.1)
        else:
            return connection
    pytest.fail("no server")
