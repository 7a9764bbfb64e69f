"""Parts of the bus that need no server: files, logs, subjects, addresses, configuration, start of a client."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bus.nodes import Lines
from hypothesis import given
from hypothesis import strategies as st

from holdall.bus.addresses import is_address, is_loopback, local, reachable, shown
from holdall.bus.files import make_private_folder, read_secret, write_secret
from holdall.bus.identity import NodeKey, is_user_key, verify
from holdall.bus.keys import new_account_seed, new_seed, public_half
from holdall.bus.log import Seldom
from holdall.bus.server import find_program
from holdall.bus.server_config import ServerConfig, config_text
from holdall.bus.server_log import LogTail
from holdall.bus.subjects import ALL, inbox, is_node_id, may_publish, may_subscribe, sender_of, subject
from holdall.model.errors import BadConfig

ANN, BEN = "uaaaaaaaaaaaaaaaaaaa", "ubbbbbbbbbbbbbbbbbbb"


def test_the_sender_stands_in_the_subject_and_is_checked_for_its_shape() -> None:
    said = subject("lab", BEN, ANN)
    assert said == f"hd.lab.{BEN}.{ANN}"
    assert sender_of(said, "lab", BEN) == ANN
    for text in (
        f"hd.lab.{BEN}.",
        f"hd.lab.{BEN}.x.{ANN}",
        f"hd.other.{BEN}.{ANN}",
        f"hd.lab.{BEN}.{ANN.upper()}",
        "",
    ):
        assert sender_of(text, "lab", BEN) is None
    assert not is_node_id(ALL)
    assert may_publish("lab", ANN) == [f"hd.lab.*.{ANN}"]
    assert may_subscribe("lab", ANN) == [inbox("lab", ANN), inbox("lab", ALL)]


@given(st.text())
def test_no_text_makes_a_sender_that_is_no_id(text: str) -> None:
    sender = sender_of(f"hd.lab.{BEN}.{text}", "lab", BEN)
    assert sender is None or (sender == text and is_node_id(text))


def test_a_key_signs_and_only_its_public_half_agrees() -> None:
    key, other = NodeKey(new_seed()), NodeKey(new_seed())
    assert is_node_id(key.id)
    assert key.public.lower().startswith(key.id)
    signature = key.sign(b"word")
    assert verify(key.public, b"word", signature)
    assert not verify(key.public, b"other word", signature)
    assert not verify(other.public, b"word", signature)
    assert not verify("no key", b"word", signature)
    assert "SU" not in repr(key)
    with pytest.raises(ValueError, match="no seed of a node"):
        NodeKey(new_account_seed())
    assert not is_user_key(public_half(new_account_seed()))
    assert not is_user_key(key.public[:-1] + ("A" if key.public[-1] != "A" else "B"))


def test_secrets_are_written_whole_and_refused_when_others_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "bus"
    make_private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    path = folder / "secret"
    (folder / "secret.new").write_text("of a writer that was killed", encoding="ascii")
    write_secret(path, "one")
    write_secret(path, "two")
    assert read_secret(path) == "two"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in folder.iterdir()] == ["secret"]
    path.chmod(0o640)
    with pytest.raises(BadConfig, match=f"chmod 600 {path}"):
        read_secret(path)
    folder.chmod(0o755)
    with pytest.raises(BadConfig, match=f"chmod 700 {folder}"):
        make_private_folder(folder)
    folder.chmod(0o700)
    link = folder / "link"
    link.symlink_to(path)
    with pytest.raises(BadConfig, match="can't be read"):
        read_secret(link)
    with pytest.raises(FileNotFoundError):
        read_secret(folder / "nothing")


def test_an_event_that_repeats_is_said_a_few_times_and_then_counted() -> None:
    now, log = [0.0], Lines()
    say = Seldom(log.warning, times=2, every_s=60.0, clock=lambda: now[0])
    for number in range(5):
        say("knock", number=number)
    say("another thing")
    now[0] = 60.0
    say("knock", number=9)
    say("knock", number=10)
    assert [(event, values) for _, event, values in log.lines] == [
        ("knock", {"number": 0}),
        ("knock", {"number": 1}),
        ("another thing", {}),
        ("knock", {"number": 9, "left_out": 3}),
        ("knock", {"number": 10}),
    ]


def test_the_log_of_the_server_is_followed_over_its_turns(tmp_path: Path) -> None:
    path, told = tmp_path / "log", list[tuple[str, str]]()
    tail = LogTail(path, lambda level, text: told.append((level, text)))
    tail.read()
    path.write_text("[7] 2026/01/01 00:00:00.0 [ERR] old\n", encoding="ascii")
    tail.from_end()
    with path.open("a", encoding="ascii") as file:
        file.write(
            "[7] 2026/01/01 00:00:00.0 [INF] fine\n[7] 2026/01/01 00:00:00.0 [ERR] one\n[7] 2026/01/01 00"
        )
        file.flush()
        tail.read()
        assert told == [("error", "one")]
        file.write(":00:00.0 [WRN] two\n")
        file.flush()
        tail.read()
    assert told == [("error", "one"), ("warning", "two")]
    assert tail.last == "one"
    path.write_text("[7] 2026/01/01 00:00:00.0 [FTL] begun anew\n", encoding="ascii")
    tail.read()
    assert told[2:] == [("fatal", "begun anew")]
    tail.read()
    assert len(told) == 3


def test_no_value_can_end_its_line_in_the_servers_configuration(tmp_path: Path) -> None:
    text = config_text(
        ServerConfig(
            folder=tmp_path / 'a "folder"\n with $LIMITS }',
            node=ANN,
            system="lab",
            listen=("::", 4222),
            hosts=("fd00::7",),
            operator="o",
            accounts={"AX": "t"},
            system_account="AY",
            routes_password="p",  # noqa: S106
            others=(("10.0.0.8", 4222),),
        )
    )
    assert json.dumps(str(tmp_path / 'a "folder"\n with $LIMITS }' / "tls.key")) in text
    assert 'listen: "[::]:4222"' in text
    assert 'listen: "[::]:4223"' in text
    assert 'advertise: "[fd00::7]:4223"' in text
    assert 'routes: [ "nats-route://servers:p@10.0.0.8:4223" ]' in text
    assert "jetstream" not in text.lower()


def test_addresses() -> None:
    anywhere = "0.0.0.0"  # noqa: S104
    assert reachable("10.0.0.7") == ("10.0.0.7",)
    assert reachable(anywhere) != ()
    assert all(is_address(one) and one != anywhere for one in reachable(anywhere))
    assert (local(anywhere), local("::"), local("10.0.0.7")) == ("127.0.0.1", "::1", "10.0.0.7")
    assert (shown("::1", 5), shown("10.0.0.7", 5)) == ("[::1]:5", "10.0.0.7:5")
    assert is_loopback(("127.0.0.1", "::1", "localhost"))
    assert not is_loopback(("127.0.0.1", "10.0.0.7"))
    assert [is_address(one) for one in ("lab-1.example", "10.0.0.7", "fd00::1", "", "a b", "-x", "a..b", "a/b", "ä")] == [
        True, True, True, False, False, False, False, False, False,
    ]  # fmt: skip


def test_the_server_is_looked_for_in_the_settings_then_in_the_path_then_where_holdall_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\n", encoding="ascii")
    with pytest.raises(BadConfig, match="no program"):
        find_program(program)
    program.chmod(0o755)
    assert find_program(program) == program
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program(None) == program
    monkeypatch.setenv("PATH", "/nowhere")
    installed = find_program(None)
    assert installed.name == "nats-server"
    assert os.access(installed, os.X_OK)


def test_who_does_not_load_the_bus() -> None:
    code = (
        "import sys; sys.argv = ['holdall', 'who', '--help']\n"
        "try:\n    from holdall.cli.entry import main; main()\nexcept SystemExit: pass\n"
        "print([name for name in ('nats', 'nkeys', 'nacl', 'cryptography', 'holdall.bus.entry') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
