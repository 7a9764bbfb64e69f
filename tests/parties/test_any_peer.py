"""Whatever another node says, an agent goes on: its clients are answered once and in time, and nothing of its own changes."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from parties.any_values import AnyValues
from parties.joined_nodes import Asker, Net
from parties.party_node import Client, pool

from holdall.leases.messages import AGENT
from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import Address, ProtocolViolation
from holdall.model import frames
from holdall.model.listings import PoolRow, UnitRow
from holdall.model.why import Blocker, Why
from holdall.parties.listings.asking import ANSWER_MS
from holdall.parties.listings.inquiries import PATIENCE
from holdall.parties.listings.questions import (
    BetweenAgents,
    HeldOf,
    LineOf,
    NamedOf,
    PeerAnswer,
    PeerAsk,
    PeerHappened,
    PoolOf,
    Question,
    Row,
    WaitOf,
)
from holdall.protocols.vocabulary import ClaimId

WORDS: list[str] = [
    "",
    "gpu",
    "psu/p1",
    "lab-1",
    "id11-bal",
    "id22-bal",
    "id33-bal",
    "id11-bal.1.1",
    "id22-bal.1.1",
    "id33-bal.1.7",
    "id22-bal.99999999999999999999999.1",
    "..",
    "²",
    "\x1b[2J",
    "7K4M-Q2",
    "é" * 30,
]


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
IDS = ["id33-bal", "id33-bal", "id33-bal", "id11-bal", "id22-bal", "nobody"]
PARTIES = [
    "",
    "id11-bal.1.1",
    "id22-bal.1.1",
    "id33-bal.1.1",
    "id22-bal.99999999999999999999999.1",
    "..",
    "²",
]


def any_number(kind: inspect.IntType) -> st.SearchStrategy[int]:
    most = kind.le if kind.le is not None else kind.lt - 1 if kind.lt is not None else 2**63 - 1
    least = -(2**63) if kind.ge is None else kind.ge
    near = [value for value in (0, 1, 2, 3, least, most) if least <= value <= most]
    return st.one_of(st.sampled_from(near), st.integers(least, most))


def any_struct(
    kind: inspect.StructType, drawn: dict[str, st.SearchStrategy[object]]
) -> st.SearchStrategy[object]:
    """Ids of the liar's own claims, and of claims of others, are what gets furthest."""
    drawn |= {"party": st.sampled_from(PARTIES)} if "party" in drawn else {}
    drawn |= {"node": st.sampled_from(IDS)} if kind.cls is ClaimId else {}
    return st.builds(kind.cls, **drawn)


ANY = AnyValues(
    words=st.one_of(st.sampled_from(WORDS), st.text(max_size=8)),
    integers=any_number,
    structs=any_struct,
    at_most=2,
)
MESSAGES = ANY.of(inspect.type_info(BetweenAgents))
ROWS = ANY.of(inspect.type_info(Row))


