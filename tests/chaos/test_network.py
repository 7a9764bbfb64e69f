"""The network of a run: hosts hear each other, cuts have a direction, and nothing is left of it."""

import subprocess
import sys

import pytest
from chaos.network import Network, namespaces, network
from node.waiting import until

pytestmark = [pytest.mark.system, pytest.mark.requires("netns", "nft")]

LISTEN = "import socket, sys; socket.create_server((sys.argv[1], 7)).accept()[0].recv(1)"
CONNECT = (
    "import socket, sys; socket.create_connection((sys.argv[1], 7), timeout=float(sys.argv[2])).send(b'x')"
)


def reaches(net: Network, *, within_s: float) -> bool:
    """Whether a connection from host 1 to host 0 comes about."""
    listens = [*net.prefix(0), sys.executable, "-c", LISTEN, net.address(0)]
    connects = [*net.prefix(1), sys.executable, "-c", CONNECT, net.address(0), str(within_s)]
    with subprocess.Popen(listens) as listener:
        try:
            until(lambda: ":7 " in sockets(net), "it listens")
            return subprocess.run(connects, capture_output=True, check=False).returncode == 0
        finally:
            listener.kill()


def sockets(net: Network) -> str:
    """Local addresses of host 0 where somebody listens."""
    table = subprocess.run(
        [*net.prefix(0), "cat", "/proc/net/tcp"], capture_output=True, text=True, check=True
    )
    return " ".join(
        f":{int(line.split()[1].partition(':')[2], 16)} "
        for line in table.stdout.splitlines()[1:]
        if " 0A " in line
    )


def test_hosts_hear_each_other_until_either_direction_is_cut() -> None:
    with network(2) as net:
        assert reaches(net, within_s=20)
        net.cut(1, 0)
        assert not reaches(net, within_s=0.5)
        net.mend(1, 0)
        net.cut(0, 1)
        assert not reaches(net, within_s=0.5), "the answer is lost"
        net.mend(0, 1)
        net.lose(0, 99)
        assert not reaches(net, within_s=0.5)
        net.lose_none(0)
        assert reaches(net, within_s=20)


def as_a_test_that_fails(kept: list[Network]) -> None:
    with network(2) as net:
        kept.append(net)
        assert len(net.left()) == 3
        raise RuntimeError("in the middle of it")


def test_nothing_is_left_of_a_network_of_a_test_that_failed() -> None:
    kept: list[Network] = []
    with pytest.raises(RuntimeError, match="in the middle"):
        as_a_test_that_fails(kept)
    assert kept[0].left() == []
    assert not set(kept[0].namespaces) & set(namespaces())
