"""Leases whose units are on several nodes: prepared, given back in part, exchanged, extended, ended badly, taken away."""

from parties.many_nodes import System, granted, places
from parties.party_node import Client, pool

from holdall.leases.messages import Prepared
from holdall.machine.contract import Address, Received
from holdall.machine.host import Arrival
from holdall.model import frames


def lab(**gpu: object) -> System:
    """`gpu` on lab-1, `psu` on lab-2, clients at `desk`."""
    system = System()
    system.add("lab-1", pool("gpu", "0", "1", **gpu))
    system.add("lab-2", pool("psu", "0", "1"))
    system.add("desk")
    system.run(100)
    return system


def leased(system: System, client: Client, *specs: str, **fields: object) -> frames.Granted:
    client.ask_for(*specs, **fields)
    system.run(100)
    (lease,) = granted(client.inbox())
    return lease


# ------------------------------------------------------------ prepared before they are used


def test_the_holder_is_told_when_units_of_another_node_have_been_prepared() -> None:
    system = lab(on_grant="power {unit}")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", "psu")
    system.until(lambda: bool(system.nodes["lab-1"].orders))
    assert not granted(desk.inbox())
    (order,) = system.nodes["lab-1"].orders
    system.nodes["lab-1"].hook(order)
    system.run(20)
    assert [places(lease) for lease in granted(desk.inbox())] == [["gpu/0@lab-1", "psu/0@lab-2"]]


def test_a_unit_of_another_node_that_cannot_be_prepared_is_left_for_one_that_can() -> None:
    system = lab(on_grant="power {unit}")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", "psu")
    system.until(lambda: bool(system.nodes["lab-1"].orders))
    system.nodes["lab-1"].hook(system.nodes["lab-1"].orders[0], ok=False, text="no current")
    system.until(lambda: bool(system.nodes["lab-1"].orders))
    assert not granted(desk.inbox())
    system.nodes["lab-1"].hook(system.nodes["lab-1"].orders[0])
    system.run(100)
    assert [places(lease) for lease in granted(desk.inbox())] == [["gpu/1@lab-1", "psu/0@lab-2"]]
    system.check()


def test_a_word_of_preparation_that_was_lost_is_asked_for_again() -> None:
    system = lab(on_grant="power {unit}")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", "psu")
    system.until(lambda: bool(system.nodes["lab-1"].orders))
    system.stop("desk")
    system.nodes["lab-1"].hook(system.nodes["lab-1"].orders[0])
    system.run(1000)
    system.start("desk")
    back = desk.returns("a2")
    system.run(12_000)
    phases = [claim.record.phase for claim in system.nodes["desk"].agent.state.by_printed.values()]
    assert phases == ["granted"]
    assert back.welcome.resumed


def test_a_pool_that_only_was_announced_to_prepare_keeps_nobody_waiting() -> None:
    system = lab(on_grant="power {unit}")
    system.forget_news = True
    system.nodes["lab-1"].reload(pool("gpu", "0", "1"))
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    assert places(lease) == ["gpu/0@lab-1", "psu/0@lab-2"]


def test_only_who_prepares_units_of_a_claim_says_that_it_has_or_has_not() -> None:
    system = lab(on_grant="power {unit}")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", "psu")
    system.until(lambda: bool(system.nodes["lab-1"].orders))
    node = system.nodes["desk"]
    (claim,) = node.agent.state.by_printed.values()
    before = claim.record
    liar = Address(system.nodes["lab-2"].id, "manager")
    for failed in ((), before.grants):
        word = Prepared(before.parties()[0], before.attempt, failed, "so I say")
        node.turn([Arrival("agent", Received(liar, word))])
    assert claim.record == before
    assert not granted(desk.inbox())


# ------------------------------------------------------------ in the holder's hands


def test_a_part_is_given_back_at_its_node_only() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu:2", "psu:2")
    sent = len(system.sent)
    (rest,) = granted(desk.say(frames.Drop(desk.number(), lease.key, ("psu/1@lab-2",))))
    assert places(rest) == ["gpu/0@lab-1", "gpu/1@lab-1", "psu/0@lab-2"]
    system.run(100)
    assert {to for sender, to, _ in system.sent[sent:] if sender == "desk"} == {"lab-2"}
    assert set(system.holders()) == {"gpu/0@lab-1", "gpu/1@lab-1", "psu/0@lab-2"}
    system.check()


def test_an_exchange_over_nodes_adds_at_one_and_drops_at_another() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu")
    desk.say(frames.Exchange(desk.number(), lease.key, desk.claim("psu:2").needs, ("gpu/0",)))
    system.run(100)
    (swapped,) = granted(desk.inbox())
    assert places(swapped) == ["psu/0@lab-2", "psu/1@lab-2"]
    system.run(100)
    assert set(system.holders()) == {"psu/0@lab-2", "psu/1@lab-2"}
    other = system.client("b", "desk")
    leased(system, other, "gpu:2")
    desk.say(frames.Exchange(desk.number(), lease.key, desk.claim("gpu:1").needs, ()))
    system.run(100)
    (refused,) = [one for one in desk.inbox() if isinstance(one, frames.Denied)]
    assert "the lease is as it was" in refused.text.lower()
    assert len(system.holders()) == 4
    system.check()


