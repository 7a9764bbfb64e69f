"""What `holdall serve` prints when it is up: pools, socket, quarantine, and the next command."""

from typing import Protocol

from holdall.model.durations import show_duration
from holdall.node import paths
from holdall.node.clock import boottime_ms
from holdall.node.configured import Settings
from holdall.node.front import Front

POOLS_SHOWN_MAX = 12


class Serving(Protocol):
    """What is told about a service."""

    settings: Settings
    start_kind: str
    quarantine_end_ms: int
    front: Front


def announcement(service: Serving, *, why_not: str = "", login: str = "") -> str:
    """Some lines, each with its subject in front. `why_not`: why no other node can join here; empty: one can.

    `login`: a code that opens the dashboard once.
    """
    settings = service.settings
    lines = [f"node       {settings.name} ({_START[service.start_kind]}), state in {settings.state}"]
    lines += _pools(settings)
    lines.append(f"socket     {settings.socket}")
    if service.front.address is not None:
        host, port = service.front.address
        shown = f"[{host}]" if ":" in host else host
        at = f"{'http' if settings.http.certificate is None else 'https'}://{shown}:{port}"
        lines.append(f"health     {at}/healthz")
        lines.append(
            f"dashboard  {at}/{f'login?code={login} (opens it once, within 10 minutes)' if login else ''}"
        )
    left = service.quarantine_end_ms - boottime_ms() if service.quarantine_end_ms else 0
    if left > 0:
        lines.append(
            f"quarantine nothing is granted for {show_duration(left)}: leases of an earlier node may be alive. "
            "Where no lease of this host can be alive: holdall serve --new"
        )
    lines.append(f"join       {why_not or _JOINABLE}")
    lines.append(f"next       {_next(settings)}")
    return "\n".join(lines) + "\n"


_JOINABLE = "the line `holdall join …` below lets one node in, for an hour. Another one: holdall join"
_START = {
    "first": "first start",
    "same": "restarted with its journal",
    "reboot": "restarted after a reboot of this host",
    "lost": "no journal found: it may have had one",
}


def _pools(settings: Settings) -> list[str]:
    if not settings.pools:
        return ["pools      none. Add a [[pool]] to the configuration, then: kill -HUP this process"]
    lines: list[str] = []
    for pool in settings.pools[:POOLS_SHOWN_MAX]:
        count = len(pool.units)
        reach = ", this host only" if pool.reach == "host" else ""
        units = "1 unit" if count == 1 else f"{count} units"
        labels = "".join(f",{key}={value}" for key, value in sorted(pool.labels.items()))
        lines.append(f"pool       {pool.name}{labels}: {units}{reach}")
    more = len(settings.pools) - POOLS_SHOWN_MAX
    if more > 0:
        lines.append(f"pool       and {more} more: holdall pools")
    return lines


def _next(settings: Settings) -> str:
    usual = (paths.run_folder() / paths.SOCKET_NAME, paths.user_state() / paths.SOCKET_NAME)
    where = "" if settings.socket in usual else f"HOLDALL_URL=unix://{settings.socket} "
    if not settings.pools:
        return f"{where}holdall pools"
    return f"{where}holdall run --need {settings.pools[0].name}:1 -- COMMAND"
