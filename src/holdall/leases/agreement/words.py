"""The names of WS-Agreement documents, their states, and the paths that point at terms.

Namespace and element names are those of the 2007/03 schema; what it has no words for is in a namespace of our own.
Source: lease negotiation, section 11.
"""

from typing import Literal, TypeAlias

from holdall.leases.agreement.elements import Name
from holdall.model.terms import Guarantee, LeaseState, TermState

WSAG = "http://schemas.ggf.org/graap/2007/03/ws-agreement"
OURS = "urn:holdall:terms:1"
FACETS = "http://www.w3.org/2001/XMLSchema"
FAULTS = "http://docs.oasis-open.org/wsrf/bf-2"
PREFIXES = {WSAG: "wsag", OURS: "h", FACETS: "xs", FAULTS: "bf"}
FACET_KINDS = ("minInclusive", "maxInclusive", "enumeration")
MEDIA_TYPE = "application/wsag+xml"

AgreementState: TypeAlias = Literal[
    "Pending", "Rejected", "Observed", "ObservedAndTerminating", "Terminated", "Complete"
]

AGREEMENT_STATE: dict[LeaseState, AgreementState] = {
    "proposed": "Pending",
    "offered": "Pending",
    "declined": "Rejected",
    "lapsed": "Rejected",
    "withdrawn": "Rejected",
    "active": "Observed",
    "draining": "ObservedAndTerminating",
    "released": "Terminated",
    "revoked": "Terminated",
    "expired": "Complete",
}
SERVICE_STATE: dict[TermState, tuple[str, ...]] = {
    "not_ready": ("NotReady",),
    "ready.idle": ("Ready", "Idle"),
    "ready.processing": ("Ready", "Processing"),
    "completed": ("Completed",),
}
"""Elements inside each other."""
GUARANTEE_STATE: dict[Guarantee, str] = {
    "not_determined": "NotDetermined",
    "fulfilled": "Fulfilled",
    "violated": "Violated",
}


def wsag(local: str) -> Name:
    """A name of the standard."""
    return WSAG, local


def ours(local: str) -> Name:
    """A name of ours."""
    return OURS, local


def facet(local: str) -> Name:
    """A name of XML schema."""
    return FACETS, local


def term_path(term: str) -> str:
    """Where a template's term stands. It is compared as text and never evaluated."""
    return f"/wsag:Template/wsag:Terms/wsag:All/wsag:ServiceDescriptionTerm[@wsag:Name='{term}']/h:amount"


DURATION_PATH = "/wsag:Template/wsag:Context/h:duration"


def is_plain_word(text: str) -> bool:
    """Whether it can only be a word: not empty, not `true`, and nothing that begins like an amount."""
    return text not in {"", "true"} and not text[0].isdigit() and text[0] not in "+-"
