"""Connections to a node of another host: bytes pass in order both ways, and each end hears that the other is gone."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.bus.certificates import issue, new_authority, new_key, request
from holdall.guardian.reaching import UNSENT_BYTES_MAX, begin, connect, is_remote, pass_on, why_not_let_in
from holdall.guardian.remote import TOKEN_ENV
from holdall.model import frames
from holdall.model.errors import Refused
from holdall.model.framing import FrameBuffer

WITHIN_S = 30


class Ends:
    """What passes on runs in a thread, between `here` and, over TLS, `there`."""

    def __init__(self, folder: Path) -> None:
        authority_key, key = new_key(), new_key()
        authority = new_authority("test", authority_key)
        (folder / "key").write_bytes(key)
        (folder / "cert").write_bytes(
            issue(authority, authority_key, request("n", key), "n", addresses=["127.0.0.1"])
        )
        self._server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server.load_cert_chain(folder / "cert", folder / "key")
        self._client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client.check_hostname = False
        self._client.verify_mode = ssl.CERT_NONE

    @contextlib.contextmanager
    def open(self) -> Generator[tuple[socket.socket, ssl.SSLSocket]]:
        near, far = socket.socketpair()
        here, ours = socket.socketpair()
        secured: list[ssl.SSLSocket] = []
        greeting = threading.Thread(
            target=lambda: secured.append(self._server.wrap_socket(far, server_side=True))
        )
        greeting.start()
        way = self._client.wrap_socket(near)
        greeting.join()
        passing = threading.Thread(target=pass_on, args=(way, ours))
        passing.start()
        here.settimeout(WITHIN_S)
        secured[0].settimeout(WITHIN_S)
        with here, secured[0]:
            yield here, secured[0]
        passing.join(WITHIN_S)
        assert not passing.is_alive()


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> Ends:
    return Ends(tmp_path_factory.mktemp("tls"))


def whole(source: socket.socket) -> bytes:
    """All that comes until its end."""
    return b"".join(iter(lambda: source.recv(1 << 14), b""))


@contextlib.contextmanager
def saying(sink: socket.socket, said: list[bytes]) -> Generator[None]:
    """Beside what the test reads meanwhile."""
    thread = threading.Thread(target=lambda: sink.sendall(b"".join(said)))
    thread.start()
    yield
    thread.join(WITHIN_S)


PIECES = st.lists(st.binary(max_size=40_000), max_size=12)


@settings(max_examples=20, deadline=None)
@given(PIECES, PIECES, st.booleans())
def test_what_is_said_arrives_whole_and_in_order_and_then_the_end(
    ends: Ends, said_here: list[bytes], said_there: list[bytes], here_ends: bool
) -> None:
    with ends.open() as (here, there):
        with saying(here, said_here), saying(there, said_there):
            for listener, said in ((there, said_here), (here, said_there)):
                wanted, got = b"".join(said), b""
                while len(got) < len(wanted):
                    got += listener.recv(1 << 14)
                assert got == wanted
        first, second = (here, there) if here_ends else (there, here)
        first.sendall(b"last words")
        first.close()
        assert whole(second) == b"last words"


def test_who_does_not_read_holds_the_other_one_up_and_loses_nothing(ends: Ends) -> None:
    size = 8 * UNSENT_BYTES_MAX
    with ends.open() as (here, there), saying(here, [b"x" * size]):
        got = there.recv(1)
        while len(got) < size:
            got += there.recv(1 << 16)
        assert got == b"x" * size


def test_last_words_arrive_also_of_one_who_ends_without_having_read_all(ends: Ends) -> None:
    # More than the sockets between take at once, less than they take together with what is kept.
    said = b"x" * (UNSENT_BYTES_MAX + 100_000)
    with ends.open() as (here, there):
        there.sendall(b"never read")
        assert here.recv(1) == b"n"
        here.sendall(said)
        here.close()
        there.sendall(b"never heard")
        assert len(whole(there)) == len(said)


def test_without_a_thread_there_is_no_connection_now_and_another_try_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(BlockingIOError, match="no thread can be begun"):
            begin("https://lab.invalid")


def test_an_address_that_can_not_be_reached_is_an_error_at_first_and_an_end_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    with pytest.raises(Refused, match="needs an access token"):
        connect("https://lab.invalid", within_s=1)
    monkeypatch.setenv(TOKEN_ENV, "known")
    with begin("https://lab.invalid") as fresh:
        fresh.setblocking(True)
        fresh.settimeout(WITHIN_S)
        assert fresh.recv(1) == b""


@contextlib.contextmanager
def answering(head: str, body: bytes) -> Generator[str]:
    """The address of a server that answers each request so."""
    whole_answer = f"HTTP/1.1 {head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                caller, _ = listener.accept()
                with caller:
                    caller.recv(1 << 14)
                    caller.sendall(whole_answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("unauthorized", "the access token is not known at {where} any more: it was ended there."),
        ("refused", "{where}: what the node says"),
        ("busy", ""),
    ],
)
def test_who_is_not_let_in_any_more_hears_why_and_who_may_come_again_hears_an_end(
    monkeypatch: pytest.MonkeyPatch, code: str, told: str
) -> None:
    monkeypatch.setenv(TOKEN_ENV, "known-once")
    body = msgspec.json.encode({"code": code, "detail": "what the node says"})
    with answering("403 Refused", body) as where, begin(where) as fresh:
        fresh.setblocking(True)
        fresh.settimeout(WITHIN_S)
        said = FrameBuffer().feed(whole(fresh))
        denied = [frames.read_answer(one) for one in said]
        begins = told.format(where=where)
        assert [isinstance(one, frames.Denied) and not one.definite for one in denied] == [True] * bool(told)
        texts = [one.text for one in denied if isinstance(one, frames.Denied)]
        assert [text.startswith(begins) for text in texts] == [True] * bool(told)
        assert why_not_let_in(where) == "".join(texts)


def test_a_path_that_nobody_listens_at_is_told_by_both(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        connect(str(tmp_path / "s"), within_s=1)
    with pytest.raises(FileNotFoundError):
        begin(str(tmp_path / "s"))


def test_addresses_are_told_from_paths() -> None:
    assert [is_remote(one) for one in ("https://a:1", "http://a", "/run/s", "unix:///run/s")] == [
        *(True, True),
        *(False, False),
    ]
