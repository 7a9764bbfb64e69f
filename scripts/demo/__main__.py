"""Three nodes, several real parties; a holder is killed, then a node; everything is shown as it happens.

Started by ./demo. Nothing in it is staged: `holdall serve`, `join` and `run` are the installed commands, the kills are
`kill -9`, and at the end the recorded histories go to `holdall check`. Ends with 0 only if what it shows is what
holdall promises, and leaves no process and no file behind, however it ends.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from scripts.demo.ending import (
    check_fences,
    end_everything,
    is_alive,
    judge,
    longest_pause,
    summary,
    write_history_head,
)
from scripts.demo.lab import Lab
from scripts.demo.parties import Party, Runner, Stream, note
from scripts.demo.stage import Stage, last_lines

AWAY_S = 4.0
"""How long the first node stays away at least."""
GRANTS_WHILE_AWAY = 6
PLACE_LETTERS_MAX = 50

ANN = Runner(
    "ann",
    "lab-2",
    ("board:1", "psu:2", "scope:1"),
    "one claim over all three nodes, and would keep it for ten minutes",
    task="soak test",
    works_s=600,
)
BOB = Runner(
    "bob",
    "lab-3",
    ("scope:1", "board:1"),
    "names its needs in the other order: no deadlock, it waits for ann",
    task="calibration",
    works_s=1.5,
)
CEM = Runner(
    "cem", "lab-2", ("psu:1",), "wants one free supply, and gets it at once", task="bring-up", works_s=2
)
DIA = Runner(
    "dia",
    "lab-1",
    ("board:2", "psu:3", "scope:1"),
    "wants everything there is; holds nothing of it while it waits",
    task="nightly",
    works_s=1.5,
)
EVA = Stream("eva", "lab-2", ("psu:2", "scope:1"), "over lab-2 and lab-3")
GUS = Stream("gus", "lab-3", ("scope:1", "psu:2"), "the same, from the other side")
FAY = Runner(
    "fay",
    "lab-3",
    ("board:1",),
    "holds a board of lab-1 all the time that follows",
    task="long test",
    works_s=600,
)
IDA = Runner(
    "ida", "lab-3", ("board:1", "psu:1", "scope:1"), "over all three again", task="release", works_s=1
)
PARTIES: tuple[Party, ...] = (ANN, BOB, CEM, DIA, EVA, GUS, FAY, IDA)


def main() -> int:
    """Play it; the exit status says whether everything was as promised."""
    stage = Stage()
    stage.take_signals()
    place = tempfile.gettempdir()
    if len(place) > PLACE_LETTERS_MAX:
        place = "/tmp"  # noqa: S108 (the path of a unix socket has 107 letters at most)
    folder = Path(tempfile.mkdtemp(dir=place, prefix="hd-demo-"))
    lab = Lab(stage, folder)
    try:
        write_history_head(folder)
        status = play(lab)
    finally:
        clean = end_everything(lab, PARTIES)
        shutil.rmtree(folder, ignore_errors=True)
    stage.tell("demo", f"took {stage.now():.0f} s")
    return status if clean else 1


def play(lab: Lab) -> int:
    """The story. 0 when all was as promised, 1 when not, else the status of whoever ends because of a signal."""
    stage = lab.stage
    try:
        stage.act("three nodes become one system")
        lab.start()
        a_holder_dies(lab)
        a_node_dies(lab)
        stage.act("who got what, and whether it was right")
        summary(lab, PARTIES)
        check_fences(PARTIES)
        judge(lab)
    except Exception as trouble:  # noqa: BLE001 (whatever it is, it is told, and everything is ended)
        # A signal to our group also ends a command that was just being started and had no group of its own yet;
        # that this command failed is no news then.
        if stage.interrupted is not None:
            stage.tell("demo", f"{stage.interrupted}: everything is ended now")
            return stage.interrupted.status
        stage.tell("demo", f"FAILED: {trouble!s}")
        for node in lab.nodes.values():
            stage.tell(node.name, last_lines(node.folder / "log", 12))
            stage.tell(node.name, last_lines(node.folder / "state" / "bus" / "nats-server.log", 6))
        return 1
    return 0


def a_holder_dies(lab: Lab) -> None:
    """Ann holds units of all nodes; bob and dia wait for some; cem passes, since nobody needs what it wants."""
    stage = lab.stage
    stage.act("all or nothing, over three nodes")
    ANN.ask(lab)
    stage.wait_until(lambda: bool(ANN.holding), "ann is granted")
    lab.look("lab-1", "show", lab.lease_of("lab-1", "ann"))
    BOB.ask(lab)
    stage.wait_until(lambda: "bob" in lab.waiting("lab-1"), "bob waits")
    CEM.ask(lab)
    DIA.ask(lab)
    stage.wait_until(lambda: bool(CEM.holding), "cem is granted")
    stage.wait_until(lambda: "dia" in lab.waiting("lab-1"), "dia waits")
    lab.look("lab-1", "why", lab.waiting("lab-1")["dia"])

    stage.act("a holder is killed")
    ANN.kill(lab)
    stage.wait_until(lambda: bool(BOB.holding), "bob is granted")
    stage.wait_until(lambda: bool(DIA.holding), "dia is granted")
    tell_heirs(lab)
    stage.wait_until(lambda: all(one.over(stage) for one in (BOB, CEM, DIA)), "bob, cem and dia are done")


def tell_heirs(lab: Lab) -> None:
    """When each unit of the killed party was granted again, to whom. Raises RuntimeError if a fence did not grow."""
    died = ANN.ended_at or 0.0
    rows = ["who has them now, with a higher fence each:"]
    for unit, fence in ANN.holding.items():
        heirs = [one for one in (BOB, DIA) if unit in one.holding]
        heir = min(heirs, key=lambda one: one.granted_at[0])
        if heir.holding[unit] <= fence:
            raise RuntimeError(
                f"{unit[1]} went to {heir.name} with fence {heir.holding[unit]}, not above {fence}"
            )
        after = heir.granted_at[0] - died
        rows.append(
            f"{unit[1]:<8} of {unit[0]}: ann #{fence}, {after:.1f} s after the kill {heir.name} #{heir.holding[unit]}"
        )
    lab.stage.tell("demo", "\n".join(rows))


def a_node_dies(lab: Lab) -> None:
    """Lab-1 is killed and comes back: claims over the others go on, a lease on its board lives on."""
    stage, first = lab.stage, lab.nodes["lab-1"]
    stage.act("the first node is killed, and with it its nats-server")
    for party in (FAY, EVA, GUS):
        party.ask(lab)
    stage.wait_until(lambda: bool(FAY.holding), "fay is granted")
    stage.wait_until(lambda: min(len(EVA.granted_at), len(GUS.granted_at)) >= 2, "eva and gus are granted")
    died = kill_first(lab)
    stage.wait_until(lambda: len(since(died)) >= GRANTS_WHILE_AWAY, "claims over the other two nodes go on")
    tell_grants(lab, died)
    lab.look("lab-2", "pools", "psu")
    stage.wait_until(lambda: stage.now() - died >= AWAY_S, "some seconds have gone by")
    tell_grants(lab, died)

    stage.act("it comes back")
    lab.restart(first)
    back = stage.now()
    stage.tell(
        "demo", f"lab-1 was away for {back - died:.1f} s: {len(since(died))} claims were granted meanwhile"
    )
    if FAY.over(stage):
        raise RuntimeError("fay's lease did not outlive the death of lab-1")
    IDA.ask(lab)
    stage.wait_until(lambda: bool(IDA.holding), "ida is granted units of all three nodes")
    after = IDA.granted_at[0] - back
    stage.tell("demo", f"granted over all three, {after:.1f} s after lab-1 is back: {IDA.held()}")
    lab.look("lab-2", "show", lab.lease_of("lab-2", "fay"))
    stage.tell("demo", "fay's lease is older than the process of lab-1: the journal kept it, nobody noticed")
    for party in (EVA, GUS, FAY):
        party.end()
    stage.wait_until(lambda: IDA.over(stage), "ida is done")
    stage.wait_until(lambda: not lab.rows("lab-2", "who"), "everything is given back")


def kill_first(lab: Lab) -> float:
    """`kill -9` of lab-1; when, in seconds since the start. Raises TimeoutError when its server outlives it."""
    first = lab.nodes["lab-1"]
    if first.process is None or first.server is None:
        raise RuntimeError("lab-1 does not run")
    server = first.server
    lab.stage.tell("kill", f"$ kill -9 {first.process.pid}    (lab-1)")
    died, at = lab.stage.now(), time.monotonic_ns()
    first.kill()
    note(lab.folder, {"t": "fault", "kind": "kill of lab-1", "start": at, "end": time.monotonic_ns()})
    lab.stage.wait_until(lambda: not is_alive(server), "no nats-server outlives its node", 5.0)
    lab.stage.tell("kill", f"the kernel has ended its nats-server {server} with it; eva and gus go on")
    return died


def since(moment: float) -> list[float]:
    """When eva and gus were granted after that moment."""
    return [at for stream in (EVA, GUS) for at in stream.granted_at if at > moment]


def tell_grants(lab: Lab, died: float) -> None:
    """How eva and gus fare without lab-1."""
    now = lab.stage.now()
    lab.stage.tell(
        "demo",
        f"{len(since(died))} claims over lab-2 and lab-3 granted in {now - died:.1f} s without lab-1;"
        f" the longest pause was {longest_pause((EVA, GUS), died, now):.1f} s",
    )


if __name__ == "__main__":
    sys.exit(main())
