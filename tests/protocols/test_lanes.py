"""Lanes alone and against each other: forms, views, and what they cost (lanes specification, sections 2 and 8)."""

from collections import Counter
from typing import Any, cast

import pytest
from protocols.token_room import Letter, Room, claim

from holdall.machine.trace import Step
from holdall.protocols.by_pool.manager import Manager
from holdall.protocols.by_pool.messages import End
from holdall.protocols.lanes.messages import LaneEntry, Stage, Standing, Status, View
from holdall.protocols.vocabulary import Ended, Release
from holdall.simulator.faults import Faults
from holdall.simulator.run import Run
from holdall.simulator.setup import Setup
from holdall.simulator.workload import Workload

A, B, C = claim("c1"), claim("c2"), claim("c3")
TWO = {"n0": {"a": 1}, "n1": {"a": 1}}


def entries(room: Room, node: str) -> list[tuple[Any, Status, int]]:
    manager: Any = room.manager(node)
    return [(entry.claim, entry.status, entry.index) for _, entry in sorted(manager.entries.items())]


def test_all_set_aside_is_in_at_once() -> None:
    room = Room("lanes", TWO)
    room.claims(A, "n0", "n1")
    room.run()
    assert room.granted() == [A]
    assert entries(room, "n0") == [(A, Status.ASIDE, 1)]
    assert Counter(room.sent) == {"Standing": 2, "View": 2}


def test_who_gets_units_behind_one_that_waits_for_its_index_is_counted() -> None:
    room = Room("lanes", {"n0": {"a": 2}, "n1": {"a": 1}})
    manager = cast("Manager[LaneEntry]", room.manager("n0"))
    room.claims(A, "n0:a2")
    room.run()
    # 1. B asks both nodes; before it knows its index, 2. C asks here, and 3. both units come free.
    room.claims(B, "n0", "n1")
    for node in ("n0", "n1"):
        room.deliver("Standing", node)
    room.claims(C, "n0")
    room.deliver("Standing", "n0")
    assert manager.overtakes == {}
    room.say(Release(A))
    room.deliver("End", "n0")
    assert manager.overtakes == {"a": 1}, "C has its unit; B, which came first, waits still"
    room.run()
    assert room.granted() == [A, C, B]
    assert manager.overtakes == {"a": 1}


def test_a_lane_is_the_largest_index_and_what_was_aside_goes_back() -> None:
    room = Room("lanes", TWO)
    room.claims(A, "n0", "n1")
    room.deliver("Standing", "n0")
    room.claims(B, "n0", "n1")
    asks = [letter for letter in room.wire if isinstance(letter[2], Standing) and letter[1].node == "n1"]
    assert len(asks) == 2
    room.deliver("Standing", "n0")
    of_b = next(letter for letter in asks if letter[2].claim == B)  # type: ignore[attr-defined]
    room.wire.remove(of_b)
    room.hand(of_b)
    room.deliver("Standing", "n1")
    assert entries(room, "n0") == [(A, Status.ASIDE, 1), (B, Status.OPEN, 2)]
    assert entries(room, "n1") == [(A, Status.OPEN, 2), (B, Status.ASIDE, 1)]
    while any(isinstance(message, View) for _, _, message in room.wire):
        room.deliver("View")
    finals = [message for _, _, message in room.wire if isinstance(message, Standing)]
    assert {(form.claim, form.stage, form.n) for form in finals} == {
        (A, Stage.FINAL, 2),
        (B, Stage.FINAL, 2),
    }
    room.run()
    assert room.granted() == [A]
    assert entries(room, "n0") == [(A, Status.GRANTED, 2), (B, Status.QUEUED, 2)]
    room.release_all()
    assert room.granted() == [A, B]


@pytest.mark.parametrize("protocol", ["lanes", "lanes-lending"])
@pytest.mark.parametrize("lost", range(8))
def test_ln1_any_one_message_of_a_claim_is_lost(protocol: str, lost: int) -> None:
    room = Room(protocol, TWO)
    count = 0

    def deliver_all() -> None:
        nonlocal count
        while room.wire:
            _, to, message = room.wire[0]
            if count == lost:
                room.take(type(message).__name__, to.node)
            else:
                room.deliver(type(message).__name__, to.node)
            count += 1

    room.claims(A, "n0", "n1")
    deliver_all()
    room.fire("c1")
    room.run()
    assert room.granted() == [A]
    room.say(Release(A))
    deliver_all()
    room.fire("c1")
    room.run()
    assert count > lost
    assert entries(room, "n0") == entries(room, "n1") == []
    assert isinstance(room.told[-1], Ended)


@pytest.mark.parametrize("protocol", ["lanes", "lanes-lending"])
@pytest.mark.parametrize("pools", range(1, 17))
def test_alone_it_is_3k_messages_and_2_delays_whatever_the_number_of_pools(protocol: str, pools: int) -> None:
    workload = Workload(pools=pools, k=pools, nodes=pools, clients=1, load="low")
    setup = Setup(protocol=protocol, workload=workload, duration=1000, jitter=False, strict=True)
    steps: list[Step] = []
    report = Run(setup, on_step=steps.append).run()
    assert report.violations == []
    assert report.figures.mean == pytest.approx(2)
    assert report.figures.messages_per_claim == pytest.approx(3 * pools, abs=0.3 * pools)
    sent: Counter[str] = Counter()
    for step in steps:
        sent.update(type(message).__name__ for _, to, message in step.turn.sends if to.node != step.host)
        if any(isinstance(message, Ended) for _, _, message in step.turn.sends):
            break
    assert sent == {"Standing": pools, "View": pools, "End": pools, "EndAck": pools}


