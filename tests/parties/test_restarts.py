"""A node that dies after any turn and comes up again: same leases, same fences, same order; or, without its journal,
nothing before the quarantine is over and higher fences after it."""

import random

import pytest
from parties.party_node import Client, Node, names, pool

from holdall.model import frames
from holdall.parties.messages import WatchProcess


def picture(node: Node) -> object:
    """What must not change in a restart."""
    held = {
        view.lease: (view.units, view.state, view.until_ms, view.holder, view.reason, view.since_ms)
        for view in node.ask("who").leases
    }
    printed = {claim.record.claim: claim.record.printed for claim in node.agent.state.by_printed.values()}
    line = [printed[party] for party in node.view.waiting()]
    pools = [(row.pool, row.free, row.held, row.waiting) for row in node.ask("pools").pools]
    return held, line, pools


def after_a_crash(node: Node) -> Node:
    """Another process that knows only what this one has saved."""
    twin = Node(*node.pools)
    twin.now_ms = node.now_ms
    twin.records = dict(node.records)
    twin.agent.state.incarnation = node.agent.state.incarnation
    twin.crash()
    return twin


@pytest.mark.parametrize("seed", range(12))
def test_c1_a_crash_after_any_turn_changes_no_lease_no_fence_and_no_order(seed: int) -> None:
    lots = random.Random(seed)
    node = Node(pool("gpu", "0", "1", "2"), pool("psu", "p1", "p2"), pool("board", "b1"))
    clients = [Client(node, f"c{number}") for number in range(4)]
    leases: list[tuple[Client, frames.Granted]] = []
    open_claims: list[tuple[Client, int]] = []
    for _ in range(40):
        client = lots.choice(clients)
        kind = lots.random()
        if kind < 0.55 or not leases:
            specs = lots.sample(["gpu:1", "gpu:2", "psu:1", "psu:2", "board:1"], lots.choice([1, 1, 2]))
            frame = client.claim(*specs, now=lots.random() < 0.2, for_ms=lots.choice([None, 3_600_000]))
            client.node.turn([client.asks(frame)])
            open_claims.append((client, frame.n))
        elif kind < 0.8:
            owner, lease = leases.pop(lots.randrange(len(leases)))
            owner.node.turn([owner.asks(frames.Release(owner.number(), lease.key))])
        elif open_claims:
            owner, n = open_claims.pop(lots.randrange(len(open_claims)))
            owner.node.turn([owner.asks(frames.Cancel(owner.number(), f"#{n}"))])
        node.pass_ms(lots.choice([0, 1, 500]))
        for one in clients:
            for answer in one.inbox():
                if isinstance(answer, frames.Granted):
                    leases.append((one, answer))
                    open_claims = [entry for entry in open_claims if entry != (one, answer.n)]
                if isinstance(answer, frames.Released):
                    leases = [entry for entry in leases if entry[1].lease.lease != answer.lease]
            one.beats()
        node.check_counts()
        twin = after_a_crash(node)
        assert picture(twin) == picture(node)
        twin.check_counts()


def test_c1_leases_of_the_dead_end_and_the_living_go_on_in_the_old_order() -> None:
    node = Node(pool("gpu", "0", "1", "2"))
    dead, living, gone = Client(node, "dead"), Client(node, "living"), Client(node, "gone")
    first, second = Client(node, "w1"), Client(node, "w2")
    dead.gets("gpu:1")
    kept = living.gets("gpu:1")
    released = gone.gets("gpu:1")
    frame_1, frame_2 = first.claim("gpu:1"), second.claim("gpu:2")
    first.say(frame_1)
    second.say(frame_2)
    node.pass_ms(5_000)
    # released in the last turn before the crash: the answer never reached its client
    node.turn([gone.asks(frames.Release(gone.number(), released.key))])

    node.crash(down_ms=7_000)

    watched = sorted(one.session for one in node.watched if isinstance(one, WatchProcess))
    assert watched == ["dead", "living", "w1", "w2"]
    node.process_gone("dead")
    again = living.returns("living-2")
    assert again.welcome.resumed
    assert again.beats() == {kept.lease.lease: 28_900}
    w1, w2 = first.returns("w1-2"), second.returns("w2-2")
    # the first had been granted before the crash, the second waits for two
    (granted,) = w1.say(frame_1)
    assert isinstance(granted, frames.Granted)
    assert granted.lease.units[0].fence == 4
    assert granted.key
    (queued,) = w2.say(frame_2)
    assert isinstance(queued, frames.Queued)
    assert queued.why.position == 1
    again.releases(kept)
    (got,) = [one for one in w2.inbox() if isinstance(one, frames.Granted)]
    assert len(got.lease.units) == 2
    assert [unit.fence for unit in got.lease.units] == [1001, 1002] or min(
        u.fence for u in got.lease.units
    ) > 4
    assert node.ask("log").log[-1].kind == "granted"
    assert "restarted" in [row.kind for row in node.ask("log").log]
    node.check_counts()


def test_after_a_restart_a_lease_gets_one_full_ttl_and_no_more() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    client.gets("gpu:1", ttl_ms=10_000)
    node.pass_ms(9_000)
    node.crash()
    node.pass_ms(10_199)
    assert list(node.held()) == ["gpu/0"]
    node.pass_ms(1)
    assert node.held() == {}


