"""How long a lease over nodes lives: by its session and by each node's last answer; what is told when one falls silent."""

from parties.many_nodes import System, granted, places
from parties.party_node import FIRST_WALL_MS, Client, pool

from holdall.model import frames
from holdall.model.names import short_id
from holdall.parties.life import UNCONFIRMED
from holdall.parties.texts import clock_text

TTL_MS = 30_000
VALID_MS = 28_900


def lab() -> System:
    """A unit each on lab-1, lab-2 and desk; clients at `desk`."""
    system = System()
    system.add("lab-1", pool("gpu", "0"))
    system.add("lab-2", pool("psu", "0"))
    system.add("desk", pool("cam", "0"))
    system.run(100)
    return system


def leased(system: System, client: Client, *specs: str, **fields: object) -> frames.Granted:
    answers = client.ask_for(*specs, **fields)
    system.run(100)
    (lease,) = granted([*answers, *client.inbox()])
    return lease


def lost(client: Client) -> list[str]:
    return [one.text for one in client.inbox() if isinstance(one, frames.Lost)]


def who(system: System) -> list[frames.LeaseView]:
    return list(system.nodes["desk"].ask("who").leases)


# ------------------------------------------------------------ a node falls silent


def test_a_lease_is_confirmed_for_the_least_of_its_nodes() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    assert VALID_MS - 200 <= lease.valid_for_ms <= VALID_MS
    here = leased(system, system.client("b", "desk"), "cam")
    assert here.valid_for_ms == VALID_MS
    system.run(60_000)
    system.stop("lab-1")
    # the last renewal that lab-1 answered was sent within the last third of a ttl
    first = desk.beats()[lease.lease.lease]
    assert VALID_MS - TTL_MS // 3 - 100 <= first <= VALID_MS
    system.run(6_000)
    assert desk.beats()[lease.lease.lease] == first - 6_000


def test_a_lost_node_ends_the_whole_lease_with_its_name_and_since_when_and_before_its_units_are_free() -> (
    None
):
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    system.run(60_000)
    desk.inbox()
    system.stop("lab-1")
    left = desk.beats()[lease.lease.lease]
    system.run(left - 1)
    assert lost(desk) == []
    system.run(20)
    (text,) = lost(desk)
    fences = sorted(unit.fence for unit in lease.lease.units)
    begin = (
        f"lease {short_id(lease.lease.lease)} lost: no renewal confirmed for 30 s (lab-1 unreachable since "
    )
    assert text.startswith(begin)
    # since when: the sending of the last renewal that was answered, a whole life of the lease ago
    since_ms = FIRST_WALL_MS + system.now_ms - VALID_MS
    near = {clock_text(since_ms + off_ms, 0) for off_ms in (-1_000, 0)}
    assert text.removeprefix(begin)[:8] in near
    assert text.endswith(f"Fences {fences[0]}, {fences[1]} are void.")
    assert desk.beats() == {}
    # lab-2 has its unit back at once, lab-1 when it knows by itself
    system.run(100)
    assert system.holders().keys() == {"gpu/0@lab-1"}
    system.start("lab-1")
    system.run(2 * TTL_MS)
    assert system.holders() == {}


def test_a_grant_by_a_node_that_stands_still_is_told_when_it_answers_with_enough_left_of_its_time() -> None:
    """A command that it were told for at once would have to be stopped before it began."""
    system = lab()
    other, desk = system.client("a", "desk"), system.client("b", "desk")
    held = leased(system, other, "cam", ttl_ms=12_000)
    desk.ask_for("gpu", "cam", ttl_ms=12_000)
    system.run(60_000)
    system.stop("lab-1")
    system.run(4_900)
    other.releases(held)
    system.run(1_000)
    assert granted(desk.inbox()) == []
    system.down.clear()
    system.run(15_000)
    (lease,) = granted(desk.inbox())
    assert lease.valid_for_ms >= 12_000 * 58 // 100 - 500
    system.check()


def test_c15_a_silent_node_is_shown_with_since_when_until_it_answers_again() -> None:
    system = lab()
    desk = system.client("a", "desk")
    leased(system, desk, "gpu", "psu")
    assert [view.silent for view in who(system)] == [()]
    system.run(1_000)
    system.stop("lab-1")
    system.run(21_000)
    (view,) = who(system)
    (silent,) = view.silent
    assert silent.startswith("lab-1 (since ")
    system.start("lab-1")
    system.run(12_000)
    assert [view.silent for view in who(system)] == [()]
    assert lost(desk) == []


