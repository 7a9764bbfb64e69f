"""A manager's answer to each message in each state: the table of the chain specification, 2.5, row by row."""

import pytest
from protocols.desk import (
    A1,
    AFTER,
    ALONE,
    BEFORE,
    CHAIN,
    FROM_FIRST,
    MID,
    NODE,
    OLD,
    TO_LAST,
    UNIT,
    UNIT_BEFORE,
    YOUNG,
    Desk,
    claimant,
    kill,
    killed,
    promote,
    request,
    saved,
    sends,
    stamp,
    try_,
)

from holdall.machine.contract import BOOT_KEY, Address, Boot, ProtocolViolation, SetTimer, TimerFired
from holdall.protocols.chain.alone import Departed
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    EndAck,
    ExtendRow,
    Kill,
    Killed,
    Promote,
    Queued,
    Refused,
    Request,
    RowExtended,
    RowGone,
    ShrinkRow,
    Tried,
)
from holdall.protocols.chain.rows import Killing, Mem, Tombstone
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import Stamp, Terms, UnitGrant, Visit

# Request


def test_a_request_that_fits_is_granted_and_saved_in_the_same_turn() -> None:
    desk = Desk()
    effects = desk.tell(request(OLD))
    assert sends(effects) == [(claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0,), (UNIT,)))]
    assert saved(effects) == {f"row/{OLD}": desk.row(OLD)}
    assert desk.row(OLD).active
    assert desk.row(OLD).n == 1


def test_a_request_to_the_first_of_two_nodes_is_sent_on_with_its_count() -> None:
    effects = Desk().tell(request(OLD, FROM_FIRST))
    assert sends(effects) == [
        (AFTER, Promote(OLD, 1, 1, FROM_FIRST, Terms(), 1, 1, stamp(OLD), (0,), (UNIT,)))
    ]


def test_a_request_that_does_not_fit_waits_silently_with_8_passes_and_one_more_for_each_ahead() -> None:
    desk = Desk().given(request(OLD), request(MID))
    effects = desk.tell(request(YOUNG))
    assert sends(effects) == []
    assert saved(effects) == {f"row/{YOUNG}": desk.row(YOUNG)}
    assert (desk.row(MID).ahead, desk.row(MID).left) == (0, 8)
    assert (desk.row(YOUNG).ahead, desk.row(YOUNG).left) == (1, 9)


def test_a_waiting_claim_is_told_the_age_that_it_was_given() -> None:
    desk = Desk(Settings()).given(request(OLD))
    ask = Request(MID, 1, 1, ALONE, Terms(), None)
    given = Stamp(2, NODE, MID, 1)
    assert sends(desk.tell(ask)) == [(claimant(MID), Queued(MID, 1, given))]


def test_a_repeated_request_repeats_the_grant_and_nothing_else() -> None:
    desk = Desk().given(request(OLD))
    key = desk.machine.key()
    effects = desk.tell(request(OLD))
    assert sends(effects) == [(claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0,), (UNIT,)))]
    assert saved(effects) == {}
    assert desk.machine.key() == key


def test_a_repeated_request_of_a_waiting_claim_repeats_the_kills() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN), request(OLD))
    assert desk.row(YOUNG).kill is Killing.HERE
    assert sends(desk.tell(request(OLD))) == [(AFTER, Kill(YOUNG, 1, 1, 1))]


def test_a_repeated_request_of_a_claim_that_was_sent_on_is_ignored() -> None:
    assert Desk().given(request(OLD, FROM_FIRST)).changes_nothing(request(OLD, FROM_FIRST))


def test_a_request_with_another_epoch_is_refused_with_the_epoch() -> None:
    desk = Desk()
    assert sends(desk.tell(request(OLD, epoch=7))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]
    assert desk.machine.manager.rows == {}


def test_an_unknown_epoch_is_refused_like_a_wrong_one() -> None:
    assert sends(Desk().tell(request(OLD, epoch=0))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]


def test_a_request_of_a_buried_attempt_is_refused_and_the_next_attempt_is_not() -> None:
    desk = Desk().given(Done(OLD, 1))
    assert sends(desk.tell(request(OLD))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]
    assert sends(desk.tell(request(OLD, attempt=2))) == [
        (claimant(OLD), Allowed(OLD, 2, stamp(OLD), (0,), (UNIT,)))
    ]


