"""The side of the claims of one node: takes each claim's locks one after the other, in the order of (node, pool)."""

from holdall.machine.contract import Send
from holdall.protocols.by_pool.claim import Phase
from holdall.protocols.by_pool.claimant import Claimant as ByPool
from holdall.protocols.hooks import Effects
from holdall.protocols.ordered.messages import Lock, OrderedClaim


class Claimant(ByPool[OrderedClaim]):
    """All claims of one node."""

    record_type = OrderedClaim

    def ask(self, record: OrderedClaim, out: Effects) -> None:
        """The first lock that is missing; without waiting all at once."""
        waits = record.phase is Phase.WAITING
        missing = [place for place, units in enumerate(record.got) if units is None]
        for place in missing[:1] if waits else missing:
            want = record.places[place]
            lock = Lock(
                record.claim,
                record.attempt,
                place,
                want.epoch,
                want.pool,
                want.units,
                record.terms,
                waits,
            )
            out.append(Send(self.manager_of(record, place), lock))

    def on_held(self, record: OrderedClaim, out: Effects) -> None:
        """On to the next."""
        if record.phase is Phase.WAITING:
            self.ask_all(record, out)
