"""What every reader of WS-Agreement documents asks of elements, attributes and values; each refusal with its code and place.

| code | what was sent |
|---|---|
| `wsag.root` | another document than the one that is expected here |
| `wsag.namespace` | an element of another namespace than 2007/03 or our own |
| `wsag.unsupported_compositor` | `ExactlyOne`, `OneOrMore`, or `All` inside `All` |
| `wsag.unknown_element`, `wsag.unknown_attribute` | what the mapping has no place for |
| `wsag.text` | text between elements |
| `wsag.missing`, `wsag.duplicate` | an element that is needed, or one that may come once |
| `wsag.unknown_path` | a `Location` that this adapter would not have written |
| `wsag.provider` | a service provider other than `AgreementResponder` |
| `wsag.location` | a `ServiceName` that is not the location |
| `wsag.value`, `wsag.date`, `wsag.expired` | an attribute out of its range; an instant that is none; one that has passed |

Amounts have the codes of `holdall.model.quantities`, terms those of `holdall.model.terms`.
Source: lease negotiation, section 11.
"""

import re
from collections.abc import Sequence
from typing import Any, NoReturn, TypeVar

import msgspec

from holdall.leases.agreement.dates import instant_ms
from holdall.leases.agreement.elements import Element, Name, parse
from holdall.leases.agreement.words import (
    AGREEMENT_STATE,
    FACET_KINDS,
    FACETS,
    OURS,
    WSAG,
    facet,
    is_plain_word,
    ours,
    wsag,
)
from holdall.model.quantities import AMOUNT_MAX, parse_quantity
from holdall.model.refusals import Refusal
from holdall.model.terms import Value

T = TypeVar("T")
WHOLE_RE = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)

_LEAVES = {
    *map(wsag, ("Name", "AgreementId", "AgreementInitiator", "AgreementResponder", "ServiceProvider")),
    *map(
        wsag,
        ("ExpirationTime", "TemplateId", "TemplateName", "ServiceScope", "KPIName", "Target", "Location"),
    ),
    *map(wsag, ("NotReady", "Idle", "Processing", "Completed", *set(AGREEMENT_STATE.values()))),
    *map(ours, ("amount", "request", "lease", "unit")),
    *map(facet, FACET_KINDS),
}
_ATTRIBUTES: dict[Name, tuple[Name, ...]] = {
    wsag("ServiceDescriptionTerm"): (wsag("Name"), wsag("ServiceName")),
    wsag("GuaranteeTerm"): (wsag("Name"), wsag("Obligated")),
    wsag("ServiceScope"): (wsag("ServiceName"),),
    wsag("Item"): (wsag("Name"), ours("default")),
    wsag("ServiceTermState"): (wsag("termName"),),
    wsag("GuaranteeTermState"): (wsag("termName"),),
    **dict.fromkeys(map(facet, FACET_KINDS), (("", "value"), ours("type"))),
}
"""Of elements that are not our own; those of the standard may come without its prefix. Others have none."""


def check_shape(element: Element) -> None:
    """Below it there is text or elements, never both; values have no elements inside; attributes are known."""
    for child in element.children:
        if element.name in _LEAVES:
            refuse_unknown(child)
        if child.children and child.text:
            refuse("wsag.text", child, f"there is text between the elements of {child.name[1][:40]}")
        if child.name in _ATTRIBUTES or child.name[0] == WSAG:
            known = _ATTRIBUTES.get(child.name, ())
            only_attributes(child, (*known, *(("", local) for space, local in known if space == WSAG)))
        check_shape(child)


# ---------------------------------------------------------------- elements


def root_of(
    text: bytes | str, local: str, *, attributes: Sequence[str] = (), own: Sequence[str] = ()
) -> Element:
    """The outermost element, which must be the standard's `local`, with no other attributes than these. Raises Refusal, as all here."""
    root = parse(text)
    if root.name[1] == local and root.name[0] != WSAG:
        refuse("wsag.namespace", root, f"{local} is of the namespace {root.name[0][:80]!r}, not {WSAG}")
    if root.name != wsag(local):
        refuse("wsag.root", root, f"a {root.name[1][:40]} where a {local} is expected")
    known = (*map(wsag, attributes), *(("", one) for one in attributes), *map(ours, own))
    only_attributes(root, known)
    if root.text:
        refuse("wsag.text", root, f"there is text between the elements of {local}")
    check_shape(root)
    return root


def parts_of(root: Element, *names: str) -> list[Element]:
    """The children of an element, which are these of the standard, each once, in the order of the names."""
    return exactly(root, tuple(map(wsag, names)))


def exactly(element: Element, names: Sequence[Name]) -> list[Element]:
    """Its children, which are these, each once, in any order."""
    found = by_name(element, names)
    return [needed(found, name, element) for name in names]


