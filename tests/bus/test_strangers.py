"""Who is no member, or says what it may not say, against the real nats-server: refused, and logged."""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncGenerator, Callable
from functools import partial

import nats
import nats.errors
import pytest
from bus.nodes import HOST, Node, system_of, until
from nats.aio.client import Client
from nats.aio.msg import Msg

from holdall.bus import certificates, claims, members
from holdall.bus.identity import NodeKey
from holdall.bus.keys import new_account_seed, new_seed
from holdall.bus.subjects import FRAME_BYTES_MAX, subject

pytestmark = pytest.mark.system


def tls_of(node: Node) -> ssl.SSLContext:
    """As that node presents itself to servers."""
    return certificates.client_context(
        (node.home / "authority.pem").read_text(encoding="ascii"),
        node.home / "tls.pem",
        node.home / "tls.key",
    )


def rights_of(node: Node) -> str:
    return (node.home / "rights.jwt").read_text(encoding="ascii")


@contextlib.asynccontextmanager
async def client(
    node: Node, *, tls: ssl.SSLContext | None = None, rights: str | None = None, key: NodeKey | None = None
) -> AsyncGenerator[tuple[Client, list[str]]]:
    """A hand-made client of a node's server, and what the server complains about. Raises what connecting raises."""
    import base64

    complaints: list[str] = []

    async def complain(problem: Exception) -> None:
        complaints.append(str(problem))

    def signed(nonce: str) -> bytes:
        assert key is not None
        return base64.b64encode(key.sign(nonce.encode()))

    async with asyncio.timeout(10):
        connection = await nats.connect(  # pyright: ignore[reportUnknownMemberType]
            f"tls://{HOST}:{node.bus_port}",
            tls=tls or tls_of(node),
            tls_hostname=certificates.SERVER_NAME,
            tls_handshake_first=True,
            allow_reconnect=False,
            error_cb=complain,
            user_jwt_cb=None if rights is None else lambda: bytearray(rights.encode()),
            signature_cb=None if key is None else signed,
        )
    try:
        yield connection, complaints
    finally:
        await connection.close()


async def refused(
    node: Node, logged: str, connect: Callable[[], "contextlib.AbstractAsyncContextManager[object]"]
) -> None:
    """No connection comes about, and the node's log says that somebody tried."""
    node.log.lines.clear()
    with pytest.raises((OSError, nats.errors.Error, TimeoutError)):
        async with connect():
            pass
    await until(lambda: logged in node.log.text(), f"the log says {logged!r}: {node.log.text()}")


def test_without_tls_a_stranger_gets_not_even_a_greeting() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            for offset in (0, 1, 2):
                reader, writer = await asyncio.open_connection(HOST, node.bus_port + offset)
                writer.write(b"CONNECT {}\r\nPING\r\n")
                with contextlib.suppress(ConnectionError):
                    async with asyncio.timeout(20):
                        answer = await reader.read()
                    assert b"INFO" not in answer
                    assert b"PONG" not in answer
                writer.close()

    asyncio.run(run())


def test_without_a_certificate_of_this_system_nobody_connects() -> None:
    async def run() -> None:
        async with system_of(1) as (node,), system_of(1) as (foreign,):
            authority = (node.home / "authority.pem").read_text(encoding="ascii")
            bare = certificates.client_context(authority)
            await refused(node, "TLS handshake error", lambda: client(node, tls=bare))
            alien = certificates.client_context(authority, foreign.home / "tls.pem", foreign.home / "tls.key")
            await refused(node, "TLS handshake error", lambda: client(node, tls=alien))

    asyncio.run(run())


def test_a_certificate_alone_is_not_enough() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            await refused(node, "authentication error", lambda: client(node))
            rights = rights_of(node)
            other = NodeKey(new_seed())
            await refused(node, "authentication error", lambda: client(node, rights=rights, key=other))

    asyncio.run(run())


def test_rights_signed_by_anybody_else_are_void() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            system, thief = node.bus.system.membership.system, NodeKey(new_seed())
            forged = claims.user_text(new_account_seed(), thief.public, system, node.id, int(time.time()))
            await refused(node, "authentication error", lambda: client(node, rights=forged, key=thief))
            head, body, _ = claims.user_text(
                node.bus.system.need_secrets().account, thief.public, system, thief.id, int(time.time())
            ).split(".")
            glued = f"{head}.{body}.{rights_of(node).split('.')[2]}"
            await refused(node, "authentication error", lambda: client(node, rights=glued, key=thief))

    asyncio.run(run())


