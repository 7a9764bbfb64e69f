"""What a node keeps of its system: who it is in it, the servers, and on nodes with a server the secrets of the system.

All of it lies in one folder (`state/bus`), for its owner only. Files: docs/internals/bus.md.
"""

import secrets as randomness
from collections.abc import Mapping
from pathlib import Path
from time import time
from typing import Literal

import msgspec

from holdall.bus import certificates, claims, keys
from holdall.bus.addresses import local, shown
from holdall.bus.connection import Login
from holdall.bus.files import make_private_folder, read_secret, read_value, write_secret, write_value
from holdall.bus.identity import NodeKey
from holdall.bus.members import Members, ServerEntry
from holdall.model.errors import BadConfig

HOME = "bus"
"""The folder below a node's state folder."""
MEMBERSHIP = "membership.json"
SECRETS = "secrets.json"
MEMBERS = "members.json"
AUTHORITY = "authority.pem"
CERTIFICATE = "tls.pem"
PRIVATE_KEY = "tls.key"
RIGHTS = "rights.jwt"
SERVERS_WANTED = 3
"""So many nodes of a system run a server; any one of them may be lost, and two of three still know each other."""


class Facts(msgspec.Struct, frozen=True):
    """What all nodes of a system must agree on, as safety counts on it."""

    protocol: str
    ttl_max_ms: int
    rho_ppm: int
    """Bound of the difference of clock rates, in millionths."""

    def differs(self, other: "Facts") -> str:
        """The first difference in words, from the point of view of the node that has `self`; empty: none."""
        for name, words in (
            ("protocol", "protocol"),
            ("ttl_max_ms", "ttl_max (ms)"),
            ("rho_ppm", "clock bound (ppm)"),
        ):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                return f"{words} is {mine} here and {theirs} in the system"
        return ""


class Membership(msgspec.Struct, frozen=True, kw_only=True):
    """A node's place in its system."""

    version: Literal[1] = 1
    system: str
    """What subjects say; made up at the founding."""
    node: str
    public: str
    facts: Facts
    listen: tuple[str, int] | None
    """Where this node's own server listens; None: it runs none."""
    servers: tuple[ServerEntry, ...]
    """All servers that it knows of, its own included."""


class Secrets(msgspec.Struct, frozen=True):
    """Of the system; whoever has them can let nodes in, and so only nodes with a server do."""

    operator: str
    account: str
    system_account: str
    """Public half of the account in which servers speak with each other. Its seed is thrown away: nobody logs in there."""
    authority_key: str
    routes: str
    """Password between servers: a member's certificate alone must not make it a server."""

    def __repr__(self) -> str:
        return "Secrets(…)"


class System:
    """The files of the bus of one node, read and checked."""

    def __init__(
        self, folder: Path, membership: Membership, secrets: Secrets | None, members: Members
    ) -> None:
        """Use `load`, `found` or `join.enter`."""
        self.folder = folder
        self.membership = membership
        self.secrets = secrets
        self.members = members
        self.authority = read_secret(folder / AUTHORITY)

    @property
    def account(self) -> str:
        """The account's public half; on nodes with a server."""
        return keys.public_half(self.need_secrets().account)

    def need_secrets(self) -> Secrets:
        """Raises BadConfig on a node without a server."""
        if self.secrets is None:
            raise BadConfig("this node runs no server of the bus; ask one that does (see `holdall doctor`).")
        return self.secrets

    def login(self, key: NodeKey) -> Login:
        """How this node gets in. Raises BadConfig when a file is missing or unfit."""
        return Login(
            rights=_need(self.folder / RIGHTS),
            sign=key.sign,
            tls=certificates.client_context(
                self.authority, self.folder / CERTIFICATE, self.folder / PRIVATE_KEY
            ),
            tls_name=certificates.SERVER_NAME,
            tls_first=True,
        )

    def urls(self) -> list[str]:
        """Addresses of all servers for clients, this node's own first."""
        own = self.membership.listen
        first = [f"tls://{shown(local(own[0]), own[1])}"] if own is not None else []
        others = [
            f"tls://{shown(host, entry.port)}"
            for entry in self.membership.servers
            if entry.node != self.membership.node
            for host in entry.hosts
        ]
        return list(dict.fromkeys([*first, *others]))

    def account_texts(self) -> dict[str, str]:
        """The nodes' account with what is revoked, and the servers' own, for the server's configuration."""
        secrets, now_s = self.need_secrets(), int(time())
        return {
            self.account: claims.account_text(secrets.operator, self.account, now_s, self.members.revoked),
            secrets.system_account: claims.account_text(secrets.operator, secrets.system_account, now_s, {}),
        }

    def set_servers(self, servers: Mapping[str, ServerEntry]) -> bool:
        """Remember these; whether anything changed."""
        fresh = tuple(entry for _, entry in sorted(servers.items()))
        if fresh == self.membership.servers:
            return False
        self.membership = msgspec.structs.replace(self.membership, servers=fresh)
        write_value(self.folder / MEMBERSHIP, self.membership)
        return True

    def save_members(self) -> None:
        """After a change of `members`."""
        write_value(self.folder / MEMBERS, self.members)

    def present_hosts(self, found: tuple[str, ...]) -> tuple[str, ...]:
        """The addresses that were found now, those first which others know already: they led here before."""
        known = next((one.hosts for one in self.membership.servers if one.node == self.membership.node), ())
        return tuple(dict.fromkeys([*(host for host in known if host in found), *found]))

    def settle_listen(self, listen: tuple[str, int], hosts: tuple[str, ...]) -> None:
        """On a node with a server: where it listens and under which addresses it is reached now.

        Makes a fresh certificate when the present one does not carry these addresses.
        """
        secrets = self.need_secrets()
        entry = ServerEntry(node=self.membership.node, hosts=hosts, port=listen[1])
        if not certificates.covers(_need(self.folder / CERTIFICATE).encode(), _dialled(hosts)):
            issue_own(self.folder, self.authority, secrets, self.membership.node, hosts)
        others = [one for one in self.membership.servers if one.node != entry.node]
        fresh = msgspec.structs.replace(
            self.membership, listen=listen, servers=tuple(sorted([*others, entry], key=lambda one: one.node))
        )
        if fresh != self.membership:
            self.membership = fresh
            write_value(self.folder / MEMBERSHIP, fresh)


