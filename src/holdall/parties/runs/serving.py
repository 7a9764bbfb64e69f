"""Commands that other nodes start here: who may, which there are, what is under way, and when a silent caller's one ends.

Output is kept until the caller has used it up (`WINDOW` pieces at most, then the driver reads no more), so that it can
be sent again after the link has lost it. Nothing of a run is saved: a node that is started anew has none, and the
processes of its earlier start have ended with that.
"""

from collections import deque
from collections.abc import Hashable

import msgspec

from holdall.machine.contract import Address, CancelTimer, ProtocolViolation, Send, SetTimer
from holdall.model.errors import BadSpec, LeaseLost, NotGranted, Refused
from holdall.model.run_frames import (
    COMMAND_BYTES_MAX,
    SIGNALS_MAX,
    WINDOW,
    FromRun,
    RunBeat,
    RunFed,
    RunLease,
    RunOver,
    RunSaid,
    RunWord,
    command_bytes,
)
from holdall.parties.runs.calling import silence_text
from holdall.parties.runs.messages import (
    RUNS,
    BeginJob,
    CreditJob,
    DeafenJob,
    FeedJob,
    JobBegan,
    JobEnded,
    JobFailed,
    JobLeased,
    JobReport,
    JobSaid,
    JobTook,
    RunPassed,
    RunQuit,
    RunRefused,
    RunStart,
    RunTold,
    SignalJob,
    StopJob,
)
from holdall.parties.runs.permission import entry_for, may_run
from holdall.parties.runs.state import Runs

RUNS_MAX = 16
"""Commands of other nodes at a time."""
TTL_MIN_MS = 1000
SIGNALS = frozenset({1, 2, 3, 10, 12, 15})
"""HUP, INT, QUIT, USR1, USR2, TERM: those that `holdall run` passes on, but for what needs a terminal."""

RunId = tuple[str, int, int]
"""(calling node, its incarnation, its number)"""


class Served:
    """One run. `run` None: its caller is gone, and only the end of its processes is awaited."""

    def __init__(self, run: RunId, job: int, ttl_ms: int, caller: str) -> None:
        self.run: RunId | None = run
        self.job = job
        self.ttl_ms = ttl_ms
        self.caller = caller
        self.began = False
        self.lease: RunLease | None = None
        self.over = False
        """The processes have ended; the last piece may be under way."""
        self.said = 0
        self.unheard: deque[RunSaid | RunOver] = deque()
        self.fed = 0
        self.taken = 0
        self.signals = 0
        self.deaf: frozenset[int] = frozenset()

    def key(self) -> Hashable:
        """All that has a say in what comes."""
        return (
            self.run,
            self.job,
            self.ttl_ms,
            self.began,
            self.lease,
            self.over,
            self.said,
            tuple(self.unheard),
            (self.fed, self.taken, self.signals, self.deaf),
        )


