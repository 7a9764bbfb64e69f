"""Histories as they grow, of all nodes: what a `Watch` is told, and what this node tells agents that watch it.

A subscription lives for a while and is renewed as long as somebody watches, so one whose watcher is gone ends. Each
renewal says which row was seen last: what a break has swallowed comes with the next one, and nothing comes twice.
"""

from collections.abc import Iterable

import msgspec

from holdall.leases.messages import AGENT
from holdall.machine.contract import Address, Message, Send
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec
from holdall.parties.listings.asking import why_not
from holdall.parties.listings.questions import PIECE_BYTES_MAX, PeerHappened, PeerWatch
from holdall.parties.listings.rows import Rows, parts
from holdall.parties.neighbours import Neighbour
from holdall.parties.state import Session, State

FOLLOW_TIMER = "follow"
FOLLOW_MS = 10_000
"""A subscription is renewed so often,"""
FOLLOWER_TIMER = "follower/"
FOLLOWER_MS = 3 * FOLLOW_MS
"""and ends when it was not renewed for so long."""
MISSED_MAX = 200
"""Rows that are told again after a break; of older ones only how many there were."""

ALL_NODES = ""


class Watching:
    """Both sides of it."""

    def __init__(self, state: State, rows: Rows) -> None:
        self._state = state
        self._rows = rows
        self._encoder = msgspec.msgpack.Encoder()

    # ------------------------------------------------------------ clients

    def watch(self, session: Session, frame: frames.Watch) -> None:
        """Tell each new row from now on, of all nodes or of one."""
        state = self._state
        node: str | None = state.settings.node if frame.local else ALL_NODES
        if frame.node and not frame.local:
            node = state.neighbours.node_named(frame.node)
        if node is None:
            known = ", ".join((state.name, *(one.name for one in state.neighbours.nodes())))
            text = f"no node is named {frame.node!r}. Known: {known}"
            state.tell(session.connection, frames.Denied(frame.n, BadSpec.code, text))
            return
        state.watchers[session.connection, frame.n] = node
        for known_node in state.neighbours.nodes():
            state.told_states.setdefault(known_node.node, known_node.state)
        fresh = [peer for peer in self._wanted() if peer not in state.followed]
        self._subscribe(fresh)

    def changed(self, nodes: Iterable[str]) -> None:
        """Other nodes come, go silent, leave or return: a part of what is watched."""
        state = self._state
        if not state.watchers:
            state.told_states.clear()
            return
        for node in nodes:
            known = state.neighbours.node(node)
            now = "forgotten" if known is None else known.state
            if state.told_states.get(node) == now:
                continue
            state.told_states[node] = now
            silent_ms = 0 if known is None else known.silent_ms // 1000 * 1000
            text = f"not heard for {show_duration(silent_ms)}" if now == "silent" else ""
            self._tell(node, [frames.LogRow(0, state.wall_ms, f"node-{now}", "", "", (), text)])
        self._subscribe(peer for peer in self._wanted() if peer in set(nodes))

    def fired(self) -> None:
        """Renew the subscriptions, or end them."""
        state = self._state
        wished = {known.node for known in self._wished()}
        for peer in [peer for peer in state.followed if peer not in wished]:
            del state.followed[peer]
            self._send(peer, PeerWatch(state.incarnation, on=False))
        self._subscribe(self._wanted())

    def happened(self, peer: str, message: PeerHappened) -> None:
        """Rows of a node that is watched."""
        state = self._state
        if message.incarnation != state.incarnation or peer not in state.followed:
            return
        last = state.followed[peer]
        rows = [row for row in message.rows if last is None or row.seq > last]
        if last is not None and rows and rows[0].seq > last + message.skipped + 1:
            # A row is missing: ask for it once; the next renewal would ask again.
            if peer not in state.catching_up:
                state.catching_up.add(peer)
                self._send(peer, PeerWatch(state.incarnation, after=last))
            return
        state.catching_up.discard(peer)
        state.followed[peer] = rows[-1].seq if rows else last if message.rows else message.newest
        if message.skipped and rows:
            text = f"{message.skipped} earlier rows are not told. See: holdall log"
            self._tell(peer, [frames.LogRow(0, rows[0].at_ms, "node-skipped", "", "", (), text)])
        self._tell(peer, rows)

    # ------------------------------------------------------------ other agents

    def followed(self, peer: str, message: PeerWatch) -> None:
        """A peer watches this node, or does so no more."""
        state = self._state
        if not message.on:
            if state.followers.pop(peer, None) is not None:
                state.cancel_timer(f"{FOLLOWER_TIMER}{peer}")
            return
        state.followers[peer] = message.incarnation
        state.set_timer(f"{FOLLOWER_TIMER}{peer}", FOLLOWER_MS)
        newest = state.log[-1].seq if state.log else 0
        after = message.after
        if after is None or after > newest:
            self._send(peer, PeerHappened(message.incarnation, newest=newest))
            return
        rows = self._rows.log_after(after)[-MISSED_MAX:]
        for part in parts(rows, PIECE_BYTES_MAX, self._encoder) if rows else ():
            skipped = part[0].seq - after - 1
            self._send(peer, PeerHappened(message.incarnation, part, newest=part[-1].seq, skipped=skipped))
            after = part[-1].seq

    def over(self, peer: str) -> None:
        """The peer has not renewed it."""
        self._state.followers.pop(peer, None)

    # ------------------------------------------------------------ inside

    def _wished(self) -> list[Neighbour]:
        """Peers that somebody here watches, the silent ones included: their rows are told when they are back."""
        nodes = set(self._state.watchers.values())
        neighbours = self._state.neighbours.nodes()
        return [known for known in neighbours if ALL_NODES in nodes or known.node in nodes]

    def _wanted(self) -> list[str]:
        """Those of them that can be asked."""
        return [known.node for known in self._wished() if not why_not(known)]

    def _subscribe(self, peers: Iterable[str]) -> None:
        state = self._state
        for peer in peers:
            self._send(peer, PeerWatch(state.incarnation, after=state.followed.setdefault(peer, None)))
        state.catching_up.clear()
        if any(node != state.settings.node for node in state.watchers.values()) and state.neighbours.nodes():
            state.set_timer(FOLLOW_TIMER, FOLLOW_MS)

    def _tell(self, node: str, rows: Iterable[frames.LogRow]) -> None:
        named = [msgspec.structs.replace(row, node=self._state.name_of(node)) for row in rows]
        for (connection, n), wanted in self._state.watchers.items():
            if wanted in {ALL_NODES, node}:
                for row in named:
                    self._state.tell(connection, frames.Happened(n, row))

    def _send(self, peer: str, message: Message) -> None:
        self._state.out.append(Send(Address(peer, AGENT), message))
