"""Nodes that an operator has removed: tombstones, how they spread, and what a removed node hears when it comes back.

An id that was forgotten never comes back; whoever runs that machine again lets it have an identity of its own. Any
member may say it, as an operator may at any node, so members trust each other with it.
"""

from holdall.machine.contract import Address, Save, Send
from holdall.parties.directory.known_nodes import Known
from holdall.parties.directory.messages import (
    TOMBSTONE_PREFIX,
    TOMBSTONES_MAX,
    ForgetDone,
    ForgetNode,
    Shunned,
    Tombstone,
    Tombstones,
    YouAreForgotten,
)
from holdall.parties.directory.naming import Naming
from holdall.parties.directory.state import DirectoryState


class Forgetting:
    """Removes nodes, here and by word of others."""

    def __init__(self, state: DirectoryState, naming: Naming) -> None:
        self._state = state
        self._naming = naming

    def asked(self, sender: Address, message: ForgetNode) -> None:
        """An operator at this node."""
        state = self._state
        found = self._find(message.name)
        if isinstance(found, str):
            state.out.append(Send(sender, ForgetDone(message.n, ok=False, text=found)))
            return
        word = {"silent": f"silent for {state.quiet_ms(found) // 1000} s", "stopped": "stopped"}.get(
            found.state, "alive, it is told"
        )
        tombstone = Tombstone(found.member.node, found.member.name, state.settings.name)
        self._take(tombstone)
        for peer in state.a_few():
            state.tell(peer, Tombstones((tombstone,)))
        text = f'node "{tombstone.name}" (key {tombstone.node[:8]}…, {word}) is forgotten; its name is free'
        state.out.append(Send(sender, ForgetDone(message.n, ok=True, text=text)))

    def told(self, peer: str, message: Tombstones) -> None:
        """Another node tells who was forgotten."""
        state = self._state
        for tombstone in message.tombstones:
            if tombstone.node == state.settings.node:
                self._naming.outcast(tombstone)
                return
            if tombstone.node not in state.tombstones and len(state.tombstones) < TOMBSTONES_MAX:
                self._take(tombstone)
        if message.whole:
            theirs = {tombstone.node for tombstone in message.tombstones}
            lacking = tuple(state.tombstones[node] for node in sorted(state.tombstones) if node not in theirs)
            if lacking:
                state.tell(peer, Tombstones(lacking))

    def refuse(self, peer: str) -> None:
        """A forgotten node speaks."""
        self._state.tell(peer, YouAreForgotten(self._state.tombstones[peer]))

    def recovered(self, tombstone: Tombstone) -> None:
        """From before a restart."""
        self._state.bury(tombstone)
        self._state.tell_node(Shunned(tombstone.node, tombstone.name))

    def _take(self, tombstone: Tombstone) -> None:
        state = self._state
        state.bury(tombstone)
        state.out.append(Save(TOMBSTONE_PREFIX + tombstone.node, tombstone))
        state.tell_node(Shunned(tombstone.node, tombstone.name))
        state.tell(tombstone.node, YouAreForgotten(tombstone))
        self._naming.starting.pop(tombstone.node, None)
        self._naming.asked.pop(tombstone.node, None)
        if tombstone.node in state.known.by_id:
            state.known.remove(tombstone.node, state.out)

    def _find(self, name: str) -> Known | str:
        state = self._state
        by_id = state.known.by_id.get(name)
        found = [by_id] if by_id is not None else state.known.named(name)
        if len(found) == 1:
            if len(state.tombstones) >= TOMBSTONES_MAX:
                return f"{TOMBSTONES_MAX} nodes are forgotten already; no more can be remembered"
            return found[0]
        if found:
            keys = ", ".join(known.member.node for known in found)
            return f'{len(found)} nodes are named "{name}"; forget one by its key: {keys}'
        if name in {state.settings.name, state.settings.node}:
            return f'"{name}" is this node; say it at another one'
        names = ", ".join(sorted({known.member.name for known in state.known.by_id.values()})[:10])
        return f'no node "{name}" is known here' + (f"; known are {names}" if names else "")
