"""Requests that may wait, at real nodes: in line until something is given back, until their time is over, or nobody asks."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from node.location.town import Client, net, settled, start
from node.together import Together, pool, together
from node.waiting import until

import holdall
from holdall.leases.negotiation.location import LocationManager
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseRequest, RequestedTerm
from holdall.node.figures import Figures
from holdall.parties.location.candidate import Candidate
from holdall.parties.location.messages import LOCATION


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        start(made, "lab1", net("100kB/s", "first") + pool("gpu", "gpu-1"))
        settled(made, "lab1", hosts=1)
        yield made


def gpu(name: str, wait_ms: int = 0) -> LeaseRequest:
    return LeaseRequest(name, {"gpu": RequestedTerm(1)}, duration=60_000, wait_ms=wait_ms)


def line(nodes: Together) -> int:
    """How many stand in it."""
    loop = nodes.nodes["lab1"]._loop
    assert loop is not None
    candidate = loop.host.parts[LOCATION]
    assert isinstance(candidate, Candidate)
    assert isinstance(candidate.manager, LocationManager)
    return len(candidate.manager.line.waiters)


def test_a_request_waits_in_line_until_the_unit_is_given_back(nodes: Together) -> None:
    with nodes.client("lab1") as holder, ThreadPoolExecutor() as threads:
        held = holder.lease("gpu:1")

        async def body() -> str:
            async with (
                holdall.connect(f"unix://{nodes.nodes['lab1'].settings.socket}") as hub,
                hub.location("prague").lease({"gpu": 1}, duration=60, wait="25s") as lease,
            ):
                return lease.document.terms[0].units[0].name

        waiting = threads.submit(asyncio.run, body())
        until(lambda: line(nodes) == 1, "it stands in line")
        holder.release(held.key)
        assert waiting.result() == "gpu-1"
        assert line(nodes) == 0


def told_waiting(nodes: Together, name: str) -> dict[str, int]:
    """As the node tells its HTTP server, for the metrics."""
    figures = nodes.nodes[name].health()["figures"]
    assert isinstance(figures, Figures)
    return figures.location_waiting


def test_the_node_that_leads_tells_how_many_wait_in_line(nodes: Together) -> None:
    start(nodes, "lab2", net("100kB/s", "first"))
    leader = settled(nodes, "lab1", "lab2", hosts=2)
    (other,) = {"lab1", "lab2"} - {leader}
    with nodes.client("lab1") as holder, Client(nodes, other) as client:
        held = holder.lease("gpu:1")
        assert (told_waiting(nodes, leader), told_waiting(nodes, other)) == ({"prague": 0}, {})
        asked = f.AskOffer("prague", gpu("r1", wait_ms=60_000))
        client.talk._conversation._write(frames.Negotiate(1, f.pack(asked)))
        until(lambda: told_waiting(nodes, leader) == {"prague": 1}, "one waits")
        assert told_waiting(nodes, other) == {}
        holder.release(held.key)
        until(lambda: told_waiting(nodes, leader) == {"prague": 0}, "it has an offer")


def test_a_wait_that_is_over_is_a_refusal_and_parts_do_not_wait(nodes: Together) -> None:
    with nodes.client("lab1") as holder, Client(nodes, "lab1") as client:
        holder.lease("gpu:1")
        refused = client.offer(gpu("r1", wait_ms=300))
        assert isinstance(refused, f.NoOffer)
        assert refused.reason == "not_free"
        parts = client.ask(
            f.AskTogether((f.AskOffer("prague", gpu("r2", 300)), f.AskOffer("prague", gpu("r3"))))
        )
        assert isinstance(parts, f.NoOffer)
        assert parts.reason == "request.wait"


def told_to(client: Client) -> f.ToClient:
    """The next that the node says about a location."""
    frame = client.talk._conversation._read()
    assert isinstance(frame, frames.Negotiated), frame
    return f.read_answer(frame.body)


def test_who_wants_to_hear_is_told_where_it_stands_and_gives_up_by_name(nodes: Together) -> None:
    with nodes.client("lab1") as holder, Client(nodes, "lab1") as waiting, Client(nodes, "lab1") as other:
        holder.lease("gpu:1")
        asked = f.AskOffer("prague", gpu("r1", wait_ms=600_000), take=True, tell=True)
        waiting.talk._conversation._write(frames.Negotiate(1, f.pack(asked)))
        assert told_to(waiting) == f.InLine(1, 0, "not_free", "gpu", {"gpu": 0})
        assert other.ask(f.GiveUp("r2")) == f.NoOffer("unknown", text="no such request of yours waits")
        cancelled = f.NoOffer("cancelled", text="it was given up")
        assert other.ask(f.GiveUp("r1")) == cancelled
        while isinstance(told := told_to(waiting), f.InLine):
            pass
        assert told == cancelled
        until(lambda: line(nodes) == 0, "it has left the line")
        assert other.ask(f.GiveUp("r1")) == f.NoOffer("unknown", text="no such request of yours waits")


def test_an_offer_that_is_given_up_is_declined(nodes: Together) -> None:
    with Client(nodes, "lab1") as client:
        offer = client.offer(gpu("r1"))
        assert isinstance(offer, f.OfferIs)
        assert isinstance(client.ask(f.GiveUp("r1")), f.NoOffer)
        assert client.ask(f.ListOffers()) == f.Offers(())
        again = client.ask(f.AcceptOffer(offer.document.lease))
        assert again == f.Over(offer.document.lease, "cancelled")
        until(lambda: isinstance(client.offer(gpu("r2")), f.OfferIs), "the unit is free")


def test_what_nobody_waits_for_any_more_is_not_taken(nodes: Together) -> None:
    with nodes.client("lab1") as holder:
        held = holder.lease("gpu:1")
        gone = Client(nodes, "lab1")
        asked = f.AskOffer("prague", gpu("r1", wait_ms=600_000), take=True)
        gone.talk._conversation._write(frames.Negotiate(1, f.pack(asked)))
        until(lambda: line(nodes) == 1, "it stands in line")
        gone.__exit__()
        until(lambda: line(nodes) == 0, "it has left the line, long before its time is over")
        holder.release(held.key)
    with nodes.client("lab1") as client:
        until(lambda: sum(row.free for row in client.listing("pools", "gpu").pools) == 1, "the unit is free")
