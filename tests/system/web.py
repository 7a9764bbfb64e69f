"""A node with its HTTP server, and requests to it over its unix socket or TCP."""

import contextlib
import http.client
import json
import re
import socket
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from node.lab import CONFIG, Lab, lab

WITHIN_S = 60


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("node", timeout=WITHIN_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WITHIN_S)
        self.sock.connect(str(self._path))


class Http:
    """Requests to the node with this `http.sock`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def connection(self, *, tcp: bool = False) -> http.client.HTTPConnection:
        assert not tcp, "a Web is needed"
        return _Unix(self.path)

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        tcp: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        with contextlib.closing(self.connection(tcp=tcp)) as connection:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            kind = {} if data is None else {"Content-Type": "application/json"}
            connection.request(method, path, data, {**kind, **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, body: object) -> Any:
        answer = self.ask("POST", path, body)
        assert answer.status in {200, 201, 202}, answer
        return answer.json

    @contextlib.contextmanager
    def events(self, last: str = "") -> Generator[Iterator[tuple[str, str, Any]]]:
        """(name, id, data) of the live stream."""
        with contextlib.closing(self.connection()) as connection:
            connection.request("GET", "/v1/events", headers={"Last-Event-ID": last} if last else {})
            answer = connection.getresponse()
            assert answer.status == 200
            with contextlib.closing(answer):
                yield _events(answer)


class Web(Http):
    """Of one node of its own. Over `http.sock` unless `tcp`."""

    def __init__(self, node: Lab) -> None:
        super().__init__(node.socket.parent / "http.sock")
        self.node = node

    @property
    def port(self) -> int:
        found = re.search(r"health +http://127\.0\.0\.1:(\d+)/healthz", self.node.said())
        assert found is not None
        return int(found[1])

    def connection(self, *, tcp: bool = False) -> http.client.HTTPConnection:
        return (
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=WITHIN_S) if tcp else _Unix(self.path)
        )


def _events(lines: http.client.HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    found: dict[str, str] = {}
    for line in lines:
        text = line.decode().rstrip("\n")
        if text and not text.startswith(":"):
            name, _, value = text.partition(": ")
            found[name] = value
        elif "data" in found:
            yield found["event"], found.get("id", ""), json.loads(found["data"])
            found = {}


@contextlib.contextmanager
def web(*, http_settings: str = "", location: str = "") -> Generator[Web]:
    """A new node with a port, serving. With a `location` it has some bandwidth to share there."""
    with lab() as node:
        text = CONFIG.replace('listen = "off"', 'listen = "127.0.0.1:0"')
        if location:
            text = text.replace("[node]\n", f'[node]\nlocation = "{location}"\n')
            text += '\n[[capacity]]\nname = "net.tx"\namount = "100kB/s"\nsharing = "fair"\n'
        node.configure(text + (f"\n[http]\n{http_settings}\n" if http_settings else ""))
        node.start("--new")
        yield Web(node)
