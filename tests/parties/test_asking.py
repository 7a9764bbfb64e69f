"""One node asks the others: who is asked what, what is put together, and what happens to answers that come late."""

import msgspec
import pytest
from parties.joined_nodes import Asker, Net
from parties.party_node import FIRST_WALL_MS, Client, Node, pool

from holdall.leases.messages import AGENT
from holdall.machine.contract import Address, Received, Send
from holdall.model import frames
from holdall.model.why import Blocker, Why
from holdall.parties.listings.asking import ANSWER_MS
from holdall.parties.listings.inquiries import PATIENCE, PER_PEER_MAX, SERVED_MAX
from holdall.parties.listings.questions import (
    PIECE_BYTES_MAX,
    WINDOW,
    HeldOf,
    LeaseOf,
    LineOf,
    PeerAnswer,
    PeerAsk,
    PeerMore,
    Question,
    Row,
    WaitOf,
)
from holdall.parties.listings.rows import parts, shortened
from holdall.protocols.vocabulary import ClaimId


def listing(answer: frames.Listing | frames.Denied) -> frames.Listing:
    assert isinstance(answer, frames.Listing), answer
    return answer


def three() -> tuple[Net, Node, Node, Node]:
    """lab-2 has gpu and bench, lab-1 gpu, lab-3 psu."""
    net = Net()
    one = net.add("lab-1", pool("gpu", "0", "1"))
    two = net.add("lab-2", pool("gpu", "0"), pool("bench", "b1"))
    three = net.add("lab-3", pool("psu", "p1"))
    return net, one, two, three


def test_pools_come_from_all_nodes_by_name_and_node_whoever_is_asked() -> None:
    net, one, two, last = three()
    answers = [listing(net.ask(node, "pools")) for node in (one, two, last)]
    assert [(row.pool, row.node, row.total) for row in answers[0].pools] == [
        ("bench", "lab-2", 1),
        ("gpu", "lab-1", 2),
        ("gpu", "lab-2", 1),
        ("psu", "lab-3", 1),
    ]
    assert answers[0].not_asked == ()
    assert {msgspec.json.encode(answer.pools) for answer in answers} == {
        msgspec.json.encode(answers[0].pools)
    }


def test_each_other_node_is_asked_once_and_answers_once() -> None:
    net, one, two, last = three()
    net.ask(one, "pools", "gpu")
    asked = [(to.node, message) for _, to, message in net.sent if isinstance(message, PeerAsk)]
    assert asked == [
        (node.id, PeerAsk(n=1, incarnation=1, about=Question("pools", arg="gpu"))) for node in (two, last)
    ]
    assert [sender.node for sender, _, message in net.sent if isinstance(message, PeerAnswer)] == [
        two.id,
        last.id,
    ]
    assert len(net.sent) == 4
    assert not one.agent.state.inquiries.open
    assert not [timer for timer in one.timers if "asked" in timer]


def test_a_node_by_itself_answers_in_the_turn_of_the_question_and_sets_no_timer() -> None:
    node = Node(pool("gpu", "0"))
    client = Client(node, "a")
    for what in ("pools", "who", "queue", "log", "node"):
        before = dict(node.timers)
        (answer,) = client.say(frames.Ask(client.number(), what))
        assert isinstance(answer, frames.Listing)
        assert answer.not_asked == ()
        assert node.timers == before


def test_who_names_the_nodes_of_units_and_the_node_that_keeps_the_lease() -> None:
    net, one, two, last = three()
    lease = Client(one, "a").gets("gpu:1", reason="soak")
    other = Client(two, "b").gets("bench:1")
    for node in (one, two, last):
        leases = listing(net.ask(node, "who")).leases
        assert sorted(view.lease for view in leases) == sorted([lease.lease.lease, other.lease.lease])
        assert {view.node: [unit.node for unit in view.units] for view in leases} == {
            "lab-1": ["lab-1"],
            "lab-2": ["lab-2"],
        }


def test_a_silent_node_is_named_not_waited_for() -> None:
    net, one, two, _ = three()
    net.state(two, "silent", 40_321)
    answer = listing(net.ask(one, "pools"))
    assert [(row.pool, row.node) for row in answer.pools] == [("gpu", "lab-1"), ("psu", "lab-3")]
    assert answer.not_asked == (frames.NotAsked("lab-2", "silent for 40 s"),)
    net.state(two, "stopped")
    assert listing(net.ask(one, "who")).not_asked == (frames.NotAsked("lab-2", "stopped"),)


