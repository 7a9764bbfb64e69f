"""What one directory makes of what another tells: the exact answers, and that nothing older replaces anything newer."""

import msgspec
from parties.directory_net import Pools
from parties.directory_one import (
    GPU,
    GPU_LINE,
    HEADER,
    PAGE,
    PEER,
    PSU,
    PSU_LINE,
    changes,
    messages,
    own_row,
    serving,
    tell,
)

from holdall.machine.contract import Address, Message, Received, Send, TimerFired
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    DIRECTORY,
    Difference,
    DirectorySettings,
    Header,
    Line,
    Page,
    Row,
    Summary,
    Tell,
)
from holdall.parties.directory.view import DirectoryView
from holdall.parties.neighbours import Neighbour, NeighboursChanged, PoolNews, RemotePool


def round_of(made: Directory) -> list[Message]:
    return messages(made.handle(TimerFired("round")))


# What a page says


def test_a_page_of_a_new_node_is_taken_whole_and_told_to_the_agent() -> None:
    made = serving()
    effects = made.handle(Received(PEER, Tell((PAGE,))))
    assert changes(effects) == [NeighboursChanged(("gpu", "psu"), ("lab-2",))]
    view = DirectoryView(made)
    assert view.pools() == [RemotePool("lab-2", GPU), RemotePool("lab-2", PSU)]
    assert view.pools(["psu", "none"]) == [RemotePool("lab-2", PSU)]
    assert view.nodes() == [Neighbour("lab-2", "b", "serving", 2, 7, "10.0.0.2:1")]
    assert (view.name_of("lab-2"), view.node_named("b")) == ("b", "lab-2")
    assert (view.name_of("lab-1"), view.node_named("a")) == ("a", "lab-1")
    assert (view.name_of("lab-3"), view.node_named("c"), view.node("lab-3")) == ("lab-3", None, None)


def test_the_same_page_again_changes_nothing() -> None:
    made = serving()
    tell(made, PAGE)
    before = made.key()
    assert made.handle(Received(PEER, Tell((PAGE,)))) == []
    assert made.key() == before


def test_fewer_free_units_are_no_news_for_the_agent_more_are() -> None:
    made = serving()
    tell(made, PAGE)
    less = Page(HEADER, 6, 2, 3, (Line(3, "gpu", total=4, free=1, waiting=2),))
    assert changes(made.handle(Received(PEER, Tell((less,))))) == []
    more = Page(HEADER, 7, 3, 4, (Line(4, "gpu", total=4, free=2),))
    assert changes(made.handle(Received(PEER, Tell((more,))))) == [NeighboursChanged(("gpu",), ())]
    assert DirectoryView(made).pool("lab-2", "gpu") == PoolNews("gpu", "gpu", total=4, free=2)


def test_a_pool_that_is_gone_leaves_the_view() -> None:
    made = serving()
    tell(made, PAGE)
    gone = Page(HEADER, 6, 2, 3, (Line(3, "", gone=True, pool="gpu"),))
    assert changes(made.handle(Received(PEER, Tell((gone,))))) == [NeighboursChanged(("gpu",), ())]
    assert DirectoryView(made).pools() == [RemotePool("lab-2", PSU)]


def test_lines_that_do_not_follow_what_is_known_are_left_for_later() -> None:
    made = serving()
    tell(made, PAGE)
    before = made.state.known.by_id["lab-2"].log.copy()
    tell(made, Page(HEADER, 5, 3, 9, (Line(9, "board", total=1, free=1),)))
    log = made.state.known.by_id["lab-2"].log
    assert (log.news, log.have) == (before.news, 2)


def test_an_older_header_or_life_never_replaces_a_newer_one() -> None:
    made = serving()
    tell(made, PAGE)
    older = msgspec.structs.replace(HEADER, said=2, state="stopped", name="z")
    earlier = msgspec.structs.replace(HEADER, incarnation=6, said=99, name="z")
    before = made.key()
    assert tell(made, Page(older, 4, 0, 0), Page(earlier, 100, 0, 50)) == []
    assert made.key() == before


