"""Why a claim waits, over nodes: its place at each of them, the sum of what may pass it, who blocks it and where."""

from parties.joined_nodes import Net
from parties.party_node import Client, Node, pool

from holdall.machine.codec import CODEC
from holdall.model import frames
from holdall.model.why import Blocker, NodeLine, Why
from holdall.parties.listings.joining import question_about
from holdall.parties.listings.questions import PeerAsk
from holdall.protocols.vocabulary import ClaimId


def listing(answer: frames.Listing | frames.Denied) -> frames.Listing:
    assert isinstance(answer, frames.Listing), answer
    return answer


def the_why(net: Net, node: Node, claim: str) -> Why:
    (why,) = listing(net.ask(node, "why", claim)).waits
    return why


def waits(net: Net, client: Client, *specs: str, **fields: object) -> frames.Queued:
    """Claim, and let messages and first words come."""
    answers = client.ask_for(*specs, **fields)
    net.pass_ms(300)
    told = [one for one in (*answers, *client.inbox()) if isinstance(one, (frames.Queued, frames.Granted))]
    assert told, "no word about the claim"
    assert isinstance(told[-1], frames.Queued), told
    return told[-1]


class Lab:
    """lab-1 has a gpu, lab-2 a gpu and a bench, lab-3 a psu; `a`, `b`, `c` are clients there."""

    def __init__(self) -> None:
        self.net = Net()
        self.one = self.net.add("lab-1", pool("gpu", "0"))
        self.two = self.net.add("lab-2", pool("gpu", "0"), pool("bench", "b1"))
        self.three = self.net.add("lab-3", pool("psu", "p1"))
        self.nodes = (self.one, self.two, self.three)
        self.a, self.b, self.c = (Client(node, name) for node, name in zip(self.nodes, "abc", strict=True))


def test_c13_every_node_tells_the_same_of_a_claim_that_has_its_units_at_one_node_and_waits_at_the_next() -> (
    None
):
    lab = Lab()
    held = lab.b.gets("bench:1", reason="soak", for_ms=60_000)
    queued = waits(lab.net, lab.a, "gpu,@lab-1:1", "bench:1", reason="wide")
    whys = [the_why(lab.net, node, queued.claim[:6]) for node in lab.nodes]
    assert whys[0] == whys[1] == whys[2]
    pools = listing(lab.net.ask(lab.three, "pools")).pools
    units = {(row.node, unit.unit): (unit.state, unit.holder) for row in pools for unit in row.units}
    assert units["lab-1", "0"] == ("booked", "a@lab-1")
    assert units["lab-2", "b1"] == ("held", "b@lab-2")
    why = whys[0]
    assert (why.claim, why.holder, why.reason, why.node) == (queued.claim, "a@lab-1", "wide", "lab-1")
    assert why.lines == (
        NodeLine("lab-1", 1, "has its units", passes_bound=8, pools=("gpu",)),
        NodeLine("lab-2", 1, "waits", 1, 1, 0, 0, passes_left=8, passes_bound=8, pools=("bench",)),
    )
    assert (why.position, why.waiting, why.passes_left, why.passes_bound) == (1, 1, 8, 16)
    assert why.blockers == (
        Blocker(
            held.lease.lease,
            "b@lab-2",
            "soak",
            "bench",
            ("b1",),
            until_ms=held.lease.until_ms,
            node="lab-2",
        ),
    )


