"""Real nodes with real nats-servers: joined by pasted lines, killed, copied, named twice, forgotten."""

import json
import shutil
from collections.abc import Iterator
from itertools import pairwise

import pytest
from bus.test_foreign import Theirs
from node.waiting import until
from system.many_nodes import NodeProcess, System, free_ports, is_alive, system

NEVER_STATUS = 65

pytestmark = pytest.mark.system


@pytest.fixture
def hosts() -> Iterator[System]:
    with system() as made:
        yield made


def joined(hosts: System, *folders: str) -> list[NodeProcess]:
    """Nodes `lab-…` that serve as one system; each joins with the line of the one before it."""
    nodes = [hosts.node(folder, f"lab-{folder}", f"psu-{folder}") for folder in folders]
    nodes[0].serve("--new")
    for before, node in pairwise(nodes):
        node.join(before.join_line())
    return nodes


def sees(node: NodeProcess, *names: str) -> bool:
    """Whether the node has heard the pools of exactly these nodes, its own included."""
    with node.client() as client:
        return {row.node for row in client.listing("pools").pools} == set(names)


def states_at(node: NodeProcess) -> dict[str, str]:
    """What the node knows of the others."""
    with node.client() as client:
        return {row.node: row.state for row in client.listing("node").known}


def is_planned_with(node: NodeProcess, pool: str) -> bool:
    """Whether the node's directory has the pool; the listing of pools asks every node itself."""
    return node.command("run", "--need", pool, "--now", "--", "true").returncode != NEVER_STATUS


def silent_by(node: NodeProcess) -> list[str]:
    """Whom `holdall doctor` at this node calls silent."""
    found = json.loads(node.command("doctor", "--json").stdout)["findings"]
    return [one["text"].split()[0] for one in found if "has been silent for" in one["text"]]


def run(node: NodeProcess, *needs: str) -> str:
    """`holdall run` with these needs: what the command finds in HOLDALL_UNITS_PSU and in the benches' variables."""
    options = [word for need in needs for word in ("--need", need)]
    done = node.command("run", *options, "--wait", "20s", "--", "env")
    assert done.returncode == 0, done.stderr
    units = [line.partition("=")[2] for line in done.stdout.splitlines() if line.startswith("HOLDALL_UNITS_")]
    return " ".join(sorted(units))


def test_three_nodes_joined_by_pasted_lines_and_the_death_of_the_first(hosts: System) -> None:
    a, b, c = joined(hosts, "a", "b", "c")
    for node in (a, b, c):
        until(lambda node=node: sees(node, "lab-a", "lab-b", "lab-c"), "all know each other")  # type: ignore[misc]
        assert run(node, "bench-a", "bench-b", "bench-c") == "0@lab-a 0@lab-b 0@lab-c"
    assert set(run(b, "psu:3").split(",")) == {"psu-a@lab-a", "psu-b@lab-b", "psu-c@lab-c"}
    servers = [node.server_pid() for node in (a, b, c)]
    assert all(is_alive(pid) for pid in servers)

    a.config.write_text(a.config.read_text() + '[[pool]]\nname = "late"\ncount = 1\n')
    a.reload()
    until(lambda: is_planned_with(b, "late"), "a pool that came by reload is told")
    assert run(b, "late", "bench-b") == "0@lab-a 0@lab-b"

    a.kill()
    assert run(b, "bench-b", "bench-c") == "0@lab-b 0@lab-c"
    assert run(c, "bench-c", "bench-b") == "0@lab-b 0@lab-c"
    until(lambda: not is_alive(servers[0]), "no nats-server outlives its node")
    until(lambda: states_at(b)["lab-a"] == "silent", "its silence is noticed")
    assert silent_by(b) == ["lab-a"]

    a.serve()
    assert is_alive(a.server_pid())
    for node in (a, b, c):
        until(lambda node=node: sees(node, "lab-a", "lab-b", "lab-c"), "the first node is back")  # type: ignore[misc]
        assert run(node, "bench-a", "bench-b", "bench-c") == "0@lab-a 0@lab-b 0@lab-c"
    assert [node.stop() for node in (a, b, c)] == [0, 0, 0]
    assert not any(is_alive(pid) for pid in servers)


