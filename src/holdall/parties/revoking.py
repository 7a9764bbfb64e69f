"""Revocation: an operator takes a lease away, and its holder stops before anybody else gets the units."""

from holdall.leases.messages import RaiseFence
from holdall.model import frames
from holdall.model.errors import NotHolder, Refused
from holdall.model.names import short_id
from holdall.parties.ends import Ends
from holdall.parties.finding import HELD
from holdall.parties.listings.answers import Answers
from holdall.parties.messages import Asked
from holdall.parties.state import Claim, Session, State
from holdall.parties.texts import void


class Revoking:
    """Kicks, from the order to the confirmation or the expiry."""

    def __init__(self, state: State, ends: Ends, answers: Answers) -> None:
        self._state = state
        self._ends = ends
        self._answers = answers

    def kick(self, session: Session, frame: frames.Kick, asked: Asked) -> None:
        """Revoke a lease (or end a waiting claim): the holder stops and confirms, or its lease runs out.

        `unsafe` frees the units at once; only what checks fences is protected then.
        """
        state = self._state
        connection, n = session.connection, frame.n
        if asked.uid not in {0, state.settings.uid}:
            text = "kick is for the user of the node or root. Ask the holder to release, see: holdall who"
            state.tell(connection, frames.Denied(n, Refused.code, text))
            return
        found = state.typed(frame.lease)
        if len(found) != 1:
            number = f"{len(found)} leases are" if found else "no lease is"
            text = f"{number} named {frame.lease}. See: holdall who"
            denied = frames.Denied(n, NotHolder.code, text)
            if found:
                state.tell(connection, denied)
            else:
                self._answers.elsewhere(connection, frame, frame.lease, denied)
            return
        claim = found[0]
        by = f"{session.record.holder}: {frame.reason}"
        if claim.record.phase not in HELD:
            self._ends.deny(claim, Refused.code, f"ended by {by}")
            self._ends.over(claim, "kicked", by)
            state.tell(connection, frames.Released(n, claim.record.printed, "kicked"))
        elif frame.unsafe:
            self._ends.to_managers(claim.record, RaiseFence)
            fences = void([grant.fence for grant in claim.record.grants])
            self._ends.lost(claim, f"lease {short_id(claim.record.printed)} was taken away by {by}. {fences}")
            self._ends.over(
                claim, "kicked", f"{by} (by force: what does not check fences is not protected)", unclean=True
            )
            what = f"kicked by force. What does not check fences is not protected from its former holder. {fences}"
            state.tell(connection, frames.Released(n, claim.record.printed, what))
        else:
            claim.told_to.append((connection, n, "kicked"))
            if claim.record.phase != "draining":
                claim.kicked_boot_ms = state.boot_ms
                state.change(claim, phase="draining", revoked=by)
                state.set_timer(f"kicked/{claim.record.printed}", state.slow(claim.record.ttl_ms))
            self.tell_revoked(claim)

    def kick_over(self, printed: str) -> None:
        """A revoked lease was not given back: it is not renewed any more, and its ttl is over."""
        claim = self._state.by_printed.get(printed)
        if claim is None or claim.record.phase != "draining":
            return
        self._ends.lost(
            claim, f"lease {short_id(printed)} was revoked ({claim.record.revoked}) and has run out."
        )
        self._ends.over(claim, "kicked", f"{claim.record.revoked}; the holder did not confirm", unclean=True)

    def tell_revoked(self, claim: Claim) -> None:
        """The holder, and who works under its lease, must stop."""
        text = f"lease {short_id(claim.record.printed)} is revoked by {claim.record.revoked}. Stop using it and release it."
        frame = frames.Lost(claim.record.printed, text, stop=True)
        for name in dict.fromkeys((claim.record.session, *claim.viewers)):
            self._state.tell_session(name, frame)
