"""Nodes leave, come back, drain and change their pools while claims wait for them or hold units of them."""

import msgspec
import pytest
from parties.many_nodes import SILENT_AFTER_MS, System, granted, places
from parties.party_node import Client, pool

from holdall.model import frames
from holdall.model.why import Why
from holdall.parties.explaining import Explaining
from holdall.parties.neighbours import NeighboursChanged
from holdall.protocols.chain.messages import Request
from holdall.protocols.vocabulary import Stamp


def lab(*names: str, units: int = 1) -> System:
    system = System()
    for name in names:
        system.add(name, pool("gpu", *(str(unit) for unit in range(units))))
    system.add("desk")
    system.run(100)
    return system


def waits_at(system: System) -> dict[str, list[Stamp]]:
    """Node -> ages of the claims that wait there."""
    return {
        place.name: sorted(row.stamp for row in place.side.manager.rows.values() if not row.active)
        for place in system.nodes.values()
        if place.id not in system.down
    }


def waiting_claim(client: Client) -> str:
    return next(iter(client.node.agent.state.by_printed))


# ------------------------------------------------------------ a node that is away is not promised


def test_c15_units_of_a_node_that_is_silent_are_not_asked_for_where_others_exist() -> None:
    system = lab("lab-1", "lab-2")
    system.stop("lab-1")
    system.run(SILENT_AFTER_MS + 2000)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(100)
    assert [places(lease) for lease in granted(desk.inbox())] == [["gpu/0@lab-2"]]


def test_c15_a_claim_that_waits_at_a_node_that_goes_away_is_planned_anew_with_its_age() -> None:
    system = lab("lab-1", "lab-2")
    first, second = system.client("a", "lab-1"), system.client("b", "lab-2")
    first.gets("gpu")
    lease = second.gets("gpu")
    system.run(2000)
    early, late = system.client("c", "desk"), system.client("d", "desk")
    early.ask_for("gpu,@lab-1", "gpu,@lab-2")  # over both: holds nothing while lab-1 is taken
    late.ask_for("gpu,@lab-2")
    system.run(2000)
    system.stop("lab-1")
    system.run(SILENT_AFTER_MS + 3000)
    (why,) = [one for one in desk_queue(system) if len(one.needs) == 2]
    assert "it needs lab-1" in why.note
    assert waits_at(system)["lab-2"] != [], "the one that needs only lab-2 stands in line there"
    second.releases(lease)
    system.run(100)
    assert [places(one) for one in granted(late.inbox())] == [["gpu/0@lab-2"]], "nothing is held back for it"
    system.start("lab-1")
    system.run(40_000)  # the holder at lab-1 has lost its session with the restart
    assert len(waits_at(system)["lab-1"]) <= 1
    system.check()


def desk_queue(system: System) -> list[Why]:
    state = system.nodes["desk"].agent.state
    return [Explaining(state).why(claim) for claim in state.by_printed.values()]


def test_c15_a_waiting_claim_goes_to_the_nodes_that_are_left_and_comes_back_in_its_order() -> None:
    system = lab("lab-1", "lab-2")
    holders = [system.client("a", "lab-1"), system.client("b", "lab-2")]
    leases = [holder.gets("gpu") for holder in holders]
    system.run(2000)
    elder, younger = system.client("c", "desk"), system.client("d", "desk")
    elder.ask_for("gpu,@lab-1 or gpu,@lab-2")
    system.run(2000)
    younger.ask_for("gpu,@lab-2")
    system.run(2000)
    assert [len(ages) for ages in waits_at(system).values()] == [1, 2, 0]
    system.stop("lab-1")
    system.run(SILENT_AFTER_MS + 2000)
    holders[1].releases(leases[1])
    system.run(100)
    assert len(granted(elder.inbox())) == 1, "it has kept its age, so it is before the younger one"
    assert not granted(younger.inbox())
    system.check()


def test_c15_what_seemed_free_and_is_silent_is_left_after_a_while() -> None:
    system = lab("lab-1", "lab-2")
    here = system.client("a", "lab-2")
    lease = here.gets("gpu")
    system.run(1500)
    system.stop("lab-1")  # nobody knows it yet
    desk = system.client("b", "desk")
    desk.ask_for("gpu")
    system.run(1000)
    here.releases(lease)
    system.run(100)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-2"]]


