"""TLS of `listen`, with certificates that are made here: browsers' HTTP, and the command line as from another host."""

import contextlib
import http.client
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest
from node.lab import CONFIG, lab
from node.waiting import until
from system.web import WITHIN_S, Web

from holdall.bus.certificates import issue, new_authority, new_key, request
from holdall.client.conversation import Conversation
from holdall.client.http_socket import ask_http
from holdall.guardian.remote import connect
from holdall.http.tunnel import TUNNELS_OF_ONE_MAX
from holdall.model import frames
from holdall.model.errors import BadSpec, HoldallError, Refused, Unreachable

pytestmark = pytest.mark.system
USAGE = 64


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

    def typed(self, *arguments: str, url: str, **more: str) -> "subprocess.CompletedProcess[str]":
        environment = {**self.node.environment, "HOLDALL_URL": url, **more}
        return subprocess.run(
            [sys.executable, "-m", "holdall.cli", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture(scope="module")
def site() -> Iterator[Secure]:
    with lab() as node:
        authority_key, key = new_key(), new_key()
        authority = new_authority("test", authority_key)
        certificate = issue(authority, authority_key, request("lab-1", key), "lab-1", addresses=["127.0.0.1"])
        for name, data in (("authority.pem", authority), ("lab.pem", certificate), ("lab.key", key)):
            (node.folder / name).write_bytes(data)
        text = CONFIG.replace('listen = "off"', 'listen = "127.0.0.1:0"')
        node.configure(text + '\n[http]\ncertificate = "lab.pem"\nkey = "lab.key"\n')
        node.start("--new")
        yield Secure(node)


def test_the_api_is_served_over_tls_1_3_and_only_so(site: Secure) -> None:
    token = ask_http(site.node.socket, "POST", "/v1/tokens", {"name": "tls"})["token"]
    context = ssl.create_default_context(cafile=site.authority)
    with contextlib.closing(
        http.client.HTTPSConnection("127.0.0.1", site.port, timeout=WITHIN_S, context=context)
    ) as connection:
        connection.request("GET", "/v1/me", headers={"Authorization": f"Bearer {token}"})
        told = json.loads(connection.getresponse().read())
        assert (told["via"], told["node"]) == ("token", "lab-1")
        assert isinstance(connection.sock, ssl.SSLSocket)
        assert connection.sock.version() == "TLSv1.3"
    older = ssl.create_default_context(cafile=site.authority)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        contextlib.closing(socket.create_connection(("127.0.0.1", site.port))) as connected,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        older.wrap_socket(connected, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(
            socket.create_connection(("127.0.0.1", site.port)), server_hostname="127.0.0.1"
        )
    plain = http.client.HTTPConnection("127.0.0.1", site.port, timeout=WITHIN_S)
    with contextlib.closing(plain):
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()


def test_the_command_line_works_over_https_with_a_token_as_it_does_here(site: Secure) -> None:
    here = f"unix://{site.node.socket}"
    made = site.typed("token", "create", "ci", "--json", url=here)
    assert made.returncode == 0, made.stderr
    token = json.loads(made.stdout)["token"]["token"]
    there = {"url": site.url, "HOLDALL_ACCESS_TOKEN": token, "SSL_CERT_FILE": site.authority}

    lease = site.typed("lease", "--need", "psu:2", "--for", "1h", "--reason", "far", **there)
    assert lease.returncode == 0, lease.stderr
    pools = site.typed("pools", "--json", **there)
    assert json.loads(pools.stdout)["pools"] == json.loads(msgspec.json.encode(site.listed("pools").pools)), (
        pools.stderr
    )
    (row,) = site.listed("who").leases
    assert (row.reason, len(row.units)) == ("far", 2)
    # A claim that waits keeps its place by words from afar, and is granted when its turn comes.
    waiting = subprocess.Popen(
        [sys.executable, "-m", "holdall.cli", "lease", "--need", "psu:1", "--for", "1h", "--wait", "1m"],
        env={
            **site.node.environment,
            "HOLDALL_URL": site.url,
            **{k: v for k, v in there.items() if k != "url"},
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    until(lambda: site.listed("queue").waits, "it waits")
    assert site.typed("release", lease.stdout.strip(), **there).returncode == 0
    key, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert [unit.name for one in site.listed("who").leases for unit in one.units] == ["psu-1"]
    run = site.typed("run", "--need", "psu:1", "--", "true", **there)
    assert (run.returncode, "a node on this host" in run.stderr) == (USAGE, True)
    assert site.typed("release", key.strip(), **there).returncode == 0


def test_who_is_not_let_in_hears_why_and_what_to_do(site: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    made = {
        may: ask_http(site.node.socket, "POST", "/v1/tokens", {"name": may, "may": may})["token"]
        for may in ("act", "see")
    }
    assert {row["name"] for row in ask_http(site.node.socket, "GET", "/v1/tokens")["tokens"]} >= {
        "act",
        "see",
    }

    def refused(url: str, token: str, *, trusts: bool = True) -> HoldallError:
        monkeypatch.setenv("HOLDALL_ACCESS_TOKEN", token)
        monkeypatch.setenv("SSL_CERT_FILE", site.authority if trusts else "/dev/null")
        with pytest.raises(HoldallError) as problem:
            connect(url)
        return problem.value

    for error, kind, text in (
        (refused(site.url, made["act"], trusts=False), Refused, "SSL_CERT_FILE"),
        (refused(site.url, ""), Refused, "holdall token create"),
        (refused(site.url, "nobody's"), Refused, "is not known"),
        (refused(site.url, made["see"]), Refused, "may only look"),
        (refused(site.url, "two words"), BadSpec, "has no access token"),
        (refused(f"http://192.0.2.1:{site.port}", made["act"]), BadSpec, "only https://"),
        (refused(f"{site.url}/x", made["act"]), BadSpec, "https://HOST:PORT"),
        (refused(f"http://127.0.0.1:{site.port}", made["act"]), Unreachable, ""),
    ):
        assert (type(error), text in error.text) == (kind, True), error.text
    monkeypatch.setenv("HOLDALL_ACCESS_TOKEN", made["act"])
    with Conversation(site.url) as node:
        assert node.welcome.node == "lab-1"
        ask_http(site.node.socket, "DELETE", "/v1/tokens/act")
        with pytest.raises(Unreachable):  # with the token its open connections end
            node.listing(frames.Ask(node.number(), "pools"))
    assert "is not known" in refused(site.url, made["act"]).text


def test_one_user_leaves_connections_to_others(site: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    token = ask_http(site.node.socket, "POST", "/v1/tokens", {"name": "many"})["token"]
    monkeypatch.setenv("HOLDALL_ACCESS_TOKEN", token)
    monkeypatch.setenv("SSL_CERT_FILE", site.authority)
    with contextlib.ExitStack() as opened:
        for _ in range(TUNNELS_OF_ONE_MAX):
            opened.enter_context(connect(site.url))
        with pytest.raises(HoldallError) as problem:
            connect(site.url)
        assert f"{TUNNELS_OF_ONE_MAX} of them yours" in problem.value.text
    until(lambda: is_let_in(site.url), "the closed ones do not count any more")


def is_let_in(url: str) -> bool:
    try:
        connect(url).close()
    except HoldallError:
        return False
    return True
