"""Who asks: the kernel's word, a token, a log-in, or nobody; and which requests of browsers are refused."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request

from holdall.http.access import Access
from holdall.http.callers import Caller, caller_of, host_name
from holdall.http.problems import Problem
from holdall.node.clock import wall_ms
from holdall.node.front import FrontOrders
from holdall.node.http_settings import HttpSettings
from holdall.node.logins import Person

OWNER = 4242
SOMEBODY = 4343


@pytest.fixture
def access() -> Iterator[Access]:
    with tempfile.TemporaryDirectory() as folder:
        yield Access(Path(folder))


def orders(anonymous: str = "none", hosts: tuple[str, ...] = ()) -> FrontOrders:
    return FrontOrders(
        "lab-1", "s", "h", "st", "", OWNER, None, 3, HttpSettings(anonymous=anonymous, hosts=hosts)
    )


def asked(peer: str = "127.0.0.1", method: str = "GET", **headers: str) -> Request:
    given = {"host": "127.0.0.1:7420", **{name.replace("_", "-"): value for name, value in headers.items()}}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    return Request({"type": "http", "method": method, "path": "/", "headers": raw, "client": (peer, 0)})


def refused(request: Request, access: Access, made: FrontOrders | None = None) -> tuple[int, str]:
    with pytest.raises(Problem) as problem:
        caller_of(request, made or orders(), access)
    return problem.value.detail.status, problem.value.detail.detail


def test_over_the_unix_socket_it_is_who_the_kernel_says_whatever_the_host(access: Access) -> None:
    caller = caller_of(asked(f"unix:{OWNER}", host="anything"), orders(), access)
    assert (caller.uid, caller.via, caller.may) == (OWNER, "socket", ("see", "claim", "kick"))
    assert caller_of(asked(f"unix:{SOMEBODY}"), orders(), access).may == ("see", "claim")
    assert caller_of(asked("unix:0"), orders(), access).may == ("see", "claim", "kick")


def test_over_tcp_nobody_may_nothing_unless_the_configuration_lets_everybody_see(access: Access) -> None:
    assert caller_of(asked(), orders(), access) == Caller(None, "", "nobody", ())
    assert caller_of(asked(), orders("see"), access) == Caller(None, "", "nobody", ("see",))


def test_a_token_is_its_maker_as_far_as_it_may(access: Access) -> None:
    token = access.make_token(Person(OWNER, "ana", wall_ms(), name="ci"))
    caller = caller_of(asked(authorization=f"Bearer {token}"), orders(), access)
    assert caller == Caller(OWNER, "ana", "token", ("see", "claim", "kick"), "ci")
    looking = access.make_token(Person(OWNER, "ana", wall_ms(), name="look", may="see"))
    assert caller_of(asked(authorization=f"bearer {looking}"), orders(), access).may == ("see",)


@pytest.mark.parametrize(
    "given", ["Bearer", "Bearer x", "Basic eDp4", "x", "Bearer ../../journal", "Bearer " + "a" * 5000]
)
def test_a_token_that_is_not_known_is_refused_even_where_everybody_may_see(
    access: Access, given: str
) -> None:
    status, text = refused(asked(authorization=given), access, orders("see"))
    assert status == 401
    assert "holdall token create" in text


def test_an_ended_token_is_not_known_any_more(access: Access) -> None:
    token = access.make_token(Person(OWNER, "ana", wall_ms(), name="ci"))
    assert not access.end_token(SOMEBODY, "ci")
    assert access.end_token(OWNER, "ci")
    assert refused(asked(authorization=f"Bearer {token}"), access)[0] == 401


def test_a_change_with_a_log_in_needs_the_header_that_foreign_pages_cannot_send(access: Access) -> None:
    secret = access.use_login(access.make_login(uid=OWNER, user="ana"))
    cookie = f"holdall={secret}"
    assert caller_of(asked(cookie=cookie), orders(), access).via == "login"
    assert refused(asked(method="POST", cookie=cookie), access)[0] == 403
    assert caller_of(asked(method="POST", cookie=cookie, x_holdall="1"), orders(), access).uid == OWNER


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7420", "", "127.0.0.1.evil.example", "[evil]"]
)
def test_a_host_that_is_not_ours_is_refused(access: Access, host: str) -> None:
    assert refused(asked(host=host), access)[0] == 421


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:1", "[::1]:7420", "localhost:7420", "10.0.0.7", "Lab-1.example.org:7420"]
)
def test_addresses_localhost_and_named_hosts_are_ours(access: Access, host: str) -> None:
    assert caller_of(asked(host=host), orders(hosts=("lab-1.example.org",)), access).via == "nobody"


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:7421", "http://[", "file://"]
)
def test_pages_of_other_sites_are_refused(access: Access, origin: str) -> None:
    assert refused(asked(origin=origin), access)[0] == 403
    assert caller_of(asked(origin="http://127.0.0.1:7420"), orders(), access).via == "nobody"


@pytest.mark.parametrize(
    ("header", "name"),
    [("A:1", "a"), ("a", "a"), ("[::1]:80", "::1"), ("::1", "::1"), ("[", ""), (":", ""), ("a:b:c", "a:b:c")],
)
def test_the_name_in_a_host_header(header: str, name: str) -> None:
    assert host_name(header) == name
