"""The bus of one node, whole: its own server if it runs one, the port for joining, and its connection."""

import asyncio
import secrets as randomness
import ssl
from collections.abc import Callable
from pathlib import Path

import msgspec

from holdall.bus import claims, members
from holdall.bus.addresses import shown
from holdall.bus.certificates import client_context
from holdall.bus.identity import NodeKey
from holdall.bus.interface import OnFrame, OnState
from holdall.bus.join_code import VALID_S
from holdall.bus.join_port import JoinPort
from holdall.bus.log import Log
from holdall.bus.nats import NatsBus
from holdall.bus.server import Server
from holdall.bus.server_config import ServerConfig, config_text
from holdall.bus.system import CERTIFICATE, PRIVATE_KEY, System
from holdall.model.errors import BadConfig, Refused

NOTICE_S = 10.0
"""So often each node with a server says which servers there are, and a digest of the members, beside each change."""


class BusStatus(msgspec.Struct, frozen=True):
    """For `doctor`, the log and pages."""

    system: str
    connected_to: str | None
    why: str
    """Text of the last change of the connection."""
    servers: tuple[str, ...]
    """Addresses of the servers that this node knows."""
    listen: str | None
    server_pid: int | None
    server_problem: str
    """Why this node's own server does not run; empty when it does, or when there is none."""
    server_starts: int
    posted: int
    heard: int
    dropped: int


def anybody(name: str, node: str) -> str:
    """No objection to any name."""
    del name, node
    return ""