def test_c14_a_copied_state_folder_is_refused_and_the_node_that_it_was_copied_from_goes_on(
    hosts: System,
) -> None:
    a, b = joined(hosts, "a", "b")
    until(lambda: sees(a, "lab-a", "lab-b"), "both know each other")
    # Ports of its own, so that nothing but the identity is in the way.
    copy = hosts.node("copy", "lab-b", "psu-b")
    shutil.copytree(
        b.state, copy.state, ignore=lambda _, names: [name for name in names if name.endswith(".sock")]
    )
    copy.begin("serve")
    status, said = copy.ended()
    assert status == 78, said
    assert "another process with the identity of this node" in said.splitlines()[-1]
    assert run(a, "bench-a", "bench-b") == "0@lab-a 0@lab-b"
    assert run(b, "bench-a", "bench-b") == "0@lab-a 0@lab-b"


def test_c14_a_node_that_comes_back_at_another_address_is_the_same_one(hosts: System) -> None:
    a, b, c = joined(hosts, "a", "b", "c")
    for node in (a, b, c):
        until(lambda node=node: sees(node, "lab-a", "lab-b", "lab-c"), "all know each other")  # type: ignore[misc]
    assert c.stop() == 0
    there = c.config.read_text().partition('listen = "127.0.0.1:')[2].partition('"')[0]
    c.config.write_text(c.config.read_text().replace(f'"127.0.0.1:{there}"', f'"127.0.0.1:{free_ports()}"'))
    c.serve()
    for node in (a, b, c):
        until(lambda node=node: sees(node, "lab-a", "lab-b", "lab-c"), "it is back")  # type: ignore[misc]
    assert run(a, "bench-a", "bench-b", "bench-c") == "0@lab-a 0@lab-b 0@lab-c"
    # The first two end: what is left is reached at its new address only.
    a.kill()
    assert run(b, "bench-b", "bench-c") == "0@lab-b 0@lab-c"
    assert [node.stop() for node in (b, c)] == [0, 0]


def test_a_second_node_of_a_name_is_refused_with_the_address_of_the_first(hosts: System) -> None:
    (a,) = joined(hosts, "a")
    other = hosts.node("x", "lab-a")
    other.begin_join(a.join_line())
    status, said = other.ended()
    assert status == 77
    (error,) = (line for line in said.splitlines() if line.startswith("holdall: "))
    address = a.config.read_text().partition('listen = "127.0.0.1:')[2].partition('"')[0]
    assert f'node name "lab-a" is in use by 127.0.0.1:{address} (key ' in error
    assert error.endswith("Choose [node].name, or run: holdall forget lab-a")
    assert not (other.state / "bus").exists()
    other.config.write_text(other.config.read_text().replace('"lab-a"', '"lab-x"'))
    other.join(a.join_line())
    until(lambda: sees(a, "lab-a", "lab-x"), "under another name it is in")


def test_a_node_that_is_gone_is_forgotten_and_its_name_is_free(hosts: System) -> None:
    a, b = joined(hosts, "a", "b")
    until(lambda: sees(a, "lab-a", "lab-b"), "both know each other")
    refused = a.command("forget", "lab-b")
    assert refused.returncode == 77
    assert "Stop it first, or: holdall forget lab-b --force" in refused.stderr
    assert a.command("forget", "lab-z").returncode == 64
    b.stop()
    until(lambda: states_at(a)["lab-b"] == "stopped", "its end is known")
    early = a.command("forget", "lab-b")
    assert early.returncode == 77
    # Whoever comes under its name would give units that somebody may still use.
    assert "leases on its units may live for" in early.stderr
    until(lambda: a.command("forget", "lab-b").returncode == 0, "a stopped node is forgotten")
    b.begin("serve")
    status, said = b.ended()
    assert status == 78, said
    assert 'was removed from the system by "holdall forget" at lab-a' in said.splitlines()[-1]
    fresh = hosts.node("c", "lab-b", "psu-c")
    fresh.join(a.command("join").stdout.strip())
    until(lambda: sees(a, "lab-a", "lab-b"), "the name belongs to another one now")
    assert run(a, "bench-a", "bench-c") == "0@lab-a 0@lab-b"


def test_a_code_that_is_damaged_used_or_of_nobody_lets_nobody_in(hosts: System) -> None:
    (a,) = joined(hosts, "a")
    line = a.join_line()
    b = hosts.node("b", "lab-b")
    for wrong, status, text in (
        (line[:-1], 64, "no join code"),
        ("holdall join hd1-zzzz", 64, "no join code"),
    ):
        b.begin_join(wrong)
        assert b.ended()[0] == status
        assert text in b.said()
    b.join(line)
    thief = hosts.node("t", "lab-t")
    thief.begin_join(line)
    status, said = thief.ended()
    assert (status, "the code was used by another node" in said) == (77, True), said
    until(lambda: "joining refused" in a.said(), "the refusal is logged")
    fresh = a.command("join").stdout.strip()
    a.stop()
    thief.begin_join(fresh)
    status, said = thief.ended()
    assert (status, "nobody to join with" in said) == (69, True), said


