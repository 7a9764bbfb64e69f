"""The bus of one node, whole: its own server if it runs one, the port for joining, and its connection."""

import asyncio
import ssl
from pathlib import Path

import msgspec

from holdall.bus import claims, members
from holdall.bus.addresses import shown
from holdall.bus.certificates import client_context
from holdall.bus.identity import NodeKey
from holdall.bus.interface import OnFrame, OnState
from holdall.bus.log import Log
from holdall.bus.nats import NatsBus
from holdall.bus.server import Server
from holdall.bus.server_config import ServerConfig, config_text
from holdall.bus.system import CERTIFICATE, PRIVATE_KEY, System
from holdall.model.errors import BadConfig

NOTICE_S = 30.0
"""So often each node with a server tells all what it knows, beside telling each change at once."""


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


class OwnBus:
    """The bus of a system that runs its own servers; see `interface.Bus`."""

    def __init__(self, system: System, key: NodeKey, *, program: Path | None, log: Log) -> None:
        """Raises BadConfig when no nats-server is to be found though this node runs one."""
        self.system = system
        self._key = key
        self._log = log
        self._why = ""
        self._on_state: OnState | None = None
        self._told: asyncio.Task[None] | None = None
        self.server: Server | None = None
        if system.membership.listen is not None:
            self.server = Server(
                system.folder,
                system.membership.listen,
                program=program,
                config=self._config,
                tls=self._tls,
                log=log,
            )
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
        if self.server is not None:
            await self.server.start()
            self._told = asyncio.create_task(self._keep_telling(), name="bus notices")
        await self.nats.open(on_frame, self._state)

    def post(self, to: str, frame: bytes) -> None:
        self.nats.post(to, frame)

    async def close(self) -> None:
        if self._told is not None:
            self._told.cancel()
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

        False where this node runs no server, or when the node is unknown or shut out already.
        """
        if self.server is None or not self.system.members.revoke(node):
            return False
        self.system.save_members()
        self.server.reload()
        self._log.warning("a node was shut out of the bus", node=node)
        self._tell_all()
        return True

    def announce_members(self) -> None:
        """Tell all nodes now, after somebody joined."""
        self._tell_all()

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
                system=system.membership.system,
                listen=listen,
                hosts=own.hosts,
                operator=claims.operator_text(secrets.operator, 0),
                account=system.account,
                account_text=system.account_text(),
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
            self._tell_all()

    def _tell_all(self) -> None:
        if self.server is None:
            return
        self.nats.announce(members.pack(members.Notice(servers=self.system.membership.servers)))
        for notice in self.system.members.notices():
            self.nats.announce(members.pack(notice))

    def _on_notice(self, sender: str, body: bytes) -> None:
        system = self.system
        known = {entry.node: entry for entry in system.membership.servers}
        if sender not in known:
            return
        notice = members.unpack(body)
        if notice is None:
            self._log.warning("a notice that can't be read", sender=sender)
            return
        # A server speaks with certainty of itself only; of others it may know an old address.
        fresh = {
            entry.node: entry for entry in notice.servers if entry.node == sender or entry.node not in known
        }
        fresh.pop(system.membership.node, None)
        if fresh and len(known | fresh) <= members.SERVERS_MAX:
            system.set_servers(known | fresh)
        if self.server is not None and (notice.members or notice.revoked):
            revoked = len(system.members.revoked)
            if system.members.merge(notice):
                system.save_members()
                if len(system.members.revoked) != revoked:
                    self.server.reload()

    def _state(self, connected: bool, text: str) -> None:  # noqa: FBT001 (the shape of OnState)
        self._why = text
        if self._on_state is not None:
            self._on_state(connected, text)
