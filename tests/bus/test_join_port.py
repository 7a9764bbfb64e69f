"""What the join port decides, asked directly: no socket, no server."""

from pathlib import Path

import msgspec
import pytest
from bus.nodes import FACTS, Lines

from holdall.bus import certificates, system
from holdall.bus.identity import NodeKey
from holdall.bus.join_code import decode
from holdall.bus.join_port import JoinPort
from holdall.bus.join_wire import VERSION, JoinRequest, Sorry, Welcome, decode_answer, decode_request
from holdall.bus.keys import new_seed
from holdall.bus.members import ServerEntry
from holdall.bus.service import anybody


class Asked:
    """A founder that others reach at 192.0.2.7, and one that wants in."""

    def __init__(self, folder: Path, hosts: tuple[str, ...] = ("192.0.2.7",)) -> None:
        self.log = Lines()
        self.joined = 0
        self.founder = NodeKey(new_seed())
        self.system = system.found(
            folder / "bus", self.founder, "lab-1", FACTS, listen=("192.0.2.7", 4222), hosts=hosts
        )
        self.port = JoinPort(self.system, log=self.log, may_join=anybody, joined=self._joined)
        self.guest = NodeKey(new_seed())

    def request(
        self, server: ServerEntry | None = None, *, changed: dict[str, object] | None = None
    ) -> JoinRequest:
        """Sound and signed, except for what is changed after the signing."""
        code = decode(self.port.issue(60))
        plain = JoinRequest(
            version=VERSION,
            secret=code.secret,
            public=self.guest.public,
            name="lab-2",
            facts=FACTS,
            wish=certificates.request(self.guest.id, certificates.new_key()),
            server=server,
            proof=bytes(64),
        )
        signed = msgspec.structs.replace(plain, proof=self.guest.sign(plain.signed(code.fingerprint)))
        return msgspec.structs.replace(signed, **(changed or {}))

    def _joined(self) -> None:
        self.joined += 1


def test_a_sound_request_survives_the_wire_and_is_welcome(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    request = decode_request(msgspec.msgpack.encode(asked.request()))
    answer = asked.port.answer(request)
    assert isinstance(answer, Welcome)
    assert answer.secrets is None
    assert decode_answer(msgspec.msgpack.encode(answer)) == answer
    assert asked.joined == 1
    assert set(asked.system.members.known) == {asked.founder.id, asked.guest.id}
    for secret in (request.secret.hex(), asked.system.need_secrets().account):
        assert secret not in repr(request) + repr(answer) + repr(asked.system.secrets) + asked.log.text()


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"version": 2}, "joins by version 1, not 2"),
        ({"name": "lab-3"}, "not signed by the key"),
        ({"proof": bytes(64)}, "not signed by the key"),
        ({"public": NodeKey(new_seed()).public}, "not signed by the key"),
        ({"server": ServerEntry(node="u" * 20, hosts=("192.0.2.9",), port=1)}, "not signed by the key"),
    ],
)
def test_what_is_changed_after_the_signing_is_refused_and_nothing_happens(
    tmp_path: Path, changed: dict[str, object], why: str
) -> None:
    asked = Asked(tmp_path)
    before = {
        path.name: path.read_bytes() for path in asked.system.folder.iterdir() if path.name != "codes.json"
    }
    answer = asked.port.answer(asked.request(changed=changed))
    assert isinstance(answer, Sorry)
    assert why in answer.text
    assert asked.joined == 0
    after = {
        path.name: path.read_bytes() for path in asked.system.folder.iterdir() if path.name != "codes.json"
    }
    assert after == before
    assert "used_by" in (asked.system.folder / "codes.json").read_text(encoding="ascii")
    assert asked.guest.public not in (asked.system.folder / "codes.json").read_text(encoding="ascii")


def test_a_request_for_a_certificate_that_is_none_does_not_use_up_the_code(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    code = decode(asked.port.issue(60))
    for wish in (b"", b"\x30\x03\x02\x01\x01", bytes(4096)):
        plain = msgspec.structs.replace(asked.request(), secret=code.secret, wish=wish, proof=bytes(64))
        signed = msgspec.structs.replace(plain, proof=asked.guest.sign(plain.signed(code.fingerprint)))
        answer = asked.port.answer(signed)
        assert isinstance(answer, Sorry)
        assert "request for a certificate" in answer.text
    assert asked.joined == 0
    assert asked.guest.public not in (asked.system.folder / "codes.json").read_text(encoding="ascii")


@pytest.mark.parametrize(
    ("mine", "theirs", "runs_one"),
    [
        (("192.0.2.7",), ("192.0.2.8",), True),
        (("192.0.2.7",), ("127.0.0.1",), False),  # nobody else could reach it
        (("127.0.0.1",), ("127.0.0.1",), True),
    ],
)
def test_a_server_is_wanted_where_the_others_can_reach_it(
    tmp_path: Path, mine: tuple[str, ...], theirs: tuple[str, ...], runs_one: bool
) -> None:
    asked = Asked(tmp_path, hosts=mine)
    offer = ServerEntry(node=asked.guest.id, hosts=theirs, port=4222)
    answer = asked.port.answer(asked.request(server=offer))
    assert isinstance(answer, Welcome)
    assert (answer.secrets is not None) is runs_one
    assert (offer in answer.servers) is runs_one


def test_nobody_offers_a_server_in_the_name_of_another_node(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    offer = ServerEntry(node=asked.founder.id, hosts=("192.0.2.8",), port=4222)
    answer = asked.port.answer(asked.request(server=offer))
    assert isinstance(answer, Welcome)
    assert answer.secrets is None
    assert [entry.hosts for entry in answer.servers] == [("192.0.2.7",)]
