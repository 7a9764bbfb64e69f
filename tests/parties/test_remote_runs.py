"""The machine `runs`: who may start a command where, what is under way, and how each run ends."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.machine.codec import CODEC
from holdall.machine.contract import (
    BOOT_KEY,
    Address,
    Boot,
    CancelTimer,
    Effect,
    Message,
    ProtocolViolation,
    Received,
    Send,
    SetTimer,
    TimerFired,
)
from holdall.model import frames
from holdall.model.run_frames import (
    COMMAND_BYTES_MAX,
    WINDOW,
    RunBeat,
    RunFed,
    RunLease,
    RunOn,
    RunOver,
    RunSaid,
    RunWishes,
    RunWord,
)
from holdall.model.spec import parse_needs
from holdall.parties.messages import SESSION, Asked, SessionClosed
from holdall.parties.neighbours import Neighbour, NodeState, RemotePool
from holdall.parties.runs.calling import CALLED_MAX
from holdall.parties.runs.machine import RemoteRuns
from holdall.parties.runs.messages import (
    COMMANDS,
    RUNS,
    BeginJob,
    BetweenRuns,
    CreditJob,
    DeafenJob,
    FeedJob,
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
    SignalJob,
    StopJob,
)
from holdall.parties.runs.permission import entry_problem, may_run
from holdall.parties.runs.serving import RUNS_MAX
from holdall.parties.runs.state import RunSettings

A, B, C = "a" * 20, "b" * 20, "c" * 20
"""Ids; the nodes are called lab-a and so on."""
UID = 1000
TTL = 10_000
WISHES = RunWishes((b"make", b"\xff"), parse_needs(["gpu"]), agent="ci@runner")


class Known:
    """Neighbours as one node sees them."""

    def __init__(self, own: str, *others: str, states: Mapping[str, NodeState] | None = None) -> None:
        self.own = own
        self.names = {node: f"lab-{node[0]}" for node in (own, *others)}
        self.states: Mapping[str, NodeState] = states or {}

    def name_of(self, node: str) -> str:
        return self.names.get(node, node)

    def node_named(self, name: str) -> str | None:
        return next((node for node, known in self.names.items() if known == name), None)

    def node(self, node: str) -> Neighbour | None:
        if node == self.own or node not in self.names:
            return None
        return Neighbour(node, self.names[node], self.states.get(node, "serving"), 1, 1, silent_ms=40_000)

    def nodes(self) -> Sequence[Neighbour]:
        return [known for node in self.names if (known := self.node(node)) is not None]

    def pools(self, names: Iterable[str] | None = None) -> Sequence[RemotePool]:
        del names
        return ()


class Machine:
    """One machine with its neighbours; what it sends, by receiver."""

    def __init__(self, node: str, *others: str, run_from: tuple[str, ...] = (), incarnation: int = 1) -> None:
        self.node = node
        self.known = Known(node, *others)
        made = RunSettings(node, f"lab-{node[0]}", UID, run_from, "/etc/holdall.toml", ttl_max_ms=60_000)
        self.machine = RemoteRuns(made, self.known, incarnation=incarnation)
        self.sent: deque[tuple[Address, Message]] = deque()
        self.timers: dict[str, int] = {}

    def _done(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Send(to, message):
                    if to.node != self.node:
                        assert CODEC.decode(CODEC.encode(message)) == message
                    self.sent.append((to, message))
                case SetTimer(timer, after_ms):
                    self.timers[timer] = after_ms
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
                case _:
                    raise AssertionError(effect)

    def hear(self, sender: Address, message: Message) -> None:
        self._done(self.machine.handle(Received(sender, message)))

    def client(
        self, frame: frames.ToNode, *, connection: str = "c", uid: int = UID, user: str = "eva"
    ) -> None:
        self.hear(Address(self.node, SESSION + connection), Asked(frame, uid, user, "lot"))

    def peer(self, node: str, message: BetweenRuns) -> None:
        self.hear(Address(node, RUNS), message)

    def driver(self, message: Message) -> None:
        self.hear(Address(self.node, COMMANDS), message)

    def fire(self, timer: str) -> None:
        del self.timers[timer]
        self._done(self.machine.handle(TimerFired(timer)))

    def take(self, part: str, node: str = "") -> list[Message]:
        """What it has sent to a part, and forget it."""
        to = Address(node or self.node, part)
        found = [message for one, message in self.sent if one == to]
        self.sent = deque(one for one in self.sent if one[0] != to)
        return found

    def told(self, connection: str = "c") -> list[Message]:
        return self.take(SESSION + connection)


def start(
    run: int = 1, *, incarnation: int = 1, user: str = "eva", keeper: bool = True, ttl: int = TTL
) -> RunStart:
    return RunStart(incarnation, run, user, keeper, ttl, WISHES)


def serving(*run_from: str) -> Machine:
    """The node of the command, with one run of lab-a's that has begun; its job is 1."""
    machine = Machine(B, A, C, run_from=run_from or ("lab-a",))
    machine.peer(A, start())
    assert machine.take(COMMANDS) == [BeginJob(1, "eva@lab-a", WISHES)]
    machine.driver(JobBegan(1))
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0))]
    return machine


