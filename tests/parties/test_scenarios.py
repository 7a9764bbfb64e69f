"""Complaints that people have about locks, each as a conversation with the right end."""

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties.party_node import Client, Node, names, pool

from holdall.model import frames
from holdall.model.names import short_id
from holdall.model.spec import parse_need


def without_waits(answers: list[frames.FromNode]) -> list[frames.FromNode]:
    return [one for one in answers if not isinstance(one, frames.Queued)]


@pytest.mark.parametrize("cut_by", ["cancel", "process gone", "silence"])
def test_c6_a_claim_for_three_pools_that_is_cut_off_leaves_nothing(cut_by: str) -> None:
    node = Node(pool("a", "a1"), pool("b", "b1"), pool("c", "c1"))
    busy, client = Client(node, "busy"), Client(node, "x")
    kept = busy.gets("c:1", ttl_ms=300_000)
    queued = client.waits("a:1", "b:1", "c:1", ttl_ms=10_000)
    assert list(node.held()) == ["c/c1"], "all or nothing"
    if cut_by == "cancel":
        client.say(frames.Cancel(client.number(), f"#{queued.n}"))
    elif cut_by == "process gone":
        client.close(gone=True)
    else:
        node.pass_ms(10_200)
    assert node.view.waiting() == []
    assert node.ask("queue").waits == ()
    assert names(busy.gets("a:1", "b:1", ttl_ms=300_000)) == ["a/a1", "b/b1"]
    busy.releases(kept)
    node.check_counts()


@pytest.mark.parametrize("first", ["release", "cancel"])
def test_c7_release_and_cancel_of_the_first_waiter_in_one_turn_wake_the_second(first: str) -> None:
    node = Node(pool("gpu", "0"))
    holder = Client(node, "holder")
    waiters = [Client(node, f"w{number}") for number in range(3)]
    lease = holder.gets("gpu:1")
    queued = [waiter.waits("gpu:1") for waiter in waiters]

    release = holder.asks(frames.Release(holder.number(), lease.key))
    cancel = waiters[0].asks(frames.Cancel(waiters[0].number(), f"#{queued[0].n}"))
    node.turn([release, cancel] if first == "release" else [cancel, release])

    assert [one for one in holder.inbox() if isinstance(one, frames.Released)]
    last = waiters[0].inbox()[-1]
    assert isinstance(last, frames.Released)
    assert last.what == ("released" if first == "release" else "cancelled")
    (granted,) = waiters[1].inbox()
    assert isinstance(granted, frames.Granted)
    assert granted.lease.lease == queued[1].claim
    assert waiters[2].inbox() == []
    assert list(node.held()) == ["gpu/0"]
    node.check_counts()


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        (
            ["gpu,model=h100:4"],
            (
                "cannot ever be granted: gpu,model=h100:4 — 2 such units exist (lab-1: 2). "
                "Ask for ≤ 2, relax model=, or add --allow-future."
            ),
        ),
        (
            ["board:2"],
            "cannot ever be granted: board:2 — 1 such unit exists (lab-1: 1). Ask for ≤ 1, or add --allow-future.",
        ),
        (
            ["gpus:1"],
            (
                'cannot ever be granted: gpus:1 — no pool "gpus" on lab-1 (pools: board, gpu). Did you mean "gpu"? '
                "See: holdall pools. Or add --allow-future."
            ),
        ),
        (
            ["gpu,model=b200:1"],
            (
                "cannot ever be granted: gpu,model=b200:1 — pool gpu exists, but none with model=b200. Relax a label. "
                "See: holdall pools. Or add --allow-future."
            ),
        ),
        (
            ["board,@lab-9:1"],
            (
                'cannot ever be granted: board,@lab-9:1 — no node "lab-9" is known here (this is lab-1). '
                "Check @NODE, or leave it out. See: holdall pools. Or add --allow-future."
            ),
        ),
        (
            ["board:1", "board:1"],
            (
                "cannot ever be granted: board:1 beside the claim's other needs — 1 such unit exists (lab-1: 1), "
                "and needs that overlap get distinct units. Ask for fewer units, relax a label, or add --allow-future."
            ),
        ),
    ],
)
def test_c10_what_can_never_be_granted_is_refused_at_once_with_have_and_ask(
    specs: list[str], text: str
) -> None:
    node = Node(
        pool("gpu", "0", "1", labels={"model": "h100"}),
        pool("gpu", "2", labels={"model": "a100"}),
        pool("board", "b1"),
    )
    client = Client(node, "a")
    before = dict(node.records)
    denied = client.refused(*specs)
    assert (denied.code, denied.text) == ("never", text)
    assert node.records == before
    assert client.refused(*specs, now=True).code == "never"


