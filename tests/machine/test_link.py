"""The link: one event and exactly what comes of it."""

import pytest
from machine.linked import Node, Word, opened, saying, settle

from holdall.machine.codec import BYTES_MAX, CODEC
from holdall.machine.contract import Address, Boot, ClockRead, Message
from holdall.machine.link import Link
from holdall.machine.link_frames import (
    BODY_MAX,
    LinkEnd,
    LinkFrame,
    LinkOpen,
    Parcel,
)
from holdall.machine.link_peer import LinkSettings

A1, A2, B1, B2 = LinkEnd(1), LinkEnd(2), LinkEnd(1), LinkEnd(2)


def parcel(text: str, sender: str = "claimant", to: str = "claimant") -> Parcel:
    return Parcel(sender, to, CODEC.encode(Word(text)))


def frame(seq: int, *texts: str, ack: int = 0, mine: LinkEnd = A1, yours: LinkEnd = B1) -> LinkFrame:
    return LinkFrame(mine, yours, seq, ack, tuple(parcel(text) for text in texts))


# The first words


def test_the_first_word_opens_and_waits() -> None:
    a = Node("a")
    a.say("b", "x")
    assert a.taken() == [LinkOpen(A1)]
    assert a.armed == {"resend/b": 250}


def test_an_opening_of_a_stranger_is_answered_with_both_ends() -> None:
    b = Node("b")
    b.get("a", LinkOpen(A1))
    assert b.taken() == [LinkOpen(B1, A1)]
    assert not b.armed


def test_the_answer_lets_out_all_that_waited_in_one_frame() -> None:
    a = Node("a")
    a.say("b", "x", "y")
    a.say("b", "z")
    assert a.taken() == [LinkOpen(A1)]
    a.get("b", LinkOpen(B1, A1))
    assert a.taken() == [frame(1, "x", "y", "z")]
    assert a.armed == {"resend/b": 250}


def test_a_first_frame_is_taken_without_a_third_opening() -> None:
    b = Node("b")
    b.get("a", LinkOpen(A1))
    b.taken()
    b.get("a", frame(1, "x", "y"))
    assert b.talker.heard == ["a/claimant: x", "a/claimant: y"]
    assert b.taken() == []
    assert b.armed == {"ack/a": 25}


def test_both_open_at_once() -> None:
    a, b = Node("a"), Node("b")
    a.say("b", "x")
    b.say("a", "y")
    settle(a, b)
    assert (a.talker.heard, b.talker.heard) == (["b/claimant: y"], ["a/claimant: x"])


def test_an_opening_whose_answer_was_lost_is_repeated_with_doubling_pauses() -> None:
    a = Node("a")
    a.say("b", "x")
    pauses: list[int] = []
    for _ in range(7):
        pauses.append(a.armed["resend/b"])
        a.fire("resend/b")
    assert pauses == [250, 500, 1000, 2000, 4000, 4000, 4000]
    assert a.taken() == [LinkOpen(A1)] * 8


# One frame a peer and turn


def test_all_sends_of_a_turn_to_one_node_are_one_frame() -> None:
    a, _ = opened()
    a.turn(saying("a", "b", "x", "y"), saying("a", "b", "z", part="manager"))
    (one,) = a.taken()
    assert isinstance(one, LinkFrame)
    assert (one.seq, one.ack) == (2, 0)
    assert [(each.to, CODEC.decode(each.body)) for each in one.parcels] == [
        ("claimant", Word("x")),
        ("claimant", Word("y")),
        ("manager", Word("z")),
    ]


def test_a_frame_takes_the_acknowledgement_along_and_no_timer_is_set_for_it() -> None:
    a, b = opened()
    a.say("b", "echo")
    b.get("a", *a.taken())
    assert b.taken() == [frame(1, "echoed", ack=2, mine=B1, yours=A1)]
    assert b.armed == {"resend/a": 250}


def test_a_frame_that_nothing_answers_is_acknowledged_alone_after_a_moment() -> None:
    a, b = opened()
    a.say("b", "x")
    b.get("a", *a.taken())
    assert b.taken() == []
    b.fire("ack/a")
    assert b.taken() == [frame(0, ack=2, mine=B1, yours=A1)]
    assert not b.armed
    a.get("b", frame(0, ack=2, mine=B1, yours=A1))
    assert a.taken() == []
    assert not a.armed
    assert a.link.peers["b"].is_idle


