"""Many directories: how fast news reaches all, and what it costs. Seeded; own clock rates; counts are exact."""

from collections.abc import Iterator

import msgspec
import pytest
from parties.directory_net import Net, Site, agree, knows, system

from holdall.parties.directory.messages import Difference, Leaving, Summary, Tell
from holdall.parties.neighbours import PoolNews

GPU = PoolNews("gpu", "gpu", total=8, free=8)
SIZES = (3, 8, 64)
ROUNDS = {3: 3, 8: 5, 64: 9}
"""Within so many rounds all know it: about 1.5 log2 of the number of nodes."""


def all_know(sites: list[Site], one: Site) -> bool:
    return all(knows(site, one) for site in sites if site is not one and site.up)


@pytest.fixture(params=SIZES)
def net(request: pytest.FixtureRequest) -> Iterator[Net]:
    made = Net(seed=request.param)
    system(made, request.param, GPU)
    made.count()
    yield made
    assert [site.refused for site in made.sites if site.refused] == []


def test_a_change_of_a_pool_reaches_all(net: Net) -> None:
    one = net.sites[-1]
    one.pools.set(msgspec.structs.replace(GPU, free=3))
    net.run(1250)  # read at the one's next round
    net.rounds_until(lambda: all_know(net.sites, one), ROUNDS[len(net.sites)])
    assert all(
        remote.news.free == 3 for remote in net.sites[0].view.pools(["gpu"]) if remote.node == one.node
    )


def test_a_node_that_joins_knows_all_before_it_serves_and_is_known_soon(net: Net) -> None:
    joined = net.add("new", GPU, members=(net.member(net.sites[-1]),))
    joined.start()
    while not joined.to_node:
        net.run(10)
    assert all(knows(joined, site) for site in net.sites if site is not joined)
    net.rounds_until(lambda: all_know(net.sites, joined), ROUNDS[len(net.sites) - 1])


def test_a_restart_reaches_all(net: Net) -> None:
    net.kill(net.sites[0])
    later = net.again(net.sites[0])
    net.run(800)  # hello, and the pause in which it listens
    net.rounds_until(lambda: all_know(net.sites[1:], later), ROUNDS[len(net.sites) - 1])


def test_both_sides_of_a_partition_notice_it_and_meet_again(net: Net) -> None:
    half = len(net.sites) // 2
    one, other = net.sites[:half], net.sites[half:]
    net.cut(one, other)
    net.run(30 * 1100)
    for site in one:
        states = {neighbour.node: neighbour.state for neighbour in site.view.nodes()}
        assert [states[away.node] for away in other] == ["silent"] * len(other)
        assert [states[near.node] for near in one if near is not site] == ["serving"] * (half - 1)
        assert len(site.view.pools(["gpu"])) == len(net.sites) - 1
    one[0].pools.set(msgspec.structs.replace(GPU, free=1))
    other[0].pools.set(msgspec.structs.replace(GPU, free=2))
    seen = len(one[0].changes)
    net.cut()
    net.rounds_until(lambda: agree(net.sites), ROUNDS[len(net.sites)] + 4)
    told = {node for change in one[0].changes[seen:] for node in change.nodes}
    assert told == {away.node for away in other}


@pytest.mark.parametrize(("count", "seed"), [(3, 0), (3, 1), (3, 2), (8, 0), (8, 1), (8, 2), (64, 0)])
def test_loss_repetition_and_reordering_only_slow_it_down(count: int, seed: int) -> None:
    net = Net(seed)
    sites = system(net, count, GPU)
    net.loss, net.repeat, net.delay_ms = 0.2, 0.2, (1, 2500)
    sites[1].pools.set(msgspec.structs.replace(GPU, free=3))
    net.kill(sites[0])
    sites[0] = net.again(sites[0])
    sites[0].pools.set(PoolNews("board", "board", total=1))
    sites[2].own(Leaving())
    net.kill(sites[2])
    net.run(3500)
    alive = [site for site in sites if site.up]
    net.rounds_until(lambda: agree(alive), 25)
    silent = [one.view.node(other.node) for one in alive for other in alive if one is not other]
    assert all(neighbour is not None and neighbour.state == "serving" for neighbour in silent)
    assert [site.refused for site in net.sites if site.refused] == []


