"""Every protocol is made and spoken to in the same way."""

from collections import deque

import pytest

from holdall.machine.contract import Address, Effect, Received, Send
from holdall.protocols.by_pool.manager import Manager as ByPoolManager
from holdall.protocols.counting_book import CountingBook
from holdall.protocols.registry import DEFAULT_TUNING, PROTOCOLS, UnknownProtocolError, protocol
from holdall.protocols.vocabulary import Acquire, ClaimId, Ended, Granted, NotNow, Release, Visit


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_claim_is_granted_and_ended_under_each_protocol_by_the_same_words(name: str) -> None:
    entry = protocol(name)
    agent, here, there = Address("n0", "agent"), Address("n0", "claimant"), Address("n0", "manager")
    claimant = entry.claimant("n0", agent, DEFAULT_TUNING)
    manager = entry.manager("n0", 1, CountingBook("n0", {"a": 1, "b": 2}), DEFAULT_TUNING)
    if isinstance(manager, ByPoolManager):
        manager.begin([])
    heard: list[object] = []

    def tell(message: Acquire | Release) -> None:
        todo: deque[Effect] = deque(claimant.handle(Received(agent, message)))
        while todo:
            effect = todo.popleft()
            if not isinstance(effect, Send):
                continue
            if effect.to == agent:
                heard.append(effect.message)
            elif effect.to == here:
                todo.extend(claimant.handle(Received(there, effect.message)))
            else:
                assert isinstance(effect.message, entry.messages)
                out: list[Effect] = []
                manager.receive(here, effect.message, out)
                todo.extend(out)

    first, second = ClaimId("n0", 1, 1), ClaimId("n0", 1, 2)
    need = (Visit("n0", ((("a", 1), ("b", 2)),), 1),)
    tell(Acquire(first, need))
    tell(Acquire(second, need, wait=False))
    tell(Release(first))
    granted = heard[0]
    assert isinstance(granted, Granted)
    assert sorted(unit.pool for unit in granted.units) == ["a", "b", "b"]
    assert NotNow(second) in heard
    assert Ended(first) in heard
    assert Ended(second) in heard


def test_an_unknown_protocol_is_refused_with_the_names_that_there_are() -> None:
    with pytest.raises(UnknownProtocolError, match="no protocol 'dice'; there are: chain, "):
        protocol("dice")
