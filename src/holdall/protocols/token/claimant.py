"""The side of the claims of one node: one Request to the home, then wait for the units of all places."""

from typing import Any

from holdall.machine.contract import Send
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.by_pool.claimant import AGAIN
from holdall.protocols.by_pool.claimant import Claimant as ByPool
from holdall.protocols.by_pool.messages import Held
from holdall.protocols.hooks import Effects
from holdall.protocols.token.messages import Ask, Request, TokenClaim, Try


class Claimant(ByPool[TokenClaim]):
    """All claims of one node. The home of a claim is the node of its first place."""

    record_type = TokenClaim

    def ask(self, record: TokenClaim, out: Effects) -> None:
        """The Request, while the home has not given its places; without waiting all places at once."""
        missing = [place for place, units in enumerate(record.got) if units is None]
        if record.phase is not Phase.WAITING:
            for place in missing:
                want = record.places[place]
                tried = Try(
                    record.claim, record.attempt, place, want.epoch, want.pool, want.units, record.terms
                )
                out.append(Send(self.manager_of(record, place), tried))
        elif any(record.places[place].node == record.places[0].node for place in missing):
            request = Request(record.claim, record.attempt, record.places, record.terms)
            out.append(Send(self.manager_of(record, 0), request))

    def ignores_own(self, record: TokenClaim, message: Any) -> bool:
        """Units that it has heard of."""
        return isinstance(message, Held) and self.is_late(record, message)

    def _fired(self, kind: str, record: TokenClaim, out: Effects) -> None:
        """With the repeated Request all other places are asked: their words may have been lost, too."""
        super()._fired(kind, record, out)
        if kind != AGAIN or record.phase is not Phase.WAITING or record.paused:
            return
        for place, want in enumerate(record.places):
            if record.got[place] is None and want.node != record.places[0].node:
                asked = Ask(record.claim, record.attempt, place, want.epoch)
                out.append(Send(self.manager_of(record, place), asked))
