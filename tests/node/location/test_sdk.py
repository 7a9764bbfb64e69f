"""`hub.location(…)` for asyncio and threads: offers, leases that are renewed, losses that are told, refusals as errors."""

import asyncio
from collections.abc import Iterator

import pytest
from node.location.town import Client, die, net, settled, start
from node.together import Together, together

import holdall
from holdall.client.location_sync import NegotiatedLease
from holdall.model import location_frames as f
from holdall.model.errors import (
    BadSpec,
    LeaseLost,
    NeverSatisfiable,
    NotGranted,
    NotHolder,
)


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        start(made, "lab1", net("100kB/s", "first"))
        settled(made, "lab1", hosts=1)
        yield made


def url(nodes: Together) -> str:
    return f"unix://{nodes.nodes['lab1'].settings.socket}"


def state(nodes: Together, lease: str) -> str:
    with Client(nodes, "lab1") as client:
        answer = client.ask(f.AskStatus(lease))
        assert isinstance(answer, f.LeaseIs)
        return answer.document.state


def test_a_lease_lives_as_long_as_its_body_and_is_given_back_after_it(nodes: Together) -> None:
    async def body() -> str:
        async with holdall.connect(url(nodes)) as hub:
            prague = hub.location("prague")
            (template,) = await prague.templates()
            assert template.terms["net.tx"].max == 100_000
            async with prague.lease({"net.tx": "50KiB/s"}, duration="1s") as lease:
                assert lease.granted("net.tx") == 51_200
                while lease.document.revision < 4:
                    assert 0 < lease.seconds_left <= 1
                    lease.check()
                    await asyncio.sleep(0.05)
            with pytest.raises(NotHolder):
                lease.check()
            return lease.id

    assert state(nodes, asyncio.run(body())) == "released"


def test_an_offer_is_accepted_or_declined(nodes: Together) -> None:
    async def body() -> None:
        async with holdall.connect(url(nodes)) as hub:
            prague = hub.location("prague")
            offer = await prague.request({"net.tx": 60_000}, duration=60)
            assert offer.document.term("net.tx").granted == 60_000
            other = await prague.request({"net.tx": 60_000}, duration=60)
            assert other.document.term("net.tx").fraction == "2/3"
            await other.decline()
            with pytest.raises(NotGranted, match="declined"):
                await other.accept()
            lease = await offer.accept()
            await lease.renew("90s")
            assert (lease.document.revision, lease.document.duration) == (2, 90_000)
            larger = await prague.request({"net.tx": 90_000}, duration=60, replaces=lease)
            assert (larger.document.lease, larger.document.revision) == (lease.id, 3)
            await lease.release()
            await lease.release()

    asyncio.run(body())


def test_the_body_is_cancelled_when_the_node_is_gone_for_longer_than_the_lease(nodes: Together) -> None:
    async def body() -> None:
        async with (
            holdall.connect(url(nodes)) as hub,
            hub.location("prague").lease({"net.tx": 1000}, duration="1s") as lease,
        ):
            await asyncio.to_thread(die, nodes, "lab1")
            try:
                await asyncio.sleep(30)
            finally:
                assert lease.lost.is_set()

    with pytest.raises(LeaseLost, match="not renewed in time"):
        asyncio.run(body())


def test_refusals_are_errors_of_their_kind(nodes: Together) -> None:
    async def body() -> None:
        async with holdall.connect(url(nodes)) as hub:
            prague = hub.location("prague")
            for terms, kind, text in (
                ({"net.tx": "1KB/s"}, BadSpec, "ambiguous"),
                ({"net.tx": 100_001}, NeverSatisfiable, "lab1 has no such net.tx"),
                ({"gpu": 1}, NeverSatisfiable, "lab1 has no such gpu"),
                ({}, BadSpec, "no term"),
            ):
                with pytest.raises(kind, match=text):
                    await prague.request(terms)
            with pytest.raises(BadSpec, match="is not asked for"):
                await prague.request({"net.tx": 5}, floors={"gpu": 1})
            with pytest.raises(NeverSatisfiable, match="known: prague"):
                await hub.location("brno").templates()
            await prague.lease({"net.tx": 100_000}, duration=600)
            with pytest.raises(NotGranted, match=r"nothing of net\.tx now"):
                await prague.request({"net.tx": 1})

    asyncio.run(body())


def test_the_blocking_twin_renews_from_a_thread_of_its_own(nodes: Together) -> None:
    with holdall.sync.connect(url(nodes)) as hub:
        prague = hub.location("prague")
        offer = prague.request({"net.tx": "10kB/s"}, duration="1s", floors={"net.tx": "5kB/s"})
        with offer.accept() as lease:
            assert isinstance(lease, NegotiatedLease)
            assert not lease.lost.wait(2.5)
            lease.check()
            assert lease.document.revision >= 4
        assert state(nodes, lease.id) == "released"
        lost = prague.lease({"net.tx": "10kB/s"}, duration="1s")
        die(nodes, "lab1")
        assert lost.lost.wait(20)
        with pytest.raises(LeaseLost, match="not renewed in time"):
            lost.check()
