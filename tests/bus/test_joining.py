"""Joining over the real port, with the real server behind it."""

import asyncio
import random
from pathlib import Path

import msgspec
import pytest
from bus.nodes import FACTS, HOST, Node, all_hear_all, free_port, system_of, until

from holdall.bus import certificates
from holdall.bus.addresses import shown
from holdall.bus.identity import NodeKey
from holdall.bus.join import suggested_listen
from holdall.bus.join_code import JoinCode, decode, encode
from holdall.bus.join_wire import read_frame
from holdall.bus.keys import new_seed
from holdall.model.errors import BadConfig, BadSpec, Refused, Unreachable

pytestmark = pytest.mark.system


def stranger(one: Node, name: str) -> Node:
    return Node(one.folder.parent / name, name)


def test_a_stolen_code_used_twice_is_refused_and_logged_and_the_first_user_may_ask_again() -> None:
    async def run() -> None:
        async with system_of(1) as (one,):
            code = one.bus.join_code()
            owner, thief = stranger(one, "lab-2"), stranger(one, "lab-3")
            await owner.join(code)
            with pytest.raises(Refused, match=r"the code was used by another node.*Ask for a new one"):
                await thief.join(code)
            assert not thief.home.exists()
            assert "joining refused" in one.log.text()
            assert thief.id in one.log.text()
            assert set(one.bus.system.members.known) == {one.id, owner.id}
            # As if the answer had been lost on its way.
            for path in owner.home.iterdir():
                path.unlink()
            await owner.join(code)
            await owner.open()
            await until(lambda: owner.is_connected, "it is in")
            await owner.close()

    asyncio.run(run())


def test_a_tampered_unknown_or_expired_code_lets_nobody_in() -> None:
    async def run() -> None:
        async with system_of(1) as (one,):
            guest = stranger(one, "lab-2")
            code = one.bus.join_code()
            with pytest.raises(BadSpec):
                await guest.join(code[:-9] + ("a" if code[-9] != "a" else "b") + code[-8:])
            parts = decode(code)
            guessed = encode(msgspec.structs.replace(parts, secret=bytes(16)))
            with pytest.raises(Refused, match="unknown code"):
                await guest.join(guessed)
            with pytest.raises(Refused, match="expired"):
                await guest.join(one.bus.join_code(valid_s=0))
            # Another system answers at the address: the secret is not even sent to it.
            misled = encode(msgspec.structs.replace(parts, fingerprint=bytes(16)))
            with pytest.raises(Unreachable, match="another system answers there"):
                await guest.join(misled)
            assert not guest.home.exists()
            assert one.log.text().count("joining refused") == 2

    asyncio.run(run())


def test_who_shows_the_right_authority_but_is_no_server_of_it_gets_no_secret() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            one, fourth = nodes[0], nodes[3]
            got: list[bytes] = []

            async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                authority = one.bus.system.authority.encode()
                writer.write(len(authority).to_bytes(4, "big") + authority)
                got.append(await reader.read(100))
                writer.close()

            posing = certificates.server_context(fourth.home / "tls.pem", fourth.home / "tls.key")
            server = await asyncio.start_server(pose, HOST, 0, ssl=posing)
            parts = decode(one.bus.join_code())
            trap = encode(msgspec.structs.replace(parts, port=server.sockets[0].getsockname()[1]))
            with pytest.raises(Unreachable, match="no server of the system"):
                await stranger(one, "lab-9").join(trap)
            assert got in ([], [b""])
            server.close()
            await server.wait_closed()

    asyncio.run(run())


def test_other_facts_or_a_taken_name_are_refused_and_the_code_stays_good() -> None:
    async def run() -> None:
        async with system_of(1) as (one,):
            guest = stranger(one, "lab-2")
            code = one.bus.join_code()
            with pytest.raises(Refused, match="protocol is ordered here and chain in the system"):
                await guest.join(code, facts=msgspec.structs.replace(FACTS, protocol="ordered"))
            with pytest.raises(Refused, match="clock bound"):
                await guest.join(code, facts=msgspec.structs.replace(FACTS, rho_ppm=1))
            await guest.join(code)
            await one.close()

            def taken(name: str, node: str) -> str:
                return f"the name {name} is taken" if node != guest.id else ""

            await one.open(may_join=taken)
            second = stranger(one, "lab-3")
            fresh = one.bus.join_code()
            with pytest.raises(Refused, match="the name lab-3 is taken"):
                await second.join(fresh)
            await one.close()
            await one.open()
            await second.join(fresh)

    asyncio.run(run())


