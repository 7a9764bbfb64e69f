"""How many states the explorer finds per second of processor time, and how many bytes it keeps of each.

    python bench/explorer.py [--compact]

Times depend on the machine; one column sets them against a loop of plain additions on the same processor, so that
runs on different or busy machines can be compared. Bytes are those of states, of the ways to them and of the moves of
progress; the tables of local states, which all states share, are told apart.
"""

import sys
import time
import tracemalloc

from holdall.explorer.search import Search
from holdall.explorer.space import Space
from holdall.world.chain import ChainSystem
from holdall.world.faults import read_faults
from holdall.world.named import named

LOOP = 2_000_000
RATE_MIN, BYTES_MAX = 10_000, 120
WORLDS = (("x4", ""), ("ring3+1", ""), ("x2", "crash=1"), ("n1abc", "reboot=1"), ("x2low", "expiry=1"))


def loop_seconds() -> float:
    begun = time.process_time()
    total = 0
    for number in range(LOOP):
        total += number
    return time.process_time() - begun


def search_of(world: str, faults: str, *, compact: bool) -> Search:
    return Search(Space(ChainSystem(named(world)), read_faults(faults)), compact=compact)


def shared_bytes(world: str, faults: str, *, compact: bool) -> float:
    """What the tables of local states take for each state: all that a run keeps, less what the search counts."""
    tracemalloc.start()
    search = search_of(world, faults, compact=compact)
    result = search.run()
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return kept / result.states - result.bytes_per_state


def main() -> None:
    compact = "--compact" in sys.argv[1:]
    print(
        f"{'world':22} {'states':>9} {'moves':>10} {'states/s':>9} {'per million additions':>22} "
        f"{'B/state':>8} {'tables':>7}"
    )
    for world, faults in WORLDS:
        search = search_of(world, faults, compact=compact)
        before = loop_seconds()
        begun = time.process_time()
        result = search.run()
        seconds = time.process_time() - begun
        additions = LOOP * seconds / ((before + loop_seconds()) / 2)
        assert result.complete
        assert not result.violations
        assert result.bytes_per_state < BYTES_MAX
        rate = result.states / seconds
        print(
            f"{world + (' ' + faults if faults else ''):22} {result.states:9,} {result.transitions:10,} {rate:9,.0f} "
            f"{result.states / additions * 1_000_000:22,.0f} {result.bytes_per_state:8.1f} "
            f"{shared_bytes(world, faults, compact=compact):7.0f}"
        )
        if rate < RATE_MIN:
            print(f"slower than {RATE_MIN:,} states/s; is the machine busy?", file=sys.stderr)


if __name__ == "__main__":
    main()
