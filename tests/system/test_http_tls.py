"""TLS of `listen`, with certificates that are made here: browsers' HTTP, and the command line as from another host."""

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from node.lab import lab
from node.waiting import until
from system.secure import Secure, serve_with_tls, wire_to
from system.web import WITHIN_S

from holdall.client.conversation import Conversation
from holdall.client.http_socket import ask_http, pieces_http
from holdall.guardian.remote import Unauthorized, connect
from holdall.http.tunnel import TUNNELS_OF_ONE_MAX
from holdall.model import frames
from holdall.model.errors import (
    BadConfig,
    BadSpec,
    HoldallError,
    LeaseLost,
    NeverSatisfiable,
    Refused,
    Unreachable,
)
from holdall.node.sockets import user_name
from holdall.node.unread import UNREAD_WITHIN_S

ENDED_UNREAD = "a client does not read its answers; its connection is ended"

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def site() -> Iterator[Secure]:
    with lab() as node:
        yield serve_with_tls(node)


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


def test_listings_and_leases_work_over_https_with_a_token_as_they_do_here(site: Secure) -> None:
    here = {**site.node.environment, "HOLDALL_URL": f"unix://{site.node.socket}"}
    made = site.typed(here, "token", "create", "ci", "--json")
    assert made.returncode == 0, made.stderr
    there = site.there(json.loads(made.stdout)["token"]["token"])

    lease = site.typed(there, "lease", "--need", "psu:2", "--for", "1h", "--reason", "far")
    assert lease.returncode == 0, lease.stderr
    pools = site.typed(there, "pools", "--json")
    assert json.loads(pools.stdout)["pools"] == json.loads(msgspec.json.encode(site.listed("pools").pools)), (
        pools.stderr
    )
    (row,) = site.listed("who").leases
    assert (row.reason, len(row.units)) == ("far", 2)
    # A claim that waits keeps its place by words from afar, and is granted when its turn comes.
    waiting = site.begun(there, "lease", "--need", "psu:1", "--for", "1h", "--wait", "1m")
    until(lambda: site.listed("queue").waits, "it waits")
    assert site.typed(there, "release", lease.stdout.strip()).returncode == 0
    key, said = waiting.communicate(timeout=60)
    assert waiting.returncode == 0, said
    assert [unit.name for one in site.listed("who").leases for unit in one.units] == ["psu-1"]
    assert site.typed(there, "release", key.strip()).returncode == 0


def test_tokens_are_made_on_the_nodes_host_only_and_ended_from_afar(site: Secure) -> None:
    there = site.there(site.token("kept"))
    more = site.typed(there, "token", "create", "more")
    assert (more.returncode, "on the node's host only" in more.stderr) == (Refused.exit_status, True)
    site.token("old")
    ended = site.typed(there, "token", "end", "old")
    assert ended.returncode == 0, ended.stderr
    listed = json.loads(site.typed(there, "token", "list", "--json").stdout)["tokens"]
    assert {"kept", "old", "more"} & {row["name"] for row in listed} == {"kept"}


def test_who_asks_from_afar_and_reads_nothing_is_cut_off_and_named(
    site: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in site.there(site.token("deaf")).items():
        monkeypatch.setenv(name, text)

    def said() -> list[dict[str, object]]:
        lines = [json.loads(line) for line in site.node.said().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == ENDED_UNREAD and line.get("part") == "http"]

    # More than all the kernel's buffers hold, less than the node keeps for one client.
    count = 10_000_000 // len(frames.pack(site.listed("pools")))
    asks = [frames.pack(frames.Ask(n=number, what="pools")) for number in range(1, count)]
    with contextlib.closing(connect(site.url)) as deaf:
        deaf.sendall(frames.pack(frames.Hello(v=frames.VERSION)) + b"".join(asks))
        deaf.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 0)  # this one has patience
        until(said, "it is cut off", within_s=UNREAD_WITHIN_S + 60)
        assert len(site.listed("pools").pools) == 4
    (line,) = said()
    assert (line["user"], line["token"]) == (user_name(os.getuid()), "deaf")
    assert "it has taken nothing for 30 s" in str(line["why"])


def test_a_run_over_https_has_its_lease_there_and_its_command_here(site: Secure) -> None:
    there = site.there(site.token("run"))
    # What the command starts is in its scope, over the same way.
    script = 'echo "$HOLDALL_UNITS_PSU at $HOLDALL_URL"; holdall show --json >&2; exit 7'
    words = ("run", "--need", "psu:2", "--reason", "afar", "--", "sh", "-c")
    run = site.typed({**there, "PATH": f"{Path(sys.executable).parent}:{there['PATH']}"}, *words, script)
    assert (run.returncode, run.stdout) == (7, f"psu-1,psu-2 at {site.url}\n"), run.stderr
    assert '"reason": "afar"' in run.stderr or '"reason":"afar"' in run.stderr
    assert site.listed("who").leases == ()
    # The command does not run on the node's host, where alone these units are of use.
    gpu = site.typed(there, "run", "--need", "gpu", "--", "true")
    assert (gpu.returncode, "let a job do it" in gpu.stderr) == (NeverSatisfiable.exit_status, True), (
        gpu.stderr
    )
    on = site.typed(there, "run", "--on", "lab-1", "--need", "gpu", "--", "true")
    assert (on.returncode, "let a job do it" in on.stderr) == (Refused.exit_status, True), on.stderr


