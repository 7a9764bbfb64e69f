"""Leases over units: negotiated ones hold what their pools' managers gave, with fences, and nothing is given twice."""

from collections.abc import Iterator

import msgspec
import pytest
from node.location.town import Client, die, net, settled, start
from node.together import Together, pool, together
from node.waiting import until

from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument, LeaseRequest, RequestedTerm

GPUS = pool("gpu", "0", "1", "2") + pool("fpga", "0") + pool("tester", "0", "1") + 'cooldown = "1h"\n'


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        start(made, "lab1", GPUS + net("100kB/s"))
        settled(made, "lab1", hosts=1)
        yield made


def wants(
    name: str, gpus: int, *, floor: int | None = None, replaces: str | None = None, duration: int = 60_000
) -> LeaseRequest:
    terms = {"gpu": RequestedTerm(gpus, floor), "net.tx": RequestedTerm(10_000)}
    return LeaseRequest(name, terms, duration=duration, replaces=replaces)


def taken(nodes: Together, request: LeaseRequest) -> LeaseDocument:
    with Client(nodes, "lab1") as client:
        answer = client.offer(request, take=True)
        assert isinstance(answer, f.LeaseIs), answer
        return answer.document


def units(document: LeaseDocument) -> dict[str, int]:
    """Unit -> fence."""
    return {one.name: one.fence for one in document.term("gpu").units}


def free(nodes: Together) -> int:
    with nodes.client("lab1") as client:
        (row,) = client.listing("pools", "gpu").pools
        return row.free


def status(nodes: Together, lease: str) -> LeaseDocument:
    with Client(nodes, "lab1") as client:
        answer = client.ask(f.AskStatus(lease))
        assert isinstance(answer, f.LeaseIs), answer
        return answer.document


def end(nodes: Together, lease: str) -> None:
    with Client(nodes, "lab1") as client:
        assert client.ask(f.EndLease(lease)) == f.Over(lease, "released")


def test_units_of_a_negotiated_lease_are_held_with_fences_that_grow(nodes: Together) -> None:
    document = taken(nodes, wants("r1", 2))
    held = units(document)
    assert len(held) == 2
    assert {one.node for one in document.term("gpu").units} == {"lab1"}
    with nodes.client("lab1") as client:
        (lease,) = client.listing("who").leases
        assert {one.name: one.fence for one in lease.units} == held
        assert lease.reason.startswith("negotiated for ")
        assert lease.reason.endswith("@lab1")
        client.claim("gpu:2", now=True)
        denied = client.next()
        assert isinstance(denied, frames.Denied)
        granted = client.lease("gpu:1")
        (other,) = granted.lease.units
        assert other.name not in held
        end(nodes, document.lease)
        until(lambda: free(nodes) == 2, "its units are free")
        again = units(taken(nodes, wants("r2", 2)))
    assert set(again) == set(held)
    assert min(again.values()) > max(held.values())


def test_an_offer_holds_units_until_it_is_declined(nodes: Together) -> None:
    with Client(nodes, "lab1") as client:
        offered = client.offer(wants("r1", 3))
        assert isinstance(offered, f.OfferIs)
        assert len(units(offered.document)) == 3
        assert free(nodes) == 0
        client.ask(f.DeclineOffer(offered.document.lease))
        until(lambda: free(nodes) == 3, "all are free")


def test_what_ordinary_claims_hold_is_not_offered(nodes: Together) -> None:
    with nodes.client("lab1") as client:
        client.lease("gpu:2")
        with Client(nodes, "lab1") as asking:
            refused = asking.offer(wants("r1", 2, floor=2))
            assert isinstance(refused, f.NoOffer)
            assert (refused.reason, refused.term, refused.best_possible) == ("not_free", "gpu", {"gpu": 1})
        document = taken(nodes, wants("r2", 2, floor=1))
        assert (document.term("gpu").granted, document.term("gpu").fraction) == (1, "1/2")
        # Of what was refused nothing is left: all the rest may be had.
        with Client(nodes, "lab1") as asking:
            rest = asking.offer(LeaseRequest("r3", {"net.tx": RequestedTerm(90_000)}, duration=10_000))
            assert isinstance(rest, f.OfferIs)
            assert rest.document.term("net.tx").granted == 90_000


def test_an_older_claim_that_waits_is_not_delayed_by_a_negotiated_one(nodes: Together) -> None:
    with nodes.client("lab1") as holder, nodes.client("lab1") as waiter:
        one = holder.lease("gpu:1")
        waiter.claim("gpu:3")
        waiter.wait(frames.Queued)
        with Client(nodes, "lab1") as asking:
            refused = asking.offer(wants("r1", 2))
            assert isinstance(refused, f.NoOffer), refused
            assert refused.reason == "not_free"
        holder.release(one.key)
        assert len(waiter.wait(frames.Granted).lease.units) == 3


def test_a_replacement_shares_the_units_of_the_lease_that_it_replaces(nodes: Together) -> None:
    one = taken(nodes, wants("r1", 2))
    two = taken(nodes, wants("r2", 3, replaces=one.lease))
    assert (two.lease, two.revision) == (one.lease, 2)
    assert units(one).items() <= units(two).items()
    three = taken(nodes, wants("r3", 1, replaces=one.lease))
    assert units(three).items() <= units(two).items()
    until(lambda: free(nodes) == 2, "two are free again")
    end(nodes, one.lease)
    until(lambda: free(nodes) == 3, "all are free")


