"""Who asks: by the kernel's word on the unix socket, by token or log-in over TCP; and whether the request may come in.

A browser sends a cookie with every request to us, also from pages of others, and believes any name that resolves to
our address. So over TCP the `Host` must be one of ours, an `Origin` must be the same as the `Host`, and a change
with a cookie needs a header that pages of others can't send.
"""

import ipaddress
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request

from holdall.http.access import Access
from holdall.http.problems import Problem
from holdall.node.front import FrontOrders
from holdall.node.sockets import user_name

COOKIE = "holdall"
GUARD = "x-holdall"
UNIX = "unix:"
"""A caller over the unix socket comes, for the routes, from `unix:UID`; no TCP address looks so."""
READING = frozenset({"GET", "HEAD"})


class Caller(msgspec.Struct, frozen=True):
    """Who asks. `uid` None: nobody."""

    uid: int | None
    user: str
    via: str
    """`socket`, `token`, `login` or `nobody`"""
    may: tuple[str, ...]
    """Of `see`, `claim`, `kick`."""
    name: str = ""
    """Of the token."""


def peer_of(client: tuple[str, int] | None) -> dict[str, object]:
    """Who is at the other end of a connection, as the log says it: an address, or the user whom the kernel names."""
    host, port = client or ("", 0)
    if host.startswith(UNIX):
        return {"user": user_name(int(host.removeprefix(UNIX)))}
    return {"peer": f"[{host}]:{port}" if ":" in host else f"{host}:{port}"}


def caller_of(request: Request, orders: FrontOrders, access: Access) -> Caller:
    """The caller. Raises Problem for a token that is not known, a foreign host or a foreign page."""
    peer = request.client.host if request.client is not None else ""
    if peer.startswith(UNIX):
        uid = int(peer.removeprefix(UNIX))
        return _person(orders, uid, user_name(uid), via="socket", may="act")
    _check_host(request, orders)
    _check_origin(request)
    authorization = request.headers.get("authorization", "")
    if authorization:
        scheme, _, token = authorization.partition(" ")
        known = access.token(token.strip()) if scheme.lower() == "bearer" else None
        if known is None:
            raise Problem(
                "unauthorized", "this access token is not known. Make one: holdall token create NAME"
            )
        return _person(orders, known.uid, known.user, via="token", may=known.may, name=known.name)
    cookie = request.cookies.get(COOKIE, "")
    login = access.session(cookie) if cookie else None
    if login is not None:
        if request.method not in READING and request.headers.get(GUARD) != "1":
            raise Problem("refused", "a change with a log-in needs the header X-Holdall: 1")
        return _person(orders, login.uid, login.user, via="login", may=login.may)
    return Caller(None, "", "nobody", ("see",) if orders.http.anonymous == "see" else ())


def _person(orders: FrontOrders, uid: int, user: str, *, via: str, may: str, name: str = "") -> Caller:
    verbs: tuple[str, ...] = ("see",)
    if may == "act":
        verbs = ("see", "claim", "kick") if uid in {0, orders.uid} else ("see", "claim")
    return Caller(uid, user, via, verbs, name)


def _check_host(request: Request, orders: FrontOrders) -> None:
    host = host_name(request.headers.get("host", ""))
    if host == "localhost" or host in orders.http.hosts or _is_address(host):
        return
    raise Problem(
        "host",
        f"{host[:80]!r} is no name of this node. Use its address, or name it in [http] hosts of its configuration",
    )


def _check_origin(request: Request) -> None:
    origin = request.headers.get("origin")
    if origin is None:
        return
    try:
        same = urlsplit(origin).netloc == request.headers.get("host", "")
    except ValueError:
        same = False
    if not same:
        raise Problem("refused", "requests from pages of other sites are not answered")


def host_name(header: str) -> str:
    """The name or address in a `Host` header, lower case."""
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
