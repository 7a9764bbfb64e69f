"""Linked hosts over a bad bus in virtual time: everything from one seed."""

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import msgspec
from machine.linked import Say, Talker

from holdall.machine.contract import Address, Boot, Received, SetTimer
from holdall.machine.host import Arrival, Host, Turn
from holdall.machine.link import LINK, Link, LinkCounts
from holdall.machine.link_frames import LinkFrame, LinkOpen
from holdall.machine.link_peer import LinkSettings, Peer

FAULTS_END_MS = 90_000
SETTLED_MS = 100_000
LAST_WORDS_MS = 110_000
OVER_MS = 200_000


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """How bad the bus and the hosts are until the faults end."""

    loss: float = 0.1
    double: float = 0.1
    delay_ms: float = 40.0
    """Mean; exponential, so frames overtake each other."""
    cut_every_ms: float = 15_000.0
    cut_ms: float = 20_000.0
    restart_every_ms: float = 25_000.0
    lost_count: float = 0.2
    """Share of restarts in which the number of the process goes back to 1."""


class Process:
    """One life of a node."""

    def __init__(self, name: str, number: int, host: Host) -> None:
        self.name, self.number, self.host = name, number, host
        self.said: dict[str, int] = defaultdict(int)
        self.judged = 0
        self.pairs: dict[tuple[str, object, object], list[tuple[int, int]]] = defaultdict(list)
        """Pair of ends, as the hearer knows it -> (speaker's process, word), in order."""
        self.last: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
        self.timers: dict[str, int] = {}
        """Name -> number of the setting that counts."""

    @property
    def link(self) -> Link:
        assert self.host.link is not None
        return self.host.link

    @property
    def talker(self) -> Talker:
        part = self.host.parts["claimant"]
        assert isinstance(part, Talker)
        return part


