"""Bytes of others: whatever is wrong with them, the error is one and the same."""

from pathlib import Path

import msgspec
import pytest

from holdall.bus import join_wire, leadership_table, members
from holdall.http.access import TOKENS, Access
from holdall.http.audit import Audit, first_broken
from holdall.jobs.entries import decode_entry
from holdall.jobs.spec import decode_job
from holdall.model import frames, location_frames
from holdall.model.decoding import decoded
from holdall.node.logins import FOLDER, hash_of

DEEP = 100_000
NOT_UTF8 = {"type": "denied", "n": 1, "code": "lost", "text": msgspec.Raw(b"\xa1\xff")}


@pytest.mark.parametrize(
    "data",
    [b"", b"no JSON", b'{"a": 1}', b'"\xff"', b"[" * DEEP],
    ids=["none", "other", "type", "text", "deep"],
)
def test_what_can_not_be_decoded_is_one_error(data: bytes) -> None:
    kind = list[str] if data.startswith(b"{") else object
    with pytest.raises(msgspec.DecodeError):
        decoded(msgspec.json.Decoder(kind).decode, data)
    for decode in (decode_entry, decode_job):
        with pytest.raises(msgspec.DecodeError):
            decode(data)


def test_what_can_be_is_what_it_is() -> None:
    assert decoded(msgspec.json.decode, b'{"a": ["\xc3\xa9"]}') == {"a": ["\u00e9"]}


def test_a_frame_with_bytes_that_are_no_text_is_no_frame() -> None:
    body = msgspec.msgpack.encode(NOT_UTF8)
    for read in (frames.read_answer, frames.read_request, location_frames.read_answer):
        with pytest.raises(msgspec.DecodeError):
            read(body)


def test_words_of_the_bus_with_bytes_that_are_no_text_are_none() -> None:
    sorry = msgspec.msgpack.encode({"type": "sorry", "text": msgspec.Raw(b"\xa1\xff")})
    with pytest.raises(join_wire.BadJoin, match="utf-8"):
        join_wire.decode_answer(sorry)
    with pytest.raises(join_wire.BadJoin, match="utf-8"):
        join_wire.decode_request(msgspec.msgpack.encode({"type": msgspec.Raw(b"\xa1\xff")}))
    assert members.unpack(b"\x81\xa7revoked\x81\xa1\xff\x01") is None
    assert leadership_table.read_word(b'{"leader":"\xff","process":"y","epoch":1}') is None


def test_files_with_bytes_that_are_no_text_let_nobody_in_and_break_a_chain(tmp_path: Path) -> None:
    kept = tmp_path / FOLDER / TOKENS / hash_of("secret")
    kept.parent.mkdir(parents=True)
    kept.write_bytes(b'{"name":"\xff"}')
    assert Access(tmp_path).token("secret") is None
    audit = tmp_path / "audit.jsonl"
    audit.write_bytes(b'{"chain":"\xff"}\n')
    Audit(tmp_path).write({"what": "kick"})
    assert first_broken(audit.read_bytes()) == 1