def test_c4_the_bounds_of_a_claims_nodes_add_up_as_it_has_come_there_or_would_come_now() -> None:
    lab = Lab()
    lab.a.gets("gpu,@lab-1:1")
    lab.b.gets("gpu,@lab-2:1")
    for _ in range(3):
        waits(lab.net, lab.b, "gpu,@lab-2:1")
    waits(lab.net, lab.a, "gpu,@lab-1:1")
    queued = waits(lab.net, lab.c, "gpu:2", "psu:1")
    why = the_why(lab.net, lab.three, queued.claim)
    assert why.lines == (
        NodeLine("lab-1", 1, "waits", 2, 2, 1, 0, passes_left=9, passes_bound=9, pools=("gpu",)),
        NodeLine("lab-2", 1, "comes later", 4, 4, 3, 0, passes_left=11, passes_bound=11, pools=("gpu",)),
        NodeLine("lab-3", 1, "comes later", 1, 1, 0, 0, passes_left=8, passes_bound=8, pools=("psu",)),
    )
    assert (why.passes_left, why.passes_bound, why.ahead) == (28, 28, 4)
    assert why.position == 2
    (listed,) = [one for one in listing(lab.net.ask(lab.one, "queue")).waits if one.claim == queued.claim]
    assert listed == why


def test_of_several_placements_the_one_that_can_be_passed_least_bounds_the_wait_and_all_are_shown() -> None:
    lab = Lab()
    lab.a.gets("gpu,@lab-1:1", reason="one")
    lab.b.gets("gpu,@lab-2:1", reason="two")
    waits(lab.net, lab.a, "gpu,@lab-1:1")
    claim = lab.c.ask_for("gpu:1")
    lab.net.pass_ms(3000)
    assert claim == []
    (why,) = [one for one in listing(lab.net.ask(lab.three, "queue")).waits if one.holder == "c@lab-3"]
    assert [(line.node, line.placement, line.position, line.passes_bound) for line in why.lines] == [
        ("lab-1", 1, 2, 9),
        ("lab-2", 2, 1, 8),
    ]
    assert (why.position, why.waiting, why.passes_left, why.passes_bound) == (1, 1, 8, 8)
    assert (why.blockers[0].reason, why.blockers[0].node) == ("two", "lab-2")
    assert {(blocker.reason, blocker.node) for blocker in why.blockers} >= {
        ("one", "lab-1"),
        ("two", "lab-2"),
    }


def test_a_blocker_of_a_third_node_is_called_what_its_own_node_calls_it() -> None:
    lab = Lab()
    lab.c.ask_for("bench:1", reason="from afar")
    lab.net.pass_ms(300)
    (granted,) = [one for one in lab.c.inbox() if isinstance(one, frames.Granted)]
    queued = waits(lab.net, lab.a, "bench:1")
    for node in lab.nodes:
        (blocker,) = the_why(lab.net, node, queued.claim).blockers
        assert (blocker.claim, blocker.holder, blocker.reason) == (
            granted.lease.lease,
            "c@lab-3",
            "from afar",
        )
        assert (blocker.party, blocker.node, blocker.units) == ("", "lab-2", ("b1",))
    rows = listing(lab.net.ask(lab.one, "pools", "bench")).pools
    assert [(unit.lease, unit.holder, unit.party) for row in rows for unit in row.units] == [
        (granted.lease.lease, "c@lab-3", "")
    ]


def test_c13_a_client_that_waits_at_its_own_node_is_told_first_that_and_then_for_whom_of_another_node() -> (
    None
):
    lab = Lab()
    lab.c.ask_for("bench:1", reason="from afar")
    lab.net.pass_ms(300)
    answers = lab.b.ask_for("bench:1", wait_ms=5_000)
    lab.net.pass_ms(300)
    words = [one for one in (*answers, *lab.b.inbox()) if isinstance(one, frames.Queued)]
    assert [[by.holder for by in one.why.blockers] for one in words] == [["a claim of lab-3"], ["c@lab-3"]]
    assert words[1].why.blockers[0].reason == "from afar"
    lab.net.pass_ms(4_000)
    assert lab.b.inbox() == [], "nothing has changed"
    lab.net.pass_ms(1_000)
    (denied,) = lab.b.inbox()
    assert isinstance(denied, frames.Denied)
    assert 'Held by c@lab-3 "from afar"' in denied.text


