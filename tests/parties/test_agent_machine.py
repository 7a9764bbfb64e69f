"""The agent as a machine: twins, keys, what is not for it, and its place in the budget of turns."""

import pytest
from parties.party_node import HOST, Client, Node, pool

from holdall.machine.contract import Address, ProtocolViolation, Received, TimerFired
from holdall.machine.host import Arrival
from holdall.model import frames
from holdall.parties.agent import Agent
from holdall.parties.messages import AGENT, MANAGER, EndsAs
from holdall.parties.pool_side import PoolSide
from holdall.protocols.vocabulary import ClaimId, Ended, Granted


def test_twins_are_equal_and_live_apart() -> None:
    node = Node(pool("gpu", "0", "1"))
    client, other = Client(node, "a"), Client(node, "b")
    lease = client.gets("gpu:2")
    other.waits("gpu:1")
    twin = node.host.copy()
    agent, side = twin.parts[AGENT], twin.parts[MANAGER]
    assert isinstance(agent, Agent)
    assert isinstance(side, PoolSide)
    agent.see(side)
    assert twin.key() == node.host.key()

    turn = twin.turn([client.asks(frames.Release(client.number(), lease.key))])

    assert any(isinstance(message, frames.Granted) for _, _, message in turn.sends)
    assert twin.key() != node.host.key()
    assert node.held() == {"gpu/0": lease.lease.lease, "gpu/1": lease.lease.lease}
    node.check_counts()
    client.releases(lease)
    assert len(node.ask("who").leases) == 1


def test_late_words_of_neighbours_change_nothing() -> None:
    node = Node(pool("gpu", "0"))
    before = node.host.key()
    gone = ClaimId(HOST, 1, 99)
    for message in (Granted(gone, 1, ()), Ended(gone)):
        node.tell(AGENT, "claimant", message)
    for timer in ("wait/X", "queued/X", "kicked/X", "silent/nobody/30000", "replan"):
        node.turn([Arrival(AGENT, TimerFired(timer))])
    assert node.host.key() == before


@pytest.mark.parametrize(
    ("part", "event"),
    [
        (AGENT, TimerFired("nonsense/1")),
        (AGENT, Received(Address(HOST, "claimant"), EndsAs(ClaimId(HOST, 1, 1)))),
        (AGENT, Received(Address("elsewhere", "claimant"), Ended(ClaimId(HOST, 1, 1)))),
        (AGENT, Received(Address(HOST, "session/x"), Ended(ClaimId(HOST, 1, 1)))),
        (MANAGER, Received(Address("elsewhere", "agent"), EndsAs(ClaimId(HOST, 1, 1)))),
        (MANAGER, Received(Address(HOST, "agent"), Ended(ClaimId(HOST, 1, 1)))),
    ],
)
def test_what_is_not_for_a_machine_is_a_violation(part: str, event: Received | TimerFired) -> None:
    node = Node(pool("gpu", "0"))
    before = node.host.key()
    with pytest.raises(ProtocolViolation):
        node.host.turn([Arrival(part, event)])
    assert node.host.key() == before


def test_ch1_a_local_claim_over_three_pools_takes_two_commits_and_sends_nothing_to_other_nodes() -> None:
    node = Node(pool("a", "a1"), pool("b", "b1"), pool("c", "c1"))
    client = Client(node, "x")
    commits = node.commits
    lease = client.gets("a:1", "b:1", "c:1")
    client.releases(lease)
    assert node.commits == commits + 2
    # the harness fails on any message to another node
    assert [key for key in node.records if not key.startswith("agent!log/")] == ["manager!book/fence"]


def test_nothing_is_left_of_many_claims() -> None:
    node = Node(pool("gpu", "0", "1"), log_rows_max=10)
    client = Client(node, "a")
    for _ in range(50):
        client.releases(client.gets("gpu:1"))
    client.close(gone=True)
    state = node.agent.state
    assert (state.claims, state.by_printed, state.by_key, state.sessions, state.connections) == (
        {},
        {},
        {},
        {},
        {},
    )
    assert len(node.records) == 11
    assert node.timers == {}
    assert node.side.book.leases == {}
    assert node.side.manager.rows == {}
