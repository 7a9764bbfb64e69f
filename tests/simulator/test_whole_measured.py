"""Whole nodes without faults: what a claim costs, who delays whom, and what a system costs that does nothing."""

from collections import Counter

import pytest
from simulator.whole_runs import (
    DELAY_MS,
    SOCKET_MS,
    Later,
    counted,
    exact,
    kinds,
    script,
    waits,
)

from holdall.checker.records import AnyRecord, Claim, Grant
from holdall.machine.link_frames import LinkFrame
from holdall.simulator.whole.run import WholeRun
from holdall.simulator.whole.setup import Wants, WholeSetup
from holdall.simulator.whole.wishes import Script, Wishes

MINUTE_MS = 60_000


# ---------------------------------------------------------------- a claim alone


@pytest.mark.parametrize("pools", [1, 3, 10])
def test_ch2_alone_a_claim_takes_2n_plus_1_messages_n_acknowledgements_and_n_plus_1_delays(
    pools: int,
) -> None:
    """From a fourth node, on pools of up to three nodes: each node is visited once, whatever the number of pools."""
    specs = [f"p{place % 3:03d}-{place // 3}:1" for place in range(pools)]
    n = min(pools, 3)
    _, traffic, history = counted(exact(4, pools=4), {3: [script(*specs)]})
    parcels = traffic.of_chain()
    assert kinds(parcels) == {
        "Request": 1,
        **({"Promote": n - 1} if n > 1 else {}),
        "Allowed": 1,
        "Done": n,
        "EndAck": n,
    }
    assert sum(kinds(parcels).values()) == (2 * n + 1) + n
    way = [(sender, receiver) for _, sender, receiver, kind in parcels if kind not in {"Done", "EndAck"}]
    assert way == [(3, 0), *((node, node + 1) for node in range(n - 1)), (n - 1, 3)]
    (wait,) = waits(history).values()
    assert wait == pytest.approx((n + 1) * DELAY_MS + 2 * SOCKET_MS, abs=0.001)


def test_one_frame_leaves_for_a_node_in_a_turn_and_the_links_own_acknowledgements_are_few() -> None:
    setup = exact(4, pools=4)
    _, traffic, _ = counted(setup, {3: [script("p000-0", "p001-0", "p002-0", times=3)]})
    frames = [
        (at, sender, receiver)
        for at, sender, receiver, frame in traffic.frames
        if isinstance(frame, LinkFrame)
    ]
    assert max(Counter(frames).values()) == 1
    _, idle, _ = counted(setup, {})
    pure = [
        sum(1 for *_, frame in one.frames if isinstance(frame, LinkFrame) and not frame.seq)
        for one in (traffic, idle)
    ]
    claims, messages = 3, 10
    print(f"{pure[0] - pure[1]} pure acknowledgements of {claims * messages} messages")
    assert pure[0] - pure[1] <= claims * messages


def test_ch1_a_claim_of_the_own_nodes_pools_puts_nothing_on_the_bus() -> None:
    _, traffic, history = counted(exact(3, pools=3), {0: [script("p000-0", "p000-1", "p000-2")]})
    assert traffic.of_chain() == []
    (wait,) = waits(history).values()
    assert wait == pytest.approx(2 * SOCKET_MS, abs=0.001)


# ---------------------------------------------------------------- beside others (C4, C5)


def test_c5_claims_on_disjoint_pools_see_no_extra_wait() -> None:
    """Half of the clients want pools `…-0`, half pools `…-1`, on the same three nodes, over the same bus."""
    setup = exact(3, pools=2, duration_ms=60_000)

    def scripts(*pools: int) -> dict[int, list[Script]]:
        return {
            node: [
                script(
                    f"p{node:03d}-{pool}",
                    f"p{(node + 1) % 3:03d}-{pool}",
                    think_ms=150 + 40 * node,
                    hold_ms=700,
                    times=40,
                )
                for pool in pools
            ]
            for node in range(3)
        }

    _, _, alone = counted(setup, scripts(0))
    _, _, beside = counted(setup, scripts(0, 1))
    first = tuple(f"client-{node}-0." for node in range(3))
    own = {name: wait for name, wait in waits(beside).items() if name.startswith(first)}
    assert own == waits(alone)
    assert len(own) > 70
    assert len(waits(beside)) == 2 * len(own)
    assert max(own.values()) > 300, "among themselves they do wait"


