"""Joins the host's messages to the world outside: clients' connections, the runner of hooks, watched processes."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeGuard

from holdall.bus.log import Log
from holdall.machine.contract import Address, Message
from holdall.machine.link import LINK
from holdall.model import frames
from holdall.model.job_frames import (
    JobBegun,
    JobCancel,
    JobCancelled,
    JobFollow,
    JobForget,
    JobForgotten,
    JobList,
    JobNote,
    JobRows,
    JobSave,
    JobSaved,
    JobStart,
    JobTake,
    JobTaken,
    JobTold,
)
from holdall.model.run_frames import RunBeat, RunFed, RunOn, RunOver, RunPlace, RunSaid, RunWord
from holdall.node.accounting.account import Account
from holdall.node.bus_end import BusEnd
from holdall.node.command_line import Surroundings
from holdall.node.commands import Commands
from holdall.node.gate.shared import SharedGate
from holdall.node.hooks import Hooks
from holdall.node.job_runners import JobRunners
from holdall.node.processes import Processes
from holdall.node.sockets import Connections, groups_of
from holdall.parties.directory.messages import (
    BUS,
    ForgetDone,
    MayServe,
    MustStop,
    Shunned,
    StartRefused,
    ToNode,
    Warned,
)
from holdall.parties.inviting import WantCode
from holdall.parties.jobs.messages import JOBS, RUNNERS, FromRunners, RemoveOutput, StartRunner
from holdall.parties.location.messages import NEGOTIATOR, BytesUsed, Deposed, Petition, Rate
from holdall.parties.messages import (
    AGENT,
    HOOKS,
    NODE,
    PROCESSES,
    SESSION,
    Asked,
    HookDone,
    ProcessGone,
    RunHook,
    SessionClosed,
    SessionOpened,
    WatchProcess,
)
from holdall.parties.runs.messages import (
    COMMANDS,
    RUNS,
    BeginJob,
    CreditJob,
    DeafenJob,
    FeedJob,
    JobReport,
    SignalJob,
    StopJob,
)

Put = Callable[[str, Address, Message], None]
"""Gives a message to a part of the host: part, sender, message."""

Told = Callable[[ToNode | WantCode], None]
_TOLD = (MayServe, StartRefused, MustStop, Warned, Shunned, ForgetDone, WantCode)
_FROM_NODE = (
    frames.Welcome,
    frames.Queued,
    frames.Granted,
    frames.Denied,
    frames.BeatOk,
    frames.Lost,
    frames.Released,
    frames.Listing,
    frames.Happened,
    frames.Drained,
    frames.Invited,
    frames.Negotiated,
    frames.BytesTaken,
    RunPlace,
    RunWord,
    RunSaid,
    RunOver,
    JobBegun,
    JobForgotten,
    JobRows,
    JobTold,
    JobTaken,
    JobSaved,
    JobCancelled,
)
_OF_JOBS = (JobStart, JobList, JobFollow, JobCancel, JobForget, JobTake, JobSave, JobNote)
_OF_RUNS = (RunOn, RunFed, RunBeat)
_JOB_ORDERS = (BeginJob, FeedJob, CreditJob, SignalJob, DeafenJob, StopJob)


class NodePorts:
    """All ports of one node. `put` is set before the first turn."""

    def __init__(
        self, node: str, bus: BusEnd, told: Told, log: Log, place: Surroundings | None = None
    ) -> None:
        """`told` gets what the node's own parts say to it. Without `place` no commands of other nodes are started."""
        self.put: Put = _nowhere
        self.bus = bus
        self.processes = Processes()
        self.connections = Connections(self._from_session, self.processes, log.warning)
        self.hooks = Hooks(self._hook_done, log)
        self.commands = Commands(self._job_report, log, place)
        self.runners = JobRunners(self._runner_report, log, place)
        self.deposed: Callable[[int], None] = _unheard
        """Told of a location's manager with a later epoch than ours."""
        self.account: Account | None = None
        """Of what was used; set before clients can ask."""
        self.lost = 0
        """Messages that had nowhere to go: of a kind that a port does not take."""
        self.gate = SharedGate(_no_rate, self._bytes_used)
        """Of what leaves under negotiated leases; its leases are set before clients can ask."""
        self._node = node
        self._told = told
        self._is_open = False
        self._hooks_held: list[tuple[Address, RunHook]] = []
        self._hook_senders: dict[int, Address] = {}
        self._telling: set[asyncio.Task[None]] = set()

    def deliver(self, sender: Address, to: Address, message: Message) -> None:
        """Take one send of a turn."""
        if to.node == self._node and to.part.startswith(SESSION) and isinstance(message, _FROM_NODE):
            # No connection of that name: the client is gone; it asks again when it comes back.
            self.connections.send(to.part.removeprefix(SESSION), message)
        elif to == Address(self._node, HOOKS) and isinstance(message, RunHook):
            if self._is_open:
                self._run_hook(sender, message)
            else:
                self._hooks_held.append((sender, message))
        elif to == Address(self._node, PROCESSES) and isinstance(message, WatchProcess):
            self._watch(sender, message)
        elif (to.node != self._node and to.part == LINK) or to == Address(self._node, BUS):
            self.bus.post(to.node, message)
        elif to == Address(self._node, COMMANDS) and isinstance(message, _JOB_ORDERS):
            self.commands.take(message)
        elif to == Address(self._node, RUNNERS) and isinstance(message, StartRunner):
            self.runners.start(message)
        elif to == Address(self._node, RUNNERS) and isinstance(message, RemoveOutput):
            self.runners.remove(message)
        elif to == Address(self._node, NODE) and isinstance(message, _TOLD):
            self._told(message)
        elif to == Address(self._node, NODE) and isinstance(message, Deposed):
            self.deposed(message.epoch)
        else:
            self.lost += 1

    def open(self) -> None:
        """This start is the right one: commands at units may run. Before, a copy of a running node would run them."""
        self._is_open = True
        self.runners.open()
        held, self._hooks_held = self._hooks_held, []
        for sender, order in held:
            self._run_hook(sender, order)

    def turn_done(self) -> None:
        """Write what the turn sent; leases may be others than before."""
        self.gate.look()
        self.connections.turn_done()

    async def close(self) -> None:
        """Nothing comes or goes any more."""
        self.put = _nowhere
        self.gate.close()
        for task in self._telling:
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self.connections.close()
        self.processes.close()
        await self.commands.close()
        await self.hooks.close()

    def _from_session(self, connection: str, message: SessionOpened | Asked | SessionClosed) -> None:
        sender = Address(self._node, SESSION + connection)
        if isinstance(message, Asked) and isinstance(message.frame, _OF_RUNS):
            self.put(RUNS, sender, message)
            return
        if isinstance(message, Asked) and isinstance(message.frame, _OF_JOBS):
            self.put(JOBS, sender, message)
            return
        if isinstance(message, Asked) and isinstance(message.frame, frames.Negotiate):
            frame, groups = message.frame, groups_of(message.uid)
            petition = Petition(frame.n, frame.body, message.user, message.uid, groups)
            self.put(NEGOTIATOR, sender, petition)
            return
        if isinstance(message, Asked) and _is_about_use(message.frame) and self.account is not None:
            self._begin_telling(self._tell_usage(self.account, connection, message.frame))
            return
        if isinstance(message, Asked) and isinstance(message.frame, frames.TakeBytes):
            self._begin_telling(self._let_go(connection, message.user, message.frame))
            return
        self.put(AGENT, sender, message)
        if isinstance(message, SessionClosed):
            # Before the lease is given back: its host hears what was used.
            self.gate.closed(connection)
            self.put(RUNS, sender, message)
            self.put(NEGOTIATOR, sender, message)
            self.put(JOBS, sender, message)

    def _begin_telling(self, telling: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(telling)
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_usage(self, account: Account, connection: str, ask: frames.Ask) -> None:
        for frame in await account.answer(ask):
            self.connections.send(connection, frame)
        self.connections.turn_done()

    async def _let_go(self, connection: str, user: str, ask: frames.TakeBytes) -> None:
        self.connections.send(connection, await self.gate.take(connection, user, ask))
        self.connections.turn_done()

    def _bytes_used(self, used: BytesUsed) -> None:
        self.put(NEGOTIATOR, Address(self._node, NODE), used)

    def _job_report(self, report: JobReport) -> None:
        self.put(RUNS, Address(self._node, COMMANDS), report)

    def _runner_report(self, report: FromRunners) -> None:
        self.put(JOBS, Address(self._node, RUNNERS), report)

    def _run_hook(self, sender: Address, order: RunHook) -> None:
        self._hook_senders[order.run] = sender
        self.hooks.run(order)

    def _hook_done(self, order: RunHook, done: HookDone) -> None:
        sender = self._hook_senders.pop(order.run, None)
        if sender is not None:
            self.put(sender.part, Address(self._node, HOOKS), done)

    def _watch(self, sender: Address, order: WatchProcess) -> None:
        def gone() -> None:
            self.put(sender.part, Address(self._node, PROCESSES), ProcessGone(order.session))

        self.processes.when_gone(order.pid, order.started, f"session/{order.session}", gone)


def _is_about_use(frame: frames.ToNode) -> TypeGuard[frames.Ask]:
    return isinstance(frame, frames.Ask) and frame.what == "usage"


def _no_rate(user: str, lease: str, term: str) -> Rate | None:
    del user, lease, term
    return None


def _unheard(epoch: int) -> None:
    del epoch


def _nowhere(part: str, sender: Address, message: Message) -> None:
    del part, sender, message