def test_pools_of_an_earlier_start_stand_in_until_all_of_the_new_ones_are_known() -> None:
    made = serving()
    tell(made, PAGE)
    again = msgspec.structs.replace(HEADER, incarnation=8, said=1, epoch=3, instance="y")
    first = Page(again, 1, 0, 1, (Line(1, "board", total=1, free=1),), more=True)
    effects = made.handle(Received(PEER, Tell((first,))))
    assert changes(effects) == [NeighboursChanged(("board", "gpu", "psu"), ("lab-2",))]
    assert messages(effects) == [Difference(wanted=(Row("lab-2", 0, 8, 1, 1, 1),))]
    view = DirectoryView(made)
    assert [one.news.name for one in view.pools()] == ["board", "gpu", "psu"]
    assert not view.is_complete
    rest = Page(again, 1, 1, 2, (Line(2, "gpu", total=4, free=4),))
    assert changes(made.handle(Received(PEER, Tell((rest,))))) == [NeighboursChanged(("psu",), ())]
    assert [one.news.name for one in view.pools()] == ["board", "gpu"]
    assert view.is_complete


def test_a_restart_without_pools_leaves_none() -> None:
    made = serving()
    tell(made, PAGE)
    again = msgspec.structs.replace(HEADER, incarnation=8, said=1, initial=0)
    tell(made, Page(again, 1))
    assert DirectoryView(made).pools() == []
    assert made.state.known.by_pool_name == {}
    assert made.state.known.lines == 0


def test_a_page_that_brings_nothing_is_not_asked_to_go_on() -> None:
    made = serving()
    tell(made, PAGE)
    assert tell(made, msgspec.structs.replace(PAGE, more=True)) == []


def test_a_node_that_others_have_not_heard_for_long_comes_as_silent() -> None:
    made = serving()
    tell(made, msgspec.structs.replace(PAGE, quiet_ms=3_600_000))
    neighbour = DirectoryView(made).node("lab-2")
    assert neighbour is not None
    assert (neighbour.state, neighbour.silent_ms) == ("silent", 3_600_000)
    assert [one.news.name for one in DirectoryView(made).pools()] == ["gpu", "psu"]


# Exchanges


def test_a_summary_from_who_knows_nothing_is_answered_with_everything() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    answer = messages(
        made.handle(Received(Address("lab-3", DIRECTORY), Summary(()))), Address("lab-3", DIRECTORY)
    )
    assert [type(message) for message in answer] == [Tell, Difference]
    assert isinstance(answer[0], Tell)
    own, other = answer[0].pages
    assert own.header == Header("lab-1", "a", "i", 4, 1, epoch=1, since_ms=5, initial=1)
    assert (own.lines, own.upto, own.more) == ((GPU_LINE,), 1, False)
    assert other == PAGE
    assert answer[1] == Difference()


def test_a_summary_of_the_same_is_answered_with_beats_only() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    mine = own_row(made)
    peer = Row("lab-2", 0, 7, 9, 3, 2)
    answer = messages(made.handle(Received(PEER, Summary((peer, msgspec.structs.replace(mine, beat=0))))))
    assert answer == [Difference(newer=(mine,))]
    assert made.state.known.by_id["lab-2"].beat == 9


def test_what_the_asker_knows_better_is_asked_for_from_where_this_ends() -> None:
    made = serving()
    tell(made, PAGE)
    rows = (own_row(made), Row("lab-2", 0, 7, 9, 3, 5), Row("lab-3", 0, 1, 1, 1, 1))
    answer = messages(made.handle(Received(PEER, Summary(rows))))
    assert answer == [Difference(wanted=(Row("lab-2", 0, 7, 5, 3, 2), Row("lab-3")))]


def test_what_is_wanted_is_told_from_there_on() -> None:
    made = serving(GPU, PSU)
    tell(made, PAGE)
    mine = own_row(made)
    wanted = msgspec.structs.replace(mine, have=1)
    (answer,) = messages(made.handle(Received(PEER, Difference(wanted=(wanted, Row("lab-9"))))))
    assert isinstance(answer, Tell)
    ((page),) = answer.pages
    assert (page.header.node, page.after, page.upto, page.lines) == ("lab-1", 1, 2, (PSU_LINE,))


