"""What a client makes of whatever answers at an address that should be a node's."""

import contextlib
import socket
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.guardian import remote
from holdall.guardian.remote import connect
from holdall.model.errors import BadSpec, HoldallError, Refused


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_ACCESS_TOKEN", "secret")


def told(answer: bytes) -> HoldallError | None:
    """What `connect` says when this is answered, and the connection is closed; None: it takes it for a node."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1 << 16)
                peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            connect(f"http://127.0.0.1:{server.getsockname()[1]}").close()
        except HoldallError as error:
            return error
        finally:
            thread.join()
    return None


def answered(status: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d X\r\na: b\r\n\r\n" % status + body


@settings(max_examples=40, deadline=None)
@given(
    st.binary(max_size=200)
    | st.builds(
        answered,
        st.integers(102, 999),
        st.binary(max_size=80)
        | st.sampled_from([b'{"code":"refused","detail":"no"}', b'{"code":1}', b"[" * 2000]),
    )
)
def test_whatever_answers_is_an_error_of_ours_unless_it_switches(answer: bytes) -> None:
    assert isinstance(told(answer), HoldallError)


def test_a_node_that_switches_is_taken_and_what_it_refuses_is_said_in_its_words() -> None:
    assert told(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: holdall\r\n\r\n") is None
    refused = told(b'HTTP/1.1 403 Refused\r\n\r\n{"code": "refused", "detail": "only look"}')
    assert refused is not None
    assert (refused.code, refused.text.endswith(": only look")) == ("refused", True)


@pytest.mark.parametrize("goes_on", [False, True], ids=["says-no-more", "drips"])
def test_an_answer_without_an_end_is_not_waited_for_and_what_came_of_it_counts(
    monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    monkeypatch.setattr(remote, "CONNECT_SECONDS_MAX", 3.0)
    over = threading.Event()

    def serve() -> None:
        peer, _ = server.accept()
        with peer, contextlib.suppress(OSError):
            peer.recv(1 << 16)
            peer.sendall(answered(403, b'{"code": "refused", "detail": "only look"}'))
            while not over.wait(0.05):
                if goes_on:
                    peer.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with pytest.raises(Refused, match="only look"):
                connect(f"http://127.0.0.1:{server.getsockname()[1]}")
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https://:7420",
        "https://lab-1:x",
        "https://ana@lab-1:7420",
        "https://lab-1/v1",
        "http://lab-1:7420",
        "https://[::1",
        "https://lab..1:7420",
        "https://læb:7420",
    ],
)
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url: str) -> None:
    with pytest.raises(BadSpec, match=r"address of a node|only https"):
        connect(url)