def test_a_later_frame_takes_a_late_acknowledgement_along_and_ends_its_timer() -> None:
    a, b = opened()
    a.say("b", "x")
    b.get("a", *a.taken())
    b.say("a", "y")
    assert b.taken() == [frame(1, "y", ack=2, mine=B1, yours=A1)]
    assert b.armed == {"resend/a": 250}


def test_a_turn_larger_than_a_frame_leaves_in_several_and_in_order() -> None:
    a, b = opened()
    words = [f"{number}" + "." * 30_000 for number in range(5)]
    a.say("b", *words)
    frames = a.taken()
    assert [len(each.parcels) for each in frames if isinstance(each, LinkFrame)] == [2, 2, 1]
    assert all(len(CODEC.encode(each)) <= BYTES_MAX for each in frames)
    b.get("a", *frames)
    assert b.talker.heard == [f"a/claimant: {word}" for word in words]


def test_the_longest_message_fits_and_a_longer_one_is_refused_and_the_rest_leaves() -> None:
    a, _ = opened()
    room = BODY_MAX - len(CODEC.encode(Word("." * 60_000))) + 60_000
    a.say("b", "." * room)
    (one,) = a.taken()
    assert len(CODEC.encode(one)) <= BYTES_MAX
    a.say("b", "x", "." * (room + 1), "y")
    (two,) = a.taken()
    assert isinstance(two, LinkFrame)
    assert [CODEC.decode(each.body).text for each in two.parcels] == ["x", "y"]
    assert a.refused == [f"Word takes {BODY_MAX + 1} bytes; at most {BODY_MAX} fit into a frame"]


def test_frames_with_the_longest_numbers_and_names_stay_below_the_limit() -> None:
    most = (1 << 53) - 1
    end = LinkEnd(most, most, most)
    body = b"." * BODY_MAX
    assert (
        len(CODEC.encode(LinkFrame(end, end, most, most, (Parcel("p" * 32, "q" * 32, body),)))) <= BYTES_MAX
    )


# Order, doubles, loss


def test_a_double_is_dropped_and_acknowledged_again() -> None:
    a, b = opened()
    a.say("b", "x")
    (one,) = a.taken()
    b.get("a", one)
    b.fire("ack/a")
    b.taken()
    b.get("a", one)
    assert b.talker.heard == ["a/claimant: x"]
    assert b.armed == {"ack/a": 25}
    b.fire("ack/a")
    assert b.taken() == [frame(0, ack=2, mine=B1, yours=A1)]
    assert b.link.counts.doubles == 1


def test_a_frame_after_a_gap_is_dropped_and_not_acknowledged() -> None:
    a, b = opened()
    a.say("b", "x")
    a.say("b", "y")
    _, second = a.taken()
    b.get("a", second)
    assert b.talker.heard == []
    assert b.taken() == []
    assert not b.armed


def test_what_is_not_acknowledged_is_sent_again_in_order_with_the_newest_acknowledgement() -> None:
    a, b = opened()
    a.say("b", "x")
    a.say("b", "y")
    a.taken()
    b.say("a", "news")
    a.get("b", *b.taken())
    a.fire("resend/b")
    assert a.taken() == [frame(2, "x", ack=1), frame(3, "y", ack=1)]
    assert a.armed["resend/b"] == 500
    assert "ack/b" not in a.armed


def test_an_acknowledgement_begins_the_pauses_anew() -> None:
    a, _ = opened()
    a.say("b", "x")
    a.say("b", "y")
    a.fire("resend/b")
    assert a.armed["resend/b"] == 500
    a.get("b", frame(0, ack=2, mine=B1, yours=A1))
    assert a.armed == {"resend/b": 250}
    a.get("b", frame(0, ack=3, mine=B1, yours=A1))
    assert not a.armed


def test_an_old_acknowledgement_that_comes_late_changes_nothing() -> None:
    a, _ = opened()
    a.say("b", "x")
    before = a.link.key()
    a.get("b", frame(0, ack=1, mine=B1, yours=A1))
    assert a.link.key() == before


def test_an_acknowledgement_of_what_was_never_sent_is_refused() -> None:
    a, _ = opened()
    a.say("b", "x")
    before = a.link.key()
    a.get("b", frame(0, ack=3, mine=B1, yours=A1))
    assert a.refused == ["frame 3 is acknowledged, 2 have been sent"]
    assert a.link.key() == before


