"""A node whose HTTP is served with TLS, the command line as from another host, and a network between them that can break."""

import contextlib
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping

from node.lab import CONFIG, Lab
from system.web import Web

from holdall.bus.certificates import issue, new_authority, new_key, request
from holdall.client.http_socket import ask_http
from holdall.model import frames

MORE = """
[[pool]]
name = "gpu"
count = 1
reach = "host"

[[capacity]]
name = "net.tx"
amount = "1MB/s"
sharing = "fair"
"""


class Secure(Web):
    """As Web, over TLS; its certificate is for 127.0.0.1 and is signed by `authority`."""

    @property
    def authority(self) -> str:
        return str(self.node.folder / "authority.pem")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        (line,) = [one for one in self.node.said().splitlines() if one.startswith("health ")]
        return int(line.rpartition(":")[2].partition("/")[0])

    def listed(self, what: str) -> frames.Listing:
        with self.node.client() as client:
            return client.listing(what)

    def token(self, name: str) -> str:
        """A new one that may act."""
        token = ask_http(self.node.socket, "POST", "/v1/tokens", {"name": name})["token"]
        assert isinstance(token, str)
        return token

    def there(self, token: str, url: str = "") -> dict[str, str]:
        """The environment of a command on another host."""
        far = {"HOLDALL_URL": url or self.url, "HOLDALL_ACCESS_TOKEN": token, "SSL_CERT_FILE": self.authority}
        return {**self.node.environment, **far}

    def begun(self, environment: Mapping[str, str], *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "holdall.cli", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def typed(self, environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
        process = self.begun(environment, *arguments)
        with process:
            told, said = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, told, said)


def serve_with_tls(node: Lab) -> Secure:
    """Start the node with a certificate that is made here."""
    authority_key, key = new_key(), new_key()
    authority = new_authority("test", authority_key)
    certificate = issue(authority, authority_key, request("lab-1", key), "lab-1", addresses=["127.0.0.1"])
    for name, data in (("authority.pem", authority), ("lab.pem", certificate), ("lab.key", key)):
        (node.folder / name).write_bytes(data)
    text = CONFIG.replace('listen = "off"', 'listen = "127.0.0.1:0"\nlocation = "prague"')
    node.configure(text + MORE + '\n[http]\ncertificate = "lab.pem"\nkey = "lab.key"\n')
    node.start("--new")
    return Secure(node)


class Wire:
    """Passes bytes on to a port, until it is cut; and counts connections."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self._open: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def cut(self) -> None:
        """End all connections that there are."""
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let nobody through any more."""
        with contextlib.suppress(OSError):  # closed before
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                self.connections += 1
                threading.Thread(target=_pass_on, args=(near, far), daemon=True).start()


def _pass_on(near: socket.socket, far: socket.socket) -> None:
    with near, far, contextlib.suppress(OSError):
        while True:
            for one, other in ((near, far), (far, near)):
                if select.select([one], [], [], 0.02)[0]:
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    other.sendall(data)


@contextlib.contextmanager
def wire_to(site: Secure) -> Generator[Wire]:
    """A network of its own between a command and the node."""
    made = Wire(site.port)
    try:
        yield made
    finally:
        made.close()
