"""How a manager ends, tries, shrinks and extends, and its timers: the chain specification's table 2.5, second half."""

from protocols.desk import (
    AFTER,
    CHAIN,
    FROM_FIRST,
    MID,
    NODE,
    OLD,
    UNIT,
    YOUNG,
    Desk,
    claimant,
    kill,
    promote,
    request,
    saved,
    sends,
    stamp,
    try_,
)

from holdall.machine.contract import BOOT_KEY, Address, Boot, SetTimer, TimerFired
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    EndAck,
    ExtendRow,
    Kill,
    Refused,
    RowExtended,
    RowGone,
    ShrinkRow,
    Tried,
)
from holdall.protocols.chain.rows import Tombstone
from holdall.protocols.chain.settling import Settings
from holdall.protocols.counting_book import Departed
from holdall.protocols.vocabulary import UnitGrant, Visit

# Done, departed


def test_done_removes_buries_and_is_acknowledged() -> None:
    desk = Desk().given(request(OLD), request(MID))
    effects = desk.tell(Done(OLD, 1))
    assert sends(effects) == [
        (claimant(OLD), EndAck(OLD, 1)),
        (claimant(MID), Allowed(MID, 1, stamp(MID), (0,), (UNIT,))),
    ]
    assert saved(effects) == {
        f"row/{OLD}": None,
        f"buried/{OLD}": Tombstone(1),
        f"row/{MID}": desk.row(MID),
    }


def test_ch11_done_before_its_request_is_acknowledged_and_the_request_comes_to_nothing() -> None:
    desk = Desk()
    assert sends(desk.tell(Done(OLD, 1))) == [(claimant(OLD), EndAck(OLD, 1))]
    assert sends(desk.tell(request(OLD))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]
    assert desk.machine.manager.rows == {}


def test_done_of_an_earlier_attempt_leaves_the_present_one_alone() -> None:
    desk = Desk().given(request(OLD, attempt=2))
    assert sends(desk.tell(Done(OLD, 1))) == [(claimant(OLD), EndAck(OLD, 1))]
    assert desk.row(OLD).attempt == 2


def test_done_forgets_what_a_kill_left_behind() -> None:
    desk = Desk().given(kill(OLD))
    assert saved(desk.tell(Done(OLD, 1))) == {f"mem/{OLD}": None, f"buried/{OLD}": Tombstone(1)}


def test_done_of_this_node_s_own_claim_that_went_nowhere_else_leaves_no_tombstone() -> None:
    desk = Desk().given(request(OLD))
    assert saved(desk.tell(Done(OLD, 1, alone=True), Address(NODE, "claimant"))) == {f"row/{OLD}": None}
    assert desk.machine.manager.buried == {}


def test_a_departed_claim_is_buried_and_its_claimant_told() -> None:
    desk = Desk().given(request(OLD), request(MID))
    effects = desk.tell(Departed(OLD))
    assert sends(effects) == [
        (claimant(OLD), RowGone(OLD, 1, "expired", stamp(OLD))),
        (claimant(MID), Allowed(MID, 1, stamp(MID), (0,), (UNIT,))),
    ]
    assert saved(effects)[f"buried/{OLD}"] == Tombstone(1)
    assert desk.tell(Departed(OLD)) == []


# Try


def test_a_try_takes_what_is_free_and_answers_the_same_again() -> None:
    desk = Desk()
    effects = desk.tell(try_(OLD))
    yes = (claimant(OLD), Tried(OLD, 1, yes=True, units=(UNIT,)))
    assert sends(effects) == [yes]
    assert saved(effects) == {f"row/{OLD}": desk.row(OLD)}
    assert sends(desk.tell(try_(OLD))) == [yes]


def test_a_try_that_would_pass_a_waiting_claim_is_refused_whatever_passes_it_has_left() -> None:
    desk = Desk(Settings(passes=100, tell_stamp=False), a=2, b=1)
    desk.given(request(OLD), request(MID, (Visit(NODE, ((("a", 2),),), 1),)))
    assert sends(desk.tell(try_(YOUNG))) == [(claimant(OLD), Tried(YOUNG, 1, yes=False))]
    assert YOUNG not in desk.machine.manager.rows
    assert sends(desk.tell(try_(YOUNG, (("b", 1),)))) == [
        (claimant(OLD), Tried(YOUNG, 1, yes=True, units=(UnitGrant(NODE, "b", "", 0),)))
    ]


def test_a_try_is_refused_when_buried_or_for_another_epoch() -> None:
    no = (claimant(OLD), Tried(OLD, 1, yes=False))
    assert sends(Desk().given(Done(OLD, 1)).tell(try_(OLD))) == [no]
    assert sends(Desk().tell(try_(OLD, epoch=2))) == [no]


def test_a_tried_row_can_not_be_killed() -> None:
    assert Desk().given(try_(OLD)).changes_nothing(kill(OLD))
    desk = Desk().given(try_(YOUNG))
    assert sends(desk.tell(request(OLD))) == []


# Shrink, extend