def test_the_lease_of_a_run_is_told_when_it_is_there_and_with_each_word_after_that() -> None:
    machine = serving()
    lease = RunLease("L" * 26, ("gpu/0@lab-b#7",))
    machine.driver(JobLeased(1, lease))
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0, lease=lease))]
    beat(machine, ask=True)
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0, lease=lease))]
    # All these words may be lost; the last piece is said until it is heard.
    machine.driver(JobEnded(1, 0))
    over = RunPassed(1, 1, RunOver(0, 1, 0, lease))
    assert machine.take(RUNS, A) == [over]
    beat(machine, again=True)
    assert machine.take(RUNS, A) == [over]


def beat(machine: Machine, **fields: object) -> None:
    machine.peer(A, RunTold(1, 1, msgspec.structs.replace(RunBeat(0), **fields)))


# ------------------------------------------------------------ who may


def test_nobody_may_start_commands_before_somebody_says_so() -> None:
    machine = Machine(B, A)
    machine.peer(A, start())
    (refused,) = machine.take(RUNS, A)
    assert refused == RunRefused(
        1,
        1,
        "refused",
        'lab-b starts no commands for eva@lab-a. Whoever keeps lab-b can let them: add "lab-a" to run_from in [node] '
        "of /etc/holdall.toml and start the node again.",
    )
    assert not machine.sent
    assert not machine.timers
    machine.peer(A, start(2, user="zoe", keeper=False))
    (refused,) = machine.take(RUNS, A)
    assert isinstance(refused, RunRefused)
    assert 'add "zoe@lab-a" to run_from' in refused.text


@pytest.mark.parametrize(
    ("entry", "keeper", "eva", "of_c"),
    [
        ("lab-a", True, False, False),
        (A, True, False, False),
        ("*", True, False, True),
        ("eva@lab-a", False, True, False),
        (f"eva@{A}", False, True, False),
        ("*@lab-a", True, True, False),
        ("eva@*", False, True, True),
        ("*@*", True, True, True),
        ("lab-x", False, False, False),
    ],
)
def test_an_entry_lets_a_node_s_own_user_or_the_user_that_it_names(
    entry: str, keeper: bool, eva: bool, of_c: bool
) -> None:
    known = Known(B, A, C)
    assert not entry_problem(entry)
    assert may_run((entry,), known, A, "lab", is_keeper=True) is keeper
    assert may_run((entry,), known, A, "eva", is_keeper=False) is eva
    assert may_run((entry,), known, C, "eva", is_keeper=entry == "*") is of_c


def test_a_name_that_two_nodes_have_lets_neither_of_them() -> None:
    known = Known(B, A, C)
    known.names[C] = "lab-a"
    assert not may_run(("lab-a",), known, A, "eva", is_keeper=True)
    assert not may_run(("lab-a",), known, C, "eva", is_keeper=True)
    assert may_run((A,), known, A, "eva", is_keeper=True)
    known.names[C] = "lab-b"  # the name of the node itself
    assert not may_run(("lab-b",), known, C, "eva", is_keeper=True)


@pytest.mark.parametrize(
    "entry", ["", "@lab-a", "eva@", "eva sue@lab-a", "Lab", "a@b@c", "../x", "eva@lab a"]
)
def test_what_is_no_entry(entry: str) -> None:
    assert entry_problem(entry)