def test_a_hard_end_does_not_begin_anew_with_a_restart() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    lease = client.gets("gpu:1", for_ms=100_000, detached=True)
    client.close(gone=True)
    node.pass_ms(50_000)
    node.crash(down_ms=20_000)
    assert node.held() == {"gpu/0": lease.lease.lease}
    # 100 s (1 + 2 %) from the grant; 70 s have passed, and the rate is taken of the rest
    node.pass_ms(30_599)
    assert node.held() == {"gpu/0": lease.lease.lease}
    node.pass_ms(1)
    assert node.held() == {}
    assert node.ask("log").log[-1].text == "its end (for) was reached"


def test_a_wait_does_not_begin_anew_with_a_restart() -> None:
    node = Node(pool("gpu", "0"))
    holder, client = Client(node, "h"), Client(node, "a")
    holder.gets("gpu:1", ttl_ms=300_000)
    client.waits("gpu:1", wait_ms=60_000, ttl_ms=300_000)
    node.pass_ms(30_000)
    node.crash(down_ms=10_000)
    node.pass_ms(19_999)
    assert len(node.view.waiting()) == 1
    node.pass_ms(1)
    assert node.view.waiting() == []


def test_a_lost_journal_grants_nothing_in_quarantine_and_higher_fences_after_it() -> None:
    node = Node(pool("gpu", "0", "1"))
    client = Client(node, "a")
    old = client.gets("gpu:1")
    base = 1_700_000_000 << 20
    node.crash(kind="lost", epoch=2, quarantine_ms=306_000, fence_base=base)
    new = Client(node, "b")
    assert 300_000 < new.welcome.quarantine_ms <= 306_000
    queued = new.waits("gpu:1", ttl_ms=300_000)
    assert queued.why.note == (
        "this node has restarted and can't know all leases: nothing is granted for another 306 s"
    )
    assert new.refused("gpu:1", now=True).code == "not-granted"
    for _ in range(3):
        node.pass_ms(101_999)
        assert [one for one in new.inbox() if isinstance(one, frames.Granted)] == []
        new.beats()
    node.pass_ms(3)
    (granted,) = [one for one in new.inbox() if isinstance(one, frames.Granted)]
    assert granted.lease.lease == queued.claim
    assert granted.lease.units[0].fence > base
    assert granted.lease.units[0].fence > old.lease.units[0].fence
    assert node.ask("node").nodes[0].state == "serving"


def test_a_reboot_keeps_leases_drops_the_queue_and_serves_it_again_in_the_same_order() -> None:
    node = Node(pool("gpu", "0"))
    holder = Client(node, "h")
    lease = holder.gets("gpu:1", for_ms=3_600_000, detached=True)
    waiters = [Client(node, f"w{number}") for number in range(3)]
    queued = [waiter.waits("gpu:1") for waiter in waiters]
    node.crash(kind="reboot", epoch=2)
    printed = {claim.record.claim: claim.record.printed for claim in node.agent.state.by_printed.values()}
    assert node.held() == {"gpu/0": lease.lease.lease}
    node.pass_ms(2_000)
    assert [printed[party] for party in node.view.waiting()] == [one.claim for one in queued]
    fences = [lease.lease.units[0].fence]
    holder = Client(node, "h2")
    holder.releases(lease)
    granted = node.ask("who").leases
    assert [view.lease for view in granted] == [queued[0].claim]
    fences += [view.units[0].fence for view in granted]
    assert fences == sorted(set(fences))


def test_fences_only_grow_over_every_kind_of_restart() -> None:
    node = Node(pool("gpu", "0"))
    last = 0
    epoch = 1
    for kind in ("same", "same", "reboot", "same", "lost", "same", "reboot", "lost", "same"):
        client = Client(node, f"c-{node.now_ms}")
        lease = client.gets("gpu:1")
        fence = lease.lease.units[0].fence
        assert fence > last
        last = fence
        client.releases(lease)
        epoch += kind != "same"
        base = ((1_700_000_000 + node.now_ms // 1000) << 20) if kind == "lost" else 0
        node.crash(kind=kind, epoch=epoch, fence_base=base, down_ms=2_000)
        (row,) = node.ask("pools").pools
        assert row.units[0].fence >= last, "a guard may refuse everything below what is shown"


def test_a_revoked_lease_stays_revoked_over_a_restart() -> None:
    node = Node(pool("gpu", "0"))
    client, operator = Client(node, "a"), Client(node, "op")
    lease = client.gets("gpu:1")
    operator.say(frames.Kick(operator.number(), lease.lease.lease, "maintenance"))
    node.crash()
    again = client.returns("a2")
    (lost,) = again.told_again
    assert isinstance(lost, frames.Lost)
    assert (lost.lease, lost.stop) == (lease.lease.lease, True)
    assert node.ask("who").leases[0].state == "draining"
    node.pass_ms(30_600)
    assert node.held() == {}
    assert names(again.gets("gpu:1")) == ["gpu/0"]


@pytest.mark.parametrize(
    ("kind", "quarantine_ms", "told"),
    [
        ("same", 0, ("restarted", "1 leases and 0 waiting claims are known again")),
        ("lost", 0, ("started", "for the first time")),
        ("lost", 102_000, ("started", "without a journal; nothing is granted for 102 s")),
    ],
)
def test_the_history_tells_which_start_it_was(kind: str, quarantine_ms: int, told: tuple[str, str]) -> None:
    node = Node(pool("psu", "psu-1"))
    Client(node, "c").gets("psu")
    node.crash(kind=kind, quarantine_ms=quarantine_ms)
    (begun,) = [row for row in node.ask("log").log if "started" in row.kind]
    assert (begun.kind, begun.text) == told
