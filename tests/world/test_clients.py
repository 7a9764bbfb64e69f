"""Clients of a closed world: what they do next, what they believe, and what of it is wrong."""

import msgspec

from holdall.protocols.vocabulary import (
    Acquire,
    ClaimId,
    Ended,
    ExchangeRefused,
    Gone,
    Granted,
    NotNow,
    Release,
    Retrying,
    Shrink,
    UnitGrant,
)
from holdall.world.clients import Clients, Overtaken, Phase, Scene, Waits
from holdall.world.faults import budget
from holdall.world.named import named, plan, world
from holdall.world.plan import World

C1, C2 = ClaimId("c1", 1, 1), ClaimId("c2", 1, 2)
A0 = UnitGrant("n0", "a", "0", 7)


def clients_of(made: World, **faults: int) -> Clients:
    return Clients(made, budget(**faults), lambda claim, _: claim)


def texts(clients: Clients, scene: Scene) -> list[str]:
    return [f"{act.host} {act.text}" for act in clients.acts(scene)]


def after(clients: Clients, scene: Scene, text: str) -> Scene:
    return next(act.then for act in clients.acts(scene) if f"{act.host} {act.text}" == text)


def test_a_client_claims_is_granted_releases_and_is_over() -> None:
    clients = clients_of(world("w", "a", ["0:a"]))
    scene = clients.first
    (act,) = clients.acts(scene)
    assert isinstance(act.command, Acquire)
    scene = act.then
    assert texts(clients, scene) == []
    scene = clients.told(scene, [Granted(C1, 1, (A0,))])
    assert scene.clients[0].holds == (msgspec.structs.replace(A0, fence=0),)
    (act,) = clients.acts(scene)
    assert act.command == Release(C1)
    scene = clients.told(act.then, [Ended(C1)])
    assert clients.over(scene)
    assert not scene.wrong


def test_a_client_that_comes_again_uses_another_claim() -> None:
    clients = clients_of(world("w", "a", [plan("0:a", repeat=2)]))
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.told(scene, [Granted(C1, 1, (A0,))])
    scene = clients.told(after(clients, scene, "c1 releases"), [Ended(C1)])
    assert scene.clients[0].phase is Phase.IDLE
    (act,) = clients.acts(scene)
    assert isinstance(act.command, Acquire)
    assert act.command.claim != C1


def test_a_unit_held_by_two_breaks_exclusion_whatever_the_books_say() -> None:
    clients = clients_of(world("w", "2a", ["0:a", "0:a"]))
    scene = after(clients, after(clients, clients.first, "c1 claims"), "c2 claims")
    scene = clients.told(scene, [Granted(C1, 1, (A0,))])
    assert not scene.wrong
    assert not clients.told(scene, [Granted(C2, 1, (UnitGrant("n0", "a", "1", 8),))]).wrong
    twice = clients.told(scene, [Granted(C2, 1, (A0,))])
    assert twice.wrong == "exclusion: a/0@n0 is held by two clients"


def test_nameless_units_are_counted() -> None:
    clients = clients_of(world("w", "a", ["0:a", "0:a"]))
    nameless = UnitGrant("n0", "a", "", 0)
    scene = after(clients, after(clients, clients.first, "c1 claims"), "c2 claims")
    scene = clients.told(scene, [Granted(C1, 1, (nameless,)), Granted(C2, 1, (nameless,))])
    assert scene.wrong == "exclusion: 2 units of a@n0 in use, it has 1"


def test_a_grant_must_be_the_whole_of_what_was_asked_for() -> None:
    clients = clients_of(world("w", "ab", ["0:ab->1:a"]))
    scene = after(clients, clients.first, "c1 claims")
    for units in ((), (A0,), (A0, UnitGrant("n0", "b", "0", 1), UnitGrant("n1", "b", "0", 1))):
        assert clients.told(scene, [Granted(C1, 1, units)]).wrong.startswith("whole grant: claim 1")


def test_a_second_grant_of_one_claim_is_a_second_sibling_inside() -> None:
    clients = clients_of(world("w", "a", ["0:a or 1:a"]))
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.told(scene, [Granted(C1, 1, (A0,))])
    assert not clients.told(scene, [Granted(C1, 1, (A0,))]).wrong  # told again after a restart
    other = UnitGrant("n1", "a", "0", 1)
    assert clients.told(scene, [Granted(C1, 1, (other,))]).wrong.startswith("one grant")


