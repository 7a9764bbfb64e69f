"""Several requests as one, over several hosts and locations: all become leases, or none does and nothing is left held."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from node.location.town import Client, net, settled, start, wants
from node.together import Together, pool, together
from node.waiting import until

import holdall
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import NeverSatisfiable
from holdall.model.terms import LeaseRequest, RequestedTerm


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        for name in ("lab1", "lab2"):
            start(made, name, net("100kB/s", "first") + pool("gpu", f"{name}-gpu"))
        settled(made, "lab1", "lab2", hosts=2)
        yield made


def gpu(name: str) -> LeaseRequest:
    return LeaseRequest(name, {"gpu": RequestedTerm(1)}, duration=60_000)


def ask(nodes: Together, *requests: LeaseRequest, location: str = "prague") -> f.ToClient:
    with Client(nodes, "lab1") as client:
        return client.ask(f.AskTogether(tuple(f.AskOffer(location, one) for one in requests)))


def free_units(nodes: Together) -> int:
    with nodes.client("lab1") as client:
        return sum(row.free for row in client.listing("pools", "gpu").pools)


def waits_for_a_turn(nodes: Together) -> bool:
    with nodes.client("lab1") as client:
        return bool(client.listing("queue", "location.turn").waits)


def test_two_parts_lie_on_two_hosts_and_are_leases_together(nodes: Together) -> None:
    answer = ask(nodes, gpu("r1"), gpu("r2"))
    assert isinstance(answer, f.LeasesAre), answer
    assert sorted(one.document.host for one in answer.leases) == ["lab1", "lab2"]
    assert all(one.document.state == "active" and one.valid_for_ms > 0 for one in answer.leases)
    assert free_units(nodes) == 0


def test_when_one_part_is_not_to_be_had_nothing_is_left_of_the_others(nodes: Together) -> None:
    answer = ask(nodes, gpu("r1"), gpu("r2"), gpu("r3"))
    assert isinstance(answer, f.NoOffer), answer
    assert (answer.reason, answer.term) == ("not_free", "gpu")
    until(lambda: free_units(nodes) == 2, "all units are free")
    answer = ask(nodes, gpu("r4"), wants("r5", 100_001))
    assert isinstance(answer, f.NoOffer)
    assert answer.reason == "no_host_supports"
    until(lambda: free_units(nodes) == 2, "all units are free")
    with Client(nodes, "lab1") as client:
        assert client.ask(f.ListOffers()) == f.Offers(())
    assert isinstance(ask(nodes, gpu("r6"), gpu("r7")), f.LeasesAre)


def test_requests_with_one_id_or_none_are_refused_as_a_whole(nodes: Together) -> None:
    same = ask(nodes, gpu("r1"), gpu("r1"))
    assert isinstance(same, f.NoOffer)
    assert same.reason == "request.id"
    empty = ask(nodes, gpu("r2"), LeaseRequest("r3", {}))
    assert isinstance(empty, f.NoOffer)
    assert empty.reason == "request.no_terms"
    assert free_units(nodes) == 2


def test_of_several_that_want_the_same_at_once_one_has_all_and_none_a_part(nodes: Together) -> None:
    async def body() -> list[object]:
        async with holdall.connect(f"unix://{nodes.nodes['lab1'].settings.socket}") as hub:
            prague = hub.location("prague")
            parts = [{"gpu": 1}, {"gpu": 1}]
            found = await asyncio.gather(
                *(prague.lease_all(parts, duration=60) for _ in range(4)), return_exceptions=True
            )
            with pytest.raises(NeverSatisfiable):
                await prague.lease_all([{"tpu": 1}, {"gpu": 1}])
            granted = [one for one in found if isinstance(one, list)]
            assert len(granted) == 1, found
            for leases in granted:
                assert sorted(lease.document.host for lease in leases) == ["lab1", "lab2"]
                for lease in leases:
                    await lease.release()
            return list(found)

    found = asyncio.run(body())
    assert all(isinstance(one, list | holdall.NotGranted) for one in found), found
    until(lambda: free_units(nodes) == 2, "all units are free")


def test_what_nobody_waits_for_any_more_is_given_back(nodes: Together) -> None:
    client = Client(nodes, "lab1")
    question = f.AskTogether(tuple(f.AskOffer("prague", gpu(name)) for name in ("r1", "r2")))
    conversation = client.talk._conversation
    conversation._write(frames.Negotiate(1, f.pack(question)))
    client.__exit__()
    until(lambda: free_units(nodes) == 2, "all units are free")


def test_who_holds_the_turns_is_waited_for_and_no_part_is_held_meanwhile(nodes: Together) -> None:
    with nodes.client("lab1") as holder:
        turns = [holder.lease(f"location.turn,@{name}") for name in ("lab1", "lab2")]
        with ThreadPoolExecutor() as pool_:
            asked = pool_.submit(ask, nodes, gpu("r1"), gpu("r2"))
            until(lambda: waits_for_a_turn(nodes), "it waits like any other claim")
            assert free_units(nodes) == 2
            for turn in turns:
                holder.release(turn.key)
            assert isinstance(asked.result(), f.LeasesAre)
    until(lambda: not waits_for_a_turn(nodes), "its turn is over")
    with nodes.client("lab1") as client:
        assert sum(row.free for row in client.listing("pools", "location.turn").pools) == 2
