"""Care of the node's units: draining, clearing after a look, and another configuration."""

from holdall.leases.negotiation.host_messages import Drain, Undrain
from holdall.machine.contract import Address, Send
from holdall.model import frames
from holdall.model.errors import BadSpec, Refused
from holdall.model.names import pool_name
from holdall.parties.listings.answers import Answers
from holdall.parties.location.messages import HOST
from holdall.parties.messages import Asked, ClearUnit, DrainUnits, Reload, UnitTrouble
from holdall.parties.state import Session, State


class Care:
    """Orders of the node's user about units, and what units report."""

    def __init__(self, state: State, answers: Answers) -> None:
        self._state = state
        self._answers = answers

    def drain(self, session: Session, frame: frames.Drain, asked: Asked) -> None:
        """No new grants on this node, or grants again."""
        if not self._may(session, frame.n, asked, "drain"):
            return
        self.drain_node(on=frame.on, text=f"by {session.record.holder}")
        held = sum(1 for claim in self._state.by_printed.values() if claim.record.grants)
        if frame.on:
            text = f"{self._state.name} gives no units any more; {held} leases go on to their ends."
        else:
            text = f"{self._state.name} gives units again."
        self._state.tell(session.connection, frames.Drained(frame.n, text))

    def drain_node(self, *, on: bool, text: str) -> None:
        """The same without an answer: the driver's order when it is told to end."""
        self._state.to_manager(DrainUnits(on=on))
        if self._state.settings.offers:
            order = Drain() if on else Undrain()
            self._state.out.append(Send(Address(self._state.own, HOST), order))
        self._state.note("drained", f"{'draining' if on else 'serving again'} {text}".rstrip())

    def clear(self, session: Session, frame: frames.Clear, asked: Asked) -> None:
        """A person has looked at a unit in quarantine."""
        if not self._may(session, frame.n, asked, "clear"):
            return
        name, _, unit = frame.unit.rpartition("/")
        found = [
            (pool, row)
            for pool in self._state.pools.pools()
            if name in {pool, pool_name(pool)}
            for row, _ in self._state.pools.unit_rows(pool)
            if row.unit == unit
        ]
        if len(found) > 1:
            # A device whose pool has other labels now is still one of the earlier pool while it is out of service.
            found = [one for one in found if one[1].state == "quarantined"] or found
        if len(found) != 1:
            number = f"{len(found)} units are" if found else "no unit is"
            text = f"{number} named {frame.unit!r}; write pool/unit. See: holdall pools"
            denied = frames.Denied(frame.n, BadSpec.code, text)
            if found:
                self._state.tell(session.connection, denied)
            else:
                self._answers.elsewhere(session.connection, frame, frame.unit, denied)
        elif found[0][1].state != "quarantined":
            text = f"{frame.unit} is not in quarantine but {found[0][1].state}: nothing to clear."
            self._state.tell(session.connection, frames.Drained(frame.n, text))
        else:
            self._state.to_manager(ClearUnit(found[0][0], unit))
            text = f"{frame.unit} is out of quarantine (it was: {found[0][1].note})."
            self._state.tell(session.connection, frames.Drained(frame.n, text))

    def reload(self, message: Reload) -> None:
        """The pools as configured now. Held units stay with their holders."""
        self._state.to_manager(message)
        self._state.reconfigure()
        units = sum(len(spec.units) for spec in message.pools)
        self._state.note("reloaded", f"{len(message.pools)} pools with {units} units")

    def trouble(self, message: UnitTrouble) -> None:
        """A unit has gone into quarantine, or come out of it."""
        self._state.note(message.kind, f"{pool_name(message.pool)}/{message.unit}: {message.text}")

    def _may(self, session: Session, n: int, asked: Asked, verb: str) -> bool:
        if asked.uid in {0, self._state.settings.uid}:
            return True
        text = f"{verb} is for the user of the node or root."
        self._state.tell(session.connection, frames.Denied(n, Refused.code, text))
        return False
