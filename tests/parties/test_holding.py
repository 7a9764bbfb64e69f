"""Leases in their holders' hands: extended, dropped in part, exchanged, detached, revoked, and who may."""

import msgspec
import pytest
from parties.party_node import FIRST_WALL_MS, Client, Node, names, pool

from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.names import short_id
from holdall.model.spec import parse_needs


def only(answers: list[frames.FromNode], kind: type[msgspec.Struct]) -> msgspec.Struct:
    (found,) = [one for one in answers if isinstance(one, kind)]
    return found


def test_extending_counts_from_now_and_stops_at_the_pools_max_for() -> None:
    node = Node(pool("gpu", "0", max_for_ms=100_000))
    client = Client(node, "a")
    lease = client.gets("gpu:1", for_ms=40_000, ttl_ms=300_000)
    node.pass_ms(20_000)

    (longer,) = client.say(frames.Extend(client.number(), lease.key, 60_000))
    assert isinstance(longer, frames.Granted)
    assert longer.lease.until_ms == FIRST_WALL_MS + 1000 + 80_000
    assert longer.for_left_ms == 58_300
    (most,) = client.say(frames.Extend(client.number(), lease.key, 200_000))
    assert isinstance(most, frames.Granted)
    assert most.lease.until_ms == FIRST_WALL_MS + 1000 + 100_000
    (denied,) = client.say(frames.Extend(client.number(), lease.key, 200_000))
    assert isinstance(denied, frames.Denied)
    assert denied.code == "refused"
    assert denied.text == (
        f"lease {short_id(lease.lease.lease)} lasts until 22:15:01 and its pools allow no later end (max_for 100 s)."
    )
    (same,) = client.say(frames.Extend(client.number(), lease.key, 30_000))
    assert isinstance(same, frames.Granted)
    assert same.lease.until_ms == FIRST_WALL_MS + 1000 + 100_000, "never earlier"
    # the book ends it at the new end: 100 s (1 + 2 %) from the grant, 20 s have passed
    node.pass_ms(81_599)
    assert list(node.held()) == ["gpu/0"]
    node.pass_ms(1)
    assert node.held() == {}
    node.check_counts()


def test_a_lease_without_hard_end_needs_no_extending() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    commits = node.commits
    (same,) = client.say(frames.Extend(client.number(), lease.key, 30_000))
    assert isinstance(same, frames.Granted)
    assert (same.lease, same.for_left_ms) == (lease.lease, None)
    assert node.commits == commits


