"""The ends of claims: one way out for released, cancelled, expired, kicked and lost ones."""

from collections.abc import Callable

from holdall.model.errors import NotGranted
from holdall.model.frames import Denied, Lost, Released
from holdall.model.names import short_id
from holdall.parties.messages import EndsAs, RaiseFence
from holdall.parties.parking import Parking
from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, State
from holdall.protocols.vocabulary import ClaimId, Release

LEASE_PHASES = frozenset({"preparing", "granted", "draining"})


class Ends:
    """Takes claims out of the agent and tells pools, history and whoever waits for the end."""

    def __init__(self, state: State, parking: Parking) -> None:
        self._state = state
        self._parking = parking

    def over(self, claim: Claim, kind: str, text: str, *, unclean: bool = False) -> None:
        """The agent ends the claim: `kind` and `text` are its row in the history.

        `unclean`: the holder did not stop in order, so the units cool down where their pool asks for it.
        """
        record = claim.record
        if record.phase != "parked":
            if unclean or (record.phase in LEASE_PHASES and kind != "released"):
                self.to_managers(record, lambda party: EndsAs(party, kind, unclean))
            self._state.to_claimant(Release(record.claim))
        self.gone(claim, kind, text)

    def to_managers(self, record: ClaimRecord, message: Callable[[ClaimId], EndsAs | RaiseFence]) -> None:
        """To every node that has units of the lease, for each of its claims there."""
        for node in record.nodes:
            for party in record.parties():
                self._state.to_manager(message(party), node)

    def gone(self, claim: Claim, kind: str, text: str) -> None:
        """The claim has ended at the pools, or is being ended there."""
        state, record = self._state, claim.record
        for timer in ("wait", "queued", "kicked"):
            state.cancel_timer(f"{timer}/{record.printed}")
        state.note(kind, text, record)
        self._parking.leaves_line(claim)
        state.units_freed(grant.pool for grant in record.grants)
        for grant in record.grants:
            if grant.node != state.own:
                state.system.asks_for((grant.node, grant.pool), -1)
        state.remove(claim, text)
        for connection, n, what in claim.told_to:
            state.tell(connection, Released(n, record.printed, what))
        for viewer in claim.viewers:
            session = state.sessions.get(viewer)
            if session is not None:
                session.views.pop(record.claim, None)
        self._parking.refill(record.session)

    def deny(
        self,
        claim: Claim,
        code: str,
        text: str,
        *,
        definite: bool = True,
        retry_after_ms: int | None = None,
    ) -> None:
        """The final answer to a Claim that is not granted; with `retry_after_ms` it may be asked again after that."""
        record = claim.record
        answer = Denied(record.n, code, text, definite=definite, retry_after_ms=retry_after_ms)
        self._state.tell_session(record.session, answer)

    def silent(self, claim: Claim, lease_text: str, claim_text: str) -> None:
        """Its holder was not heard for too long. A claim that still waited may be asked again at once."""
        if claim.record.phase in {"granted", "draining"}:
            self.lost(claim, lease_text)
        else:
            self.deny(claim, NotGranted.code, claim_text, retry_after_ms=0)

    def lost(self, claim: Claim, text: str) -> None:
        """Tell the holder, and who works under its lease, that it is over. Before `over` or `gone`."""
        frame = Lost(claim.record.printed, text)
        self._state.tell_session(claim.record.session, frame)
        for viewer in claim.viewers:
            if viewer != claim.record.session:
                self._state.tell_session(viewer, frame)

    def lost_or_denied(self, claim: Claim, text: str) -> None:
        """A lease is lost; a claim that still waits has its final answer."""
        if claim.record.phase in {"granted", "draining"}:
            self.lost(claim, text)
        else:
            self.deny(claim, "not-granted", text)


def named(claim: Claim) -> str:
    """`lease 7K4M-Q2` or `claim 7K4M-Q2`."""
    word = "lease" if claim.record.phase in LEASE_PHASES else "claim"
    return f"{word} {short_id(claim.record.printed)}"