def test_a_newer_attempt_ends_the_older_one_even_before_its_done() -> None:
    desk = Desk().given(request(OLD), request(MID), request(YOUNG))
    effects = desk.tell(request(OLD, attempt=2))
    # the units of attempt 1 go to the oldest: attempt 2 kept its age
    assert sends(effects) == [(claimant(OLD), Allowed(OLD, 2, stamp(OLD), (0,), (UNIT,)))]
    assert desk.changes_nothing(killed(OLD))
    assert sends(desk.tell(request(OLD))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]


def test_a_request_for_another_node_can_not_come_from_a_correct_claimant() -> None:
    with pytest.raises(ProtocolViolation, match="its first node is another"):
        Desk().tell(request(OLD, CHAIN))


# Promote


def test_a_promote_to_the_last_node_is_granted_with_the_units_of_all_nodes() -> None:
    effects = Desk().tell(promote(OLD))
    assert sends(effects) == [(claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0, 0), (UNIT_BEFORE, UNIT)))]


def test_a_promote_to_a_middle_node_goes_on() -> None:
    desk = Desk()
    effects = desk.tell(promote(OLD, CHAIN, pn=3))
    assert sends(effects) == [
        (AFTER, Promote(OLD, 1, 1, CHAIN, Terms(), 2, 1, stamp(OLD), (0, 0), (UNIT_BEFORE, UNIT)))
    ]
    assert desk.row(OLD).pn == 3


def test_a_repeated_promote_repeats_what_its_row_says() -> None:
    granted = Desk().given(promote(OLD))
    assert sends(granted.tell(promote(OLD))) == [
        (claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0, 0), (UNIT_BEFORE, UNIT)))
    ]
    assert Desk().given(promote(OLD, CHAIN)).changes_nothing(promote(OLD, CHAIN))
    waiting = Desk().given(promote(YOUNG, CHAIN), promote(OLD))
    assert sends(waiting.tell(promote(OLD))) == [(AFTER, Kill(YOUNG, 1, 1, 1))]


def test_a_promote_with_another_count_than_the_row_s_is_ignored() -> None:
    desk = Desk().given(promote(OLD, CHAIN, pn=2))
    assert desk.changes_nothing(promote(OLD, CHAIN, pn=1))
    assert desk.changes_nothing(promote(OLD, CHAIN, pn=3))


def test_a_promote_that_was_killed_is_answered_again_and_an_older_one_is_ignored() -> None:
    desk = Desk().given(request(OLD), promote(YOUNG, pn=2))
    desk.tell(kill(YOUNG, pn=2))
    assert sends(desk.tell(promote(YOUNG, pn=2))) == [(BEFORE, Killed(YOUNG, 1, 2))]
    assert desk.changes_nothing(promote(YOUNG, pn=1))
    assert saved(desk.tell(promote(YOUNG, pn=3))) == {
        f"mem/{YOUNG}": None,
        f"row/{YOUNG}": desk.row(YOUNG),
    }


def test_a_promote_with_another_epoch_is_refused_unless_the_row_is_here() -> None:
    desk = Desk()
    assert sends(desk.tell(promote(OLD, epoch=7))) == [(claimant(OLD), Refused(OLD, 1, 1, 0, stamp(OLD)))]
    desk.given(promote(OLD))
    assert sends(desk.tell(promote(OLD, epoch=7))) == [
        (claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0, 0), (UNIT_BEFORE, UNIT)))
    ]


def test_a_promote_sets_the_clock_forward_and_never_back() -> None:
    desk = Desk()
    desk.tell(Promote(OLD, 1, 1, TO_LAST, Terms(), 1, 1, Stamp(50, "n0", OLD, 1), (0,), ()))
    desk.tell(promote(MID))
    assert desk.machine.manager.clock == 50


# Kill


def test_a_kill_takes_a_waiting_row_away_and_remembers_it() -> None:
    desk = Desk().given(request(OLD), promote(YOUNG, pn=2))
    effects = desk.tell(kill(YOUNG, pn=2))
    assert sends(effects) == [(BEFORE, Killed(YOUNG, 1, 2))]
    assert saved(effects) == {f"row/{YOUNG}": None, f"mem/{YOUNG}": Mem(1, 2, 0, 8, 0, 8)}


def test_a_kill_goes_on_from_an_active_row_and_again_when_it_is_repeated() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN))
    assert sends(desk.tell(kill(YOUNG))) == [(AFTER, Kill(YOUNG, 1, 1, 1))]
    assert desk.row(YOUNG).kill is Killing.BEFORE
    assert sends(desk.tell(kill(YOUNG))) == [(AFTER, Kill(YOUNG, 1, 1, 1))]


