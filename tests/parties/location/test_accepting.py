"""Who gets an offer that several take: a command has its lease alone, and anybody else may take the same again."""

from collections.abc import Sequence

import msgspec
from parties.location.test_command_use import LEASE, OTHER, REQUEST, Node, document, to_managers

from holdall.leases.negotiation import messages as m
from holdall.machine.contract import Effect, Message, Send, TimerFired
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.parties.location.messages import LOCATION
from holdall.parties.messages import SessionClosed

FIRST, SECOND = "session/1", "session/2"
COMMAND, PLAIN = f.AcceptOffer(LEASE, command=True), f.AcceptOffer(LEASE)
TAKEN = (
    f"lease {LEASE} is taken already, and a command has its lease alone. "
    "Ask anew: holdall location request prague"
)


class Offered(Node):
    """A negotiator with one offer for ann that nobody has taken."""

    def __init__(self) -> None:
        super().__init__(take=False)

    def is_active(self) -> list[tuple[str, Message]]:
        return told(self.hears(LOCATION, m.LeaseIs(document("active"))))


def told(effects: Sequence[Effect]) -> list[tuple[str, Message]]:
    """Whom of the clients, and what."""
    return [
        (one.to.part, one.message)
        for one in effects
        if isinstance(one, Send) and isinstance(one.message, frames.Negotiated | frames.Denied)
    ]


def denied(effects: Sequence[Effect]) -> list[tuple[str, str, str]]:
    return [(to, one.code, one.text) for to, one in told(effects) if isinstance(one, frames.Denied)]


def leased(answers: list[tuple[str, Message]]) -> list[str]:
    """Who got the lease."""
    return [
        to
        for to, one in answers
        if isinstance(one, frames.Negotiated) and isinstance(f.read_answer(one.body), f.LeaseIs)
    ]


def test_of_two_commands_at_the_same_instant_the_first_gets_the_lease_and_the_other_is_refused() -> None:
    node = Offered()
    assert told(node.asks(COMMAND, FIRST)) == []
    assert denied(node.asks(COMMAND, SECOND)) == [(SECOND, "not-granted", TAKEN)]
    assert leased(node.is_active()) == [FIRST]
    assert denied(node.asks(COMMAND, SECOND)) == [(SECOND, "not-granted", TAKEN)]


def test_nobody_takes_what_a_command_takes_and_no_command_what_another_has_taken() -> None:
    node = Offered()
    node.asks(COMMAND, FIRST)
    assert denied(node.asks(PLAIN, SECOND)) == [(SECOND, "not-granted", TAKEN)]
    assert leased(node.is_active()) == [FIRST]
    assert denied(node.asks(PLAIN, SECOND)) == [(SECOND, "not-granted", TAKEN)]

    node = Offered()
    node.asks(PLAIN, FIRST)
    assert denied(node.asks(COMMAND, SECOND)) == [(SECOND, "not-granted", TAKEN)]
    assert leased(node.is_active()) == [FIRST]
    assert denied(node.asks(COMMAND, SECOND)) == [(SECOND, "not-granted", TAKEN)]


def test_without_a_command_the_same_again_has_the_same_answer() -> None:
    node = Offered()
    node.asks(PLAIN, FIRST)
    assert told(node.asks(PLAIN, SECOND)) == []
    assert leased(node.is_active()) == [FIRST, SECOND]
    assert leased(told(node.asks(PLAIN, SECOND))) == [SECOND]


def test_where_the_first_has_gone_before_it_was_answered_the_next_command_is_the_first() -> None:
    for gone in (SessionClosed(process_gone=True), None):
        node = Offered()
        node.asks(COMMAND, FIRST)
        if gone is None:
            node.machine.handle(TimerFired(f"|wait/accept/{LEASE}"))
        else:
            node.hears(FIRST, gone)
        assert told(node.asks(COMMAND, SECOND)) == []
        assert leased(node.is_active()) == [SECOND]


def test_a_lease_whose_command_never_began_is_anybodys_to_take_but_no_commands() -> None:
    node = Offered()
    node.asks(COMMAND, FIRST)
    node.hears(FIRST, SessionClosed(process_gone=True))
    assert node.is_active() == []
    assert denied(node.asks(COMMAND, SECOND)) == [(SECOND, "not-granted", TAKEN)]
    assert leased(told(node.asks(PLAIN, SECOND))) == [SECOND]


def test_what_replaces_a_commands_lease_may_be_taken_by_others() -> None:
    node = Offered()
    node.asks(COMMAND, FIRST)
    node.is_active()
    replacing = msgspec.structs.replace(REQUEST, request="r2", replaces=LEASE)
    node.asks(f.AskOffer("prague", replacing))
    second = msgspec.structs.replace(document("offered"), revision=2, request="r2")
    node.hears(LOCATION, m.Offer("r2", 10_000, second))
    ((_, said),) = to_managers(node.asks(PLAIN, OTHER))
    assert said == m.AcceptLease(LEASE, 2)
