"""A guided script replayed over the moves of a closed world: each line must be exactly one possible move."""

from collections.abc import Hashable

import msgspec

from holdall.explorer.moves import Move, State
from holdall.explorer.search import Result, Violation
from holdall.explorer.space import Space
from holdall.world.literal.scripts import Line, Recurring, Script
from holdall.world.plan import BadWorld

LIVELOCK = "livelock"


def replay(space: Space, script: Script) -> Result:
    """The violation that the script leads to. Raises BadWorld where the machines do not follow it.

    Nothing may be wrong before the last move. A script with a cycle must come back to where the cycle began, and
    deliver in it all that was in flight there: then it is a fair run in which nobody is ever served.
    """
    state = space.first()
    states = [state]
    moves: list[Move] = []
    text = ""
    for line in script.lines:
        if text:
            raise BadWorld(f"script, line {line.number}: already violated before it: {text}")
        found = [step for step in space.steps(state) if _fits(space, step.move, line)]
        if len(found) != 1:
            raise BadWorld(f"script, line {line.number}: {len(found)} moves fit {_words(line)!r}")
        moves.append(found[0].move)
        state = found[0].state
        states.append(state)
        text = found[0].wrong or space.wrong(state)
    again = 0
    if script.again is not None:
        again = len(moves) - script.again
        text = _goes_on(space, states[script.again], state, moves[script.again :])
    text = text or _stuck(space, state)
    name, _, said = text.partition(": ")
    if name != script.ends_in:
        raise BadWorld(f"the script ends in {text or 'nothing wrong'!r}, not in {script.ends_in!r}")
    violation = Violation(name, said, tuple(moves), again=again)
    return Result(len(moves) + 1, len(moves), complete=False, violations=(violation,))


def _goes_on(space: Space, before: State, after: State, cycle: list[Move]) -> str:
    """Whether a cycle leads back, is fair, and serves nobody."""
    if _relative(space, before) != _relative(space, after):
        raise BadWorld("the script's cycle does not lead back to where it begins")
    delivered = {move.what for move in cycle if move.kind == "deliver"}
    if not _in_flight(space, before) <= delivered:
        raise BadWorld("the script's cycle is not fair: a message stays in flight for ever")
    if not space.waiting(before) or space.waiting(before) != space.waiting(after):
        raise BadWorld("the script's cycle serves somebody")
    return f"{LIVELOCK}: the last {len(cycle)} moves can go on for ever, and nobody is served"


def _in_flight(space: Space, state: State) -> set[int]:
    return {step.move.what for step in space.steps(state) if step.move.kind == "deliver"}


def _relative(space: Space, state: State) -> Hashable:
    hosts = [table.hosts[state[number]] for number, table in enumerate(space.tables)]
    letters = [space.mail.letters[number] for number in sorted(_in_flight(space, state))]
    in_flight = [(letter.sender.node, letter.to.node, letter.message) for letter in letters]
    system: object = space.system
    if not isinstance(system, Recurring):
        raise BadWorld("a script of this protocol can't have a cycle: its states are never alike")
    return system.relative(hosts, in_flight), state[-1]


def _stuck(space: Space, state: State) -> str:
    if any(step.progress for step in space.steps(state)) or space.done(state):
        return ""
    if space.served(state):
        return "row stays: everybody is done and a node keeps a claim for ever"
    return "deadlock: nothing more can happen and somebody is not served"


def _fits(space: Space, move: Move, line: Line) -> bool:
    if move.kind != line.kind or space.names[move.host] != line.host:
        return False
    if line.kind == "act":
        return move.text == line.what
    if line.kind == "timer":
        return move.timer.endswith(line.what)
    letter = space.mail.letters[move.what]
    return (
        letter.sender.node == line.sender
        and letter.message.__struct_config__.tag == line.what
        and all(_text(letter.message, name) == value for name, value in line.fields)
    )


def _text(message: msgspec.Struct, name: str) -> str:
    value: object = getattr(message, name, None)
    return str(value)


def _words(line: Line) -> str:
    sender = f"{line.sender} -> " if line.sender else ""
    fields = "".join(f" {name}={value}" for name, value in line.fields)
    return f"{sender}{line.host} {line.what}{fields}"
