"""How a manager takes claims into line, sends them on and calls them back: the chain specification's table 2.5, first half."""

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
)

from holdall.machine.contract import ProtocolViolation
from holdall.protocols.chain.messages import (
    Allowed,
    Done,
    Kill,
    Killed,
    Promote,
    Queued,
    Refused,
    Request,
)
from holdall.protocols.chain.rows import Killing, Mem
from holdall.protocols.chain.settling import Settings
from holdall.protocols.vocabulary import Stamp, Terms, Visit

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
