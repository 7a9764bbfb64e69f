"""Claims over the nodes of a system: where they are asked for, what that costs, and what is said when it can't be."""

from functools import partial

import pytest
from parties.many_nodes import System, granted, places
from parties.party_node import Client, pool

from holdall.model import frames
from holdall.model.errors import NeverSatisfiable


def lab(*names: str, units: int = 2, delay_ms: int = 10) -> System:
    """Nodes with a pool `gpu` each, of so many units, and one more, `desk`, without pools."""
    system = System(delay=lambda _random: delay_ms)
    for name in names:
        system.add(name, pool("gpu", *(str(unit) for unit in range(units))))
    system.add("desk")
    system.run(100)
    return system


# ------------------------------------------------------------ where it is asked for


def test_what_is_free_here_is_taken_here_and_no_message_leaves_the_node() -> None:
    system = lab("lab-1", "lab-2")
    client = system.client("a", "lab-2")
    node = system.nodes["lab-2"]
    commits, sent = node.commits, len(system.sent)
    lease = client.gets("gpu:1")
    assert places(lease) == ["gpu/0@lab-2"]
    client.releases(lease)
    system.run(100)
    assert node.commits - commits == 2
    assert len(system.sent) == sent
    system.check()


def test_what_is_free_elsewhere_is_taken_there() -> None:
    system = lab("lab-1", "lab-2")
    desk, here = system.client("a", "desk"), system.client("b", "lab-1")
    here.gets("gpu:2")
    desk.ask_for("gpu:2")
    took = system.until(lambda: _is_held(desk))
    assert [places(lease) for lease in granted(desk.inbox())] == [["gpu/0@lab-2", "gpu/1@lab-2"]]
    assert took == 250 + 20, (
        "what had been announced was old: it waits there, and is then asked for elsewhere, too"
    )
    system.check()


def test_nobody_else_is_asked_while_the_place_that_seems_free_answers() -> None:
    system = lab("lab-1", "lab-2", "lab-3")
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(100)
    assert len(granted(desk.inbox())) == 1
    assert {to for _, to, _ in system.sent} == {"lab-1", "desk"}
    assert system.protocol() == {"Request": 1, "Allowed": 1}


def test_a_claim_that_fits_on_no_node_alone_spans_several() -> None:
    system = lab("lab-1", "lab-2", "lab-3")
    desk = system.client("a", "desk")
    desk.ask_for("gpu:5")
    system.run(100)
    (lease,) = granted(desk.inbox())
    assert places(lease) == ["gpu/0@lab-1", "gpu/1@lab-1", "gpu/0@lab-2", "gpu/1@lab-2", "gpu/0@lab-3"]
    system.check()
    desk.releases(lease)
    system.run(100)
    assert not system.holders()


def test_overlapping_needs_get_distinct_units_over_nodes() -> None:
    system = System()
    system.add("lab-1", pool("gpu", "0", labels={"model": "a"}))
    system.add("lab-2", pool("gpu", "0", labels={"model": "b"}))
    system.add("desk")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", "gpu,model=a")
    system.run(100)
    (lease,) = granted(desk.inbox())
    assert {(unit.node, unit.need) for unit in lease.lease.units} == {("lab-1", 1), ("lab-2", 0)}


def test_a_node_that_is_named_is_the_one() -> None:
    system = lab("lab-1", "lab-2")
    client = system.client("a", "lab-1")
    client.ask_for("gpu,@lab-2")
    system.run(100)
    assert [places(lease) for lease in granted(client.inbox())] == [["gpu/0@lab-2"]]


def test_all_is_the_units_of_all_nodes_that_serve() -> None:
    system = lab("lab-1", "lab-2", "lab-3")
    drainer = system.client("admin", "lab-2")
    drainer.say(frames.Drain(drainer.number()))
    system.run(1500)
    desk = system.client("a", "desk")
    desk.ask_for("gpu:all")
    system.run(100)
    (lease,) = granted(desk.inbox())
    assert places(lease) == ["gpu/0@lab-1", "gpu/1@lab-1", "gpu/0@lab-3", "gpu/1@lab-3"]


def test_the_first_of_several_places_wins_and_the_others_are_free_again() -> None:
    system = lab("lab-1", "lab-2", units=1)
    first, second, desk = (
        system.client("a", "lab-1"),
        system.client("b", "lab-2"),
        system.client("c", "desk"),
    )
    leases = [first.gets("gpu"), second.gets("gpu")]
    desk.ask_for("gpu")
    system.run(1000)
    assert sum(len(place.side.manager.rows) for place in system.nodes.values()) == 4, "it waits at both"
    second.releases(leases[1])
    first.releases(leases[0])
    system.run(100)
    (lease,) = granted(desk.inbox())
    assert len(lease.lease.units) == 1
    assert len(system.holders()) == 1, "a second winner's unit came back after one round trip"
    system.check()


# ------------------------------------------------------------ what it costs