def test_a_client_is_its_node_s_user_or_root_or_somebody_else() -> None:
    machine = Machine(A, B)
    for uid, keeper in ((UID, True), (0, True), (7, False)):
        machine.client(RunOn(uid + 1, "lab-b", TTL, WISHES), uid=uid, user="eva")
        (begun,) = machine.take(RUNS, B)
        assert isinstance(begun, RunStart)
        assert (begun.user, begun.is_keeper) == ("eva", keeper)


# ------------------------------------------------------------ the calling node


def test_a_node_that_can_t_be_asked_is_named_at_once() -> None:
    machine = Machine(A, B, C)
    machine.known.states = {B: "silent", C: "stopped"}
    for n, (name, said) in enumerate(
        {
            "lab-x": "lab-a knows no node 'lab-x'. Did you mean \"lab-",
            "nowhere": "lab-a knows no node 'nowhere'. Leave --on out",
            "lab-b": "lab-b can't be asked: silent for 40 s",
            "lab-c": "lab-c can't be asked: stopped",
        }.items()
    ):
        machine.client(RunOn(n, name, TTL, WISHES))
        (denied,) = machine.told()
        assert isinstance(denied, frames.Denied)
        assert (denied.n, denied.code) == (n, "unreachable")
        assert denied.text.startswith(said)
    assert not machine.sent


def test_what_is_too_much_for_one_run_is_refused_where_it_is_asked_for() -> None:
    machine = Machine(A, B)
    long = msgspec.structs.replace(WISHES, command=(b"x" * COMMAND_BYTES_MAX,))
    wide = msgspec.structs.replace(
        WISHES, needs=parse_needs([["a" * 63 + f",k{i}=" + "v" * 128 for i in range(40)]] * 9)
    )
    for n, wishes in ((1, long), (2, wide)):
        machine.client(RunOn(n, "lab-b", TTL, wishes))
        (denied,) = machine.told()
        assert isinstance(denied, frames.Denied)
        assert denied.code == "bad-spec"
    for n in range(CALLED_MAX):
        machine.client(RunOn(n, "lab-b", TTL, WISHES), connection=f"c{n}")
    machine.client(RunOn(0, "lab-b", TTL, WISHES), connection="c0")
    machine.client(RunOn(9, "lab-b", TTL, WISHES), connection="late")
    assert [one.code for one in machine.told("c0") if isinstance(one, frames.Denied)] == ["bad-spec"]
    assert [one.code for one in machine.told("late") if isinstance(one, frames.Denied)] == ["not-granted"]
    assert len(machine.take(RUNS, B)) == CALLED_MAX


def test_frames_go_through_with_the_client_s_own_number_and_end_with_its_connection() -> None:
    machine = Machine(A, B, incarnation=7)
    machine.client(RunOn(40, "lab-b", TTL, WISHES))
    assert machine.take(RUNS, B) == [RunStart(7, 1, "eva", True, TTL, WISHES)]
    machine.client(RunFed(40, 1, b"in"))
    machine.client(RunBeat(40, heard=3))
    assert machine.take(RUNS, B) == [RunTold(7, 1, RunFed(40, 1, b"in")), RunTold(7, 1, RunBeat(40, heard=3))]
    machine.peer(B, RunPassed(7, 1, RunSaid(0, 1, 1, b"out")))
    assert machine.told() == [RunSaid(40, 1, 1, b"out")]
    # Of another process start, another run, another node: nobody's.
    machine.peer(B, RunPassed(6, 1, RunSaid(0, 2, 1, b"old")))
    machine.peer(B, RunPassed(7, 2, RunSaid(0, 2, 1, b"no")))
    machine.peer(C, RunPassed(7, 1, RunSaid(0, 2, 1, b"liar")))
    machine.peer(C, RunRefused(7, 1, "refused", "liar"))
    assert not machine.sent
    machine.hear(Address(A, SESSION + "c"), SessionClosed(process_gone=False))
    assert machine.take(RUNS, B) == [RunQuit(7, 1)]
    machine.hear(Address(A, SESSION + "c"), SessionClosed(process_gone=True))
    machine.peer(B, RunPassed(7, 1, RunSaid(0, 2, 1, b"late")))
    assert not machine.sent


