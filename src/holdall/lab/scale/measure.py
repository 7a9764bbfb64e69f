"""One run over many nodes in a process of its own, with what it cost in messages, waits, time and memory.

Nothing is kept for a message that is over, nor for a claim that is over, but its wait (8 bytes): memory must stay where it was
when all nodes had begun. It is looked at now and then while the run goes on.
"""

import gc
import os
import sys
import threading
import time
from pathlib import Path
from typing import Literal

import msgspec

from holdall.lab.compare.contestants import plain
from holdall.simulator.network import Delays
from holdall.simulator.run import Run
from holdall.simulator.setup import DELAY_MS, Setup
from holdall.simulator.workload import Workload

LOOK_EVERY_S = 0.5
SAY_EVERY_S = 15.0
STATM = Path("/proc/self/statm")
NEAR_MS, FAR_MS = 1, 150
WIDE_MEAN_MS = 50
"""With regions one mean message delay, the unit of all times, is so long."""


class ScaleCase(msgspec.Struct, frozen=True, kw_only=True):
    """One run: `nodes` nodes with a pool each, as many clients, each claims `k` pools anywhere again and again."""

    protocol: str
    nodes: int
    duration: float
    """In mean message delays: claims in all are about nodes * duration / 45."""
    regions: int | None = None
    """Hosts lie in so many regions, 1 to 150 ms apart; None: all links alike."""
    shape: Literal["random", "ring"] = "random"
    """Ring: each client's claims are its own node's pool and the next one's, always the same."""
    k: int = 2
    seed: int = 1
    said: bool = True
    """Tell on stderr how far it is."""

    @property
    def title(self) -> str:
        """For lines of progress."""
        return f"{self.protocol}, {self.nodes} nodes" + (
            "" if self.regions is None else f", {self.regions} regions"
        )


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory of the process in KiB."""

    empty: int
    """Before a node was made."""
    built: int
    """All nodes and clients are there."""
    half: int
    """Highest in the first half of the virtual time."""
    end: int
    """Highest in the second half."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """What a run showed; waits in mean message delays."""

    protocol: str
    nodes: int
    regions: int | None
    claims: int
    grants: int
    delivered: int
    messages: float
    """Per grant, without acknowledgements of an end."""
    mean: float
    p99: float
    longest: float
    throughput: float
    overtaken: int
    seconds: float
    """Processor time."""
    memory: Memory
    violations: list[str]

    @property
    def kib_per_node(self) -> float:
        """Memory for a node with its pool and a client's host."""
        return (max(self.memory.half, self.memory.end) - self.memory.empty) / self.nodes

    @property
    def bytes_per_claim(self) -> float:
        """Memory that the second half needed beyond the first, by the claims made in it."""
        return 1024 * max(0, self.memory.end - self.memory.half) / max(1, self.claims / 2)


class _Watch(threading.Thread):
    """Looks at memory and at the virtual time while the run goes on."""

    def __init__(self, run: Run, case: ScaleCase) -> None:
        super().__init__(daemon=True)
        self._run = run
        self._case = case
        self._until = case.duration * DELAY_MS
        self._over = threading.Event()
        self._said_s = time.monotonic()
        self.half = 0
        self.end = 0

    def run(self) -> None:
        """Until `stop`."""
        while not self._over.wait(LOOK_EVERY_S):
            self.look()

    def look(self) -> None:
        """Once."""
        share = self._run.now / self._until
        if share < 0.5:
            self.half = max(self.half, resident_kib())
        else:
            self.end = max(self.end, resident_kib())
        if self._case.said and time.monotonic() - self._said_s > SAY_EVERY_S:
            self._said_s = time.monotonic()
            grants = self._run.meter.counts["grants"]
            sys.stderr.write(f"{self._case.title}: {min(share, 1):.0%}, {grants:,} grants\n")
            sys.stderr.flush()

    def stop(self) -> None:
        """The run is over; a last look."""
        self._over.set()
        self.join()
        self.look()


def resident_kib() -> int:
    """Memory of this process now; 0 where the system does not tell it this way."""
    try:
        pages = int(STATM.read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def scale(case: ScaleCase) -> Scale:
    """Make the run."""
    gc.collect()
    empty = resident_kib()
    begun_s = time.process_time()
    run = Run(_setup(case))
    built = resident_kib()
    # what lives as long as the run need not be looked through again and again
    gc.freeze()
    watch = _Watch(run, case)
    watch.start()
    try:
        report = run.run()
    finally:
        watch.stop()
        gc.unfreeze()
    figures = report.figures
    return Scale(
        protocol=case.protocol,
        nodes=case.nodes,
        regions=case.regions,
        claims=figures.claims,
        grants=figures.grants,
        delivered=report.delivered,
        messages=figures.messages_per_claim,
        mean=figures.mean,
        p99=figures.p99,
        longest=figures.longest,
        throughput=figures.throughput,
        overtaken=figures.overtaken,
        seconds=time.process_time() - begun_s,
        memory=Memory(empty=empty, built=built, half=watch.half or built, end=watch.end),
        violations=report.violations,
    )


def _setup(case: ScaleCase) -> Setup:
    workload = Workload(
        pools=case.nodes,
        nodes=case.nodes,
        k=min(case.k, case.nodes),
        load="low",
        clients=case.nodes,
        shape=case.shape,
    )
    setup = plain(case.protocol).setup(workload, seed=case.seed, duration=case.duration)
    if case.regions is None:
        return setup
    delays = Delays(
        kind="regions", regions=case.regions, near=NEAR_MS / WIDE_MEAN_MS, far=FAR_MS / WIDE_MEAN_MS
    )
    return msgspec.structs.replace(setup, delays=delays)