# Restarts


def test_frames_to_an_earlier_life_are_not_delivered_and_answered_with_an_opening() -> None:
    a, b = opened()
    b = b.recovered(2)
    a.say("b", "x")
    b.get("a", *a.taken())
    assert b.talker.heard == []
    assert b.taken() == [LinkOpen(B2, A1)]


def test_what_the_old_life_had_not_acknowledged_is_dropped_and_what_comes_then_arrives() -> None:
    a, b = opened()
    a.say("b", "x", "y")
    a.taken()
    a.get("b", LinkOpen(B2, A1))
    assert a.link.counts.dropped == 2
    # The sender of the opening may speak when it hears its end named.
    assert a.taken() == [frame(0, yours=B2)]
    assert not a.armed
    a.say("b", "z")
    assert a.taken() == [frame(1, "z", yours=B2)]
    b = b.recovered(2)
    b.get("a", frame(1, "z", yours=B2))
    assert b.talker.heard == ["a/claimant: z"]


def test_what_had_left_in_no_frame_goes_to_the_new_life() -> None:
    a = Node("a")
    a.say("b", "x")
    a.get("b", LinkOpen(B1, None))
    a.get("b", LinkOpen(B2, A1))
    assert a.taken() == [LinkOpen(A1), LinkOpen(A1, B1), frame(1, "x", yours=B2)]


def test_frames_of_an_earlier_life_of_the_peer_are_dropped() -> None:
    _, b = opened()
    b.get("a", LinkOpen(A2, B1))
    b.taken()
    b.get("a", frame(2, "late"))
    assert b.talker.heard == []
    # It may come from a node that has lost count, which must learn where it was.
    assert b.taken() == [LinkOpen(B1, A2)]


def test_a_newer_life_needs_no_opening_to_be_believed_when_it_names_this_one() -> None:
    _, b = opened()
    b.get("a", frame(1, "x", mine=A2))
    assert b.talker.heard == ["a/claimant: x"]


def test_a_node_that_has_lost_count_is_told_its_last_number_and_goes_above_it() -> None:
    b = Node("b")
    b.get("a", LinkOpen(LinkEnd(9), B1))
    b.taken()
    a = Node("a")
    a.say("b", "x")
    settle(a, b)
    assert b.talker.heard == ["a/claimant: x"]
    assert a.link.peers["b"].own == LinkEnd(9, 1)
    assert a.link.counts.opens == 2


def test_an_opening_that_comes_again_is_answered_after_a_moment() -> None:
    a, _ = opened()
    a.get("b", LinkOpen(B1, A1))
    assert a.taken() == []
    assert a.armed == {"ack/b": 25}
    a.fire("ack/b")
    assert a.taken() == [frame(0)]


def test_two_processes_with_one_journal_are_both_heard() -> None:
    b = Node("b")
    one, two = Node("a", instance=7), Node("a", instance=5)
    one.say("b", "of one")
    settle(one, b)
    two.say("b", "of two")
    settle(two, b)
    assert b.talker.heard == ["a/claimant: of one", "a/claimant: of two"]


def test_a_link_forgets_every_peer_with_its_process() -> None:
    link = Link("a", incarnation=1)
    link.recover(Boot("same", 1, 5))
    link.post("claimant", Address("b", "claimant"), Word("x"))
    sends, _ = link.flush()
    assert [message for _, _, message in sends] == [LinkOpen(LinkEnd(5))]


# Giving up


def test_a_peer_that_is_silent_too_long_is_given_up_and_begun_with_anew() -> None:
    a, _ = opened()
    a.say("b", "x")
    a.say("b", "y")
    fired = 0
    while "resend/b" in a.armed:
        a.fire("resend/b")
        fired += 1
    # 250 + 500 + 1000 + 2000 + 7 times 4000 is the first sum from 30 s on
    assert fired == 11
    assert a.link.counts.dropped == 2
    assert a.link.peers["b"].is_idle
    assert a.link.peers["b"].pending_bytes == 0
    a.taken()
    a.say("b", "z")
    assert a.taken() == [LinkOpen(LinkEnd(1, 1), B1)]


