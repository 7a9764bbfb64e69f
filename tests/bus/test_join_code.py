import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.bus import join_code
from holdall.bus.join_code import CodeBook, JoinCode, decode, encode
from holdall.bus.join_wire import BadJoin, decode_answer, decode_request
from holdall.bus.members import Members, unpack
from holdall.bus.system import Facts
from holdall.model.errors import BadConfig, BadSpec

CODE = JoinCode(
    fingerprint=bytes(range(16)),
    secret=bytes(range(100, 116)),
    hosts=("10.0.0.7", "lab-1.example"),
    port=4224,
)
ANN, BEN = "UANN", "UBEN"


def test_a_code_is_one_word_and_comes_back_whole() -> None:
    text = encode(CODE)
    assert text.startswith("hd1-")
    assert text.isascii()
    assert " " not in text
    assert decode(text) == CODE
    assert decode(f"  {text.upper()}\n") == CODE
    assert CODE.secret.hex() not in repr(CODE)


@given(
    st.binary(min_size=16, max_size=16),
    st.lists(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)), min_size=1, max_size=4),
    st.integers(1, 65_535),
)
def test_any_code_comes_back_whole(secret: bytes, hosts: list[object], port: int) -> None:
    code = JoinCode(fingerprint=secret[::-1], secret=secret, hosts=tuple(map(str, hosts)), port=port)
    assert decode(encode(code)) == code


@given(st.text())
@example("hd1-")
@example("hd1-aaaaaaaa")
@example("hd1-" + "a" * 5000)
@example("hd1-" + 8 * "\u017f")  # its upper case is an S
def test_no_text_but_a_code_is_one(text: str) -> None:
    with pytest.raises(BadSpec, match="no join code"):
        decode(text)


def test_no_code_with_one_letter_changed_or_its_end_missing_is_one() -> None:
    text = encode(CODE)
    for place in range(4, len(text) - 1):  # the last letter has bits that mean nothing
        for letter in "abcdefghijklmnopqrstuvwxyz234567":
            if letter != text[place]:
                with pytest.raises(BadSpec):
                    decode(text[:place] + letter + text[place + 1 :])
        with pytest.raises(BadSpec):
            decode(text[:place])


@given(st.binary(max_size=300))
def test_no_bytes_but_a_message_of_the_join_port_are_one(data: bytes) -> None:
    with pytest.raises(BadJoin):
        decode_request(data)
    with pytest.raises(BadJoin):
        decode_answer(data)
    notice = unpack(data)
    assert notice is None or not notice.servers


@given(
    st.recursive(
        st.none() | st.integers(-9, 2**63) | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=30,
    )
)
def test_no_msgpack_but_a_message_of_the_join_port_is_one(value: object) -> None:
    body = msgspec.msgpack.encode(value)
    with pytest.raises(BadJoin):
        decode_request(body)
    with pytest.raises(BadJoin):
        decode_request(
            msgspec.msgpack.encode({"type": "join", "version": 1, "secret": value, "public": value})
        )
    with pytest.raises(BadJoin):
        decode_answer(body)


def test_a_code_is_good_for_one_key_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(join_code, "time", lambda: now)
    book = CodeBook(tmp_path / "codes.json")
    secret = decode(book.issue(bytes(16), ("10.0.0.7",), 4224, 60)).secret
    assert book.objection(bytes(16), ANN) == "unknown code"
    assert book.objection(secret, ANN) == ""
    book.use(secret, ANN)
    assert book.objection(secret, ANN) == ""  # its answer may have been lost
    assert book.objection(secret, BEN) == "the code was used by another node"
    assert CodeBook(tmp_path / "codes.json").objection(secret, BEN) == "the code was used by another node"
    now = 1060.0
    assert book.objection(secret, ANN) == "the code has expired"


def test_the_file_of_codes_holds_no_secret_and_is_its_owners_alone(tmp_path: Path) -> None:
    book = CodeBook(tmp_path / "codes.json")
    code = book.issue(bytes(16), ("10.0.0.7",), 4224, 60)
    text = (tmp_path / "codes.json").read_text(encoding="utf-8")
    assert decode(code).secret.hex() not in text
    assert code not in text
    assert stat.S_IMODE((tmp_path / "codes.json").stat().st_mode) == 0o600
    for _ in range(join_code.OPEN_CODES_MAX):
        book.issue(bytes(16), ("10.0.0.7",), 4224, 60)
    assert book.objection(decode(code).secret, ANN) == "unknown code"


def test_a_file_of_codes_that_is_damaged_or_open_to_others_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "codes.json"
    path.write_text('{"codes": 5}', encoding="ascii")
    path.chmod(0o600)
    with pytest.raises(BadConfig, match="Bring it back"):
        CodeBook(path)
    path.chmod(0o644)
    with pytest.raises(BadConfig, match="chmod 600"):
        CodeBook(path)


def test_facts_name_the_first_difference() -> None:
    mine = Facts(protocol="chain", ttl_max_ms=300_000, rho_ppm=20_000)
    assert mine.differs(mine) == ""
    assert mine.differs(Facts(protocol="ordered", ttl_max_ms=1, rho_ppm=1)) == (
        "protocol is chain here and ordered in the system"
    )


def test_members_keep_the_newer_of_two_entries_and_all_revocations(monkeypatch: pytest.MonkeyPatch) -> None:
    from holdall.bus import members
    from holdall.bus.keys import new_seed, node_id, public_of

    now = 1000.0
    monkeypatch.setattr(members, "time", lambda: now)
    public = public_of(new_seed())
    node = node_id(public)
    one, other = Members(), Members()
    one.add(node=node, public=public, name="lab-1", server=False)
    for notice in one.notices():
        assert other.merge(notice) is True
        assert other.merge(notice) is False
    assert other.known == one.known
    assert one.revoke(node) is True
    assert one.revoke(node) is False
    assert one.is_revoked(node) is True
    assert other.is_revoked(node) is False
    for notice in one.notices():
        other.merge(notice)
    assert other.is_revoked(node) is True
    # Let in again within the same second: its new rights must be dated after what is void.
    again = other.add(node=node, public=public, name="lab-1", server=False)
    assert again.since_s == 1001
    assert other.is_revoked(node) is False
    for notice in other.notices():
        one.merge(notice)
    assert one.is_revoked(node) is False
