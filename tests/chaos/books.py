"""What the nodes' own books say while it lasts: recorded as audits, and kept to see when units came back."""

import threading
from collections.abc import Sequence
from typing import NamedTuple

from chaos.hosts import Host
from node.lab import Client

from holdall.client.history import HistoryWriter
from holdall.model import frames

EVERY_S = 0.2


class Entry(NamedTuple):
    """From `at` on (stamp of a history) the books showed this of a unit."""

    at: int
    is_given: bool
    """Somebody has it, or had it and it is being cleaned."""
    fence: int


class Books(threading.Thread):
    """Reads the books of one host again and again, as long as its node answers.

    A thread of its own, since a stopped node keeps who asks it waiting.
    """

    def __init__(self, host: Host, shared: frozenset[str], history: HistoryWriter) -> None:
        """`shared`: pools that lie on several hosts, whose books add up only together."""
        super().__init__(daemon=True, name=f"books of {host.name}")
        self.host = host
        self.entries: dict[tuple[str, str], list[Entry]] = {}
        """By pool and unit; a new entry when something is different."""
        self.readings = 0
        self._shared = shared
        self._history = history
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.is_set():
            try:
                with Client(self.host.socket, agent="books") as client:
                    while not self._ended.wait(EVERY_S):
                        self._read(client)
            except (OSError, AssertionError):  # it is dead, or has just died
                self._ended.wait(EVERY_S)

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def _read(self, client: Client) -> None:
        call = self._history.now()
        rows = own_rows(client)
        at = self._history.now()
        self.readings += 1
        for row in rows:
            self._note(row, at)
            if row.pool not in self._shared:
                audit(self._history, [row], call, at, quiesced=False)

    def _note(self, row: frames.PoolRow, at: int) -> None:
        for unit in row.units:
            entries = self.entries.setdefault((row.pool, f"{unit.unit}@{row.node}"), [])
            entry = Entry(at, unit.state != "free", unit.fence)
            if not entries or entries[-1][1:] != entry[1:]:
                entries.append(entry)


def own_rows(client: Client) -> tuple[frames.PoolRow, ...]:
    """The pools of the node itself."""
    client.send(frames.Ask(n=client.n(), what="pools", local=True))
    page = client.wait(frames.Listing)
    rows = page.pools
    while page.more:
        page = client.wait(frames.Listing)
        rows += page.pools
    return tuple(row for row in rows if row.node == client.welcome.node)


def audit(
    history: HistoryWriter, rows: Sequence[frames.PoolRow], call: int, at: int, *, quiesced: bool
) -> None:
    """One line about one pool; `rows`: all of it, on whatever nodes it lies."""
    history.audit(
        rows[0].pool,
        call=call,
        at=at,
        total=sum(row.total for row in rows),
        free=sum(row.free for row in rows),
        held=sum(row.held + row.unusable for row in rows),
        fences={f"{unit.unit}@{row.node}": unit.fence for row in rows for unit in row.units},
        quiesced=quiesced,
    )
