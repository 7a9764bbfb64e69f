"""Which lease, and which of its units, somebody means."""

from collections import Counter
from collections.abc import Sequence

from holdall.model import frames
from holdall.model.errors import NotHolder
from holdall.model.names import pool_name, short_id
from holdall.parties.messages import Asked
from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.protocols.vocabulary import UnitGrant, Vector

HELD = frozenset({"granted", "draining"})


class Finding:
    """Looks leases up for the requests of holders, and says so when there is none."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, session: Session, key: str, asked: Asked) -> Claim | None:
        """By its key; by its printed id only for its session and its user."""
        claim = self._state.by_key.get(secret_hash(key))
        if claim is not None:
            return claim
        found = [
            one
            for one in self._state.typed(key)
            if one.record.uid == asked.uid or one.record.session == session.record.session
        ]
        return found[0] if len(found) == 1 else None

    def held(self, session: Session, key: str, n: int, asked: Asked) -> Claim | None:
        """A lease in its holder's hands; None: there is none, and that has been answered."""
        claim = self.find(session, key, asked)
        if claim is None or claim.record.phase not in HELD:
            self.no_lease(session.connection, n, key, released=False)
            return None
        return claim

    def no_lease(self, connection: str, n: int, key: str, *, released: bool) -> None:
        """Answer for a key that names no lease: `released` when a release is repeated."""
        known = self._state.ended.get(secret_hash(key))
        if known is not None and released:
            self._state.tell(connection, frames.Released(n, known[0], "already ended"))
            return
        text = (
            f"lease {short_id(known[0])} has ended: {known[1]}. Claim anew."
            if known is not None
            else "no such lease of yours here: it has ended, or the key is wrong. See: holdall who"
        )
        self._state.tell(connection, frames.Denied(n, NotHolder.code, text))


def units_named(record: ClaimRecord, names: Sequence[str]) -> set[UnitGrant] | str:
    """The grants that `pool/unit` names; a text when one names none."""
    chosen: set[UnitGrant] = set()
    for name in names:
        pool, _, unit = name.rpartition("/")
        found = [g for g in record.grants if g.unit == unit and pool in {g.pool, pool_name(g.pool)}]
        if len(found) != 1:
            have = ", ".join(f"{pool_name(grant.pool)}/{grant.unit}" for grant in record.grants[:8])
            return f"{name!r} names no unit of lease {short_id(record.printed)} (it has {have})."
        chosen.add(found[0])
    return chosen or f"no unit is named; units of lease {short_id(record.printed)} are written pool/unit."


def per_node(grants: Sequence[UnitGrant]) -> tuple[tuple[str, Vector], ...]:
    """(node, ((pool, units), …)) of these units, both ascending."""
    counts = Counter((grant.node, grant.pool) for grant in grants)
    nodes = sorted({node for node, _ in counts})
    return tuple(
        (node, tuple((pool, counts[where, pool]) for where, pool in sorted(counts) if where == node))
        for node in nodes
    )
