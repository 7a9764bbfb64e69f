"""Hosts in a network of their own: a namespace each, joined by a bridge, cut and made lossy with nft.

Everything lies in namespaces with names of this run alone, the bridge too: nothing of the machine's own network is
touched, and deleting the namespaces leaves nothing.
"""

import contextlib
import secrets
import subprocess
from collections.abc import Generator

NET = "10.77.0"
INTERFACE = "eth0"
_RULES = """
add table inet chaos
add set inet chaos cut { type ipv4_addr; }
add chain inet chaos arriving { type filter hook input priority 0; }
add chain inet chaos lossy
add rule inet chaos arriving ip saddr @cut drop
add rule inet chaos arriving iifname "eth0" jump lossy
"""


class Network:
    """So many hosts; a host is named by its number, from 0."""

    def __init__(self, hosts: int) -> None:
        self._mark = f"hd{secrets.token_hex(3)}"
        self._bridge = f"{self._mark}-x"
        self._hosts = [f"{self._mark}-{number}" for number in range(hosts)]

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self._bridge, *self._hosts)

    def open(self) -> None:
        _ip("netns", "add", self._bridge)
        _ip("-n", self._bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._bridge, "link", "set", "br0", "up")
        for number, name in enumerate(self._hosts):
            _ip("netns", "add", name)
            port = f"p{number}"
            link = ["link", "add", INTERFACE, "type", "veth", "peer", "name", port, "netns", self._bridge]
            _ip("-n", name, *link)
            _ip("-n", self._bridge, "link", "set", port, "master", "br0", "up")
            _ip("-n", name, "addr", "add", f"{self.address(number)}/24", "dev", INTERFACE)
            _ip("-n", name, "link", "set", INTERFACE, "up")
            _ip("-n", name, "link", "set", "lo", "up")
            self._nft(number, _RULES)

    def close(self) -> None:
        """Idempotent; raises nothing, so that the rest of a tidying goes on."""
        for name in self.namespaces:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def left(self) -> list[str]:
        """The namespaces of this run that still exist."""
        return [name for name in namespaces() if name.startswith(self._mark)]

    def address(self, host: int) -> str:
        return f"{NET}.{host + 1}"

    def prefix(self, host: int) -> tuple[str, ...]:
        """Words before a command, so that it runs on that host; they are replaced by it (exec)."""
        return ("ip", "netns", "exec", self._hosts[host])

    def processes(self, host: int) -> list[int]:
        """Process ids of all that runs on a host."""
        return [int(pid) for pid in _ip("netns", "pids", self._hosts[host]).split()]

    def cut(self, sender: int, receiver: int) -> None:
        """What `sender` sends no longer gets to `receiver`."""
        self._nft(receiver, f"add element inet chaos cut {{ {self.address(sender)} }}")

    def mend(self, sender: int, receiver: int) -> None:
        self._nft(receiver, f"delete element inet chaos cut {{ {self.address(sender)} }}")

    def lose(self, host: int, percent: int) -> None:
        """So many of the packets that get to a host are lost, at random."""
        self._nft(host, f"add rule inet chaos lossy numgen random mod 100 < {percent} drop")

    def lose_none(self, host: int) -> None:
        self._nft(host, "flush chain inet chaos lossy")

    def _nft(self, host: int, rules: str) -> None:
        command = [*self.prefix(host), "nft", "-f", "-"]
        subprocess.run(command, input=rules, text=True, check=True, capture_output=True)


def namespaces() -> list[str]:
    """Names of all network namespaces of this machine."""
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]


@contextlib.contextmanager
def network(hosts: int) -> Generator[Network]:
    """Torn down whatever happens."""
    made = Network(hosts)
    try:
        made.open()
        yield made
    finally:
        made.close()


def _ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