def test_a_refusal_or_the_stop_of_the_other_node_ends_the_run_for_its_client() -> None:
    machine = Machine(A, B)
    machine.client(RunOn(1, "lab-b", TTL, WISHES))
    machine.client(RunOn(2, B, TTL, WISHES))  # by its id
    assert len(machine.take(RUNS, B)) == 2
    machine.peer(B, RunRefused(1, 1, "refused", "no."))
    assert machine.told() == [frames.Denied(1, "refused", "no.")]
    machine.client(RunBeat(1))
    (denied,) = machine.told()
    assert isinstance(denied, frames.Denied)
    assert denied.code == "not-holder"
    machine.known.states = {B: "stopped"}
    machine.client(RunBeat(2))
    (denied,) = machine.told()
    assert isinstance(denied, frames.Denied)
    assert (denied.code, denied.text[:23]) == ("lost", "lab-b has been stopped.")
    assert not machine.machine.calling.called
    assert not machine.sent


# ------------------------------------------------------------ the node of the command


def test_output_is_kept_until_it_is_used_up_and_sent_again_when_it_was_lost() -> None:
    machine = serving()
    for text in (b"1", b"2", b"3"):
        machine.driver(JobSaid(1, 1, text))
    said = [RunPassed(1, 1, RunSaid(0, number, 1, b"%d" % number)) for number in (1, 2, 3)]
    assert machine.take(RUNS, A) == said
    beat(machine, heard=1)
    assert machine.take(COMMANDS) == [CreditJob(1, 1)]
    assert not machine.sent
    beat(machine, heard=1, again=True, ask=True)
    assert machine.take(RUNS, A) == [*said[1:], RunPassed(1, 1, RunWord(0, said=3))]
    beat(machine, heard=3)
    assert machine.take(COMMANDS) == [CreditJob(1, 2)]
    machine.driver(JobEnded(1, 5))
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunOver(0, 4, 5))]
    assert machine.timers
    beat(machine, heard=4)
    assert not machine.machine.serving.jobs
    assert not machine.machine.serving.by_run
    assert not machine.timers
    assert not machine.sent


def test_input_is_passed_on_once_in_order_and_asked_for_again_when_some_was_lost() -> None:
    machine = serving()
    for piece, text in ((1, b"1"), (1, b"1"), (3, b"3"), (2, b"2")):
        machine.peer(A, RunTold(1, 1, RunFed(0, piece, text)))
    assert machine.take(COMMANDS) == [FeedJob(1, b"1"), FeedJob(1, b"2")]
    machine.driver(JobTook(1))
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0, taken=1))]
    beat(machine, fed=3, ask=True)
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0, taken=1, again=True))]
    beat(machine, fed=2, ask=True)
    assert machine.take(RUNS, A) == [RunPassed(1, 1, RunWord(0, taken=1))]
    for piece in (3, 4, 5):
        machine.peer(A, RunTold(1, 1, RunFed(0, piece, b"")))
    with pytest.raises(ProtocolViolation, match="more than 4 pieces"):
        machine.peer(A, RunTold(1, 1, RunFed(0, 6, b"")))


def test_each_signal_is_passed_on_once_and_only_those_that_are_for_commands() -> None:
    machine = serving()
    beat(machine, signals=((1, 2), (2, 15)))
    beat(machine, signals=((1, 2), (2, 15), (3, 9), (4, 19), (5, 1)))
    beat(machine, signals=((7, 2),))
    assert machine.take(COMMANDS) == [SignalJob(1, 2), SignalJob(1, 15), SignalJob(1, 1)]
    assert machine.take(RUNS, A)[-1] == RunPassed(1, 1, RunWord(0, signals=5))


def test_a_stream_that_nobody_reads_is_closed_once() -> None:
    machine = serving()
    beat(machine, deaf=(1,))
    beat(machine, deaf=(1, 2))
    assert machine.take(COMMANDS) == [DeafenJob(1, 1), DeafenJob(1, 2)]


