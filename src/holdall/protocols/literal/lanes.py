"""The slotting protocol ("distributed lanes") as printed, wrong on purpose. Lab only.

Both variants of the note: with a negotiated index (steps 3 and 4, "Alexei") and with steps 3 and 4 in one
("Paulius"). What the note leaves open is decided as follows: a reply carries the raised promise pointer; an agent
awaits all answers before it restarts; a restart is step 1 again; a second write at an index is recorded as a
collision; a pool is consumed by locking it for one written lane at a time.
"""

from typing import Literal, TypeAlias, cast

import msgspec

from holdall.machine.contract import Address, Effect, ProtocolViolation, Received, Send
from holdall.protocols.literal.lanes_messages import (
    AGENT,
    POOL,
    Accept,
    Locked,
    Reject,
    Reply,
    Request,
    Reserve,
    ToAgent,
    ToPool,
    Unlock,
    Withdraw,
    Write,
)
from holdall.protocols.literal.stateful import Stateful
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Gone, Granted, Release, UnitGrant, Visit

Consumption: TypeAlias = Literal["smallest", "accepted", "promised"]
"""Which lane a free pool is locked for. smallest: the smallest index written so far. accepted: in the order of
acceptance, waiting for the first to be written. promised: in the order of indices, waiting for every promised one."""


class LaneRules(msgspec.Struct, frozen=True):
    """Which variant runs and which repairs are on; by default the note as printed, with the negotiated index."""

    combined: bool = False
    """Steps 3 and 4 in one (Paulius): write if all replies are equal, else restart."""
    accept_raises: bool = False
    """Repair "accept sets pp": the promise pointer becomes at least an accepted index."""
    take: bool = False
    """Repair "take": an index is accepted once."""
    consumption: Consumption = "smallest"
    withdraw: bool = False
    """Repair "withdraw": an abandoned round is taken back at all pools."""
    hasty: bool = False
    """The other reading of step 5.b: restart at the first reject, and count whatever accepts come."""
    rounds: int | None = 2
    """The agent gives up after so many rounds; None: never, as printed."""
    stands: bool = False
    """In place of giving up the agent stands still: for worlds that show that further rounds do not help."""


# The pool


class Lane(msgspec.Struct, frozen=True, order=True):
    """One entry of a request pool. Not `written` yet: promised or accepted (where the consumption looks at that)."""

    index: int
    claim: ClaimId
    host: str
    written: bool


class PoolState(msgspec.Struct, frozen=True):
    """One request pool."""

    pp: int
    """The promise pointer: the largest promised index."""
    taken: int = 0
    """The largest accepted index."""
    lanes: tuple[Lane, ...] = ()
    """In the order of consumption."""
    locked: ClaimId | None = None
    written: tuple[int, ...] = ()
    """All indices that were ever written here; not kept where an index is accepted once."""
    wrong: str = ""
    """What this pool has seen that must not be, as `property: text`."""