class Simulation:
    def __init__(self, seed: int, faults: Faults, peer: type[Peer] = Peer, names: str = "abc") -> None:
        self.random = random.Random(seed)
        self.faults = faults
        self.peer = peer
        self.now = 0
        self.counts = LinkCounts()
        self.restarts = 0
        self.cuts = 0
        self._cut: set[tuple[str, str]] = set()
        self._numbers = dict.fromkeys(names, 0)
        self._incarnations = dict.fromkeys(names, 0)
        self._order = itertools.count()
        self._due: list[tuple[int, int, Callable[[], None]]] = []
        self.nodes = {name: self._process(name) for name in names}

    def run(self) -> "Simulation":
        """To the end; raises AssertionError where a property does not hold."""
        for name in self.nodes:
            self._at(self._pause(2000), partial(self._speak, name))
        self._fault(self.faults.cut_every_ms, self._cuts)
        self._fault(self.faults.restart_every_ms, self._restarts)
        self._at(SETTLED_MS, self._first_words)
        self._at(LAST_WORDS_MS, self._last_words)
        while self._due:
            self.now, _, do = heapq.heappop(self._due)
            assert self.now < OVER_MS, "the links do not come to rest"
            do()
        self._judge_end()
        return self

    # What happens

    def _process(self, name: str, *, lost_count: bool = False) -> Process:
        self._numbers[name] += 1
        self._incarnations[name] = 1 if lost_count else self._incarnations[name] + 1
        link = Link(name, LinkSettings(), instance=self.random.randrange(1 << 53), peer=self.peer)
        process = Process(name, self._numbers[name], Host(name, {"claimant": Talker()}, link))
        self._act(process, process.host.recover({}, Boot("same", 1, self._incarnations[name])))
        return process

    def _pause(self, mean_ms: float) -> int:
        return self.now + round(self.random.expovariate(1 / mean_ms))

    def _at(self, when: int, do: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._order), do))

    def _fault(self, mean_ms: float, do: Callable[[], None]) -> None:
        when = self._pause(mean_ms)
        if when < FAULTS_END_MS:
            self._at(when, do)

    def _is_bad(self) -> bool:
        return self.now < FAULTS_END_MS

    def _speak(self, name: str) -> None:
        others = [other for other in self.nodes if other != name]
        said = [
            (self.random.choice(others), self.random.randint(1, 4)) for _ in range(self.random.randint(1, 3))
        ]
        self._say(self.nodes[name], said)
        if self._is_bad():
            self._at(self._pause(600), lambda: self._speak(name))

    def _say(self, process: Process, said: list[tuple[str, int]]) -> None:
        arrivals: list[Arrival] = []
        for other, count in said:
            words: list[str] = []
            for _ in range(count):
                process.said[other] += 1
                words.append(f"{process.number}:{process.said[other]}")
            event = Received(Address(process.name, "node"), Say(other, tuple(words)))
            arrivals.append(Arrival("claimant", event))
        self._turn(process, arrivals)

    def _first_words(self) -> None:
        """After the faults each tries all others, so that everybody knows who lives."""
        for process in self.nodes.values():
            self._say(process, [(other, 1) for other in self.nodes if other != process.name])

    def _last_words(self) -> None:
        for process in self.nodes.values():
            assert all(peer.is_idle for peer in process.link.peers.values()), "not at rest after the faults"
            self._say(process, [(other, 3) for other in self.nodes if other != process.name])

    def _cuts(self) -> None:
        a, b = self.random.sample([*self.nodes], 2)
        cut = {(a, b)} if self.random.random() < 0.5 else {(a, b), (b, a)}
        self._cut |= cut
        self.cuts += 1
        self._at(
            min(self._pause(self.faults.cut_ms), FAULTS_END_MS), lambda: self._cut.difference_update(cut)
        )
        self._fault(self.faults.cut_every_ms, self._cuts)

    def _restarts(self) -> None:
        name = self.random.choice([*self.nodes])
        self._add(self.nodes[name].link.counts)
        self.restarts += 1
        self.nodes[name] = self._process(name, lost_count=self.random.random() < self.faults.lost_count)
        self._fault(self.faults.restart_every_ms, self._restarts)

    # Turns

    def _turn(self, process: Process, arrivals: list[Arrival]) -> None:
        turn = process.host.turn(arrivals)
        self._judge(process, arrivals)
        self._act(process, turn)

    def _act(self, process: Process, turn: Turn) -> None:
        for name, timer in turn.timers.items():
            setting = next(self._order)
            process.timers[name] = setting
            if isinstance(timer, SetTimer):
                after_ms = timer.after_ms + self.random.randint(0, timer.spread_ms)
                self._at(self.now + after_ms, partial(self._fire, process, name, setting))
        for _, to, message in turn.sends:
            assert isinstance(message, LinkOpen | LinkFrame)
            self._post(process.name, to.node, message)

    def _fire(self, process: Process, name: str, setting: int) -> None:
        if process.timers.get(name) == setting and self.nodes[process.name] is process:
            del process.timers[name]
            self._turn(process, [process.host.fire(name)])

    def _post(self, sender: str, to: str, message: LinkOpen | LinkFrame) -> None:
        faults, bad = self.faults, self._is_bad()
        if (sender, to) in self._cut or (bad and self.random.random() < faults.loss):
            return
        for _ in range(2 if bad and self.random.random() < faults.double else 1):
            self._at(self._pause(faults.delay_ms), lambda: self._arrive(sender, to, message))

    def _arrive(self, sender: str, to: str, message: LinkOpen | LinkFrame) -> None:
        self._turn(self.nodes[to], [Arrival(LINK, Received(Address(sender, LINK), message))])

    # Judging

    def _judge(self, process: Process, arrivals: list[Arrival]) -> None:
        fresh = process.talker.heard[process.judged :]
        process.judged += len(fresh)
        for text in fresh:
            sender, _, word = text.partition(": ")
            speaker = sender.partition("/")[0]
            number, _, count = word.partition(":")
            heard = (int(number), int(count))
            assert heard > process.last[speaker], (
                f"{process.name} hears {heard} after {process.last[speaker]}"
            )
            process.last[speaker] = heard
            peer = process.link.peers[speaker]
            run = process.pairs[speaker, peer.own, peer.yours]
            if run:
                assert run[-1] == (heard[0], heard[1] - 1), f"{heard} after {run[-1]} within one pair"
            run.append(heard)
            (frame,) = [arrival.event for arrival in arrivals]
            assert isinstance(frame, Received)

    def _judge_end(self) -> None:
        for process in self.nodes.values():
            self._add(process.link.counts)
            assert all(peer.is_idle for peer in process.link.peers.values())
            for other, said in process.said.items():
                heard = self.nodes[other].last[process.name]
                assert heard == (process.number, said), (
                    f"{process.name} said {said} to {other}, heard is {heard}"
                )
                (run,) = [
                    run
                    for (speaker, _, _), run in self.nodes[other].pairs.items()
                    if speaker == process.name and run[-1] == heard
                ]
                assert len(run) >= 3, "the last words are not in one pair"

    def _add(self, counts: LinkCounts) -> None:
        for name in counts.__struct_fields__:
            setattr(self.counts, name, getattr(self.counts, name) + getattr(counts, name))
