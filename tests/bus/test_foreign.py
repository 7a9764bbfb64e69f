"""A NATS cluster that somebody else runs: real nats-server, the user's accounts and credentials."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from bus.nodes import FACTS, HOST, Lines, free_port, no_frames, no_state, until

from holdall.bus import claims
from holdall.bus.entry import FOREIGN_SYSTEM, make_bus, nats_config_text
from holdall.bus.identity import NodeKey
from holdall.bus.keys import new_account_seed, new_operator_seed, new_seed, public_half, public_of
from holdall.bus.nats import NatsBus
from holdall.bus.subjects import may_ask_store, may_publish, may_subscribe, store_inbox
from holdall.model.errors import BadConfig

pytestmark = pytest.mark.system


class Theirs:
    """Somebody's server, with an account for holdall."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.operator, self.account = new_operator_seed(), new_account_seed()
        account, now = public_half(self.account), int(time.time())
        config = folder / "theirs.conf"
        config.write_text(
            f"listen: {HOST}:{self.port}\n"
            f"operator: {claims.operator_text(self.operator, now)}\n"
            "resolver: MEMORY\n"
            f"resolver_preload: {{ {account}: {claims.account_text(self.operator, account, now, {})} }}\n",
            encoding="ascii",
        )
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("nats-server"), "--config", config],
            stderr=subprocess.DEVNULL,
        )

    @property
    def url(self) -> str:
        return f"nats://{HOST}:{self.port}"

    def creds(self, name: str, permissions: dict[str, object]) -> Path:
        """A credentials file of a fresh login, as `nsc` writes them."""
        seed = new_seed()
        limits = {"subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2}
        rights = claims._signed(
            self.account, public_of(seed), name, int(time.time()), {**permissions, **limits}
        )
        path = self.folder / f"{name}.creds"
        path.write_text(
            f"-----BEGIN NATS USER JWT-----\n{rights}\n------END NATS USER JWT------\n\n"
            f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n",
            encoding="ascii",
        )
        path.chmod(0o600)
        return path


@contextlib.asynccontextmanager
async def theirs() -> AsyncGenerator[Theirs]:
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="hdbus") as folder:
        server = Theirs(Path(folder))
        try:
            yield server
        finally:
            server.process.kill()
            server.process.wait()


def printed_permissions(key: NodeKey) -> dict[str, object]:
    """What `holdall nats-config` prints for the node, read back as an administrator would."""
    text = nats_config_text([("lab-1", key.id)])
    publish, subscribe = re.findall(r"(?:publish|subscribe): \{ allow: (\[.*\]) \}", text)
    return {"pub": {"allow": json.loads(publish)}, "sub": {"allow": json.loads(subscribe)}}


def bus_of(server: Theirs, key: NodeKey, creds: Path, log: Lines) -> NatsBus:
    bus = make_bus(server.folder, key, name="lab-1", facts=FACTS, log=log, servers=[server.url], creds=creds)
    assert isinstance(bus, NatsBus)
    return bus


def test_with_the_printed_permissions_nodes_exchange_frames_and_nothing_is_warned_of() -> None:
    async def run() -> None:
        async with theirs() as server:
            keys = [NodeKey(new_seed()) for _ in range(2)]
            log, heard = Lines(), list[tuple[str, bytes]]()
            buses = [bus_of(server, key, server.creds(key.id, printed_permissions(key)), log) for key in keys]
            for bus in buses:
                await bus.open(lambda sender, frame: heard.append((sender, frame)), no_state)
            await until(lambda: all(bus.connected_to for bus in buses), "both are connected")
            buses[0].post(keys[1].id, b"hello")
            await until(lambda: heard, "it came")
            assert heard == [(keys[0].id, b"hello")]
            assert log.lines == []
            for bus in buses:
                await bus.close()

    asyncio.run(run())


def test_a_login_that_may_do_more_is_warned_of() -> None:
    async def run() -> None:
        async with theirs() as server:
            key = NodeKey(new_seed())
            log, heard = Lines(), list[bytes]()
            free = bus_of(
                server, key, server.creds("free", {"pub": {"allow": [">"]}, "sub": {"allow": [">"]}}), log
            )
            await free.open(lambda _sender, frame: heard.append(frame), no_state)
            await until(lambda: free.connected_to, "it is connected all the same")
            assert "publish in the name of another node" in log.text()
            assert "read what is for another node" in log.text()
            assert "holdall nats-config" in log.text()
            assert heard == []
            await free.close()

    asyncio.run(run())


def test_a_login_that_lacks_rights_says_so() -> None:
    async def run() -> None:
        async with theirs() as server:
            key, other = NodeKey(new_seed()), NodeKey(new_seed())
            states: list[tuple[bool, str]] = []
            wrong = bus_of(server, key, server.creds("wrong", printed_permissions(other)), Lines())
            await wrong.open(no_frames, lambda connected, text: states.append((connected, text)))
            await until(
                lambda: any("holdall nats-config" in text for _, text in states), "the next step is named"
            )
            assert [connected for connected, _ in states if connected] == []
            await wrong.close()

    asyncio.run(run())


def test_settings_that_can_not_work_are_errors_at_once(tmp_path: Path) -> None:
    key = NodeKey(new_seed())

    def made(servers: list[str], creds: Path | None, system: str = FOREIGN_SYSTEM) -> None:
        bus = make_bus(
            tmp_path, key, name="lab-1", facts=FACTS, log=Lines(), servers=servers, creds=creds, system=system
        )
        assert isinstance(bus, NatsBus)
        asyncio.run(bus.open(no_frames, no_state))

    with pytest.raises(BadConfig, match="there is no such file"):
        made(["nats://127.0.0.1:4"], tmp_path / "none")
    bad = tmp_path / "bad.creds"
    bad.write_text("nothing", encoding="ascii")
    bad.chmod(0o644)
    with pytest.raises(BadConfig, match="chmod 600"):
        made(["nats://127.0.0.1:4"], bad)
    bad.chmod(0o600)
    with pytest.raises(BadConfig, match="no NATS credentials file"):
        made(["nats://127.0.0.1:4"], bad)
    with pytest.raises(BadConfig, match="an address such as"):
        made(["http://127.0.0.1:4"], None)
    with pytest.raises(BadConfig, match="a name of letters"):
        made(["nats://127.0.0.1:4"], None, "Two Words")


def test_the_printed_permissions_are_those_of_the_systems_own_servers_and_of_the_table_of_leaders() -> None:
    key = NodeKey(new_seed())
    assert printed_permissions(key) == {
        "pub": {"allow": [*may_publish(FOREIGN_SYSTEM, key.id), *may_ask_store(FOREIGN_SYSTEM)]},
        "sub": {"allow": [*may_subscribe(FOREIGN_SYSTEM, key.id), store_inbox(key.id)]},
    }
    text = nats_config_text([("lab-1", key.id), ("lab-2", NodeKey(new_seed()).id)])
    assert text.count("permissions: {") == 2
