"""Each counter-example of the printed algorithms once more in the simulator: its order of messages as their delays."""

import json
from pathlib import Path

import pytest
from literal.found import Wrong, space_of
from literal.test_game import GAME
from literal.test_game import WRONG as GAME_WRONG
from literal.test_lanes import LANES
from literal.test_lanes import WRONG as LANES_WRONG
from literal.test_strong_weak import STRONG_WEAK
from literal.test_strong_weak import WRONG as STRONG_WEAK_WRONG

from holdall.explorer.guided import replay
from holdall.explorer.search import explore
from holdall.explorer.systems import PROTOCOLS
from holdall.explorer.trace import lines_of, steps_of
from holdall.lab.replay import run_replay
from holdall.machine.codec import CODEC
from holdall.machine.trace import Step
from holdall.simulator.scripted import BadScript, Scripted, ScriptedRun
from holdall.world.literal.scripts import read_script

SCRIPTS = [
    (name, world) for name, entry in PROTOCOLS.items() for world, row in entry.literal.items() if row.script
]
LONG_FROM = 12
"""Steps; what is farther is searched for anew in the night only."""
FOUND = [
    pytest.param(name, one, id=f"{name}-{one}", marks=[pytest.mark.long] if one.steps > LONG_FROM else [])
    for name, table in ((GAME, GAME_WRONG), (LANES, LANES_WRONG), (STRONG_WEAK, STRONG_WEAK_WRONG))
    for one in table
    if not one.long and not PROTOCOLS[name].literal[one.world].script
]


def written(protocol: str, world: str) -> list[Step]:
    """The turns of the row's script."""
    space = space_of(protocol, world)
    (violation,) = replay(space, read_script(PROTOCOLS[protocol].literal[world].script)).violations
    return steps_of(space, violation.moves)


def simulated(protocol: str, world: str, steps: list[Step]) -> Scripted:
    entry = PROTOCOLS[protocol]
    return ScriptedRun(entry.make(entry.worlds(None)[world]), steps).run()


def as_property(run: Scripted) -> str:
    return run.wrong.partition(": ")[0]


@pytest.mark.parametrize(("protocol", "world"), SCRIPTS)
def test_a_script_is_a_run_in_virtual_time(protocol: str, world: str) -> None:
    script = read_script(PROTOCOLS[protocol].literal[world].script)
    run = simulated(protocol, world, written(protocol, world))
    assert (as_property(run), run.steps) == (script.ends_in, len(script.lines))
    assert run.ended_at == run.steps
    assert run.delivered == sum(line.kind == "deliver" for line in script.lines)


@pytest.mark.parametrize(("protocol", "one"), FOUND)
def test_what_the_search_finds_is_a_run_in_virtual_time(protocol: str, one: Wrong) -> None:
    space = space_of(protocol, one.world)
    (violation,) = explore(space).violations
    run = simulated(protocol, one.world, steps_of(space, violation.moves))
    assert (as_property(run), run.steps) == (one.property, one.steps)


def test_l12_needs_messages_that_overtake_others() -> None:
    run = simulated(STRONG_WEAK, "L12", written(STRONG_WEAK, "L12"))
    assert (as_property(run), run.slowest, run.overtaken) == ("exclusion", 16.0, 10)


def test_without_its_last_step_nothing_is_wrong() -> None:
    run = simulated(STRONG_WEAK, "L12", written(STRONG_WEAK, "L12")[:-1])
    assert run.wrong == ""


def test_a_script_whose_client_acts_twice_is_refused() -> None:
    steps = written(STRONG_WEAK, "L7")
    acts = [step for step in steps if step.kind == "turn" and step.arrivals[0].part == "claimant"]
    with pytest.raises(BadScript, match="no client on c1 would do this now: Acquire"):
        simulated(STRONG_WEAK, "L7", [*steps, acts[0]])


def test_a_message_that_nobody_sends_is_missed() -> None:
    steps = written(STRONG_WEAK, "L7")
    arrivals = [step for step in steps if step.kind == "turn" and step.arrivals[0].part == "manager"]
    with pytest.raises(BadScript, match="1 messages of the trace were never sent"):
        simulated(STRONG_WEAK, "L7", [*steps, arrivals[-1]])


def test_lab_replay_runs_a_trace_in_the_simulator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = space_of(STRONG_WEAK, "L7")
    (violation,) = replay(space, read_script(PROTOCOLS[STRONG_WEAK].literal["L7"].script)).violations
    trace = tmp_path / "L7.trace"
    lines = lines_of(space, violation, STRONG_WEAK, codec=CODEC)
    trace.write_bytes(b"".join(lines))
    assert run_replay(trace, simulated=True) == 0
    assert "25 turns in 25 mean message delays" in capsys.readouterr().out
    assert run_replay(trace, simulated=True, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["same"], found["expected"], found["run"]["steps"]) == (True, "deadlock", 25)
    trace.write_bytes(b"".join(lines[:-1]))
    assert run_replay(trace, simulated=True) == 1
    assert "The trace shows deadlock." in capsys.readouterr().out
    trace.write_bytes(lines[0].replace(b'"explorer"', b'"node"', 1))
    assert run_replay(trace, simulated=True) == 64
    assert "only the explorer's traces are scripts" in capsys.readouterr().err
