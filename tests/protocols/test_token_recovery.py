"""A ring that loses its token, and nodes that come and go (strong/weak specification, section 5)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocols.token_room import Room, claim

from holdall.machine.contract import Address, ProtocolViolation
from holdall.protocols.by_pool.claim import Want
from holdall.protocols.token.merging import merged
from holdall.protocols.token.messages import (
    Behind,
    Epoch,
    Known,
    Recover,
    Report,
    RingAbsent,
    RingJoin,
    RingLeave,
    Stage,
    Token,
)
from holdall.protocols.vocabulary import ClaimId, LeaseLost, Release, Terms

A, B, C = claim("c1"), claim("c2"), claim("c3")
TWO = {"n0": {"a": 1}, "n1": {"a": 1}}
THREE = {"n0": {"a": 1}, "n1": {"a": 1}, "n2": {"a": 1}}
BOTH = pytest.mark.parametrize("protocol", ["token", "token-tickets"])


def own(node: str) -> Address:
    return Address(node, "membership")


@BOTH
def test_sw8_a_token_that_was_passed_on_is_sent_again_until_it_is_known_to_have_come(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n1")
    room.deliver("Request")
    room.deliver("Call")
    room.take("Token")  # lost
    room.restart("n0")
    assert room.manager("n0").ring.stage is Stage.PASSED
    assert room.tokens() == []
    room.fire()
    assert room.granted() == [A]
    room.fire()
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_sw8_a_token_that_rests_is_there_again_after_a_restart(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n0", "n1")
    room.run()
    for node in TWO:
        room.restart(node)
    assert room.tokens() == ["n0"]
    room.claims(B, "n0", "n1")
    room.run()
    room.restart("n1", "reboot", epoch=2)  # with a complete journal what waits stays in line
    assert [entry.claim for entry in room.manager("n1").line("a")] == [B]
    room.release_all()
    assert room.granted() == [A, B]


def test_a_lost_token_is_made_again_with_what_it_listed() -> None:
    """n1 is lost with the token, which listed a claim for n2."""
    room = Room("token", THREE)
    room.claims(A, "n0", "n2")
    room.deliver("Request")
    old = room.take("Token", "n1")
    room.hand(old)
    room.take("Token", "n2")  # lost with n1
    room.restart("n1", "lost", epoch=2)
    manager = room.manager("n1")
    assert (manager.ring.stage, manager.ring.epoch) == (Stage.GATHERING, (2, "n1", 2))
    assert room.kinds() == ["Held", "Recover", "Recover"]
    room.deliver("Recover", "n0")
    assert room.manager("n0").ring.stage is Stage.AWAY  # its copy of the old token is dead
    room.deliver("Recover", "n2")
    room.deliver("Report")
    assert manager.ring.stage is Stage.GATHERING
    room.deliver("Report")
    token = room.take("Token", "n2")[2]
    assert isinstance(token, Token)
    assert (token.epoch, token.next, [one.nodes for one in token.listed]) == ((2, "n1", 2), 2, [("n2",)])
    turn = room.hand(old)
    assert [message for _, _, message in turn.sends] == [Behind((2, "n1", 2), ("n0", "n1", "n2"))]
    room.run()
    room.fire()
    assert room.granted() == [A]
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_a_node_that_has_joined_an_epoch_takes_no_older_token(protocol: str) -> None:
    room = Room(protocol, TWO)
    room.claims(A, "n1")
    room.deliver("Request")
    room.deliver("Call")
    old = room.take("Token", "n1")
    room.tell("n1", "manager", Recover((5, "n0", 1), ("n0", "n1")), Address("n0", "manager"))
    before = room.manager("n1").key()
    room.hand(old)
    assert room.manager("n1").key() == before


@BOTH
def test_the_answer_of_a_fast_member_counts(protocol: str) -> None:
    """Who begins an epoch has joined it before the first answer can come."""
    room = Room(protocol, TWO)
    room.restart("n1", "lost", epoch=2)
    room.deliver("Recover", "n0")
    room.deliver("Report", "n1")
    room.run()
    assert room.tokens() == ["n0"]
    room.claims(A, "n0", "n1")
    room.run()
    room.fire()
    assert room.granted() == [A]
    room.release_all()


@BOTH
def test_lost_twice_in_a_row_is_another_epoch_each_time(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.claims(A, "n0", "n1", "n2")
    room.run()
    epochs: set[Epoch] = set()
    for boot in (2, 3, 4):
        room.restart("n0", "lost", epoch=boot)
        room.run()
        room.fire()
        assert room.tokens() == ["n0"]
        epochs.add(room.manager("n2").ring.epoch)
    assert len(epochs) == 3
    room.say(Release(A))
    room.run()
    room.release_all()


@BOTH
def test_two_nodes_that_have_lost_everything_agree_on_one_token(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.run()
    room.restart("n1", "lost", epoch=2)
    room.restart("n2", "lost", epoch=2)
    room.wire.reverse()
    room.run()
    room.fire()
    room.fire()
    assert room.tokens() == ["n0"]
    assert len({room.manager(node).ring.epoch for node in THREE}) == 1
    room.claims(A, "n0", "n1", "n2")
    room.run()
    room.fire()
    assert room.granted() == [A]
    room.release_all()


@BOTH
def test_a_claim_that_has_ended_at_one_node_is_not_put_in_again_there(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.claims(A, "n0", "n2")
    room.run()
    room.say(Release(A))
    room.deliver("End", "n2")
    kept = room.take("End", "n0")
    room.restart("n1", "lost", epoch=2)
    room.run()
    room.fire("n0", "n1", "n2")
    assert room.manager("n2").entries == {}
    room.hand(kept)
    room.run()
    room.release_all()


@BOTH
def test_without_an_absent_node_the_ring_goes_on_and_its_claims_wait_for_it(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.run()
    room.down.add("n1")
    room.claims(A, "n0", "n1")
    room.claims(B, "n0", "n2")
    room.run()
    for node in ("n0", "n2"):
        room.tell(node, "manager", RingAbsent(("n1",)), own(node))
    room.run()
    assert room.manager("n2").ring.members == ("n0", "n2")
    # A stands before B at n0, and its claimant ends that attempt when its lease at n1 is over.
    room.tell("c1", "claimant", LeaseLost(A, "expired"))
    room.run()
    assert room.granted() == [B]
    assert list(room.manager("n0").weak) == [A]
    room.say(Release(B))
    room.run()
    # n1 comes back as it was, and hears that the ring has gone on without it.
    room.restart("n1")
    room.tell("n1", "manager", RingJoin(contacts=("n0", "n2")), own("n1"))
    room.run()
    room.fire()
    assert {room.manager(node).ring.members for node in THREE} == {("n0", "n1", "n2")}
    assert room.tokens() == ["n0"]
    assert A in room.granted()
    room.say(Release(A))
    room.run()
    room.fire()
    assert not any(room.manager(node).entries for node in THREE)


@BOTH
def test_an_absent_node_that_comes_back_with_the_old_token_is_told_so(protocol: str) -> None:
    """It has admitted a claim meanwhile, which gets its place behind those of the ring that went on."""
    room = Room(protocol, THREE)
    room.claims(C, "n2")
    room.deliver("Request")
    room.deliver("Call")
    room.claims(A, "n1", "n2")
    room.deliver("Request", "n1")
    token = room.take("Token", "n1")
    for node in ("n0", "n2"):
        room.tell(node, "manager", RingAbsent(("n1",)), own(node))
    for kind, to in (("Recover", "n2"), ("Report", "n0"), ("Token", "n2")):
        room.deliver(kind, to)
    room.hand(token)  # n1 has been cut off, and takes what was under way to it
    assert room.manager("n1").ring.stage is Stage.PASSED
    room.run()
    room.fire()
    room.fire()
    assert {room.manager(node).ring.members for node in THREE} == {("n0", "n1", "n2")}
    assert room.tokens() == ["n0"]
    assert C in room.granted()
    room.release_all()
    assert sorted(room.granted()) == [A, C]


@BOTH
def test_a_new_node_joins_and_its_pools_are_served(protocol: str) -> None:
    room = Room(protocol, {"n1": {"a": 1}, "n0": {"a": 1}}, ring=("n1",))
    assert room.tokens() == ["n1"]
    room.claims(A, "n0", "n1")
    room.run()
    assert room.granted() == []
    room.tell("n0", "manager", RingJoin(contacts=("n1",)), own("n0"))
    room.run()
    assert room.granted() == [A]
    assert room.manager("n1").ring.members == ("n0", "n1")
    room.fire()
    assert room.tokens() == ["n0"]
    room.release_all()


@BOTH
def test_two_new_nodes_join_at_once(protocol: str) -> None:
    room = Room(protocol, THREE, ring=("n1",))
    for node in ("n0", "n2"):
        room.tell(node, "manager", RingJoin(contacts=("n1",)), own(node))
    room.run()
    room.fire()
    room.fire()
    assert {room.manager(node).ring.members for node in THREE} == {("n0", "n1", "n2")}
    assert room.tokens() == ["n0"]


@BOTH
def test_a_node_leaves_when_nothing_stands_there_any_more(protocol: str) -> None:
    room = Room(protocol, THREE)
    room.claims(A, "n0", "n1")
    room.run()
    room.tell("n0", "manager", RingLeave(), own("n0"))
    room.run()
    room.fire()
    assert "n0" in room.manager("n1").ring.members
    room.release_all()
    room.fire()
    room.fire()
    assert room.manager("n1").ring.members == room.manager("n2").ring.members == ("n1", "n2")
    assert room.tokens() == ["n1"]
    room.claims(B, "n2")
    room.run()
    assert B in room.granted()
    room.say(Release(B))
    room.run()


@BOTH
def test_only_a_nodes_own_parts_speak_of_members(protocol: str) -> None:
    room = Room(protocol, TWO)
    before = room.manager("n0").key()
    for message in (RingAbsent(("n1",)), RingLeave()):
        with pytest.raises(ProtocolViolation, match="for this node's own parts"):
            room.tell("n0", "manager", message, Address("n1", "manager"))
    assert room.manager("n0").key() == before


def test_a_journal_without_its_last_turns_begins_an_epoch() -> None:
    """It may still show a token that has gone."""
    room = Room("token", TWO)
    stale = dict(room.records["n0"])
    room.claims(A, "n1")
    room.run()
    room.release_all()
    room.records["n0"] = stale
    room.restart("n0", "reboot", epoch=2, quarantine_ms=500)
    assert room.manager("n0").ring.stage is Stage.GATHERING
    room.run()
    assert room.tokens() == ["n0"]


def known(number: int, who: ClaimId, nodes: str, places: tuple[int, ...]) -> Known:
    return Known(number, who, 1, tuple(Want(f"n{node}", "a", 1, 1) for node in nodes), Terms(), places)


def report(*claims: Known, boot: int = 1) -> tuple[Report, ...]:
    return (Report((3, "n0", 1), boot, 0, 1, claims),)


def test_what_is_missing_is_put_in_by_number() -> None:
    a, b = known(1, A, "02", (0,)), known(2, B, "12", (0,))
    following, missing = merged({"n0": report(a), "n1": report(b), "n2": report()})
    assert following == 3
    assert missing == [(a, (1,)), (b, (1,))]


def test_what_is_missing_goes_in_behind_whoever_stands_before_it_anywhere() -> None:
    """B has the lower number, but comes to n1 behind C: so it must come to n2 behind C as well."""
    b, c = known(1, B, "012", (0,)), known(2, C, "12", (0,))
    _, missing = merged({"n0": report(b), "n1": report(c), "n2": report()})
    assert missing == [(c, (1,)), (b, (1, 2))]
    whole = known(1, B, "012", (0, 1))
    at_n1 = known(1, B, "012", (1,))
    _, missing = merged({"n0": report(whole), "n1": report(at_n1, c), "n2": report()})
    assert [one.claim for one, _ in missing] == [B, C]


def test_nothing_is_put_in_where_it_may_have_ended_and_been_forgotten_or_beyond_the_ring() -> None:
    a, b = known(1, A, "01", (0,)), known(2, B, "03", (0,))
    assert merged({"n0": report(a, b), "n1": report(boot=2)}) == (3, [])


def test_a_claim_that_has_ended_at_one_of_its_nodes_keeps_nobody_out() -> None:
    """B ended at n1, where C stands now, and not yet at n0, where C stands behind it: a circle that is none."""
    b, c = known(1, B, "01", (0,)), known(2, C, "012", (0,))
    at_n1 = known(2, C, "012", (1,))
    _, missing = merged({"n0": report(b, c), "n1": report(at_n1), "n2": report()})
    assert missing == [(b, (1,)), (c, (2,))]


@given(st.data())
def test_the_order_contradicts_no_queue(data: st.DataObject) -> None:
    """Claims in some order; each pool has seen a part of those that want it, the first ones."""
    count = data.draw(st.integers(1, 7))
    wants = [data.draw(st.sets(st.integers(0, 3), min_size=1)) for _ in range(count)]
    numbers = data.draw(st.permutations(range(1, count + 1)))
    names = [ClaimId("c", 1, one) for one in range(count)]
    queues: dict[int, list[int]] = {
        node: [one for one in range(count) if node in wants[one]] for node in range(4)
    }
    seen = {node: queue[: data.draw(st.integers(0, len(queue)))] for node, queue in queues.items()}
    told: dict[str, tuple[Report, ...]] = {}
    for node, queue in seen.items():
        claims: list[Known] = []
        for one in queue:
            nodes = sorted(wants[one])
            text = "".join(map(str, nodes))
            claims.append(known(numbers[one], names[one], text, (nodes.index(node),)))
        told[f"n{node}"] = report(*claims)
    _, missing = merged(told)
    put_in = [names.index(one.claim) for one, _ in missing]
    after = {
        node: [*queue, *(one for one in put_in if node in wants[one] and one not in queue)]
        for node, queue in seen.items()
    }
    # No circle over all queues: somebody is always behind nobody.
    left = {one for queue in after.values() for one in queue}
    while left:
        heads = [
            one
            for one in sorted(left)
            if all(
                next(other for other in queue if other in left) == one
                for queue in after.values()
                if one in queue
            )
        ]
        assert heads
        left -= set(heads)