def test_the_other_side_follows_into_the_new_pair() -> None:
    a, b = opened()
    a.say("b", "lost")
    while "resend/b" in a.armed:
        a.fire("resend/b")
    a.taken()
    b.say("a", "to the old pair")
    a.get("b", *b.taken())
    assert a.talker.heard == []
    settle(a, b)
    b.say("a", "to the new one")
    settle(a, b)
    assert a.talker.heard == ["b/claimant: to the new one"]


def test_too_much_for_one_peer_drops_all_of_it_and_only_for_this_peer() -> None:
    a = Node("a", LinkSettings(pending_max=10_000))
    a.say("c", "for c")
    a.say("b", "." * 5000)
    a.say("b", "." * 4000)
    assert a.link.counts.dropped == 0
    a.say("b", "last")
    a.say("b", "." * 1000)
    assert a.link.counts.dropped == 3
    assert len(a.link.peers["b"].waiting) == 1
    assert len(a.link.peers["c"].waiting) == 1
    assert a.link.peers["b"].pending_bytes <= 10_000


def test_more_than_the_window_waits_for_acknowledgements() -> None:
    a = Node("a", LinkSettings(window_frames=2))
    a.say("b", "1")
    a.get("b", LinkOpen(B1, A1))
    for word in "234":
        a.say("b", word)
    assert a.taken() == [LinkOpen(A1), frame(1, "1"), frame(2, "2")]
    a.get("b", frame(0, ack=1, mine=B1, yours=A1))
    assert a.taken() == [frame(3, "3", "4")]


def test_only_so_many_frames_are_sent_again_at_a_time() -> None:
    a = Node("a", LinkSettings(resend_frames=2))
    a.say("b", "1")
    a.get("b", LinkOpen(B1, A1))
    for word in "234":
        a.say("b", word)
    a.taken()
    a.fire("resend/b")
    assert a.taken() == [frame(1, "1"), frame(2, "2")]
    assert (a.link.counts.frames, a.link.counts.resent) == (4, 2)


# Who may speak to whom


@pytest.mark.parametrize(
    "bad",
    [
        parcel("x", to="hooks"),
        parcel("x", to="node"),
        parcel("x", to="session/1"),
        parcel("x", to="link"),
        parcel("x", sender="node"),
        parcel("x", sender="hooks"),
        Parcel("claimant", "manager", CODEC.encode(ClockRead(1, 1))),
        Parcel("claimant", "manager", CODEC.encode(Boot("lost", 9, 9))),
        Parcel("claimant", "claimant", CODEC.encode(LinkOpen(A1))),
        Parcel("claimant", "claimant", b"\xc1"),
        Parcel("claimant", "directory", CODEC.encode(Word("no such part here"))),
    ],
)
def test_a_bad_parcel_is_refused_and_the_others_of_its_frame_are_delivered(bad: Parcel) -> None:
    _, b = opened()
    b.get("a", LinkFrame(A1, B1, 2, 0, (parcel("x"), bad, parcel("y"))))
    assert b.talker.heard == ["a/claimant: x", "a/claimant: y"]
    assert len(b.refused) == 1
    b.fire("ack/a")
    assert b.taken() == [frame(0, ack=2, mine=B1, yours=A1)]


def test_a_parcel_that_its_part_refuses_does_not_lose_the_others() -> None:
    _, b = opened()
    b.get("a", frame(2, "x", "bad", "y"))
    assert b.talker.heard == ["a/claimant: x", "a/claimant: y"]
    assert b.refused == ["a bad word"]


@pytest.mark.parametrize("message", [Word("x"), ClockRead(1)])
def test_what_is_no_frame_is_refused(message: Message) -> None:
    _, b = opened()
    before = b.link.key()
    b.get("a", message)
    assert b.refused == [f"no message for a link: {type(message).__name__}"]
    assert b.link.key() == before


def test_a_part_that_is_not_for_others_cannot_speak_to_them() -> None:
    a, _ = opened()
    a.say("b", "x", part="hooks")
    assert a.refused == ["claimant may not speak to b/hooks over a link"]
    assert a.taken() == []


def test_messages_of_the_own_node_never_go_through_the_link() -> None:
    a = Node("a")
    a.say("a", "x", part="manager")
    assert a.desk.heard == ["a/claimant: x"]
    assert a.taken() == []
    assert a.link.counts.parcels == 0
