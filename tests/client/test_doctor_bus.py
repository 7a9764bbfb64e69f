"""What `holdall doctor` says about bus, ports, certificates and other nodes."""

import socket
import time
from functools import partial
from pathlib import Path

import pytest

from holdall.bus.system import Facts, found
from holdall.client.doctor_bus import bus_findings, peer_findings
from holdall.model import frames
from holdall.node.configured import RHO_PPM, Settings
from holdall.node.identity import identity_of
from holdall.node.settings import parse_settings


def configured(folder: Path, text: str = "", *, ttl_max: str = "5m") -> Settings:
    return parse_settings(
        f'[node]\nname = "lab-1"\nlisten = "off"\n{text}\n[defaults]\nttl_max = "{ttl_max}"\n', state=folder
    )


def said(settings: Settings, *, runs: bool = False) -> dict[str, tuple[str, str]]:
    return {one.about: (one.state, one.text) for one in bus_findings(settings, runs=runs)}


def member(folder: Path, port: int = 4222) -> Settings:
    """A node that has founded a system."""
    key = identity_of(folder)
    facts = Facts(protocol="chain", ttl_max_ms=300_000, rho_ppm=RHO_PPM)
    found(folder / "bus", key, "lab-1", facts, listen=("127.0.0.1", port), hosts=("127.0.0.1",))
    return configured(folder, f'[bus]\nlisten = "127.0.0.1:{port}"')


def test_a_node_alone_hears_how_it_could_be_joined_and_nothing_else(tmp_path: Path) -> None:
    assert said(configured(tmp_path)) == {
        "bus": ("ok", 'this node stands alone. To let others join: [bus] listen = "0.0.0.0:4222"')
    }
    assert list(tmp_path.iterdir()) == []


def test_before_the_first_start_program_and_ports_are_looked_at(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        settings = configured(tmp_path, f'[bus]\nlisten = "127.0.0.1:{port}"')
        told = said(settings)
        assert told["ports"][0] == "error"
        assert told["ports"][1].startswith(f"port {port} is in use")
        assert told["nats-server"][0] == "ok"
        assert "ports" not in said(settings, runs=True)
    assert said(settings)["ports"][0] == "ok"


def test_a_program_that_is_none_is_named(tmp_path: Path) -> None:
    text = f'[bus]\nlisten = "127.0.0.1:4222"\nserver = "{tmp_path}/nothing"'
    assert said(configured(tmp_path, text))["nats-server"] == (
        "error",
        f"[bus].server = {tmp_path}/nothing: no program. Write the path of nats-server, or leave it out.",
    )


def test_a_member_hears_its_role_and_how_long_its_certificate_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = member(tmp_path)
    told = said(settings, runs=True)
    assert told["bus"][0] == "ok"
    assert "runs one of its servers; servers known: 1" in told["bus"][1]
    assert told["certificate"][0] == "ok"
    now = time.time()
    for years, state in ((29.95, "warning"), (31, "error")):
        monkeypatch.setattr(time, "time", partial(float, now + years * 365.25 * 86_400))
        assert said(settings, runs=True)["certificate"][0] == state


def test_system_wide_settings_that_differ_from_the_systems_are_an_error(tmp_path: Path) -> None:
    member(tmp_path)
    told = said(configured(tmp_path, '[bus]\nlisten = "127.0.0.1:4222"', ttl_max="1m"))
    assert told["bus"][0] == "error"
    assert "ttl_max (ms) is 60000 here and 300000 in the system" in told["bus"][1]


def test_a_login_at_somebody_elses_servers_is_read(tmp_path: Path) -> None:
    servers = '[bus]\nservers = ["nats://a:4222"]\n'
    assert said(configured(tmp_path, servers))["creds"][0] == "warning"
    creds = tmp_path / "x.creds"
    settings = configured(tmp_path, f'{servers}creds = "{creds}"')
    assert said(settings)["creds"] == ("error", f"{creds} is not there. See: holdall nats-config")
    creds.write_text("x")
    assert "Close it with: chmod 600" in said(settings)["creds"][1]
    creds.chmod(0o600)
    assert "no NATS credentials file" in said(settings)["creds"][1]


def peers(*known: frames.KnownNode) -> list[tuple[str, str, str]]:
    row = frames.NodeRow("lab-1", 7, "0.1", 0, "serving", 0, pools=0, units=0, leases=0, waiting=0)
    listing = frames.Listing(1, nodes=(row,), known=known)
    return [(one.about, one.state, one.text) for one in peer_findings(listing, "0.1")]


def test_other_nodes_are_counted_and_silent_ones_named_with_what_to_do() -> None:
    assert peers() == []
    assert peers(
        frames.KnownNode("lab-2", "u2", "serving", version="0.1"),
        frames.KnownNode("lab-3", "u3", "silent", address="10.0.0.7:4222", silent_ms=40_000),
        frames.KnownNode("lab-4", "u4", "stopped"),
    ) == [
        ("peers", "ok", "1 heard: lab-2"),
        (
            "peers",
            "warning",
            (
                "lab-3 (10.0.0.7:4222) has been silent for 40 s: does it run, and does its bus? "
                "If it never comes back: holdall forget lab-3"
            ),
        ),
        ("peers", "ok", "1 stopped: lab-4"),
    ]


def test_names_that_clash_and_other_releases_are_told() -> None:
    told = peers(
        frames.KnownNode("lab-1", "u2", "draining", version="0.1"),
        frames.KnownNode("lab-3", "u3", "serving", version="0.2"),
    )
    assert [(about, state) for about, state, _ in told] == [
        ("peers", "ok"),
        ("names", "error"),
        ("versions", "warning"),
    ]
    assert "holdall forget ID; u2" in told[1][2]
    assert told[2][2] == "this is 0.1; others run: lab-3 0.2"
