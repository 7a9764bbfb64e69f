"""XML within bounds: a reader that stops at the first thing that is too much, and a writer.

A document type is refused before anything in it is looked at, so there are no entities to expand, no file and no address
to fetch. Counts are checked while elements arrive and not afterwards. Names are pairs of namespace and local name.
Source: lease negotiation, section 11.

| code | what was sent |
|---|---|
| `xml.too_long` | more than 64 KiB |
| `xml.dtd_forbidden` | any `<!DOCTYPE` |
| `xml.too_deep` | more than 32 elements inside each other |
| `xml.too_many_elements` | more than 2,000 |
| `xml.too_many_attributes` | more than 64 at one element |
| `xml.encoding` | not UTF-8, or half of a surrogate pair |
| `xml.malformed` | no XML, with the place of the first fault |
"""

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from xml.parsers import expat

import msgspec

from holdall.model.refusals import Refusal

BYTES_MAX = 64 * 1024
DEPTH_MAX = 32
ELEMENTS_MAX = 2000
ATTRIBUTES_MAX = 64
_SEPARATOR = "\n"
"""Between namespace and local name; neither can have one."""

Name: TypeAlias = tuple[str, str]
"""(namespace, "" for none; local name)."""


class Element(msgspec.Struct):
    """One element. `text`: all characters directly in it, without blanks at either end."""

    name: Name
    attributes: dict[Name, str] = {}
    children: "list[Element]" = []
    text: str = ""
    line: int = 0
    column: int = 0

    @property
    def place(self) -> str:
        """For people."""
        return f"line {self.line}, column {self.column}"

    def all(self, name: Name) -> "list[Element]":
        """Its children of this name."""
        return [one for one in self.children if one.name == name]


def parse(text: bytes | str) -> Element:
    """The outermost element. Raises Refusal with one of the codes above."""
    return _Reader().read(_bytes(text))


def _bytes(text: bytes | str) -> bytes:
    if len(text) > BYTES_MAX:
        raise Refusal("xml.too_long", f"{len(text)} bytes of XML; at most {BYTES_MAX} are read")
    try:
        body = text.encode() if isinstance(text, str) else text
        body.decode()
    except UnicodeError:
        raise Refusal("xml.encoding", "the document is not in UTF-8") from None
    if len(body) > BYTES_MAX:
        raise Refusal("xml.too_long", f"{len(body)} bytes of XML; at most {BYTES_MAX} are read")
    return body


class _Reader:
    """Of one document."""

    def __init__(self) -> None:
        self._parser = expat.ParserCreate("UTF-8", _SEPARATOR)
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.buffer_text = True
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._root: Element | None = None
        self._count = 0

    def read(self, body: bytes) -> Element:
        """Once."""
        try:
            self._parser.Parse(body, True)
        except expat.ExpatError as error:
            raise Refusal(
                "xml.malformed",
                f"no XML: {expat.ErrorString(error.code)} (line {error.lineno}, column {error.offset + 1})",
            ) from None
        if self._root is None:
            raise Refusal("xml.malformed", "no XML: there is no element (line 1, column 1)")
        return self._root

    def _doctype(self, name: str, system: str | None, public: str | None, internal: int) -> None:
        del name, system, public, internal
        raise Refusal(
            "xml.dtd_forbidden",
            f"a document type is declared (line {self._parser.CurrentLineNumber}); leave <!DOCTYPE …> out",
        )

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._count += 1
        element = Element(
            _name(name), line=self._parser.CurrentLineNumber, column=self._parser.CurrentColumnNumber + 1
        )
        if self._count > ELEMENTS_MAX:
            raise Refusal("xml.too_many_elements", f"more than {ELEMENTS_MAX} elements ({element.place})")
        if len(self._open) >= DEPTH_MAX:
            raise Refusal("xml.too_deep", f"more than {DEPTH_MAX} elements in each other ({element.place})")
        if len(attributes) > ATTRIBUTES_MAX:
            raise Refusal(
                "xml.too_many_attributes", f"more than {ATTRIBUTES_MAX} attributes ({element.place})"
            )
        element.attributes = {_name(one): value for one, value in attributes.items()}
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, name: str) -> None:
        del name
        self._open.pop().text = "".join(self._texts.pop()).strip(" \t\r\n")

    def _text(self, data: str) -> None:
        if self._texts:
            self._texts[-1].append(data)


def _name(text: str) -> Name:
    namespace, separator, local = text.rpartition(_SEPARATOR)
    return (namespace, local) if separator else ("", text)


# ---------------------------------------------------------------- writing


def write(root: Element, prefixes: Mapping[str, str]) -> str:
    """The document; `prefixes` by namespace, all declared at the root. Characters that XML can't hold become U+FFFD."""
    declared = "".join(
        f' xmlns:{prefix}="{_escaped(namespace)}"' for namespace, prefix in sorted(prefixes.items())
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', *_lines(root, prefixes, 0, declared)]
    return "\n".join(lines) + "\n"


def _lines(element: Element, prefixes: Mapping[str, str], depth: int, declared: str) -> Iterator[str]:
    blanks, tag = "  " * depth, _qualified(element.name, prefixes)
    attributes = "".join(
        f' {_qualified(name, prefixes)}="{_escaped(value)}"' for name, value in element.attributes.items()
    )
    head = f"{blanks}<{tag}{declared}{attributes}"
    if not element.children:
        yield f"{head}>{_escaped(element.text)}</{tag}>" if element.text else f"{head}/>"
        return
    yield f"{head}>{_escaped(element.text)}"
    for child in element.children:
        yield from _lines(child, prefixes, depth + 1, "")
    yield f"{blanks}</{tag}>"


def _qualified(name: Name, prefixes: Mapping[str, str]) -> str:
    return f"{prefixes[name[0]]}:{name[1]}" if name[0] else name[1]


_SPECIAL = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}


def _escaped(text: str) -> str:
    return "".join(_SPECIAL.get(one, one if is_writable(one) else "\ufffd") for one in text)


def is_writable(letter: str) -> bool:
    """Whether XML 1.0 can hold it."""
    code = ord(letter)
    return letter in "\t\n\r" or 0x20 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF
