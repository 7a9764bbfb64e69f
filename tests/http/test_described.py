"""The description for programs and the page for people say what the routes are."""

import re
from pathlib import Path
from typing import Any

import msgspec

from holdall.http.described import describe
from holdall.http.problems import KINDS, detail_of_error
from holdall.http.table import BESIDE, V1
from holdall.model.errors import BY_CODE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
DOCUMENT = describe(V1)


def references(value: Any) -> set[str]:
    return set(re.findall(r'"\$ref":"([^"]+)"', msgspec.json.encode(value).decode()))


def test_every_reference_of_the_description_leads_somewhere() -> None:
    for reference in references(DOCUMENT):
        place: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            assert step in place, reference
            place = place[step]


def test_each_route_is_described_once_with_its_parameters() -> None:
    described = {(method.upper(), path) for path, one in DOCUMENT["paths"].items() for method in one}
    assert described == {(route.method, route.path) for route in V1}
    names = [one["operationId"] for path in DOCUMENT["paths"].values() for one in path.values()]
    assert len(set(names)) == len(names)
    for path, methods in DOCUMENT["paths"].items():
        for one in methods.values():
            inside = [parameter["name"] for parameter in one["parameters"] if parameter["in"] == "path"]
            assert inside == re.findall(r"\{(\w+)\}", path)


def test_the_page_names_every_route_and_no_other_below_v1() -> None:
    named = {
        re.sub(r"\{[a-z]+\}|ID\b|NAME\b", "{}", path.partition("?")[0].rstrip("/"))
        for path in re.findall(r"`?(/v1/[a-zA-Z/{}._]*)", PAGE)
    }
    real = {
        re.sub(r"\{[a-z]+\}", "{}", route.path) for route in (*V1, *BESIDE) if route.path.startswith("/v1")
    }
    assert real - named == set()
    assert named - real - {"/v1"} == set()


def test_the_page_lists_every_code_with_its_status() -> None:
    listed = dict(re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", PAGE, re.MULTILINE))
    wanted = {code: str(status) for code, (status, _) in KINDS.items() if code != "bad-config"}
    assert listed == wanted


def test_every_error_of_the_public_interface_has_a_status() -> None:
    for code, kind in BY_CODE.items():
        detail = detail_of_error(kind("text"))
        assert code in KINDS
        assert (detail.code, detail.detail, detail.exit_status) == (code, "text", kind.exit_status)
