"""Traces of linked hosts: they replay exactly, refusals included, and are shown message by message."""

from pathlib import Path

import pytest
from machine.linked import Talker, Word, saying

from holdall.lab.show import run_show
from holdall.machine.codec import CODEC
from holdall.machine.contract import Address, Boot, ProtocolViolation, Received
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link import LINK, Link
from holdall.machine.link_frames import LinkEnd, LinkFrame, LinkOpen, Parcel
from holdall.machine.trace import Header, Step, Trace, read, replay, write_header, write_step


def build(name: str) -> Host:
    return Host(name, {"claimant": Talker(), "manager": Talker()}, Link(name))


class Recorder:
    """Two hosts; every turn is a step."""

    def __init__(self, *, is_started: bool = False) -> None:
        """`is_started`: a start that does nothing is left out."""
        self.hosts = {name: build(name) for name in "ab"}
        self.steps: list[Step] = []
        self.refused: list[str] = []
        for name, host in self.hosts.items():
            turn = host.start()
            if not is_started:
                self.note(Step(kind="start", n=0, host=name, turn=turn))

    def note(self, step: Step) -> Turn:
        step.n = len(self.steps) + 1
        self.steps.append(step)
        return step.turn

    def turn(self, name: str, *arrivals: Arrival) -> Turn:
        refused: list[Arrival] = []

        def told(arrival: Arrival, error: ProtocolViolation) -> None:
            refused.append(arrival)
            self.refused.append(str(error))

        turn = self.hosts[name].turn(arrivals, told)
        return self.note(Step(n=0, host=name, arrivals=arrivals, turn=turn))

    def deliver(self, sender: str, turn: Turn) -> list[tuple[str, Turn]]:
        return [
            (to.node, self.turn(to.node, Arrival(LINK, Received(Address(sender, LINK), message))))
            for _, to, message in turn.sends
        ]

    def restart(self, name: str, incarnation: int) -> Turn:
        self.note(Step(kind="crash", n=0, host=name, turn=Turn({}, {}, [])))
        boot = Boot("same", 1, incarnation)
        self.hosts[name] = build(name)
        return self.note(
            Step(kind="recover", n=0, host=name, boot=boot, turn=self.hosts[name].recover({}, boot))
        )


def conversation() -> Recorder:
    """Getting to know each other, a turn with two messages, a bad parcel, a restart of one side."""
    run = Recorder()
    ((_, answered),) = run.deliver("a", run.turn("a", saying("a", "b", "x", "echo")))
    ((_, framed),) = run.deliver("b", answered)
    ((_, echoed),) = run.deliver("a", framed)
    run.deliver("b", echoed)
    good = Parcel("claimant", "claimant", CODEC.encode(Word("good")))
    bad = Parcel("claimant", "node", CODEC.encode(Word("bad")))
    mixed = LinkFrame(LinkEnd(1), LinkEnd(1), 2, 1, (good, bad))
    run.turn("b", Arrival(LINK, Received(Address("a", LINK), mixed)))
    run.turn("b", Arrival(LINK, Received(Address("a", LINK), mixed)))
    run.restart("a", 2)
    ((_, again),) = run.deliver("a", run.turn("a", saying("a", "b", "anew")))
    run.deliver("b", again)
    return run


def late_opening() -> Recorder:
    """The conversation of the link's page: an opening comes twice, the second time to a new process."""
    run = Recorder(is_started=True)
    opening = run.turn("a", saying("a", "b", "x", "echo"))
    ((_, answered),) = run.deliver("a", opening)
    ((_, framed),) = run.deliver("b", answered)
    ((_, echoed),) = run.deliver("a", framed)
    run.deliver("b", echoed)
    run.restart("b", 2)
    ((_, again),) = run.deliver("a", opening)
    ((_, known),) = run.deliver("b", again)
    run.deliver("a", known)
    return run


def written(run: Recorder) -> bytes:
    return write_header(Header(driver="test")) + b"".join(write_step(step) for step in run.steps)


def test_a_trace_of_linked_hosts_replays_with_what_was_refused_in_frames() -> None:
    run = conversation()
    assert run.refused == ["1 of 2 parcels; the first: 'claimant' of another node may not speak to 'node'"]
    trace = read(written(run).splitlines())
    assert trace == Trace(trace.header, run.steps)
    assert replay(trace.steps, build) is None


def test_a_link_that_would_do_otherwise_is_found_at_its_first_other_turn() -> None:
    def other(name: str) -> Host:
        return Host(name, {"claimant": Talker(), "manager": Talker()}, Link(name, incarnation=3))

    difference = replay(conversation().steps, other)
    assert difference is not None
    assert (difference.n, difference.host) == (3, "a")
    assert any('"mine":[3,0,0]' in line for line in difference.got)


def test_shown_are_the_messages_in_frames(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.jsonl"
    file.write_bytes(written(conversation()))
    assert run_show(file) == 0
    texts = [line[14 + 30 :].strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [text for text in texts if text and "←" not in text] == [
        "open 1 to anybody",
        "open 1 to 1",
        "[1] Word text=x",
        "[1] Word text=echo",
        "[1] Word text=echoed, ack 1",
        "[2] Word text=good",
        "[2] Word text=bad, ack 1",
        "[2] again, ack 1",
        "same, epoch 1",
        "open 2 to anybody",
        "open 1 to 2",
        "[1] Word text=anew",
    ]


def test_a_frame_that_never_arrives_is_shown_where_it_was_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Recorder()
    ((_, answered),) = run.deliver("a", run.turn("a", saying("a", "b", "x", "y")))
    run.deliver("b", answered)
    file = tmp_path / "lost.jsonl"
    file.write_bytes(written(run))
    assert run_show(file, as_json=True) == 0
    assert '"kind":"lost","host":"a","text":"[1] Word text=x","other":"b"' in capsys.readouterr().out


def test_parcels_that_nobody_can_read_are_shown_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Recorder()
    run.turn("b", Arrival(LINK, Received(Address("a", LINK), LinkOpen(LinkEnd(1), LinkEnd(1)))))
    rubbish = LinkFrame(LinkEnd(1), LinkEnd(1), 1, 0, (Parcel("claimant", "manager", b"\xc1\xc1"),))
    run.turn("b", Arrival(LINK, Received(Address("a", LINK), rubbish)))
    file = tmp_path / "rubbish.jsonl"
    file.write_bytes(written(run))
    assert run_show(file) == 0
    assert "[1] 2 bytes for manager that nobody can read" in capsys.readouterr().out
    assert replay(read(file.read_bytes().splitlines()).steps, build) is None


def test_the_page_of_the_link_shows_a_trace_as_it_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "late.jsonl"
    file.write_bytes(written(late_opening()))
    assert run_show(file) == 0
    page = (Path(__file__).parents[2] / "docs" / "internals" / "link.md").read_text(encoding="utf-8")
    assert page.partition("```text\n")[2].partition("```")[0] == capsys.readouterr().out
