"""Bytes of others: whatever is wrong with them, the error is one and the same."""

import msgspec
import pytest

from holdall.jobs.entries import decode_entry
from holdall.jobs.spec import decode_job
from holdall.model import frames, location_frames
from holdall.model.decoding import decoded

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
