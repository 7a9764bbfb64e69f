"""Until when a client counts on a negotiated lease, by what its node says, in whatever order that is heard."""

import msgspec

from holdall.client.location_tenure import NegotiatedTenure
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
