"""WS-Agreement documents: what is written is read again the same, and means what it says."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from leases.negotiation.town import AGENT, LM, NET, TTL, Town, accepts, offered, wish

from holdall.leases.agreement.dates import instant_ms, instant_text
from holdall.leases.agreement.draft import read_draft_offer, read_draft_template
from holdall.leases.agreement.elements import is_writable
from holdall.leases.agreement.export import agreement_xml, declined_xml, offer_xml, template_xml
from holdall.leases.agreement.read_agreement import read_agreement
from holdall.leases.agreement.read_offers import read_offer, read_template
from holdall.leases.agreement.words import AGREEMENT_STATE, WSAG
from holdall.leases.negotiation import messages as m
from holdall.leases.templates import template_of
from holdall.model.refusals import Refusal
from holdall.model.terms import (
    BeforeEnd,
    Durations,
    LeaseDocument,
    LeasedUnit,
    LeaseRequest,
    RequestedTerm,
    TemplateTerm,
    TermStatus,
    Usage,
    fraction_text,
)

NOW = 1_790_000_000_000
"""ms; 2026-09-21T14:13:20Z."""
IN = {"w": WSAG, "h": "urn:holdall:terms:1", "bf": "http://docs.oasis-open.org/wsrf/bf-2"}


def seed_lease() -> LeaseDocument:
    """The lease of two hosts of which one has 30,720 free."""
    town = Town()
    town.location()
    town.host("h1", {"ttl": TTL, "net.tx": NET}, {"net.tx": 15_360})
    town.host("h2", {"ttl": TTL, "net.tx": NET}, {"net.tx": 30_720})
    return accepts(town, offered(town.ask(LM, wish(ttl=2_000_000, net__tx=51_200), AGENT)))


def test_x1_the_lease_of_n1_is_read_again_with_the_same_terms_and_is_observed() -> None:
    lease = seed_lease()
    text = agreement_xml(lease, now_unix_ms=NOW)
    assert read_agreement(text) == lease
    root = ET.fromstring(text)  # noqa: S314 (our own text, by another reader)
    state = root.find("w:AgreementState", IN)
    assert state is not None
    assert [one.tag for one in state] == [f"{{{WSAG}}}Observed"]
    amounts = {
        one.get(f"{{{WSAG}}}Name"): (one.get(f"{{{WSAG}}}ServiceName"), one.findtext("h:amount", None, IN))
        for one in root.iterfind("w:Terms/w:All/w:ServiceDescriptionTerm", IN)
    }
    assert amounts == {"ttl": ("loc1", "2000000"), "net.tx": ("loc1", "30720")}
    assert root.findtext("w:Context/w:ExpirationTime", None, IN) == "2026-09-21T14:13:22.000Z"
    assert root.findtext("w:Context/w:AgreementInitiator", None, IN) == str(AGENT)


@pytest.mark.parametrize(("state", "name"), AGREEMENT_STATE.items())
def test_each_state_has_its_name_of_the_standard(state: str, name: str) -> None:
    lease = LeaseDocument("L", "loc", "h", 1, "x", state, 1, 5, "r", ())  # type: ignore[arg-type]
    text = agreement_xml(lease, now_unix_ms=NOW)
    assert f"<wsag:{name}/>" in text
    assert read_agreement(text) == lease
    other = text.replace(f"<wsag:{name}/>", "<wsag:Complete/>" if name != "Complete" else "<wsag:Pending/>")
    with pytest.raises(Refusal, match="in another state") as refused:
        read_agreement(other)
    assert refused.value.reason == "wsag.value"


def test_a_request_goes_out_and_comes_in_with_its_floors_and_weights() -> None:
    request = LeaseRequest(
        "r1",
        {
            "ttl": RequestedTerm(2_000_000),
            "net.tx": RequestedTerm(51_200, floor=10_000, weight="3/2"),
            "service.postgres": RequestedTerm(True),
            "cpu.arch": RequestedTerm("x86_64", exact=True),
            "latency": RequestedTerm(7, prefer="low", weight=3),
        },
        template="t-9f3a",
        duration=2_000,
        replaces="L-1",
        before_end=BeforeEnd(500, "INT"),
    )
    text = offer_xml(request, "loc1")
    assert read_offer(text, "loc1", now_unix_ms=NOW) == request
    assert text.count("<wsag:GuaranteeTerm ") == 1
    with pytest.raises(Refusal) as refused:
        read_offer(text, "loc2", now_unix_ms=NOW)
    assert refused.value.reason == "wsag.location"


@pytest.mark.parametrize(
    ("expires", "duration"),
    [
        ("2026-09-21T14:13:21Z", 1_000),
        ("2026-09-21T14:13:20.250Z", 250),
        ("2026-09-21T16:13:21+02:00", 1_000),
        ("2030-01-01T00:00:00Z", 2_000),
    ],
)
def test_an_expiration_time_is_an_upper_bound_only(expires: str, duration: int) -> None:
    text = offer_xml(LeaseRequest("r", {"net.tx": RequestedTerm(1)}, duration=2_000), "loc1")
    dated = text.replace("<h:request", f"<wsag:ExpirationTime>{expires}</wsag:ExpirationTime><h:request")
    assert read_offer(dated, "loc1", now_unix_ms=NOW).duration == duration


@pytest.mark.parametrize(
    ("expires", "code"),
    [
        ("2026-09-21T14:13:20Z", "wsag.expired"),
        ("2026-09-21T14:13:21", "wsag.date"),
        ("2026-02-29T00:00:00Z", "wsag.date"),
        ("2026-13-01T00:00:00Z", "wsag.date"),
        ("0000-01-01T00:00:00Z", "wsag.date"),
        ("2026-01-01T24:00:00Z", "wsag.date"),
        ("2026-01-01T00:00:00+14:30", "wsag.date"),
        ("٢٠٢٦-01-01T00:00:00Z", "wsag.date"),
        ("tomorrow", "wsag.date"),
    ],
)
def test_an_expiration_time_that_is_none_or_has_passed_is_refused(expires: str, code: str) -> None:
    text = offer_xml(LeaseRequest("r", {"net.tx": RequestedTerm(1)}, duration=2_000), "loc1")
    dated = text.replace("<h:request", f"<wsag:ExpirationTime>{expires}</wsag:ExpirationTime><h:request")
    with pytest.raises(Refusal) as refused:
        read_offer(dated, "loc1", now_unix_ms=NOW)
    assert refused.value.reason == code


def test_a_template_goes_out_and_comes_in_and_keeps_its_id() -> None:
    template = template_of(
        {
            "ttl": TTL,
            "net.tx": NET,
            "mem": TemplateTerm("capacity", "B", step=4096),
            "gpu": TemplateTerm("pool", max=4),
            "slots": TemplateTerm("pool", values=(1, 2, 4)),
            "service.postgres": TemplateTerm("function", values=(True,)),
            "cpu.arch": TemplateTerm("function", values=("x86_64", "true", "7")),
        },
        Durations(500, 3_600_000, 60_000),
        valid_for_ms=30_000,
        policy_hint='affiliation in ["vu"] & more',
    )
    text = template_xml(template, "loc1")
    assert read_template(text) == template
    # A term without limits has no Item, as in the model of 2004.
    assert text.count("<wsag:Item ") == 6 + 1


def test_a_refusal_is_a_fault_that_says_why() -> None:
    declined = m.Declined(
        "r1", "oversubscribed", "net.tx", "each-1MB", best_possible={"net.tx": 7}, retry_after_ms=900
    )
    root = ET.fromstring(declined_xml(declined, now_unix_ms=NOW))  # noqa: S314 (our own text)
    assert root.tag == f"{{{WSAG}}}ContinuingFault"
    assert root.findtext("bf:Description", None, IN) == "oversubscribed net.tx each-1MB"
    assert root.findtext("bf:Timestamp", None, IN) == "2026-09-21T14:13:20.000Z"
    (said,) = root.iterfind("h:declined", IN)
    assert said.get(f"{{{IN['h']}}}retry_after_ms") == "900"
    assert [one.get(f"{{{IN['h']}}}amount") for one in said] == ["7"]


# ---------------------------------------------------------------- the form of 2004

DRAFT_OFFER = """<wsag:AgreementOffer xmlns:wsag="urn:w" xmlns:agentscape="urn:a">
<wsag:Name>Offer1</wsag:Name>
<wsag:Context><wsag:AgreementInitiator> agentX </wsag:AgreementInitiator>
<wsag:TemplateName>Template1</wsag:TemplateName></wsag:Context>
<wsag:Terms><wsag:All>
<wsag:ServiceDescriptionTerm wsag:Name="TimeToLive" wsag:ServiceName="LocationY">
<!-- 2000 seconds --><agentscape:timeToLive>2000</agentscape:timeToLive>
</wsag:ServiceDescriptionTerm>
<wsag:ServiceDescriptionTerm wsag:Name="Communication" wsag:ServiceName="LocationY">
<agentscape:communication><agentscape:minBandWidth>
51200
</agentscape:minBandWidth></agentscape:communication>
</wsag:ServiceDescriptionTerm></wsag:All></wsag:Terms></wsag:AgreementOffer>"""
DRAFT_TEMPLATE = """<wsag:Template xmlns:wsag="urn:w" xmlns:xs="urn:x">
<wsag:Name>Template1</wsag:Name><wsag:Context/><wsag:Terms/>
<wsag:CreationConstraints>
<wsag:Item><wsag:Location>//wsag:ServiceDescriptionTerm//
agentscape:timeToLive</wsag:Location><xs:maxInclusive xs:value="5000"/></wsag:Item>
<wsag:Item><wsag:Location>//wsag:ServiceDescriptionTerm//
agentscape:communication</wsag:Location></wsag:Item>
</wsag:CreationConstraints></wsag:Template>"""


def test_the_form_of_2004_is_read_where_it_is_asked_for() -> None:
    assert read_draft_offer(DRAFT_OFFER, "LocationY") == LeaseRequest(
        "Offer1", {"stay": RequestedTerm(2_000_000), "net.tx": RequestedTerm(51_200)}
    )
    template = read_draft_template(DRAFT_TEMPLATE, Durations(500, 60_000, 2_000))
    assert template.terms == {
        "stay": TemplateTerm("time", max=5_000_000),
        "net.tx": TemplateTerm("capacity", "B/s", sharing="fair"),
    }
    with pytest.raises(Refusal) as refused:
        read_offer(DRAFT_OFFER, "LocationY", now_unix_ms=NOW)
    assert refused.value.reason == "wsag.namespace"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        # As they were printed: no prefix is bound, and each has a fault of its own beside.
        ("<wsag:Template><wsag:Name>Template1</wsag:Name></wsag:Template>", "xml.malformed"),
        (DRAFT_OFFER.replace("</wsag:Name>", "</wsag:name>"), "xml.malformed"),
        ("<-- Host 1 Terms -->" + DRAFT_OFFER, "xml.malformed"),
        (DRAFT_OFFER.replace("LocationY", "LocationZ"), "wsag.location"),
        (DRAFT_OFFER.replace("51200", "50 Kb/s"), "quantity.unknown_unit"),
        (DRAFT_OFFER.replace("minBandWidth", "maxBandWidth"), "wsag.unknown_element"),
        (DRAFT_OFFER.replace("wsag:All", "wsag:ExactlyOne"), "wsag.unknown_element"),
        (DRAFT_OFFER.replace(">2000<", ">9007199254740991<"), "quantity.too_large"),
    ],
)
def test_what_was_printed_in_2004_is_no_xml_and_is_refused_with_its_place(text: str, code: str) -> None:
    with pytest.raises(Refusal, match=r"line \d+, column \d+|amounts here|beyond") as refused:
        read_draft_offer(text, "LocationY")
    assert refused.value.reason == code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (DRAFT_TEMPLATE.replace("timeToLive", "communication"), "wsag.unknown_path"),
        (DRAFT_TEMPLATE.replace("//wsag:Service", "/Service"), "wsag.unknown_path"),
        (DRAFT_TEMPLATE.replace("maxInclusive", "pattern"), "wsag.unknown_element"),
        (DRAFT_TEMPLATE.replace("<wsag:Context/>", ""), "wsag.missing"),
        (DRAFT_TEMPLATE.replace("<wsag:Context/>", "<wsag:Context/><wsag:Context/>"), "wsag.duplicate"),
        (DRAFT_OFFER, "wsag.root"),
    ],
)
def test_a_template_of_2004_that_says_something_else_is_refused(text: str, code: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_draft_template(text, Durations(500, 60_000, 2_000))
    assert refused.value.reason == code


# ---------------------------------------------------------------- all that can be written

NAMES = st.from_regex(r"[a-z][a-z0-9._-]{0,20}", fullmatch=True)
LETTERS = st.characters(codec="utf-8").filter(is_writable)
TEXTS = st.text(LETTERS, max_size=20).map(str.strip)
AMOUNTS = st.integers(1, 2**53 - 1)
WORDS = st.one_of(NAMES, st.sampled_from(["true", "7", "+1", "-"]))
COUNTS = st.integers(0, 2**53 - 1)


@st.composite
def requests(draw: st.DrawFn) -> LeaseRequest:
    terms: dict[str, RequestedTerm] = {}
    for name in draw(
        st.lists(NAMES.filter(lambda one: one != "duration"), min_size=1, max_size=5, unique=True)
    ):
        amount = draw(st.one_of(AMOUNTS, st.just(True), WORDS))
        weight = draw(st.one_of(st.integers(1, 100), st.sampled_from(["3/2", "7/3"])))
        terms[name] = RequestedTerm(
            amount,
            floor=draw(st.none() | AMOUNTS),
            weight=weight,
            exact=draw(st.booleans()),
            prefer=draw(st.sampled_from(["high", "low"])),
        )
    return LeaseRequest(
        draw(st.from_regex(r"[!-~]{1,64}", fullmatch=True)),
        terms,
        template=draw(st.none() | NAMES),
        duration=draw(st.none() | AMOUNTS),
        replaces=draw(st.none() | NAMES),
        wait_ms=draw(COUNTS),
        before_end=draw(st.none() | st.builds(BeforeEnd, AMOUNTS, st.sampled_from(["TERM", "HUP"]))),
    )


@st.composite
def leases(draw: st.DrawFn) -> LeaseDocument:
    statuses: list[TermStatus] = []
    for name in draw(st.lists(NAMES, max_size=4, unique=True)):
        requested, granted = draw(
            st.one_of(st.tuples(AMOUNTS, COUNTS), st.just((True, True)), WORDS.map(lambda one: (one, one)))
        )
        unit = st.builds(LeasedUnit, NAMES, NAMES, COUNTS)
        statuses.append(
            TermStatus(
                name,
                draw(st.sampled_from(["pool", "capacity", "function", "time"])),
                requested,
                granted,
                draw(st.sampled_from(["not_ready", "ready.idle", "ready.processing", "completed"])),
                draw(st.sampled_from(["not_determined", "fulfilled", "violated"])),
                fraction_text(granted, requested),
                draw(st.builds(Usage, COUNTS, COUNTS, COUNTS)),
                denied=draw(COUNTS),
                enforced=draw(st.sampled_from(["kernel", "process", "observed", "none"])),
                violated_s=draw(COUNTS),
                fence=draw(COUNTS),
                units=tuple(draw(st.lists(unit, max_size=3))),
                unit=draw(st.sampled_from(["", "B/s", "B", "mcpu"])),
            )
        )
    return LeaseDocument(
        draw(NAMES),
        draw(TEXTS),
        draw(st.text(LETTERS, max_size=10)),
        draw(COUNTS),
        draw(TEXTS),
        draw(st.sampled_from(list(AGREEMENT_STATE))),
        draw(COUNTS),
        draw(COUNTS),
        draw(NAMES),
        tuple(statuses),
        remaining_ms=draw(COUNTS),
        renew_after_ms=draw(COUNTS),
        rebind_after_ms=draw(COUNTS),
        template=draw(st.none() | NAMES),
        fence=draw(COUNTS),
        host_reachable=draw(st.booleans()),
        why=draw(st.text(LETTERS, max_size=20)),
    )


@given(requests())
@settings(max_examples=40)
def test_each_request_is_read_again_as_it_was(request: LeaseRequest) -> None:
    assert read_offer(offer_xml(request, "loc1"), "loc1", now_unix_ms=NOW) == request


@given(leases())
@settings(max_examples=40)
def test_each_lease_is_read_again_as_it_was(lease: LeaseDocument) -> None:
    assert read_agreement(agreement_xml(lease, now_unix_ms=NOW)) == lease


@given(st.integers(0, 253_402_300_799_999))
def test_each_instant_is_read_again_as_it_was(unix_ms: int) -> None:
    assert instant_ms(instant_text(unix_ms)) == unix_ms


def test_instants_of_known_days() -> None:
    assert instant_ms("1970-01-01T00:00:00Z") == 0
    assert instant_ms("2000-02-29T12:00:00.5Z") == 951_825_600_500
    assert instant_ms("1969-12-31T23:59:59Z") == -1000
    assert instant_text(NOW) == "2026-09-21T14:13:20.000Z"
    assert instant_text(2**60) == "9999-12-31T23:59:59.999Z"


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    lease = LeaseDocument("L", "loc", "h", 1, "x", "active", 1, 5, "r", (), why="a\x00b\ud800c\ufffe")
    assert read_agreement(agreement_xml(lease, now_unix_ms=NOW)).why == "a\ufffdb\ufffdc\ufffd"