def test_a_run_outlives_a_broken_connection_and_ends_before_its_lease_when_none_comes_back(
    site: Secure, tmp_path: Path
) -> None:
    script = (
        f"trap 'echo stopped >>{tmp_path}/log' TERM; echo begun >>{tmp_path}/log; while sleep 0.1; do :; done"
    )
    log = tmp_path / "log"
    with wire_to(site) as wire:
        environment = site.there(site.token("far"), f"https://127.0.0.1:{wire.port}")
        run = site.begun(environment, "run", "--need", "board", "--ttl", "11s", "--", "sh", "-c", script)
        until(log.exists, "it has begun")
        before = wire.connections
        wire.cut()
        until(lambda: wire.connections > before, "it connects anew")
        (lease,) = site.listed("who").leases
        until(lambda: site.listed("who").leases[0].expires_ms > lease.expires_ms, "and renews the same lease")
        assert site.listed("who").leases[0].lease == lease.lease
        wire.close()
        until(lambda: "stopped" in log.read_text(), "no renewal comes through, so it is stopped")
        assert [one.lease for one in site.listed("who").leases] == [lease.lease], "the units are not free yet"
        _, said = run.communicate(timeout=60)
    assert run.returncode == LeaseLost.exit_status
    assert "no renewal was confirmed for 11 s (node unreachable" in said
    until(lambda: not site.listed("who").leases, "it runs out there, too")


def test_jobs_are_begun_shown_and_ended_over_https(site: Secure, tmp_path: Path) -> None:
    there = {**site.there(site.token("job")), "CARRIED": "no"}
    file = tmp_path / "night.toml"
    file.write_text('[task.a]\nneeds = ["gpu"]\nrun = "echo $HOLDALL_UNITS_GPU $CARRIED; exit 3"\n')
    bad = tmp_path / "bad.toml"
    bad.write_text('[task.a]\nneeds = ["gpu:9"]\nrun = "true"\n')
    wrong = site.typed(there, "job", "run", str(bad))
    assert (wrong.returncode, f"{bad}:2:" in wrong.stderr) == (BadConfig.exit_status, True), wrong.stderr
    run = site.typed(there, "job", "run", str(file))
    assert (run.returncode, "failed" in run.stderr) == (1, True), run.stderr
    (job,) = json.loads(site.typed(there, "job", "list", "--json").stdout)["jobs"]
    assert (job["name"], job["state"]) == ("night", "failed")
    shown = json.loads(site.typed(there, "job", "show", job["job"], "--json").stdout)["job"]
    assert shown["tasks"][0]["instances"][0]["attempts"][0]["status"] == 3
    assert site.typed(there, "job", "logs", job["job"]).stdout == "0\n"
    over = site.typed(there, "job", "cancel", job["job"])
    assert (over.returncode, "is over already" in over.stderr) == (0, True)
    assert site.typed(there, "job", "forget", job["job"]).returncode == 0
    assert json.loads(site.typed(there, "job", "list", "--json").stdout)["jobs"] == []


def test_whoever_is_at_work_when_the_token_is_ended_hears_of_that(site: Secure, tmp_path: Path) -> None:
    there = site.there(site.token("short"))
    file = tmp_path / "long.toml"
    file.write_text('[task.a]\nrun = "sleep 600"\n')
    held = site.begun(there, "run", "--need", "psu:2", "--ttl", "11s", "--", "sleep", "600")
    until(lambda: len(site.listed("who").leases) == 1, "it holds them")
    waits = site.begun(there, "run", "--need", "psu:1", "--wait", "10m", "--", "true")
    until(lambda: site.listed("queue").waits, "it waits")
    follows = site.begun(there, "job", "run", str(file))
    until(lambda: ask_http(site.node.socket, "GET", "/v1/jobs")["jobs"], "it is begun")
    (job,) = ask_http(site.node.socket, "GET", "/v1/jobs")["jobs"]
    until(
        lambda: ask_http(site.node.socket, "GET", f"/v1/jobs/{job['job']}")["tasks"][0]["state"] == "running",
        "it runs",
    )
    ask_http(site.node.socket, "DELETE", "/v1/tokens/short")
    for process, status, words in (
        (waits, Refused.exit_status, "the access token is not known at"),
        (follows, Refused.exit_status, "the access token was ended at"),
        (
            held,
            LeaseLost.exit_status,
            "lost: no renewal was confirmed for 11 s (the access token is not known at",
        ),
    ):
        _, said = process.communicate(timeout=120)
        assert (process.returncode, words in said, "holdall token create NAME" in said) == (
            status,
            True,
            True,
        ), said
    assert ask_http(site.node.socket, "GET", f"/v1/jobs/{job['job']}")["job"]["state"] == "running"
    ask_http(site.node.socket, "POST", f"/v1/jobs/{job['job']}/cancel", {})
    until(
        lambda: ask_http(site.node.socket, "GET", "/v1/jobs")["jobs"][0]["state"] == "cancelled", "it is over"
    )
    ask_http(site.node.socket, "DELETE", f"/v1/jobs/{job['job']}")