def found(
    folder: Path, key: NodeKey, name: str, facts: Facts, *, listen: tuple[str, int], hosts: tuple[str, ...]
) -> System:
    """A new system with this node as its first. Membership is written last: without it there is no system."""
    make_private_folder(folder)
    system = "".join(randomness.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(12))
    authority_key = certificates.new_key()
    authority = certificates.new_authority(system, authority_key)
    secrets = Secrets(
        operator=keys.new_operator_seed(),
        account=keys.new_account_seed(),
        system_account=keys.public_half(keys.new_account_seed()),
        authority_key=authority_key.decode(),
        routes=randomness.token_hex(24),
    )
    write_secret(folder / AUTHORITY, authority)
    write_value(folder / SECRETS, secrets)
    issue_own(folder, authority.decode(), secrets, key.id, hosts)
    members = Members()
    member = members.add(node=key.id, public=key.public, name=name, server=True)
    write_secret(
        folder / RIGHTS, claims.user_text(secrets.account, key.public, system, key.id, member.since_s)
    )
    write_value(folder / MEMBERS, members)
    membership = Membership(
        system=system,
        node=key.id,
        public=key.public,
        facts=facts,
        listen=listen,
        servers=(ServerEntry(node=key.id, hosts=hosts, port=listen[1]),),
    )
    write_value(folder / MEMBERSHIP, membership)
    return System(folder, membership, secrets, members)


def load(folder: Path, key: NodeKey, facts: Facts) -> System | None:
    """The system that this node belongs to; None: none.

    Raises BadConfig when the files can't be used, belong to another node, or the system agreed on other facts.
    """
    try:
        membership = read_value(folder / MEMBERSHIP, Membership)
    except FileNotFoundError:
        return None
    make_private_folder(folder)
    if membership.public != key.public:
        raise BadConfig(
            f"{folder} belongs to the node {membership.node}, and this node's key is another one. A state folder "
            "can't be put together from two nodes: bring the key back, or remove the folder and join again."
        )
    if difference := facts.differs(membership.facts):
        raise BadConfig(
            f"{difference}. All nodes of a system share it: set it back here, or remove {folder} to leave the system."
        )
    for name in (AUTHORITY, CERTIFICATE, PRIVATE_KEY, RIGHTS):
        _need(folder / name)
    try:
        members = read_value(folder / MEMBERS, Members)
    except FileNotFoundError:
        members = Members()
    secrets = None
    if membership.listen is not None:
        try:
            secrets = read_value(folder / SECRETS, Secrets)
        except FileNotFoundError:
            raise BadConfig(_missing(folder / SECRETS)) from None
    return System(folder, membership, secrets, members)


def issue_own(folder: Path, authority: str, secrets: Secrets, node: str, hosts: tuple[str, ...]) -> None:
    """A key and a certificate for this node's own server, which is also its client certificate."""
    key = certificates.new_key()
    certificate = certificates.issue(
        authority.encode(),
        secrets.authority_key.encode(),
        certificates.request(node, key),
        node,
        addresses=_dialled(hosts),
    )
    write_secret(folder / PRIVATE_KEY, key)
    write_secret(folder / CERTIFICATE, certificate + authority.encode())


def _dialled(hosts: tuple[str, ...]) -> tuple[str, ...]:
    return (*hosts, "127.0.0.1", "::1", "localhost")


def _need(path: Path) -> str:
    try:
        return read_secret(path)
    except FileNotFoundError:
        raise BadConfig(_missing(path)) from None


def _missing(path: Path) -> str:
    return f"{path} is missing. Bring it back from a copy, or remove {path.parent} and join again."