class OwnBus:
    """The bus of a system that runs its own servers; see `interface.Bus`."""

    def __init__(
        self,
        system: System,
        key: NodeKey,
        *,
        program: Path | None,
        log: Log,
        may_join: Callable[[str, str], str] = anybody,
    ) -> None:
        """`may_join` (name, id): why a node that wants to join can't have this name; "" when it can.

        Raises BadConfig when no nats-server is to be found though this node runs one.
        """
        self.system = system
        self._key = key
        self._instance = f"-{randomness.token_hex(4)}"
        self._log = log
        self._why = ""
        self._on_state: OnState | None = None
        self._told: asyncio.Task[None] | None = None
        self.server: Server | None = None
        self._port: JoinPort | None = None
        self._may_repeat = True
        """Whether a difference of members may be answered with all of them; once per round."""
        if system.membership.listen is not None:
            self.server = Server(
                system.folder,
                system.membership.listen,
                program=program,
                config=self._config,
                tls=self._tls,
                log=log,
            )
            self._port = JoinPort(system, log=log, may_join=may_join, joined=self._tell_all)
        self.nats = NatsBus(
            system.membership.system,
            key.id,
            servers=system.urls,
            login=lambda: system.login(key),
            log=log,
            on_notice=self._on_notice,
            on_connected=self._tell_all,
        )

    async def open(self, on_frame: OnFrame, on_state: OnState) -> None:
        self._on_state = on_state
        try:
            if self.server is not None and self._port is not None:
                await self._port.open()
                await self.server.start()
                self._told = asyncio.create_task(self._keep_telling(), name="bus notices")
            await self.nats.open(on_frame, self._state)
        except BaseException:
            await self.close()
            raise

    def post(self, to: str, frame: bytes) -> None:
        self.nats.post(to, frame)

    async def close(self) -> None:
        if self._told is not None:
            self._told.cancel()
        if self._port is not None:
            await self._port.close()
        await self.nats.close()
        if self.server is not None:
            await self.server.stop()

    def status(self) -> BusStatus:
        """As it is now."""
        server, listen = self.server, self.system.membership.listen
        return BusStatus(
            system=self.system.membership.system,
            connected_to=self.nats.connected_to,
            why=self._why,
            servers=tuple(self.system.urls()),
            listen=shown(*listen) if listen is not None else None,
            server_pid=server.pid if server is not None else None,
            server_problem=server.problem if server is not None else "",
            server_starts=server.starts if server is not None else 0,
            posted=self.nats.posted,
            heard=self.nats.heard,
            dropped=self.nats.dropped,
        )

    def revoke(self, node: str) -> bool:
        """Shut a forgotten node out: its rights are void at this node's server from now on, and soon at the others.

        Call it at every node that learns of the forgetting. False when nothing had to be done here (this node runs no
        server and the other ran none; it is unknown, or shut out already).
        """
        system = self.system
        had_server = self._drop_servers({node})
        if self.server is None or not system.members.revoke(node):
            return had_server
        system.save_members()
        self.server.reload()
        self._log.warning("a node was shut out of the bus", node=node)
        self._tell_all()
        return True

    def join_code(self, valid_s: int = VALID_S) -> str:
        """A fresh code for one node, good for so many seconds. Raises Refused on a node that runs no server."""
        if self._port is None:
            raise Refused(
                "this node runs no server of the bus, so nobody can join through it. Ask one of: "
                + ", ".join(sorted({url.removeprefix("tls://") for url in self.system.urls()}))
            )
        return self._port.issue(valid_s)

    def _config(self) -> str:
        system = self.system
        secrets, listen = system.need_secrets(), system.membership.listen
        if listen is None:
            raise BadConfig("this node runs no server of the bus.")
        own = next(entry for entry in system.membership.servers if entry.node == system.membership.node)
        return config_text(
            ServerConfig(
                folder=system.folder,
                node=system.membership.node,
                instance=self._instance,
                system=system.membership.system,
                listen=listen,
                hosts=own.hosts,
                operator=claims.operator_text(secrets.operator, 0),
                accounts=system.account_texts(),
                system_account=secrets.system_account,
                routes_password=secrets.routes,
                others=tuple(
                    (host, entry.port)
                    for entry in system.membership.servers
                    if entry.node != own.node
                    for host in entry.hosts
                ),
            )
        )

    def _tls(self) -> ssl.SSLContext:
        folder = self.system.folder
        return client_context(self.system.authority, folder / CERTIFICATE, folder / PRIVATE_KEY)

    async def _keep_telling(self) -> None:
        while True:
            await asyncio.sleep(NOTICE_S)
            self._tell_servers()
            self._may_repeat = True

    def _tell_servers(self) -> None:
        notice = members.Notice(servers=self.system.membership.servers, digest=self.system.members.digest())
        self.nats.announce(members.pack(notice))

    def _tell_all(self) -> None:
        if self.server is None:
            return
        self._tell_servers()
        for notice in self.system.members.notices():
            self.nats.announce(members.pack(notice))

    def _on_notice(self, sender: str, body: bytes) -> None:
        known = {entry.node: entry for entry in self.system.membership.servers}
        if sender not in known:
            return
        notice = members.unpack(body)
        if notice is None:
            self._log.warning("a notice that can't be read", sender=sender)
            return
        self._learn_servers(sender, known, notice.servers)
        if self.server is None:  # only those who let nodes in need to know all of them
            notice = msgspec.structs.replace(notice, members=())
        voids = len(self.system.members.revoked)
        if self.system.members.merge(notice):
            self.system.save_members()
        if len(self.system.members.revoked) != voids:
            self._drop_servers({node for node in known if self.system.members.is_shut_out(node)})
            if self.server is not None:
                self.server.reload()
        if (
            self.server is not None
            and self._may_repeat
            and notice.digest not in {b"", self.system.members.digest()}
        ):
            self._may_repeat = False
            self._tell_all()

    def _learn_servers(
        self, sender: str, known: dict[str, members.ServerEntry], told: tuple[members.ServerEntry, ...]
    ) -> None:
        """A server speaks with certainty of itself only; of the others it may know an old address."""
        own = self.system.membership.node
        fresh = {
            entry.node: entry
            for entry in told
            if entry.node != own
            and (entry.node == sender or entry.node not in known)
            and not self.system.members.is_shut_out(entry.node)
        }
        if fresh and len(known | fresh) <= members.SERVERS_MAX and self.system.set_servers(known | fresh):
            self._log.info("servers of the bus", known=len(self.system.membership.servers))

    def _drop_servers(self, gone: set[str]) -> bool:
        kept = {
            one.node: one
            for one in self.system.membership.servers
            if one.node not in gone or one.node == self.system.membership.node
        }
        return self.system.set_servers(kept)

    def _state(self, connected: bool, text: str) -> None:  # noqa: FBT001 (the shape of OnState)
        self._why = text
        if self._on_state is not None:
            self._on_state(connected, text)
