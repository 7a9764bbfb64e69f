"""Every refusal that the node can explain carries the explanation as a structure, too."""

import pytest
from parties.party_node import FIRST_WALL_MS, Client, Node, pool

from holdall.model import frames
from holdall.model.spec import parse_needs
from holdall.model.why import Blocker, NeedWhy, Why


def why_of(answer: frames.FromNode) -> Why:
    assert isinstance(answer, frames.Denied), answer
    assert answer.why is not None
    return answer.why


def swap(node: Node, client: Client, lease: frames.Granted, *add: str) -> frames.Denied:
    """An exchange that is refused and changes nothing."""
    before = node.ask("who").leases
    (answer,) = client.say(frames.Exchange(client.number(), lease.key, parse_needs(add), ()))
    assert isinstance(answer, frames.Denied)
    assert node.ask("who").leases == before
    node.check_counts()
    return answer


def test_c17_a_wait_inside_a_lease_names_that_lease_as_what_is_in_the_way() -> None:
    node = Node(pool("psu", "psu-1", "psu-2"), pool("gpu", "0"))
    client = Client(node, "a", agent="ci@runner-4")
    lease = client.gets("psu:1", "gpu:1", reason="hil")
    why = why_of(client.refused("psu:2", under=lease.key, reason="more"))
    assert why == Why(
        claim="",
        holder="ci@runner-4",
        since_ms=FIRST_WALL_MS + 1000,
        position=0,
        waiting=0,
        ahead=0,
        overtaken=0,
        passes_left=0,
        passes_bound=0,
        needs=(NeedWhy("psu:2", free=1, total=2, state="busy"),),
        blockers=(Blocker(lease.lease.lease, "ci@runner-4", "hil", "psu", ("psu-1",)),),
        note="asked for in the scope of the lease that is in the way",
        reason="more",
    )
    (missing,) = why_of(client.refused("laser:1", under=lease.key)).needs
    assert missing == NeedWhy("laser:1", free=0, total=0, state="too few exist")


@pytest.mark.parametrize(
    ("specs", "states"),
    [
        (["gpu:1", "psu:3"], ["busy", "too few exist"]),
        (["psu:1", "laser:1"], ["ok", "too few exist"]),
        (["gpu:1", "gpu:1"], ["busy", "too few exist"]),
        (["psu:all", "board:1", "laser:1"], ["ok", "unusable", "too few exist"]),
    ],
)
def test_c10_what_can_never_be_has_have_and_ask_of_each_need(specs: list[str], states: list[str]) -> None:
    node = Node(pool("gpu", "0"), pool("psu", "psu-1", "psu-2"), pool("board", "b1", cooldown_ms=60_000))
    holder, client = Client(node, "h"), Client(node, "a")
    holder.gets("board:1", ttl_ms=10_000)
    node.pass_ms(11_000)
    Client(node, "i").gets("gpu:1")
    totals = {"gpu": 1, "psu": 2, "board": 1, "laser": 0}
    why = why_of(client.refused(*specs, reason="hil"))
    assert [(need.spec, need.total, need.state) for need in why.needs] == [
        (spec, totals[spec.partition(":")[0]], state) for spec, state in zip(specs, states, strict=True)
    ]
    assert (why.claim, why.position, why.holder, why.reason) == ("", 0, "a@lab-1", "hil")
    assert why.blockers == ()


def test_without_waiting_those_who_hold_are_named() -> None:
    node = Node(pool("gpu", "0", "1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1", reason="soak test")
    why = why_of(other.refused("gpu:2", now=True))
    assert why.needs == (NeedWhy("gpu:2", free=1, total=2, state="busy"),)
    assert why.blockers == (Blocker(lease.lease.lease, "a@lab-1", "soak test", "gpu", ("0",)),)


def test_without_waiting_those_in_front_are_named_when_units_are_free() -> None:
    node = Node(pool("gpu", "0", "1"), pool("psu", "p1"))
    client, first, elsewhere = Client(node, "a"), Client(node, "b"), Client(node, "c")
    client.gets("gpu:1", "psu:1")
    elsewhere.waits("psu:1")
    queued = first.waits("gpu:2", reason="all of it")
    denied = Client(node, "d").refused("gpu:1", now=True)
    assert denied.text == ("not free now: waiting for older claims. b@lab-1 waits in front. See: holdall who")
    why = why_of(denied)
    assert why.blockers == (Blocker(queued.claim, "b@lab-1", "all of it", "gpu", (), waiting=True),)
    assert (why.position, why.waiting, why.blockers_more) == (2, 2, 0)


def test_ch18_a_refused_exchange_says_who_has_what_was_to_be_added() -> None:
    node = Node(pool("gpu", "0"), pool("psu", "p1", "p2"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:1", "psu:1")
    theirs = other.gets("psu:1", reason="soak test")
    why = why_of(swap(node, client, lease, "psu:1"))
    assert why.claim == lease.lease.lease
    assert why.needs == (NeedWhy("psu:1", free=0, total=2, state="busy"),)
    assert why.blockers == (Blocker(theirs.lease.lease, "b@lab-1", "soak test", "psu", ("p2",)),), (
        "its own units are not in its way"
    )
    never = why_of(swap(node, client, lease, "psu:1", "laser:1"))
    assert [need.state for need in never.needs] == ["busy", "too few exist"]
    assert never.claim == ""


def test_ch18_a_refused_exchange_says_who_waits_for_what_was_to_be_added() -> None:
    node = Node(pool("gpu", "0"), pool("psu", "p1", "p2"))
    client, other, third = Client(node, "a"), Client(node, "b"), Client(node, "c")
    lease = client.gets("gpu:1")
    other.gets("psu:1")
    queued = third.waits("psu:2")
    why = why_of(swap(node, client, lease, "psu:1"))
    assert why.blockers == (Blocker(queued.claim, "c@lab-1", "", "psu", (), waiting=True),)


def test_what_is_too_long_for_a_frame_is_told_in_words_only() -> None:
    node = Node(pool("gpu", "0"))
    need = frames.Need((frames.Selector(tuple(f"p{number:06}" for number in range(7_000))),))
    denied = Client(node, "a").say(frames.Claim(n=9, needs=(need, need)))[0]
    assert isinstance(denied, frames.Denied)
    assert (denied.code, denied.why) == ("never", None)
