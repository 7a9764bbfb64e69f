"""The way to a node on another host: frames over HTTPS, as `HOLDALL_URL=https://HOST:PORT` and HOLDALL_ACCESS_TOKEN say."""

import contextlib
import ipaddress
import os
import socket
import ssl
import time
from collections.abc import Generator, Mapping
from urllib.parse import urlsplit

import msgspec

from holdall.model.decoding import decoded
from holdall.model.errors import BY_CODE, BadSpec, HoldallError, Refused, Unreachable

TOKEN_ENV = "HOLDALL_ACCESS_TOKEN"  # noqa: S105 - the name of a variable
CONNECT_SECONDS_MAX = 10.0
DEAD_SECONDS = 5
"""What was sent and not confirmed for so long is taken for lost; the connection is opened anew."""
HEAD_BYTES_MAX = 16 * 1024
BODY_BYTES_MAX = 64 * 1024
TOKEN_LETTERS_MAX = 200


class Unauthorized(Refused):
    """The node does not know the access token."""


class _Problem(msgspec.Struct):
    code: str = "error"
    detail: str = ""


def connect(url: str) -> socket.socket:
    """A socket over which the node at `url` is spoken to in frames. Raises BadSpec, Refused or Unreachable."""
    made, fields = open_connection(url)
    with _closed_when_broken(made, url):
        _upgrade(made, fields, url)
    return made


def open_connection(url: str) -> tuple[socket.socket, dict[str, str]]:
    """A connection to the HTTP server at `url`, and the header fields of each request. Raises as `connect`."""
    host, port, is_secure = _address(url)
    token = os.environ.get(TOKEN_ENV, "")
    if not token:
        raise Refused(
            f"{url} needs an access token: set {TOKEN_ENV}. Make one on the node's host: holdall token create NAME"
        )
    if not (token.isascii() and token.isprintable()) or " " in token or len(token) > TOKEN_LETTERS_MAX:
        raise BadSpec(f"{TOKEN_ENV} has no access token in it. Make one: holdall token create NAME")
    try:
        made = socket.create_connection((host, port), CONNECT_SECONDS_MAX)
    except UnicodeError:
        raise BadSpec(f"{url!r} is not the address of a node: its host is no name") from None
    except OSError as problem:
        raise _broken(url, problem) from problem
    with _closed_when_broken(made, url):
        _notice_its_death(made)
        if is_secure:
            made = ssl.create_default_context().wrap_socket(made, server_hostname=host)
    name = f"[{host}]" if ":" in host else host
    return made, {"Host": f"{name}:{port}", "Authorization": f"Bearer {token}"}


@contextlib.contextmanager
def _closed_when_broken(made: socket.socket, url: str) -> Generator[None]:
    try:
        yield
    except BaseException as problem:
        made.close()
        if isinstance(problem, OSError) and not isinstance(problem, HoldallError):
            raise _broken(url, problem) from problem
        raise


def _notice_its_death(made: socket.socket) -> None:
    """A host or a network that is gone says nothing; renewals would wait for an answer until the lease is over."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, DEAD_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, DEAD_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_SECONDS * 1000)


def _broken(url: str, problem: OSError) -> HoldallError:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return Refused(
            f"the certificate of {url} is not trusted ({problem.verify_message}). Name its authority's file: SSL_CERT_FILE"
        )
    return Unreachable(f"no node answers at {url} ({problem.strerror or problem})")


def _address(url: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as problem:
        raise BadSpec(f"{url!r} is not the address of a node: {problem}") from None
    is_secure = parts.scheme == "https"
    plain = not (parts.username or parts.password or parts.query or parts.fragment) and parts.path in {
        "",
        "/",
    }
    if not host or not host.isascii() or not plain:
        raise BadSpec(f"{url!r} is not the address of a node. Write it as https://HOST:PORT")
    if not is_secure and not _is_here(host):
        raise BadSpec(
            f"{url!r}: to another host only https:// is spoken, as a token would be read on the way"
        )
    return host, port or (443 if is_secure else 80), is_secure


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _upgrade(made: socket.socket, fields: Mapping[str, str], url: str) -> None:
    head = {**fields, "Connection": "Upgrade", "Upgrade": "holdall"}
    lines = ["GET /v1/frames HTTP/1.1", *(f"{name}: {value}" for name, value in head.items()), "", ""]
    made.sendall("\r\n".join(lines).encode())
    told = b""
    end_s = time.monotonic() + CONNECT_SECONDS_MAX
    while not told.endswith(b"\r\n\r\n"):
        made.settimeout(max(0.001, end_s - time.monotonic()))
        # One by one: what follows the head is the node's, and is read by whoever speaks with it.
        letter = made.recv(1)
        told += letter
        if not letter or len(told) > HEAD_BYTES_MAX:
            raise Unreachable(f"what answers at {url} is no node")
    status = told.split(b"\r\n", 1)[0].split(b" ")[1:2]
    made.settimeout(CONNECT_SECONDS_MAX)
    if status == [b"101"]:
        return
    raise _refusal(_body(made), url)


def _body(made: socket.socket) -> bytes:
    """What came until its end, or in time: who stands between may leave the connection open."""
    body = b""
    end_s = time.monotonic() + CONNECT_SECONDS_MAX
    with contextlib.suppress(TimeoutError):
        while len(body) < BODY_BYTES_MAX and (left_s := end_s - time.monotonic()) > 0:
            made.settimeout(left_s)
            piece = made.recv(1 << 14)
            if not piece:
                break
            body += piece
    return body


def _refusal(body: bytes, url: str) -> HoldallError:
    try:
        problem = decoded(msgspec.json.Decoder(_Problem).decode, body)
    except msgspec.DecodeError:
        return Unreachable(f"what answers at {url} is no node, or an older one")
    text = f"{url}: {problem.detail}"
    return (
        Unauthorized(text) if problem.code == "unauthorized" else BY_CODE.get(problem.code, Unreachable)(text)
    )