def test_c13_units_and_places_of_claims_whose_node_is_silent_are_shown_by_the_nodes_that_hold_them() -> None:
    lab = Lab()
    lab.c.ask_for("bench:1")
    lab.net.pass_ms(300)
    queued = waits(lab.net, lab.c, "bench:1")
    lab.net.state(lab.three, "silent", 9_000)
    lab.net.deaf.add(lab.three.id)
    (view,) = listing(lab.net.ask(lab.one, "who")).leases
    assert (view.holder, view.node, view.silent, view.state) == (
        "a claim of lab-3",
        "lab-3",
        ("lab-3",),
        "active",
    )
    assert view.units == (frames.HeldUnit("bench", "b1", "lab-2", view.units[0].fence),)
    answer = listing(lab.net.ask(lab.one, "queue"))
    assert answer.not_asked == (frames.NotAsked("lab-3", "silent for 9 s"),)
    (why,) = answer.waits
    assert (why.claim, why.holder, why.node, why.since_ms) == (queued.claim, "a claim of lab-3", "lab-3", 0)
    assert [(line.node, line.state, line.position) for line in why.lines] == [("lab-2", "waits", 1)]
    assert the_why(lab.net, lab.one, queued.claim[:6]) == why
    (unit,) = [unit for row in listing(lab.net.ask(lab.one, "pools", "bench")).pools for unit in row.units]
    assert (unit.holder, unit.lease) == ("a claim of lab-3", "")


def test_c15_a_lease_with_units_of_a_silent_node_is_flagged() -> None:
    lab = Lab()
    lab.a.ask_for("bench:1")
    lab.net.pass_ms(300)
    (granted,) = [one for one in lab.a.inbox() if isinstance(one, frames.Granted)]
    lab.net.state(lab.two, "silent", 3_000)
    (view,) = listing(lab.net.ask(lab.one, "who")).leases
    assert (view.lease, view.node) == (granted.lease.lease, "lab-1")
    assert view.silent == ("lab-2 (since 22:13:18)",)
    lab.net.state(lab.two, "serving")
    (view,) = listing(lab.net.ask(lab.one, "who")).leases
    assert view.silent == ()


def test_a_node_of_a_placement_that_can_t_be_asked_is_a_part_of_the_answer() -> None:
    lab = Lab()
    lab.b.gets("bench:1")
    queued = waits(lab.net, lab.a, "gpu,@lab-1:1", "bench:1")
    lab.net.state(lab.two, "silent", 7_000)
    answer = listing(lab.net.ask(lab.one, "why", queued.claim))
    assert answer.not_asked == (frames.NotAsked("lab-2", "silent for 7 s"),)
    assert answer.waits[0].lines[1] == NodeLine(
        "lab-2", 1, "not asked", pools=("bench",), note="silent for 7 s"
    )


def test_the_queue_of_the_system_is_in_order_of_age_whichever_node_is_asked() -> None:
    lab = Lab()
    lab.a.gets("gpu,@lab-1:1")
    lab.b.gets("gpu,@lab-2:1", "bench:1")
    order: list[str] = []
    for client, spec in ((lab.a, "bench:1"), (lab.b, "gpu,@lab-1:1"), (lab.c, "bench:1"), (lab.b, "bench:1")):
        order.append(waits(lab.net, client, spec).claim)
    for node in lab.nodes:
        answer = listing(lab.net.ask(node, "queue"))
        of_bench = [why.claim for why in answer.waits if why.needs[0].spec == "bench:1"]
        assert of_bench == [order[0], order[2], order[3]]
        assert {why.claim for why in answer.waits} == set(order)
        assert [why.claim for why in listing(lab.net.ask(node, "queue", "gpu")).waits] == [order[1]]


