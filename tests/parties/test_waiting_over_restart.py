"""A claim by pool that waits over a restart of its node: no grant counts before its nodes have heard of the restart."""

from collections.abc import Iterable

from holdall.leases.listing import Alive, AliveOk, Compared
from holdall.machine.contract import Address, Boot, Effect, Message, Received, Record, Save, Send, TimerFired
from holdall.parties.by_pool.claims import ClaimsByPool
from holdall.protocols.by_pool.messages import Held, PlaceGone
from holdall.protocols.ordered.claimant import Claimant
from holdall.protocols.vocabulary import Acquire, ClaimId, Granted, UnitGrant, Visit

CLAIM = ClaimId("c1", 1, 1)
UNITS = (UnitGrant("n1", "gpu", "u0", 7),)
AGENT, MANAGER = Address("c1", "agent"), Address("n1", "manager")
HELD = Held(CLAIM, 1, 0, UNITS, 1)


class Restarted:
    """The claims' side, up again with a claim that had asked, and its first renewal since then."""

    def __init__(self) -> None:
        before = _side()
        asked = before.handle(Received(AGENT, Acquire(CLAIM, (Visit("n1", ((("gpu", 1),),), 1),))))
        records: dict[str, Record] = {one.key: one.record for one in asked if isinstance(one, Save)}
        records["boot"] = Boot("same", 1, 2)
        self.side = _side()
        self.side.recover(records)
        renewed = _sent(self.side.handle(TimerFired("renew/n1")))
        (self.alive,) = [message for message in renewed if isinstance(message, Alive)]

    def hears(self, message: Message) -> list[Message]:
        """What it says to that."""
        return _sent(self.side.handle(Received(MANAGER, message)))


def test_a_grant_is_kept_until_the_node_has_the_claim_after_the_restart() -> None:
    claims = Restarted()
    assert claims.hears(HELD) == []
    told = claims.hears(AliveOk(claims.alive.count, 1, same=True))
    assert told == [Granted(CLAIM, 1, UNITS)]
    assert claims.side.claimant.claims[CLAIM].units == UNITS


def test_an_answer_to_a_renewal_of_before_the_restart_proves_nothing() -> None:
    claims = Restarted()
    claims.hears(HELD)
    assert claims.hears(AliveOk(1, 1, same=True)) == []
    assert claims.hears(AliveOk(claims.alive.count, 1, same=True)) == [Granted(CLAIM, 1, UNITS)]


def test_where_lists_had_to_be_compared_the_claim_comes_again() -> None:
    claims = Restarted()
    claims.hears(HELD)
    claims.hears(AliveOk(claims.alive.count, 1, same=False))
    claims.hears(Compared(claims.alive.count, 1))
    record = claims.side.claimant.claims[CLAIM]
    assert (record.attempt, record.units) == (2, ())
    assert claims.hears(HELD) == []
    assert claims.hears(Held(CLAIM, 2, 0, UNITS, 1)) == [Granted(CLAIM, 2, UNITS)]


def test_that_its_place_is_gone_is_heard_at_once() -> None:
    claims = Restarted()
    claims.hears(HELD)
    claims.hears(PlaceGone(CLAIM, 1, "expired"))
    assert claims.side.claimant.claims[CLAIM].attempt == 2
    claims.hears(AliveOk(claims.alive.count, 1, same=True))
    assert claims.side.claimant.claims[CLAIM].units == ()


def test_a_twin_keeps_for_itself_what_is_kept_back() -> None:
    claims = Restarted()
    twin = claims.side.copy()
    claims.hears(HELD)
    assert twin.key() != claims.side.key()
    assert _sent(twin.handle(Received(MANAGER, AliveOk(claims.alive.count, 1, same=True)))) == []


def _side() -> ClaimsByPool:
    return ClaimsByPool(Claimant("c1", AGENT, again_ms=20_000))


def _sent(effects: Iterable[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]
