"""What a guardian tells its node of a command under a negotiated lease: what goes on to the host, and what ends with whom."""

from collections.abc import Sequence

from holdall.leases.negotiation import messages as m
from holdall.machine.contract import Address, ClockRead, Effect, Message, Received, Send
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import (
    LeaseDocument,
    LeaseRequest,
    RequestedTerm,
    TermStatus,
    TermUse,
    Usage,
)
from holdall.parties.location.dealings import NegotiatorSettings
from holdall.parties.location.messages import HOST, LOCATION, OnBehalf, Petition
from holdall.parties.location.negotiator import Negotiator
from holdall.parties.messages import NODE, SessionClosed
from holdall.parties.neighbours import NoNeighbours

OWN = "h1"
LEASE = "L-prague-h1-1.1"
GUARDIAN, OTHER = "session/9", "session/8"
REQUEST = LeaseRequest("r1", {"cpu": RequestedTerm(500)}, duration=60_000)


def document(state: str) -> LeaseDocument:
    terms = (TermStatus("cpu", "capacity", 500, 500),)
    return LeaseDocument(LEASE, "prague", OWN, 1, "ann@lab-1", state, 1, 60_000, "r1", terms)  # type: ignore[arg-type]


class Node:
    """A negotiator that holds one lease for ann, or has an offer of it that she has not taken."""

    def __init__(self, request: LeaseRequest = REQUEST, *, take: bool = True) -> None:
        self.machine = Negotiator(NegotiatorSettings(OWN, "lab-1", "prague"), NoNeighbours(OWN, "lab-1"))
        self.count = 0
        self.first = self.asks(f.AskOffer("prague", request, take))
        self.hears(LOCATION, m.Offer("r1", 10_000, document("offered")))
        if take:
            self.hears(LOCATION, m.LeaseIs(document("active")))

    def hears(self, part: str, message: Message) -> Sequence[Effect]:
        return self.machine.handle(Received(Address(OWN, part), message))

    def asks(self, question: f.FromClient, session: str = OTHER, user: str = "ann") -> Sequence[Effect]:
        self.count += 1
        return self.hears(session, Petition(self.count, f.pack(question), user, 1000))

    def clock(self, now_ms: int) -> None:
        self.hears(NODE, ClockRead(now_ms, now_ms))


def to_managers(effects: Sequence[Effect]) -> list[tuple[Address, Message]]:
    """Said to managers, in whose name being left out."""
    return [
        (one.to, one.message.message)
        for one in effects
        if isinstance(one, Send) and isinstance(one.message, OnBehalf)
    ]


def answer(effects: Sequence[Effect]) -> f.ToClient:
    (found,) = (
        one.message.body
        for one in effects
        if isinstance(one, Send) and isinstance(one.message, frames.Negotiated)
    )
    return f.read_answer(found)


def test_the_use_of_a_command_goes_to_the_host_and_what_only_the_gate_measures_does_not() -> None:
    node = Node()
    cpu = TermUse("cpu", Usage(700, 300, 400), "ready.processing", enforced="kernel")
    forged = TermUse("net.tx", Usage(0))
    said = node.asks(f.TellUse(LEASE, (cpu, forged), "meter", guarded=True), GUARDIAN)
    assert to_managers(said) == [(Address(OWN, HOST), m.UseIs(LEASE, (cpu,), "meter"))]
    held = answer(said)
    assert isinstance(held, f.Held)
    (one,) = held.leases
    assert (one.document, 0 < one.valid_for_ms <= 60_000) == (
        answer_document(node),
        True,
    )


def answer_document(node: Node) -> LeaseDocument | None:
    held = answer(node.asks(f.HoldLeases((LEASE,))))
    assert isinstance(held, f.Held)
    return held.leases[0].document


def test_an_outcome_is_told_without_any_use_and_nothing_to_tell_is_no_message() -> None:
    node = Node()
    said = node.asks(f.TellUse(LEASE, before_end="its holder was told"))
    assert to_managers(said) == [(Address(OWN, HOST), m.UseIs(LEASE, (), "", "its holder was told"))]
    assert to_managers(node.asks(f.TellUse(LEASE))) == []


def test_nobody_tells_anything_of_somebody_elses_lease() -> None:
    node = Node()
    said = node.asks(f.TellUse(LEASE, (TermUse("cpu"),), "m", "done", guarded=True), GUARDIAN, user="bob")
    assert to_managers(said) == []
    assert answer(said) == f.Held((f.HeldLease(LEASE, reason="unknown"),))


def test_when_a_guardian_is_gone_the_lease_is_not_given_back_but_not_renewed_either() -> None:
    node = Node()
    node.clock(1_000_000)
    node.asks(f.TellUse(LEASE, guarded=True), GUARDIAN)
    assert to_managers(node.hears(GUARDIAN, SessionClosed(process_gone=False))) == []
    assert to_managers(node.hears(GUARDIAN, SessionClosed(process_gone=True))) == []
    assert node.machine.petitions.using.is_used(LEASE)
    node.clock(1_060_001)
    assert not node.machine.petitions.using.is_used(LEASE)
    # Whoever knows that nothing of the command is left gives it back at once.
    assert to_managers(node.asks(f.EndLease(LEASE))) == [(Address(OWN, HOST), m.ReleaseLease(LEASE))]


def test_when_another_holder_is_gone_the_lease_is_given_back_at_once() -> None:
    node = Node()
    node.asks(f.TellUse(LEASE, before_end="its holder was told"))
    assert to_managers(node.hears(OTHER, SessionClosed(process_gone=True))) == [
        (Address(OWN, HOST), m.ReleaseLease(LEASE))
    ]


def test_a_host_is_named_as_people_call_it_and_one_that_nobody_knows_is_refused() -> None:
    def asked(host: str) -> Sequence[Effect]:
        made = LeaseRequest("r1", {"cpu": RequestedTerm(500)}, duration=60_000, host=host)
        return Node(made).first

    ((_, message),) = to_managers(asked("lab-1"))
    assert isinstance(message, m.RequestLease)
    assert message.request.host == OWN
    refused = answer(asked("lab-7"))
    assert isinstance(refused, f.NoOffer)
    assert (refused.reason, refused.text) == (
        "request.host",
        "no node is named lab-7. See: holdall location list",
    )