@pytest.mark.parametrize("protocol", ["lanes", "lanes-lending"])
def test_mixed_faults_never_let_two_in_and_everybody_is_served(protocol: str) -> None:
    workload = Workload(pools=8, k=3, nodes=4, units=2, load="saturated", cancel_share=0.05, try_share=0.1)
    faults = Faults(crash=1, restart=1, reboot=1, wipe=1, loss=0.01, duplicate=0.01)
    setup = Setup(protocol=protocol, workload=workload, faults=faults, claims=60, strict=True)
    report = Run(setup).run()
    assert report.violations == []
    assert report.figures.grants > 30


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("protocol", ["lanes", "lanes-lending"])
@pytest.mark.parametrize("after", range(8))
def test_ln3_who_cancels_and_claims_again_at_once_never_waits_for_itself(
    protocol: str, after: int, newest_first: bool
) -> None:
    """Cancelled at each boundary between two messages; without any timer, whichever way messages overtake each other."""
    room = Room(protocol, TWO)
    again = claim("c1", 2)

    def next_one() -> None:
        room.hand(room.wire.pop(-1 if newest_first else 0))

    room.claims(A, "n0", "n1")
    for _ in range(after):
        if room.wire:
            next_one()
    room.say(Release(A))
    room.claims(again, "n0", "n1")
    while room.wire:
        next_one()
    assert again in room.granted()
    assert {one for node in TWO for one, _, _ in entries(room, node)} == {again}


@pytest.mark.parametrize("protocol", ["lanes", "lanes-lending"])
def test_ln8_old_forms_change_nothing(protocol: str) -> None:
    """Every form of two claims is handed over again after each later message, also after their ends."""
    room = Room(protocol, TWO)
    forms: list[Letter] = []

    def deliver_all(first: str) -> None:
        while room.wire:
            letter = next((one for one in room.wire if one[1].node == first), room.wire[0])
            room.wire.remove(letter)
            room.hand(letter)
            kept = list(room.wire)
            for old in forms:
                before = [entries(room, node) for node in TWO]
                room.hand(old)
                assert [entries(room, node) for node in TWO] == before, old
            room.wire[:] = kept
            if isinstance(letter[2], Standing | End):
                forms.append(letter)

    room.claims(A, "n0", "n1")
    room.deliver("Standing", "n0")
    room.claims(B, "n0", "n1")
    deliver_all("n1")
    for served in (1, 2):
        room.say(Release(room.granted()[served - 1]))
        deliver_all("n0")
    assert {form.n for _, _, form in forms if isinstance(form, Standing)} >= {0, 2}
    assert room.granted() in ([A, B], [B, A])
    assert [entries(room, node) for node in TWO] == [[], []]


def test_who_waits_for_a_loan_that_does_not_come_back_lends_again() -> None:
    """The claim in the middle has been granted everywhere once, and one place is on loan to somebody who is dead."""
    room = Room("lanes-lending", TWO, ("c1", "c2", "c3", "c4"))
    dead, last = claim("c3"), claim("c4")
    room.claims(B, "n1")
    room.run()
    room.claims(A, "n0", "n1")
    room.run()
    assert entries(room, "n0") == [(A, Status.GRANTED, 2)]
    room.fire("c1")
    assert entries(room, "n0") == [(A, Status.LENT, 2)]
    room.claims(dead, "n0")
    room.run()
    room.down.add("c3")
    room.say(Release(B))
    room.claims(last, "n1")
    room.run()
    assert entries(room, "n0") == [(A, Status.QUEUED, 2), (dead, Status.ASIDE, 3)]
    assert entries(room, "n1") == [(A, Status.GRANTED, 2), (last, Status.QUEUED, 3)]
    assert room.granted() == [B, dead]
    room.fire("c1")
    assert entries(room, "n1") == [(A, Status.LENT, 2), (last, Status.TRIED, 3)]
    assert room.granted() == [B, dead, last]


def test_a_repeated_form_is_answered_only_where_it_tells_less_than_there_is() -> None:
    room = Room("lanes", TWO)
    room.claims(B, "n1")
    room.run()
    room.claims(A, "n0", "n1")
    room.run()
    room.sent.clear()
    room.fire("c1")
    assert Counter(room.sent) == {"Standing": 1, "View": 1}
    room.sent.clear()
    room.fire("c1")
    assert Counter(room.sent) == {"Standing": 1}


def test_a_grant_is_told_until_it_is_known_to_be_known() -> None:
    room = Room("lanes", TWO)
    room.claims(B, "n1")
    room.run()
    room.claims(A, "n0", "n1")
    room.run()
    room.fire("n0")
    manager: Any = room.manager("n0")
    assert manager.entries[A, 0].heard
    room.sent.clear()
    room.fire("n0")
    assert room.sent == []
    room.say(Release(B))
    room.deliver("End", "n1")
    room.take("View", "c1")
    room.run()
    assert room.granted() == [B]
    room.fire("n1")
    assert room.granted() == [B, A]
