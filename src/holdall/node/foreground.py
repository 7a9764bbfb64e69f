"""A node in the foreground of a terminal or a service manager: signals, file limits, and what it prints."""

import asyncio
import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

from holdall.model.errors import BadConfig, Refused
from holdall.node.announce import announcement
from holdall.node.configured import Settings
from holdall.node.logins import make_login
from holdall.node.service import Service
from holdall.node.service_manager import ServiceManager, status_text
from holdall.node.settings import find_config, read_settings
from holdall.node.sockets import user_name


def serve(
    config: Path | None = None,
    *,
    new: bool = False,
    trace: Path | None = None,
    state: Path | None = None,
    code: str = "",
) -> int:
    """Run a node in the foreground until SIGTERM or SIGINT; SIGHUP reloads its pools. Returns the exit status.

    With a join code it joins a system first. Raises BadConfig (78) when it can't start, NodeFailed (70) when it can't
    go on, and for a code BadSpec (64), Unreachable (69) or Refused (77).
    """
    path = config or find_config()
    if path is None:
        raise BadConfig("no configuration found. Make one with: holdall init")
    settings = read_settings(path, state=state)
    _raise_file_limit()
    return asyncio.run(_serve(settings, new=new, trace=trace, code=code))


async def _serve(settings: Settings, *, new: bool, trace: Path | None, code: str) -> int:
    manager = ServiceManager.from_environment()
    service = Service(settings, new=new, trace=trace, code=code)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, service.stop, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, _reload, service, manager)
    signs_of_life = loop.create_task(manager.keep_told(service.health))
    try:
        await service.start()
        _announce(service)
        manager.ready(status_text(service.health()))
        await service.until_stopped()
    finally:
        manager.stopping()
        signs_of_life.cancel()
        await service.close()
        manager.close()
    return 0


def _reload(service: Service, manager: ServiceManager) -> None:
    serves = service.health()["ok"]
    if serves:
        manager.reloading()
    service.reload()
    if serves:
        manager.ready(status_text(service.health()))


def _announce(service: Service) -> None:
    """What people read on stderr; the line that joins another node, which scripts read too, on stdout."""
    line, why_not = "", ""
    if service.seat.is_server:
        line = f"holdall join {service.seat.join_code()}"
    else:
        try:
            service.seat.join_code()
        except Refused as refusal:
            why_not = refusal.text
    login = ""
    if service.front.address is not None and sys.stderr.isatty():
        # A log that is kept is no place for it.
        uid = os.geteuid()
        login = make_login(service.settings.state, uid=uid, user=user_name(uid))
    sys.stderr.write(announcement(service, why_not=why_not, login=login))
    sys.stderr.flush()
    if line:
        # Whoever does not read it (a closed pipe) does not keep the node from serving.
        with contextlib.suppress(BrokenPipeError):
            os.write(sys.stdout.fileno(), f"{line}\n".encode())


def _raise_file_limit() -> None:
    """Each connection is a file; the soft limit is often 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
