"""A real nats-server with JetStream for tests: on a free port of 127.0.0.1, its store below a folder."""

import asyncio
import shutil
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bus.nodes import HOST, free_port, until
from nats.aio.client import Client
from nats.js import JetStreamContext

from holdall.bus.server import find_program
from holdall.bus.subjects import bucket

SYSTEM = "town"


class JetStreamServer:
    """Starts, is killed, starts again on the same store, or on none."""

    def __init__(self, folder: Path, bus_system: str = SYSTEM) -> None:
        self.folder = folder
        self._bus_system = bus_system
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    async def start(self, rights: str = "", *, with_store: bool = True) -> None:
        config = self.folder / "server.conf"
        store = self.folder / "store"
        text = f'listen: "{HOST}:{self.port}"\nserver_name: store\n{rights}'
        if with_store:
            bounds = "sync_interval: always, max_mem: 1M, max_file: 16M"
            text += f'\njetstream {{ store_dir: "{store}", {bounds} }}\n'
        config.write_text(text)
        self._spawn(config)

        async def answers() -> bool:
            try:
                _, writer = await asyncio.open_connection(HOST, self.port)
            except OSError:
                return False
            writer.close()
            await writer.wait_closed()
            return True

        for _ in range(500):
            if await answers():
                return
            await asyncio.sleep(0.02)
        raise AssertionError("nats-server does not start")

    def _spawn(self, config: Path) -> None:
        self._process = subprocess.Popen(
            [find_program(None), "--config", config, "--log", self.folder / "log"]
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stands still; `go_on` ends that."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def forget(self) -> None:
        """Its store is gone."""
        shutil.rmtree(self.folder / "store")

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[JetStreamContext]:
        """To do to the store what no candidate does."""
        client: Any = Client()
        await client.connect(self.url)
        try:
            yield client.jetstream()
        finally:
            await client.close()
            await asyncio.sleep(0.01)  # nats-py closes its socket behind our back

    async def delete_bucket(self) -> None:
        async with self.client() as store:
            await store.delete_key_value(bucket(self._bus_system))


@asynccontextmanager
async def jetstream() -> AsyncGenerator[JetStreamServer]:
    folder = Path(mkdtemp(dir="/tmp", prefix="hd"))
    server = JetStreamServer(folder)
    await server.start()
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(folder, ignore_errors=True)


__all__ = ["SYSTEM", "JetStreamServer", "jetstream", "until"]
