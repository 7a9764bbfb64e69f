"""A job with everything around it, closed: log, processes, a runner that can die. Every order of events is walked.

The runner does its effects one by one: a Record is kept, or the runner dies before; only then comes the next one.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec
from jobs.judge import judge

from holdall.jobs.entries import Entry, Outcome
from holdall.jobs.machine import JobMachine
from holdall.jobs.moves import AttemptEnded, Cancel, Effect, Launch, Pause, PauseOver, Record, Stop
from holdall.jobs.spec import JobSpec, Kind

Make = Callable[[JobSpec], JobMachine]
Attempt = tuple[str, int]


class Move(msgspec.Struct, frozen=True):
    name: str
    about: Attempt = ("", 0)
    outcome: Outcome | None = None


class World:
    """One state of it. Processes outlive the runner; nobody but `end` moves ends them."""

    def __init__(
        self, job: JobSpec, make: Make, kinds: Sequence[Kind], *, crashes: int, cancel: bool
    ) -> None:
        self.job = job
        self.make = make
        self.kinds = tuple(kinds)
        self.crashes = crashes
        self.may_cancel = cancel
        self.log: tuple[Entry, ...] = ()
        self.live: frozenset[Attempt] = frozenset()
        self.ended: dict[Attempt, Outcome] = {}
        self.told: frozenset[Attempt] = frozenset()
        """Ends that this runner knows of."""
        self.watched: frozenset[Attempt] = frozenset()
        self.pauses: frozenset[Attempt] = frozenset()
        self.stopping: frozenset[Attempt] = frozenset()
        self.todo: tuple[Effect, ...] = ()
        self.machine: JobMachine | None = make(job)
        self.wrong: list[str] = []
        self.todo = tuple(self.machine.begin())

    def key(self) -> object:
        machine = None if self.machine is None else self.machine.key()
        return (
            self.log, self.live, tuple(sorted(self.ended.items())), self.told, self.watched, self.pauses,
            self.stopping, self.todo, machine, self.crashes, self.may_cancel,
        )  # fmt: skip

    def copy(self) -> "World":
        twin = object.__new__(World)
        twin.__dict__.update(self.__dict__)
        twin.ended = dict(self.ended)
        twin.machine = None if self.machine is None else self.machine.copy()
        twin.wrong = []
        return twin

    def moves(self) -> Iterator[Move]:
        if self.machine is None:
            yield Move("restart")
        else:
            if self.todo:
                yield Move("do")
            if self.crashes:
                yield Move("crash")
            if self.may_cancel and not self.machine.finished:
                yield Move("cancel")
            for one in sorted(self.watched - self.told):
                if one in self.ended:
                    yield Move("notice", one)
            for one in sorted(self.pauses):
                yield Move("pause over", one)
        for one in sorted(self.live):
            if one in self.stopping:
                yield Move("end", one, Outcome("failed", 143))
            for kind in self.kinds:
                status = {"ok": 0, "failed": 1}.get(kind)
                yield Move("end", one, Outcome(kind, status))

    def after(self, move: Move) -> "World":
        world = self.copy()
        getattr(world, "_" + move.name.replace(" ", "_"))(move)
        return world

    # ------------------------------------------------------------ moves

    def _do(self, move: Move) -> None:
        effect, *rest = self.todo
        self.todo = tuple(rest)
        match effect:
            case Record(entry):
                self.log = (*self.log, entry)
                self.wrong += judge(self.job, self.log, whole=False)
            case Launch(instance, attempt):
                one = (instance, attempt)
                if one not in self.live and one not in self.ended:
                    self._begin(one)
                self.watched |= {one}
            case Pause(instance, attempt):
                self.pauses |= {(instance, attempt)}
            case Stop(instance, attempt):
                if (instance, attempt) in self.live:
                    self.stopping |= {(instance, attempt)}

    def _begin(self, one: Attempt) -> None:
        instance, attempt = one
        if any(name == instance for name, _ in self.live):
            self.wrong.append(f"{one} begins beside another attempt")
        if attempt > 1 and (instance, attempt - 1) not in self.ended:
            self.wrong.append(f"{one} begins before the one before it has ended")
        if not any(getattr(entry, "instance", "") == instance and getattr(entry, "attempt", 0) == attempt
                   for entry in self.log):  # fmt: skip
            self.wrong.append(f"{one} begins without a word in the log")
        self.live |= {one}

    def _crash(self, move: Move) -> None:
        self.crashes -= 1
        self.machine = None
        self.todo = ()
        self.told = self.watched = self.pauses = frozenset()

    def _restart(self, move: Move) -> None:
        machine = self.machine = self.make(self.job)
        for entry in self.log:
            machine.apply(entry)
        self.todo = tuple(machine.resume() if self.log else machine.begin())

    def _cancel(self, move: Move) -> None:
        assert self.machine is not None
        self.may_cancel = False
        self.todo = (*self.todo, *self.machine.handle(Cancel("enough")))

    def _notice(self, move: Move) -> None:
        assert self.machine is not None
        self.told |= {move.about}
        instance, attempt = move.about
        happening = AttemptEnded(instance, attempt, self.ended[move.about])
        self.todo = (*self.todo, *self.machine.handle(happening))

    def _pause_over(self, move: Move) -> None:
        assert self.machine is not None
        self.pauses -= {move.about}
        self.todo = (*self.todo, *self.machine.handle(PauseOver(*move.about)))

    def _end(self, move: Move) -> None:
        assert move.outcome is not None
        self.live -= {move.about}
        self.stopping -= {move.about}
        self.ended[move.about] = move.outcome


class Found(msgspec.Struct):
    states: int
    transitions: int
    endings: int
    wrong: list[str]


def explore(
    job: JobSpec,
    *,
    make: Make = JobMachine,
    kinds: Sequence[Kind] = ("ok", "failed"),
    crashes: int = 1,
    cancel: bool = False,
) -> Found:
    """Walk every order; stops at the first violation. A state without a move must be a good end."""
    first = World(job, make, kinds, crashes=crashes, cancel=cancel)
    seen = {first.key()}
    stack = [first]
    found = Found(0, 0, 0, [])
    while stack:
        world = stack.pop()
        found.states += 1
        moves = list(world.moves())
        if not [move for move in moves if move.name not in {"crash", "cancel"}]:
            found.endings += 1
            problems = judge(job, world.log, whole=True)
            if world.live:
                problems.append("something still runs")
            if problems:
                found.wrong = problems
                return found
        for move in moves:
            try:
                after = world.after(move)
            except Exception as error:  # noqa: BLE001 - a machine that breaks is found, too
                found.wrong = [f"{move}: {error!r}"]
                return found
            found.transitions += 1
            if after.wrong:
                found.wrong = after.wrong
                return found
            key = after.key()
            if key not in seen:
                seen.add(key)
                stack.append(after)
    return found
