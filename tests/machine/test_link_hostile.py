"""A peer that sends anything: refused or ignored, never an error, never a say in what others get, never unbounded."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.linked import Node, Word, settle

from holdall.machine.codec import CODEC, CodecError
from holdall.machine.contract import ClockRead, Message
from holdall.machine.link import OPEN_PARTS
from holdall.machine.link_frames import LinkEnd, LinkFrame, LinkOpen, Parcel
from holdall.machine.link_peer import LinkSettings

MOST = (1 << 53) - 1
NUMBERS = st.one_of(st.integers(0, 4), st.integers(0, MOST), st.just(MOST))
ENDS = st.builds(LinkEnd, NUMBERS, NUMBERS, NUMBERS)
NEAR_ENDS = st.one_of(ENDS, st.sampled_from([LinkEnd(1), LinkEnd(2), LinkEnd(1, 1)]))
PARTS = st.one_of(
    st.sampled_from(["claimant", "manager", "agent", "directory", "hooks", "link", "node"]),
    st.text(max_size=32),
)
BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            CODEC.encode(message)
            for message in (Word("x"), Word("bad"), Word("echo"), ClockRead(1), LinkOpen(LinkEnd(1)))
        ]
    ),
)
PARCELS = st.lists(st.builds(Parcel, PARTS, PARTS, BODIES), max_size=4).map(tuple)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(LinkOpen, NEAR_ENDS, st.none() | NEAR_ENDS),
    st.builds(LinkFrame, NEAR_ENDS, NEAR_ENDS, NUMBERS, NUMBERS, PARCELS),
    st.builds(Word, st.text(max_size=3)),
)
SMALL = LinkSettings(pending_max=20_000)


def friends() -> tuple[Node, Node]:
    """Two that know each other, with a word under way each way."""
    a, b = Node("a", SMALL), Node("b", SMALL)
    a.say("b", "one")
    settle(a, b)
    return a, b


@given(messages=st.lists(MESSAGES, max_size=12), interleaved=st.booleans())
def test_whatever_a_peer_sends_others_are_served_as_if_it_were_not_there(
    messages: list[Message], interleaved: bool
) -> None:
    a, b = friends()
    for number, message in enumerate(messages):
        if interleaved:
            a.get("evil", message)
        else:
            a.turn()
            a.get("evil", message, message)
        a.say("b", f"word {number}")
        a.say("evil", f"secret {number}")
    for_b = [message for to, message in a.out if to == "b"]
    assert sum(isinstance(message, LinkFrame) and message.seq > 0 for message in for_b) == len(messages)
    b.get("a", *for_b)
    assert b.talker.heard == [
        "a/claimant: one",
        *(f"a/claimant: word {number}" for number in range(len(messages))),
    ]
    assert not any("secret" in text for text in b.talker.heard)
    assert set(a.link.peers) <= {"b", "evil"}


@given(messages=st.lists(MESSAGES, min_size=1, max_size=20))
def test_what_is_kept_for_a_peer_is_bounded_whatever_it_sends(messages: list[Message]) -> None:
    a, _ = friends()
    for message in messages:
        a.say("evil", "." * 3000)
        a.get("evil", message)
        a.out.clear()
        peer = a.link.peers["evil"]
        parcels = [*peer.waiting, *(parcel for frame in peer.sent for parcel in frame.parcels)]
        assert peer.pending_bytes == sum(parcel.size for parcel in parcels) <= SMALL.pending_max


@given(messages=st.lists(MESSAGES, max_size=12))
def test_answers_to_a_peer_are_no_more_than_its_messages(messages: list[Message]) -> None:
    """Nobody can make a node send more than it is sent."""
    a, _ = friends()
    a.out.clear()
    for message in messages:
        before = len(a.out)
        # What parts answer is theirs: a word that asks for an echo gets one.
        a.get("evil", message)
        sent = [message for to, message in a.out[before:] if to == "evil"]
        assert sum(isinstance(message, LinkOpen) for message in sent) <= 1
        assert sum(isinstance(message, LinkFrame) for message in sent) <= 1
        assert not [to for to, _ in a.out[before:] if to != "evil"]


@given(messages=st.lists(MESSAGES, max_size=12))
def test_a_peer_that_behaves_again_is_served_again(messages: list[Message]) -> None:
    """Hostile frames in a peer's name can cost it a pair, and no more."""
    a, b = friends()
    for message in messages:
        if not (isinstance(message, LinkOpen | LinkFrame) and too_high(message)):
            a.get("b", message)
    for _ in range(4):
        for node in (a, b):
            for timer in [*node.armed]:
                if timer in node.armed:
                    node.fire(timer)
        settle(a, b)
    b.talker.heard.clear()
    b.say("a", "hello")
    settle(a, b)
    a.say("b", "again")
    settle(a, b)
    assert b.talker.heard[-1:] == ["a/claimant: again"]


