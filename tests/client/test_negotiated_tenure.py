"""Until when a client counts on a negotiated lease, by what its node says, in whatever order that is heard."""

from typing import Any

import msgspec

from holdall.client.calls import Call
from holdall.client.location_sync import NegotiatedLease
from holdall.client.location_tenure import NegotiatedTenure, keeper_of
from holdall.guardian.clock import boottime_ms
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import LeaseDocument, TermStatus

LONG = LeaseDocument(
    "L-prague-a-1.1",
    "prague",
    "a",
    1,
    "ann@a",
    "active",
    3,
    600_000,
    "r",
    (TermStatus("net.tx", "capacity", 60, 60),),
)
SHORT = msgspec.structs.replace(LONG, revision=4, duration=5_000)


def test_what_was_confirmed_holds_when_a_later_answer_says_less() -> None:
    tenure = NegotiatedTenure(LONG, 600_000)
    tenure.confirm(LONG, 599_990)
    assert tenure.until_ms == 600_000
    tenure.confirm(msgspec.structs.replace(LONG, revision=4), 900_000)
    assert (tenure.until_ms, tenure.document.revision) == (900_000, 4)


def test_a_shorter_renewal_counts_at_once_and_an_answer_of_before_it_gives_nothing_back() -> None:
    tenure = NegotiatedTenure(LONG, 600_000)
    tenure.confirm(SHORT, 15_000)
    assert tenure.until_ms == 15_000
    # Asked before the renewal, and heard after it.
    tenure.confirm(LONG, 600_001)
    assert (tenure.until_ms, tenure.document) == (15_000, SHORT)
    tenure.confirm(SHORT, 16_000)
    assert tenure.until_ms == 16_000


class Node:
    """A link to a node that answers as it is told to, one question after the other."""

    def __init__(self, *answers: f.ToClient) -> None:
        self.asked: list[f.FromClient] = []
        self._answers = list(answers)

    def negotiate(self, body: bytes, *, wait_ms: int = 0) -> Any:
        del wait_ms
        self.asked.append(f.read_question(body))
        call = Call[frames.Negotiated](frames.Negotiate(1, body), 1, repeatable=False)
        call.succeed(frames.Negotiated(1, f.pack(self._answers.pop(0))))
        return call


def with_rate(amount: int, revision: int = 3) -> LeaseDocument:
    return msgspec.structs.replace(
        LONG, revision=revision, terms=(TermStatus("net.tx", "capacity", 60, amount),)
    )


def held(amount: int) -> f.Held:
    return f.Held((f.HeldLease(LONG.lease, 600_000, with_rate(amount)),))


def test_a_split_that_is_asked_again_takes_nothing_away_a_second_time() -> None:
    part = msgspec.structs.replace(with_rate(15, 1), lease="L-part", holder="bob@b")
    same = f.LeaseParted(f.LeaseIs(with_rate(45), 600_000), part)
    node: Any = Node(held(30), same, held(45))
    tenure = NegotiatedTenure(with_rate(45), boottime_ms() + 600_000)
    lease = NegotiatedLease(node, tenure)
    keeper_of(node).look([tenure])  # while the node counts the part as gone once more
    assert lease.granted("net.tx") == 30
    assert lease.split({"net.tx": 15}, to="bob@b", request="r" * 8) == part
    assert lease.granted("net.tx") == 45
    assert [type(question) for question in node.asked] == [f.HoldLeases, f.SplitLease, f.HoldLeases]


def test_a_split_that_is_new_needs_no_second_question() -> None:
    part = msgspec.structs.replace(with_rate(15, 1), lease="L-part", holder="bob@b")
    node: Any = Node(f.LeaseParted(f.LeaseIs(with_rate(45, 4), 600_000), part))
    lease = NegotiatedLease(node, NegotiatedTenure(with_rate(60), boottime_ms() + 600_000))
    assert lease.split({"net.tx": 15}, to="bob@b") == part
    assert (lease.granted("net.tx"), lease.document.revision) == (45, 4)
    assert len(node.asked) == 1