def test_c4_a_big_claim_over_4_nodes_is_served_within_its_bound_beside_endless_small_ones() -> None:
    """At each node at most 8 + a younger claims pass it, where `a` stood in line there when it came (chain, section 3)."""
    setup = WholeSetup(
        nodes=4,
        wants=Wants(
            pools=2, units=1, common=0, clients=3, reach=2, k=1, wide=4, hold_ms=300, think_ms=100,
            now_share=0.0, give_up_share=0.0, end_share=0.0, or_share=0.0,
        ),
        duration_ms=70_000,
    )  # fmt: skip
    history: list[AnyRecord] = []
    run = WholeRun(setup, on_record=history.append)
    report = run.run()
    assert report.violations == [], "the judge counts passes at each node against 8 + a"
    big = [one for one in history if isinstance(one, Claim) and len(one.need) == 8]
    granted = {one.claim: one.at for one in history if isinstance(one, Grant)}
    served = [(granted[one.claim] - one.at) / 1e6 for one in big]
    passes = run.judge.most_passed()
    print(f"{len(served)} big claims, longest wait {max(served):.0f} ms, most passes at a node {passes}")
    assert len(big) == len(served) >= 8
    small = report.figures.grants - len(big)
    assert small > 500
    # 11 others: at most 11 stand before it at a node, so 19 passes and 11 before it, each for one hold of at most 0.9 s
    assert 1 <= passes <= 8 + 11
    assert max(served) <= 4 * (8 + 11 + 11) * 900


# ---------------------------------------------------------------- how it grows


@pytest.mark.parametrize("nodes", [24, 64])
def test_messages_of_a_claim_do_not_depend_on_the_number_of_nodes(nodes: int) -> None:
    """The same sixteen clients on eight nodes, in a system of 8 and in a larger one: as many messages of each kind."""
    wants = Wants(
        clients=0, pools=1, units=1, common=0, reach=3, k=3, now_share=0.0, give_up_share=0.0, end_share=0.0,
        or_share=0.0,
    )  # fmt: skip
    eight = WholeSetup(nodes=8, wants=wants)
    found: list[tuple[Counter[str], int]] = []
    for number in (8, nodes):
        clients = {
            node: [Later(Wishes(eight, node, seat), pause_ms=15_000) for seat in range(2)]
            for node in range(8)
        }
        report, traffic, _ = counted(exact(number, duration_ms=45_000), clients)
        found.append((kinds(traffic.of_chain()), report.figures.grants))
    assert found[0] == found[1]
    messages, grants = found[0][0].total(), found[0][1]
    print(f"{grants} claims, {messages / grants:.2f} messages each, in both")
    assert grants > 40


def idle_frames(nodes: int, pairs: int = 0, claims: int = 1) -> int:
    """Frames in one minute; the first `pairs` nodes hold something of the next one, each with so many claims."""
    # A first meeting costs a pair an opening of its link, and a node meets one other a second.
    begin_ms = max(30_000, 1_200 * nodes)
    setup = exact(nodes, units=4, duration_ms=begin_ms + 35_000)
    held = {
        node: [script(f"p{node + 1:03d}-0", hold_ms=60_000) for _ in range(claims)] for node in range(pairs)
    }
    _, traffic, _ = counted(setup, held)
    return 2 * traffic.between(begin_ms, begin_ms + MINUTE_MS // 2)


def test_idle_traffic_grows_with_nodes_and_with_pairs_that_share_claims_not_with_all_pairs() -> None:
    few, many = idle_frames(8), idle_frames(24)
    print(f"frames a minute: {few} of 8 nodes, {many} of 24")
    # a round a second, each with one other node: summary, answer, and an acknowledgement now and then
    assert 150 <= few / 8 <= 180
    assert many / 24 == pytest.approx(few / 8, rel=0.05)
    with_pairs = [idle_frames(8, pairs=4), idle_frames(24, pairs=4), idle_frames(8, pairs=4, claims=4)]
    per_pair = [(with_pairs[0] - few) / 4, (with_pairs[1] - many) / 4, (with_pairs[2] - few) / 4]
    print(f"frames a minute and pair: {per_pair}")
    # each third of the ttl of 6 s a renewal, its answer, and an acknowledgement
    assert all(80 <= cost <= 95 for cost in per_pair), "whatever the number of nodes, and of claims"


def test_idle_traffic_of_64_nodes_is_as_much_for_each_as_of_8() -> None:
    frames = idle_frames(64)
    print(f"{frames} frames a minute of 64 nodes")
    assert frames / 64 == pytest.approx(idle_frames(8) / 8, rel=0.05)
