"""`/healthz` and nothing else."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.node.health import Health

UP = Health(lambda: {"ok": True, "node": "lab-1", "state": "serving"})


def test_a_serving_node_says_so() -> None:
    head, _, body = UP.respond(b"GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    assert json.loads(body) == {"v": 1, "ok": True, "node": "lab-1", "state": "serving"}


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"HEAD /healthz HTTP/1.1", b"200"),
        (b"POST /healthz HTTP/1.1", b"405"),
        (b"GET / HTTP/1.1", b"404"),
        (b"GET /v1/pools HTTP/1.1", b"404"),
        (b"GET /healthz", b"400"),
        (b"nonsense", b"400"),
        (b"", b"400"),
    ],
)
def test_everything_else_is_refused(request_line: bytes, status: bytes) -> None:
    assert UP.respond(request_line + b"\r\n\r\n").split()[1] == status


def test_a_node_that_does_not_serve_answers_503() -> None:
    down = Health(lambda: {"ok": False, "state": "draining"})
    assert down.respond(b"GET /healthz HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 503 ")


@given(st.binary(max_size=300))
def test_any_bytes_get_an_answer(head: bytes) -> None:
    assert UP.respond(head).startswith(b"HTTP/1.1 ")


def test_it_answers_over_a_real_connection_and_closes() -> None:
    async def ask() -> bytes:
        health = Health(lambda: {"ok": True})
        await health.listen(folder / "health.sock")
        reader, writer = await asyncio.open_unix_connection(folder / "health.sock")
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        await health.close()
        return answer

    folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="hd"))
    assert asyncio.run(ask()).endswith(b'{"v":1,"ok":true}\n')
    folder.rmdir()
