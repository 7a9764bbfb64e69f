"""One request to the HTTP API of a node: over its `http.sock`, where the kernel says who asks, or over the network with a token."""

import http.client
import socket
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdall.client.address import no_answer
from holdall.guardian.reaching import is_remote
from holdall.guardian.remote import open_connection
from holdall.model.errors import BY_CODE, BadSpec, HoldallError, Refused, Unreachable
from holdall.node.paths import HTTP_SOCKET_NAME

ANSWER_SECONDS_MAX = 30.0
ANSWER_BYTES_MAX = 1 << 20


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
    connection = _Connection(str(where))
    data = None if body is None else msgspec.json.encode(body)
    kind = {} if data is None else {"Content-Type": "application/json"}
    try:
        connection.connect()
        connection.request(method, path, data, {**kind, **connection.fields})
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX)
    except HoldallError:
        raise
    except (OSError, http.client.HTTPException) as problem:
        raise no_answer(where, problem) from problem
    finally:
        connection.close()
    try:
        if answer.status < 400:
            return msgspec.json.decode(text, type=dict[str, Any])
        told = msgspec.json.decode(text, type=_Problem)
    except msgspec.DecodeError:
        raise Unreachable(
            f"the node at {where} gave an unexpected answer; do client and node have one version?"
        ) from None
    if told.code == "unauthorized":
        raise Refused(f"{where}: {told.detail}")
    other = BadSpec if told.exit_status == BadSpec.exit_status else HoldallError
    raise BY_CODE.get(told.code, other)(told.detail, definite=told.definite)