def test_c15_a_node_that_returns_has_its_leases_as_before_and_gives_nothing_of_them_to_others() -> None:
    system = lab()
    desk, other = system.client("a", "desk"), system.client("b", "desk")
    lease = leased(system, desk, "gpu", "psu")
    other.ask_for("gpu")
    system.run(1_000)
    system.stop("lab-1")
    system.run(15_000)
    system.start("lab-1")
    system.run(200_000)
    assert lost(desk) == []
    assert granted(other.inbox()) == []
    system.check()
    desk.releases(lease)
    system.run(100)
    assert [places(one) for one in granted(other.inbox())] == [["gpu/0@lab-1"]]


def test_a_node_that_comes_back_without_its_journal_ends_the_whole_lease() -> None:
    system = lab()
    desk = system.client("a", "desk")
    leased(system, desk, "gpu", "psu")
    system.run(5_000)
    desk.inbox()
    system.stop("lab-1")
    system.start("lab-1", kind="lost", epoch=2, quarantine_ms=306_000, fence_base=1 << 20)
    system.run(12_000)
    (text,) = lost(desk)
    assert "lab-1 has lost its record of it" in text
    # who stands still does not hear it: what others have of the lease is kept for as long as it was confirmed
    assert system.holders().keys() == {"psu/0@lab-2"}
    system.run(TTL_MS + 1_000)
    assert system.holders() == {}
    assert lost(desk) == []


# ------------------------------------------------------------ this node comes up again


def returned(system: System, client: Client, name: str) -> Client:
    again = client.returns(name)
    system.clients.remove(client)
    system.clients.append(again)
    return again


def test_after_a_restart_a_lease_is_neither_confirmed_nor_over_before_its_nodes_have_spoken() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease, here = leased(system, desk, "gpu", "psu"), leased(system, desk, "cam")
    system.run(10_000)
    system.stop("lab-1")
    system.start("desk")
    desk = returned(system, desk, "again")
    system.run(1_000)
    beats = desk.beats()
    assert beats == {lease.lease.lease: UNCONFIRMED, here.lease.lease: VALID_MS}
    # who takes it over now is not answered yet
    assert desk.say(frames.Attach(desk.number(), lease.key)) == []
    system.start("lab-1")
    system.run(12_000)
    (attached,) = granted(desk.inbox())
    assert attached.lease.lease == lease.lease.lease
    assert 0 < attached.valid_for_ms <= VALID_MS
    assert 0 < desk.beats()[lease.lease.lease] <= VALID_MS
    system.check()


def test_after_a_restart_a_lease_is_confirmed_at_once_where_all_nodes_are_there() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    system.run(10_000)
    system.start("desk")
    desk = returned(system, desk, "again")
    assert desk.beats() == {lease.lease.lease: UNCONFIRMED}
    system.run(100)
    assert VALID_MS - 200 <= desk.beats()[lease.lease.lease] <= VALID_MS


def test_after_a_restart_what_a_node_has_lost_is_told_as_lost_and_to_who_waits_for_it() -> None:
    system = lab()
    desk = system.client("a", "desk")
    lease = leased(system, desk, "gpu", "psu")
    system.run(10_000)
    system.stop("lab-1")
    system.start("desk")
    desk = returned(system, desk, "again")
    assert desk.say(frames.Attach(desk.number(), lease.key)) == []
    system.start("lab-1", kind="lost", epoch=2, quarantine_ms=306_000, fence_base=1 << 20)
    system.run(12_000)
    answers = desk.inbox()
    assert [one.code for one in answers if isinstance(one, frames.Denied)] == ["lost"]
    assert any("lab-1 has lost its record" in one.text for one in answers if isinstance(one, frames.Lost))
    system.run(TTL_MS + 1_000)
    assert system.holders() == {}


def test_a_node_that_dies_again_and_again_still_ends_who_has_fallen_silent() -> None:
    """Each start is shorter than a ttl; what was waited before counts, for other nodes and for own clients alike."""
    system = lab()
    desk, there = system.client("a", "desk"), system.client("b", "lab-2")
    leased(system, desk, "gpu")
    there.ask_for("psu")
    system.run(2_000)
    system.stop("desk")
    system.clients.remove(there)
    for _ in range(4):
        system.run(10_000)
        system.start("lab-1")
        system.start("lab-2")
    assert system.holders().keys() == {"gpu/0@lab-1", "psu/0@lab-2"}
    system.run(2_000)
    assert system.holders() == {}


def test_what_a_node_hears_between_its_deaths_counts_anew() -> None:
    system = lab()
    desk = system.client("a", "desk")
    leased(system, desk, "gpu")
    for _ in range(8):
        system.run(12_000)
        system.start("lab-1")
    assert system.holders().keys() == {"gpu/0@lab-1"}
    assert lost(desk) == []
