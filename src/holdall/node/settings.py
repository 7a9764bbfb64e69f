"""Reads a node's TOML file into `Settings`, or refuses it with file, line, key and the next step.

What a later version will understand is refused by name, never ignored: a `[[grant]]` that does nothing
would let people believe that access is restricted.
"""

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from holdall.model.errors import BadConfig
from holdall.model.names import is_name, is_unit_name, pool_id, variable_part
from holdall.node import paths
from holdall.node.bus_settings import read_bus
from holdall.node.configured import (
    ACCOUNT_DAYS_MAX,
    ACCOUNT_DAYS_MIN,
    PASSES_MAX,
    POOLS_PER_NODE_MAX,
    TTL_MAX_MS_MAX,
    UNITS_PER_NODE_MAX,
    Defaults,
    NodeSettings,
    PoolSettings,
    Settings,
)
from holdall.node.http_settings import HttpSettings, read_http
from holdall.node.location.settings import read_negotiation, read_policy_files, read_terms
from holdall.node.toml_table import Source, Table
from holdall.parties.location.turns import TURN
from holdall.parties.runs.permission import entry_problem
from holdall.protocols.registry import PROTOCOLS

_LATER_TOP = {
    "grant": "whoever may open the socket may claim; leave [[grant]] out so that nobody counts on it.",
    "rule": "whoever may open the socket may claim; leave [[rule]] out so that nobody counts on it.",
}
_TOP = ("node", "bus", "defaults", "pool", "capacity", "function", "location", "policy", "http")
_PROTOCOLS = dict.fromkeys(sorted(PROTOCOLS), "")
_FILE_BYTES_MAX = 32 * 1024 * 1024
_LABELS_MAX = 32
RUN_FROM_MAX = 1000
_LABEL_VALUE_RE = re.compile(r"[A-Za-z0-9._+/-]{1,128}\Z")
_BRACES_RE = re.compile(r"(?<!\$)\{([a-z_]{1,20})\}")
PLACEHOLDERS = ("unit", "pool", "fence", "lease")


CONFIG_NAME = "holdall.toml"


def find_config() -> Path | None:
    """The file used when none is named: in this folder, else the user's, else the system's."""
    own = os.environ.get("XDG_CONFIG_HOME")
    folder = Path(own) if own else Path("~/.config").expanduser()
    places = (Path(CONFIG_NAME), folder / "holdall" / CONFIG_NAME, Path("/etc/holdall") / CONFIG_NAME)
    return next((place for place in places if place.is_file()), None)


def load_settings(path: Path | None = None, *, state: Path | None = None) -> Settings:
    """The settings in `path`, or in the file found without it; the defaults without pools when there is none."""
    found = path or find_config()
    if found is None:
        return parse_settings("", state=state)
    return read_settings(found, state=state)


def read_settings(path: Path, *, state: Path | None = None) -> Settings:
    """The file's settings; `state` (from the command line) wins over `[node].state`. Raises BadConfig."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise BadConfig(f"no configuration at {path}. Make one with: holdall init {path}") from None
    except OSError as error:
        raise BadConfig(f"can't read {path}: {error.strerror}. Check the path and its permissions.") from None
    if len(raw) > _FILE_BYTES_MAX:
        raise BadConfig(f"{path} has {len(raw):,} bytes; at most {_FILE_BYTES_MAX:,} are read.")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadConfig(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    return parse_settings(text, name=str(path), path=path, state=state)


def parse_settings(
    text: str, *, name: str = "holdall.toml", path: Path | None = None, state: Path | None = None
) -> Settings:
    """As `read_settings`, from the text of a file that is shown as `name`."""
    try:
        values: dict[str, object] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadConfig(f"{name}: not TOML: {error}. See: holdall init, which writes a valid file.") from None
    except RecursionError:
        raise BadConfig(f"{name}: not TOML: nested too deeply.") from None
    source = Source(name, text)
    Table(source, values, "", known=_TOP, later=_LATER_TOP)
    http = read_http(
        Table(source, _table(source, values, "http"), "[http]", known=HttpSettings.__struct_fields__), path
    )
    node = _node(source, _table(source, values, "node"), path, state, with_tls=http.certificate is not None)
    bus = read_bus(source, _table(source, values, "bus"), path) if "bus" in values else None
    defaults = _defaults(source, _table(source, values, "defaults"))
    pools = _pools(source, values)
    capacities, functions = read_terms(
        source, values, taken=frozenset({TURN, *(pool.name for pool in pools)})
    )
    if (capacities or functions) and not node.location:
        raise BadConfig(
            f'{name}: [[capacity]] and [[function]] are offered at a location: write location = "NAME" below [node]'
        )
    return Settings(
        node=node,
        defaults=defaults,
        pools=pools,
        path=path,
        bus=bus,
        capacities=capacities,
        functions=functions,
        negotiation=read_negotiation(source, _table(source, values, "location")),
        policy=read_policy_files(source, _table(source, values, "policy"), path),
        http=http,
    )


def host_name() -> str:
    """This host's name as a node name: lower case, every other character `-`."""
    short = socket.gethostname().partition(".")[0].lower()
    cleaned = re.sub(r"[^a-z0-9._-]", "-", short).lstrip("._-")[:63]
    return cleaned or "localhost"