@pytest.mark.parametrize("count", SIZES)
def test_nobody_is_called_silent_because_of_lost_messages(count: int) -> None:
    net = Net(count)
    sites = system(net, count)
    net.loss, net.delay_ms = 0.2, (1, 800)
    for site in sites:
        site.changes.clear()
    net.run(30 * 1100)
    assert [change for site in sites for change in site.changes] == []


# What it costs


def rounds_of(net: Net) -> int:
    return sum(site.directory.state.round for site in net.sites)


def test_an_idle_round_costs_each_node_one_question_and_one_answer(net: Net) -> None:
    count = len(net.sites)
    net.run(8 * 1100)  # what the start has left to tell
    net.count()
    before = rounds_of(net)
    for site in net.sites:
        site.changes.clear()
    net.run(10 * 1100)
    assert [change for site in net.sites for change in site.changes] == []
    rounds = rounds_of(net) - before
    kinds = [type(message) for _, _, message in net.messages]
    assert 9 * count <= rounds <= 12 * count
    assert kinds.count(Summary) == rounds
    assert abs(kinds.count(Difference) - rounds) <= 2  # those under way at either end of the count
    assert kinds.count(Tell) == 0
    assert len(kinds) <= 2 * rounds + 2
    # A question has one row a node; an answer the rows in which it is ahead.
    assert net.bytes <= rounds * (2 * 60 + 2 * count * 40)


def test_each_node_is_asked_by_each_other_once_in_a_cycle() -> None:
    net = Net(5)
    sites = system(net, 8)
    net.count()
    net.run(1100 * 7 * 8)
    asked = [to for sender, to, message in net.messages if sender == "n03" and isinstance(message, Summary)]
    numbers = {site.node: asked.count(site.node) for site in sites if site.node != "n03"}
    assert len(numbers) == 7
    assert set(numbers.values()) <= {7, 8, 9}


def test_the_number_of_claims_between_two_rounds_changes_nothing() -> None:
    costs: list[tuple[int, int]] = []
    for changes in (1, 2000):
        net = Net(7)
        sites = system(net, 8, GPU)
        net.run(11_000)
        net.count()
        for _ in range(10):
            for number in range(changes):
                sites[2].pools.set(msgspec.structs.replace(GPU, free=(number + 1) % 8))
            sites[2].pools.set(msgspec.structs.replace(GPU, free=int(net.now_ms) % 8))
            net.run(1100)
        costs.append(net.count())
    assert costs[0] == costs[1]


def test_a_node_with_many_pools_is_read_in_pages_and_then_by_changes() -> None:
    net = Net(3)
    first, second, third = system(net, 3, GPU)
    many = [PoolNews(f"p{number:05}", f"p{number:05}", total=1, free=1) for number in range(20_000)]
    big = net.add("big", *many, members=(net.member(first),))
    big.start()
    net.rounds_until(lambda: agree([first, second, third, big]), 12)
    sent = [message for sender, _, message in net.messages if sender == "big" and isinstance(message, Tell)]
    assert max(len(message.pages) for message in sent) == 1
    net.run(5000)
    big.pools.reads = 0
    net.count()
    for number in range(5):
        big.pools.set(PoolNews(f"p{number:05}", f"p{number:05}", total=1, free=0))
    net.run(8000)
    assert agree([first, second, third, big])
    assert big.pools.reads == 5
    told = [message for _, _, message in net.messages if isinstance(message, Tell)]
    lines = [line for message in told for page in message.pages for line in page.lines]
    assert {line.name for line in lines} == {f"p{number:05}" for number in range(5)}
    assert len(lines) <= 5 * 6  # at most once for each direction of each pair


def test_a_system_of_one_costs_nothing() -> None:
    net = Net()
    (alone,) = system(net, 1, GPU)
    net.run(60_000)
    assert net.count() == (0, 0)
    assert alone.timers == {}
    assert alone.pools.reads == 0