def test_a_shrink_gives_a_part_back_and_repeating_it_changes_nothing() -> None:
    desk = Desk(a=2, b=1)
    whole = (Visit(NODE, ((("a", 2), ("b", 1)),), 1),)
    desk.given(request(OLD, whole), request(MID))
    effects = desk.tell(ShrinkRow(OLD, 1, (("a", 1), ("b", 1))))
    assert desk.row(OLD).vector == (("a", 1), ("b", 1))
    assert sends(effects) == [(claimant(MID), Allowed(MID, 1, stamp(MID), (0,), (UNIT,)))]
    assert desk.changes_nothing(ShrinkRow(OLD, 1, (("a", 1), ("b", 1))))
    assert desk.changes_nothing(ShrinkRow(OLD, 1, (("a", 2), ("b", 1))))


def test_a_shrink_to_nothing_buries_so_that_a_kill_makes_no_grant_void() -> None:
    desk = Desk().given(promote(OLD, CHAIN))
    assert saved(desk.tell(ShrinkRow(OLD, 1, ()))) == {f"row/{OLD}": None, f"buried/{OLD}": Tombstone(1)}
    assert desk.changes_nothing(kill(OLD))


def test_a_shrink_of_a_waiting_or_unknown_claim_is_ignored() -> None:
    desk = Desk().given(request(OLD), request(MID))
    assert desk.changes_nothing(ShrinkRow(MID, 1, ()))
    assert desk.changes_nothing(ShrinkRow(YOUNG, 1, ()))


def test_a_later_end_is_saved_and_answered_and_repeating_it_only_answers() -> None:
    desk = Desk().given(request(OLD))
    effects = desk.tell(ExtendRow(OLD, 1, 60_000))
    answer = (claimant(OLD), RowExtended(OLD, 1, 60_000, ok=True))
    assert sends(effects) == [answer]
    assert saved(effects) == {f"row/{OLD}": desk.row(OLD)}
    assert desk.row(OLD).terms.for_ms == 60_000
    again = desk.tell(ExtendRow(OLD, 1, 60_000))
    assert (sends(again), saved(again)) == ([answer], {})


def test_a_later_end_of_a_claim_that_is_not_active_here_is_refused() -> None:
    desk = Desk().given(request(OLD), request(MID))
    assert sends(desk.tell(ExtendRow(MID, 1, 1))) == [(claimant(OLD), RowExtended(MID, 1, 1, ok=False))]
    assert sends(desk.tell(ExtendRow(YOUNG, 1, 1))) == [(claimant(OLD), RowExtended(YOUNG, 1, 1, ok=False))]


# Quarantine


def test_in_quarantine_newcomers_are_refused_and_called_when_it_ends() -> None:
    desk = Desk()
    desk.machine.recover({BOOT_KEY: Boot("lost", 5, 2, quarantine_ms=9_000)})
    assert sends(desk.tell(request(OLD, epoch=5))) == [(claimant(OLD), Refused(OLD, 1, 5, 9_000, stamp(OLD)))]
    assert sends(desk.tell(try_(MID, epoch=5))) == [(claimant(OLD), Tried(MID, 1, yes=False))]
    assert sends(desk.tell(Done(YOUNG, 1))) == [(claimant(OLD), EndAck(YOUNG, 1))]
    assert sends(desk.machine.handle(TimerFired("quarantine"))) == [
        (claimant(OLD), Refused(OLD, 1, 5, 0, stamp(OLD)))
    ]
    assert sends(desk.tell(request(OLD, epoch=5, attempt=2)))[0][1] == Allowed(
        OLD, 2, stamp(OLD), (0,), (UNIT,)
    )


# Timers


def test_the_promote_timer_repeats_promote_and_kill_of_a_row_that_was_sent_on() -> None:
    desk = Desk(Settings(repeat_ms=100, repeat_most_ms=300, tell_stamp=False))
    effects = desk.tell(request(YOUNG, FROM_FIRST))
    timer = f"promote/{YOUNG}"
    assert SetTimer(timer, 100) in effects
    sent = sends(effects)
    again = desk.machine.handle(TimerFired(timer))
    assert sends(again) == sent
    assert SetTimer(timer, 200) in again
    desk.tell(request(OLD))
    third = desk.machine.handle(TimerFired(timer))
    assert sends(third) == [*sent, (AFTER, Kill(YOUNG, 1, 1, 1))]
    assert SetTimer(timer, 300) in third
    desk.tell(Done(YOUNG, 1))
    assert desk.machine.handle(TimerFired(timer)) == []


def test_a_tombstone_is_dropped_at_the_second_sweep() -> None:
    desk = Desk(Settings(sweep_ms=1000))
    assert SetTimer("sweep", 1000) in desk.tell(Done(OLD, 1))
    assert desk.tell(Done(MID, 1)).count(SetTimer("sweep", 1000)) == 0
    first = desk.machine.handle(TimerFired("sweep"))
    assert first == [SetTimer("sweep", 1000)]
    desk.tell(Done(YOUNG, 1))
    second = desk.machine.handle(TimerFired("sweep"))
    assert saved(second) == {f"buried/{OLD}": None, f"buried/{MID}": None}
    assert desk.machine.manager.buried == {YOUNG: 1}


def test_the_tombstone_of_a_newer_attempt_sees_two_sweeps_of_its_own() -> None:
    desk = Desk(Settings(sweep_ms=1000))
    desk.tell(Done(OLD, 1))
    desk.machine.handle(TimerFired("sweep"))
    desk.tell(Done(OLD, 2))
    assert saved(desk.machine.handle(TimerFired("sweep"))) == {}
    assert desk.machine.manager.buried == {OLD: 2}
    assert saved(desk.machine.handle(TimerFired("sweep"))) == {f"buried/{OLD}": None}