def _table(source: Source, values: Mapping[str, object], name: str) -> dict[str, object]:
    try:
        return msgspec.convert(values.get(name, {}), dict[str, object])
    except msgspec.ValidationError:
        raise BadConfig(
            f"{source.name}: {name} must be a table: write [{name}] on a line of its own"
        ) from None


def _node(
    source: Source, values: Mapping[str, object], path: Path | None, state: Path | None, *, with_tls: bool
) -> NodeSettings:
    table = Table(
        source,
        values,
        "[node]",
        known=("name", "listen", "state", "location", "run_from", "run_as", "account_days"),
    )
    name = table.text("name", host_name())
    if not is_name(name):
        raise table.bad("name", f'name = "{name[:80]}" is no node name (a-z, 0-9, ".", "_", "-"; at most 63)')
    location = table.text("location", "")
    if location and not is_name(location):
        raise table.bad(
            "location", f'location = "{location[:80]}" is no name (a-z, 0-9, ".", "_", "-"; at most 63)'
        )
    system = state is None and not table.has("state") and paths.is_system()
    if state is None:
        state = Path(table.text("state", str(paths.default_state()))).expanduser()
        if not state.is_absolute() and path is not None:
            state = path.parent / state
    state = Path(state).expanduser().absolute()
    listens = (state / paths.SOCKET_NAME, paths.run_folder() / paths.SOCKET_NAME)
    if problem := paths.socket_path_problem(listens[1] if system else listens[0]):
        raise table.bad("state", problem)
    return NodeSettings(
        name=name,
        state=state,
        listen=_listen(table, with_tls=with_tls),
        location=location,
        system=system,
        run_from=_run_from(table),
        run_as=_run_as(table),
        account_days=table.count("account_days", 400, least=ACCOUNT_DAYS_MIN, most=ACCOUNT_DAYS_MAX),
    )


def _run_from(table: Table) -> tuple[str, ...]:
    entries = table.texts("run_from")
    for entry in entries:
        if problem := entry_problem(entry):
            raise table.bad("run_from", f'{problem}: write "NODE", "USER@NODE", or "*" for every node')
    if len(entries) > RUN_FROM_MAX:
        raise table.bad("run_from", f"{len(entries)} entries; at most {RUN_FROM_MAX}")
    return entries


def _run_as(table: Table) -> str:
    user = table.text("run_as", "", length_max=64)
    if table.has("run_as") and (not user.strip() or "@" in user or ":" in user):
        raise table.bad("run_as", f'run_as = "{user[:64]}" must be the name of a user of this host')
    return user


def _listen(table: Table, *, with_tls: bool) -> tuple[str, int] | None:
    value = table.text("listen", "127.0.0.1:7420")
    if value in {"", "off"}:
        return None
    host, port, is_loopback = table.address("listen", value, example='"127.0.0.1:7420", or "off"')
    if not is_loopback and not with_tls:
        raise table.bad(
            "listen",
            f'listen = "{value[:80]}": only loopback addresses go without TLS. Write "127.0.0.1:7420", '
            "or give [http] certificate and key.",
        )
    return host, port


def _defaults(source: Source, values: Mapping[str, object]) -> Defaults:
    known = tuple(
        field.removesuffix("_ms") if field.endswith("_ms") else field for field in Defaults.__struct_fields__
    )
    table = Table(source, values, "[defaults]", known=known)
    base = Defaults()
    margin = table.duration("margin", base.margin_ms, least=10, most=60_000)
    ttl_max = table.duration("ttl_max", base.ttl_max_ms, least=2 * margin, most=TTL_MAX_MS_MAX)
    if table.has("ttl"):
        ttl = table.duration("ttl", base.ttl_ms, least=2 * margin, most=ttl_max)
    else:
        ttl = min(base.ttl_ms, ttl_max)
    return Defaults(
        ttl_ms=ttl,
        wait_ms=table.duration_or_inf("wait", base.wait_ms),
        protocol=table.choice("protocol", base.protocol, _PROTOCOLS),
        ttl_max_ms=ttl_max,
        margin_ms=margin,
        passes=table.count("passes", base.passes, least=0, most=PASSES_MAX),
        passes_per_ahead=table.count("passes_per_ahead", base.passes_per_ahead, least=0, most=PASSES_MAX),
        durability=table.choice("durability", base.durability, {"process": "", "power": ""}),
    )