class Serving:
    """The side of the node of the command."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.jobs: dict[int, Served] = {}
        self.by_run: dict[RunId, Served] = {}
        self._last = 0

    # ------------------------------------------------------------ the calling node

    def start(self, peer: str, start: RunStart) -> None:
        """Start it, or say why not."""
        run = (peer, start.incarnation, start.run)
        if run in self.by_run:
            raise ProtocolViolation(f"run {run} was started before")
        for one in tuple(self.jobs.values()):
            if one.run is not None and one.run[0] == peer and one.run[1] < start.incarnation:
                self._stop(one, "the node of its caller was started anew")
        name = self._runs.neighbours.name_of(peer)
        refusal = self._refusal(peer, name, start)
        if refusal is not None:
            self._send(run, RunRefused(start.incarnation, start.run, *refusal))
            return
        self._last += 1
        served = Served(run, self._last, start.ttl_ms, f"{start.user}@{name}")
        self.jobs[served.job] = self.by_run[run] = served
        wishes = start.wishes
        if not wishes.agent:
            wishes = msgspec.structs.replace(wishes, agent=served.caller[:512])
        self._runs.order(BeginJob(served.job, served.caller, wishes))
        self._arm(served)

    def told(self, peer: str, told: RunTold) -> None:
        """A frame of the client. Raises ProtocolViolation for what no client of ours says."""
        served = self.by_run.get((peer, told.incarnation, told.run))
        if served is None:
            text = (
                f"{self._runs.name} has no such run any more: it was started anew, or it had not heard of the "
                "caller for too long. The command was ended (TERM, grace, KILL)."
            )
            refused = RunRefused(told.incarnation, told.run, LeaseLost.code, text)
            self._send((peer, told.incarnation, told.run), refused)
            return
        match told.frame:
            case RunFed(_, piece, data):
                self._fed(served, piece, data)
            case RunBeat() as beat:
                self._beat(served, beat)

    def quit(self, peer: str, message: RunQuit) -> None:
        """The caller is gone."""
        served = self.by_run.get((peer, message.incarnation, message.run))
        if served is not None:
            self._stop(served, "its caller is gone")

    def fired(self, job: int) -> None:
        """Nothing was heard of the caller."""
        served = self.jobs.get(job)
        if served is not None and served.run is not None:
            self._stop(served, silence_text(served.caller, served.ttl_ms))

    # ------------------------------------------------------------ the driver

    def reported(self, report: JobReport) -> None:
        """What happens to the processes."""
        served = self.jobs.get(report.job)
        if served is None:
            raise ProtocolViolation(f"no job {report.job} is under way")
        match report:
            case JobBegan():
                served.began = True
                self._word(served)
            case JobFailed(_, code, text):
                if served.run is not None:
                    self._send(served.run, RunRefused(served.run[1], served.run[2], code, text[:2048]))
                self._forget(served)
            case JobSaid(_, stream, data):
                if served.run is not None:
                    served.said += 1
                    self._say(served, RunSaid(0, served.said, stream, data))
            case JobLeased(_, lease):
                served.lease = lease
                self._word(served)
            case JobTook():
                served.taken += 1
                self._word(served)
            case JobEnded(_, status):
                served.over = True
                if served.run is None:
                    self._forget(served)
                else:
                    served.said += 1
                    self._say(served, RunOver(0, served.said, status, served.lease))

    # ------------------------------------------------------------ inside

    def _fed(self, served: Served, piece: int, data: bytes) -> None:
        if piece != served.fed + 1:
            return  # it came before; or one before it was lost, which the next beat tells
        if served.fed - served.taken >= WINDOW:
            raise ProtocolViolation(f"more than {WINDOW} pieces of input are under way")
        served.fed = piece
        if served.over:
            served.taken = piece
        else:
            self._runs.order(FeedJob(served.job, data))

    def _beat(self, served: Served, beat: RunBeat) -> None:
        if beat.heard > served.said:
            raise ProtocolViolation(f"piece {beat.heard} is used up, {served.said} were sent")
        self._arm(served)
        used = 0
        while served.unheard and served.unheard[0].piece <= beat.heard:
            served.unheard.popleft()
            used += 1
        if served.over and not served.unheard:
            self._forget(served)
            return
        if used and not served.over:
            self._runs.order(CreditJob(served.job, used))
        if beat.again:
            for piece in served.unheard:
                self._pass(served, piece)
        for number, signal in beat.signals[:SIGNALS_MAX]:
            if number == served.signals + 1:
                served.signals = number
                if signal in SIGNALS and not served.over:
                    self._runs.order(SignalJob(served.job, signal))
        for stream in beat.deaf:
            if stream not in served.deaf:
                served.deaf |= {stream}
                if not served.over:
                    self._runs.order(DeafenJob(served.job, stream))
        if beat.ask or beat.signals:
            self._word(served, again=beat.fed > served.fed)

    def _say(self, served: Served, piece: RunSaid | RunOver) -> None:
        served.unheard.append(piece)
        self._pass(served, piece)

    def _word(self, served: Served, *, again: bool = False) -> None:
        if served.began:
            self._pass(served, RunWord(0, served.taken, served.said, again, served.signals, served.lease))

    def _pass(self, served: Served, frame: FromRun) -> None:
        if served.run is not None:
            self._send(served.run, RunPassed(served.run[1], served.run[2], frame))

    def _send(self, run: RunId, message: RunPassed | RunRefused) -> None:
        self._runs.out.append(Send(Address(run[0], RUNS), message))

    def _arm(self, served: Served) -> None:
        rate = 1_000_000 + self._runs.settings.rho_ppm
        self._runs.out.append(SetTimer(f"silent/{served.job}", served.ttl_ms * rate // 1_000_000))

    def _stop(self, served: Served, why: str) -> None:
        """Nobody is told any more of this run."""
        if served.run is not None:
            del self.by_run[served.run]
            served.run = None
        served.unheard.clear()
        self._runs.out.append(CancelTimer(f"silent/{served.job}"))
        if served.over:
            del self.jobs[served.job]
        else:
            self._runs.order(StopJob(served.job, why))

    def _forget(self, served: Served) -> None:
        if served.run is not None:
            del self.by_run[served.run]
            self._runs.out.append(CancelTimer(f"silent/{served.job}"))
        del self.jobs[served.job]

    def _refusal(self, peer: str, name: str, start: RunStart) -> tuple[str, str] | None:
        """(code, text), or None: it may run."""
        settings, here = self._runs.settings, self._runs.name
        if not may_run(settings.run_from, self._runs.neighbours, peer, start.user, is_keeper=start.is_keeper):
            entry = entry_for(name, start.user, is_keeper=start.is_keeper)
            return Refused.code, (
                f"{here} starts no commands for {start.user}@{name}. Whoever keeps {here} can let them: add "
                f'"{entry}" to run_from in [node] of {settings.config or "its holdall.toml"} and start the node again.'
            )
        if len(self.jobs) >= RUNS_MAX:
            text = f"{here} runs {RUNS_MAX} commands of other nodes already. Try again later, or elsewhere."
            return NotGranted.code, text
        if command_bytes(start.wishes.command) > COMMAND_BYTES_MAX:
            return BadSpec.code, f"the command is longer than {COMMAND_BYTES_MAX:,} bytes."
        if not TTL_MIN_MS <= start.ttl_ms <= settings.ttl_max_ms:
            text = f"a ttl of {start.ttl_ms} ms; {here} takes {TTL_MIN_MS} to {settings.ttl_max_ms} ms."
            return BadSpec.code, text
        return None
