"""The table of leaders is lost again and again under ten live leases: a real server, and a location's machines in memory."""

import asyncio

import pytest
from bus.jetstream import jetstream
from bus.nodes import until
from bus.test_leadership_kv import candidates, one_leads
from leases.negotiation.town import NET, TTL, Town, lease, offered, wish

from holdall.leases.negotiation import messages as m
from holdall.machine.contract import Address

pytestmark = pytest.mark.system
HOSTS = ("h1", "h2")


def manager(me: str) -> Address:
    return Address(me, "location")


def leads(town: Town, me: str, epoch: int) -> None:
    """As a node does when it is told that it leads."""
    town.send(Address(me, "election"), manager(me), m.Lead(epoch))


def test_a_bucket_that_is_deleted_under_ten_leases_ends_none_and_all_are_found() -> None:
    async def run() -> None:
        town = Town()
        names = ("a", "b", "c")
        for name in names:
            town.location(manager(name))
        for host in HOSTS:
            town.host(
                host,
                {"ttl": TTL, "net.tx": NET},
                {"net.tx": 100_000},
                managers=[manager(one) for one in names],
            )
        async with jetstream() as server, candidates(3, server) as them:
            leader = await one_leads(them)
            epoch = leader.epoch
            leads(town, leader.me, epoch)
            holders = [Address(f"x{number}", "agent") for number in range(10)]
            granted: dict[Address, str] = {}
            for holder in holders:
                document = offered(
                    town.ask(manager(leader.me), wish(duration=60_000, net__tx=15_000), holder)
                )
                answer = town.ask(manager(leader.me), m.AcceptLease(document.lease, 1), holder)
                granted[holder] = lease(answer).lease
            for turn in range(4):
                if turn % 2 == 0:
                    await server.delete_bucket()
                else:
                    server.kill()
                    server.forget()
                    await server.start()
                await until(lambda: any(one.epoch > epoch for one in them), "there is a new epoch")  # noqa: B023
                leader = await one_leads(them)
                assert leader.epoch > epoch
                epoch = leader.epoch
                leads(town, leader.me, epoch)
                town.passes(10_000)
                for holder, name in granted.items():
                    known = lease(town.ask(manager(leader.me), m.GetStatus(name), holder))
                    assert (known.state, known.remaining_ms) == ("active", 50_000 - 10_000 * turn)
            assert sorted(granted.values()) == sorted(
                one for host in HOSTS for one in town.host_manager(host).book.active()
            )
            # A manager that led before is refused by each host that has heard of this one.
            late = next(one.me for one in them if one is not leader)
            town.location_manager(manager(late)).epoch = epoch - 1
            town.location_manager(manager(late)).is_deposed = False
            answer = town.ask(manager(leader.me), wish("new", net__tx=1), holders[0])
            assert isinstance(answer, m.Offer)
            (refused,) = town.send(holders[1], manager(late), wish("new", net__tx=1))
            assert refused == m.Declined("new", "stale_lm")

    asyncio.run(run())
