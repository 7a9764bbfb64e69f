"""A program that claims again and again with the Python interface, until TERM: stream.py HISTORY NEED [NEED …]."""

import json
import signal
import sys
import threading

import holdall

WORKS_S = 0.15
RESTS_S = 0.05


def main() -> None:
    """Prints one line for each grant: node, name and fence of each unit."""
    history, *needs = sys.argv[1:]
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: over.set())
    with holdall.sync.connect(history=history) as hub:
        while not over.wait(RESTS_S):
            with hub.lease(*needs, wait="30s", reason="again and again") as lease:
                units = [unit for units in lease.units.values() for unit in units]
                print("@" + json.dumps([(unit.node, unit.name, unit.fence) for unit in units]), flush=True)
                over.wait(WORKS_S)


if __name__ == "__main__":
    main()
