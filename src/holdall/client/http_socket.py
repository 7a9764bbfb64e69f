"""One request to the HTTP API of the node on this host, over its `http.sock`: the kernel says there who asks."""

import http.client
import socket
from pathlib import Path
from typing import Any, Literal

import msgspec

from holdall.client.address import no_answer
from holdall.model.errors import BY_CODE, BadSpec, HoldallError, Unreachable
from holdall.node.paths import HTTP_SOCKET_NAME

ANSWER_SECONDS_MAX = 30.0
ANSWER_BYTES_MAX = 1 << 20


class _Problem(msgspec.Struct):
    code: str
    detail: str
    exit_status: int
    definite: bool = True


class _Local(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("node", timeout=ANSWER_SECONDS_MAX)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(ANSWER_SECONDS_MAX)
        self.sock.connect(str(self._path))


def ask_http(
    node_socket: Path, method: Literal["GET", "POST", "DELETE"], path: str, body: object = None
) -> dict[str, Any]:
    """The answer in JSON; `node_socket` is the node's `holdall.sock`. Raises HoldallError, as the API says."""
    connection = _Local(node_socket.with_name(HTTP_SOCKET_NAME))
    data = None if body is None else msgspec.json.encode(body)
    try:
        connection.request(method, path, data, {} if data is None else {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES_MAX)
    except (OSError, http.client.HTTPException) as problem:
        raise no_answer(node_socket, problem) from problem
    finally:
        connection.close()
    try:
        if answer.status < 400:
            return msgspec.json.decode(text, type=dict[str, Any])
        told = msgspec.json.decode(text, type=_Problem)
    except msgspec.DecodeError:
        raise Unreachable(
            f"the node at {node_socket} gave an unexpected answer; do client and node have one version?"
        ) from None
    other = BadSpec if told.exit_status == BadSpec.exit_status else HoldallError
    raise BY_CODE.get(told.code, other)(told.detail, definite=told.definite)
