"""The join port of a node with a server: checks who wants in, and hands out rights and a certificate."""

import asyncio
import contextlib
from collections.abc import Callable

import msgspec

from holdall.bus import certificates, claims
from holdall.bus.addresses import WILDCARDS, is_loopback
from holdall.bus.identity import verify
from holdall.bus.join_code import CodeBook
from holdall.bus.join_wire import (
    REQUEST_BYTES_MAX,
    VERSION,
    BadJoin,
    JoinRequest,
    Sorry,
    Welcome,
    decode_request,
    read_frame,
    write_frame,
)
from holdall.bus.keys import node_id
from holdall.bus.log import Log, Seldom
from holdall.bus.members import MEMBERS_MAX
from holdall.bus.sockets import find_owner
from holdall.bus.system import CERTIFICATE, PRIVATE_KEY, SERVERS_WANTED, System
from holdall.model.errors import BadConfig

CODES = "codes.json"
GUESTS_MAX = 16
"""Connections at a time; more are closed at once."""
ANEW = "Ask for a new one where this one was printed."


class JoinPort:
    """Listens two ports above the server's."""

    def __init__(
        self, system: System, *, log: Log, may_join: Callable[[str, str], str], joined: Callable[[], None]
    ) -> None:
        """`may_join` (name, id) says why a node can't have this name, else ""; `joined` is called after each joining."""
        self._system = system
        self._log = log
        self._warn = Seldom(log.warning)
        self._may_join = may_join
        self._joined = joined
        self._codes = CodeBook(system.folder / CODES)
        self._fingerprint = certificates.fingerprint(system.authority.encode())
        self._server: asyncio.Server | None = None
        self._guests: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Raises BadConfig when the port is taken."""
        folder = self._system.folder
        host, port = self._address()
        tls = certificates.server_context(folder / CERTIFICATE, folder / PRIVATE_KEY)
        try:
            self._server = await asyncio.start_server(
                self._guest, host or None, port, ssl=tls, ssl_handshake_timeout=5.0, ssl_shutdown_timeout=2.0
            )
        except OSError as problem:
            raise BadConfig(
                f"port {port} (joining the system) can't be used: {problem.strerror or problem}{find_owner(port)}. "
                f"End that program, or set [bus].listen to another port than {port - 2}."
            ) from None

    async def close(self) -> None:
        """Nobody can join here any more."""
        if self._server is not None:
            self._server.close()
        for task in list(self._guests):
            task.cancel()
        if self._guests:
            await asyncio.wait(self._guests, timeout=3.0)
        if self._server is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3.0):
                    await self._server.wait_closed()

    def issue(self, valid_s: int) -> str:
        """A fresh join code."""
        own = next(one for one in self._system.membership.servers if one.node == self._system.membership.node)
        return self._codes.issue(self._fingerprint, own.hosts, own.port + 2, valid_s)

    def answer(self, request: JoinRequest) -> Welcome | Sorry:
        """The decision, and all that follows from it. A refusal changes nothing."""
        node = node_id(request.public)
        if objection := self._objection(request, node):
            self._warn("joining refused", name=request.name, node=node, why=objection)
            return Sorry(objection)
        system, secrets = self._system, self._system.need_secrets()
        entry = request.server if request.server is not None and self._wants_server(request, node) else None
        try:
            certificate = certificates.issue(
                system.authority.encode(),
                secrets.authority_key.encode(),
                request.wish,
                node,
                addresses=entry.hosts if entry is not None else None,
            )
        except ValueError as problem:
            return Sorry(f"the request for a certificate is unsound: {problem}.")
        self._codes.use(request.secret, request.public)
        member = system.members.add(
            node=node, public=request.public, name=request.name, server=entry is not None
        )
        system.save_members()
        if entry is not None:
            system.set_servers({one.node: one for one in (*system.membership.servers, entry)})
        self._log.info("a node joined", name=request.name, node=node, runs_server=entry is not None)
        self._joined()
        return Welcome(
            system=system.membership.system,
            rights=claims.user_text(
                secrets.account, request.public, system.membership.system, node, member.since_s
            ),
            certificate=certificate.decode(),
            servers=system.membership.servers,
            secrets=secrets if entry is not None else None,
            members=system.members.latest(),
        )

    def _objection(self, request: JoinRequest, node: str) -> str:
        if request.version != VERSION:
            return f"this system joins by version {VERSION}, not {request.version}: install the same holdall there."
        if not verify(request.public, request.signed(self._fingerprint), request.proof):
            return "the request is not signed by the key that it names."
        if objection := self._codes.objection(request.secret, request.public):
            return f"{objection}. {ANEW}"
        if difference := request.facts.differs(self._system.membership.facts):
            return f"{difference}; all nodes of a system share it. Set [defaults] as the system has it, then join again."
        if node == self._system.membership.node:
            return "this is the key of the node that you want to join: give the other one a state folder of its own."
        if len(self._system.members.known) >= MEMBERS_MAX:
            return f"the system has {MEMBERS_MAX} members already."
        return self._may_join(request.name, node)

    def _wants_server(self, request: JoinRequest, node: str) -> bool:
        entry = request.server
        if entry is None or entry.node != node or self._system.members.is_shut_out(node):
            return False
        servers = self._system.membership.servers
        mine = next(one for one in servers if one.node == self._system.membership.node)
        if is_loopback(entry.hosts) and not is_loopback(mine.hosts):
            return False  # nobody else could reach it
        others = [
            one for one in servers if one.node != node and not self._system.members.is_revoked(one.node)
        ]
        return len(others) < SERVERS_WANTED

    def _address(self) -> tuple[str, int]:
        listen = self._system.membership.listen
        if listen is None:
            raise BadConfig("this node runs no server of the bus, so nobody can join through it.")
        host, port = listen
        return ("" if host in WILDCARDS and host != "0.0.0.0" else host), port + 2  # noqa: S104 (compared)

    async def _guest(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None or len(self._guests) >= GUESTS_MAX:
            writer.transport.abort()
            return
        self._guests.add(task)
        try:
            await self._talk(reader, writer)
        except (OSError, TimeoutError):
            pass  # it went away
        except BadJoin as problem:
            self._warn("joining refused", why=str(problem), guest=str(writer.get_extra_info("peername")))
        except BadConfig as problem:  # a full disk, a changed file
            self._log.error("joining failed", why=problem.text)
            with contextlib.suppress(OSError, TimeoutError):
                await write_frame(writer, msgspec.msgpack.encode(Sorry(f"it failed there: {problem.text}")))
        finally:
            self._guests.discard(task)
            writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await write_frame(writer, self._system.authority.encode())
        try:
            body = await read_frame(reader, REQUEST_BYTES_MAX)
        except BadJoin:
            if reader.at_eof():
                return  # it only wanted to see the authority
            raise
        await write_frame(writer, msgspec.msgpack.encode(self.answer(decode_request(body))))
