"""What the parts of a directory share: settings, own entry, other nodes, tombstones, time in rounds, whom to speak to."""

import hashlib
from collections.abc import Iterable
from typing import Literal, Self, TypeAlias

from holdall.machine.contract import Address, Effect, Message, Send
from holdall.parties.directory.announcing import OwnEntry, OwnPools
from holdall.parties.directory.known_nodes import Known, KnownNodes
from holdall.parties.directory.messages import (
    BUS,
    DIRECTORY,
    DirectorySettings,
    Member,
    Presence,
    Row,
    Tombstone,
    Warned,
)
from holdall.parties.messages import NODE

Phase: TypeAlias = Literal["starting", "serving", "stopped", "refused", "outcast"]
"""`stopped`, `refused` and `outcast` say and hear nothing any more."""

FEW = 3
"""Nodes that are told at once what all will know after some rounds."""
SILENT_TURN = 4
"""Every so many rounds the exchange is tried with a silent node, in case it is back."""


class DirectoryState:
    """One directory's memory. `out` collects the effects of the event under way."""

    def __init__(self, settings: DirectorySettings, pools: OwnPools, incarnation: int) -> None:
        self.settings = settings
        self.own = OwnEntry(settings, pools, incarnation)
        self.known = KnownNodes()
        self.known.silent_rounds = settings.silent_rounds
        self.tombstones: dict[str, Tombstone] = {}
        self.forgotten_digest = 0
        self.phase: Phase = "starting"
        self.round_armed = False
        self.has_warned_full = False
        self.rebutted_in = -1
        """Round of the latest rebuttal."""
        self.out: list[Effect] = []
        self._cycle = 0
        self._queue: list[str] = []
        """Who is still to be asked in this cycle, last one first."""

    # ------------------------------------------------------------ time

    @property
    def round(self) -> int:
        """Rounds since the start."""
        return self.known.round

    def ms_of(self, rounds: int) -> int:
        """How long so many rounds last, at least."""
        return max(rounds, 0) * self.settings.round_ms

    def rounds_in(self, milliseconds: int) -> int:
        """How many rounds pass in this time, at most."""
        return milliseconds // self.settings.round_ms

    def quiet_ms(self, known: Known) -> int:
        """How long nothing has been heard of a node."""
        return self.ms_of(self.round - known.heard)

    @property
    def keep_rounds(self) -> int:
        """A node that was heard within so many may still have leases: its name is not given to another."""
        settings = self.settings
        longest_ms = settings.ttl_max_ms + settings.ttl_max_ms * settings.rho_ppm // 1_000_000
        return -(-longest_ms // settings.round_ms)

    # ------------------------------------------------------------ speaking

    @property
    def is_mute(self) -> bool:
        """Whether this start is over for the directory."""
        return self.phase in {"stopped", "refused", "outcast"}

    def tell(self, node: str, message: Message) -> None:
        """To another directory."""
        self.out.append(Send(Address(node, DIRECTORY), message))

    def tell_node(self, message: Message) -> None:
        """To the driver."""
        self.out.append(Send(Address(self.settings.node, NODE), message))

    def warn(self, text: str) -> None:
        """For the node's log."""
        self.tell_node(Warned(text))

    def show_presence(self, to: str = "") -> None:
        """Ask whether somebody else runs under this identity, or answer the process `to` that asked."""
        serving = self.phase == "serving"
        message = Presence(self.settings.instance, self.own.incarnation, serving, to)
        self.out.append(Send(Address(self.settings.node, BUS), message))

    # ------------------------------------------------------------ what is known

    def row_of(self, node: str) -> Row | None:
        """How much is known of a node, this one included; None: nothing."""
        if node == self.settings.node:
            return self.own.row()
        known = self.known.by_id.get(node)
        return None if known is None else known.row()

    def rows(self) -> list[Row]:
        """All rows that say something, the own one first."""
        own = self.own.row()
        told = [known.row() for known in self.known.by_id.values() if known.header is not None]
        return told if own is None else [own, *told]

    def meet(self, member: Member) -> Known | None:
        """A node that may be new here. None: it is this one, it was forgotten, or there are too many."""
        if member.node == self.settings.node or member.node in self.tombstones:
            return None
        return self.known.by_id.get(member.node) or self.known.add(member, self.out)

    def bury(self, tombstone: Tombstone) -> None:
        """Note that a node was forgotten."""
        self.tombstones[tombstone.node] = tombstone
        self.forgotten_digest ^= _number_of(tombstone.node)

    # ------------------------------------------------------------ whom to speak to

    def next_peer(self) -> str | None:
        """Whom to exchange with in this round: all in turn, in an order that is another in each cycle and at each node."""
        silent = sorted(node for node, known in self.known.by_id.items() if known.state == "silent")
        live = {node for node, known in self.known.by_id.items() if known.state not in {"silent", "stopped"}}
        if silent and (not live or self.round % SILENT_TURN == 0):
            # Each begins elsewhere: after an outage of the bus all look for all, and must not ask the same one.
            turn = _number_of(self.settings.node) + self.round // (SILENT_TURN if live else 1)
            return silent[turn % len(silent)]
        if not live:
            return None
        while self._queue:
            peer = self._queue.pop()
            if peer in live:
                return peer
        self._cycle += 1
        self._queue = self.shuffled(live, self._cycle)
        return self._queue.pop()

    def a_few(self) -> list[str]:
        """Whom to tell at once."""
        live = [node for node, known in self.known.by_id.items() if known.state not in {"silent", "stopped"}]
        return self.shuffled(live, -1 - self.round)[:FEW]

    def shuffled(self, nodes: Iterable[str], number: int) -> list[str]:
        """An order that looks like chance and is the same each time it is asked for."""
        own = self.settings.node
        return sorted(nodes, key=lambda node: (_number_of(f"{own} {number} {node}"), node))

    def copy(self) -> Self:
        """An independent twin."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.own, twin.known = self.own.copy(), self.known.copy()
        twin.tombstones, twin._queue, twin.out = dict(self.tombstones), list(self._queue), []
        return twin


def _number_of(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
