"""The bandwidth experiment's parts: what arithmetic says, the course of shares, one short real run, the report."""

import asyncio
import json
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from holdall.lab.bandwidth import command
from holdall.lab.bandwidth.agents import Broken, Sender
from holdall.lab.bandwidth.command import Asked, run_bandwidth
from holdall.lab.bandwidth.expected import SENDERS, grants, means_ms, together_ms
from holdall.lab.bandwidth.found import Agent, Bandwidth, Granted, Link, agents_of, changes_of, link_of
from holdall.lab.bandwidth.plots import plot
from holdall.lab.bandwidth.runs import Run
from holdall.lab.bandwidth.table import print_found
from holdall.lab.bandwidth.timeline import course
from holdall.leases.divisions import Rule
from holdall.node.gate.gate import Change
from holdall.node.gate.messages import Refused, Released, packed
from holdall.node.gate.process import Done


def test_without_leases_all_wait_for_one_message_of_each() -> None:
    assert set(together_ms(SENDERS, None).values()) == {Fraction(1_250)}
    assert set(means_ms(SENDERS, None, messages=100).values()) == {Fraction(1_250)}


@pytest.mark.parametrize(
    ("rule", "rates", "times"),
    [
        ("fair", [10_000, 25_000, 32_500, 32_500], [1000, 1000, 1231, 1538]),
        ("proportional", [8_000, 20_000, 32_000, 40_000], [1250, 1250, 1250, 1250]),
        ("smallest-first", [10_000, 25_000, 40_000, 25_000], [1000, 1000, 1000, 2000]),
        ("equal", [10_000, 25_000, 25_000, 25_000], [1000, 1000, 1600, 2000]),
        ("none", [10_000, 25_000, 40_000, 25_000], [1000, 1000, 1000, 2000]),
    ],
)
def test_while_all_are_there_a_message_takes_payload_over_grant(
    rule: Rule, rates: list[int], times: list[int]
) -> None:
    assert list(grants(SENDERS, rule).values()) == rates
    assert [round(time_ms) for time_ms in together_ms(SENDERS, rule).values()] == times


def test_who_is_done_leaves_and_the_others_get_faster() -> None:
    means = means_ms(SENDERS, "fair", messages=100)
    assert list(means.values()) == [1000, 1000, Fraction(2375, 2), 1350]


def test_one_who_is_granted_nothing_waits_until_others_have_left() -> None:
    means = means_ms({"a": 60_000, "b": 70_000}, "smallest-first", messages=10, capacity=60_000)
    # 10 s with nothing, then 700,000 bytes at 60,000 a second.
    assert means == {"a": 1_000, "b": Fraction(1_000 + Fraction(7_000, 6))}


def test_shares_follow_agents_that_come_and_go() -> None:
    levels = [(level.at_ms, tuple(level.granted.values())) for level in course("fair")]
    changes = [now for before, now in zip([(-1, ()), *levels], levels, strict=False) if before[1] != now[1]]
    assert changes == [
        (0, (10_000, 25_000, 40_000, 25_000)),
        (2_000, (10_000, 25_000, 32_500, 32_500)),
        (7_000, (32_500, 32_500)),
        (8_000, (40_000, 50_000)),
        (9_500, (40_000, 50_000, 10_000)),
        (10_000, (33_334, 33_333, 10_000)),
        (11_500, (33_334, 33_333, 33_333)),
    ]


@pytest.mark.parametrize("rule", ["none", "proportional", "smallest-first", "equal"])
def test_by_no_rule_more_is_granted_than_there_is(rule: Rule) -> None:
    assert all(sum(level.granted.values()) <= 100_000 for level in course(rule))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "a: the gate is gone"),
        (packed(Released()), "a: an answer to something else"),
        (packed(Refused("cut", broken=True)), "a: cut"),
    ],
)
def test_a_gate_that_breaks_off_is_an_error_and_no_result(answer: bytes, says: str) -> None:
    async def story() -> None:
        async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readexactly(4)
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(answers, "127.0.0.1") as server:
            sender = Sender("a", 10, amount=10, lease_ms=None, at=server.sockets[0].getsockname()[:2])
            await sender.begin()
            with pytest.raises(Broken, match=says):
                await asyncio.wait_for(sender.send(2), 10)
            await sender.abandon()

    asyncio.run(story())


