import contextlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.machine.codec import BYTES_MAX, CODEC, Codec, CodecError
from holdall.machine.contract import Boot, ClockRead
from holdall.protocols.by_pool import messages as by_pool
from holdall.protocols.ordered import messages as ordered
from holdall.protocols.vocabulary import ALL, ClaimId, Terms, UnitGrant


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    n: int
    text: str = ""


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    n: int


class LaterPing(msgspec.Struct, frozen=True, tag="ping"):
    n: int
    text: str = ""
    added: int = 5


class Untagged(msgspec.Struct, frozen=True):
    n: int


class OtherPong(msgspec.Struct, frozen=True, tag="pong"):
    n: int


def codec_of(*, version: int = 1) -> Codec:
    codec = Codec()
    codec.register("game", Ping | Pong, version=version)
    return codec


def test_a_value_comes_back_as_it_was_and_the_bytes_name_family_and_version() -> None:
    codec = codec_of(version=3)
    data = codec.encode(Ping(7, "ů"))
    assert msgspec.msgpack.decode(data) == ["game", 3, {"type": "ping", "n": 7, "text": "ů"}]
    assert codec.decode(data) == Ping(7, "ů")


def test_unknown_fields_are_ignored_and_missing_ones_take_their_default() -> None:
    later, earlier = Codec(), codec_of()
    later.register("game", LaterPing | Pong)
    assert earlier.decode(later.encode(LaterPing(1, "x", 9))) == Ping(1, "x")
    assert later.decode(earlier.encode(Ping(1, "x"))) == LaterPing(1, "x", 5)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (("game", 1, {"type": "pang", "n": 1}), "pang"),
        (("chess", 1, {"type": "ping", "n": 1}), "unknown family 'chess' \\(known: game\\)"),
        (("game", 2, {"type": "ping", "n": 1}), "version 2 is not known here \\(up to 1\\)"),
        (("game", 0, {"type": "ping", "n": 1}), "version 0 is not known"),
        (("game", 1, {"type": "ping"}), "missing required field `n`"),
        (("game", 1, {"type": "ping", "n": "1"}), "Expected `int`"),
        (("game", 1, [1]), "Expected `object`"),
        (("game", 1), "length 3"),
        ({"game": 1}, "Expected `array`"),
    ],
)
def test_what_nobody_of_ours_has_written_is_refused(value: Any, text: str) -> None:
    with pytest.raises(CodecError, match=text):
        codec_of().decode(msgspec.msgpack.encode(value))


def test_more_than_64_kib_is_neither_written_nor_read() -> None:
    codec = codec_of()
    longest = BYTES_MAX - len(codec.encode(Ping(1))) - 2
    assert len(codec.encode(Ping(1, "x" * longest))) == BYTES_MAX
    with pytest.raises(CodecError, match="at most 65536"):
        codec.encode(Ping(1, "x" * (longest + 1)))
    with pytest.raises(CodecError, match="at most 65536"):
        codec.decode(bytes(BYTES_MAX + 1))


def test_a_value_of_no_family_is_refused() -> None:
    with pytest.raises(CodecError, match="Untagged belongs to no registered family"):
        codec_of().encode(Untagged(1))


def test_a_family_is_closed() -> None:
    codec = codec_of()
    codec.register("game", Pong | Ping)  # the same again has no effect
    with pytest.raises(ValueError, match="registered with other members"):
        codec.register("game", Ping)
    with pytest.raises(ValueError, match="Pong belongs to family 'game'"):
        codec.register("tennis", Pong)
    with pytest.raises(ValueError, match="Untagged needs a tag"):
        codec.register("bare", Untagged)
    with pytest.raises(ValueError, match="needs a tag of its own"):
        codec.register("twins", OtherPong | Pong)
    with pytest.raises(TypeError, match="is no struct"):
        codec.register("odd", int)
    assert codec.versions() == {"game": 1}


def test_json_has_the_family_as_its_only_key() -> None:
    codec = codec_of()
    text = msgspec.json.encode(codec.plain(Pong(2)))
    assert text == b'{"game":{"type":"pong","n":2}}'
    read = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
    assert codec.from_plain(read(text)) == Pong(2)
    with pytest.raises(CodecError, match="one key"):
        codec.from_plain(read(b"{}"))
    with pytest.raises(CodecError, match="unknown family"):
        codec.from_plain(read(b'{"chess":{}}'))
    with pytest.raises(CodecError, match="Invalid value 'pang'"):
        codec.from_plain(read(b'{"game":{"type":"pang"}}'))


# All messages and records of a protocol, from their types


CLAIM = ClaimId("lab-1", 3, 99)


@given(
    st.one_of(
        [
            st.from_type(kind)
            for kind in (
                ordered.Lock,
                by_pool.Held,
                by_pool.Lessen,
                ordered.LockEntry,
                by_pool.Lengthened,
                Boot,
                ClockRead,
            )
        ]
    )
)
@settings(max_examples=200)
def test_every_value_comes_back(value: msgspec.Struct) -> None:
    codec = Codec()
    codec.register("by pool", by_pool.ToManager | by_pool.ToClaimant)
    codec.register("ordered", ordered.Lock)
    codec.register("ordered record", ordered.LockEntry | ordered.OrderedClaim)
    codec.register("machine", Boot | ClockRead)
    try:
        data = codec.encode(value)
    except (CodecError, OverflowError, UnicodeEncodeError):
        return  # hypothesis makes integers beyond 64 bits, too
    assert codec.decode(data) == value


@given(st.binary(max_size=300))
@settings(max_examples=500)
def test_any_bytes_are_a_value_or_a_codec_error(data: bytes) -> None:
    try:
        value = CODEC.decode(data)
    except CodecError:
        return
    assert CODEC.decode(CODEC.encode(value)) == value


@given(st.data())
@settings(max_examples=500)
def test_bytes_with_any_change_are_a_value_or_a_codec_error(data: st.DataObject) -> None:
    codec = Codec()
    codec.register("ordered", ordered.Lock)
    codec.register("by pool", by_pool.ToManager | by_pool.ToClaimant)
    lock = ordered.Lock(CLAIM, 1, 2, 1, "gpu", ALL, Terms(holder="ci@lab-1"))
    locked = by_pool.Held(CLAIM, 1, 2, (UnitGrant("lab-1", "gpu", "gpu-0", 17),), 1)
    good = bytearray(codec.encode(data.draw(st.sampled_from([lock, locked]))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(good) - 1))
        how = data.draw(st.sampled_from(["change", "cut", "insert"]))
        if how == "change":
            good[place] = data.draw(st.integers(0, 255))
        elif how == "insert":
            good.insert(place, data.draw(st.integers(0, 255)))
        else:
            del good[max(1, place) :]
    with contextlib.suppress(CodecError):
        codec.decode(bytes(good))


def test_deeply_nested_bytes_are_refused() -> None:
    with pytest.raises(CodecError):
        codec_of().decode(b"\x93\xa4game\x01" + b"\x91" * 60_000 + b"\x00")