def test_a_node_that_does_not_answer_is_named_after_two_seconds_and_its_late_answer_changes_nothing() -> None:
    net, one, two, _ = three()
    asker = Asker(net, one)
    net.deaf.add(two.id)
    asker.ask("pools")
    net.deliver()
    assert asker.answer() is None
    net.pass_ms(ANSWER_MS - 100)
    assert asker.answer() is None
    net.pass_ms(100)
    answer = listing(asker.answer() or pytest.fail("no answer"))
    assert [(row.pool, row.node) for row in answer.pools] == [("gpu", "lab-1"), ("psu", "lab-3")]
    assert answer.not_asked == (frames.NotAsked("lab-2", "no answer within 2 s"),)
    net.hear_again(two.id)
    net.pass_ms(10_000)
    assert asker.answer() is None, "an answer goes out once"
    assert [row.node for row in listing(net.ask(one, "pools", "gpu")).pools] == ["lab-1", "lab-2"]


def test_a_late_answer_is_no_answer_to_the_next_question() -> None:
    net, one, two, _ = three()
    first, second = Asker(net, one), Asker(net, one)
    net.deaf.add(two.id)
    first.ask("pools")
    net.pass_ms(ANSWER_MS)
    listing(first.answer() or pytest.fail("no answer"))
    second.ask("log")
    net.deliver()
    net.hear_again(two.id)
    net.deliver()
    answer = listing(second.answer() or pytest.fail("no answer"))
    assert answer.pools == ()
    assert answer.not_asked == ()


def big(net: Net, name: str, units: int = 400, pools: int = 12) -> Node:
    """About 25 KiB a pool."""
    return net.add(
        name, *(pool(f"pool-{i:02}", *(f"unit-{i:02}-{j:04}" for j in range(units))) for i in range(pools))
    )


def test_a_long_answer_comes_in_pieces_of_which_few_are_under_way() -> None:
    net = Net()
    one = net.add("lab-1")
    two = big(net, "lab-2")
    asker = Asker(net, one)
    asker.ask("pools")
    net.deliver(1)
    under_way = [message for _, _, message in net.sent if isinstance(message, PeerAnswer)]
    assert [(answer.piece, answer.last) for answer in under_way] == [
        (piece, False) for piece in range(WINDOW)
    ]
    net.deliver()
    pieces = [message for _, _, message in net.sent if isinstance(message, PeerAnswer)]
    assert [answer.piece for answer in pieces] == list(range(len(pieces)))
    assert [answer.last for answer in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) > 2 * WINDOW
    assert sum(1 for _, _, message in net.sent if isinstance(message, PeerMore)) == len(pieces) - 1
    rows = listing(asker.answer() or pytest.fail("no answer")).pools
    assert [unit.unit for row in rows for unit in row.units] == [
        f"unit-{i:02}-{j:04}" for i in range(12) for j in range(400)
    ]
    assert not two.agent.state.inquiries.served
    assert not [timer for timer in two.timers if "served" in timer]


def test_pieces_that_come_twice_or_out_of_order_are_put_together_right() -> None:
    net = Net()
    one, two = net.add("lab-1"), big(net, "lab-2")
    asker = Asker(net, one)
    asker.ask("pools")
    net.deliver(1)
    swapped = list(net.queue)[::-1]
    net.queue.clear()
    net.queue.extend([*swapped, *swapped])
    net.deliver()
    rows = listing(asker.answer() or pytest.fail("no answer")).pools
    assert sum(len(row.units) for row in rows) == 4800
    assert len({(row.pool, unit.unit) for row in rows for unit in row.units}) == 4800
    assert two.agent.state.inquiries.served == {}