def test_own_pools_are_read_once_a_round_and_only_those_that_were_touched() -> None:
    pools = Pools(*(PoolNews(f"p{number}", f"p{number}", total=1, free=1) for number in range(1000)))
    settings = DirectorySettings(node="lab-1", name="a", instance="i")
    made = Directory(settings, pools)
    made.start()
    assert pools.reads == 0
    tell(made, PAGE)
    round_of(made)
    assert pools.reads == 1000
    for number in range(500):
        pools.set(PoolNews("p7", "p7", total=1, free=number % 2))
    pools.touched.add("p8")
    assert pools.reads == 1000
    round_of(made)
    assert pools.reads == 1002
    assert own_row(made).have == 1000  # free again, as it was: nothing to tell
    pools.set(PoolNews("p7", "p7", total=1, free=0))
    pools.remove("p9")
    round_of(made)
    assert own_row(made).have == 1002
    assert made.state.own.log.page(1000, 99999)[1] == (
        Line(1001, "p7", total=1),
        Line(1002, "", gone=True, pool="p9"),
    )


def test_draining_is_told_at_once() -> None:
    pools = Pools(GPU)
    made = Directory(DirectorySettings(node="lab-1", name="a", instance="i"), pools)
    made.start()
    tell(made, PAGE)
    round_of(made)
    pools.state = "draining"
    told, summary = round_of(made)
    assert isinstance(told, Tell)
    assert told.pages[0].header.state == "draining"
    assert isinstance(summary, Summary)


def test_a_silent_node_is_asked_every_fourth_round_and_counts_as_silent_after_enough_of_them() -> None:
    made = serving()
    tell(made, PAGE)
    other = Address("lab-3", DIRECTORY)
    tell(made, Page(msgspec.structs.replace(HEADER, node="lab-3", name="c"), 3), peer=other)
    asked: list[str] = []
    silent_at = 0
    for number in range(1, 30):
        tell(made, Page(msgspec.structs.replace(HEADER, node="lab-3", name="c"), number + 3), peer=other)
        effects = made.handle(TimerFired("round"))
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Summary):
                asked.append(effect.to.node)
            if isinstance(effect, Send) and isinstance(effect.message, NeighboursChanged) and not silent_at:
                assert effect.message == NeighboursChanged(("gpu", "psu"), ("lab-2",))
                silent_at = number
    assert silent_at == 9
    assert asked[silent_at:] == (["lab-3", "lab-3", "lab-2", "lab-3"] * 9)[: 29 - silent_at]


# What others tell of this node


def test_a_node_contradicts_what_it_has_not_said_and_all_take_its_word() -> None:
    made = serving(GPU)
    witness = serving(node="lab-3", name="c")
    witness_address = Address("lab-3", DIRECTORY)
    lie = Header("lab-1", "a", "evil", 1 << 50, 1 << 40, state="stopped", initial=0)
    tell(witness, Page(lie, 1 << 40, 0, 9, (Line(9, "gold", total=9, free=9),)))
    tell(made, PAGE)
    (answer,) = messages(
        made.handle(Received(witness_address, Summary(tuple(witness.state.rows())))), witness_address
    )[:1]
    assert isinstance(answer, Tell)
    witness.handle(Received(Address("lab-1", DIRECTORY), answer))
    neighbour = DirectoryView(witness).node("lab-1")
    assert neighbour is not None
    assert (neighbour.state, neighbour.incarnation) == ("serving", 4)
    assert [one.news for one in DirectoryView(witness).pools() if one.node == "lab-1"] == [GPU]
    assert made.state.own.rebuttal == 1


def test_a_restarted_node_contradicts_as_often_as_before_at_least() -> None:
    made = Directory(DirectorySettings(node="lab-1", name="a", instance="i"), Pools(GPU), incarnation=9)
    made.start()
    tell(made, PAGE)
    made.handle(Received(PEER, Difference(newer=(Row("lab-1", 3, 8, 5, 5, 1),))))
    assert made.state.own.life == (4, 9)
    row = own_row(made)
    assert (row.rebuttal, row.have) == (4, 1)


def test_rows_of_the_own_past_are_no_contradiction() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    made.handle(Received(PEER, Summary((Row("lab-1", 0, 3, 99, 99, 99),))))
    assert made.state.own.rebuttal == 0
