"""A node that says what no node says: the client breaks off, comes back, and keeps what it holds until its deadline."""

import contextlib
import socket
import threading

import pytest
from client.scripted_node import ScriptedNode, lease_view
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

import holdall
from holdall.model import frames
from holdall.model.framing import FrameBuffer, FrameTooLong


@given(some.lists(some.binary(max_size=200), max_size=8), some.data())
def test_however_a_stream_is_cut_the_same_frames_come_out(bodies: list[bytes], data: some.DataObject) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    buffer = FrameBuffer()
    out: list[bytes] = []
    while stream:
        size = data.draw(some.integers(1, len(stream)))
        out += buffer.feed(stream[:size])
        stream = stream[size:]
    assert out == bodies


def test_a_frame_that_is_longer_than_any_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameTooLong, match="2147483647 bytes; at most 65536"):
        FrameBuffer().feed((2**31 - 1).to_bytes(4, "big"))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(garbage=some.binary(min_size=1, max_size=300))
def test_garbage_breaks_the_connection_and_not_the_lease(node: ScriptedNode, garbage: bytes) -> None:
    with holdall.sync.connect(node.url) as hub:
        granting = threading.Thread(target=lambda: node.grant(node.hear(frames.Claim), lease_view()))
        granting.start()
        lease = hub.lease("gpu:1")
        granting.join()
        greetings = len(node.hellos)
        connection = node._connection
        assert connection is not None
        with contextlib.suppress(OSError):
            connection.sendall(len(garbage).to_bytes(4, "big") + garbage)
            connection.shutdown(socket.SHUT_WR)
        node.wait_for_hello(greetings + 1)
        assert node.hellos[-1].session
        lease.check()
        releasing = threading.Thread(target=_answer_release, args=(node,))
        releasing.start()
        lease.release()
        releasing.join()


def _answer_release(node: ScriptedNode) -> None:
    release = node.hear(frames.Release)
    node.say(frames.Released(release.n, lease_view().lease, "released"))