def test_a_peer_that_stops_in_the_middle_is_named_with_what_came_of_it() -> None:
    net = Net()
    one, two = net.add("lab-1", pool("own", "u")), big(net, "lab-2")
    asker = Asker(net, one)
    asker.ask("pools")
    net.deliver(1 + WINDOW)
    net.queue.clear()  # the peer ends here
    net.pass_ms(2 * ANSWER_MS - 100)
    assert asker.answer() is None, "pieces came in the first two seconds"
    net.pass_ms(100)
    answer = listing(asker.answer() or pytest.fail("no answer"))
    assert answer.not_asked == (frames.NotAsked("lab-2", "only a part of its answer came within 2 s"),)
    assert {row.node for row in answer.pools} == {"lab-1", "lab-2"}
    net.pass_ms(20_000)
    assert two.agent.state.inquiries.served == {}, "the rest is not kept for ever"


def test_a_peer_that_sends_a_piece_now_and_then_does_not_keep_the_client_waiting_for_ever() -> None:
    net = Net()
    one, two = net.add("lab-1"), net.add("lab-2")
    asker = Asker(net, one)
    net.deaf.add(two.id)
    asker.ask("log")
    net.deliver()
    (_, to, _), *_ = net.held
    waited = 0
    while (answer := asker.answer()) is None:
        piece = PeerAnswer(1, 1, waited // 1000, last=False)
        net.arrive(msgspec.structs.replace(to, node=two.id), msgspec.structs.replace(to, node=one.id), piece)
        net.pass_ms(1000)
        waited += 1000
    assert waited == (PATIENCE + 1) * ANSWER_MS
    assert listing(answer).not_asked[0].node == "lab-2"


def test_so_many_questions_to_one_peer_and_no_more() -> None:
    net, one, two, last = three()
    net.deaf.add(two.id)
    askers = [Asker(net, one) for _ in range(PER_PEER_MAX + 1)]
    for asker in askers:
        asker.ask("pools")
        net.deliver()
    (refused,) = [answer for asker in askers if (answer := asker.answer()) is not None]
    assert listing(refused).not_asked == (
        frames.NotAsked("lab-2", f"{PER_PEER_MAX} questions to it are open; ask again"),
    )
    assert {row.node for row in listing(refused).pools} == {"lab-1", "lab-3"}
    assert (
        sum(1 for _, to, message in net.sent if isinstance(message, PeerAsk) and to.node == two.id)
        == PER_PEER_MAX
    )
    net.pass_ms(ANSWER_MS)
    assert not one.agent.state.inquiries.open
    del last


def test_a_peer_has_so_many_answers_open_and_no_more() -> None:
    net = Net()
    one, two = net.add("lab-1"), big(net, "lab-2")
    askers = [Asker(net, one) for _ in range(SERVED_MAX + 1)]
    for asker in askers:
        asker.ask("pools")
    net.deliver(SERVED_MAX + 1)
    refused = [message for _, _, message in net.sent if isinstance(message, PeerAnswer) and message.refused]
    assert refused == [PeerAnswer(SERVED_MAX + 1, 1, 0, last=True, refused="it is busy with other questions")]
    net.deliver()
    answers = [listing(asker.answer() or pytest.fail("no answer")) for asker in askers]
    assert [bool(answer.not_asked) for answer in answers] == [False] * SERVED_MAX + [True]
    assert answers[-1].not_asked == (frames.NotAsked("lab-2", "refused: it is busy with other questions"),)
    del two


def test_answers_to_an_earlier_start_of_the_asker_are_dropped() -> None:
    net, one, two, _ = three()
    asker = Asker(net, one)
    net.deaf.add(two.id)
    asker.ask("pools")
    net.deliver()
    one.crash()
    net.hear_again(two.id)
    net.deliver()
    assert [row.node for row in listing(net.ask(one, "pools", "gpu")).pools] == ["lab-1", "lab-2"]


def test_only_one_node_or_only_what_the_asked_one_knows() -> None:
    net, one, two, last = three()
    assert [row.node for row in listing(net.ask(one, "pools", node="lab-2")).pools] == ["lab-2", "lab-2"]
    assert [row.node for row in listing(net.ask(one, "pools", node="lab-1")).pools] == ["lab-1"]
    net.sent.clear()
    assert [row.node for row in listing(net.ask(one, "pools", local=True)).pools] == ["lab-1"]
    assert net.sent == []
    denied = net.ask(one, "pools", node="lab-9")
    assert isinstance(denied, frames.Denied)
    assert denied.text == "no node is named 'lab-9'. Known: lab-1, lab-2, lab-3"
    del two, last


def test_history_of_all_nodes_by_time() -> None:
    net, one, two, _ = three()
    first = Client(one, "a")
    lease = first.gets("gpu:1")
    net.pass_ms(500)
    Client(two, "b").gets("bench:1")
    net.pass_ms(500)
    first.releases(lease)
    rows = listing(net.ask(two, "log")).log
    assert [(row.at_ms - FIRST_WALL_MS, row.node, row.kind, row.seq) for row in rows] == [
        (1000, "lab-1", "granted", 1),
        (1500, "lab-2", "granted", 1),
        (2000, "lab-1", "released", 2),
    ]
    assert [row.kind for row in listing(net.ask(two, "log", since_ms=100)).log] == ["released"]


def test_a_peer_is_told_no_key_no_secret_and_no_path() -> None:
    net = Net(config="/etc/holdall/secret-config.toml", state_folder="/var/lib/secret-state")
    one, two = net.add("lab-1", pool("gpu", "0", "1")), net.add("lab-2")
    holder, waiter = Client(one, "a"), Client(one, "b")
    lease = holder.gets("gpu:1")
    waiter.waits("gpu:2")
    for what in ("pools", "who", "queue", "log", "node"):
        net.ask(two, what)
    for what in ("why", "show"):
        net.ask(two, what, lease.lease.lease)
        net.ask(two, what, lease.key)
    told = repr([message for _, _, message in net.sent])
    assert lease.lease.lease in told
    for secret in (lease.key, holder.secret, waiter.secret, "secret-config", "secret-state"):
        assert secret not in told


def test_the_node_itself_tells_which_others_it_knows_without_asking_them() -> None:
    net, one, two, _ = three()
    net.state(two, "silent", 12_000)
    net.sent.clear()
    answer = listing(net.ask(one, "node"))
    assert [row.node for row in answer.nodes] == ["lab-1"]
    assert [(known.node, known.id, known.state, known.pools) for known in answer.known] == [
        ("lab-2", two.id, "silent", 2),
        ("lab-3", "id33-bal", "serving", 1),
    ]
    assert net.sent == []


def test_rows_of_very_large_claims_are_told_with_their_first_units() -> None:
    units = tuple(frames.HeldUnit("p" * 63, f"{'u' * 60}-{i:03}", "n" * 63, 2**53) for i in range(256))
    names = tuple(unit.name for unit in units)
    view = frames.LeaseView("7" * 26, "a", "u", 1, "", "active", units, (), 0, 0, 0, None, 0, renewing=True)
    blockers = tuple(Blocker("", f"{i}", "", "p" * 63, names) for i in range(8))
    why = Why("7" * 26, "a", 1, 1, 1, 0, 0, 0, 0, blockers=blockers)
    claim = ClaimId("n", 1, 1)
    rows: list[Row] = [
        LeaseOf(view),
        HeldOf(claim, units, 1, 1),
        WaitOf(claim, why),
        LineOf(claim, ("n",), "waits", blockers=blockers),
    ]
    encoder = msgspec.msgpack.Encoder()
    assert all(len(encoder.encode(row)) > PIECE_BYTES_MAX for row in rows)
    told = [row for part in parts(rows, PIECE_BYTES_MAX, encoder, shortened) for row in part]
    assert [type(row) for row in told] == [type(row) for row in rows]
    assert all(len(encoder.encode(row)) <= PIECE_BYTES_MAX for row in told)
    lease = told[0]
    assert isinstance(lease, LeaseOf)
    assert lease.view.units == units[:160]


def test_a_twin_of_a_node_has_its_open_questions_for_itself() -> None:
    net, one, two, last = three()
    asker = Asker(net, one)
    net.deaf.update({two.id, last.id})
    asker.ask("pools")
    net.deliver()
    twin = one.agent.copy()
    assert list(twin.state.inquiries.open) == [1]
    assert twin.handle(Received(Address(two.id, AGENT), PeerAnswer(1, 1, 0, last=True))) == []
    told = twin.handle(Received(Address(last.id, AGENT), PeerAnswer(1, 1, 0, last=True)))
    assert [type(effect.message) for effect in told if isinstance(effect, Send)] == [frames.Listing]
    assert not twin.state.inquiries.open
    assert list(one.agent.state.inquiries.open) == [1]
    assert asker.answer() is None