def test_c10_units_out_of_service_count_as_existing_and_the_future_can_be_waited_for() -> None:
    node = Node(pool("board", "b1", "b2"))
    client = Client(node, "a")
    client.say(frames.Drain(client.number()))
    assert client.waits("board:2").why.needs[0].state == "unusable"
    queued = client.waits("laser:1", allow_future=True)
    assert (queued.why.needs[0].total, queued.why.needs[0].state) == (0, "too few exist")
    node.reload(pool("board", "b1", "b2"), pool("laser", "l1"))
    answers = client.say(frames.Drain(client.number(), on=False))
    granted = [one for one in answers if isinstance(one, frames.Granted)]
    assert sorted(names(one) for one in granted) == [["board/b1", "board/b2"], ["laser/l1"]]


Count = Literal["all"] | int
ASKS = st.lists(
    st.tuples(
        st.sampled_from(["board", "board,arch=arm", "board,arch=x86", "psu", "board+psu"]),
        st.one_of(st.integers(1, 4), st.just("all")),
    ),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(
    claims=st.lists(ASKS, min_size=1, max_size=6),
    ends=st.lists(st.integers(0, 5), max_size=6),
)
def test_c11_as_many_units_as_asked_and_distinct_ones_for_each_need(
    claims: list[list[tuple[str, Count]]], ends: list[int]
) -> None:
    node = Node(
        pool("board", "a1", "a2", labels={"arch": "arm"}),
        pool("board", "x1", "x2", labels={"arch": "x86"}),
        pool("psu", "p1", "p2", "p3"),
    )
    client = Client(node, "a")
    leases: list[frames.Granted] = []
    asked: dict[int, list[tuple[str, Count]]] = {}

    def look(answers: list[frames.FromNode]) -> None:
        for one in answers:
            if isinstance(one, frames.Granted):
                leases.append(one)
                check_numbers(asked[one.n], one)
        node.check_counts()

    for needs in claims:
        frame = client.claim(*(f"{spec}:{count}" for spec, count in needs))
        asked[frame.n] = needs
        look(client.say(frame))
    for place in ends:
        if leases:
            lease = leases.pop(place % len(leases))
            look(client.say(frames.Release(client.number(), lease.key)))
    while leases:
        look(client.say(frames.Release(client.number(), leases.pop(0).key)))
    assert node.view.waiting() == [], "everything that can be granted was granted in the end"
    assert node.held() == {}


def check_numbers(needs: list[tuple[str, Count]], lease: frames.Granted) -> None:
    """Each need has exactly as many units as it asked for, all of the kind that it named, and none twice."""
    arch = {"a1": "arm", "a2": "arm", "x1": "x86", "x2": "x86"}
    units = lease.lease.units
    assert len({(unit.pool, unit.name) for unit in units}) == len(units)
    for index, (text, count) in enumerate(needs):
        selector = parse_need(text).options[0]
        mine = [unit for unit in units if unit.need == index]
        for unit in mine:
            assert unit.pool in selector.pools
            for key, value in selector.labels:
                assert key == "arch"
                assert arch[unit.name] == value
        if count == "all":
            wanted = {"board": 4, "board,arch=arm": 2, "board,arch=x86": 2, "psu": 3, "board+psu": 7}[text]
            assert len(mine) == wanted, "all of the pool, fixed when it was granted"
        else:
            assert len(mine) == count
    assert sorted({unit.need for unit in units}) == list(range(len(needs)))


def test_c11_overlapping_needs_get_distinct_units() -> None:
    node = Node(pool("gpu", "0", labels={"model": "h100"}), pool("gpu", "1", labels={"model": "a100"}))
    client = Client(node, "a")
    # the first need could take the only h100, which the second one must have
    lease = client.gets("gpu:1", "gpu,model=h100:1")
    assert {unit.need: unit.name for unit in lease.lease.units} == {0: "1", 1: "0"}


@pytest.mark.parametrize("count", [0, -1])
def test_c11_zero_and_negative_numbers_are_no_request(count: int) -> None:
    with pytest.raises(ValueError, match="count must"):
        parse_need(f"gpu:{count}")


def test_c12_two_claims_in_one_turn_get_two_different_units() -> None:
    node = Node(pool("gpu", "0", "1", "2"))
    clients = [Client(node, "a"), Client(node, "b")]
    node.turn([client.asks(client.claim("gpu:1")) for client in clients])
    got: list[str] = []
    for client in clients:
        (granted,) = client.inbox()
        assert isinstance(granted, frames.Granted)
        got += names(granted)
    assert got == ["gpu/0", "gpu/1"]
    node.check_counts()


def test_c13_who_holds_what_who_waits_for_whom_all_listings_agree() -> None:
    node = Node(*(pool(f"p{number}", "u0", "u1") for number in range(6)))
    holders = [Client(node, f"h{number}", agent=f"team-{number}@ci") for number in range(5)]
    for number, holder in enumerate(holders):
        holder.gets(f"p{number}:2", reason=f"job {number}")
        node.pass_ms(10)
    waiters = [Client(node, f"w{number}") for number in range(20)]
    for number, waiter in enumerate(waiters):
        waiter.waits(f"p{number % 5}:1", f"p{(number + 1) % 5}:1")
        node.pass_ms(10)

    pools, who, queue = node.ask("pools").pools, node.ask("who").leases, node.ask("queue").waits

    assert [(row.pool, row.total, row.free, row.held, row.waiting) for row in pools] == [
        *((f"p{number}", 2, 0, 2, 8) for number in range(5)),
        ("p5", 2, 2, 0, 0),
    ]
    by_lease = {view.lease: view for view in who}
    for row in pools:
        for unit in row.units:
            assert (unit.state == "held") == bool(unit.lease)
            if unit.lease:
                view = by_lease[unit.lease]
                assert unit.holder == view.holder
                assert (row.pool, unit.unit, unit.fence) in [(u.pool, u.name, u.fence) for u in view.units]
    assert [view.holder for view in who] == [f"team-{number}@ci" for number in range(5)]
    assert [view.reason for view in who] == [f"job {number}" for number in range(5)]
    assert [why.holder for why in queue] == [f"w{number}@lab-1" for number in range(20)], "oldest first"
    for number, why in enumerate(queue):
        wanted = {f"p{number % 5}", f"p{(number + 1) % 5}"}
        older = [n for n in range(number) if wanted & {f"p{n % 5}", f"p{(n + 1) % 5}"}]
        everybody = [n for n in range(20) if wanted & {f"p{n % 5}", f"p{(n + 1) % 5}"}]
        assert (why.position, why.waiting, why.ahead) == (len(older) + 1, len(everybody), len(older))
        assert why.passes_bound == 8 + why.ahead
        with_units = [one for one in why.blockers if not one.waiting]
        assert {one.claim for one in with_units} == {
            view.lease for view in who if wanted & {unit.pool for unit in view.units}
        }
        assert {one.pool for one in with_units} == wanted
        assert len(why.blockers) <= 8
        assert len(why.blockers) + why.blockers_more >= 2
        (same,) = node.ask("why", why.claim[:8]).waits
        assert same == why
        assert len(node.ask("show", short_id(why.claim)).leases) == 1
    itself = node.ask("node").nodes[0]
    assert (itself.pools, itself.units, itself.leases, itself.waiting, itself.state) == (
        6,
        12,
        5,
        20,
        "serving",
    )
    granted = [(row.lease, row.kind) for row in node.ask("log").log]
    assert granted == [(view.lease, "granted") for view in who]


def test_who_gets_ahead_of_a_waiting_claim_is_counted_by_the_name_of_the_pool() -> None:
    node = Node(
        pool("gpu", "0"), pool("psu", "p1", labels={"rail": "a"}), pool("psu", "p2", labels={"rail": "b"})
    )
    holder, big, small = (Client(node, name) for name in ("holder", "big", "small"))
    holder.gets("gpu:1")
    big.waits("gpu:1", "psu,rail=a:1", "psu,rail=b:1")
    assert node.side.overtakes() == {}
    for rail in ("a", "b", "a"):
        small.releases(small.gets(f"psu,rail={rail}:1"))
    assert node.side.overtakes() == {"psu": 3}
    assert node.ask("queue").waits[0].overtaken == 3


def test_c16_waiters_that_gave_up_hold_nobody_up() -> None:
    node = Node(pool("gpu", "0"))
    holder = Client(node, "holder")
    lease = holder.gets("gpu:1")
    waiters = [Client(node, f"w{number}") for number in range(10)]
    for waiter in waiters:
        waiter.waits("gpu:1", wait_ms=1000)
    node.pass_ms(1000)
    for waiter in waiters:
        assert [one.code for one in waiter.inbox() if isinstance(one, frames.Denied)] == ["not-granted"]
    assert node.view.waiting() == []
    node.pass_ms(4000)
    holder.beats()
    holder.releases(lease)
    assert names(waiters[9].gets("gpu:1")) == ["gpu/0"]


def test_c16_five_dead_waiters_in_a_row_cost_at_most_one_silence() -> None:
    node = Node(pool("gpu", "0"))
    holder, last = Client(node, "holder"), Client(node, "last")
    lease = holder.gets("gpu:1", ttl_ms=300_000)
    dead = [Client(node, f"w{number}") for number in range(5)]
    for client in dead:
        client.waits("gpu:1", ttl_ms=30_000)
    queued = last.waits("gpu:1", ttl_ms=300_000)
    node.pass_ms(10_000)
    dead[0].close(gone=True)
    assert len(node.view.waiting()) == 5
    node.pass_ms(20_600)
    assert len(node.view.waiting()) == 1, "all silent ones have left at their own deadline, together"
    holder.releases(lease)
    (granted,) = without_waits(last.inbox())
    assert isinstance(granted, frames.Granted)
    assert granted.lease.lease == queued.claim


def test_c17_what_a_lease_covers_is_a_view_of_it_in_the_child_too() -> None:
    node = Node(pool("psu", "psu-1", "psu-2"), pool("board", "b1"))
    client, child = Client(node, "a"), Client(node, "child")
    lease = client.gets("psu:2", "board:1", site="hil/conftest.py:31")
    commits = node.commits
    view = child.gets("psu:1", under=lease.key)
    assert (view.view, view.key, view.lease.lease) == (True, lease.key, lease.lease.lease)
    assert names(view) == ["psu/psu-1"]
    assert view.lease.needs == ("psu:1",)
    assert node.commits == commits, "no claim, nothing kept"
    both = client.gets("psu:1", "psu:1", under=lease.key)
    assert [(unit.name, unit.need) for unit in both.lease.units] == [("psu-1", 0), ("psu-2", 1)]
    # the child hears of the lease's end, and its beats tell how long it lasts
    assert child.beats() == {lease.lease.lease: 28_900}
    node.pass_ms(10_000)
    assert child.beats() == {lease.lease.lease: 18_900}
    node.pass_ms(20_600)
    (lost,) = child.inbox()
    assert isinstance(lost, frames.Lost)
    assert lost.lease == lease.lease.lease
    assert child.beats() == {}


def test_c17_waiting_for_more_than_the_lease_covers_would_never_end() -> None:
    node = Node(pool("psu", "psu-1", "psu-2"))
    client = Client(node, "a")
    lease = client.gets("psu:1", site="hil/conftest.py:31")
    denied = client.refused("psu:2", under=lease.key, site="hil/test_power.py:12")
    assert denied.code == "would-deadlock"
    assert denied.text == (
        f"you already hold psu-1 (lease {short_id(lease.lease.lease)}, taken at hil/conftest.py:31). "
        "The claim at hil/test_power.py:12 asks for more than it covers. Waiting for it would never end. "
        "Use that lease, or lease.exchange(…), or ask without waiting (--now)."
    )
    assert client.refused("psu:all", under=lease.key).code == "would-deadlock", "a part is not all"
    numbered = Node(pool("gpu", "0"), pool("psu", "p1"))
    outer = Client(numbered, "a")
    inside = outer.gets("gpu:1")
    assert "you already hold gpu/0 (lease" in outer.refused("psu:1", under=inside.key).text
    # more is possible without waiting
    assert client.refused("psu:2", under=lease.key, now=True).code == "not-granted"
    client.releases(lease)
    assert client.refused("psu:1", under=lease.key).code == "not-holder"
    whole = client.gets("psu:all")
    assert names(client.gets("psu:all", under=whole.key)) == ["psu/psu-1", "psu/psu-2"]


def test_c17_more_without_waiting_and_independent_claims() -> None:
    node = Node(pool("psu", "psu-1", "psu-2"), pool("board", "b1"))
    client = Client(node, "a")
    lease = client.gets("psu:1")
    assert names(client.gets("board:1", under=lease.key, now=True)) == ["board/b1"]
    queued = client.waits("board:1", under=lease.key, independent=True)
    assert queued.why.note == (
        f"claimed independently while holding lease {short_id(lease.lease.lease)}: "
        "outside the guarantee that nobody waits for ever"
    )


def test_c17_the_same_pool_twice_in_one_claim_is_two_units_or_never() -> None:
    node = Node(pool("psu", "psu-1", "psu-2"), pool("board", "b1"))
    client = Client(node, "a")
    lease = client.gets("psu:1", "psu:1")
    assert [(unit.name, unit.need) for unit in lease.lease.units] == [("psu-1", 0), ("psu-2", 1)]
    assert client.refused("board:1", "board:1").code == "never"