def answers(numbers: list[int]) -> st.SearchStrategy[PeerAnswer]:
    """Answers to what has been asked, with any rows."""
    return st.builds(
        PeerAnswer,
        n=st.sampled_from(numbers),
        incarnation=st.just(1),
        piece=st.sampled_from([0, 0, 0, 1, 2]),
        last=st.sampled_from([True, True, False]),
        rows=st.lists(ROWS, min_size=1, max_size=4).map(tuple),
        refused=st.sampled_from(["", "", "", "no"]),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_clients_are_answered_once_and_nothing_of_the_node_changes_whatever_a_peer_says(
    data: st.DataObject,
) -> None:
    net = Net()
    one = net.add("lab-1", pool("gpu", "0"))
    two = net.add("lab-2", pool("psu", "p1"))
    liar = net.add("lab-3")
    holder = Client(one, "a")
    lease = holder.gets("gpu:1")
    waiting = Client(one, "b").waits("gpu:1")
    Client(two, "c").gets("psu:1")
    net.deaf.add(liar.id)
    watcher = Client(one, "watcher")
    watcher.say(frames.Watch(watcher.number()))
    questions = [
        ("pools", ""),
        ("who", ""),
        ("queue", ""),
        ("log", ""),
        ("why", "7K4M-Q2"),
        ("show", "7K4M-Q2"),
        ("why", waiting.claim),
    ]
    askers = [Asker(net, one) for _ in questions]
    for asker, (what, arg) in zip(askers, questions, strict=True):
        asker.ask(what, arg)
    net.deliver()
    told = [asker.answer() for asker in askers]
    held = one.held()
    numbers = sorted(one.agent.state.inquiries.open) or [1]
    happened = st.builds(
        PeerHappened,
        incarnation=st.just(1),
        rows=st.lists(ANY.of(inspect.type_info(frames.LogRow)), max_size=2).map(tuple),
    )
    drawn = data.draw(
        st.lists(st.one_of(answers(numbers), answers(numbers), happened, MESSAGES), max_size=10)
    )
    for message in drawn:
        assert isinstance(message, msgspec.Struct)
        try:
            message = CODEC.decode(CODEC.encode(message))  # noqa: PLW2901 - as it comes over the link
        except CodecError:
            continue
        try:
            net.arrive(Address(liar.id, AGENT), Address(one.id, AGENT), message)
        except ProtocolViolation:
            continue
        net.deliver()
    net.pass_ms(3 * (PATIENCE + 1) * ANSWER_MS, step=ANSWER_MS // 2)
    for asker, before in zip(askers, told, strict=True):
        after = asker.answer()
        assert (before is None) != (after is None), "one answer, once"
    for told_row in watcher.inbox():
        frames.read_answer(frames.pack(told_row)[frames.LENGTH_BYTES :])
    assert one.held() == held
    assert [view.lease for view in one.ask("who").leases if view.node == "lab-1"] == [lease.lease.lease]
    assert not one.agent.state.inquiries.open
    one.check_counts()


LIAR = "id33-bal"
FAR_TOO_LARGE = "id22-bal.99999999999999999999999.1"
WHY = Why("7K4MQ2" + "0" * 20, "a@lab-3", 1, 1, 1, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("what", "row"),
    [
        (
            "pools",
            PoolOf(
                PoolRow(
                    "x", "lab-1", {}, "system", 1, 0, 1, 0, 0, (UnitRow("u", "held", 1, party=FAR_TOO_LARGE),)
                )
            ),
        ),
        ("queue", WaitOf(ClaimId(LIAR, 1, 1), WHY, placements=((),))),
        ("queue", WaitOf(ClaimId(LIAR, 1, 1), WHY, placements=((("nobody", ("x",)),),))),
        ("queue", LineOf(ClaimId("nobody", 1, 1), ("nobody", "nobody"), "active")),
        (
            "queue",
            LineOf(
                ClaimId(LIAR, 1, 1),
                (LIAR,),
                "waits",
                blockers=(Blocker("", "", "", "", (), party=FAR_TOO_LARGE),),
            ),
        ),
        ("who", HeldOf(ClaimId("nobody", 2**63 - 1, 1), (), 2**53, 2**53, 2**53)),
        ("who", HeldOf(ClaimId("id22-bal", 2**63 - 1, 2**63 - 1), (), 2**53, 2**53, 2**53)),
    ],
)
def test_the_rows_that_were_hardest_to_bear(what: str, row: Row) -> None:
    net = Net()
    one, _, liar = net.add("lab-1"), net.add("lab-2"), net.add("lab-3")
    net.deaf.add(liar.id)
    asker = Asker(net, one)
    asker.ask(what)
    net.deliver()
    answer = CODEC.decode(CODEC.encode(PeerAnswer(1, 1, 0, last=True, rows=(row,))))
    net.arrive(Address(liar.id, AGENT), Address(one.id, AGENT), answer)
    net.deliver()
    listing = asker.answer()
    assert isinstance(listing, frames.Listing)
    assert listing.not_asked == ()
    frames.read_answer(frames.pack(listing)[frames.LENGTH_BYTES :])


def test_a_peer_speaks_for_itself_only() -> None:
    net = Net()
    one, _, liar = net.add("lab-1", pool("gpu", "0")), net.add("lab-2"), net.add("lab-3")
    Client(one, "a").gets("gpu:1")
    own = Client(one, "b").waits("gpu:1")
    net.deaf.add(liar.id)
    rows = (
        WaitOf(one.agent.state.by_printed[own.claim].record.claim, WHY),
        WaitOf(ClaimId("id22-bal", 1, 1), WHY),
        NamedOf(one.agent.state.by_printed[own.claim].record.claim, "0" * 26, "nobody"),
    )
    asker = Asker(net, one)
    asker.ask("queue")
    net.deliver()
    net.arrive(Address(liar.id, AGENT), Address(one.id, AGENT), PeerAnswer(1, 1, 0, last=True, rows=rows))
    net.deliver()
    listing = asker.answer()
    assert isinstance(listing, frames.Listing)
    assert [(why.claim, why.holder) for why in listing.waits] == [(own.claim, "b@lab-1")]


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(data=st.data())
def test_any_question_is_answered_in_frames_that_fit_and_changes_nothing(data: st.DataObject) -> None:
    net = Net()
    one, asks = net.add("lab-1", pool("gpu", "0", "1"), pool("psu", "p1")), net.add("lab-2")
    client = Client(one, "a")
    client.gets("gpu:1")
    client.waits("gpu:2")
    saved = dict(one.records)
    shape = ANY.of(inspect.type_info(Question))
    for n, question in enumerate(data.draw(st.lists(shape, min_size=1, max_size=6)), start=1):
        assert isinstance(question, Question)
        sent = CODEC.decode(CODEC.encode(PeerAsk(n, 1, question)))
        net.sent.clear()
        net.arrive(Address(asks.id, AGENT), Address(one.id, AGENT), sent)
        told = [message for _, _, message in net.sent if isinstance(message, PeerAnswer)]
        assert [answer.n for answer in told] == [n] * len(told)
        assert told[-1].last
        assert dict(one.records) == saved


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), MESSAGES)
def test_bytes_of_no_message_are_refused(noise: bytes, message: msgspec.Struct) -> None:
    try:
        data = CODEC.encode(message)
    except CodecError:
        return
    for body in (noise, data[: len(data) // 2], data + noise[:1], data[:5] + noise + data[5:]):
        try:
            value = CODEC.decode(body)
        except CodecError:
            continue
        assert isinstance(value, msgspec.Struct)
    assert CODEC.decode(data) == message
