"""Why a request is refused before it waits: the facts as a structure, beside the text."""

from collections.abc import Sequence

import msgspec

from holdall.model import frames
from holdall.model.frames import Need
from holdall.model.spec import ALL_COUNT, show_need
from holdall.model.why import Blocker, NeedWhy, Why
from holdall.parties.explaining import BLOCKERS_MAX, Explaining
from holdall.parties.planning.spreading import Spot
from holdall.parties.planning.system_pools import Numbers
from holdall.parties.planning.ways import PoolFacts, Unplaceable, matching
from holdall.parties.records import Way
from holdall.parties.state import Claim, Session, State
from holdall.parties.texts import never
from holdall.parties.views import Obstacle
from holdall.protocols.vocabulary import UnitGrant

ANSWER_BYTES_MAX = 60_000


class Refusal(msgspec.Struct, frozen=True):
    """What a request is answered with that changes nothing. `code` as in `holdall.model.errors.BY_CODE`."""

    code: str
    text: str
    why: Why | None = None

    def answer(self, n: int) -> frames.Denied:
        """To request `n`; without the structure where both don't fit into a frame."""
        why = self.why
        if why is not None and len(msgspec.msgpack.encode((self.text, why))) > ANSWER_BYTES_MAX:
            why = None
        return frames.Denied(n, self.code, self.text, why=why)


class Refusals:
    """Builds the structure of each kind of refusal, by reading only."""

    def __init__(self, state: State, explaining: Explaining) -> None:
        self._state = state
        self._explaining = explaining

    def never(self, session: Session, needs: Sequence[Need], reason: str, *, short: int) -> Why:
        """More than exists: have and ask of each need; `short` is the index of the one that can't be served."""
        return self._no_claim(session, needs, reason, short=short)

    def never_text(self, found: Unplaceable) -> str:
        """The same for people."""
        state = self._state
        others = [node.name for node in state.neighbours.nodes()]
        # All pools are looked at only for the names that a misspelt one could stand for.
        known = bool(found.matching or found.elsewhere)
        facts = state.system.facts(found.selector.pools if known else None)
        return never(found, facts, state.name, others)

    def deadlock(
        self, session: Session, frame: frames.Claim, held: Claim, touched: Sequence[UnitGrant]
    ) -> Why:
        """In the way is the lease in whose scope it was asked, with the units of it that were asked for again."""
        own = [
            self._explaining.blocker(
                Obstacle(
                    held.record.claim, pool, tuple(grant.unit for grant in touched if grant.pool == pool)
                )
            )
            for pool in sorted({grant.pool for grant in touched})
        ]
        note = "asked for in the scope of the lease that is in the way"
        return self._no_claim(session, frame.needs, frame.reason, blockers=own, note=note)

    def exchange(self, lease: Claim, needs: tuple[Need, ...], way: Way) -> Why:
        """Who has, or waits for, what the lease was to get in addition."""
        record = msgspec.structs.replace(
            lease.record, needs=needs, shares=(way,), asked_wall_ms=self._state.wall_ms
        )
        return self._explaining.why(Claim(record, ""))

    def _no_claim(
        self,
        session: Session,
        needs: Sequence[Need],
        reason: str,
        *,
        short: int = -1,
        blockers: Sequence[Blocker] = (),
        note: str = "",
    ) -> Why:
        names = {name for need in needs for option in need.options for name in option.pools}
        facts = self._state.system.facts(names)
        return Why(
            claim="",
            holder=session.record.holder,
            since_ms=self._state.wall_ms,
            position=0,
            waiting=0,
            ahead=0,
            overtaken=0,
            passes_left=0,
            passes_bound=0,
            needs=tuple(self._need(need, facts, exists=index != short) for index, need in enumerate(needs)),
            blockers=tuple(blockers[:BLOCKERS_MAX]),
            blockers_more=max(0, len(blockers) - BLOCKERS_MAX),
            note=note,
            reason=reason,
            bounded=self._state.settings.bounded,
        )

    def _need(self, need: Need, facts: Sequence[PoolFacts], *, exists: bool) -> NeedWhy:
        options = [(option.count, self._numbers(matching(option, facts))) for option in need.options]
        pools = {spot: one for _, numbers in options for spot, one in numbers.items()}.values()
        return NeedWhy(
            spec=show_need(need),
            free=sum(one.free for one in pools),
            total=sum(one.total for one in pools),
            state=_state_of([(count, list(numbers.values())) for count, numbers in options])
            if exists
            else "too few exist",
            unusable=sum(one.unusable for one in pools),
        )

    def _numbers(self, facts: Sequence[PoolFacts]) -> dict[Spot, Numbers]:
        own = self._state.own
        return {
            one.spot: known
            for one in facts
            if (one.node == own or not one.host_only)
            and (known := self._state.system.numbers(one.spot)) is not None
        }


def _state_of(options: Sequence[tuple[int, Sequence[Numbers]]]) -> str:
    """The need by itself, by the best of its alternatives. Words as in `NeedWhy`."""
    words = set[str]()
    for count, pools in options:
        total = sum(one.total for one in pools)
        wanted = max(total, 1) if count == ALL_COUNT else count
        if sum(one.free for one in pools) >= wanted:
            words.add("ok")
        elif total < wanted:
            words.add("too few exist")
        elif sum(one.usable for one in pools) < wanted:
            words.add("unusable")
        else:
            words.add("busy")
    return next(word for word in ("ok", "busy", "unusable", "too few exist") if word in words)
