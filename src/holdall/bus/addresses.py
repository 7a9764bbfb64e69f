"""Under which addresses other hosts can reach this one."""

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Sequence

_SIOCGIFADDR = 0x8915
_INSIDE = ("lo", "docker", "br-", "veth", "virbr", "cni", "flannel", "podman")
"""Interfaces that lead to containers and machines inside this host only."""
ADDRESSES_MAX = 8
WILDCARDS = {"0.0.0.0", "::", ""}  # noqa: S104 (recognised, not bound)
PORT_MAX = 65_535 - 2
"""Two more ports follow the one of the setting."""


def reachable(host: str) -> tuple[str, ...]:
    """The addresses to tell others for a server that listens on `host`, the likeliest first."""
    if host not in WILDCARDS:
        return (host,)
    found = [*_routed(), *_of_interfaces()]
    return tuple(dict.fromkeys(found))[:ADDRESSES_MAX] or ("127.0.0.1",)


def local(host: str) -> str:
    """Where this host itself reaches a server that listens on `host`."""
    return {"::": "::1"}.get(host, "127.0.0.1") if host in WILDCARDS else host


def shown(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(text: str) -> bool:
    """Whether this is an IP address or can be a host's name."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.split(".")
        return len(text) <= 253 and all(
            0 < len(one) <= 63 and one.isascii() and one.replace("-", "a").isalnum() and one[0] != "-"
            for one in labels
        )
    return True


def is_loopback(hosts: Sequence[str]) -> bool:
    """Whether all of these lead to this host only."""
    return all(one == "localhost" or (_is_ip(one) and ipaddress.ip_address(one).is_loopback) for one in hosts)


def _is_ip(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _routed() -> list[str]:
    """The address that this host uses towards others; nothing is sent to find it."""
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((target, 9))
                address = str(probe.getsockname()[0])
            except OSError:
                continue
            if not ipaddress.ip_address(address).is_loopback:
                return [address]
    return []


def _of_interfaces() -> list[str]:
    """IPv4 addresses of the interfaces that lead out of this host."""
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            if name.startswith(_INSIDE):
                continue
            try:
                answer = fcntl.ioctl(asker, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # it has none
            found.append(socket.inet_ntoa(answer[20:24]))
    return found
