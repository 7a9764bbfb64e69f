"""Before a lease ends that no renewal comes for its holder is told, and the lease's host what became of that."""

import asyncio
from collections.abc import Iterator

import pytest
from node.location.test_policies_obeyed import ALLOW, obeying, reloaded
from node.location.town import Client
from node.together import Together, together
from node.waiting import until, until_async

import holdall
from holdall.model import location_frames as f
from holdall.model.errors import BadSpec
from holdall.model.terms import BeforeEnd, LeaseDocument

DENIES = '[policy]\naccess = "deny"\n'


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def url(nodes: Together) -> str:
    return f"unix://{nodes.nodes['lab1'].settings.socket}"


def status(nodes: Together, lease: str) -> LeaseDocument:
    with Client(nodes, "lab1") as client:
        answer = client.ask(f.AskStatus(lease))
        assert isinstance(answer, f.LeaseIs)
        return answer.document


def test_a_task_and_a_thread_are_told_before_the_end_and_not_while_it_is_renewed(nodes: Together) -> None:
    paths = obeying(nodes, file=ALLOW)
    with holdall.sync.connect(url(nodes)) as hub:
        in_thread = hub.location("prague").lease({"net.tx": 10}, duration="2s", before_end=0.4)

        async def body() -> tuple[str, bool]:
            async with holdall.connect(url(nodes)) as hub:
                prague = hub.location("prague")
                lease = await prague.lease({"net.tx": 10}, duration="2s", before_end="400ms")
                await until_async(lambda: lease.document.revision >= 3, "it is renewed twice")
                was_told = lease.ending.is_set() or in_thread.ending.is_set()
                await asyncio.to_thread(reloaded, nodes, paths["file"], DENIES)
                await asyncio.wait_for(lease.ending.wait(), 20)
                await asyncio.wait_for(lease.lost.wait(), 20)
                return lease.id, was_told

        lease, was_told = asyncio.run(body())
        assert not was_told
        assert in_thread.ending.wait(20)
        assert in_thread.lost.wait(20)
    for name in (lease, in_thread.id):
        until(lambda name=name: status(nodes, name).state == "expired", "it has run out")  # type: ignore[misc]
        found = status(nodes, name)
        assert (found.before_end, found.before_end_outcome) == (BeforeEnd(400), "its holder was told")


def test_a_renewal_after_all_takes_it_back(nodes: Together) -> None:
    paths = obeying(nodes, file=ALLOW)
    with (
        holdall.sync.connect(url(nodes)) as hub,
        hub.location("prague").lease({"net.tx": 10}, duration="8s", before_end="2s") as lease,
    ):
        reloaded(nodes, paths["file"], DENIES)
        assert lease.ending.wait(20)
        reloaded(nodes, paths["file"], ALLOW)
        until(lambda: not lease.ending.is_set(), "a renewal has come")
        lease.check()


def test_a_lead_that_can_not_be_is_refused_before_anything_is_asked(nodes: Together) -> None:
    obeying(nodes, file=ALLOW)
    with holdall.sync.connect(url(nodes)) as hub:
        prague = hub.location("prague")
        with pytest.raises(BadSpec, match="nobody can be told in no time"):
            prague.request({"net.tx": 10}, before_end=0)
        with pytest.raises(BadSpec, match="more than a quarter of the lease's duration"):
            prague.request({"net.tx": 10}, duration="2s", before_end="501ms")