def too_high(message: LinkOpen | LinkFrame) -> bool:
    """An end that nobody can go above; only who has the peer's own key can say it in its name."""
    return MOST in {message.mine.session, message.yours.session if message.yours else 0}


@given(data=st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(data: bytes) -> None:
    try:
        message = CODEC.decode(data)
    except CodecError:
        return
    a, _ = friends()
    a.get("evil", message)


@given(
    message=st.one_of(
        st.builds(LinkOpen, ENDS, st.none() | ENDS),
        st.builds(LinkFrame, ENDS, ENDS, NUMBERS, NUMBERS, PARCELS),
    )
)
def test_frames_are_the_same_after_the_wire_and_after_a_trace(message: msgspec.Struct) -> None:
    assert CODEC.decode(CODEC.encode(message)) == message
    plain = {
        family: msgspec.Raw(msgspec.json.encode(value)) for family, value in CODEC.plain(message).items()
    }
    assert CODEC.from_plain(plain) == message


@pytest.mark.parametrize(
    "body",
    [
        {"type": "frame", "mine": [-1, 0, 0], "yours": [1, 0, 0]},
        {"type": "frame", "mine": [1 << 53, 0, 0], "yours": [1, 0, 0]},
        {"type": "frame", "mine": [1, 0, 0], "yours": [1, 0, 0], "seq": -1},
        {"type": "frame", "mine": [1, 0, 0], "yours": [1, 0, 0], "parcels": [["p" * 33, "manager", b""]]},
        {"type": "frame", "mine": [1, 0, 0]},
        {"type": "open", "mine": None},
        {"type": "letter"},
    ],
)
def test_what_can_be_no_frame_is_not_decoded(body: dict[str, object]) -> None:
    with pytest.raises(CodecError):
        CODEC.decode(msgspec.msgpack.encode(["link", 1, body]))


@pytest.mark.parametrize("part", ["hooks", "link", "node", "processes", "session/1", ""])
def test_a_parcel_cannot_be_for_a_part_that_only_its_own_node_speaks_to(part: str) -> None:
    assert part not in OPEN_PARTS
    a, _ = friends()
    a.get("evil", LinkOpen(LinkEnd(1), LinkEnd(1)))
    a.get(
        "evil", LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, (Parcel("claimant", part, CODEC.encode(Word("x"))),))
    )
    assert a.refused == [f"1 of 1 parcels; the first: 'claimant' of another node may not speak to {part!r}"]
    assert a.link.counts.delivered == 0
    assert a.talker.heard == []


def test_a_frame_full_of_rubbish_is_one_refusal_of_the_turn() -> None:
    a, _ = friends()
    rubbish = tuple(Parcel("claimant", "claimant", b"") for _ in range(3000))
    a.get("evil", LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, rubbish))
    assert len(a.refused) == 1
    assert a.refused[0].startswith("3000 of 3000 parcels")
    assert a.link.counts.refused == 3000


def test_a_refused_frame_takes_no_number() -> None:
    a, _ = friends()
    a.get("evil", LinkOpen(LinkEnd(1), LinkEnd(1)))
    a.taken()
    a.get(
        "evil",
        LinkFrame(LinkEnd(1), LinkEnd(1), 1, 7, (Parcel("claimant", "claimant", CODEC.encode(Word("x"))),)),
    )
    assert a.refused == ["frame 7 is acknowledged, 0 have been sent"]
    a.get(
        "evil",
        LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, (Parcel("claimant", "claimant", CODEC.encode(Word("y"))),)),
    )
    assert a.talker.heard == ["evil/claimant: y"]
