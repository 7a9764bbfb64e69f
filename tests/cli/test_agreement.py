"""`holdall agreement` as people call it: to and fro, and what it refuses."""

import io
import json
import sys
from pathlib import Path

import pytest

from holdall.cli.entry import main

REQUEST = {"request": "r1", "terms": {"net.tx": {"amount": 51_200, "floor": 10_000}}, "duration": 2_000}


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["agreement", *arguments, "--location", "prague"])
    return int(ended.value.code or 0)


def test_a_request_goes_to_xml_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "request.json").write_text(json.dumps(REQUEST))
    assert run(str(tmp_path / "request.json")) == 0
    text = capsys.readouterr().out
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<wsag:AgreementOffer ')
    (tmp_path / "offer.xml").write_text("\ufeff" + text)
    assert run(str(tmp_path / "offer.xml")) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == REQUEST
    assert err == ""


def test_a_template_and_a_lease_go_to_xml_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    template = {
        "template": "t-1",
        "terms": {"net.tx": {"kind": "capacity", "unit": "B/s", "max": 7}},
        "duration": {"min": 1, "max": 3, "default": 2},
        "hosts": 2,
        "valid_for_ms": 30_000,
        "policy_hint": "",
    }
    term = {"name": "net.tx", "kind": "capacity", "requested": 5, "granted": 3, "fraction": "3/5"}
    lease = {
        "lease": "L-1", "location": "prague", "host": "h1", "host_incarnation": 1, "holder": "x", "state": "active",
        "revision": 1, "duration": 2_000, "request": "r1", "terms": [term], "remaining_ms": 1_430,
    }  # fmt: skip
    for document in (template, lease):
        (tmp_path / "in").write_text(json.dumps(document))
        assert run(str(tmp_path / "in")) == 0
        (tmp_path / "in").write_text(capsys.readouterr().out)
        assert run(str(tmp_path / "in")) == 0
        assert json.loads(capsys.readouterr().out) == document


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<!DOCTYPE a><a/>", "[xml.dtd_forbidden]"),
        ("<a/>", "[wsag.root]"),
        ("<a>" * 40, "[xml.too_deep]"),
        ("<" + "a" * 70_000, "[xml.too_long]"),
        ("{}", "[json.unknown_document]"),
        ("[1]", "[json.unknown_document]"),
        ('{"lease": 1, "lease": 2}', "[json.duplicate_key]"),
        ('{"lease": 1}', "[lease.wrong_type]"),
        ('{"request": "r", "terms": {}}', "[request.no_terms]"),
        ("", "[json.malformed]"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_code_and_status_64(
    text: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert run("-") == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err


def test_the_form_of_2004_is_read_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "offer.xml").write_text(
        '<AgreementOffer><Name>Offer1</Name><Context/><Terms><All><ServiceDescriptionTerm ServiceName="prague">'
        "<timeToLive>2000</timeToLive></ServiceDescriptionTerm></All></Terms></AgreementOffer>"
    )
    assert run(str(tmp_path / "offer.xml"), "--dialect", "draft-2004") == 0
    assert json.loads(capsys.readouterr().out)["terms"] == {"stay": {"amount": 2_000_000}}
    assert run(str(tmp_path / "offer.xml")) == 64
    assert run(str(tmp_path / "nothing.xml")) == 64