def _pools(source: Source, values: Mapping[str, object]) -> tuple[PoolSettings, ...]:
    try:
        listed = msgspec.convert(values.get("pool", []), list[dict[str, object]])
    except msgspec.ValidationError:
        raise BadConfig(f"{source.name}: pool must be written as [[pool]], once for each pool") from None
    if len(listed) > POOLS_PER_NODE_MAX:
        raise BadConfig(f"{source.name}: {len(listed):,} pools; at most {POOLS_PER_NODE_MAX:,} on one node")
    pools: list[PoolSettings] = []
    ids: set[str] = set()
    variables: dict[str, str] = {}
    units_of: dict[str, set[str]] = {}
    total = 0
    for index, item in enumerate(listed):
        table, pool = _pool(source, item, index)
        identity = pool_id(pool.name, pool.labels)
        if pool.name == TURN:
            raise table.bad(
                "name", f'name = "{TURN}" is taken: nodes of a location have that pool by themselves'
            )
        if identity in ids:
            raise table.bad(
                "name", f'name = "{pool.name}": pool {identity} is defined twice. Join their units.'
            )
        other = variables.setdefault(variable_part(pool.name), pool.name)
        if other != pool.name:
            variable = f"HOLDALL_UNITS_{variable_part(pool.name)}"
            raise table.bad(
                "name", f'name = "{pool.name}": pools {other} and {pool.name} map to one variable, {variable}'
            )
        known = units_of.setdefault(pool.name, set())
        for unit in pool.units:
            if unit in known:
                raise table.bad("units", f'unit "{unit}" of pool {pool.name} is named twice')
            known.add(unit)
        total += len(pool.units)
        if total > UNITS_PER_NODE_MAX:
            raise table.bad("units", f"more than {UNITS_PER_NODE_MAX:,} units on one node")
        ids.add(identity)
        pools.append(pool)
    return tuple(pools)


def _pool(source: Source, values: Mapping[str, object], index: int) -> tuple[Table, PoolSettings]:
    known = (
        "name",
        "units",
        "count",
        "labels",
        "reach",
        "max_for",
        "cooldown",
        "on_grant",
        "on_release",
        "check",
        "hook_limit",
    )
    table = Table(source, values, "[[pool]]", known=known, index=index)
    name = table.text("name", "")
    if not is_name(name):
        raise table.bad(
            "name", f'name = "{name[:80]}" is no pool name (a-z, 0-9, ".", "_", "-"; at most 63; not empty)'
        )
    base = PoolSettings(name, ())
    pool = PoolSettings(
        name=name,
        units=_units(table),
        labels=_labels(table),
        reach=table.choice("reach", base.reach, {"system": "", "host": ""}),
        max_for_ms=table.duration_or_inf("max_for", base.max_for_ms),
        cooldown_ms=table.duration("cooldown", base.cooldown_ms),
        on_grant=_command(table, "on_grant"),
        on_release=_command(table, "on_release"),
        check=_command(table, "check"),
        hook_limit_ms=table.duration("hook_limit", base.hook_limit_ms, least=100, most=3_600_000),
    )
    if pool.max_for_ms is not None and pool.max_for_ms < 1000:
        raise table.bad("max_for", "max_for must be at least 1s")
    return table, pool


def _units(table: Table) -> tuple[str, ...]:
    if table.has("units") == table.has("count"):
        raise table.bad("", 'a pool needs either units = ["…"] or count = N')
    if table.has("count"):
        return tuple(
            str(number) for number in range(table.count("count", 0, least=1, most=UNITS_PER_NODE_MAX))
        )
    units = table.texts("units")
    if not units:
        raise table.bad("units", "units is empty: name at least one, or leave the pool out")
    for unit in units:
        if not is_unit_name(unit):
            raise table.bad(
                "units", f'"{unit[:80]}" is no unit name (letters, digits, ".", "_", "-"; at most 64)'
            )
    return units


def _labels(table: Table) -> dict[str, str]:
    labels = table.text_map("labels")
    if len(labels) > _LABELS_MAX:
        raise table.bad("labels", f"{len(labels)} labels; at most {_LABELS_MAX}")
    for key, value in labels.items():
        if not is_name(key) or not _LABEL_VALUE_RE.match(value):
            raise table.bad(
                "labels",
                f'label {key[:80]} = "{value[:80]}": keys are names, values letters, digits, ".", "_", "+", "/", "-"',
            )
    return labels


def _command(table: Table, key: str) -> str:
    """A line for the shell. Other braces are the shell's; a placeholder that is nearly right is a mistake."""
    command = table.text(key, "")
    if command and not command.strip():
        raise table.bad(key, f"{key} is blank; leave it out")
    for match in _BRACES_RE.finditer(command):
        near = difflib.get_close_matches(match[1], PLACEHOLDERS, n=1, cutoff=0.7)
        if match[1] not in PLACEHOLDERS and near:
            raise table.bad(key, f"{key} has {{{match[1]}}}. Did you mean {{{near[0]}}}?")
    return command
