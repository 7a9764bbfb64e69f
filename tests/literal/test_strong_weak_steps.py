"""One message to a resource of the printed two-resource algorithm, and its exact effects."""

import msgspec
import pytest

from holdall.machine.contract import Address, ProtocolViolation, Received, Send
from holdall.protocols.literal.strong_weak import Request, Resource, StrongWeakRules
from holdall.protocols.literal.strong_weak_messages import (
    Counted,
    Done,
    EndAck,
    KillAck1,
    KillAck2,
    KillLoop,
    NewRequest,
    NewStrong,
    NewStrongAck,
    NoLoop,
    ResAllowed,
    SeekLoop,
    StrongReady,
    Token,
)
from holdall.protocols.vocabulary import ClaimId

A, B = ClaimId("a", 1, 1), ClaimId("b", 1, 2)
PRINTED = StrongWeakRules()


def resource(rules: StrongWeakRules = PRINTED, *, name: str = "r1", root: bool = False) -> Resource:
    return Resource(name, "r2", rules, root=root)


def tell(one: Resource, message: Counted, sender: str = "r0") -> list[tuple[str, msgspec.Struct]]:
    """(receiver, message) of all that is sent; `nth` left out."""
    effects = one.handle(Received(Address(sender, "manager"), message))
    sent = [(effect.to.node, effect.message) for effect in effects if isinstance(effect, Send)]
    return [
        (to, msgspec.structs.replace(said, nth=0) if isinstance(said, Counted) else said) for to, said in sent
    ]


def test_a_weak_request_waits_and_asks_the_strong_resource() -> None:
    weak = resource()
    assert tell(weak, NewRequest(A, 2, "r0"), "a") == [("r0", NewRequest(A, 1, "r1"))]
    assert [*weak.state.weak] == [Request(A, 2, "r0")]
    assert tell(weak, NewStrong(A)) == [("r0", NewStrongAck())]
    assert [*weak.state.strong] == [Request(A, 2, "r0")]
    assert [*weak.state.weak] == []
    assert weak.state.weak_ready  # it heads the queue at once
    assert tell(weak, StrongReady()) == [("a", ResAllowed(A))]


def test_a_head_tells_its_weak_resource_and_seeks_after_the_acknowledgement() -> None:
    strong = resource()
    assert tell(strong, NewRequest(A, 1, "r0")) == [("r0", NewStrong(A))]
    assert tell(strong, NewStrongAck()) == [("r0", SeekLoop("r1", "r1"))]
    assert tell(strong, NoLoop()) == [("r0", StrongReady())]
    assert tell(strong, NewRequest(B, 1, ""), "b") == []
    assert tell(strong, Done()) == [("a", EndAck(A)), ("r2", Token()), ("b", ResAllowed(B))]
    assert strong.state.wrong.startswith("two tokens")


def test_l1_done_goes_to_the_next_head_unless_repaired() -> None:
    for rules, sent in ((PRINTED, []), (StrongWeakRules(done_target=True), [("r0", Done())])):
        weak = resource(rules)
        tell(weak, NewRequest(A, 2, "r0"), "a")
        tell(weak, NewStrong(A))
        assert [one for one in tell(weak, Done(), "a") if one[1] != Token()] == sent


def test_l5_a_search_overwrites_rmin_unless_it_is_local() -> None:
    for rules, rmin in ((PRINTED, ""), (StrongWeakRules(rmin_local=True), "r1")):
        one = resource(rules)
        tell(one, SeekLoop("", "r0"))
        assert one.state.rmin == rmin


def test_a_search_names_the_least_resource_that_has_no_token() -> None:
    for root, rmin in ((False, "r1"), (True, "r3")):
        one = resource(root=root)
        tell(one, NewRequest(A, 1, "r0"))
        assert tell(one, SeekLoop("r3", "r2")) == [("r0", SeekLoop(rmin, "r2"))]


def test_a_search_ends_where_the_head_is_weak_alone_or_missing() -> None:
    one = resource()
    assert tell(one, SeekLoop("r2", "r2")) == [("r2", NoLoop())]
    tell(one, NewRequest(A, 1, ""), "a")
    assert tell(one, SeekLoop("r2", "r2")) == [("r2", NoLoop())]


def test_its_own_search_comes_back_and_it_kills_its_edge() -> None:
    one = resource()
    tell(one, NewRequest(A, 1, "r0"))
    tell(one, NewRequest(B, 1, "r0"))
    assert tell(one, SeekLoop("r1", "r1")) == [("r0", KillLoop(A))]
    assert one.state.lock
    assert tell(one, NewRequest(B, 2, "r0"), "b") == []  # waits in the buffer
    assert tell(one, KillAck1()) == [
        ("r0", KillAck2()),
        ("r0", NewStrong(B)),
        ("r0", NewRequest(B, 1, "r1")),
    ]
    assert [request.client for request in one.state.strong] == [B, A]


def test_a_killed_client_goes_back_to_the_weak_queue_strong_requests_too() -> None:
    one = resource()
    tell(one, NewRequest(A, 1, "r0"))
    assert tell(one, KillLoop(A)) == [("r0", KillAck1())]
    assert one.state.weak == (Request(A, 1, "r0"),)
    assert one.state.wrong.startswith("destroyed")


def test_the_token_copies_the_strong_requests_that_are_there() -> None:
    one = resource()
    tell(one, NewRequest(A, 1, "r0"))
    tell(one, Token())
    assert (one.state.holding, one.state.token) == (True, (Request(A, 1, "r0"),))


def test_a_resource_refuses_what_only_clients_take() -> None:
    with pytest.raises(ProtocolViolation):
        resource().handle(Received(Address("r0", "manager"), EndAck(A)))
