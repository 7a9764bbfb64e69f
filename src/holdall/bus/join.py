"""Joining a system: the side of the new node. Nothing is written before the system has said yes."""

import asyncio
import contextlib
import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdall.bus import certificates, join_code
from holdall.bus.addresses import PORT_MAX, WILDCARDS, is_loopback, reachable, shown
from holdall.bus.files import make_private_folder, write_secret, write_value
from holdall.bus.identity import NodeKey
from holdall.bus.join_wire import (
    ANSWER_BYTES_MAX,
    VERSION,
    BadJoin,
    JoinRequest,
    Sorry,
    Welcome,
    decode_answer,
    read_frame,
    write_frame,
)
from holdall.bus.members import Members, ServerEntry
from holdall.bus.sockets import find_owner, is_free
from holdall.bus.system import (
    AUTHORITY,
    CERTIFICATE,
    HOME,
    MEMBERS,
    MEMBERSHIP,
    PRIVATE_KEY,
    RIGHTS,
    SECRETS,
    Facts,
    Membership,
    issue_own,
)
from holdall.model.errors import BadConfig, Refused, Unreachable

CONNECT_S = 5.0
AUTHORITY_BYTES_MAX = 8 * 1024


async def join_system(
    text: str,
    folder: Path,
    key: NodeKey,
    *,
    name: str,
    facts: Facts,
    listen: tuple[str, int] | None,
    advertise: Sequence[str] = (),
) -> Membership:
    """Join with a code; afterwards `make_bus` for the state folder `folder` gives the bus.

    `listen` (host, port): where this node could run a server; it does if the system has fewer than three.
    Raises BadSpec (no whole code), BadConfig (this node can't), Unreachable, Refused (the system says no).
    """
    code = join_code.decode(text)
    home = folder / HOME
    if (home / MEMBERSHIP).exists():
        raise BadConfig(
            f"this node belongs to a system already. To leave it, stop the node and remove {home}."
        )
    if listen is not None:
        _need_ports(listen)
    key_pem = certificates.new_key()
    reasons: list[str] = []
    for host in code.hosts:
        try:
            authority = await _authority(host, code)
            answer = await _ask(
                host,
                code,
                authority,
                key,
                name=name,
                facts=facts,
                key_pem=key_pem,
                listen=listen,
                advertise=advertise,
            )
        except (OSError, TimeoutError, BadJoin) as problem:
            reasons.append(f"{shown(host, code.port)}: {_told(problem)}")
            continue
        if isinstance(answer, Sorry):
            raise Refused(f"the system does not let this node in: {answer.text}")
        return _settle(home, key, answer, authority, facts=facts, key_pem=key_pem, listen=listen)
    raise Unreachable(
        f"nobody to join with: {'; '.join(reasons)}. Check that the node that printed the code runs, and that the "
        f"firewall lets ports {code.port - 2} to {code.port} through."
    )


def suggested_listen(text: str) -> tuple[str, int] | None:
    """Where a node could listen that joins with this code and whose settings say nothing; None: better nowhere.

    Nowhere when the system lives on one host only, or when the ports are taken here. Raises BadSpec.
    """
    code = join_code.decode(text)
    port = code.port - 2
    anywhere = "0.0.0.0"  # noqa: S104 (every connection needs a certificate of the system)
    if is_loopback(code.hosts) or not all(is_free(anywhere, port + more) for more in range(3)):
        return None
    return anywhere, port


async def _authority(host: str, code: join_code.JoinCode) -> str:
    """The certificate of the system that the code means; whoever answers, it can only be the right one."""
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(host, code.port, ssl=certificates.fetching_context())
    try:
        shown_to_us = (await read_frame(reader, AUTHORITY_BYTES_MAX)).decode("ascii", errors="replace")
    finally:
        writer.transport.abort()
    try:
        fits = certificates.fingerprint(shown_to_us.encode()) == code.fingerprint
    except ValueError:
        fits = False
    if not fits:
        raise BadJoin("another system answers there than the one of the code")
    return shown_to_us


async def _ask(
    host: str,
    code: join_code.JoinCode,
    authority: str,
    key: NodeKey,
    *,
    name: str,
    facts: Facts,
    key_pem: bytes,
    listen: tuple[str, int] | None,
    advertise: Sequence[str],
) -> Welcome | Sorry:
    async with asyncio.timeout(CONNECT_S):
        reader, writer = await asyncio.open_connection(
            host,
            code.port,
            ssl=certificates.client_context(authority),
            server_hostname=certificates.SERVER_NAME,
        )
    try:
        await read_frame(reader, AUTHORITY_BYTES_MAX)
        own_address = str(writer.get_extra_info("sockname")[0])
        request = JoinRequest(
            version=VERSION,
            secret=code.secret,
            public=key.public,
            name=name,
            facts=facts,
            wish=certificates.request(key.id, key_pem),
            server=_offer(key.id, listen, advertise, own_address),
            proof=bytes(64),
        )
        signed = msgspec.structs.replace(request, proof=key.sign(request.signed(code.fingerprint)))
        await write_frame(writer, msgspec.msgpack.encode(signed))
        return decode_answer(await read_frame(reader, ANSWER_BYTES_MAX))
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                await writer.wait_closed()


def _offer(
    node: str, listen: tuple[str, int] | None, advertise: Sequence[str], own_address: str
) -> ServerEntry | None:
    """Where others would reach this node; the address that reached the system is the likeliest."""
    if listen is None:
        return None
    hosts = tuple(advertise) or reachable(listen[0])
    if not advertise and listen[0] in WILDCARDS:
        hosts = tuple(dict.fromkeys((own_address, *hosts)))[:8]
    return ServerEntry(node=node, hosts=hosts, port=listen[1])


def _settle(
    home: Path,
    key: NodeKey,
    welcome: Welcome,
    authority: str,
    *,
    facts: Facts,
    key_pem: bytes,
    listen: tuple[str, int] | None,
) -> Membership:
    make_private_folder(home)
    own = next((one for one in welcome.servers if one.node == key.id), None)
    write_secret(home / AUTHORITY, authority)
    write_secret(home / RIGHTS, welcome.rights)
    members = Members()
    members.merge(welcome.members)
    write_value(home / MEMBERS, members)
    if welcome.secrets is not None and own is not None:
        write_value(home / SECRETS, welcome.secrets)
        issue_own(home, authority, welcome.secrets, key.id, own.hosts)
    else:
        write_secret(home / PRIVATE_KEY, key_pem)
        write_secret(home / CERTIFICATE, welcome.certificate + authority)
    membership = Membership(
        system=welcome.system,
        node=key.id,
        public=key.public,
        facts=facts,
        listen=listen if welcome.secrets is not None else None,
        servers=welcome.servers,
    )
    write_value(home / MEMBERSHIP, membership)
    return membership


def _need_ports(listen: tuple[str, int]) -> None:
    host, port = listen
    if not 0 < port <= PORT_MAX:
        raise BadConfig(
            f"[bus].listen: the port must be between 1 and {PORT_MAX}, as two more ports follow it."
        )
    for number in (port, port + 1, port + 2):
        if not is_free(host, number):
            raise BadConfig(
                f"port {number} is in use{find_owner(number)}; a node that others reach uses [bus].listen and the two "
                "ports after it. End that program, or take another port."
            )


def _told(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer"
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"who answers there is no server of the system of the code ({problem.verify_message})"
    if isinstance(problem, OSError):
        return problem.strerror or str(problem)
    return str(problem)
