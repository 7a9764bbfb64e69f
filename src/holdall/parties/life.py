"""How long a lease lives by the word of the other nodes that it has units of, and what its holder is told of its loss.

The agent knows whether the holder is there; whether the nodes of its units are, the claimant's side knows by its
renewals. A lease is told as alive for the least of both. Source: chain specification, section 7 (leases).
"""

from holdall.leases.messages import Confirmed, LostAt
from holdall.model.durations import show_duration
from holdall.model.names import short_id
from holdall.parties.records import ClaimRecord
from holdall.parties.state import Claim, State
from holdall.parties.texts import clock_text, void

UNCONFIRMED = -1
"""In place of a time: the node has come up again, and not all nodes of the lease have said that they still have it.

What the holder was told before counts on, and may not be told to be over, nor to be longer.
"""
_HELD = frozenset({"granted", "draining"})


def confirmed_ms(state: State, record: ClaimRecord, valid_ms: int) -> int:
    """`valid_ms` by this node's sessions, or less by other nodes' answers; `UNCONFIRMED`."""
    life = state.life
    if life is None or record.phase not in _HELD:
        return valid_ms
    if not life.may_go_on(record.parties()):
        return UNCONFIRMED
    left_ms = life.left_ms(record.parties())
    return valid_ms if left_ms is None else min(valid_ms, left_ms)


def silent_nodes(state: State, record: ClaimRecord) -> tuple[str, ...]:
    """Nodes that the lease has units of, or the claim waits at, and that don't answer: `lab-1 (since 13:58:04)`.

    By its own renewals, or by what the directory has not heard of them.
    """
    ago_ms: dict[str, int] = {}
    for node in {grant.node for grant in record.grants} - {state.own}:
        known = state.neighbours.node(node)
        if known is None or known.state in {"silent", "stopped"}:
            ago_ms[node] = 0 if known is None else known.silent_ms
    for one in () if state.life is None else state.life.quiet(record.parties()):
        ago_ms[one.node] = max(one.for_ms, ago_ms.get(one.node, 0))
    return tuple(
        sorted(
            f"{state.name_of(node)} (since {_since(state, ago)})" if ago else state.name_of(node)
            for node, ago in ago_ms.items()
        )
    )


class Losses:
    """Leases that other nodes have lost, or don't confirm: what is heard of them, until it is told."""

    def __init__(self, state: State) -> None:
        self._state = state

    def lost_at(self, message: LostAt) -> None:
        """Kept for the text of the end that follows in this turn; of a lease that is told as lost already, nothing follows."""
        if message.claim in self._state.claims:
            self._state.lost_at[message.claim] = message

    def text(self, claim: Claim, reason: str) -> str:
        """For the holder: what is lost, why, since when; without the void fences."""
        record, state = claim.record, self._state
        where = state.lost_at.pop(record.claim, None)
        lease = f"lease {short_id(record.printed)} lost"
        if where is None:
            return f"{lease}: its pools have ended it ({reason})."
        name = state.name_of(where.node)
        if reason == "restarted":
            return f"{lease}: {name} has lost its record of it, or a part of that, in a restart."
        unreachable = f"{name} unreachable since {_since(state, where.quiet_ms)}"
        return f"{lease}: no renewal confirmed for {show_duration(record.ttl_ms)} ({unreachable})."

    def told(self, claim: Claim, reason: str) -> str:
        """The whole text, with what to refuse from now on."""
        return f"{self.text(claim, reason)} {void([grant.fence for grant in claim.record.grants])}".rstrip()

    def confirmed(self, message: Confirmed) -> list[tuple[str, int]]:
        """All nodes of a lease of before the restart have confirmed it: who waits for that, as (connection, request)."""
        claim = self._state.find(message.claim)
        if claim is None or not self.may_go_on(claim):
            return []
        return self._state.unconfirmed.pop(claim.record.printed, [])

    def may_go_on(self, claim: Claim) -> bool:
        """Whether the holder can be told how long the lease lives."""
        life = self._state.life
        return life is None or life.may_go_on(claim.record.parties())


def _since(state: State, ago_ms: int) -> str:
    return clock_text(state.wall_ms - ago_ms, state.settings.utc_offset_s)
