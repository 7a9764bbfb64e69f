"""Whole nodes in one process negotiate: templates, offers, leases, renewal, expiry, over their bus and their journals."""

from collections.abc import Iterator

import pytest
from node.location.town import Client, choose, die, net, settled, start, wants
from node.together import Together, together
from node.waiting import until

from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.errors import NeverSatisfiable
from holdall.model.terms import LeaseDocument, LeaseRequest, RequestedTerm


@pytest.fixture
def nodes() -> Iterator[Together]:
    with together() as made:
        yield made


def test_n1_a_node_alone_leads_its_location_and_offers_accepts_and_ends(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s"))
    assert settled(nodes, "lab1", hosts=1) == "lab1"
    with Client(nodes, "lab1") as client:
        offered = client.offer(wants("r1", 40_000))
        assert isinstance(offered, f.OfferIs), offered
        assert offered.document.host == "lab1"
        assert offered.document.term("net.tx").granted == 40_000
        assert 0 < offered.offer_ms <= 10_000
        lease = offered.document.lease
        accepted = client.ask(f.AcceptOffer(lease))
        assert isinstance(accepted, f.LeaseIs), accepted
        assert accepted.document.state == "active"
        assert 0 < accepted.valid_for_ms < 20_000
        again = client.ask(f.AcceptOffer(lease))
        assert isinstance(again, f.LeaseIs)
        assert again.document == accepted.document
        status = client.ask(f.AskStatus(lease))
        assert isinstance(status, f.LeaseIs)
        assert status.document.term("net.tx").granted == 40_000
        assert client.ask(f.EndLease(lease)) == f.Over(lease, "released")
        status = client.ask(f.AskStatus(lease))
        assert isinstance(status, f.LeaseIs)
        assert status.document.state == "released"


def test_n1_the_closest_of_two_hosts_is_offered_at_any_node(nodes: Together) -> None:
    start(nodes, "lab1", net("60000B/s", "first"))
    start(nodes, "lab2", net("60000B/s", "first"))
    settled(nodes, "lab1", "lab2", hosts=2)
    with Client(nodes, "lab1") as client:
        taken: dict[str, str] = {}
        for name, amount in (("r1", 60_000 - 15_360), ("r2", 60_000 - 30_720)):
            lease = client.offer(wants(name, amount), take=True)
            assert isinstance(lease, f.LeaseIs), lease
            taken[name] = lease.document.host
        assert set(taken.values()) == {"lab1", "lab2"}
        offered = client.offer(wants("r3", 51_200))
        assert isinstance(offered, f.OfferIs), offered
        assert offered.document.host == taken["r2"]
        term = offered.document.term("net.tx")
        assert (term.requested, term.granted, term.fraction) == (51_200, 30_720, "3/5")


def test_n4_an_offer_that_is_not_accepted_in_time_lapses(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s", "first") + '[location]\noffer = "1s"\n')
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        offered = client.offer(wants("r1", 100_000))
        assert isinstance(offered, f.OfferIs)
        lease = offered.document.lease
        assert client.talk.expect(f.ListOffers(), f.Offers).rows[0].document == offered.document
        until(lambda: client.talk.expect(f.ListOffers(), f.Offers).rows == (), "the offer is over")
        assert client.ask(f.AcceptOffer(lease)) == f.Over(lease, "lapsed")
        again = client.offer(wants("r2", 100_000))
        assert isinstance(again, f.OfferIs)
        assert again.document.term("net.tx").granted == 100_000


def test_a_lease_that_nobody_uses_runs_out_and_one_that_is_used_is_renewed(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s"))
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        leases: list[str] = []
        for name in ("used", "unused"):
            taken = client.offer(wants(name, 10_000, duration=1500), take=True)
            assert isinstance(taken, f.LeaseIs)
            leases.append(taken.document.lease)
        used, unused = leases

        def held(*names: str) -> tuple[f.HeldLease, ...]:
            return client.talk.expect(f.HoldLeases(names), f.Held).leases

        def renewed() -> bool:
            (one,) = held(used)
            assert one.document is not None
            assert 0 < one.valid_for_ms <= 1500
            return one.document.revision >= 4

        until(renewed, "three renewals")
        assert [one.reason for one in held(used, unused)] == ["", "expired"]
        status = client.ask(f.AskStatus(unused))
        assert isinstance(status, f.LeaseIs)
        assert status.document.state == "expired"


def test_a_node_that_is_killed_and_starts_again_keeps_the_leases_of_its_host(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s", "first"))
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        taken = client.offer(wants("r1", 70_000), take=True)
        assert isinstance(taken, f.LeaseIs)
    die(nodes, "lab1")
    start(nodes, "lab1", net("100kB/s", "first"))
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        lease = taken.document.lease
        status = client.ask(f.AskStatus(lease))
        assert isinstance(status, f.LeaseIs)
        assert status.document.state == "active"
        assert status.document.fence == taken.document.fence
        offered = client.offer(wants("r2", 70_000))
        assert isinstance(offered, f.OfferIs)
        assert offered.document.term("net.tx").granted == 30_000
        assert client.ask(f.DeclineOffer(offered.document.lease)) == f.Over(
            offered.document.lease, "declined"
        )
        renewed = client.ask(f.RenewLease(lease, 30_000))
        assert isinstance(renewed, f.LeaseIs)
        assert (renewed.document.revision, renewed.document.duration) == (2, 30_000)
        assert client.ask(f.EndLease(lease)) == f.Over(lease, "released")
        offered = client.offer(wants("r3", 90_000), take=True)
        assert isinstance(offered, f.LeaseIs)
        assert offered.document.fence > taken.document.fence


def test_each_refusal_has_its_reason(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s"))
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        for number, (request, reason, term) in enumerate(
            [
                (wants("r1", 100_001), "no_host_supports", ""),
                (LeaseRequest("r2", {"gpu": RequestedTerm(1)}), "no_host_supports", ""),
                (
                    LeaseRequest("r3", {"net.tx": RequestedTerm("50KB/s")}),
                    "quantity.ambiguous_unit",
                    "net.tx",
                ),
                (LeaseRequest("r4", {"net.tx": RequestedTerm(5)}, template="t-0"), "template.unknown", ""),
                (LeaseRequest("r5", {}), "request.no_terms", ""),
                (LeaseRequest("r6", {"net.tx": RequestedTerm(5, weight=101)}), "request.weight", "net.tx"),
            ]
        ):
            answer = client.offer(request)
            assert isinstance(answer, f.NoOffer), (number, answer)
            assert (answer.reason, answer.term) == (reason, term)
        with pytest.raises(NeverSatisfiable, match="known: prague"):
            client.offer(wants("r7", 1), location="berlin")
        assert client.ask(f.AcceptOffer("L-prague-x-1.1")) == f.Over("L-prague-x-1.1", "unknown")


def test_two_locations_are_a_directory_and_each_is_asked_from_anywhere(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s"))
    start(nodes, "lab2", net("200kB/s"), location="brno")
    settled(nodes, "lab1", "lab2", hosts=1)
    settled(nodes, "lab1", "lab2", hosts=1, location="brno")
    with Client(nodes, "lab1") as client:
        rows = client.talk.expect(f.ListLocations(), f.Locations).rows
        assert [(row.location, row.nodes, row.manager) for row in rows] == [
            ("brno", ("lab2",), "lab2"),
            ("prague", ("lab1",), "lab1"),
        ]
        taken = client.offer(wants("r1", 150_000, duration=2000), take=True, location="brno")
        assert isinstance(taken, f.LeaseIs), taken
        assert (taken.document.location, taken.document.host) == ("brno", "lab2")

        def renewed() -> bool:
            (held,) = client.talk.expect(f.HoldLeases((taken.document.lease,)), f.Held).leases
            assert held.document is not None
            return held.document.revision >= 3

        until(renewed, "two renewals over the bus")


def test_the_managers_node_is_killed_and_another_one_leads_with_all_leases(nodes: Together) -> None:
    choose(nodes)
    for name in ("lab1", "lab2", "lab3"):
        start(nodes, name, net("100kB/s", "first"))
    manager = settled(nodes, "lab1", "lab2", "lab3", hosts=3)
    others = [name for name in ("lab1", "lab2", "lab3") if name != manager]
    with Client(nodes, others[0]) as client:
        leases: list[LeaseDocument] = []
        for number in range(3):
            taken = client.offer(wants(f"r{number}", 90_000), take=True)
            assert isinstance(taken, f.LeaseIs), taken
            leases.append(taken.document)
        assert {one.host for one in leases} == {"lab1", "lab2", "lab3"}
        die(nodes, manager)
        assert settled(nodes, *others, hosts=2) in others
        for document in leases:
            status = client.ask(f.AskStatus(document.lease))
            if document.host == manager:
                # Nobody but its host can tell, until that is back.
                assert status == f.Over(document.lease, "unknown")
            else:
                assert isinstance(status, f.LeaseIs)
                assert (status.document.state, status.document.fence) == ("active", document.fence)
        offered = client.offer(wants("r9", 90_000))
        assert isinstance(offered, f.OfferIs)
        assert offered.document.term("net.tx").granted == 10_000


def test_a_drained_host_takes_no_new_leases_and_its_offers_are_withdrawn(nodes: Together) -> None:
    start(nodes, "lab1", net("100kB/s", "first"))
    start(nodes, "lab2", net("50kB/s", "first"))
    settled(nodes, "lab1", "lab2", hosts=2)
    with Client(nodes, "lab1") as client, nodes.client("lab1") as operator:
        taken = client.offer(wants("r1", 60_000), take=True)
        offered = client.offer(wants("r2", 40_000))
        assert isinstance(taken, f.LeaseIs)
        assert isinstance(offered, f.OfferIs)
        assert taken.document.host == "lab1"
        operator.send(frames.Drain(operator.n()))
        operator.wait(frames.Drained)
        settled(nodes, "lab1", "lab2", hosts=1)
        answer = client.offer(wants("r3", 60_000))
        assert isinstance(answer, f.NoOffer)
        assert answer.missing == {"lab2": "net.tx"}
        if offered.document.host == "lab1":
            assert isinstance(client.ask(f.AcceptOffer(offered.document.lease)), f.Over)
        status = client.ask(f.AskStatus(taken.document.lease))
        assert isinstance(status, f.LeaseIs)
        assert status.document.state == "active"
        operator.send(frames.Drain(operator.n(), on=False))
        operator.wait(frames.Drained)
        settled(nodes, "lab1", "lab2", hosts=2)
        again = client.offer(wants("r4", 90_000))
        assert isinstance(again, f.OfferIs)
        assert again.document.host == "lab1"


def test_a_host_that_joins_later_is_asked_from_then_on(nodes: Together) -> None:
    start(nodes, "lab1", net("10kB/s"))
    settled(nodes, "lab1", hosts=1)
    with Client(nodes, "lab1") as client:
        answer = client.offer(wants("r1", 20_000))
        assert isinstance(answer, f.NoOffer)
        assert answer.reason == "no_host_supports"
        start(nodes, "lab2", net("20kB/s"))
        settled(nodes, "lab1", "lab2", hosts=2)
        offered = client.offer(wants("r2", 20_000))
        assert isinstance(offered, f.OfferIs)
        assert offered.document.host == "lab2"