class LanePool(Stateful[PoolState]):
    """A request pool: steps 2, 4 and 6, and consumption."""

    def __init__(self, rules: LaneRules, pointer: int) -> None:
        """`pointer`: the initial promise pointer."""
        self.rules = rules
        self.state = PoolState(pointer)

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message of an agent."""
        sender, message = event.sender, event.message
        match message:
            case Request(claim):
                self._promise(sender, claim, out)
            case Reserve(claim, index):
                self._reserve(sender, claim, index, out)
            case Write(claim, index):
                self._write(sender, claim, index)
            case Withdraw(claim, indices):
                left = tuple(
                    lane
                    for lane in self.state.lanes
                    if lane.claim != claim or lane.index not in indices or lane.written
                )
                self.state = msgspec.structs.replace(self.state, lanes=left)
            case Unlock(claim):
                left = tuple(lane for lane in self.state.lanes if lane.claim != claim)
                self.state = msgspec.structs.replace(self.state, lanes=left, locked=None)
            case _:
                raise ProtocolViolation(f"{type(message).__name__} is no message for a request pool")
        self._consume(out)

    def _promise(self, sender: Address, claim: ClaimId, out: list[Effect]) -> None:
        """Step 2."""
        index = self.state.pp + 1
        lanes = self.state.lanes
        if self.rules.consumption == "promised":
            lanes = (*lanes, Lane(index, claim, sender.node, written=False))
        self.state = msgspec.structs.replace(self.state, pp=index, lanes=lanes)
        out.append(Send(sender, Reply(claim, index)))

    def _reserve(self, sender: Address, claim: ClaimId, index: int, out: list[Effect]) -> None:
        """Step 4 (Alexei)."""
        state = self.state
        if index < state.pp or (self.rules.take and index <= state.taken):
            out.append(Send(sender, Reject(claim, state.pp)))
            return
        lanes = state.lanes
        if self.rules.consumption == "accepted":
            lanes = (*lanes, Lane(index, claim, sender.node, written=False))
        self.state = msgspec.structs.replace(
            state,
            pp=max(state.pp, index) if self.rules.accept_raises else state.pp,
            taken=index if self.rules.take else 0,
            lanes=lanes,
        )
        out.append(Send(sender, Accept(claim, index)))

    def _write(self, sender: Address, claim: ClaimId, index: int) -> None:
        """Step 6."""
        state = self.state
        lane = Lane(index, claim, sender.node, written=True)
        wrong = state.wrong
        if self.rules.consumption == "smallest":
            lanes = tuple(sorted((*state.lanes, lane)))
        else:
            lanes = tuple(lane if (one.index, one.claim) == (index, claim) else one for one in state.lanes)
            if lane not in lanes:
                wrong = f"not accepted: {claim} writes at index {index}, which was not accepted for it"
        if index in state.written:
            wrong = f"collision: two agents have written index {index}"
        written = state.written if self.rules.take else tuple(sorted({*state.written, index}))
        self.state = msgspec.structs.replace(state, lanes=lanes, written=written, wrong=wrong)

    def _consume(self, out: list[Effect]) -> None:
        state = self.state
        if state.locked is None and state.lanes and state.lanes[0].written:
            first = state.lanes[0]
            self.state = msgspec.structs.replace(state, locked=first.claim)
            out.append(Send(Address(first.host, AGENT), Locked(first.claim)))


# The agent


Step: TypeAlias = Literal["queued", "requested", "reserved", "written", "holding", "stands"]


class Bid(msgspec.Struct, frozen=True):
    """What an agent knows of its own lane."""

    claim: ClaimId
    pools: tuple[tuple[str, str], ...]
    """(node, pool)"""
    step: Step = "queued"
    round: int = 0
    replies: tuple[int, ...] = ()
    """What the pools have answered in this step, ascending: replies, or accepted indices."""
    rejects: int = 0
    index: int = 0
    """n, the greatest of the replies."""
    locked: tuple[str, ...] = ()


class Bids(msgspec.Struct, frozen=True):
    """The agents of one host, which work one after another: the next begins when the one before holds."""

    bids: tuple[Bid, ...] = ()
    gave_up: bool = False


class LaneAgent(Stateful[Bids]):
    """The agents of one host: steps 1, 3 and 5."""

    def __init__(self, host: str, agent: Address, rules: LaneRules) -> None:
        """`agent`: who is told of grants, as with every claimant."""
        self.host = host
        self.rules = rules
        self.state = Bids()
        self._agent = agent

    def receive(self, event: Received, out: list[Effect]) -> None:
        """One message of a pool or a command."""
        message = event.message
        match message:
            case Acquire(claim, need):
                bid = Bid(claim, pools_of(need))
                self.state = msgspec.structs.replace(self.state, bids=(*self.state.bids, bid))
                self._next(out)
            case Release(claim):
                self._release(claim, out)
            case _:
                self._answered(event.sender, cast("ToAgent", message), out)

    def bid(self, claim: ClaimId) -> Bid | None:
        """The bid of an agent, None after its end."""
        return next((bid for bid in self.state.bids if bid.claim == claim), None)

    def _put(self, bid: Bid) -> None:
        bids = tuple(bid if one.claim == bid.claim else one for one in self.state.bids)
        self.state = msgspec.structs.replace(self.state, bids=bids)

    def _next(self, out: list[Effect]) -> None:
        """Begin the first queued bid when no other is on its way."""
        for bid in self.state.bids:
            if bid.step == "queued":
                self._begin(bid, out)
                return
            if bid.step != "holding":
                return

    def _begin(self, bid: Bid, out: list[Effect]) -> None:
        """Step 1, and step 5.b."""
        if bid.round == self.rules.rounds and self.rules.stands:
            self._put(Bid(bid.claim, bid.pools, "stands", bid.round))
            return
        if bid.round == self.rules.rounds:
            bids = tuple(one for one in self.state.bids if one.claim != bid.claim)
            self.state = Bids(bids, gave_up=True)
            out.append(Send(self._agent, Gone(bid.claim, f"no lane in {bid.round} rounds")))
            out.append(Send(self._agent, Ended(bid.claim)))
            self._next(out)
            return
        self._put(Bid(bid.claim, bid.pools, "requested", bid.round + 1))
        self._to_pools(bid, Request(bid.claim), out)

    def _to_pools(self, bid: Bid, message: ToPool, out: list[Effect]) -> None:
        out += [Send(Address(node, POOL), message) for node, _ in bid.pools]

    def _answered(self, sender: Address, message: ToAgent, out: list[Effect]) -> None:
        bid = self.bid(message.claim)
        if bid is None:
            return
        match message:
            case Reply(_, index):
                if bid.step == "requested":
                    self._replied(_counted(bid, index), out)
            case Accept(_, index):
                if bid.step == "reserved":
                    self._confirmed(_counted(bid, index), out)
            case Reject():
                if bid.step == "reserved":
                    self._confirmed(msgspec.structs.replace(bid, rejects=bid.rejects + 1), out)
            case Locked():
                self._locked(bid, sender.node, out)

    def _replied(self, bid: Bid, out: list[Effect]) -> None:
        """Step 3: all replies are in. Paulius: write at once if they are equal."""
        if len(bid.replies) < len(bid.pools):
            self._put(bid)
            return
        index = max(bid.replies)
        if not self.rules.combined:
            bid = msgspec.structs.replace(bid, step="reserved", replies=(), index=index)
            self._put(bid)
            self._to_pools(bid, Reserve(bid.claim, index), out)
        elif bid.replies[0] == index:
            self._write(bid, index, out)
        else:
            self._restart(bid, out)

    def _confirmed(self, bid: Bid, out: list[Effect]) -> None:
        """Step 5: a write when all have accepted, a restart after a reject."""
        if bid.rejects and self.rules.hasty:
            self._restart(bid, out)
        elif len(bid.replies) + bid.rejects < len(bid.pools):
            self._put(bid)
        elif bid.rejects:
            self._restart(bid, out)
        else:
            self._write(bid, bid.index, out)

    def _write(self, bid: Bid, index: int, out: list[Effect]) -> None:
        """Step 5.a."""
        self._put(Bid(bid.claim, bid.pools, "written"))
        self._to_pools(bid, Write(bid.claim, index), out)

    def _restart(self, bid: Bid, out: list[Effect]) -> None:
        """Step 5.b."""
        if self.rules.withdraw:
            # No pool has told what it promised or accepted under its name, so all are told what was negotiated.
            indices = bid.replies if self.rules.combined else (bid.index,)
            self._to_pools(bid, Withdraw(bid.claim, tuple(sorted(set(indices)))), out)
        self._begin(bid, out)

    def _locked(self, bid: Bid, node: str, out: list[Effect]) -> None:
        bid = msgspec.structs.replace(bid, locked=tuple(sorted({*bid.locked, node})))
        if len(bid.locked) < len(bid.pools):
            self._put(bid)
            return
        self._put(msgspec.structs.replace(bid, step="holding"))
        units = tuple(UnitGrant(at, pool, "", 0) for at, pool in bid.pools)
        out.append(Send(self._agent, Granted(bid.claim, 1, units)))
        self._next(out)

    def _release(self, claim: ClaimId, out: list[Effect]) -> None:
        bid = self.bid(claim)
        if bid is not None:
            self.state = Bids(tuple(one for one in self.state.bids if one.claim != claim), self.state.gave_up)
            if bid.step != "queued":
                self._to_pools(bid, Unlock(claim), out)
        out.append(Send(self._agent, Ended(claim)))
        self._next(out)


def pools_of(need: tuple[Visit, ...]) -> tuple[tuple[str, str], ...]:
    """(node, pool) of each visit, one pool a node."""
    return tuple((visit.node, visit.alternatives[0][0][0]) for visit in need)


def _counted(bid: Bid, index: int) -> Bid:
    return msgspec.structs.replace(bid, replies=tuple(sorted((*bid.replies, index))))