def test_a_waiting_client_is_told_its_places_elsewhere_and_again_only_when_they_have_changed() -> None:
    lab = Lab()
    lease = lab.b.gets("bench:1", reason="soak")
    before = waits(lab.net, lab.c, "bench:1")
    queued = waits(lab.net, lab.a, "bench:1")
    (line,) = queued.why.lines
    assert (line.node, line.position, line.waiting, line.passes_bound) == ("lab-2", 2, 2, 9)
    assert queued.why.blockers[0].reason == "soak"
    lab.net.pass_ms(20_000)
    lab.a.beats()
    lab.c.beats()
    lab.b.beats()
    assert not [one for one in lab.a.inbox() if isinstance(one, frames.Queued)]
    lab.c.say(frames.Cancel(lab.c.number(), before.claim))
    lab.net.pass_ms(16_000)
    (told,) = [one for one in lab.a.inbox() if isinstance(one, frames.Queued)]
    assert (told.why.position, told.why.waiting) == (1, 1)
    assert lab.one.agent.state.inquiries.explaining == set()
    lab.b.releases(lease)
    lab.net.deliver()
    assert [one for one in lab.a.inbox() if isinstance(one, frames.Granted)]


def test_a_wait_that_is_over_names_who_was_in_the_way_on_another_node() -> None:
    lab = Lab()
    lab.b.gets("bench:1", reason="soak")
    waits(lab.net, lab.a, "bench:1", wait_ms=5_000)
    lab.net.pass_ms(5_000)
    (denied,) = [one for one in lab.a.inbox() if isinstance(one, frames.Denied)]
    assert denied.text.startswith('not granted within 5s: bench:1 busy. Held by b@lab-2 "soak" (renewing).')


def test_a_lease_and_a_claim_that_has_ended_are_found_wherever_they_were_made() -> None:
    lab = Lab()
    lease = lab.b.gets("bench:1", reason="soak")
    answer = listing(lab.net.ask(lab.one, "why", lease.lease.lease[:6]))
    assert [(view.lease, view.node) for view in answer.leases] == [(lease.lease.lease, "lab-2")]
    shown = listing(lab.net.ask(lab.three, "show", lease.lease.lease[:7]))
    assert [view.reason for view in shown.leases] == ["soak"]
    assert [(row.kind, row.node) for row in shown.log] == [("granted", "lab-2")]
    by_key = listing(lab.net.ask(lab.three, "show", lease.key))
    assert by_key.leases == shown.leases
    lab.b.releases(lease)
    for what in ("why", "show"):
        ended = listing(lab.net.ask(lab.one, what, lease.lease.lease[:6]))
        assert ended.leases == ()
        assert [row.kind for row in ended.log] == ["granted", "released"]


def test_a_claim_that_nobody_knows_is_refused_with_whom_could_not_be_asked() -> None:
    lab = Lab()
    denied = lab.net.ask(lab.one, "why", "ZZZZ-99")
    assert isinstance(denied, frames.Denied)
    assert denied.text == "no claim or lease ZZZZ-99 in the system. See: holdall who; holdall queue"
    lab.net.state(lab.two, "silent", 40_000)
    denied = lab.net.ask(lab.one, "why", "ZZZZ-99")
    assert isinstance(denied, frames.Denied)
    assert denied.text == (
        "no claim or lease ZZZZ-99 in the system (not asked: lab-2, silent for 40 s). "
        "See: holdall who; holdall queue"
    )


def test_a_question_about_very_many_claims_still_fits() -> None:
    claims = {
        ClaimId("n" * 20, 2**50, i): tuple(f"{'p' * 60}{{k={'v' * 60}-{j}}}" for j in range(3))
        for i in range(900)
    }
    asked = question_about("lines", claims)
    assert len(CODEC.encode(PeerAsk(2**50, 2**50, asked))) < 60 * 1024
    assert 50 < len(asked.claims) == len(asked.wants) < 500
    names = question_about("claims", dict.fromkeys(claims, ()))
    assert len(names.claims) > 400
    assert names.wants == ()
    assert len(CODEC.encode(PeerAsk(2**50, 2**50, names))) < 60 * 1024
