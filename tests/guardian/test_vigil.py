"""When a command is stopped, and how hard, moment by moment."""

from holdall.guardian.vigil import LOSSES, Act, Reason, Silence, Vigil


def vigil(deadline_ms: int | None = 30_000, hard_end_ms: int | None = None) -> Vigil:
    return Vigil(deadline_ms=deadline_ms, hard_end_ms=hard_end_ms, grace_ms=5_000)


def test_nothing_is_done_before_one_grace_before_the_deadline() -> None:
    watch = vigil()
    assert watch.wake_ms() == 25_000
    assert watch.act(24_999) is None
    assert watch.reason is None


def test_c9_term_comes_a_grace_before_the_deadline_and_kill_at_it_again_and_again() -> None:
    watch = vigil()
    assert [watch.act(now) for now in (25_000, 25_001, 29_999, 30_000, 30_001)] == [
        Act.TERM,
        None,
        None,
        Act.KILL,
        Act.KILL,
    ]
    assert watch.reason is Reason.NOT_RENEWED


def test_a_confirmed_renewal_moves_both() -> None:
    watch = vigil()
    watch.renew(deadline_ms=40_000, hard_end_ms=None)
    assert watch.act(34_999) is None
    assert watch.act(35_000) is Act.TERM


def test_a_renewal_does_not_save_a_command_that_is_being_stopped() -> None:
    watch = vigil()
    assert watch.act(25_000) is Act.TERM
    watch.renew(deadline_ms=60_000, hard_end_ms=None)
    assert watch.act(30_000) is Act.KILL


def test_the_hard_end_counts_when_it_comes_first_and_is_named() -> None:
    watch = vigil(hard_end_ms=20_000)
    assert watch.act(15_000) is Act.TERM
    assert watch.reason is Reason.FOR_OVER
    assert watch.act(20_000) is Act.KILL


def test_c8_who_wakes_up_after_the_deadline_kills_at_once() -> None:
    assert vigil().act(31_000) is Act.KILL


def test_a_stop_gets_its_whole_grace_while_the_lease_lasts() -> None:
    watch = vigil()
    assert watch.stop(Reason.WRAPPER_GONE, 1_000)
    assert watch.act(1_000) is Act.TERM
    assert watch.wake_ms() == 6_000
    assert watch.act(6_000) is Act.KILL


def test_a_stop_near_the_deadline_gets_what_is_left() -> None:
    watch = vigil()
    watch.stop(Reason.REVOKED, 28_000)
    assert watch.wake_ms() == 30_000


def test_the_first_reason_stays() -> None:
    watch = vigil()
    assert watch.stop(Reason.LEFTOVER, 1_000)
    assert not watch.stop(Reason.WRAPPER_GONE, 2_000)
    assert watch.reason is Reason.LEFTOVER


def test_without_a_known_end_nothing_is_ever_due() -> None:
    watch = vigil(deadline_ms=None)
    assert watch.wake_ms() is None
    assert watch.act(10**12) is None


def test_only_ends_of_the_lease_itself_count_as_loss() -> None:
    assert sorted(LOSSES) == ["for-over", "lease-gone", "not-renewed", "revoked", "stay-over"]


def test_silence_is_too_long_at_its_limit_and_never_while_it_is_announced() -> None:
    silence = Silence(limit_ms=5_500, now_ms=0)
    assert not silence.too_long(5_499)
    assert silence.too_long(5_500)
    silence.excused = True
    assert not silence.too_long(10**9)
    silence.excused = False
    silence.heard(10**9)
    assert not silence.too_long(10**9 + 5_499)


def test_an_answer_that_came_late_takes_back_nothing_that_was_confirmed() -> None:
    watch = vigil()
    watch.renew(deadline_ms=40_000, hard_end_ms=None)
    watch.renew(deadline_ms=32_000, hard_end_ms=None)
    assert watch.act(34_999) is None
    assert watch.act(35_000) is Act.TERM


def test_before_a_deadline_that_nothing_has_moved_on_something_is_done_once_and_again_before_the_next() -> (
    None
):
    watch = Vigil(deadline_ms=60_000, hard_end_ms=None, grace_ms=5_000, warn_renewed_ms=10_000)
    assert watch.wake_ms() == 45_000
    assert (watch.act(44_999), watch.act(45_000), watch.act(45_001)) == (None, Act.WARN, None)
    # The same end by an answer that came a little faster: nothing is done again.
    watch.renew(deadline_ms=60_040, hard_end_ms=None)
    assert (watch.act(45_100), watch.wake_ms()) == (None, 55_040)
    # Renewed after all: there is another end.
    watch.renew(deadline_ms=100_000, hard_end_ms=None)
    assert (watch.act(84_999), watch.act(85_000), watch.act(95_000)) == (None, Act.WARN, Act.TERM)
    assert watch.reason is Reason.NOT_RENEWED


def test_before_an_end_that_is_known_and_before_one_that_renewals_move_different_times_are_left() -> None:
    watch = Vigil(deadline_ms=60_000, hard_end_ms=None, grace_ms=5_000, warn_ms=20_000, warn_renewed_ms=1_000)
    watch.stay_end_ms = 200_000
    assert watch.wake_ms() == 54_000
    watch.renew(deadline_ms=190_000, hard_end_ms=None)
    assert [watch.act(now) for now in (174_999, 175_000, 183_999, 184_000, 184_001)] == [
        None,
        Act.WARN,
        None,
        Act.WARN,
        None,
    ]


def test_a_command_that_is_not_running_is_warned_of_nothing() -> None:
    watch = Vigil(deadline_ms=60_000, hard_end_ms=None, grace_ms=5_000, warn_renewed_ms=10_000)
    watch.running = False
    assert (watch.act(50_000), watch.wake_ms()) == (None, 60_000)