@pytest.mark.parametrize("how", ["silence", "quit", "anew"])
def test_a_run_without_caller_is_ended_and_counts_until_nothing_of_it_is_left(how: str) -> None:
    machine = serving()
    assert machine.timers == {"silent/1": TTL * 102 // 100}
    match how:
        case "silence":
            machine.fire("silent/1")
            why = "nothing was heard of eva@lab-a for 10 s"
        case "quit":
            machine.peer(A, RunQuit(1, 1))
            why = "its caller is gone"
        case _:
            machine.peer(A, start(1, incarnation=2))
            assert machine.take(COMMANDS)[1:] == [BeginJob(2, "eva@lab-a", WISHES)]
            machine.peer(A, RunQuit(2, 1))
            why = "its caller is gone"
    assert machine.take(COMMANDS)[-1] == StopJob(2 if how == "anew" else 1, why)
    assert not machine.timers
    machine.driver(JobSaid(1, 1, b"its last words"))
    machine.driver(JobTook(1))
    beat(machine)
    (refused,) = machine.take(RUNS, A)
    assert isinstance(refused, RunRefused)
    assert (refused.code, "has no such run any more" in refused.text) == ("lost", True)
    assert 1 in machine.machine.serving.jobs
    machine.driver(JobEnded(1, 137))
    assert 1 not in machine.machine.serving.jobs
    assert not machine.sent


def test_a_run_that_is_over_is_forgotten_when_its_caller_is_silent_or_gone() -> None:
    ends: tuple[Callable[[Machine], None], ...] = (
        lambda one: one.fire("silent/1"),
        lambda one: one.peer(A, RunQuit(1, 1)),
    )
    for end in ends:
        machine = serving()
        machine.driver(JobEnded(1, 0))
        end(machine)
        assert not machine.machine.serving.jobs
        assert not machine.take(COMMANDS)


def test_what_could_not_be_started_is_told_as_the_driver_says_it() -> None:
    machine = Machine(B, A, run_from=("*",))
    machine.peer(A, start())
    machine.driver(JobFailed(1, "refused", "no such user"))
    assert machine.take(RUNS, A) == [RunRefused(1, 1, "refused", "no such user")]
    assert not machine.machine.serving.jobs
    assert not machine.timers


def test_no_more_than_sixteen_commands_of_others_run_at_a_time() -> None:
    machine = Machine(B, A, C, run_from=("*",))
    for number in range(RUNS_MAX):
        machine.peer((A, C)[number % 2], start(number))
    assert len(machine.take(COMMANDS)) == RUNS_MAX
    machine.peer(A, start(99))
    (refused,) = machine.take(RUNS, A)
    assert isinstance(refused, RunRefused)
    assert (refused.code, refused.text) == (
        "not-granted",
        "lab-b runs 16 commands of other nodes already. Try again later, or elsewhere.",
    )
    machine.peer(A, RunQuit(1, 0))
    machine.driver(JobEnded(1, 137))
    machine.peer(A, start(100))
    assert isinstance(machine.take(COMMANDS)[-1], BeginJob)


@pytest.mark.parametrize("ttl", [1, 999, 60_001, 2**40])
def test_a_silence_that_is_too_short_or_too_long_is_refused(ttl: int) -> None:
    machine = Machine(B, A, run_from=("*",))
    machine.peer(A, start(ttl=ttl))
    (refused,) = machine.take(RUNS, A)
    assert isinstance(refused, RunRefused)
    assert refused.code == "bad-spec"


def test_a_node_that_is_started_anew_knows_no_run_and_has_another_number() -> None:
    machine = Machine(A, B)
    assert machine.machine.recover({BOOT_KEY: Boot("same", epoch=1, incarnation=9)}) == []
    machine.client(RunOn(1, "lab-b", TTL, WISHES))
    (begun,) = machine.take(RUNS, B)
    assert isinstance(begun, RunStart)
    assert begun.incarnation == 9


# ------------------------------------------------------------ anything


small = st.integers(0, 6)
beats = st.builds(
    RunBeat,
    n=small,
    heard=small,
    fed=small,
    again=st.booleans(),
    ask=st.booleans(),
    signals=st.lists(st.tuples(small, st.integers(1, 64)), max_size=4).map(tuple),
    deaf=st.lists(st.sampled_from([1, 2]), max_size=2).map(tuple),
)
feds = st.builds(RunFed, n=small, piece=st.integers(1, 7), data=st.binary(max_size=9))
passed = st.one_of(
    st.builds(
        RunWord,
        n=small,
        taken=small,
        said=small,
        again=st.booleans(),
        signals=small,
        lease=st.none() | st.builds(RunLease, lease=st.text(max_size=9)),
    ),
    st.builds(
        RunSaid, n=small, piece=st.integers(1, 7), stream=st.sampled_from([1, 2]), data=st.binary(max_size=9)
    ),
    st.builds(
        RunOver,
        n=small,
        piece=st.integers(1, 7),
        status=st.integers(0, 255),
        lease=st.none() | st.builds(RunLease, lease=st.text(max_size=9)),
    ),
)
from_peers = st.one_of(
    st.builds(
        RunStart,
        incarnation=st.integers(1, 2),
        run=small,
        user=st.sampled_from(["eva", "root", ""]),
        is_keeper=st.booleans(),
        ttl_ms=st.sampled_from([1, TTL]),
        wishes=st.just(WISHES),
    ),
    st.builds(RunTold, incarnation=st.integers(1, 2), run=small, frame=st.one_of(beats, feds)),
    st.builds(RunQuit, incarnation=st.integers(1, 2), run=small),
    st.builds(RunPassed, incarnation=st.integers(1, 2), run=small, frame=passed),
    st.builds(
        RunRefused,
        incarnation=st.integers(1, 2),
        run=small,
        code=st.sampled_from(["lost", "x"]),
        text=st.text(),
    ),
    st.just(frames.Invite(1)),
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([A, C]), from_peers), max_size=60), st.randoms(use_true_random=False)
)
def test_whatever_other_nodes_say_is_handled_or_refused_and_the_books_agree(
    said: list[tuple[str, BetweenRuns]], chance: Random
) -> None:
    machine = Machine(B, A, C, run_from=("*", "eva@*"))
    machine.client(RunOn(1, "lab-a", TTL, WISHES))
    machine.client(RunOn(2, "lab-c", TTL, WISHES))
    begun: dict[int, int] = {}
    """Job -> pieces of input that it has not used up."""
    for peer, message in said:
        before = machine.machine.key()
        try:
            machine.peer(peer, message)
        except ProtocolViolation:
            assert machine.machine.key() == before
        for order in machine.take(COMMANDS):
            match order:
                case BeginJob(job):
                    begun[job] = 0
                    machine.driver(JobBegan(job))
                case FeedJob(job):
                    begun[job] += 1
                    assert begun[job] <= WINDOW
                case StopJob(job, _):
                    del begun[job]
                    machine.driver(JobEnded(job, 137))
                case _:
                    pass
        for job in tuple(begun):
            if begun[job] and chance.random() < 0.3:
                begun[job] -= 1
                machine.driver(JobTook(job))
            if chance.random() < 0.2 and len(machine.machine.serving.jobs[job].unheard) < WINDOW:
                machine.driver(JobSaid(job, 1, b"x"))
            elif chance.random() < 0.05:
                del begun[job]
                machine.driver(JobEnded(job, 0))
        serving_, calling = machine.machine.serving, machine.machine.calling
        assert len(serving_.jobs) <= RUNS_MAX
        assert {one.run for one in serving_.by_run.values()} == set(serving_.by_run)
        assert {one.job for one in serving_.jobs.values() if one.run} == {
            one.job for one in serving_.by_run.values()
        }
        assert set(machine.timers) == {f"silent/{one.job}" for one in serving_.by_run.values()}
        assert set(calling.called) <= {1, 2}
        assert machine.machine.copy().key() == machine.machine.key()


def test_nobody_but_the_driver_speaks_for_jobs_and_nobody_but_clients_for_clients() -> None:
    machine = serving()
    before = machine.machine.key()
    attempts: list[tuple[Address, Message]] = [
        (Address(A, COMMANDS), JobEnded(1, 0)),
        (Address(A, RUNS), JobEnded(1, 0)),
        (Address(A, SESSION + "c"), Asked(RunOn(1, "lab-a", TTL, WISHES), 0, "root", "lot")),
        (Address(B, "agent"), RunQuit(1, 1)),
        (Address(B, SESSION + "c"), RunQuit(1, 1)),
        (Address(B, SESSION + "c"), Asked(frames.Invite(1), 0, "root", "lot")),
        (Address(B, COMMANDS), RunQuit(1, 1)),
        (Address(B, COMMANDS), JobEnded(7, 1)),
        (Address(A, RUNS), start()),
        (Address(A, RUNS), RunTold(1, 1, RunBeat(0, heard=1))),
    ]
    for sender, message in attempts:
        with pytest.raises(ProtocolViolation):
            machine.hear(sender, message)
        assert machine.machine.key() == before
    assert not machine.sent
