"""From settings to the bus of a node: its own system's, somebody else's NATS cluster, or none."""

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path

from holdall.bus.addresses import PORT_MAX, reachable
from holdall.bus.claims import read_creds
from holdall.bus.connection import Login
from holdall.bus.files import read_secret
from holdall.bus.identity import NodeKey
from holdall.bus.keys import sign
from holdall.bus.leadership_kv import KvLeadership
from holdall.bus.log import Log
from holdall.bus.nats import NatsBus
from holdall.bus.service import OwnBus, anybody
from holdall.bus.subjects import is_system_name, needed_elsewhere
from holdall.bus.system import HOME, MEMBERSHIP, Facts, found, load
from holdall.model.errors import BadConfig

FOREIGN_SYSTEM = "holdall"
"""How a system is called in the subjects of a NATS cluster that somebody else runs, where the settings say nothing."""


def make_bus(
    folder: Path,
    key: NodeKey,
    *,
    name: str,
    facts: Facts,
    log: Log,
    listen: tuple[str, int] | None = None,
    advertise: Sequence[str] = (),
    servers: Sequence[str] = (),
    creds: Path | None = None,
    system: str = FOREIGN_SYSTEM,
    program: Path | None = None,
    may_join: Callable[[str, str], str] = anybody,
    on_notice: Callable[[str, bytes], None] | None = None,
) -> OwnBus | NatsBus | None:
    """The bus of a node whose state folder is `folder`; None: it stands alone. Nothing is opened yet.

    `listen` (host, port) without a membership founds a system. `advertise`: addresses to tell others in place of
    those found. `servers` and `creds`: a NATS cluster that somebody else runs, where the system has the name `system`.
    `on_notice`: hears what nodes tell all others there (`NatsBus.announce`); on servers of their own the bus itself does.
    `may_join` (name, id): why a node that wants to join can't have this name; "" when it can.
    Raises BadConfig for what waiting can't mend.
    """
    home = folder / HOME
    if servers:
        if (home / MEMBERSHIP).exists():
            raise BadConfig(
                f"[bus].servers names other servers, but this node belongs to a system with servers of its own ({home}). "
                "Take servers out of [bus], or remove that folder to leave the system."
            )
        return foreign_bus(key, servers=servers, creds=creds, system=system, log=log, on_notice=on_notice)
    if listen is not None and not 0 < listen[1] <= PORT_MAX:
        raise BadConfig(
            f"[bus].listen: the port must be between 1 and {PORT_MAX}, as two more ports follow it."
        )
    known = load(home, key, facts)
    if known is None:
        if listen is None:
            return None
        hosts = tuple(advertise) or reachable(listen[0])
        known = found(home, key, name, facts, listen=listen, hosts=hosts)
        log.info("a new system was founded", system=known.membership.system, node=key.id)
    elif (place := known.membership.listen) is not None:
        place = listen or place
        known.settle_listen(place, tuple(advertise) or known.present_hosts(reachable(place[0])))
    elif listen is not None:
        log.info("this node runs no server of the bus, as others do; [bus].listen has no effect")
    return OwnBus(known, key, program=program, log=log, may_join=may_join)


def foreign_bus(
    key: NodeKey,
    *,
    servers: Sequence[str],
    creds: Path | None,
    system: str,
    log: Log,
    on_notice: Callable[[str, bytes], None] | None = None,
) -> NatsBus:
    """The bus over servers that somebody else runs. Raises BadConfig."""
    urls = _foreign_urls(servers, system)
    return NatsBus(
        system,
        key.id,
        servers=lambda: urls,
        login=_foreign_login(urls, creds),
        log=log,
        on_notice=on_notice,
        foreign=True,
    )


def foreign_leadership(
    key: NodeKey,
    location: str,
    *,
    servers: Sequence[str],
    creds: Path | None,
    log: Log,
    system: str = FOREIGN_SYSTEM,
) -> KvLeadership:
    """A candidate for the manager of a location, in the JetStream of servers that somebody else runs. Raises BadConfig."""
    urls = _foreign_urls(servers, system)
    login = _foreign_login(urls, creds)
    return KvLeadership(system, location, key.id, servers=lambda: urls, login=login, log=log)


def _foreign_urls(servers: Sequence[str], system: str) -> list[str]:
    if not is_system_name(system):
        raise BadConfig(
            f"[bus].system = {system[:64]!r}: a name of letters a-z, digits and hyphens, at most 32."
        )
    return [_url(one) for one in servers]


def _foreign_login(urls: Sequence[str], creds: Path | None) -> Callable[[], Login]:
    def login() -> Login:
        tls = ssl.create_default_context() if any(url.startswith("tls://") for url in urls) else None
        if creds is None:
            return Login(tls=tls)
        try:
            rights, seed = read_creds(read_secret(creds))
        except FileNotFoundError:
            raise BadConfig(f"[bus].creds = {creds}: there is no such file.") from None
        except ValueError as problem:
            raise BadConfig(f"{creds} is no NATS credentials file: {problem}.") from None
        return Login(rights=rights, sign=lambda data: sign(seed, data), tls=tls)

    return login


def nats_config_text(nodes: Sequence[tuple[str, str]], system: str = FOREIGN_SYSTEM) -> str:
    """What `holdall nats-config` prints for (name, id) of some nodes: the permissions of each node's login.

    Two spellings: for accounts with nsc, and for users in a server's configuration file.
    """
    lines = [
        f"# holdall: permissions in the NATS account of the system {system!r}.",
        "# Each node needs a login of its own, as the servers must know who publishes.",
        "# What begins with $JS, $KV and _INBOX is for the election of the location's manager, where there is JetStream.",
    ]
    for name, node in nodes:
        publish, subscribe = needed_elsewhere(system, node)
        lines += [
            "",
            f"# node {name} ({node})",
            f"#   nsc add user --name {node} --allow-pub '{','.join(publish)}' --allow-sub '{','.join(subscribe)}'",
            "#   or in the server's configuration, beside the login's user and password or nkey:",
            "permissions: {",
            f"  publish: {{ allow: {_listed(publish)} }}",
            f"  subscribe: {{ allow: {_listed(subscribe)} }}",
            "}",
        ]
    return "\n".join(lines) + "\n"


def _listed(subjects: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{one}"' for one in subjects) + "]"


def _url(text: str) -> str:
    if text.startswith(("nats://", "tls://")):
        return text
    if "://" in text:
        raise BadConfig(
            f"[bus].servers: {text[:80]!r}: an address such as nats://HOST:4222 or tls://HOST:4222."
        )
    return f"nats://{text}"
