from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Self, TypeAlias

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.machine.codec import CODEC, Codec
from holdall.machine.contract import (
    Address,
    Boot,
    CancelTimer,
    Effect,
    Event,
    Forget,
    ProtocolViolation,
    Received,
    Record,
    Save,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.trace import BadTrace, Header, Step, Trace, read, replay, write_header, write_step


class Count(msgspec.Struct, frozen=True, tag="count"):
    """Add to the counter; answered by Total."""

    by: int


class Total(msgspec.Struct, frozen=True, tag="total"):
    value: int


class Kept(msgspec.Struct, frozen=True, tag="kept"):
    value: int


COUNTER = Codec()
COUNTER.register("counter", Count | Total)
COUNTER.register("counter record", Kept)
ASKER = Address("c1", "asker")


class Counter:
    """Counts, keeps the sum, and reminds itself."""

    def __init__(self, factor: int = 1) -> None:
        self.factor = factor
        self.total = 0

    def start(self) -> Sequence[Effect]:
        return [SetTimer("tick", 1000, 50)]

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        kept = records.get("sum", Kept(0))
        assert isinstance(kept, Kept)
        self.total = kept.value
        return [SetTimer("tick", 500)]

    def handle(self, event: Event) -> Sequence[Effect]:
        match event:
            case Received(sender, Count(by)):
                if by > 1000:
                    raise ProtocolViolation("nobody counts that far")
                self.total += by * self.factor
                return [Save("sum", Kept(self.total)), Send(sender, Total(self.total))]
            case _:
                return [Forget("sum"), CancelTimer("tick")]

    def key(self) -> Hashable:
        return self.total

    def copy(self) -> Self:
        raise NotImplementedError


def build(name: str) -> Host:
    return Host(name, {"counter": Counter()})


def count(by: int) -> tuple[Arrival, ...]:
    return (Arrival("counter", Received(ASKER, Count(by))),)


def recorded() -> list[Step]:
    """A host that counts, is told the time, dies, and comes up with what it had saved."""
    host = build("n1")
    steps = [Step(kind="start", n=1, at_ms=0, host="n1", turn=host.start())]
    for n, arrivals in enumerate([count(2), count(3), (host.fire("counter!tick"),), count(4)], start=2):
        steps.append(Step(n=n, at_ms=n * 10, host="n1", arrivals=arrivals, turn=host.turn(arrivals)))
    steps.append(Step(kind="crash", n=6, host="n1", turn=Turn({}, {}, [])))
    boot = Boot("same", 1, 2)
    host = build("n1")
    turn = host.recover({"counter!sum": Kept(9)}, boot)
    steps.append(Step(kind="recover", n=7, host="n1", boot=boot, turn=turn))
    steps.append(Step(n=8, host="n1", arrivals=count(1), turn=host.turn(count(1))))
    return steps


def written(steps: list[Step]) -> list[bytes]:
    header = Header(driver="test", holdall="0.1", node="n1", seed=5, world={"hosts": ["n1"]}, note="sums")
    lines = [write_header(header, codec=COUNTER)] + [write_step(step, codec=COUNTER) for step in steps]
    assert all(line.endswith(b"\n") and line.count(b"\n") == 1 for line in lines)
    return lines


def test_a_trace_is_read_as_it_was_written() -> None:
    steps = recorded()
    trace = read(written(steps), codec=COUNTER)
    assert trace.header == Header(
        driver="test",
        holdall="0.1",
        node="n1",
        seed=5,
        world={"hosts": ["n1"]},
        note="sums",
        families={"counter": 1, "counter record": 1},
    )
    assert trace.steps == steps


def test_a_turn_is_one_readable_line() -> None:
    line = write_step(recorded()[2], codec=COUNTER)
    assert msgspec.json.decode(line) == {
        "type": "step",
        "n": 3,
        "host": "n1",
        "at_ms": 30,
        "arrivals": [
            {"part": "counter", "sender": "c1/asker", "message": {"counter": {"type": "count", "by": 3}}}
        ],
        "saves": {"counter!sum": {"counter record": {"type": "kept", "value": 5}}},
        "sends": [{"sender": "n1/counter", "to": "c1/asker", "message": {"counter": {"type": "total", "value": 5}}}],
    }  # fmt: skip


def test_the_same_machines_answer_the_same() -> None:
    assert replay(read(written(recorded()), codec=COUNTER).steps, build, codec=COUNTER) is None


def test_the_first_turn_that_differs_is_named_with_both_answers() -> None:
    steps = recorded()
    difference = replay(steps, lambda name: Host(name, {"counter": Counter(factor=2)}), codec=COUNTER)
    assert difference is not None
    assert (difference.n, difference.host) == (2, "n1")
    assert difference.text().splitlines() == [
        "turn 2 on n1 differs (- trace, + now):",
        '  - {"save":"counter!sum","record":{"counter record":{"type":"kept","value":2}}}',
        '  - {"send":"c1/asker","from":"n1/counter","message":{"counter":{"type":"total","value":2}}}',
        '  + {"save":"counter!sum","record":{"counter record":{"type":"kept","value":4}}}',
        '  + {"send":"c1/asker","from":"n1/counter","message":{"counter":{"type":"total","value":4}}}',
    ]


def test_timers_count_as_answers() -> None:
    class Late(Counter):
        def start(self) -> Sequence[Effect]:
            return [SetTimer("tick", 1001, 50)]

    difference = replay(recorded(), lambda name: Host(name, {"counter": Late()}), codec=COUNTER)
    assert difference is not None
    assert difference.n == 1
    assert difference.got == ('{"timer":"counter!tick","after_ms":1001,"spread_ms":50}',)


def test_a_host_comes_up_with_the_records_of_the_trace_and_without_them_when_it_lost_them() -> None:
    steps = recorded()
    assert steps[-1].turn.sends[0][2] == Total(10)
    lost = [*steps[:-2], msgspec.structs.replace(steps[-2], kept=False), steps[-1]]
    difference = replay(lost, build, codec=COUNTER)
    assert difference is not None
    assert difference.n == 8
    assert any('"value":1}' in text for text in difference.got)


def test_a_message_that_is_refused_has_no_effects() -> None:
    step = Step(n=2, host="n1", arrivals=count(2000), turn=Turn({}, {}, []))
    assert replay([step], build, codec=COUNTER) is None
    step.turn.saves["counter!sum"] = Kept(2000)
    difference = replay([step], build, codec=COUNTER)
    assert difference is not None
    assert difference.got == ("refused: nobody counts that far",)


def test_records_from_before_the_trace() -> None:
    boot = Boot("same", 1, 2)
    host = build("n1")
    kept = {"counter!sum": Kept(7)}
    steps = [Step(kind="recover", n=1, host="n1", boot=boot, turn=host.recover(kept, boot))]
    steps.append(Step(n=2, host="n1", arrivals=count(1), turn=host.turn(count(1))))
    assert steps[-1].turn.sends[0][2] == Total(8)
    assert replay(steps, build, records={"n1": kept}, codec=COUNTER) is None
    assert replay(steps, build, codec=COUNTER) is not None


Change: TypeAlias = Callable[[list[bytes]], list[bytes]]
NO_TRACES: list[tuple[Change, str]] = [
    (lambda _: [], "empty"),
    (lambda lines: lines[1:], "line 1: the first line of a trace is its header"),
    (lambda lines: [*lines, lines[0]], "line 10: .*header"),
    (lambda lines: [lines[0].replace(b'"v":1', b'"v":2'), *lines[1:]], "trace version 2"),
    (
        lambda lines: [lines[0].replace(b'"counter":1', b'"counter":7'), *lines[1:]],
        "version 7 of 'counter'; this release knows 1",
    ),
    (lambda lines: [*lines[:3], lines[3][:-20]], "line 4"),
    (lambda lines: [lines[0], lines[3].replace(b"count", b"bount")], "line 2: unknown family"),
    (lambda lines: [lines[0], b'{"type":"step","n":1,"host":"n1","arrivals":[{"part":"x"}]}'], "or a timer"),
    (lambda lines: [lines[0], b'{"type":"step","n":"one","host":"n1"}'], "Expected `int`"),
    (lambda _: [b"\xff\xfe"], "line 1"),
]


@pytest.mark.parametrize(("change", "text"), NO_TRACES)
def test_a_file_that_is_no_trace_is_refused_with_its_line(change: Change, text: str) -> None:
    with pytest.raises(BadTrace, match=text):
        read(change(written(recorded())), codec=COUNTER)


@given(st.data())
def test_lines_with_any_change_are_a_trace_or_a_bad_trace(data: st.DataObject) -> None:
    lines = written(recorded())
    place = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[place])
    at = data.draw(st.integers(0, len(line) - 1))
    line[at] = data.draw(st.integers(0, 255))
    try:
        trace = read([*lines[:place], bytes(line), *lines[place + 1 :]], codec=COUNTER)
    except BadTrace:
        return
    assert isinstance(trace, Trace)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_as_a_trace(data: bytes) -> None:
    with pytest.raises(BadTrace):
        read(data.splitlines(keepends=True), codec=CODEC)


def test_a_timer_of_a_part_whose_name_it_carries() -> None:
    step = Step(n=1, host="n1", arrivals=(Arrival("counter", TimerFired("tick")),), turn=Turn({}, {}, []))
    assert read(written([step]), codec=COUNTER).steps == [step]