def test_a_kill_does_not_go_on_when_this_node_s_own_is_under_way() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN), request(OLD))
    assert sends(desk.tell(kill(YOUNG))) == []
    assert desk.row(YOUNG).kill is Killing.BEFORE


def test_a_kill_loses_against_a_grant() -> None:
    assert Desk().given(promote(YOUNG)).changes_nothing(kill(YOUNG))


def test_ch9_a_kill_before_its_promote_makes_it_void() -> None:
    desk = Desk()
    effects = desk.tell(kill(YOUNG, pn=4))
    assert sends(effects) == [(BEFORE, Killed(YOUNG, 1, 4))]
    assert saved(effects) == {f"mem/{YOUNG}": Mem(1, 4, 0, None)}
    assert sends(desk.tell(promote(YOUNG, pn=4))) == [(BEFORE, Killed(YOUNG, 1, 4))]
    assert sends(desk.tell(promote(YOUNG, pn=5)))[0][1] == Allowed(
        YOUNG, 1, stamp(YOUNG), (0, 0), (UNIT_BEFORE, UNIT)
    )


def test_old_kills_are_ignored() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN, pn=2))
    assert desk.changes_nothing(kill(YOUNG, pn=1))
    gone = Desk().given(request(OLD), promote(YOUNG, pn=2), kill(YOUNG, pn=2))
    assert gone.changes_nothing(kill(YOUNG, pn=2))
    assert gone.changes_nothing(kill(YOUNG, pn=1))
    assert Desk().given(Done(YOUNG, 1)).changes_nothing(kill(YOUNG))


def test_a_kill_for_another_epoch_is_never_answered_without_a_row() -> None:
    assert Desk().changes_nothing(kill(YOUNG, epoch=7))
    desk = Desk().given(promote(YOUNG, CHAIN))
    assert sends(desk.tell(kill(YOUNG, epoch=7))) == [(AFTER, Kill(YOUNG, 1, 1, 1))]


# Killed


def test_killed_for_this_node_s_own_wish_lets_the_claim_wait_at_its_age_and_frees_its_units() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN), request(MID), request(OLD))
    effects = desk.tell(killed(YOUNG))
    row = desk.row(YOUNG)
    assert (row.active, row.kill, row.got, row.n, row.left) == (False, Killing.NO, (0,), 1, 8)
    assert sends(effects) == [(claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0,), (UNIT,)))]
    assert saved(effects) == {f"row/{YOUNG}": row, f"row/{OLD}": desk.row(OLD)}


def test_killed_for_the_node_before_goes_back_there_and_frees_the_units() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN, pn=2), request(OLD), kill(YOUNG, pn=2))
    effects = desk.tell(killed(YOUNG))
    assert sends(effects) == [
        (BEFORE, Killed(YOUNG, 1, 2)),
        (claimant(OLD), Allowed(OLD, 1, stamp(OLD), (0,), (UNIT,))),
    ]
    assert saved(effects) == {
        f"row/{YOUNG}": None,
        f"mem/{YOUNG}": Mem(1, 2, 1, 8, 0, 8),
        f"row/{OLD}": desk.row(OLD),
    }


def test_old_killeds_are_ignored() -> None:
    desk = Desk().given(promote(YOUNG, CHAIN))
    assert desk.changes_nothing(killed(YOUNG, n=0))
    assert desk.changes_nothing(killed(YOUNG, n=2))
    assert Desk().given(promote(YOUNG)).changes_nothing(killed(YOUNG))
    assert Desk().changes_nothing(killed(YOUNG))
    waiting = Desk().given(request(OLD), promote(YOUNG, CHAIN))
    assert waiting.changes_nothing(killed(YOUNG, n=0))


def test_passes_and_the_count_of_activations_come_back_with_a_claim_that_was_killed_away() -> None:
    desk = Desk(Settings(tell_stamp=False), a=1, b=1)
    both = (Visit("n0", (A1,), 1), Visit(NODE, ((("a", 1), ("b", 1)),), 1), Visit("n2", (A1,), 1))
    desk.given(promote(MID, both), killed(MID))  # it starts again at once, as nothing is in its way
    assert desk.row(MID).n == 2
    desk.given(kill(MID), killed(MID, n=2), request(OLD))
    desk.given(promote(MID, both, pn=2))
    assert (desk.row(MID).active, desk.row(MID).n, desk.row(MID).left) == (False, 2, 8)


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
