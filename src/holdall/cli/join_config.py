"""The configuration of a node that joins: the one that is there, or one written with what is found on this host."""

import socket
import sys
from pathlib import Path

from holdall.cli.init_config import Found, config_text, find_units, host_name, told
from holdall.model.errors import BadConfig
from holdall.model.names import is_name
from holdall.node.host_lock import owner_now
from holdall.node.settings import CONFIG_NAME, find_config, load_settings
from holdall.node.sockets import answers


def config_to_join(config: Path | None, state: Path | None, name: str) -> Path:
    """The file with which the node is to start, now and later.

    `state` and `name` go into a new file; one that is there must say the same. Raises BadConfig.
    """
    path = config or find_config() or Path(CONFIG_NAME)
    if not path.exists():
        return _written(path, state, name)
    settings = load_settings(path)
    if answers(settings.socket):
        raise BadConfig(
            f"{settings.name} runs with {path} at the moment. Stop it first; then the same line lets it join, and what "
            f"is held of it stays held: holdall join CODE --config {path}"
        )
    if name and settings.name != name:
        raise BadConfig(
            f'{path} gives this node the name "{settings.name}". Set [node].name = "{name}" there, or name a file '
            "that is to be made: --config FILE"
        )
    if state is not None and settings.state != state.absolute():
        raise BadConfig(
            f'{path} says state = "{settings.state}". Change it there, or name a file that is to be made: --config FILE'
        )
    return path


def _written(path: Path, state: Path | None, name: str) -> Path:
    if name and not is_name(name):
        raise BadConfig(f'--name "{name[:80]}" is no node name (a-z, 0-9, ".", "_", "-"; at most 63)')
    found = find_units()
    _nobody_serves(found)
    node = [] if state is None else [f'state = "{state.absolute()}"']
    if not _is_free(7420):
        node.append('listen = "off"              # /healthz: port 7420 was in use when this was written')
    head, _, rest = config_text(found, name or host_name()).partition("\n\n")
    try:
        path.write_text("\n".join([head, *node, "", rest]), encoding="utf-8")
    except OSError as problem:
        raise BadConfig(
            f"{path} can't be written ({problem.strerror}). Choose another place: --config FILE"
        ) from problem
    sys.stderr.write(f"{told(found)}wrote     {path}\n")
    return path


def _nobody_serves(found: list[Found]) -> None:
    """A second node of this host could not give the same units. Nothing has been written or asked when that is told."""
    for one in found:
        owner = owner_now(one.pool)
        if owner is not None:
            raise BadConfig(
                f'{one.pool} of this host is served by node "{owner.node}" (process {owner.pid}, state {owner.state}), '
                "and two nodes never give one device twice. To have that node join: stop it, then name the "
                "configuration that it was started with, and what is held of it stays held: holdall join CODE --config "
                f"FILE. For a second node here: write a configuration without pool {one.pool}, and name that"
            )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