def test_a_node_that_drains_is_left_and_one_that_comes_is_used() -> None:
    system = lab("lab-1")
    holder, admin, desk = system.client("a", "lab-1"), system.client("x", "lab-1"), system.client("b", "desk")
    holder.gets("gpu")
    desk.ask_for("gpu")
    system.run(2000)
    admin.say(frames.Drain(admin.number()))
    system.run(2000)
    assert len(waits_at(system)["lab-1"]) == 1, "there is no other node: it keeps its place"
    age = waits_at(system)["lab-1"][0]
    system.add("lab-2", pool("gpu", "0"))
    system.run(2000)
    (lease,) = granted(desk.inbox())
    assert places(lease) == ["gpu/0@lab-2"]
    claim = desk.node.agent.state.by_printed[lease.lease.lease]
    assert claim.record.stamp == age


# ------------------------------------------------------------ what was announced is old


def test_a_pool_that_has_gone_is_left_for_one_that_there_is() -> None:
    system = lab("lab-1", "lab-2")
    holder = system.client("a", "lab-2")
    lease = holder.gets("gpu")
    system.run(1500)
    system.forget_news = True
    system.nodes["lab-1"].reload(pool("psu", "0"))
    desk = system.client("b", "desk")
    desk.ask_for("gpu")
    system.run(3000)
    assert not granted(desk.inbox()), "it waits at both, the one where nothing is, and the one that is taken"
    system.forget_news = False
    system.run(2000)
    assert [len(ages) for ages in waits_at(system).values()] == [0, 1, 0]
    holder.releases(lease)
    system.run(100)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-2"]]


def test_a_claim_over_nodes_whose_pool_vanishes_gives_back_what_it_holds() -> None:
    system = System()
    system.add("lab-1", pool("gpu", "0"))
    system.add("lab-2", pool("psu", "0"))
    system.add("desk")
    system.run(100)
    holder, desk, other = system.client("a", "lab-2"), system.client("b", "desk"), system.client("c", "lab-1")
    holder.gets("psu")
    desk.ask_for("gpu", "psu")
    system.run(1000)
    assert system.holders()["gpu/0@lab-1"], "it holds the one and waits for the other"
    system.nodes["lab-2"].reload(pool("fan", "0"))
    system.run(2000)
    assert places(other.gets("gpu")) == ["gpu/0@lab-1"]
    system.nodes["lab-2"].reload(pool("psu", "1"))
    system.run(3000)
    assert not granted(desk.inbox())
    other.close(gone=True)
    system.run(3000)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-1", "psu/1@lab-2"]]
    system.check()


def test_a_node_that_has_lost_its_journal_is_asked_elsewhere_until_its_quarantine_is_over() -> None:
    system = lab("lab-1", "lab-2")
    system.start("lab-1", kind="lost", epoch=7, quarantine_ms=60_000)
    system.announced.pop(system.nodes["lab-1"].id)
    system.forget_news = True  # what is known of lab-1 from now on is nothing; put back what was known before
    desk = system.client("a", "desk")
    desk.ask_for("gpu:1")
    system.run(500)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-2"]]


def test_a_stale_epoch_costs_one_round_trip_more() -> None:
    system = lab("lab-1")
    known = system.announced[system.nodes["lab-1"].id]
    system.start("lab-1", kind="lost", epoch=7)
    system.announced[system.nodes["lab-1"].id] = msgspec.structs.replace(known, epoch=1)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(200)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-1"]]
    assert system.protocol()["Refused"] == 1


def test_a_node_in_quarantine_that_nobody_knew_to_be_is_left_at_its_word() -> None:
    system = lab("lab-1", "lab-2")
    holder = system.client("h", "lab-2")
    lease = holder.gets("gpu")
    system.run(1500)
    system.forget_news = True
    known = system.announced[system.nodes["lab-1"].id]
    system.start("lab-1", kind="lost", epoch=7, quarantine_ms=60_000)
    system.announced[system.nodes["lab-1"].id] = known
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(1000)
    assert desk.node.agent.state.is_shunned(system.nodes["lab-1"].id)
    holder.releases(lease)
    system.run(100)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-2"]]


# ------------------------------------------------------------ better places


def test_units_that_come_free_elsewhere_are_told_of_and_taken() -> None:
    system = lab("lab-1", "lab-2", "lab-3", "lab-4", "lab-5")
    holders = {name: system.client("h", name) for name in system.nodes if name != "desk"}
    leases = {name: holder.gets("gpu") for name, holder in holders.items()}
    system.run(1500)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(1000)
    waiting = {name for name, ages in waits_at(system).items() if ages}
    assert len(waiting) == 4
    (left_out,) = set(leases) - waiting
    holders[left_out].releases(leases[left_out])
    took = system.until(
        lambda: desk.node.agent.state.by_printed[waiting_claim(desk)].record.phase == "granted"
    )
    assert took <= 1000 + 2 * 10
    assert [places(one) for one in granted(desk.inbox())] == [[f"gpu/0@{left_out}"]]
    system.run(200)
    assert len(system.holders()) == 5
    assert sum(len(ages) for ages in waits_at(system).values()) == 0
    system.check()