def test_a_node_that_joins_without_a_configuration_writes_one_and_serve_goes_on_with_it(
    hosts: System,
) -> None:
    a = hosts.node("a", "lab-a", defaults="")
    a.serve("--new")
    b = hosts.node("b", "lab-b", bus="")
    b.config.unlink()
    b.join(a.join_line(), "--name", "lab-b", "--state", str(b.state), "--config", str(b.config))
    assert "join       nobody can join through it" not in b.said()
    assert 'name = "lab-b"' in b.config.read_text()
    assert b.stop() == 0
    b.serve()
    with b.client() as client:
        assert client.welcome.node == "lab-b"
    assert b.stop() == 0
    again = b.command("join", "hd1-x", "--config", str(b.config), "--name", "lab-q")
    assert again.returncode == 78
    assert 'gives this node the name "lab-b"' in again.stderr


def test_a_node_alone_says_how_others_could_join_it_and_makes_nothing_for_the_bus(hosts: System) -> None:
    a = hosts.node("a", "lab-a", bus="")
    a.serve("--new")
    assert 'Set listen = "0.0.0.0:4222" below [bus]' in a.said()
    assert (a.folder / "out").read_text() == ""
    assert a.command("join").returncode == 77
    assert not (a.state / "bus").exists()
    assert run(a, "bench-a") == "0"


def test_a_node_that_stands_alone_is_told_how_it_joins_and_keeps_its_leases(hosts: System) -> None:
    first = hosts.node("a", "lab-a", "psu-a")
    first.serve("--new")
    alone = hosts.node("b", "lab-b", bus="")
    alone.config.write_text(alone.config.read_text().replace("count = 1\n", 'count = 1\nreach = "host"\n'))
    alone.serve("--new")
    held = alone.command("lease", "--need", "bench-b", "--for", "1h")
    assert held.returncode == 0, held.stderr
    words = first.join_line().split()[1:]
    refused = alone.command(*words, "--config", str(alone.config))
    assert refused.returncode == 78, refused.stderr
    assert (
        f"Stop it first; then the same line lets it join, and what is held of it stays held: holdall join CODE --config {alone.config}"
        in (refused.stderr)
    )
    alone.stop()
    alone.begin(*words, "--config", str(alone.config))
    alone.wait()
    until(lambda: sees(alone, "lab-a", "lab-b"), "it has joined")
    with alone.client() as client:
        assert [unit.pool for one in client.listing("who").leases for unit in one.units] == ["bench-b"]
        starts = [(row.node, row.kind) for row in client.listing("log").log if "started" in row.kind]
    assert ("lab-b", "restarted") in starts


def on_cluster(node: NodeProcess, server: Theirs) -> None:
    """Give a node what an administrator of the cluster gives it: a login with the permissions that it prints."""
    (printed,) = json.loads(node.command("nats-config", "--json").stdout)["nodes"]
    permissions: dict[str, object] = {
        "pub": {"allow": printed["publish"]},
        "sub": {"allow": printed["subscribe"]},
    }
    creds = server.creds(printed["id"], permissions)
    bus = f'[bus]\nservers = ["{server.url}"]\ncreds = "{creds}"\n'
    node.config.write_text(node.config.read_text() + bus)


@pytest.fixture
def server(hosts: System) -> Iterator[Theirs]:
    made = Theirs(hosts.folder)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()


def test_two_nodes_find_each_other_on_a_cluster_of_somebody_else(hosts: System, server: Theirs) -> None:
    nodes = [hosts.node(folder, f"lab-{folder}", bus="") for folder in ("a", "b")]
    for node in nodes:
        on_cluster(node, server)
        node.serve("--new")
    for node in nodes:
        assert "the servers are somebody else's" in node.said()
        assert (node.folder / "out").read_text() == ""
        until(lambda node=node: sees(node, "lab-a", "lab-b"), "they have found each other")  # type: ignore[misc]
        assert run(node, "bench-a", "bench-b") == "0@lab-a 0@lab-b"
    second = hosts.node("x", "lab-a", bus="")
    on_cluster(second, server)
    second.begin("serve", "--new")
    status, said = second.ended()
    assert status == 78, said
    assert 'node name "lab-a" is in use by ' in said.splitlines()[-1]
