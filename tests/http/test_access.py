"""Tokens, codes and log-ins as files: only hashes, each code once, nothing kept that is over."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.http import access as access_module
from holdall.http.access import SESSION_S, TOKENS_MAX, Access
from holdall.http.problems import Problem
from holdall.node import logins
from holdall.node.clock import wall_ms
from holdall.node.logins import VALID_S, Person, keep


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_no_secret_is_kept_and_nobody_else_may_read_what_is(folder: Path) -> None:
    access = Access(folder)
    token = access.make_token(Person(1, "ana", wall_ms(), name="ci"))
    code = access.make_login(uid=1, user="ana")
    for file in files(folder):
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o077 == 0
        assert not {token, code} & {file.name, file.read_text()}
        assert token not in file.read_text()


def test_a_code_opens_one_log_in_only(folder: Path) -> None:
    access = Access(folder)
    code = access.make_login(uid=1, user="ana")
    secret = access.use_login(code)
    assert secret is not None
    assert access.session(secret) is not None
    assert access.use_login(code) is None
    access.end_session(secret)
    assert access.session(secret) is None
    assert files(folder) == []


def test_what_is_too_old_opens_nothing_and_is_swept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(folder)
    code = access.make_login(uid=1, user="ana")
    fresh = access.use_login(access.make_login(uid=1, user="ana"))
    assert fresh is not None
    later = wall_ms() + VALID_S * 1000 + 1
    monkeypatch.setattr(access_module, "wall_ms", lambda: later)
    assert access.use_login(code) is None
    assert access.session(fresh) is not None
    much_later = wall_ms() + SESSION_S * 1000 + 1
    monkeypatch.setattr(access_module, "wall_ms", lambda: much_later)
    assert access.session(fresh) is None
    keep(folder / logins.FOLDER / logins.LOGINS, "x", Person(1, "ana", 0))
    access.sweep()
    assert files(folder) == []


def test_names_of_tokens_are_taken_once_and_there_are_not_endlessly_many(folder: Path) -> None:
    access = Access(folder)
    access.make_token(Person(1, "ana", 0, name="t0"))
    with pytest.raises(Problem, match="holdall token end t0"):
        access.make_token(Person(1, "ana", 0, name="t0"))
    access.make_token(Person(2, "ben", 0, name="t0"))
    for number in range(1, TOKENS_MAX):
        access.make_token(Person(1, "ana", 0, name=f"t{number}"))
    with pytest.raises(Problem, match="at most"):
        access.make_token(Person(1, "ana", 0, name="more"))
    assert len(access.tokens(1)) == TOKENS_MAX
    assert [one.name for one in access.tokens(2)] == ["t0"]


@pytest.mark.parametrize("noise", [b"", b"{", b"[]", b'{"uid":"x"}'])
def test_a_broken_file_stands_for_nobody(folder: Path, noise: bytes) -> None:
    access = Access(folder)
    token = access.make_token(Person(1, "ana", 0, name="ci"))
    for file in files(folder):
        file.write_bytes(noise)
    assert access.token(token) is None
    assert access.tokens(1) == []
