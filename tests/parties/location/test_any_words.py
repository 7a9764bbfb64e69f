"""Whatever other nodes say to the parts of a location, nothing but a refusal comes of it, and nothing is given away."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect
from parties.any_values import AnyValues

from holdall.leases.negotiation import messages as m
from holdall.leases.negotiation.interfaces import Asker
from holdall.leases.shares import Shares
from holdall.machine.contract import Address, ClockRead, ProtocolViolation, Received
from holdall.machine.host import Arrival, Host, Turn
from holdall.model import frames
from holdall.model import location_frames as f
from holdall.model.terms import Durations, LeaseRequest, RequestedTerm, TemplateTerm
from holdall.parties.location.host_side import HostSide
from holdall.parties.location.messages import (
    HOST,
    LOCATION,
    NEGOTIATOR,
    BetweenNodes,
    Led,
    Petition,
)
from holdall.parties.location.parts import Divided, LocationParts, Policies, location_parts
from holdall.parties.neighbours import Neighbour, NoNeighbours

SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)
OWN, PEER, FAR = "own", "peer", "far"
LEASES = [f"L-prague-{OWN}-7.1", f"L-prague-{PEER}-7.1", f"L-brno-{FAR}-7.1", "L-x", ""]
HOLDS = [f"{OWN}.1.1", f"{OWN}.1.2", "none"]
WORDS = [
    "",
    "x",
    "net.tx",
    "r1",
    "prague",
    OWN,
    PEER,
    FAR,
    "ann@lab-peer",
    "ann@lab-own",
    "7.1",
    "\x1b[2J",
    *LEASES,
    *HOLDS,
]


class Street(NoNeighbours):
    """Own node and `peer` are in prague, `far` in brno."""

    def name_of(self, node: str) -> str:
        return f"lab-{node}"

    def node(self, node: str) -> Neighbour | None:
        place = {PEER: "prague", FAR: "brno"}.get(node)
        return None if place is None else Neighbour(node, f"lab-{node}", "serving", 1, 1, location=place)

    def nodes(self) -> list[Neighbour]:
        return [one for one in (self.node(PEER), self.node(FAR)) if one is not None]


def any_number(kind: inspect.IntType) -> st.SearchStrategy[int]:
    least = 0 if kind.ge is None else kind.ge
    return st.sampled_from([least, 1, 2, 7, 8, 40_000, 100_000, 2**53 - 1])


def any_struct(
    kind: inspect.StructType, drawn: dict[str, st.SearchStrategy[object]]
) -> st.SearchStrategy[object]:
    for name, values in (
        ("lease", LEASES),
        ("hold", HOLDS),
        ("host", [OWN, PEER, FAR]),
        ("round", ["7.1", "x"]),
    ):
        if name in drawn:
            drawn |= {name: st.sampled_from(values)}
    if "revision" in drawn:
        drawn |= {"revision": st.sampled_from([0, 1, 2])}
    return st.builds(kind.cls, **drawn)


VALUES = AnyValues(words=st.sampled_from(WORDS), integers=any_number, structs=any_struct, at_most=2)


def any_of(*kinds: object) -> st.SearchStrategy[object]:
    """Those that the link takes."""
    found: list[inspect.Type] = []
    for kind in kinds:
        of = inspect.type_info(kind)
        found += of.types if isinstance(of, inspect.UnionType) else [of]
    return VALUES.one_of(found)


MESSAGES = any_of(
    m.LocationToHost,
    m.HostToLocation,
    m.AgentToLocation,
    m.AgentToHost,
    m.LocationToAgent,
    m.HostToAgent,
    m.Lead,
    BetweenNodes,
)
SENDERS = st.builds(
    Address, st.sampled_from([PEER, FAR, "nobody"]), st.sampled_from([HOST, LOCATION, NEGOTIATOR, "agent"])
)


def street(*, leads: str) -> Host:
    """One node that offers something, has a lease, an offer and a request under way."""
    parts = LocationParts(
        "prague",
        {"net.tx": TemplateTerm("capacity", "B/s", min=1, max=100_000, sharing="fair")},
        {"net.tx": Divided(100_000)},
        Durations(500, 3_600_000, 60_000),
    )
    neighbours = Street(OWN, "lab-own")
    host = Host(OWN, location_parts(parts, OWN, "lab-own", neighbours, policies=Policies(), rho_ppm=20_000))
    host.start()
    say(host, NEGOTIATOR, "node", ClockRead(1, 1))
    say(host, HOST, "node", ClockRead(1, 1))
    say(host, LOCATION, "node", Led(leads, 7))
    for number, take in enumerate((True, False)):
        request = LeaseRequest(f"r{number}", {"net.tx": RequestedTerm(40_000)}, duration=60_000)
        body = f.pack(f.AskOffer("prague", request, take))
        say(host, NEGOTIATOR, "session/1", Petition(number, body, "ann", 1000))
    return host


def say(host: Host, part: str, sender: str, message: msgspec.Struct) -> None:
    host.turn([Arrival(part, Received(Address(OWN, sender), message))])


@pytest.mark.parametrize("leads", [OWN, PEER, ""])
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(st.data())
def test_nothing_that_others_say_ends_a_node_or_gives_more_than_there_is(
    leads: str, data: st.DataObject
) -> None:
    host = street(leads=leads)
    for _ in range(data.draw(st.integers(1, 6))):
        part = data.draw(st.sampled_from([HOST, LOCATION, NEGOTIATOR]))
        message = data.draw(MESSAGES)
        assert isinstance(message, msgspec.Struct)
        refused: list[ProtocolViolation] = []
        arrival = Arrival(part, Received(data.draw(SENDERS), message))
        host.turn([arrival], lambda _, error: refused.append(error))  # noqa: B023
        for timer in [name for name in ("suspect/own", "gone/peer", "round/7.1") if data.draw(st.booleans())]:
            host.turn([host.fire(f"{LOCATION}!{timer}")])
        side = host.parts[HOST]
        assert isinstance(side, HostSide)
        (sharing,) = side.manager.book.allotments.sharings.values()
        assert isinstance(sharing, Shares)
        assert 0 <= sharing.free <= 100_000
        assert sum(one.granted for one in sharing.parts.values()) <= 100_000


def test_a_node_speaks_for_its_own_users_only() -> None:
    host = street(leads=OWN)
    request = m.RequestLease(LeaseRequest("r9", {"net.tx": RequestedTerm(5)}))
    from holdall.parties.location.messages import OnBehalf

    for node, asker, is_believed in (
        (PEER, Asker("ann@lab-peer"), True),
        (PEER, Asker("ann@lab-peer", (("affiliation", "prague"),)), True),
        (PEER, Asker("ann@lab-own"), False),
        (PEER, Asker("ann@lab-peer", (("affiliation", "brno"),)), False),
        (PEER, Asker("@lab-peer"), False),
        (FAR, Asker("ann@lab-far", (("affiliation", "brno"),)), True),
        ("nobody", Asker("ann@lab-nobody"), False),
    ):
        for part in (LOCATION, HOST):
            said = OnBehalf(asker, request if part == LOCATION else m.GetStatus(LEASES[0]))
            arrival = Arrival(part, Received(Address(node, NEGOTIATOR), said))
            refused: list[ProtocolViolation] = []
            host.turn([arrival], lambda _, error: refused.append(error))  # noqa: B023
            assert (not refused) == is_believed, (node, asker, part, refused)


def test_of_two_users_who_ask_about_a_lease_at_once_none_gets_the_answer_to_the_other() -> None:
    host = street(leads=OWN)
    question = f.pack(f.AskStatus(LEASES[2]))  # its manager is another node
    asked = [
        host.turn(
            [Arrival(NEGOTIATOR, Received(Address(OWN, f"session/{user}"), Petition(7, question, user, 1)))]
        )
        for user in ("ann", "bob", "ann")
    ]
    assert [told(turn) for turn in asked] == [[], ["unreachable"], []]
    answer = Received(Address(FAR, LOCATION), m.UnknownLease(LEASES[2]))
    turn = host.turn([Arrival(NEGOTIATOR, answer)])
    assert [send[1].part for send in turn.sends] == ["session/ann", "session/ann"]
    again = host.turn(
        [Arrival(NEGOTIATOR, Received(Address(OWN, "session/bob"), Petition(8, question, "bob", 1)))]
    )
    assert told(again) == []


def test_what_is_the_same_for_all_is_told_to_all_who_ask_at_once() -> None:
    host = street(leads=PEER)
    for question in (f.AskTemplates("prague"), f.AskHosts("prague"), f.AskLeases("prague")):
        for number, user in enumerate(("ann", "bob")):
            petition = Petition(20 + number, f.pack(question), user, 1)
            turn = host.turn([Arrival(NEGOTIATOR, Received(Address(OWN, f"session/{user}"), petition))])
            assert told(turn) == []


def test_an_id_is_taken_while_a_part_of_a_request_for_several_has_it() -> None:
    host = street(leads=OWN)

    def asked(*names: str) -> list[object]:
        parts = [
            f.AskOffer("prague", LeaseRequest(name, {"net.tx": RequestedTerm(1)}, duration=60_000))
            for name in names
        ]
        question = parts[0] if len(parts) == 1 else f.AskTogether(tuple(parts))
        petition = Petition(9, f.pack(question), "ann", 1)
        turn = host.turn([Arrival(NEGOTIATOR, Received(Address(OWN, "session/2"), petition))])
        return [
            getattr(f.read_answer(message.body), "reason", "")
            for _, _, message in turn.sends
            if isinstance(message, frames.Negotiated)
        ]

    assert asked("a", "b") == []  # their turn has not come
    assert asked("b", "c") == ["request.id"]
    assert asked("b") == ["request.id"]


def told(turn: Turn) -> list[str]:
    """Refusals to clients."""
    return [message.code for _, _, message in turn.sends if isinstance(message, frames.Denied)]