def test_a_cancel_is_a_fault_and_costs_one_of_the_budget() -> None:
    clients = clients_of(world("w", "a", ["0:a", "0:a"]), cancel=1)
    scene = after(clients, after(clients, clients.first, "c1 claims"), "c2 claims")
    assert texts(clients, scene) == ["c1 cancels", "c2 cancels"]
    assert all(act.fault for act in clients.acts(scene))
    assert texts(clients, after(clients, scene, "c1 cancels")) == []


def test_what_is_given_back_is_in_use_no_more() -> None:
    clients = clients_of(named("shk"))
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.told(scene, [Granted(C1, 1, (A0, UnitGrant("n2", "a", "0", 1)))])
    act = clients.acts(scene)[0]
    assert isinstance(act.command, Shrink)
    assert [unit.node for unit in act.then.clients[0].holds] == ["n2"]


def test_a_refused_exchange_leaves_what_is_held() -> None:
    clients = clients_of(named("xch2"))
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.told(scene, [Granted(C1, 1, (A0,))])
    scene = after(clients, scene, "c1 exchanges")
    assert texts(clients, scene)[0] == "c1 releases"  # the holder may end in between
    back = clients.told(scene, [ExchangeRefused(C1)])
    assert back.clients[0].phase is Phase.INSIDE
    assert back.clients[0].holds == scene.clients[0].holds


def test_a_refused_claim_or_a_lost_lease_ends_the_use() -> None:
    clients = clients_of(world("w", "a", ["0:a"]))
    scene = after(clients, clients.first, "c1 claims")
    assert clients.told(scene, [NotNow(C1)]).clients[0].phase is Phase.ENDING
    inside = clients.told(scene, [Granted(C1, 1, (A0,))])
    gone = clients.told(inside, [Gone(C1, "expired")])
    assert (gone.clients[0].phase, gone.clients[0].holds) == (Phase.ENDING, ())


def test_a_silent_host_holds_nothing_and_its_leases_run_out_everywhere() -> None:
    clients = clients_of(named("x2"), departure=1)
    assert "c1 falls silent" not in texts(
        clients, clients.first
    )  # a host that claims nothing is not worth losing
    scene = after(clients, clients.first, "c1 claims")
    scene = after(clients, scene, "c1 falls silent")
    assert scene.silent == ("c1",)
    assert texts(clients, scene) == ["c2 claims", "n0 lets a lease end", "n1 lets a lease end"]
    # A row may still come: the lease's end is there for it as well.
    assert "n0 lets a lease end" in texts(clients, after(clients, scene, "n0 lets a lease end"))


def test_leases_of_before_a_wipe_must_run_out_at_their_claimants() -> None:
    clients = clients_of(world("w", "a", ["0:a", "0:a"]), wipe=1)
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.came_up(scene, "n0", "wipe")
    assert (scene.epochs, scene.ghosts) == ((1,), (("n0", C1, 0),))
    assert texts(clients, scene) == ["c2 claims", "c1 reaches a deadline"]
    assert clients.told(scene, [Retrying(C1, "n0", 0)]).ghosts == ()
    assert clients.came_up(clients.first, "n0", "reboot").ghosts == ()


def test_the_meter_keeps_its_count_over_a_kill_and_finds_one_too_many() -> None:
    clients = clients_of(msgspec.structs.replace(named("x2"), passes=1, passes_per_ahead=1))
    scene = after(clients, clients.first, "c1 claims")
    scene = clients.told(scene, [Waits("n0", C1, 1, 1)])
    assert scene.meter == (("n0", C1, 1, 2),)
    scene = clients.told(scene, [Overtaken("n0", C1, 1), Waits("n0", C1, 1, 0)])
    assert scene.meter == (("n0", C1, 1, 1),)
    scene = clients.told(scene, [Overtaken("n0", C1, 1)])
    assert not scene.wrong
    assert clients.told(scene, [Overtaken("n0", C1, 1)]).wrong.startswith("bound: ")