def test_a_later_end_is_bounded_by_the_pools_of_all_nodes() -> None:
    system = lab(max_for_ms=3_600_000)
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu", for_ms=600_000)
    desk.say(frames.Extend(desk.number(), lease.key, 1_800_000))
    system.run(100)
    (longer,) = granted(desk.inbox())
    assert longer.lease.until_ms is not None
    assert lease.lease.until_ms is not None
    assert 1_700_000 > longer.lease.until_ms - lease.lease.until_ms > 1_100_000
    answers = desk.say(frames.Extend(desk.number(), lease.key, 36_000_000))
    system.run(100)
    (most,) = granted([*answers, *desk.inbox()])
    assert most.lease.until_ms == lease.lease.since_ms + 3_600_000
    refused = system.client("b", "desk").refused("gpu", for_ms=7_200_000)
    assert "max_for 1 h" in refused.text


def test_what_the_lease_covers_on_another_node_is_a_view_of_it() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    (view,) = granted(desk.say(desk.claim("psu,@lab-2", under=lease.key)))
    assert view.view
    assert places(view) == ["psu/0@lab-2"]
    (refused,) = desk.say(desk.claim("psu,@lab-1", under=lease.key))
    assert isinstance(refused, frames.Denied)


# ------------------------------------------------------------ ends


def test_after_an_unclean_end_units_cool_down_at_every_node() -> None:
    system = System()
    system.add("lab-1", pool("gpu", "0", cooldown_ms=60_000))
    system.add("lab-2", pool("gpu", "0", cooldown_ms=60_000))
    system.add("desk")
    system.run(100)
    desk = system.client("a", "desk")
    leased(system, desk, "gpu:2")
    desk.close(gone=True)
    system.run(100)
    assert not system.holders()
    units = [system.nodes[name].side.book.service.pools["gpu"].units["0"] for name in ("lab-1", "lab-2")]
    assert [unit.state(draining=False) for unit in units] == ["cooldown", "cooldown"]


def test_kicked_by_force_the_fences_rise_at_every_node() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    fences = {unit.node: unit.fence for unit in lease.lease.units}
    admin = system.client("root", "desk")
    admin.say(frames.Kick(admin.number(), lease.lease.lease, "needed", unsafe=True))
    system.run(100)
    for name, pool_name in (("lab-1", "gpu"), ("lab-2", "psu")):
        unit = system.nodes[name].side.book.service.pools[pool_name].units["0"]
        assert unit.fence > fences[name]
        assert unit.claim is None


def test_by_whichever_place_it_was_granted_its_fence_rises_there() -> None:
    system = System()
    for name in ("lab-1", "lab-2"):
        system.add(name, pool("gpu", "0"))
    system.add("desk")
    holders = {name: system.client("h", name) for name in ("lab-1", "lab-2")}
    leases = {name: holder.gets("gpu") for name, holder in holders.items()}
    system.run(1500)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(500)
    holders["lab-2"].releases(leases["lab-2"])
    system.run(100)
    (lease,) = granted(desk.inbox())
    assert places(lease) == ["gpu/0@lab-2"]
    admin = system.client("root", "desk")
    admin.say(frames.Kick(admin.number(), lease.lease.lease, "needed", unsafe=True))
    system.run(100)
    assert system.nodes["lab-2"].side.book.service.pools["gpu"].units["0"].fence > lease.lease.units[0].fence


def test_a_client_that_leaves_while_it_waits_at_several_places_is_in_no_line_after_one_trip() -> None:
    system = lab()
    holders = [system.client("h", "lab-1"), system.client("h", "lab-2")]
    holders[0].gets("gpu:2")
    desk = system.client("a", "desk")
    desk.ask_for("psu", "gpu")
    system.run(1000)
    desk.close(gone=True)
    system.run(20)
    assert {str(claim) for claim in system.holders()} == {"gpu/0@lab-1", "gpu/1@lab-1"}
    assert not any(
        row.claim.node == desk.node.id
        for place in system.nodes.values()
        for row in place.side.manager.rows.values()
    )


# ------------------------------------------------------------ open claims


def test_a_client_has_so_many_open_claims_for_each_pool_of_each_node() -> None:
    system = System()
    for name in ("lab-1", "lab-2"):
        system.add(name, pool("gpu", "0"))
    desk_node = system.add("desk", open_claims_max=2)
    system.run(100)
    for name in ("lab-1", "lab-2"):
        system.client("h", name).gets("gpu")
    system.run(1500)
    desk = system.client("a", "desk")
    for _ in range(3):
        desk.ask_for("gpu,@lab-1")
    desk.ask_for("gpu,@lab-2")
    system.run(500)
    phases = [claim.record.phase for claim in desk_node.agent.state.by_printed.values()]
    assert sorted(phases) == ["parked", "parked", "waiting", "waiting"], "who comes later does not go before"
    rows = {name: len(system.nodes[name].side.manager.rows) - 1 for name in ("lab-1", "lab-2")}
    assert rows == {"lab-1": 2, "lab-2": 0}
