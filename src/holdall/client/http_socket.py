"""One request to the HTTP API of a node: over its `http.sock`, where the kernel says who asks, or over the network with a token."""

import contextlib
import http.client
import socket
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdall.client.address import no_answer
from holdall.guardian.reaching import is_remote
from holdall.guardian.remote import open_connection
from holdall.model.decoding import decoded
from holdall.model.errors import BY_CODE, BadSpec, HoldallError, Refused, Unreachable
from holdall.node.paths import HTTP_SOCKET_NAME

ANSWER_SECONDS_MAX = 30.0
ANSWER_BYTES_MAX = 1 << 20
PIECE_BYTES = 1 << 16


class _Problem(msgspec.Struct):
    code: str
    detail: str
    exit_status: int
    definite: bool = True


class _Connection(http.client.HTTPConnection):
    """Over `http.sock` beside the node's socket, or over the network with an access token."""

    def __init__(self, where: str) -> None:
        super().__init__("node", timeout=ANSWER_SECONDS_MAX)
        self._where = where
        self.fields: dict[str, str] = {}

    def connect(self) -> None:
        if is_remote(self._where):
            self.sock, self.fields = open_connection(self._where)
        else:
            self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_SECONDS_MAX)
        if not is_remote(self._where):
            self.sock.connect(str(Path(self._where).with_name(HTTP_SOCKET_NAME)))


def ask_http(
    where: str | Path, method: Literal["GET", "POST", "DELETE"], path: str, body: object = None
) -> dict[str, Any]:
    """The answer in JSON; `where`: the node's `holdall.sock`, or https://HOST:PORT. Raises HoldallError, as the API says."""
    data = None if body is None else msgspec.json.encode(body)
    kind = {} if data is None else {"Content-Type": "application/json"}
    with _answer(where, method, path, data, kind) as answer:
        text = answer.read(ANSWER_BYTES_MAX)
    try:
        return decoded(msgspec.json.Decoder(dict[str, Any]).decode, text)
    except msgspec.DecodeError:
        raise _unexpected(where) from None


def pieces_http(where: str | Path, path: str) -> Iterator[bytes]:
    """What a GET answers that is no JSON, piece by piece as it comes. Raises as `ask_http`, also when its end is missing."""
    with _answer(where, "GET", path, None, {}) as answer:
        left = answer.length or 0
        while piece := answer.read(PIECE_BYTES):
            left -= len(piece)
            yield piece
        if left > 0:
            text = f"the node at {where} ended in the middle of its answer: {left:,} bytes are missing. Ask again"
            raise Unreachable(text, definite=False)


@contextlib.contextmanager
def _answer(
    where: str | Path, method: str, path: str, data: bytes | None, kind: Mapping[str, str]
) -> Generator[http.client.HTTPResponse]:
    """One that is no error, to be read inside."""
    connection = _Connection(str(where))
    try:
        connection.connect()
        connection.request(method, path, data, {**kind, **connection.fields})
        answer = connection.getresponse()
        if answer.status >= 400:
            raise _problem(where, answer.read(ANSWER_BYTES_MAX))
        yield answer
    except HoldallError:
        raise
    except (OSError, http.client.HTTPException) as problem:
        raise no_answer(where, problem) from problem
    finally:
        connection.close()


def _problem(where: str | Path, text: bytes) -> HoldallError:
    try:
        told = decoded(msgspec.json.Decoder(_Problem).decode, text)
    except msgspec.DecodeError:
        return _unexpected(where)
    if told.code == "unauthorized":
        return Refused(f"{where}: {told.detail}")
    other = BadSpec if told.exit_status == BadSpec.exit_status else HoldallError
    return BY_CODE.get(told.code, other)(told.detail, definite=told.definite)


def _unexpected(where: str | Path) -> HoldallError:
    return Unreachable(f"the node at {where} gave an unexpected answer; do client and node have one version?")
