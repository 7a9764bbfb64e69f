"""The decisions of an election, by hand: what is read, what is written, when another one is succeeded."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.bus.leadership import Election, Entry, Leading, Word, Write, first_epoch

FIRST = first_epoch(1_000)
OTHER = Word("b", "b1", 7, beat=1)


def new(me: str = "a") -> Election:
    return Election(me, me + "1", first_epoch=FIRST, takeover_ms=3000)


def leader(me: str = "a") -> Election:
    """Leads with the first epoch, as it stands at revision 1."""
    election = new(me)
    written = election.step(None, 0)
    assert written is not None
    election.wrote(written, 1, 0)
    assert election.leads
    return election


def test_an_empty_table_is_written_at_once_with_an_epoch_of_the_time() -> None:
    election = new()
    assert election.now == Leading(None, 0)
    assert election.step(None, 0) == Write(Word("a", "a1", FIRST, beat=1), None)
    assert not election.leads


OWN = Entry(Word("a", "a1", FIRST, beat=1), 1)


def test_a_leader_writes_its_word_again_with_another_beat() -> None:
    assert leader().step(OWN, 1000) == Write(Word("a", "a1", FIRST, beat=2), 1)


def test_who_changes_its_entry_in_time_is_followed_for_ever() -> None:
    election = new()
    for beat in range(50):
        entry = Entry(Word("b", "b1", 7, beat=beat), beat + 10)
        assert election.step(entry, beat * 2999) is None
    assert election.now == Leading("b", 7)


def test_who_does_not_change_its_entry_is_succeeded_with_the_next_epoch() -> None:
    election = new()
    assert election.step(Entry(OTHER, 4), 500) is None
    assert election.step(Entry(OTHER, 4), 3499) is None
    assert election.step(Entry(OTHER, 4), 3500) == Write(Word("a", "a1", 8, beat=1), 4)


def test_who_has_stepped_down_or_is_my_own_earlier_life_is_succeeded_at_once() -> None:
    gone = Word("b", "b1", 7, beat=1, over=True)
    assert new().step(Entry(gone, 4), 0) == Write(Word("a", "a1", 8, beat=1), 4)
    mine = Word("a", "a0", 7, beat=9)
    assert new().step(Entry(mine, 4), 0) == Write(Word("a", "a1", 8, beat=1), 4)


def test_a_write_whose_answer_was_lost_is_found_at_the_next_look() -> None:
    election = new()
    written = election.step(None, 0)
    assert written is not None
    again = election.step(Entry(written.word, 1), 1000)
    assert election.now == Leading("a", FIRST)
    assert again == Write(Word("a", "a1", FIRST, beat=2), 1)


def test_an_epoch_that_a_host_has_heard_is_exceeded_by_the_leader_alone() -> None:
    follower = new()
    follower.step(Entry(OTHER, 4), 0)
    follower.heard(90)
    assert not follower.must_rise()
    election = leader()
    election.heard(FIRST + 5)
    assert election.must_rise()
    assert election.step(OWN, 10) == Write(Word("a", "a1", FIRST + 6, beat=2), 1)


def test_a_leader_whose_table_is_gone_makes_it_anew_with_a_larger_epoch_and_others_wait_for_it() -> None:
    election = leader()
    assert election.step(None, 1000) == Write(Word("a", "a1", FIRST + 1, beat=2), None)
    follower = new("c")
    follower.step(Entry(OTHER, 4), 0)
    assert follower.step(None, 2999) is None
    assert follower.step(None, 3000) == Write(Word("c", "c1", FIRST, beat=1), None)


def test_what_no_leader_writes_is_replaced_after_the_same_time() -> None:
    election = new()
    assert election.step(Entry(None, 9), 0) is None
    assert election.step(Entry(None, 9), 3000) == Write(Word("a", "a1", FIRST, beat=1), 9)


def test_who_was_outrun_follows_and_does_not_forget_the_higher_epoch() -> None:
    election = leader()
    assert election.step(Entry(Word("b", "b1", 3, beat=1), 1), 1000) is None
    assert election.now == Leading("b", 3)
    assert election.step(Entry(Word("b", "b1", 3, beat=1), 1), 4000) == Write(
        Word("a", "a1", FIRST + 1, beat=2), 1
    )


def test_a_farewell_is_a_leaders_only() -> None:
    assert new().farewell() is None
    election = leader()
    assert election.farewell() == Write(Word("a", "a1", FIRST, beat=2, over=True), 1)


MOVES = st.lists(
    st.tuples(
        st.sampled_from(["step", "lost answer", "outrun", "delete", "heard", "restart"]),
        st.integers(0, 2),
        st.integers(0, 4000),
    ),
    max_size=60,
)


@given(MOVES)
def test_epochs_of_leaders_never_come_twice_and_grow_in_each_candidate(
    moves: list[tuple[str, int, int]],
) -> None:
    """Any order of looks, writes, lost answers and losses of the table, by three candidates with one clock."""
    table: Entry | None = None
    revision = 0
    now_ms = 0
    lives = [1, 1, 1]
    # A wall clock that goes on, and each start reads it.
    candidates = [
        Election(str(one), f"{one}.1", first_epoch=first_epoch(1), takeover_ms=3000) for one in range(3)
    ]
    led: dict[int, str] = {}
    last = [0, 0, 0]
    for number, (what, who, ms) in enumerate(moves):
        now_ms += ms
        election = candidates[who]
        if what == "delete":
            table = None
            continue
        if what == "heard":
            election.heard(max(led, default=0))
            continue
        if what == "restart":
            lives[who] += 1
            candidates[who] = Election(
                str(who), f"{who}.{lives[who]}", first_epoch=first_epoch(number + 2), takeover_ms=3000
            )
            last[who] = 0
            continue
        written = election.step(table, now_ms)
        if written is None or what == "outrun":
            continue
        revision += 1
        table = Entry(written.word, revision)
        process = written.word.process
        # Two who lose the table at one time by one clock may choose the same; hosts then hear of one epoch twice.
        owner = led.setdefault(written.word.epoch, process)
        assert owner == process or written.word.epoch % 2**20 == 0 or written.revision is None
        assert written.word.epoch >= last[who]
        last[who] = written.word.epoch
        if what == "step":
            election.wrote(written, revision, now_ms)