def by_name(element: Element, names: Sequence[Name]) -> dict[Name, Element]:
    """Its children by name; each of them may come once, and others not at all."""
    found: dict[Name, Element] = {}
    for child in element.children:
        if child.name not in names:
            refuse_unknown(child)
        if child.name in found:
            refuse("wsag.duplicate", child, f"{child.name[1]} comes twice")
        found[child.name] = child
    return found


def needed(found: dict[Name, Element], name: Name, element: Element) -> Element:
    """The one of this name."""
    if name not in found:
        refuse("wsag.missing", element, f"{element.name[1]} has no {name[1]}")
    return found[name]


def own_attributes(element: Element, names: Sequence[str]) -> dict[str, str]:
    """Its attributes of our own namespace by local name; there are no others than these."""
    for name in element.attributes:
        if name[0] != OURS or name[1] not in names:
            refuse("wsag.unknown_attribute", element, f"the attribute {name[1][:40]!r} has no meaning here")
    return {name[1]: value for name, value in element.attributes.items()}


def attribute_of(element: Element, local: str) -> str:
    """Of the standard; with its prefix or without."""
    found = element.attributes.get(wsag(local), element.attributes.get(("", local)))
    if found is None:
        refuse("wsag.missing", element, f"{element.name[1]} has no attribute {local}")
    return found


def only_attributes(element: Element, names: Sequence[Name]) -> None:
    """Nothing but these."""
    for name in element.attributes:
        if name not in names:
            refuse("wsag.unknown_attribute", element, f"the attribute {name[1][:40]!r} has no meaning here")


def check_provider(context: Element, inside: dict[Name, Element]) -> None:
    """The service is provided by whoever responds."""
    provider = needed(inside, wsag("ServiceProvider"), context)
    if provider.text != "AgreementResponder":
        refuse("wsag.provider", provider, "the ServiceProvider is the AgreementResponder: the location")


def text_of(element: Element | None) -> str | None:
    """None where there is no element."""
    return None if element is None else element.text


def refuse_compositor(element: Element) -> NoReturn:
    """Alternatives inside one document are not read."""
    refuse(
        "wsag.unsupported_compositor",
        element,
        f"{element.name[1]} is not taken; send one All, without others inside",
    )


def refuse_unknown(element: Element) -> NoReturn:
    """By its namespace or by its name."""
    if element.name[0] not in {WSAG, OURS, FACETS}:
        refuse(
            "wsag.namespace", element, f"{element.name[1][:40]} is of the namespace {element.name[0][:80]!r}"
        )
    refuse("wsag.unknown_element", element, f"{element.name[1][:40]} has no meaning here")


def refuse(code: str, element: Element, text: str) -> NoReturn:
    """With the element's place."""
    raise Refusal(code, f"{text} ({element.place})", where=element.name[1][:40])


# ---------------------------------------------------------------- values


def value_of(text: str, kind: str | None, term: str, *, least: int = 1) -> Value:
    """An amount of base units, `true`, or a word; `kind` is `word` where a word looks otherwise."""
    if kind == "word":
        return text
    if text == "true":
        return True
    return text if is_plain_word(text) else amount_of(text, term, least=least)


def amount_of(text: str, what: str, *, least: int = 1) -> int:
    """A whole number of base units: units of measure are a matter of JSON and of people."""
    if least == 0 and text == "0":
        return 0
    if re.fullmatch(r"[0-9]+ ?[A-Za-z].*", text, re.ASCII | re.DOTALL):
        raise Refusal("quantity.unknown_unit", f"{text[:40]!r}: amounts here count base units", where=what)
    return parse_quantity(text, "unit", what=what)


def whole(text: str, element: Element) -> int:
    """A count from 0."""
    if WHOLE_RE.fullmatch(text) is None or int(text) > AMOUNT_MAX:
        refuse("wsag.value", element, f"{text[:40]!r} is no whole number from 0 to 2^53 - 1")
    return int(text)


def word_of(text: str, words: "dict[str, T]", element: Element) -> T:
    """What this word stands for."""
    if text not in words:
        refuse("wsag.value", element, f"{text[:40]!r} is none of {', '.join(sorted(words))}")
    return words[text]


def duration_of(text: str | None, expiration: Element | None, now_unix_ms: int) -> int | None:
    """In ms: what is asked, and no longer than until the instant of the expiration."""
    duration = None if text is None else amount_of(text, "duration")
    if expiration is None:
        return duration
    left = instant_ms(expiration.text) - now_unix_ms
    if left < 1:
        refuse("wsag.expired", expiration, "the ExpirationTime has passed")
    return left if duration is None else min(left, duration)


def fit(value: T, kind: type[T], root: Element) -> T:
    """Its fields are what their types say. Raises Refusal."""
    try:
        plain: Any = msgspec.to_builtins(value)
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as problem:
        refuse("wsag.value", root, str(problem)[:200])
