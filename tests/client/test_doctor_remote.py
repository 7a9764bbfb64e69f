"""What `holdall doctor` says about a node on another host, from what is answered there."""

import socket
from typing import Any

import pytest

from holdall.client import doctor_remote
from holdall.client.doctor_remote import remote_findings
from holdall.client.finding import Finding
from holdall.model.errors import Refused, Unreachable

URL = "https://lab-1.example.org"
ME = {"node": "lab-1", "version": "1.0", "user": "eva"}


class There:
    """Stands in for the network."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers

    def ask(self, where: str, method: str, path: str) -> Any:
        assert (where, method) == (URL, "GET")
        answer = self.answers[path.rpartition("/")[2]]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def connection(self, url: str) -> tuple[socket.socket, dict[str, str]]:
        assert url == URL
        return socket.socket(), {}


def found(
    monkeypatch: pytest.MonkeyPatch, *, frames: Exception | None = None, **answers: object
) -> list[Finding]:
    there = There(**answers)

    class Talk:
        def __init__(self, where: str) -> None:
            assert where == URL
            if frames is not None:
                raise frames

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(doctor_remote, "ask_http", there.ask)
    monkeypatch.setattr(doctor_remote, "open_connection", there.connection)
    monkeypatch.setattr(doctor_remote, "Conversation", Talk)
    return list(remote_findings(URL, "1.0"))


def test_what_the_node_s_own_doctor_finds_has_its_name_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"findings": [{"about": "disk", "state": "error", "text": "full"}]}
    assert found(monkeypatch, me=ME, doctor=there)[1:] == [
        Finding("token", "ok", "lets this command act as eva at lab-1"),
        Finding("version", "ok", "1.0"),
        Finding("lab-1 disk", "error", "full"),
    ]


def test_a_token_that_may_only_look_and_another_release_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = found(
        monkeypatch,
        frames=Refused("it may only look"),
        me={**ME, "version": "2.0"},
        doctor=Unreachable("gone"),
    )
    assert [(one.about, one.state) for one in told] == [
        ("connection", "ok"),
        ("token", "error"),
        ("version", "warning"),
        ("lab-1", "error"),
    ]
    assert told[1].text == "it may only look"
    assert "the node runs 2.0, this command is 1.0" in told[2].text


def test_who_is_not_let_in_hears_that_and_nothing_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    (_, told) = found(monkeypatch, me=Refused("this access token is not known"))
    assert told == Finding("connection", "error", "this access token is not known")