def test_a_member_can_neither_speak_as_another_nor_read_what_is_for_another() -> None:
    async def run() -> None:
        async with system_of(3) as (one, two, three):
            system = one.bus.system.membership.system
            three.heard.clear()
            async with client(two, rights=rights_of(two), key=two.key) as (liar, complaints):
                overheard: list[bytes] = []

                async def hear(message: Msg) -> None:
                    overheard.append(message.data)

                for wish in (f"hd.{system}.{three.id}.*", f"hd.{system}.>", ">", f"hd.*.{three.id}.{one.id}"):
                    await liar.subscribe(wish, cb=hear)  # pyright: ignore[reportUnknownMemberType]
                await until(lambda: sum("subscription" in one for one in complaints) == 4, "four complaints")
                await liar.publish(subject(system, three.id, one.id), b"forged")
                await liar.publish(f"hd.{system}.{three.id}.{one.id}.more", b"forged")
                await until(lambda: sum("publish" in one for one in complaints) == 2, "two complaints")
                one.bus.post(three.id, b"for three only")
                await until(lambda: three.heard, "it came")
                await liar.flush()
                assert three.heard == [(one.id, b"for three only")]
                assert overheard == []
            await until(lambda: two.log.text().count("refused what a member may not do") == 6, "it is logged")

    asyncio.run(run())


def test_a_frame_over_the_limit_costs_the_connection() -> None:
    async def run() -> None:
        async with system_of(1) as (node,):
            async with client(node, rights=rights_of(node), key=node.key) as (fat, _):
                fat._max_payload = 10 * FRAME_BYTES_MAX  # a client that does not hold to what the server says
                await fat.publish(
                    subject(node.bus.system.membership.system, node.id, node.id), bytes(FRAME_BYTES_MAX + 1)
                )
                await until(lambda: fat.is_closed, "the server ended the connection")
            await until(lambda: "maximum payload" in node.log.text().lower(), "it is logged")

    asyncio.run(run())


def test_a_members_certificate_does_not_make_it_a_server() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            one, fourth = nodes[0], nodes[3]
            one.log.lines.clear()
            _, writer = await asyncio.open_connection(HOST, one.bus_port + 1)
            transport = await asyncio.get_running_loop().start_tls(
                writer.transport,
                writer.transport.get_protocol(),
                tls_of(fourth),
                server_hostname=certificates.SERVER_NAME,
            )
            assert transport is not None
            name = one.bus.system.membership.system
            transport.write(
                b'CONNECT {"verbose":false,"pedantic":false,"user":"servers","pass":"guess","tls_required":true,'
                b'"name":"rogue","cluster":"%s"}\r\nRS+ $G hd.>\r\nPING\r\n' % name.encode()
            )
            await until(lambda: "authentication error" in one.log.text(), f"refused: {one.log.text()}")
            await until(transport.is_closing, "the server ended the connection")
            transport.abort()

    asyncio.run(run())


def test_a_member_without_a_server_can_not_pose_as_one() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            fourth = nodes[3]
            posing = certificates.server_context(fourth.home / "tls.pem", fourth.home / "tls.key")
            server = await asyncio.start_server(lambda _reader, _writer: None, HOST, 0, ssl=posing)
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection(
                    HOST, port, ssl=tls_of(nodes[0]), server_hostname=certificates.SERVER_NAME
                )
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_notices_are_believed_from_nodes_with_a_server_only() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            one, fourth = nodes[0], nodes[3]
            invented = NodeKey(new_seed())
            lie = members.Notice(
                servers=(members.ServerEntry(node=invented.id, hosts=("192.0.2.1",), port=4222),),
                revoked={one.key.public: int(time.time()) + 1000},
            )
            before = one.bus.system.membership.servers
            fourth.bus.nats.announce(members.pack(lie))
            fourth.bus.post(one.id, b"after the lie")
            await until(
                lambda: (fourth.id, b"after the lie") in one.heard, "it came, and so the lie before it"
            )
            assert one.bus.system.membership.servers == before
            assert one.bus.system.members.revoked == {}

    asyncio.run(run())


def test_all_files_of_the_bus_are_their_owners_alone() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            for node in nodes:
                assert node.home.stat().st_mode & 0o777 == 0o700
                modes = {path.name: path.stat().st_mode & 0o777 for path in node.home.iterdir()}
                assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
            assert "secrets.json" not in {path.name for path in nodes[3].home.iterdir()}

    asyncio.run(run())


def test_a_forgotten_node_is_shut_out_by_every_server_and_can_come_back_with_a_new_code() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            one, fourth = nodes[0], nodes[3]
            assert one.bus.revoke(fourth.id) is True
            assert one.bus.revoke(fourth.id) is False
            await until(lambda: not fourth.is_connected, "it lost its connection")
            await until(lambda: "Authorization Violation" in fourth.states[-1][1], "no server lets it in")
            servers = nodes[:3]
            await until(
                lambda: all(one.bus.system.members.is_revoked(fourth.id) for one in servers), "all know"
            )
            for node in servers:
                await refused(
                    node, "authentication", partial(client, node, rights=rights_of(fourth), key=fourth.key)
                )
            await fourth.close()
            for path in fourth.home.iterdir():
                path.unlink()
            await fourth.join(one.bus.join_code())
            await fourth.open()
            await until(lambda: fourth.is_connected, "it is back")

    asyncio.run(run())