@pytest.mark.parametrize(("pools", "nodes"), [(1, 1), (3, 3), (10, 3)])
def test_uncontended_a_claim_costs_what_the_specification_says(pools: int, nodes: int) -> None:
    system = System(delay=lambda _random: 10)
    names = [f"lab-{number}" for number in range(1, 4)]
    for index, name in enumerate(names):
        system.add(name, *(pool(f"p{number}", "u") for number in range(index, 10, 3)))
    system.add("desk")
    system.run(100)
    desk = system.client("a", "desk")
    visited = {place.id for place in system.nodes.values()}
    before = system.protocol()
    asked_at = system.now_ms
    desk.say(desk.claim(*(f"p{number}" for number in range(pools))))
    took = system.until(lambda: bool(desk.node.agent.state.by_printed) and _is_held(desk))
    assert took == (nodes + 1) * 10, "n + 1 one-way delays"
    assert asked_at + took == system.now_ms
    desk.releases(granted(desk.inbox())[0])
    system.run(100)
    told = system.protocol() - before
    assert told == {
        "Request": 1,
        **({"Promote": nodes - 1} if nodes > 1 else {}),
        "Allowed": 1,
        "Done": nodes,
        "EndAck": nodes,
    }
    assert sum(told.values()) - told["EndAck"] == 2 * nodes + 1
    assert not system.holders()
    assert visited


@pytest.mark.parametrize("free", [True, False], ids=["one node has units", "all are taken"])
def test_what_a_claim_costs_does_not_depend_on_the_number_of_nodes(free: bool) -> None:
    costs: list[dict[str, int]] = []
    for number in (6, 30):
        system = lab(*(f"lab-{index:02}" for index in range(number)), units=1)
        holders = {name: system.client("h", name) for name in system.nodes if name != "desk"}
        leases = {name: holder.gets("gpu") for name, holder in holders.items()}
        last = f"lab-{number - 1:02}"
        if free:
            holders[last].releases(leases[last])
        system.run(2000)
        desk = system.client("a", "desk")
        before = system.protocol()
        desk.ask_for("gpu")
        system.run(500)
        if not free:
            holders["lab-00"].releases(leases["lab-00"])
        system.until(partial(_is_held, desk))
        desk.releases(granted(desk.inbox())[0])
        system.run(200)
        costs.append(dict(system.protocol() - before))
    assert costs[0] == costs[1]
    assert costs[0]["Request"] == (1 if free else 4), "asked at four places at most"
    assert costs[0]["Done"] == costs[0]["EndAck"] == costs[0]["Request"]


def _is_held(client: Client) -> bool:
    claims = client.node.agent.state.by_printed.values()
    return all(claim.record.phase == "granted" for claim in claims)


# ------------------------------------------------------------ what can't be


def test_more_than_exists_is_refused_with_the_nodes_that_have_some() -> None:
    system = lab("lab-1", "lab-2")
    refused = system.client("a", "lab-2").refused("gpu:5")
    assert refused.code == NeverSatisfiable.code
    assert "4 such units exist (lab-2: 2, lab-1: 2). Ask for ≤ 4, or add --allow-future." in refused.text


def test_more_pools_than_one_lease_may_have_are_refused() -> None:
    system = lab(*(f"lab-{number:02}" for number in range(65)), units=1)
    desk = system.client("a", "desk")
    assert desk.refused("gpu:65").text.startswith(
        "65 units of 65 pools in one lease; at most 256 units of 64 pools"
    )
    assert desk.refused("gpu:all").code == "refused"
    desk.ask_for("gpu:64")
    system.run(2000)
    (lease,) = granted(desk.inbox())
    assert len(lease.lease.units) == 64


def test_a_pool_of_reach_host_is_refused_elsewhere_and_the_text_says_how_to_go_there() -> None:
    system = System()
    system.add("lab-1", pool("gpu", "0", "1", reach="host"))
    system.add("desk")
    refused = system.client("a", "desk").refused("gpu:1")
    assert refused.text == (
        'cannot ever be granted: gpu:1 — 2 such units exist elsewhere (lab-1: 2), but pool gpu has reach = "host": '
        "it is used only where the command runs. Run it there: --on lab-1. Or add --allow-future."
    )
    assert places(system.client("b", "lab-1").gets("gpu:2")) == ["gpu/0@lab-1", "gpu/1@lab-1"]


def test_one_need_on_a_pool_of_reach_host_stays_on_its_node() -> None:
    system = System()
    system.add("lab-1", pool("gpu", "0", reach="host"))
    system.add("lab-2", pool("tpu", "0"))
    here = system.client("a", "lab-1")
    refused = here.refused("gpu+tpu:2")
    assert "one need on it stays on the node where the command runs (lab-1)" in refused.text
    here.ask_for("gpu", "tpu")
    system.run(100)
    assert [places(lease) for lease in granted(here.inbox())] == [["gpu/0@lab-1", "tpu/0@lab-2"]]


def test_an_unknown_node_and_an_unknown_pool_are_named() -> None:
    system = lab("lab-1", "lab-2")
    client = system.client("a", "lab-1")
    assert 'no node "lab-3" is known here (this is lab-1)' in client.refused("gpu,@lab-3").text
    assert (
        'no pool "gpx" on lab-1 and 2 other nodes (pools: gpu). Did you mean "gpu"?'
        in client.refused("gpx").text
    )
    assert 'no pool "psu" on lab-2 (pools: gpu)' in client.refused("psu,@lab-2").text
