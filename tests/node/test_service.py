"""A node in a thread of this process, over its real socket and journal."""

import asyncio
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from node.lab import CONFIG, Client, Lab, lab

from holdall.bus.identity import NodeKey
from holdall.model.errors import BadConfig
from holdall.node import boot, paths, service
from holdall.node.configured import Settings
from holdall.node.host_lock import HostLocks, Owner
from holdall.node.in_thread import ServiceThread
from holdall.node.settings import read_settings


def configured(made: Lab, monkeypatch: pytest.MonkeyPatch, text: str = CONFIG) -> Path:
    monkeypatch.setenv(paths.RUN_ENV, made.environment[paths.RUN_ENV])
    made.configure(text)
    return made.config


def test_it_serves_until_it_is_stopped_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with lab() as made:
        config = configured(made, monkeypatch)
        fences: list[int] = []
        for _ in range(2):
            node = ServiceThread(config, new=True)
            path = node.start()
            with Client(path) as client:
                granted = client.lease("psu:1")
                fences.append(granted.lease.units[0].fence)
                client.release(granted.key)
            node.stop()
            node.stop()
            assert not path.exists()
        assert fences[0] == 1
        assert fences[1] > 1


def test_what_keeps_it_from_starting_is_raised_where_it_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    with lab() as made, socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        config = configured(made, monkeypatch, CONFIG.replace('"off"', f'"{address}"'))
        node = ServiceThread(config, new=True)
        with pytest.raises(BadConfig, match="is in use"):
            node.start()
        node.stop()
        assert not made.socket.exists()


def test_no_code_is_spent_by_a_node_that_could_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    with lab() as made:
        text = CONFIG.replace('name = "board"\n', 'name = "board"\nreach = "host"\n')
        settings = read_settings(configured(made, monkeypatch, text))
        asked: list[str] = []

        async def joins(settings: Settings, key: NodeKey, code: str) -> None:
            del settings, key
            asked.append(code)

        monkeypatch.setattr(service, "join", joins)

        async def start() -> None:
            node = service.Service(settings, code="hd1-code")
            try:
                await node.start()
            finally:
                await node.close()

        other = HostLocks(Owner("lab-2", "/state/lab-2", boot.kernel_boot_id()))
        other.take("board")
        with pytest.raises(BadConfig, match='served by node "lab-2"'):
            asyncio.run(start())
        assert asked == []
        other.close()
        asyncio.run(start())
        assert asked == ["hd1-code"]


def test_a_claim_that_asks_for_nonsense_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdall.model import frames

    with lab() as made:
        node = ServiceThread(configured(made, monkeypatch), new=True)
        path = node.start()
        with Client(path) as client:
            for needs, ttl_ms in (
                ((), 20_000),
                ((frames.Need(()),), 20_000),
                ((frames.Need((frames.Selector(pools=("nowhere",)),)),), 20_000),
                ((frames.Need((frames.Selector(pools=("board",), count=4),)),), 20_000),
                ((frames.Need((frames.Selector(pools=("board",)),)),), 0),
                ((frames.Need((frames.Selector(pools=("board",)),)),), 31_536_000_000),
                ((frames.Need((frames.Selector(pools=("board",)),)),) * 33, 20_000),
            ):
                client.send(frames.Claim(n=client.n(), needs=needs, ttl_ms=ttl_ms))
                assert isinstance(client.next(), frames.Denied), (needs, ttl_ms)
            row = client.listing("node").nodes[0]
            assert (row.leases, row.waiting) == (0, 0)
            client.lease("board:3", "psu:2")
        node.stop()


ALONE = """
import asyncio, sys
from pathlib import Path
from holdall.node.service import Service
from holdall.node.settings import read_settings

async def main():
    service = Service(read_settings(Path(sys.argv[1])), new=True)
    await service.start()
    service.stop("test")
    await service.close()

asyncio.run(main())
print(sorted({"nats", "cryptography", "holdall.bus.nats", "holdall.bus.system"} & sys.modules.keys()))
"""


def test_a_node_that_stands_alone_loads_nothing_of_a_bus_and_writes_nothing_for_one() -> None:
    with lab() as made:
        ended = subprocess.run(
            [sys.executable, "-c", ALONE, str(made.config)],
            env=made.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert ended.stdout == "[]\n"
        assert not (made.state / paths.BUS_NAME).exists()
