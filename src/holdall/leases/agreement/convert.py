"""One document from XML into JSON or from JSON into XML, whichever kind it is; nothing of it is asked for or granted."""

from typing import Any, Literal, TypeAlias, cast

import msgspec

from holdall.leases.agreement.draft import read_draft_offer, read_draft_template
from holdall.leases.agreement.elements import parse
from holdall.leases.agreement.export import agreement_xml, offer_xml, template_xml
from holdall.leases.agreement.read_agreement import read_agreement
from holdall.leases.agreement.read_offers import read_offer, read_template
from holdall.model import strict_json, terms
from holdall.model.refusals import Refusal
from holdall.model.terms import Durations, LeaseDocument, LeaseRequest, Template

Document: TypeAlias = LeaseRequest | Template | LeaseDocument
Dialect: TypeAlias = Literal["2007-03", "draft-2004"]
DRAFT_SPAN = Durations(1, 3_600_000, 60_000)
"""Of a template of 2004, which says nothing of durations."""


def is_xml(text: bytes) -> bool:
    """By its first letter."""
    return text.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")


def from_xml(text: bytes, location: str, *, now_unix_ms: int, dialect: Dialect = "2007-03") -> Document:
    """By the name of its outermost element. `location`: whom a request must be for. Raises Refusal."""
    local = parse(text).name[1]
    is_draft = dialect == "draft-2004"
    match local:
        case "AgreementOffer" if is_draft:
            return read_draft_offer(text, location)
        case "Template" if is_draft:
            return read_draft_template(text, DRAFT_SPAN)
        case "AgreementOffer":
            return read_offer(text, location, now_unix_ms=now_unix_ms)
        case "Template":
            return read_template(text)
        case "AgreementProperties" if not is_draft:
            return read_agreement(text)
        case _:
            raise Refusal(
                "wsag.root",
                f"a {local[:40]}; an AgreementOffer, a Template or AgreementProperties (2007-03 only) can be read",
            )


def from_json(text: bytes) -> Document:
    """By its fields: a lease has `lease`, a request has `request`, a template has `template`. Raises Refusal."""
    value: Any = strict_json.parse(text)
    fields = set(cast("dict[str, Any]", value)) if isinstance(value, dict) else set[str]()
    if "lease" in fields:
        return strict_json.read(text, LeaseDocument, prefix="lease")
    if "request" in fields:
        return terms.read_request(text)
    if "template" in fields:
        return terms.read_template(text)
    raise Refusal("json.unknown_document", "neither a request, nor a template, nor a lease")


def as_xml(document: Document, location: str, *, now_unix_ms: int) -> str:
    """`location`: of a request and a template; a lease has its own."""
    match document:
        case LeaseRequest():
            return offer_xml(document, location)
        case Template():
            return template_xml(document, location)
        case LeaseDocument():
            return agreement_xml(document, now_unix_ms=now_unix_ms)


def as_json(document: Document) -> str:
    """Indented, with an end of line."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