def done(**changed: object) -> Done:
    values: dict[str, object] = {
        "capacity": 500_000, "depth": 25_000, "sent": 1_000_000, "busiest_1s": 510_000, "denied": {"a10": 3},
        "changes": [Change(10, "a10", 50_000), Change(700, "a10", 0)],
    }  # fmt: skip
    return Done(**(values | changed))  # type: ignore[arg-type]


def runs() -> list[Run]:
    slow = {agent: [1_000.0 + payload / 100] * 3 for agent, payload in SENDERS.items()}
    fast = {agent: [900.0, 1_000.0, 1_100.0] for agent in SENDERS}
    return [Run(slow, done()), Run(fast, done(busiest_1s=520_000))]


def found(rule: Rule = "fair") -> Bandwidth:
    return Bandwidth(
        version="1", rule=rule, speed=5, reps=2, messages=100, without=agents_of(runs(), None, messages=100),
        with_=agents_of(runs(), rule, messages=100), grants=grants(SENDERS, rule), link_without=link_of(runs()),
        link_with=link_of(runs()), changes=changes_of(runs()[0], 5), seconds=1.0,
    )  # fmt: skip


def test_means_and_deviations_are_those_of_the_repetitions() -> None:
    (first, *_) = agents_of(runs(), "fair", messages=100)
    assert first == Agent(
        agent="a10", payload=10_000, mean_ms=1_050.0, sd_ms=70.7, message_sd_ms=50.0, expected_ms=1_000.0, denied=3.0
    )  # fmt: skip
    assert link_of(runs()) == Link(
        capacity=500_000, depth=25_000, busiest_1s=520_000, allowed_1s=525_000, sent_per_s=277_778.0
    )
    assert changes_of(runs()[0], 5) == [Granted(50, "a10", 10_000), Granted(3_500, "a10", 0)]


def test_the_document_has_the_promised_names() -> None:
    document = json.loads(msgspec.json.encode(found()))
    assert document["v"] == 1
    for series in ("without", "with"):
        assert [one["agent"] for one in document[series]] == [*SENDERS]
        assert {"agent", "payload", "mean_ms", "sd_ms"} <= document[series][0].keys()


def test_the_table_says_what_changed_and_whether_the_link_held(capsys: pytest.CaptureFixture[str]) -> None:
    print_found(found())
    said = capsys.readouterr().out
    assert "Busiest second: 520,000 of at most 525,000 bytes (500,000 B/s x 1 s + depth 25,000): held" in said
    assert "With leases they change by: a10 +0%, a25 +0%, a40 +0%, a50 +0%." in said
    assert "1,187.5" in said


@pytest.mark.parametrize(
    ("name", "begins", "rule"), [("f.png", b"\x89PNG", "fair"), ("f.svg", b"<?xml", "none")]
)
def test_the_figure_is_drawn(tmp_path: Path, name: str, begins: bytes, rule: Rule) -> None:
    plot(found(rule), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (Asked(rule="best"), "--rule is one of fair, none, proportional, smallest-first, equal, not 'best'"),
        (Asked(speed=0), "--speed is 1 to 100"),
        (Asked(speed=101), "--speed is 1 to 100"),
        (Asked(plot="figure.pdf"), "name a file .png or .svg in a folder that exists"),
        (Asked(plot="/nowhere/figure.png"), "name a file .png or .svg in a folder that exists"),
    ],
)
def test_what_can_t_be_read_is_refused_before_anything_runs(
    asked: Asked, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_bandwidth(asked) == command.USAGE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("busiest", "status"), [(525_000, command.DONE), (525_001, command.EXCEEDED)])
def test_a_second_with_too_much_is_no_success(
    busiest: int, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def repeated(*_: object, **__: object) -> Run:
        await asyncio.sleep(0)
        return Run(runs()[0].times_ms, done(busiest_1s=busiest))

    monkeypatch.setattr(command, "repeat", repeated)
    assert run_bandwidth(Asked(reps=1, json=True)) == status
    assert json.loads(capsys.readouterr().out)["link_with"]["busiest_1s"] == busiest