def test_a_part_is_dropped_by_the_units_names_and_the_rest_keeps_needs_and_fences() -> None:
    node = Node(pool("gpu", "0", "1", "2"), pool("psu", "p1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:2", "psu:1", "gpu:1")
    other.waits("gpu:2")

    (rest,) = client.say(frames.Drop(client.number(), lease.key, ("gpu/0", "gpu/2")))

    assert isinstance(rest, frames.Granted)
    assert rest.lease.units == tuple(unit for unit in lease.lease.units if unit.name in {"1", "p1"})
    (granted,) = [one for one in other.inbox() if isinstance(one, frames.Granted)]
    assert names(granted) == ["gpu/0", "gpu/2"]
    (again,) = client.say(frames.Drop(client.number(), lease.key, ("gpu/0", "gpu/2")))
    assert isinstance(again, frames.Granted)
    assert again.lease == rest.lease
    (wrong,) = client.say(frames.Drop(client.number(), lease.key, ("gpu/9",)))
    assert isinstance(wrong, frames.Denied)
    assert wrong.text == (
        f"'gpu/9' names no unit of lease {short_id(lease.lease.lease)} (it has gpu/1, psu/p1)."
    )
    (end,) = client.say(frames.Drop(client.number(), lease.key, ("gpu/1", "psu/p1")))
    assert end == frames.Released(5, lease.lease.lease, "released")
    node.check_counts()


def test_a_holder_counts_its_hard_end_shorter_than_the_pools_max_for() -> None:
    """The 2 % by which clocks may differ, and the margin of half a second."""
    node = Node(pool("gpu", "0", max_for_ms=8 * 3_600_000))
    lease = Client(node, "a").gets("gpu:1")
    assert lease.for_left_ms == 28_223_500
    assert show_duration(lease.for_left_ms) == "7 h 50 min"
    assert lease.lease.until_ms == lease.lease.since_ms + 8 * 3_600_000


def test_ch18_an_exchange_swaps_in_one_step() -> None:
    node = Node(pool("gpu", "0", "1"), pool("psu", "p1"))
    client = Client(node, "a")
    lease = client.gets("gpu:1")
    frame = frames.Exchange(client.number(), lease.key, parse_needs(["psu:1", "gpu:1"]), ("gpu/0",))

    (swapped,) = client.say(frame)

    assert isinstance(swapped, frames.Granted)
    assert names(swapped) == ["gpu/1", "psu/p1"]
    assert swapped.lease.needs == ("gpu:1", "psu:1", "gpu:1")
    assert {unit.name: unit.need for unit in swapped.lease.units} == {"1": 2, "p1": 1}
    assert node.view.counts("gpu").free == 1  # type: ignore[union-attr]
    node.check_counts()
    node.crash()
    again = client.returns("a2")
    assert {f"{u.pool}/{u.name}" for view in node.ask("who").leases for u in view.units} == {
        "gpu/1",
        "psu/p1",
    }
    assert isinstance(again.releases(lease), frames.Released)
    assert node.held() == {}
    node.check_counts()


def test_ch18_a_refused_exchange_leaves_the_lease_as_it_was() -> None:
    node = Node(pool("gpu", "0"), pool("psu", "p1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1")
    other.gets("psu:1")
    before = node.ask("who").leases
    frame = frames.Exchange(client.number(), lease.key, parse_needs(["psu:1"]), ("gpu/0",))
    (denied,) = client.say(frame)
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-granted"
    assert node.ask("who").leases == before
    unknown = frames.Exchange(client.number(), lease.key, parse_needs(["laser:1"]), ())
    (denied,) = client.say(unknown)
    assert isinstance(denied, frames.Denied)
    assert denied.code == "never"
    node.check_counts()


def test_a_detached_lease_outlives_its_client_until_its_hard_end() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    assert client.refused("gpu:1", detached=True).code == "bad-spec"
    lease = client.gets("gpu:1", detached=True, for_ms=3_600_000)
    assert lease.valid_for_ms == lease.for_left_ms == 3_600_000 - 72_000 - 500
    client.close(gone=True)
    node.pass_ms(3_000_000)
    (view,) = node.ask("who").leases
    assert (view.detached, view.renewing, view.expires_ms) == (True, True, view.until_ms)
    stranger = Client(node, "b", uid=3000)
    (same,) = stranger.say(frames.Ask(stranger.number(), "show", lease.key))
    assert isinstance(same, frames.Listing)
    assert same.leases == (view,)
    assert isinstance(stranger.releases(lease), frames.Released)
    assert node.held() == {}


def test_a_detached_lease_ends_at_its_hard_end() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    client.gets("gpu:1", detached=True, for_ms=60_000)
    client.close(gone=False)
    node.pass_ms(61_200)
    assert node.held() == {}


def test_a_kick_asks_the_holder_to_stop_and_is_answered_when_it_has() -> None:
    node = Node(pool("gpu", "0"))
    client, operator, other = Client(node, "a"), Client(node, "op"), Client(node, "b")
    lease = client.gets("gpu:1")
    other.waits("gpu:1")

    assert operator.say(frames.Kick(operator.number(), lease.lease.lease[:6], "maintenance")) == []
    (lost,) = client.inbox()
    assert lost == frames.Lost(
        lease.lease.lease,
        f"lease {short_id(lease.lease.lease)} is revoked by op@lab-1: maintenance. Stop using it and release it.",
        stop=True,
    )
    assert node.ask("who").leases[0].state == "draining"
    assert [one for one in other.inbox() if isinstance(one, frames.Granted)] == []

    client.releases(lease)
    assert operator.inbox() == [frames.Released(1, lease.lease.lease, "kicked")]
    assert len([one for one in other.inbox() if isinstance(one, frames.Granted)]) == 1
    row = next(row for row in node.ask("log").log if row.kind == "kicked")
    assert row.text == "revoked: op@lab-1: maintenance"


def test_a_kicked_holder_that_only_renews_loses_its_lease_after_one_ttl() -> None:
    node = Node(pool("gpu", "0"))
    client, operator = Client(node, "a"), Client(node, "op")
    lease = client.gets("gpu:1")
    operator.say(frames.Kick(operator.number(), lease.lease.lease, "maintenance"))
    client.inbox()
    for passed in (10_000, 20_000):
        node.pass_ms(10_000)
        # not renewed: what is left counts from the revocation
        assert client.beats() == {lease.lease.lease: 28_900 - passed}
        operator.beats()
    node.pass_ms(10_599)
    assert list(node.held()) == ["gpu/0"]
    node.pass_ms(1)
    assert node.held() == {}
    lost = only(client.inbox(), frames.Lost)
    assert isinstance(lost, frames.Lost)
    assert not lost.stop
    assert operator.inbox() == [frames.Released(1, lease.lease.lease, "kicked")]


def test_a_kick_by_force_raises_the_fence_and_frees_at_once() -> None:
    node = Node(pool("gpu", "0", cooldown_ms=5_000))
    client, operator = Client(node, "a"), Client(node, "op")
    lease = client.gets("gpu:1")
    (released,) = operator.say(frames.Kick(operator.number(), lease.lease.lease, "stuck", unsafe=True))
    assert isinstance(released, frames.Released)
    assert released.what == (
        "kicked by force. What does not check fences is not protected from its former holder. Fence 1 is void."
    )
    lost = only(client.inbox(), frames.Lost)
    assert isinstance(lost, frames.Lost)
    assert "Fence 1 is void." in lost.text
    (row,) = node.ask("pools").pools
    assert [(unit.fence, unit.state) for unit in row.units] == [(2, "cooldown")]
    node.pass_ms(5_000)
    assert client.gets("gpu:1").lease.units[0].fence == 3


@pytest.mark.parametrize("frame", [frames.Kick(2, "XXXX", "r"), frames.Drain(2), frames.Clear(2, "gpu/0")])
def test_only_the_nodes_user_and_root_may_kick_drain_and_clear(frame: frames.ToNode) -> None:
    node = Node(pool("gpu", "0"))
    stranger, root = Client(node, "s", uid=2000), Client(node, "root", uid=0)
    (denied,) = stranger.say(frame)
    assert isinstance(denied, frames.Denied)
    assert denied.code == "refused"
    (answer,) = root.say(frame)
    assert not isinstance(answer, frames.Denied) or answer.code != "refused"


def test_a_waiting_claim_is_kicked_at_once() -> None:
    node = Node(pool("gpu", "0"))
    client, operator = Client(node, "a"), Client(node, "op")
    client.gets("gpu:1")
    queued = client.waits("gpu:1")
    (released,) = operator.say(frames.Kick(operator.number(), queued.claim, "not today"))
    assert released == frames.Released(1, queued.claim, "kicked")
    (denied,) = client.inbox()
    assert denied == frames.Denied(queued.n, "refused", "ended by op@lab-1: not today")
    assert node.view.waiting() == []


def test_sixteen_claims_of_one_client_wait_in_a_line_and_the_rest_is_parked_in_order() -> None:
    node = Node(pool("gpu", "0"), pool("psu", "p1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = other.gets("gpu:1")
    queued = [client.waits("gpu:1") for _ in range(19)]
    last = other.waits("gpu:1")
    assert len(node.view.waiting()) == 17
    parked = node.ask("why", queued[18].claim).waits[0]
    assert parked.note == "16 of your claims wait for such a pool already; this one joins the line after them"
    assert len(node.ask("queue").waits) == 20
    assert [node.agent.state.by_printed[one.claim].record.phase for one in queued[16:]] == ["parked"] * 3
    # a parked claim can be cancelled, and its place is not needed
    client.say(frames.Cancel(client.number(), f"#{queued[17].n}"))
    order: list[str] = []
    other.releases(lease)
    while True:
        granted = [one for one in client.inbox() + other.inbox() if isinstance(one, frames.Granted)]
        if not granted:
            break
        (one,) = granted
        order.append(one.lease.lease)
        owner = other if one.lease.lease == last.claim else client
        owner.node.turn([owner.asks(frames.Release(owner.number(), one.key))])
    in_line = [one.claim for one in queued[:16]] + [last.claim]
    assert order == [*in_line, queued[16].claim, queued[18].claim]
    assert node.agent.state.open_claims == {}
    assert node.agent.state.parked == {}


def test_parked_claims_come_back_parked_after_a_restart() -> None:
    node = Node(pool("gpu", "0"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = other.gets("gpu:1")
    queued = [client.waits("gpu:1") for _ in range(18)]
    node.crash()
    again = other.returns("b2")
    client.returns("a2")
    assert len(node.view.waiting()) == 16
    again.releases(lease)
    assert len(node.view.waiting()) == 16
    assert [view.lease for view in node.ask("who").leases] == [queued[0].claim]


def test_a_claim_with_more_placements_than_four_is_served_by_any_of_them() -> None:
    benches = [pool(f"bench-{number}", "u") for number in range(7)]
    node = Node(*benches)
    holder, client = Client(node, "h"), Client(node, "a")
    leases = [holder.gets(f"bench-{number}:1") for number in range(7)]
    any_of = "+".join(f"bench-{number}" for number in range(7))
    queued = client.waits(f"{any_of}:1")
    asked = {pool for vector in node.agent.state.by_printed[queued.claim].vectors for pool, _ in vector}
    assert len(asked) <= 4
    for number in sorted(set(range(7)) - {int(name[-1]) for name in asked}):
        holder.releases(leases[number])
        node.settle()
        (granted,) = [one for one in client.inbox() if isinstance(one, frames.Granted)]
        assert granted.lease.lease == queued.claim
        assert names(granted) == [f"bench-{number}/u"]
        break
    node.check_counts()


def test_two_of_three_pools() -> None:
    node = Node(pool("b1", "u"), pool("b2", "u"), pool("b3", "u"))
    holder, client = Client(node, "h"), Client(node, "a")
    lease = holder.gets("b1:1")
    assert names(client.gets("b1+b2+b3:2")) == ["b2/u", "b3/u"]
    queued = client.waits("b1+b2+b3:2")
    holder.releases(lease)
    assert client.inbox() == []
    assert node.ask("why", queued.claim).waits[0].needs[0].free == 1


def test_alternatives_are_taken_in_the_order_of_preference() -> None:
    node = Node(pool("h100", "h"), pool("a100", "a1", "a2"))
    client = Client(node, "a")
    assert names(client.gets("h100:1 or a100:2")) == ["h100/h"]
    assert names(client.gets("h100:1 or a100:2")) == ["a100/a1", "a100/a2"]


def test_units_that_come_free_are_found_behind_many_claims_with_other_placements() -> None:
    left = [pool(f"left-{number}", "u") for number in range(6)]
    right = [pool(f"right-{number}", "u") for number in range(6)]
    node = Node(*left, *right)
    holder = Client(node, "h")
    held = {name: holder.gets(f"{name}:1") for name in (spec.name for spec in (*left, *right))}
    any_left = "+".join(spec.name for spec in left)
    any_right = "+".join(spec.name for spec in right)
    clients = [Client(node, f"c{number}") for number in range(10)]
    for number in range(100):
        clients[number % 10].waits(f"{any_left}:1")
    last = Client(node, "last")
    queued = last.waits(f"{any_right}:1")
    asked = {name for vector in node.agent.state.by_printed[queued.claim].vectors for name, _ in vector}
    free = next(name for name in held if name.startswith("right") and name not in asked)
    holder.releases(held[free])
    node.settle()
    (granted,) = [one for one in last.inbox() if isinstance(one, frames.Granted)]
    assert names(granted) == [f"{free}/u"]
    # the same by giving a part back, and after a crash in between
    queued = last.waits(f"{any_right}:1")
    asked = {name for vector in node.agent.state.by_printed[queued.claim].vectors for name, _ in vector}
    free = next(name for name in held if name.startswith("right") and name not in asked and name != free)
    node.turn([holder.asks(frames.Release(holder.number(), held[free].key))])
    node.crash()
    node.settle()
    assert queued.claim in [view.lease for view in node.ask("who").leases]
    node.check_counts()
