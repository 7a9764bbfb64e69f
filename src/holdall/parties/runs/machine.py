"""The machine `runs` of a node: commands of its clients on other nodes, and commands of theirs here.

The machine decides who may, which runs there are and when a silent one ends; bytes and processes are the driver's,
which starts an ordinary `holdall run` as child, so that lease, guardian, grace and exit status are the ordinary ones.
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import copy, deepcopy
from typing import Self

from holdall.machine.contract import (
    BOOT_KEY,
    Boot,
    Effect,
    Event,
    Message,
    ProtocolViolation,
    Received,
    Record,
    TimerFired,
)
from holdall.model.run_frames import RunBeat, RunFed, RunOn
from holdall.parties.messages import SESSION, Asked, SessionClosed
from holdall.parties.neighbours import Neighbours, NoNeighbours
from holdall.parties.runs.calling import Calling, connection_of
from holdall.parties.runs.messages import (
    COMMANDS,
    JobBegan,
    JobEnded,
    JobFailed,
    JobLeased,
    JobSaid,
    JobTook,
    RunPassed,
    RunQuit,
    RunRefused,
    RunStart,
    RunTold,
)
from holdall.parties.runs.serving import Serving
from holdall.parties.runs.state import Runs, RunSettings


class RemoteRuns:
    """The machine. It keeps nothing over a restart: connections and processes end with the node."""

    def __init__(
        self, settings: RunSettings, neighbours: Neighbours | None = None, *, incarnation: int = 1
    ) -> None:
        known = neighbours or NoNeighbours(settings.node, settings.name or settings.node)
        self._build(Runs(settings, known, incarnation))

    def _build(self, runs: Runs) -> None:
        self.state = runs
        self.calling = Calling(runs)
        self.serving = Serving(runs)

    def start(self) -> Sequence[Effect]:
        """Nothing runs."""
        return []

    def recover(self, records: Mapping[str, Record]) -> Sequence[Effect]:
        """Nothing runs; the process start has a number of its own."""
        boot = records.get(BOOT_KEY)
        if isinstance(boot, Boot):
            self.state.incarnation = boot.incarnation
        return []

    def handle(self, event: Event) -> Sequence[Effect]:
        """One event. Raises ProtocolViolation for what nobody of ours says; nothing has changed then."""
        self.state.out = []
        match event:
            case TimerFired(timer):
                self.serving.fired(int(timer.partition("/")[2]))
            case Received(sender, message) if sender.node != self.state.settings.node:
                self._from_peer(sender.node, message)
            case Received(sender, message) if sender.part.startswith(SESSION):
                self._from_client(connection_of(sender.part), message)
            case Received(sender, message) if sender.part == COMMANDS:
                self._from_driver(message)
            case Received(sender, message):
                raise ProtocolViolation(f"{type(message).__name__} from {sender} is not for runs")
        return self.state.out

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return (
            self.state.incarnation,
            tuple(sorted(self.calling.called)),
            tuple(self.serving.jobs[job].key() for job in sorted(self.serving.jobs)),
        )

    def copy(self) -> Self:
        """An independent twin, which reads the same neighbours."""
        twin = copy(self)
        shared = {id(self.state.neighbours): self.state.neighbours}
        twin.state, twin.calling, twin.serving = deepcopy((self.state, self.calling, self.serving), shared)
        return twin

    # ------------------------------------------------------------ who speaks

    def _from_client(self, connection: str, message: Message) -> None:
        match message:
            case Asked(RunOn() as frame):
                self.calling.start(connection, frame, message)
            case Asked(RunFed() | RunBeat() as frame):
                self.calling.frame(connection, frame)
            case SessionClosed():
                self.calling.closed(connection)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} of a connection is not for runs")

    def _from_peer(self, peer: str, message: Message) -> None:
        match message:
            case RunStart():
                self.serving.start(peer, message)
            case RunTold():
                self.serving.told(peer, message)
            case RunQuit():
                self.serving.quit(peer, message)
            case RunPassed():
                self.calling.passed(peer, message)
            case RunRefused():
                self.calling.refused(peer, message)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} of another node is not for runs")

    def _from_driver(self, message: Message) -> None:
        match message:
            case JobBegan() | JobFailed() | JobLeased() | JobSaid() | JobTook() | JobEnded():
                self.serving.reported(message)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} of the driver is not for runs")