def test_units_come_back_when_the_lease_runs_out(nodes: Together) -> None:
    document = taken(nodes, wants("r1", 3, duration=1000))
    assert free(nodes) == 0
    until(lambda: free(nodes) == 3, "all are free")
    assert status(nodes, document.lease).state == "expired"


def test_a_restart_keeps_units_of_leases_and_frees_those_of_offers(nodes: Together) -> None:
    document = taken(nodes, wants("r1", 1))
    with Client(nodes, "lab1") as client:
        offered = client.offer(wants("r2", 1))
        assert isinstance(offered, f.OfferIs)
    die(nodes, "lab1")
    start(nodes, "lab1", GPUS + net("100kB/s"))
    settled(nodes, "lab1", hosts=1)
    until(lambda: free(nodes) == 2, "the offer's unit is free, the lease's is not")
    found = status(nodes, document.lease)
    assert (found.state, units(found)) == ("active", units(document))
    assert set(units(taken(nodes, wants("r3", 2)))) == {"0", "1", "2"} - set(units(document))
    end(nodes, document.lease)
    until(lambda: free(nodes) == 1, "it is given back after the restart")


def test_a_kick_takes_the_units_and_ends_the_negotiated_lease(nodes: Together) -> None:
    document = taken(nodes, wants("r1", 2))
    with nodes.client("lab1") as client:
        (lease,) = client.listing("who").leases
        client.send(frames.Kick(client.n(), lease.lease, "needed elsewhere"))
        client.wait(frames.Released)
    until(lambda: status(nodes, document.lease).state == "revoked", "it is over")
    assert "taken away" in status(nodes, document.lease).why
    assert free(nodes) == 3


def test_units_are_kept_for_longer_than_a_ttl(nodes: Together) -> None:
    die(nodes, "lab1")
    start(nodes, "lab1", GPUS + net("100kB/s"))
    settled(nodes, "lab1", hosts=1)
    document = taken(nodes, wants("r1", 1, duration=3_000_000))
    with nodes.client("lab1") as client:
        (lease,) = client.listing("who").leases
        first = lease.expires_ms

        def renewed() -> bool:
            (now,) = client.listing("who").leases
            return now.expires_ms > first

        until(renewed, "the part that claims units has renewed it")
    assert status(nodes, document.lease).state == "active"


def ends(nodes: Together) -> dict[str, dict[str, int]]:
    """Pool or capacity -> how its stretches ended -> how many."""
    found: dict[str, dict[str, int]] = {}
    with nodes.client("lab1") as client:
        for row in client.listing("usage", arg="end").usage:
            found.setdefault(row.term, {})[row.group] = row.stretches
    return found


def test_units_end_as_the_negotiated_lease_does_that_they_are_kept_for(nodes: Together) -> None:
    given_back = taken(nodes, wants("r1", 1))
    end(nodes, given_back.lease)
    with Client(nodes, "lab1") as client:
        offered = client.offer(wants("r2", 1))
        assert isinstance(offered, f.OfferIs)
        client.ask(f.DeclineOffer(offered.document.lease))
    until(lambda: ends(nodes).get("gpu") == {"released": 2}, "what was given back, or not taken, is released")
    taken(nodes, wants("r3", 1, duration=1000))
    until(lambda: ends(nodes)["gpu"] == {"released": 2, "expired": 1}, "what was not renewed has expired")
    both = wants("r4", 2)
    both = msgspec.structs.replace(both, terms={**both.terms, "fpga": RequestedTerm(1)})
    kicked = taken(nodes, both)
    with nodes.client("lab1") as client:
        (lease,) = (one for one in client.listing("who").leases if one.units[0].pool == "gpu")
        client.send(frames.Kick(client.n(), lease.lease, "needed elsewhere"))
        client.wait(frames.Released)
    until(lambda: status(nodes, kicked.lease).state == "revoked", "with one of its pools all is over")
    until(lambda: "fpga" in ends(nodes), "its other units are free")
    assert ends(nodes) == {
        "gpu": {"released": 2, "expired": 1, "kicked": 2},
        "fpga": {"kicked": 1},
        "net.tx": {"released": 1, "expired": 1, "revoked": 1},
    }
    with nodes.client("lab1") as client:
        told = [(one.kind, one.text) for one in client.listing("log").log]
    assert ("expired", "the negotiated lease that it was for was not renewed in time") in told
    assert ("kicked", "the negotiated lease that it was for was revoked") in told


def test_units_of_a_negotiated_lease_that_was_not_given_back_cool_down(nodes: Together) -> None:
    def states() -> list[str]:
        with nodes.client("lab1") as client:
            (row,) = client.listing("pools", "tester").pools
            return sorted(one.state for one in row.units)

    tester = {"tester": RequestedTerm(1)}
    end(nodes, taken(nodes, LeaseRequest("r1", tester, duration=60_000)).lease)
    until(lambda: states() == ["free", "free"], "what was given back is free")
    taken(nodes, LeaseRequest("r2", tester, duration=1000))
    until(lambda: states() == ["cooldown", "free"], "what was not renewed rests")
