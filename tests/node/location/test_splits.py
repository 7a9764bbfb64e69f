"""A lease is split at nodes in one process: over the wire, by asyncio and by threads, and in the host's account."""

import asyncio
from collections.abc import Iterator

import pytest
from node.location.town import Client, net, settled, start, wants
from node.together import Together, together

import holdall
from holdall.client.conversation import Conversation
from holdall.client.splitting import new_split
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import BadSpec, NotHolder, Refused


@pytest.fixture
def nodes() -> Iterator[Together]:
    """Two hosts, of which the second has nothing to give; whoever is at both is of both."""
    with together() as made:
        start(made, "lab1", net("100kB/s"))
        start(made, "lab2", "")
        settled(made, "lab1", "lab2", hosts=1)
        yield made


def user(nodes: Together) -> str:
    """Who runs these tests."""
    with Client(nodes, "lab1") as client:
        offer = client.offer(wants("who", 1))
        assert isinstance(offer, f.OfferIs)
        client.ask(f.DeclineOffer(offer.document.lease))
        return offer.document.holder.partition("@")[0]


def url(nodes: Together, node: str) -> str:
    return f"unix://{nodes.nodes[node].settings.socket}"


def granted(answer: f.ToClient) -> object:
    assert isinstance(answer, f.LeaseIs), answer
    return answer.document.term("net.tx").granted


def test_a_part_is_another_holders_who_renews_it_and_each_gives_back_his_own(nodes: Together) -> None:
    other = f"{user(nodes)}@lab2"
    with Client(nodes, "lab1") as one, Client(nodes, "lab2") as two:
        taken = one.offer(wants("r1", 60_000), take=True)
        assert isinstance(taken, f.LeaseIs), taken
        lease = taken.document.lease
        order = new_split(lease, {"net.tx": "25kB/s"}, other)
        answer = one.ask(order)
        assert isinstance(answer, f.LeaseParted), answer
        part = answer.part
        assert (part.holder, part.host, part.term("net.tx").granted) == (other, "lab1", 25_000)
        assert part.remaining_ms <= answer.rest.document.remaining_ms
        assert 0 < answer.rest.valid_for_ms < 20_000
        again = one.ask(order)
        assert isinstance(again, f.LeaseParted)
        assert again.part.lease == part.lease
        assert one.ask(f.AskStatus(part.lease)) == f.Over(part.lease, "unknown")
        assert granted(one.ask(f.RenewLease(lease))) == 35_000
        assert granted(two.ask(f.RenewLease(part.lease, 20_000))) == 25_000
        held = two.ask(f.HoldLeases((part.lease,)))
        assert isinstance(held, f.Held)
        assert held.leases[0].valid_for_ms > 0
        assert one.ask(f.EndLease(lease)) == f.Over(lease, "released")
        assert granted(two.ask(f.AskStatus(part.lease))) == 25_000
        assert two.ask(f.EndLease(part.lease)) == f.Over(part.lease, "released")
    with Conversation(str(nodes.nodes["lab1"].settings.socket)) as node:
        rows = node.listing(frames.Ask(node.number(), "usage", arg="end")).usage
    assert {row.group: row.stretches for row in rows} == {"changed": 1, "renewed": 2, "released": 2}


def test_refusals_say_what_to_write_and_change_nothing(nodes: Together) -> None:
    me = user(nodes)
    with Client(nodes, "lab1") as client:
        taken = client.offer(wants("r1", 60_000), take=True)
        assert isinstance(taken, f.LeaseIs), taken
        lease = taken.document.lease
        for amounts, reason in (({"net.tx": 60_000}, "split.amount"), ({"gpu": 1}, "split.term")):
            answer = client.ask(f.SplitLease(lease, amounts, f"{me}@lab2", "a" * 16))
            assert isinstance(answer, f.NoOffer)
            assert (answer.reason, bool(answer.text)) == (reason, True)
        with pytest.raises(BadSpec, match="no node of"):
            client.ask(f.SplitLease(lease, {"net.tx": 1}, f"{me}@lab9", "a" * 16))
        missing = lease.rpartition("-")[0] + "-9.9"
        gone = client.ask(f.SplitLease(missing, {"net.tx": 1}, f"{me}@lab2", "b" * 16))
        assert gone == f.Over(missing, "unknown")
        status = client.ask(f.AskStatus(lease))
        assert isinstance(status, f.LeaseIs)
        assert (granted(status), status.document.revision) == (60_000, 1)


@pytest.mark.parametrize(
    ("terms", "to", "request_id"),
    [
        ({}, "ann@lab2", ""),
        ({"net.tx": "5 KB/s"}, "ann@lab2", ""),
        ({"net.tx": 0}, "ann@lab2", ""),
        ({"NET": 1}, "ann@lab2", ""),
        ({"net.tx": 1}, "ann", ""),
        ({"net.tx": 1}, "@lab2", ""),
        ({"net.tx": 1}, "ann@LAB", ""),
        ({"net.tx": 1}, "a\x1bn@lab2", ""),
        ({"net.tx": 1}, "ann@lab2", "short"),
        ({"net.tx": 1}, "ann@lab2", "NotSmallAtAll"),
    ],
)
def test_what_is_not_written_as_it_must_be_is_not_sent(
    terms: dict[str, int | str], to: str, request_id: str
) -> None:
    with pytest.raises(BadSpec):
        new_split("L-prague-x-1.1", terms, to, request_id)


def test_a_lease_is_split_from_python_and_the_part_is_attached(nodes: Together) -> None:
    other = f"{user(nodes)}@lab2"

    async def body() -> None:
        async with holdall.connect(url(nodes, "lab1")) as hub, holdall.connect(url(nodes, "lab2")) as second:
            async with hub.location("prague").lease({"net.tx": 60_000}, duration="20s") as lease:
                part = await lease.split({"net.tx": "20kB/s"}, to=other)
                assert (lease.granted("net.tx"), part.holder) == (40_000, other)
                with pytest.raises(BadSpec, match="a part is less"):
                    await lease.split({"net.tx": 40_000}, to=other)
                theirs = await second.location("prague").attach(part.lease, duration="20s")
                with pytest.raises(BadSpec):
                    await second.location("brno").attach(part.lease, duration="20s")
                with pytest.raises((NotHolder, Refused)):
                    await hub.location("prague").attach(part.lease, duration="20s")
            assert theirs.granted("net.tx") == 20_000
            theirs.check()
            await theirs.release()

    asyncio.run(body())
    with holdall.sync.connect(url(nodes, "lab1")) as hub, holdall.sync.connect(url(nodes, "lab2")) as second:
        with hub.location("prague").lease({"net.tx": 60_000}, duration="20s") as lease:
            part = lease.split({"net.tx": 15_000}, to=other, request="r" * 8)
            assert part.lease == lease.split({"net.tx": 15_000}, to=other, request="r" * 8).lease
            assert lease.granted("net.tx") == 45_000
            theirs = second.location("prague").attach(part.lease, duration="20s")
        assert theirs.granted("net.tx") == 15_000
        theirs.release()
