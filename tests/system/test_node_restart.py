"""Real node processes: killed, restarted, rebooted, robbed of their journal."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from node.lab import CONFIG, Client, Lab, lab
from node.waiting import until

from holdall.model import frames
from holdall.model.spec import parse_needs
from holdall.node import boot, failpoint

pytestmark = pytest.mark.system


@pytest.fixture
def node() -> Iterator[Lab]:
    with lab() as made:
        yield made


def fences(granted: frames.Granted) -> list[int]:
    return [unit.fence for unit in granted.lease.units]


def test_a_killed_node_serves_the_same_leases_fences_and_waiting_order(node: Lab) -> None:
    node.start("--new")
    holder, first, second = node.client(agent="holder"), node.client(agent="one"), node.client(agent="two")
    held = holder.lease("board:3", "psu:1")
    asked = 0
    for waiting in (first, second):
        asked = waiting.claim("board:2")
        waiting.wait(frames.Queued)
    before = [(row.holder, row.position) for row in holder.listing("queue").waits]
    node.kill()
    node.start()
    again = [
        node.client(agent="x", session=old.welcome.session, secret=old.welcome.secret)
        for old in (holder, first, second)
    ]
    assert [client.welcome.resumed for client in again] == [True, True, True]
    leases = again[0].listing("who").leases
    assert [lease.lease for lease in leases] == [held.lease.lease]
    assert leases[0].units == held.lease.units
    assert [(row.holder, row.position) for row in again[0].listing("queue").waits] == before
    # A client that comes back repeats what has no final answer, under its old number.
    for client in again[1:]:
        client.claim("board:2", n=asked)
        client.wait(frames.Queued)
    assert held.lease.lease in dict(again[0].beat().valid_for_ms)
    assert again[0].release(held.key).what == "released"
    granted = again[1].wait(frames.Granted)
    assert min(fences(granted)) > max(fences(held))
    assert "one" in granted.lease.holder
    queue = again[0].listing("queue").waits
    assert [row.holder for row in queue] == [before[1][0]]
    for client in (*again, holder, first, second):
        client.close()


def test_a_lost_journal_grants_nothing_before_the_quarantine_ends_and_its_fences_are_higher(
    node: Lab,
) -> None:
    node.configure(ttl_max="3s", text=_with_ttl("2s"))
    node.start("--new")
    with node.client() as client:
        before = client.lease("board:1", ttl_ms=2000)
    node.kill()
    shutil.rmtree(node.state)
    node.start()
    assert "no journal found" in node.said()
    assert "--new" in node.said()
    _waits_for_the_quarantine(node, before)


def test_another_boot_grants_nothing_before_the_quarantine_ends_and_its_fences_are_higher(node: Lab) -> None:
    node.configure(ttl_max="3s", text=_with_ttl("2s"))
    node.start("--new")
    with node.client() as client:
        before = client.lease("board:1", ttl_ms=2000)
    node.kill()
    node.start(environment={boot.BOOT_ID_ENV: "boot-2"})
    assert "after a reboot" in node.said()
    _waits_for_the_quarantine(node, before)


def test_a_node_killed_in_its_quarantine_waits_for_the_rest_of_it(node: Lab) -> None:
    node.start("--new")
    node.kill()
    shutil.rmtree(node.state)
    node.start()
    with node.client() as client:
        first = client.welcome.quarantine_ms
    node.kill()
    node.start()
    with node.client() as client:
        assert 0 < client.welcome.quarantine_ms < first


def test_at_level_power_another_boot_keeps_its_leases_and_grants_at_once(node: Lab) -> None:
    node.configure(durability="power")
    node.start("--new")
    client = node.client()
    held = client.lease("board:2")
    node.kill()
    node.start(environment={boot.BOOT_ID_ENV: "boot-2"})
    with node.client() as other:
        granted = other.lease("board:1")
        assert fences(granted)[0] > max(fences(held))
        assert {lease.lease for lease in other.listing("who").leases} >= {granted.lease.lease}
        other.send(frames.Claim(n=other.n(), needs=_needs("board:2"), now=True))
        assert isinstance(other.next(), frames.Denied)
    client.close()


def test_c1_after_a_restart_the_dead_holder_is_freed_the_living_goes_on_the_released_is_free(
    node: Lab,
) -> None:
    node.start("--new")
    living, released = node.client(agent="living"), node.client(agent="released")
    kept = living.lease("board:1")
    gone = released.lease("board:1")
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]); from pathlib import Path; from node.lab import Client\n"
        "c = Client(Path(sys.argv[1]), agent='dead'); c.lease('board:1'); print('held', flush=True); sys.stdin.read()"
    )
    tests = str(__file__).rpartition("/system/")[0]
    dead = subprocess.Popen(
        [sys.executable, "-c", script, str(node.socket), tests], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert dead.stdout is not None
    assert dead.stdin is not None
    assert dead.stdout.readline() == b"held\n"
    waiting = node.client(agent="waiting")
    asked = waiting.claim("board:2")
    waiting.wait(frames.Queued)
    released.release(gone.key)
    node.kill()
    dead.kill()
    dead.wait()
    dead.stdout.close()
    dead.stdin.close()
    node.start()
    again = node.client(session=living.welcome.session, secret=living.welcome.secret)
    served = node.client(session=waiting.welcome.session, secret=waiting.welcome.secret)
    served.claim("board:2", n=asked)
    granted = served.wait(frames.Granted)
    assert {unit.name for unit in granted.lease.units} | {kept.lease.units[0].name} == {
        "board-1",
        "board-2",
        "board-3",
    }
    who = {lease.lease: lease.units for lease in again.listing("who").leases}
    assert who[kept.lease.lease] == kept.lease.units
    for client in (living, released, waiting, again, served):
        client.close()


@pytest.mark.parametrize("name", failpoint.NAMES)
def test_killed_at_any_failpoint_it_comes_up_with_every_lease_that_it_told(node: Lab, name: str) -> None:
    """Killed at the second visit of each place: whatever a client was told is there after the restart."""
    if not name.startswith("boot"):
        node.start("--new", environment={failpoint.ENV: f"{name}:kill:4"})
        told: list[frames.Granted] = []
        client = node.client()
        with pytest.raises(OSError):
            _lease_and_release(client, told)
        assert node.ended() == -signal.SIGKILL
        client.close()
    else:
        node.begin("--new", environment={failpoint.ENV: f"{name}:kill"})
        assert node.ended() == -signal.SIGKILL
        told = []
    node.start("--new")
    with node.client() as other:
        names = {lease.lease for lease in other.listing("who").leases}
        assert {granted.lease.lease for granted in told} <= names | _ended(other)


def _lease_and_release(client: Client, told: list[frames.Granted]) -> None:
    for _ in range(50):
        granted = client.lease("psu:1")
        told.append(granted)
        client.release(granted.key)
        told.pop()


def _ended(client: Client) -> set[str]:
    listing = client.listing("log")
    return {row.lease for row in listing.log if row.kind in {"released", "lost", "expired"}}


def _with_ttl(ttl: str) -> str:
    return CONFIG.replace('ttl = "20s"', f'ttl = "{ttl}"')


def _needs(*specs: str) -> tuple[frames.Need, ...]:
    return parse_needs(specs)


def _waits_for_the_quarantine(node: Lab, before: frames.Granted) -> None:
    with node.client() as client:
        assert 0 < client.welcome.quarantine_ms <= 3060
        client.send(frames.Claim(n=client.n(), needs=_needs("board:1"), now=True, ttl_ms=2000))
        refused = client.next()
        assert isinstance(refused, frames.Denied)
        client.claim("board:1", ttl_ms=2000)
        client.wait(frames.Queued)
        assert client.listing("node").nodes[0].state == "quarantine"
        granted = client.wait_renewing(frames.Granted)
        assert fences(granted)[0] > max(fences(before))
        until(lambda: client.listing("node").nodes[0].state == "serving", "it serves")
