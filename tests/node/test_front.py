"""The port and the socket of the HTTP server, before there is a server."""

import asyncio
import socket
import tempfile
from pathlib import Path

import pytest

from holdall.model.errors import BadConfig
from holdall.node.front import Front
from holdall.node.log import make_log
from holdall.node.settings import parse_settings


def front(folder: Path, listen: str) -> Front:
    settings = parse_settings(f'[node]\nname = "lab-1"\nlisten = "{listen}"', state=folder)
    return Front(settings, make_log(), set())


@pytest.fixture
def folder() -> Path:
    return Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))


def test_a_taken_port_is_refused_with_the_next_step(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadConfig, match=rf"127\.0\.0\.1:{port} is in use.*\[node\]\.listen"):
            front(folder, f"127.0.0.1:{port}").bind(mode=0o600)
    folder.rmdir()


def test_without_a_port_there_is_the_socket_and_its_end_leaves_nothing(folder: Path) -> None:
    async def live() -> tuple[object, int]:
        made = front(folder, "off")
        made.bind(mode=0o600)
        made.open()
        found = made.address, made.path.stat().st_mode & 0o777
        await made.close()
        return found

    assert asyncio.run(live()) == (None, 0o600)
    folder.rmdir()
