"""How claims end: released, lost, or finished without a grant; kept until every place has said that it is over there.

The same for every protocol by pool.
"""

from typing import TYPE_CHECKING, Generic, TypeVar

from holdall.machine.contract import Address, Forget, Send
from holdall.protocols.by_pool.claim import ClaimRecord, Phase, ended
from holdall.protocols.hooks import Effects
from holdall.protocols.vocabulary import ClaimId, Ended, Gone

R = TypeVar("R", bound=ClaimRecord)

CLAIM_KEY = "claim/"


class Ending(Generic[R]):
    """A part of Claimant; it changes the claims there and asks through it."""

    agent: Address
    claims: dict[ClaimId, R]

    if TYPE_CHECKING:

        def put(self, record: R, out: Effects) -> R: ...
        def again(self, record: R, out: Effects) -> R: ...
        def ask_all(self, record: R, out: Effects) -> None: ...
        def not_now(self, record: R, out: Effects) -> None: ...
        def quiet(self, record: R, out: Effects) -> None: ...
        def family(self, record: R) -> list[R]: ...

    def release(self, claim: ClaimId, out: Effects) -> None:
        """End a claim in any phase, with the companions of its exchanges."""
        record = self.claims.get(claim)
        if record is None:
            out.append(Send(self.agent, Ended(claim)))
            return
        if record.phase is Phase.ENDING:
            return
        for companion in self.family(record)[1:]:
            self.finish(companion, out)
        self.finish(record, out)

    def lost(self, claim: ClaimId, reason: str, out: Effects) -> None:
        """What the claim has or asked for is over at one place: as a whole, then; one that waits comes again."""
        record = self.claims.get(claim)
        if record is None or record.phase is Phase.ENDING:
            return
        match record.phase:
            case Phase.WAITING:
                self.ask_all(self.again(record, out), out)
            case Phase.TRYING:
                self.not_now(record, out)
            case _:
                out.append(Send(self.agent, Gone(claim, reason)))
                self.release(claim, out)

    def finish(self, record: R, out: Effects) -> None:
        """Nothing more is wanted of it: End to every place that may know it."""
        self.acknowledged(ended(record), out, ask=True)

    def acknowledged(self, record: R, out: Effects, *, ask: bool = False) -> None:
        """Keep the record while an End is not answered; then the claim is over."""
        if record.phase is not Phase.ENDING or record.ending:
            self.put(record, out)
            if ask:
                self.ask_all(record, out)
            return
        self.claims[record.claim] = record
        self._bury(record, out)
        if record.parent is not None and record.parent in self.claims:
            self._bury(self.claims[record.parent], out)

    def _bury(self, record: R, out: Effects) -> None:
        waits = record.phase is not Phase.ENDING or record.ending or len(self.family(record)) > 1
        if waits:
            return
        del self.claims[record.claim]
        out.append(Forget(f"{CLAIM_KEY}{record.claim}"))
        self.quiet(record, out)
        if record.parent is None:
            out.append(Send(self.agent, Ended(record.claim)))
