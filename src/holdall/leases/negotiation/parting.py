"""An agent's side of a split: the holder has less before the host is asked, so that nothing is used twice meanwhile.

An order is repeated until it is answered. For a lease that is held here that is until its end: nobody knows whether the
part is another's already. Source: lease negotiation, section 4.8.
"""

from collections.abc import Hashable, Iterable

import msgspec

from holdall.leases.negotiation.messages import SplitLease
from holdall.leases.negotiation.splitting import less
from holdall.model.terms import LeaseDocument


class Parting:
    """Orders that are not answered. `sent`: part -> how often it was asked for."""

    def __init__(self) -> None:
        self.orders: dict[str, SplitLease] = {}
        """By part."""
        self.sent: dict[str, int] = {}
        self._whole: dict[str, LeaseDocument] = {}
        """Leases of which something is being cut, as their hosts told last."""

    def begins(self, order: SplitLease, held: LeaseDocument | None) -> LeaseDocument | None:
        """What is had from now on of the lease, if it is held."""
        self.orders[order.part], self.sent[order.part] = order, 0
        if held is not None:
            self._whole.setdefault(order.lease, held)
        return self.left(order.lease)

    def told(self, document: LeaseDocument) -> LeaseDocument:
        """A host tells how a lease stands; what is had of it."""
        # Also of one that was not held when the order was given: the host may have obeyed before or after it said this.
        if document.lease in self._whole or any(True for _ in self._of(document.lease)):
            self._whole[document.lease] = document
        return self.left(document.lease) or document

    def left(self, lease: str) -> LeaseDocument | None:
        """What is had of a lease of which something is being cut; None: of this one nothing is, or it is not held."""
        whole = self._whole.get(lease)
        return None if whole is None else _left(whole, self._of(lease))

    def answered(self, part: str, rest: LeaseDocument | None) -> LeaseDocument | None:
        """The order is done with, whatever came of it. Returns what is had of its lease from now on, if it is held."""
        order = self.orders.pop(part)
        del self.sent[part]
        whole = self._whole.get(order.lease)
        if whole is None:
            return None
        if rest is not None and rest.revision > whole.revision:
            whole = self._whole[order.lease] = rest
        left = _left(whole, self._of(order.lease))
        if not any(one.lease == order.lease for one in self.orders.values()):
            del self._whole[order.lease]
        return left

    def lost(self, lease: str) -> None:
        """It is not held any more."""
        self._whole.pop(lease, None)

    def key(self) -> Hashable:
        """Equal keys behave alike."""
        return repr((sorted(self.orders.items()), sorted(self.sent.items()), sorted(self._whole.items())))

    def copy(self) -> "Parting":
        """An independent twin."""
        twin = Parting()
        twin.orders, twin.sent, twin._whole = dict(self.orders), dict(self.sent), dict(self._whole)
        return twin

    def _of(self, lease: str) -> Iterable[SplitLease]:
        return (order for order in self.orders.values() if order.lease == lease)


def _left(whole: LeaseDocument, orders: Iterable[SplitLease]) -> LeaseDocument:
    """Without what may be another's. An order for more than there is, is refused by the host, or was obeyed before."""
    for order in orders:
        has = {one.name: one.granted for one in whole.terms if one.kind == "capacity"}
        if all(0 < amount < int(has.get(name, 0)) for name, amount in order.amounts.items()):
            terms = tuple(less(one, order.amounts.get(one.name, 0)) for one in whole.terms)
            whole = msgspec.structs.replace(whole, terms=terms)
    return whole
