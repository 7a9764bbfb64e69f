"""What a member that is mistaken or malicious can do: be refused, or tell lies that the directory bounds and repairs."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parties.directory_net import Net, Pools, agree, system
from parties.directory_one import GPU, HEADER, PAGE, PEER, messages, own_row, serving, tell

from holdall.machine.codec import BYTES_MAX, CODEC, CodecError
from holdall.machine.contract import Address, ProtocolViolation, Received, Send
from holdall.machine.link_frames import BODY_MAX
from holdall.parties.directory.machine import Directory
from holdall.parties.directory.messages import (
    DIRECTORY,
    NODE_ID_MAX,
    NODES_MAX,
    NUMBER_MAX,
    TEXT_MAX,
    TOMBSTONES_MAX,
    Difference,
    Header,
    Hello,
    Line,
    NameTaken,
    Page,
    Row,
    Summary,
    Tell,
    Tombstone,
    Tombstones,
    Warned,
)
from holdall.parties.directory.view import DirectoryView
from holdall.parties.neighbours import PoolNews

HUGE = NUMBER_MAX + 1
BAD: list[Any] = [
    Hello("B", "x", 1),
    Hello("b" * 64, "x", 1),
    Hello("b", "x" * 201, 1),
    Hello("b", "x\n", 1),
    Hello("b", "x", -1),
    Hello("b", "x", 1, HUGE),
    NameTaken("i", "lab 2", ""),
    Summary((Row("lab-2"),) * 2),
    Summary(tuple(Row(f"n{number}") for number in range(NODES_MAX + 2))),
    Summary((Row("n" * 33),)),
    Summary((Row("n", 1 << 32),)),
    Summary((Row("n", 0, HUGE),)),
    Summary((Row("n", 0, 1, -1),)),
    Summary((), -1),
    Summary((), 1 << 64),
    Difference(wanted=(Row(""),)),
    Tell((Page(HEADER, 2),)),
    Tell((Page(HEADER, 5, 4, 3),)),
    Tell((Page(HEADER, 5, 0, 1, (Line(2, "gpu", total=1),)),)),
    Tell((Page(HEADER, 5, 1, 2, (Line(1, "gpu", total=1),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(2, "gpu", total=1), Line(2, "gpu", total=1))),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", total=1, free=2),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", total=1_000_001),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", total=1, waiting=-1),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "GPU", total=1),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", (("b", "1"), ("a", "1"))),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", (("a", "1"), ("a", "2"))),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", (("a", "x y"),)),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "gpu", pool="psu"),)),)),
    Tell((Page(HEADER, 5, 0, 2, (Line(1, "", gone=True),)),)),
    Tell((Page(msgspec.structs.replace(HEADER, name="no name"), 5),)),
    Tell((Page(msgspec.structs.replace(HEADER, address="\x1b[2J"), 5),)),
    Tell((Page(msgspec.structs.replace(HEADER, initial=200_001), 5),)),
    Tell((Page(msgspec.structs.replace(HEADER, rebuttal=-1), 5),)),
    Tombstones(tuple(Tombstone(f"n{number}", "n", "a") for number in range(TOMBSTONES_MAX + 1))),
    Tombstones((Tombstone("n", "", "a"),)),
]


@pytest.mark.parametrize("message", BAD, ids=lambda message: type(message).__name__)
def test_what_no_directory_says_is_refused_and_changes_nothing(message: Any) -> None:
    made = serving(GPU)
    tell(made, PAGE)
    before = made.key()
    with pytest.raises(ProtocolViolation):
        made.handle(Received(PEER, message))
    assert made.key() == before


def _ascending(lines: list[Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines, key=lambda line: line.seq))


# Mostly what is allowed, so that much of what is said gets in.
names = st.sampled_from([*(["lab-1", "lab-2", "lab-3", "lab-4", "a", "b"] * 6), "B", "", "x" * 70])
numbers = st.sampled_from([*([0, 1, 2, 3, 4, 5, 7, 9] * 10), -1, HUGE, NUMBER_MAX, 1 << 31])
texts = st.sampled_from([*(["", "x", "i"] * 10), "\n", "y" * 300])
rows = st.builds(Row, names, numbers, numbers, numbers, numbers, numbers)
lines = st.builds(
    Line,
    numbers,
    st.sampled_from(["gpu", "psu", "board"]),
    st.sampled_from([(), (), (("a", "1"),), (("b", "1"), ("a", "1"))]),
    numbers,
    st.sampled_from([0, 0, 0, 1]),
    numbers,
    gone=st.booleans(),
    pool=st.sampled_from(["", "gpu", "psu", "gpu{a=1}"]),
)
headers = st.builds(
    Header,
    names,
    names,
    texts,
    numbers,
    numbers,
    numbers,
    epoch=numbers,
    state=st.sampled_from(["serving", "draining", "stopped", "quarantine"]),
    since_ms=numbers,
    initial=numbers,
)
pages = st.builds(
    Page,
    headers,
    st.sampled_from([9, 9, 1]),
    st.sampled_from([0, 0, 1, 2]),
    st.sampled_from([9, 9, 5, 0]),
    st.lists(lines, max_size=3, unique_by=lambda line: line.seq).map(_ascending),
    st.booleans(),
    numbers,
)
stones = st.builds(Tombstone, names, names, names)
told = st.one_of(
    st.builds(Hello, names, texts, numbers, numbers, texts),
    st.builds(Summary, st.lists(rows, max_size=4).map(tuple), numbers),
    st.builds(Difference, st.lists(rows, max_size=3).map(tuple), st.lists(rows, max_size=3).map(tuple)),
    st.builds(Tell, st.lists(pages, max_size=2).map(tuple)),
    st.builds(Tombstones, st.lists(stones, max_size=2).map(tuple), st.booleans()),
)
senders = st.builds(
    Address, st.sampled_from(["lab-2", "lab-3", "lab-4"]), st.sampled_from([*([DIRECTORY] * 9), "agent"])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(senders, told), max_size=12))
def test_whatever_peers_say_is_taken_or_refused_and_the_own_word_stands(
    said: list[tuple[Address, Any]],
) -> None:
    made = serving(GPU)
    for sender, message in said:
        before = made.key()
        try:
            effects = made.handle(Received(sender, message))
        except ProtocolViolation:
            assert made.key() == before
            continue
        for effect in effects:
            if isinstance(effect, Send) and effect.to.part == DIRECTORY:
                assert len(CODEC.encode(effect.message)) <= BODY_MAX
    own = made.state.own
    assert own.settings.name == "a"
    if own.header is not None and made.state.phase == "serving":
        assert list(own.log.news.values()) == [GPU]
        assert own.header.state == "serving"
    view = DirectoryView(made)
    assert [one.node for one in view.pools()] == sorted(one.node for one in view.pools())
    listed = sum(len(places) for places in made.state.known.by_pool_name.values())
    assert listed == sum(len(known.log.news) for known in made.state.known.by_id.values())
    assert made.state.known.lines == sum(len(known.log.seqs) for known in made.state.known.by_id.values())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400))
def test_bytes_that_nobody_of_ours_wrote_are_refused(noise: bytes, place: int) -> None:
    whole = CODEC.encode(Tell((PAGE,)))
    place %= len(whole)
    try:
        message = CODEC.decode(whole[:place] + noise + whole[place + len(noise) :])
    except CodecError:
        return
    made = serving(GPU)
    before = made.key()
    try:
        made.handle(Received(PEER, message))
    except ProtocolViolation:
        assert made.key() == before


# What fits


def test_the_longest_of_everything_fits_into_a_frame() -> None:
    letters = "é" * TEXT_MAX
    made = serving(GPU, address=letters, location=letters, instance=letters)
    for number in range(NODES_MAX):
        node = f"{number:0>{NODE_ID_MAX}}"
        header = Header(
            node,
            "n" * 63,
            letters,
            NUMBER_MAX,
            NUMBER_MAX,
            1 << 31,
            NUMBER_MAX,
            "draining",
            0,
            NUMBER_MAX,
            letters,
            letters,
        )
        tell(
            made, Page(header, NUMBER_MAX, 0, NUMBER_MAX, quiet_ms=NUMBER_MAX), peer=Address(node, DIRECTORY)
        )
    own_row(made)
    assert len(made.state.known.by_id) == NODES_MAX
    made.state.forgotten_digest = (1 << 64) - 1
    summary = Summary(tuple(made.state.rows()), made.state.forgotten_digest)
    assert len(CODEC.encode(summary)) <= BODY_MAX
    for message in messages(made.handle(Received(PEER, Summary(())))):
        assert len(CODEC.encode(message)) <= BODY_MAX
    stones = tuple(Tombstone(f"{number:0>32}", "n" * 63, "n" * 63) for number in range(TOMBSTONES_MAX))
    assert len(CODEC.encode(Tombstones(stones))) <= BODY_MAX


def test_pools_with_all_the_labels_there_may_be_fit_into_pages() -> None:
    labels = tuple((f"{number:0>63}", "v" * 128) for number in range(32))
    pools = [PoolNews(f"{name:0>63}", f"{name:0>63}", labels, total=1) for name in range(40)]
    made = serving(*pools)
    tell(made, PAGE)
    sent = [
        message
        for message in messages(made.handle(Received(PEER, Difference(wanted=(Row("lab-1"),)))))
        if isinstance(message, Tell)
    ]
    sizes = [len(CODEC.encode(message)) for message in sent]
    assert max(sizes) <= BODY_MAX < BYTES_MAX
    assert len(sizes) == 8  # `tells_max`; more is told when it is asked for


def test_too_many_nodes_are_left_out_and_said_once() -> None:
    made = serving()
    warned = 0
    for number in range(NODES_MAX + 3):
        effects = made.handle(
            Received(PEER, Tell((Page(msgspec.structs.replace(HEADER, node=f"n{number}"), 5),)))
        )
        warned += sum(isinstance(effect, Send) and isinstance(effect.message, Warned) for effect in effects)
    assert len(DirectoryView(made).nodes()) == NODES_MAX
    assert warned == 1


# Lies that are told in proper form


def test_a_lie_about_a_living_node_is_contradicted_everywhere_in_a_few_rounds() -> None:
    net = Net(11)
    sites = system(net, 8, GPU)
    lie = Header("n03", "gold", "z", 1 << 50, 1 << 40, state="stopped", initial=1, since_ms=1)
    page = Page(lie, 1 << 40, 0, 7, (Line(7, "gold", total=99, free=99),))
    for liar in (0, 5):
        for site in sites:
            if site.node not in {"n03", f"n{liar:02}"}:
                net.post(sites[liar], site.node, Tell((page,)))
    net.run(100)
    assert sum(bool(site.view.pools(["gold"])) for site in sites) == 7
    net.rounds_until(lambda: agree(sites), 10)
    assert not any(site.view.pools(["gold"]) for site in sites)
    assert all(site.view.name_of("n03") == "n03" for site in sites)


def test_an_invented_node_falls_silent_and_can_be_forgotten() -> None:
    net = Net(12)
    sites = system(net, 3, GPU)
    ghost = Page(msgspec.structs.replace(HEADER, node="ghost", name="ghost"), 5)
    net.post(sites[1], "n00", Tell((ghost,)))
    net.run(20_000)
    neighbour = sites[2].view.node("ghost")
    assert neighbour is not None
    assert neighbour.state == "silent"


def test_a_newcomer_that_claims_to_have_had_a_name_for_ever_does_not_get_it() -> None:
    made = serving()
    tell(made, PAGE)
    thief = Address("lab-3", DIRECTORY)
    answer = messages(made.handle(Received(thief, Hello("b", "t", 1, since_ms=1))), thief)
    assert answer == [NameTaken("t", "lab-2", "10.0.0.2:1")]


def test_twins_are_equal_and_live_apart() -> None:
    made = serving(GPU)
    tell(made, PAGE)
    own_row(made)
    twin: Directory = made.copy()
    twin.see(Pools(GPU))
    assert twin.key() == made.key()
    before = made.key()
    tell(twin, Page(HEADER, 9, 2, 3, (Line(3, "gpu", total=4, free=0),)))
    twin.handle(Received(Address("lab-3", DIRECTORY), Hello("c", "x", 1)))
    assert twin.key() != before
    assert made.key() == before