def test_who_comes_too_late_to_a_better_place_waits_there_and_at_the_others() -> None:
    system = lab("lab-1", "lab-2", "lab-3", "lab-4", "lab-5")
    holders = {name: system.client("h", name) for name in system.nodes if name != "desk"}
    leases = {name: holder.gets("gpu") for name, holder in holders.items()}
    system.run(1500)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(1000)
    (left_out,) = set(leases) - {name for name, ages in waits_at(system).items() if ages}
    holders[left_out].releases(leases[left_out])
    system.announce()
    system.client("quick", left_out).gets("gpu")
    system.run(500)
    waiting = {name: ages for name, ages in waits_at(system).items() if ages}
    assert left_out in waiting
    assert len(waiting) == 4
    assert len({stamp for ages in waiting.values() for stamp in ages}) == 1, "all of the one age"
    (other, *_) = [name for name in waiting if name != left_out]
    holders[other].releases(leases[other])
    system.run(100)
    assert [places(one) for one in granted(desk.inbox())] == [[f"gpu/0@{other}"]]


def test_what_is_free_but_kept_for_older_ones_does_not_make_a_claim_run_to_and_fro() -> None:
    system = lab("lab-1", "lab-2", units=2)
    holders = [system.client("h", "lab-1"), system.client("h", "lab-2")]
    for holder in holders:
        holder.gets("gpu:1")
    for name in ("lab-1", "lab-2"):
        big = system.client("big", name)
        big.ask_for(f"gpu,@{name}:2")
        for place in system.nodes.values():
            for row in place.side.manager.rows.values():
                if not row.active:
                    place.side.manager.rows[row.claim] = msgspec.structs.replace(row, left=0)
                    place.side.manager.counts.is_spent(place.side.manager.rows[row.claim])
    system.run(2000)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(60_000)
    assert not granted(desk.inbox())
    asked = {message.claim for _, _, message in system.sent if isinstance(message, Request)}
    assert len(asked) <= 1 + 2 + 3 * 2, "at one place, at both, and three moves at most"


def test_a_claim_moves_three_times_at_most_after_what_only_seems_free() -> None:
    system = lab("lab-1", "lab-2", "lab-3", "lab-4", "lab-5", "lab-6")
    for name in system.nodes:
        if name != "desk":
            system.client("h", name).gets("gpu")
    system.run(1500)
    desk = system.client("a", "desk")
    desk.ask_for("gpu")
    system.run(1000)
    system.forget_news = True
    for _ in range(12):
        system.run(20_000)
        away = next(name for name, ages in waits_at(system).items() if not ages and name != "desk")
        node = system.nodes[away].id
        said = system.announced[node]
        system.announced[node] = msgspec.structs.replace(
            said,
            at_ms=system.now_ms,
            pools=tuple(msgspec.structs.replace(news, free=1) for news in said.pools),
        )
        for known, other in system.announced.items():
            system.announced[known] = msgspec.structs.replace(other, at_ms=system.now_ms + 60_000)
        desk.node.tell("agent", "directory", NeighboursChanged(("gpu",)))
        system.run(1000)
        system.announced[node] = msgspec.structs.replace(said, at_ms=system.now_ms + 60_000)
    asked = {message.claim.counter % 2**40 for _, _, message in system.sent if isinstance(message, Request)}
    assert len(asked) == 1 + 3
    assert sum(len(ages) for ages in waits_at(system).values()) == 4


@pytest.mark.parametrize("now", [True, False])
def test_without_waiting_what_only_seemed_free_is_tried_elsewhere_once(now: bool) -> None:
    system = lab("lab-1", "lab-2")
    system.run(1000)
    system.forget_news = True
    here = system.client("h", "lab-1")
    here.gets("gpu")
    desk = system.client("a", "desk")
    desk.ask_for("gpu", now=now)
    system.run(400)
    assert [places(one) for one in granted(desk.inbox())] == [["gpu/0@lab-2"]]
    other = system.client("b", "desk")
    if now:
        other.ask_for("gpu", now=True)
        system.run(400)
        (denied,) = [one for one in other.inbox() if isinstance(one, frames.Denied)]
        assert denied.code == "not-granted"
        assert system.protocol()["Try"] == 2 + 2
