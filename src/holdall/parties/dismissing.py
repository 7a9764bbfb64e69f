"""Removing another node from the system for good, by word of this node's user."""

from holdall.machine.contract import Address, Send
from holdall.model import frames
from holdall.model.durations import show_duration
from holdall.model.errors import BadSpec, Refused
from holdall.parties.directory.messages import DIRECTORY, ForgetDone, ForgetNode
from holdall.parties.messages import Asked
from holdall.parties.state import Session, State


class Dismissing:
    """Passes the order to the directory and its answer to who gave it."""

    def __init__(self, state: State) -> None:
        self._state = state

    def forget(self, session: Session, frame: frames.Forget, asked: Asked) -> None:
        """A node that is heard is removed only on demand: its leases would be lost with it."""
        state = self._state
        if asked.uid not in {0, state.settings.uid}:
            text = "forget is for the user of the node or root."
            state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))
            return
        known = state.neighbours.node(state.neighbours.node_named(frame.node) or frame.node)
        if known is not None and known.state not in {"silent", "stopped"} and not frame.heard:
            text = (
                f"{known.name} is heard ({known.state}): forgetting it would shut it out with its leases, and its key "
                f"never comes back. Stop it first, or: holdall forget {frame.node} --force"
            )
            state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))
            return
        left_ms = 0 if known is None else self._longest_lease_ms() - known.silent_ms
        if known is not None and left_ms > 0 and not frame.heard:
            # Another node may come under the name that is free then, and give the same units.
            text = (
                f"{known.name} was heard {show_duration(known.silent_ms // 1000 * 1000)} ago, so leases on its units may "
                f"live for {show_duration(-(-left_ms // 1000) * 1000)} yet. Nothing waits for it meanwhile. "
                f"Come again then, or, if nobody can use them: holdall forget {frame.node} --force"
            )
            state.tell(session.connection, frames.Denied(frame.n, Refused.code, text))
            return
        number = max(state.dismissing, default=0) + 1
        state.dismissing[number] = (session.connection, frame.n)
        state.out.append(Send(Address(state.settings.node, DIRECTORY), ForgetNode(number, frame.node)))

    def _longest_lease_ms(self) -> int:
        """How long after its node's last word a lease can be believed in: ttl_max (1 + rho)."""
        settings = self._state.settings
        return -(-settings.ttl_max_ms * (1_000_000 + settings.rho_ppm) // 1_000_000)

    def done(self, message: ForgetDone) -> None:
        """The directory has done it, or not."""
        state = self._state
        connection, n = state.dismissing.pop(message.n, ("", 0))
        if message.ok:
            state.note("forgotten", message.text)
        if connection and message.ok:
            state.tell(connection, frames.Drained(n, message.text))
        elif connection:
            state.tell(connection, frames.Denied(n, BadSpec.code, message.text))