def test_only_the_first_three_get_the_secrets_and_a_node_that_nobody_can_reach_never() -> None:
    async def run() -> None:
        async with system_of(1) as (one,):
            plain = stranger(one, "plain")
            await plain.join(one.bus.join_code())  # it offers no address
            assert not (plain.home / "secrets.json").exists()
            for name in ("b", "c", "d"):
                node = stranger(one, name)
                await node.join(one.bus.join_code(), (HOST, free_port()))
                assert (node.home / "secrets.json").exists() == (name != "d")
            assert len(one.bus.system.membership.servers) == 3

    asyncio.run(run())


def test_a_member_can_not_join_again_and_taken_ports_are_told_before_anything_happens() -> None:
    async def run() -> None:
        async with system_of(2) as (one, two):
            code = one.bus.join_code()
            with pytest.raises(BadConfig, match="belongs to a system already"):
                await two.join(code)
            guest = stranger(one, "lab-3")
            with pytest.raises(BadConfig, match=f"port {one.bus_port} is in use"):
                await guest.join(code, (HOST, one.bus_port))
            with pytest.raises(BadConfig, match="between 1 and 65533"):
                await guest.join(code, (HOST, 65_534))
            await guest.join(code)
            again = stranger(one, "lab-4")
            again.key = one.key
            with pytest.raises(Refused, match="the key of the node that you want to join"):
                await again.join(one.bus.join_code())

    asyncio.run(run())


def test_a_node_without_a_server_says_where_codes_come_from() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            with pytest.raises(Refused) as caught:
                nodes[3].bus.join_code()
            assert all(shown(HOST, node.bus_port) in caught.value.text for node in nodes[:3])

    asyncio.run(run())


def test_nobody_there_is_told_with_the_addresses_and_the_ports_to_open(tmp_path: Path) -> None:
    async def run() -> None:
        port = free_port()
        code = encode(
            JoinCode(fingerprint=bytes(16), secret=bytes(16), hosts=(HOST, "localhost"), port=port + 2)
        )
        with pytest.raises(Unreachable) as caught:
            await Node(tmp_path, "lab-1").join(code)
        assert shown(HOST, port + 2) in caught.value.text
        assert f"ports {port} to {port + 2}" in caught.value.text
        assert suggested_listen(code) is None

    asyncio.run(run())


def test_garbage_on_the_join_port_harms_nobody() -> None:
    async def run() -> None:
        async with system_of(1) as (one,):
            tls = certificates.fetching_context()
            luck = random.Random(7)
            for round_number in range(30):
                reader, writer = await asyncio.open_connection(HOST, one.bus_port + 2, ssl=tls)
                assert (await read_frame(reader, 8192)).startswith(b"-----BEGIN CERTIFICATE")
                body = luck.randbytes(luck.randrange(200))
                size = luck.choice((len(body), 2**32 - 1, len(body) + 1))
                writer.write(size.to_bytes(4, "big") + body)
                if round_number % 3:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                else:
                    writer.transport.abort()
                writer.close()
            guest = stranger(one, "lab-2")
            await guest.join(one.bus.join_code())
            assert set(one.bus.system.members.known) == {one.id, guest.id}
            assert "joining refused" in one.log.text()

    asyncio.run(run())


def test_a_forgotten_server_leaves_every_list_and_never_becomes_one_again() -> None:
    async def run() -> None:
        async with system_of(4) as nodes:
            one, two, third, fourth = nodes
            await third.close()
            for node in (one, two, fourth):
                node.bus.revoke(third.id)
            for node in (one, two, fourth):
                assert third.id not in {entry.node for entry in node.bus.system.membership.servers}
            await all_hear_all([one, two, fourth])
            assert third.id not in {entry.node for entry in fourth.bus.system.membership.servers}
            again = stranger(one, "again")
            again.key = third.key
            await again.join(one.bus.join_code(), (HOST, free_port()))
            assert not (again.home / "secrets.json").exists()
            fresh = stranger(one, "fresh")
            await fresh.join(one.bus.join_code(), (HOST, free_port()))
            assert (fresh.home / "secrets.json").exists()

    asyncio.run(run())


def test_what_a_server_missed_it_learns_from_a_difference_of_digests() -> None:
    async def run() -> None:
        async with system_of(2) as (one, two):
            silent, other = NodeKey(new_seed()), NodeKey(new_seed())
            two.bus.system.members.add(node=silent.id, public=silent.public, name="silent", server=False)
            one.bus.system.members.add(node=other.id, public=other.public, name="other", server=False)
            one.bus.system.members.revoke(other.id)
            two.bus._tell_servers()  # as it does every few seconds
            wanted = {one.id, two.id, silent.id, other.id}
            both = [node.bus.system.members for node in (one, two)]
            await until(lambda: all(set(one.known) == wanted for one in both), "both know all")
            await until(lambda: all(one.is_revoked(other.id) for one in both), "both know who is shut out")
            assert one.bus.system.members.digest() == two.bus.system.members.digest()

    asyncio.run(run())