def test_all_that_a_job_wrote_is_read_over_https_byte_for_byte(site: Secure, tmp_path: Path) -> None:
    """More than one answer of `logs` tells: of attempts, of bytes, and what is no text."""
    there = site.there(site.token("output"))
    file = tmp_path / "much.toml"
    # 25 attempts, the last of which writes 400,000 bytes that are no UTF-8, with a line feed here and there.
    write = "import sys; sys.stdout.buffer.write(bytes(range(250)) * 1600)"
    file.write_text(
        "[task.many]\nforeach = ["
        + ", ".join(f'"{n}"' for n in range(24))
        + ']\nrun = "echo $HOLDALL_ITEM"\n'
        f'[task.much]\nafter = ["many"]\nrun = ["{sys.executable}", "-c", "{write}"]\n'
    )
    assert site.typed(there, "job", "run", str(file)).returncode == 0
    (job,) = json.loads(site.typed(there, "job", "list", "--json").stdout)["jobs"]
    words = [sys.executable, "-m", "holdall.cli", "job", "logs", job["job"]]
    local = {**site.node.environment, "HOLDALL_URL": f"unix://{site.node.socket}"}
    far, near = (
        subprocess.run(words, env=environment, capture_output=True, check=True, timeout=60)
        for environment in (there, local)
    )
    assert (far.stdout, far.stderr) == (near.stdout, near.stderr)
    much = bytes(range(250)) * 1600
    assert far.stdout.endswith(much)
    assert sorted(far.stdout.removesuffix(much).split()) == sorted(str(n).encode() for n in range(24))
    path = f"/v1/jobs/{job['job']}/output?task=much&attempt=1&start="
    assert b"".join(pieces_http(site.node.socket, path + "399990")) == much[-10:]
    assert b"".join(pieces_http(site.node.socket, path + "400001")) == b""
    with pytest.raises(HoldallError, match="has not begun in this job"):
        list(pieces_http(site.node.socket, path.replace("attempt=1", "attempt=2") + "0"))
    output = Path(job["folder"]).glob("tasks/*/*/output.log")
    next(one for one in output if one.stat().st_size == len(much)).unlink()
    gone = subprocess.run([*words, "much"], env=there, capture_output=True, check=True, timeout=60)
    assert (gone.stdout, b"has no file of output" in gone.stderr) == (b"", True)
    assert site.typed(there, "job", "forget", job["job"]).returncode == 0


def test_the_doctor_looks_at_the_way_there_and_asks_the_nodes_own(site: Secure) -> None:
    there = site.there(site.token("doctor"))
    told = json.loads(site.typed(there, "doctor", "--json").stdout)["findings"]
    found = {one["about"]: one for one in told}
    assert "TLSv1.3, certificate trusted" in found["connection"]["text"]
    assert found["token"]["state"] == found["lab-1 node"]["state"] == "ok"
    assert "config" not in found  # of a node on this host, where there is none
    lost = site.typed({**there, "HOLDALL_ACCESS_TOKEN": "other"}, "doctor", "--json")
    (connection,) = [one for one in json.loads(lost.stdout)["findings"] if one["about"] == "connection"][1:]
    assert (connection["state"], "is not known" in connection["text"]) == ("error", True)


def test_bytes_are_forwarded_at_a_rate_that_is_leased_over_https(site: Secure) -> None:
    there = site.there(site.token("proxy"))
    wish = ("prague", "--term", "net.tx=200kB/s", "--duration", "10s", "--accept", "--json")
    asked = site.typed(there, "location", "request", *wish)
    assert asked.returncode == 0, asked.stderr
    lease, size = json.loads(asked.stdout)["lease"]["lease"], 40_000
    with socket.create_server(("127.0.0.1", 0)) as sink:
        to = f"127.0.0.1:{sink.getsockname()[1]}"
        proxy = site.begun(there, "proxy", "--lease", lease, "--listen", "0", "--to", to)
        try:
            assert proxy.stdout is not None
            host, _, port = proxy.stdout.readline().strip().rpartition(":")
            with socket.create_connection((host, int(port)), timeout=WITHIN_S) as sender:
                sender.sendall(b"x" * size)
                sender.shutdown(socket.SHUT_WR)
                sink.settimeout(WITHIN_S)
                receiver, _ = sink.accept()
                with receiver:
                    receiver.settimeout(WITHIN_S)
                    assert sum(len(data) for data in iter(lambda: receiver.recv(1 << 16), b"")) == size
        finally:
            proxy.send_signal(signal.SIGTERM)
            _, said = proxy.communicate(timeout=WITHIN_S)
    assert proxy.returncode == 0, said
    rows = json.loads(site.typed(there, "usage", "--by", "lease", "--json").stdout)["usage"]
    assert [row["used"] for row in rows if (row["group"], row["term"]) == (lease, "net.tx")] == [size]


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
        (refused(site.url, "nobody's"), Unauthorized, "is not known"),
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
