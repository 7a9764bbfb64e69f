"""Which lease, and which of its units, somebody means."""

from collections import Counter
from collections.abc import Callable, Sequence

from holdall.model import frames
from holdall.model.errors import NotHolder
from holdall.model.names import pool_name, short_id
from holdall.parties.listings.answers import Answers
from holdall.parties.messages import Asked
from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, Session, State, secret_hash
from holdall.protocols.vocabulary import UnitGrant, Vector

HELD = frozenset({"granted", "draining"})


class Finding:
    """Looks leases up for the requests of holders, and says so when there is none."""

    def __init__(self, state: State, answers: Answers) -> None:
        self._state = state
        self._answers = answers

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

    def held(
        self, session: Session, key: str, n: int, asked: Asked, request: frames.Extend | None = None
    ) -> Claim | None:
        """A lease in its holder's hands; None: there is none, and that has been answered (see `no_lease`)."""
        claim = self.find(session, key, asked)
        if claim is None or claim.record.phase not in HELD:
            self.no_lease(session.connection, n, key, request=request)
            return None
        return claim

    def no_lease(
        self,
        connection: str,
        n: int,
        key: str,
        *,
        released: bool = False,
        request: frames.Release | frames.Extend | None = None,
    ) -> None:
        """Answer for a key that names no lease: `released` when a release is repeated.

        With the `request`, other nodes are asked whether the lease is theirs, so that the refusal names the right one.
        """
        known = self._state.ended.get(secret_hash(key))
        if known is not None and released:
            self._state.tell(connection, frames.Released(n, known[0], "already ended"))
            return
        text = (
            f"lease {short_id(known[0])} has ended: {known[1]}. Claim anew."
            if known is not None
            else "no such lease of yours here: it has ended, or the key is wrong. See: holdall who"
        )
        denied = frames.Denied(n, NotHolder.code, text)
        if known is None and request is not None:
            self._answers.elsewhere(connection, request, key, denied)
        else:
            self._state.tell(connection, denied)


def units_named(
    record: ClaimRecord, names: Sequence[str], name_of: Callable[[str], str]
) -> set[UnitGrant] | str:
    """The grants that `pool/unit` or `pool/unit@node` names; a text when one names none, or several."""
    chosen: set[UnitGrant] = set()
    for name in names:
        found = [grant for grant in record.grants if is_named(grant, name, name_of)]
        if len(found) != 1:
            several = len(record.nodes) > 1
            have = ", ".join(
                f"{pool_name(grant.pool)}/{grant.unit}" + (f"@{name_of(grant.node)}" if several else "")
                for grant in record.grants[:8]
            )
            number = f"{len(found)} units" if found else "no unit"
            return f"{name!r} names {number} of lease {short_id(record.printed)} (it has {have})."
        chosen.add(found[0])
    return chosen or f"no unit is named; units of lease {short_id(record.printed)} are written pool/unit."


def is_named(grant: UnitGrant, name: str, name_of: Callable[[str], str]) -> bool:
    """Whether `pool/unit`, or that with `@node`, is this unit. Pools may be written with their labels."""
    text, _, node = name.partition("@")
    pool, _, unit = text.rpartition("/")
    return (
        grant.unit == unit
        and pool in {grant.pool, pool_name(grant.pool)}
        and node in {"", name_of(grant.node), grant.node}
    )


def per_node(grants: Sequence[UnitGrant]) -> tuple[tuple[str, Vector], ...]:
    """(node, ((pool, units), …)) of these units, both ascending."""
    counts = Counter((grant.node, grant.pool) for grant in grants)
    nodes = sorted({node for node, _ in counts})
    return tuple(
        (node, tuple((pool, counts[where, pool]) for where, pool in sorted(counts) if where == node))
        for node in nodes
    )
